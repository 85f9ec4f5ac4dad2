"""Error and posteriors of the histogram, against the dense channel."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from tacit.mechanism.core_tail._core_tail import (
    CoreTail,
    histogram_gain,
    histogram_mse,
    mean_square_coverage,
    posterior,
    posterior_sum,
)
from tacit.mechanism.core_tail._rule import CORE_UNIT, POSITION_BITS, CoreState
from tacit.prior import Prior

HALF = CORE_UNIT // 2
STATES = (CoreState(3, 0), CoreState(1, 1), CoreState(1, 2, ((0, HALF),)))
CHANNELS = {
    "arc": CoreTail(
        prior=Prior.of([5, 1, 1, 3, 2, 4]), core=(), share=Fraction(1, 4), growth=Fraction(8), states=(CoreState(1, 0),)
    ),
    "long segment": CoreTail(
        prior=Prior.of([40, 1, 1, 3]), core=(), share=Fraction(1, 4), growth=Fraction(8), states=(CoreState(1, 0),)
    ),
    "core-tail": CoreTail(
        prior=Prior.of([6, 5, 1, 1, 3, 2, 4]), core=(0, 1), share=Fraction(1, 4), growth=Fraction(8), states=STATES
    ),
}


def dense(channel: CoreTail) -> tuple[np.ndarray, np.ndarray]:
    """Return Pr(x|y) and lambda(y) for every report, from exact counts."""
    rows = channel.to_rows()
    scale = sum(channel.weights) << 3 * channel.word_bits
    joint = np.array([[w * n / scale for n in row] for w, row in zip(channel.weights, rows, strict=True)])
    return joint / joint.sum(axis=0), joint.sum(axis=0)


def reports_of(channel: CoreTail) -> np.ndarray:
    return np.array([j << POSITION_BITS | s for j in range(len(channel.states)) for s in range(channel.cells)])


@pytest.mark.parametrize("name", CHANNELS)
def test_gain_and_mse_equal_the_dense_channel(name: str) -> None:
    channel = CHANNELS[name]
    belief, weight = dense(channel)
    prior = np.array(channel.weights) / sum(channel.weights)
    assert histogram_gain(channel) == pytest.approx(float(((belief - prior[:, None]) ** 2 @ weight).sum()), abs=1e-12)
    assert histogram_mse(channel) == pytest.approx(float((1 - (belief**2).sum(axis=0)) @ weight), abs=1e-12)


@pytest.mark.parametrize("name", CHANNELS)
def test_posterior_sum_equals_the_dense_channel(name: str) -> None:
    channel = CHANNELS[name]
    belief, _ = dense(channel)
    reports = reports_of(channel)
    for column, report in enumerate(reports):
        np.testing.assert_allclose(posterior(channel, int(report)), belief[:, column], atol=1e-12)
    picks = np.random.default_rng(2).integers(0, len(reports), 5000)
    np.testing.assert_allclose(posterior_sum(channel, reports[picks]), belief[:, picks].sum(axis=1), atol=1e-9)
    assert not posterior_sum(channel, reports[:0]).any()
    shifted = reports[picks] ^ 1
    assert abs(posterior_sum(channel, shifted[shifted % 8 < 4]) - belief[:, picks].sum(axis=1)).max() > 1


@pytest.mark.parametrize("cells", [1, 2, 5, 8])
def test_mean_square_coverage_by_enumeration(cells: int) -> None:
    for length in range(1, cells + 1):
        for arc in np.linspace(0, cells, 4 * cells + 1):
            whole = floor(arc)
            shape = [1.0] * whole + [arc - whole] * (whole < cells) + [0.0] * (cells - whole - 1)
            covered = [sum(shape[(u - s) % cells] for u in range(length)) / length for s in range(cells)]
            expected = sum(c * c for c in covered) / cells
            assert mean_square_coverage(np.array([float(length)]), float(arc), cells)[0] == pytest.approx(expected)
