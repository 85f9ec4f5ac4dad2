"""Ten waves of a drifting truth: a small run of the study, and that its columns say what they say."""

from __future__ import annotations

import numpy as np

from studies import waves


def test_a_small_run_covers_and_sounds_the_alarm_at_the_jump(monkeypatch):
    monkeypatch.setattr(waves, "WAVES", 3)
    monkeypatch.setattr(waves, "JUMP", 2)
    found = waves.simulate(4, people=20_000)
    assert found.truths.shape == (3, 5)
    assert found.runs == 4
    # The jump leaves the set and sounds the alarm; the set of the wave after it is wider and holds the truth.
    assert found.inside[0] == 4
    assert found.alarms[1] == 4
    assert found.inside[2] == 4
    assert found.radius[2] > 1.3 * found.radius[1]
    assert (found.covered[:3] / 4 > 0.7).all()
    assert np.all(found.truths.sum(axis=1) > 0.999)
