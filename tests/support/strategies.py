"""Hypothesis strategies shared by the property tests: integer-weight priors (zeros included) and budgets."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from tacit import Channel, Prior


@st.composite
def priors(draw: st.DrawFn, min_size: int = 1, max_size: int = 6, zeros: bool = True) -> Prior:
    weights = draw(st.lists(st.integers(0 if zeros else 1, 10**6), min_size=min_size, max_size=max_size))
    if not any(weights):
        weights[0] = 1
    return Prior.of(dict(enumerate(weights)))


def budgets() -> st.SearchStrategy[Fraction]:
    return st.integers(1, 1000).map(lambda hundredths: Fraction(hundredths, 100))


@st.composite
def channels(draw: st.DrawFn, prior: Prior, max_reports: int = 5, positive: bool = False) -> Channel:
    """Any exact channel for the prior: all rows but the first are scaled to the first one's sum by a last output."""
    outputs = draw(st.integers(1, max_reports))
    row = st.lists(st.integers(1 if positive else 0, 50), min_size=outputs, max_size=outputs)
    rows = [draw(row) for _ in prior.values]
    most = max(sum(row) for row in rows) + 1
    return Channel.from_weights(prior, [[*row, most - sum(row)] for row in rows])
