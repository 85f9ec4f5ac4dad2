"""The same people again: exact joint levels, against enumeration from the definition; three ways compared."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import pairwise, product

import pytest
from typer.testing import CliRunner

from tacit import Channel, Prior, Survey
from tacit.cli.everything import app
from tacit.designs import BeliefRule, compare_panel, optimal_binary, repaired_response
from tacit.mechanism import joint_level, layered, layered_level, persistent, repeated

COIN = Prior.uniform(["yes", "no"])
SKEWED = Prior.of({"a": 5, "b": 3, "c": 2})


def by_definition(likelihood, prior, transition, waves, reports) -> float:
    """The largest |ln lift| over all report sequences and possible paths, from an explicit table of all of them."""
    paths = {}
    for path in product(range(len(prior)), repeat=waves):
        chance = Fraction(prior.weights[path[0]], prior.total)
        for x, y in pairwise(path):
            chance *= transition[x][y]
        if chance:
            paths[path] = chance
    worst = 0.0
    for sent in product(range(reports), repeat=waves):
        given = {path: likelihood(path, sent) for path in paths}
        total = sum(paths[path] * given[path] for path in paths)
        for each in given.values():
            worst = max(worst, abs(math.log(each / total)))
    return worst


def stays(size: int):
    return [[Fraction(x == y) for y in range(size)] for x in range(size)]


def fresh(channels):
    return lambda path, sent: math.prod(
        (channel.likelihood(x, y) for channel, x, y in zip(channels, path, sent, strict=True)), start=Fraction(1)
    )


def test_two_reports_at_one_exceed_two():
    once = optimal_binary(COIN, 1)
    twice = joint_level([once, once])
    assert twice.exact
    assert twice.lip.epsilon == pytest.approx(2.336, abs=5e-4)
    assert not twice.lip.holds(Fraction(2))
    assert twice.lip.ratio == once.then(once).audit().lip.ratio
    assert twice.ldp.ratio == once.audit().ldp.ratio ** 2


@pytest.mark.parametrize("prior", [COIN, SKEWED, Prior.of({"a": 1, "b": 9})])
@pytest.mark.parametrize("persistence", [None, "0.7", "0"])
def test_joint_levels_are_those_of_the_definition_and_below_the_bound(prior, persistence, monkeypatch):
    channels = [repaired_response(prior, level) for level in (1, "0.5", "1.5")]
    moves = None if persistence is None else persistent(prior, persistence)
    found = joint_level(channels, moves)
    known = by_definition(fresh(channels), prior, moves or stays(len(prior)), 3, len(prior))
    assert found.exact
    assert found.lip.epsilon == pytest.approx(known, abs=1e-9)
    monkeypatch.setattr(repeated, "MOST_SEQUENCES", 1)
    bound = joint_level(channels, moves)
    assert not bound.exact
    assert bound.lip.epsilon == pytest.approx(2 * 3 - 1.5, abs=1e-6)
    assert found.lip.epsilon <= bound.lip.epsilon
    if persistence == "0":  # Independent answers: levels add.
        assert known == pytest.approx(3, abs=1e-6)


def test_levels_of_waves_under_a_transition_that_moves_the_distribution():
    """The marginal of a later wave is not the prior: the bound must use it."""
    rise = ((Fraction(1, 2), Fraction(1, 2)), (Fraction(0), Fraction(1)))
    channels = [optimal_binary(COIN, 1)] * 2
    found = joint_level(channels, rise)
    assert found.lip.epsilon == pytest.approx(by_definition(fresh(channels), COIN, rise, 2, 2), abs=1e-9)
    with pytest.raises(ValueError, match="sum to 1"):
        joint_level(channels, ((1, 0), (1, 1)))


@pytest.mark.parametrize(("prior", "waves"), [(COIN, 3), (Prior.of({"a": 1, "b": 4}), 3), (SKEWED, 2)])
@pytest.mark.parametrize("persistence", [None, "0.9"])
def test_the_belief_rule_meets_its_sum_with_equality(prior, waves, persistence):
    rule = BeliefRule.of(prior, "0.5", persistence=persistence)
    level = rule.level(waves).lip
    assert level.holds(Fraction(waves, 2))
    if len(prior) == 2:
        assert level.epsilon == pytest.approx(waves / 2, abs=1e-6)
    # From the definition: the channel of a wave depends on the earlier reports.
    moves = rule.transition or stays(len(prior))

    def likelihood(path, sent):
        return math.prod((rule.channel(sent[:t]).likelihood(path[t], sent[t]) for t in range(waves)), start=Fraction(1))

    if waves * len(prior) <= 8:
        assert level.epsilon == pytest.approx(by_definition(likelihood, prior, moves, waves, len(prior)), abs=1e-9)


def test_six_rounds_at_a_half():
    """Theory 9.6: 3.000 by the belief rule, 4.13 by six fixed channels."""
    once = optimal_binary(COIN, "0.5")
    fixed = joint_level([once] * 6, persistent(COIN, "0.9"))
    assert fixed.lip.epsilon == pytest.approx(4.13, abs=5e-3)
    rule = BeliefRule.of(COIN, "0.5", persistence="0.9").level(6)
    assert rule.lip.holds(Fraction(3))
    assert rule.lip.epsilon == pytest.approx(3, abs=1e-6)


def test_two_layers_of_an_answer_that_stays_reach_the_first_layer_only():
    first, second = optimal_binary(COIN, 2), optimal_binary(Prior.uniform(2), 1)
    assert layered_level(first, second, 10**6).lip == first.audit().lip
    one = layered(first, second)
    assert one.audit().lip.epsilon < 1
    # With many waves the stored report is learned, and no more: levels rise towards the first layer's.
    levels = []
    for waves in (1, 3, 8):
        rows = [
            [
                math.comb(waves, k)
                * sum(
                    int(first.weights[x, m]) * int(second.weights[m, 0]) ** k * int(second.weights[m, 1]) ** (waves - k)
                    for m in range(2)
                )
                for k in range(waves + 1)
            ]
            for x in range(2)
        ]
        levels.append(Channel.from_weights(COIN, rows).audit().lip)
    assert all(level.ratio <= first.audit().lip.ratio for level in levels)
    assert levels[0].epsilon < levels[1].epsilon < levels[2].epsilon
    assert levels[2].epsilon > 1.9
    # Fresh draws of the first layer itself are the named wrong answer: they exceed its level at once.
    assert not joint_level([first, first]).lip.holds(Fraction(2))


def test_two_layers_of_changing_answers_are_those_of_the_definition(monkeypatch):
    first, second = optimal_binary(COIN, 2), optimal_binary(Prior.uniform(2), 1)
    moves = persistent(COIN, "0.8")

    def likelihood(path, sent):
        return sum(
            first.likelihood(0, m[0])
            * first.likelihood(1, m[1])
            * math.prod((second.likelihood(m[x], y) for x, y in zip(path, sent, strict=True)), start=Fraction(1))
            for m in product(range(2), repeat=2)
        )

    found = layered_level(first, second, 3, moves)
    assert found.exact
    assert found.lip.epsilon == pytest.approx(by_definition(likelihood, COIN, moves, 3, 2), abs=1e-9)
    monkeypatch.setattr(repeated, "MOST_PATHS", 1)
    bound = layered_level(first, second, 3, moves)
    assert not bound.exact
    assert bound.lip.epsilon >= found.lip.epsilon


def test_the_ways_are_compared_at_the_same_level():
    found = compare_panel(COIN, "histogram", "0.5", 6, persistence="0.9")
    assert {row.way for row in found.rows} == {"fresh channels", "belief rule", "two layers"}
    assert all(row.level <= 3 + 1e-9 for row in found.rows)
    assert found.fresh_at_epsilon.level == pytest.approx(4.13, abs=5e-3)
    errors = {row.way: row.error for row in found.rows}
    assert errors["belief rule"] < 0.9 * errors["fresh channels"]
    assert found.recommended == min(errors, key=errors.__getitem__)
    stays = compare_panel(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), "0.5", 4)
    assert stays.recommended == "two layers"


def test_the_error_of_the_belief_rule_is_that_of_simulated_panels():
    import numpy as np

    from tacit import Task

    drawn, rule = np.random.default_rng(2), BeliefRule.of(COIN, 1, persistence="0.8")
    (row,) = (
        row for row in compare_panel(COIN, Survey("yes"), 1, 2, persistence="0.8").rows if row.way == "belief rule"
    )
    n, task, spread = 60_000, Task.of(Survey("yes")), 0.0
    held = drawn.integers(2, size=n)
    sent = (drawn.random(n) >= rule.channel([]).matrix[held, 0]).astype(int)
    spread += np.var(rule.channel([]).pseudo_values(task, sent)[:, 0])
    redrawn = drawn.random(n) >= 0.8
    held = np.where(redrawn, drawn.integers(2, size=n), held)
    values = np.zeros(n)
    for report in range(2):
        mine, channel = sent == report, rule.channel([report])
        reports = (drawn.random(mine.sum()) >= channel.matrix[held[mine], 0]).astype(int)
        values[mine] = channel.pseudo_values(task, reports)[:, 0]
    spread += np.var(values)
    assert values.mean() == pytest.approx(0.5, abs=5 * values.std() / math.sqrt(n))
    assert math.sqrt(spread / 2) == pytest.approx(row.error, rel=0.02)


def test_waves_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "priors.csv").write_text("value,probability\nyes,0.5\nno,0.5\n", encoding="utf-8")
    command = ["plan", "priors.csv", "--task", "histogram", "--epsilon", "0.5", "--waves", "4", "--persistence", "0.9"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    assert "Recommended: " in said.output
    told = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["panel"]
    assert (told["waves"], told["level"], len(told["ways"])) == (4, 2.0, 3)
    refused = CliRunner().invoke(
        app, ["plan", "priors.csv", "--task", "histogram", "--epsilon", "1", "--persistence", "1"]
    )
    assert refused.exit_code == 2
