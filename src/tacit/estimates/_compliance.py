"""Compliance: the share of people who did not follow the rule, from two arms with different randomizers.

A share γ of the people does not follow the rule and sends other reports, with probabilities c(y), in both arms: always
the same report, or any at random. All others hold x with the share h_x and follow it. In arm a, report y comes with

    λ_a(y) = Σ_x h_x Q_a(y|x) + γ c_a(y),        Σ_x h_x + γ = 1.

Not following is like one more answer whose channel is known. One arm cannot tell it from the other answers. Arms whose
channels differ can, because people are assigned at random and hold the same answers in both. For two values and a fixed
report this is the model of Clark and Desharnais (1998); where only those who hold the first value do not follow, it is
the stochastic lie detector of Moshagen, Musch and Erdfelder (2012).

Estimates are maximum likelihood; intervals contain the values that a likelihood-ratio test does not reject. They stay
within 0 and 1 and are for the population that the respondents stand for. Where all follow, γ is at its end: its
interval covers a little more often than stated, those of the answers a little less. The test of γ = 0 is one-sided:
half the weight of its chi-square is at 0. Priors are not used.

Several groups are pooled by unbiased estimates, which may lie below 0: the mean of many shares that are cut at 0 would
show people who do not follow where all do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.estimates._rows import check_level
from tacit.exact import Floats
from tacit.mechanism import Channel, NotEstimableError
from tacit.plan import Group, Plan, arms_of
from tacit.prior import Value
from tacit.tally import Counts, Tally

#: The smallest singular value of the arms' channels, relative to the largest, at which the unknowns are estimable.
_SMALLEST_SEEN = 1e-6
#: The largest distance of the log-likelihood from its maximum, in nats.
GAP = 1e-6
_FIRST_WEIGHT, _SHRINK, _MOST_STEPS = 0.01, 0.01, 60
#: Larger likelihood ratios count as this one.
_EXCLUDED = 1e6


@dataclass(frozen=True)
class Span:
    """A share with its interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class ComplianceRow:
    """The share of people who hold a value (None: one of a survey's set), under three assumptions.

    `least`: none of those who did not follow the rule holds it. `alike`: they hold it as often as the others. `most`:
    all of them hold it.
    """

    value: Value | None
    least: Span
    alike: Span
    most: Span


@dataclass(frozen=True, kw_only=True)
class Compliance:
    """The result for one group: the share that did not follow the rule, and the answers of the others.

    `p_value` is of the test that all followed, `fit` of the test that the model holds; None where the arms give no more
    numbers than there are unknowns. `covariance` is of the shares of the values and of γ, in this order; `unbounded`
    is γ if it may lie below 0 and above 1.
    """

    group: str | None
    n_reports: int
    level: float
    not_following: Span
    p_value: float
    fit: float | None
    rows: tuple[ComplianceRow, ...]
    covariance: Floats
    unbounded: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: each for name, each in asdict(self).items() if name not in ("covariance", "unbounded")}


@dataclass(frozen=True)
class PooledCompliance:
    """The share of all people who did not follow the rule, groups counting as many people as they have reports.

    `p_value` is of the test that all followed.
    """

    n_reports: int
    level: float
    not_following: Span
    p_value: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def compliance(plan: Plan, tally: Tally, says: int | None = None, level: float = 0.95) -> list[Compliance]:
    """For each group of a `plan` with arms, the share that did not follow the rule, with intervals of this `level`.

    `says` is the report in the `tally` that these people send for every answer; None if they send any report at random.

    >>> from tacit import Survey, Tally
    >>> from tacit.designs import adopt
    >>> from tacit.designs.rules import warner
    >>> rules = {"arm 1": warner(["yes", "no"], "1/6"), "arm 2": warner(["yes", "no"], "5/6")}
    >>> plan = adopt(rules, Survey("yes"))
    >>> reports, arms = [0] * 650 + [1] * 350 + [0] * 250 + [1] * 750, ["arm 1"] * 1000 + ["arm 2"] * 1000
    >>> (found,) = compliance(plan, Tally.of(plan, reports, arms), says=1)
    >>> round(found.not_following.estimate, 3), round(found.rows[0].least.estimate, 3)
    (0.1, 0.15)
    """
    check_level(level)
    tally.check(plan)
    return [_compliance(plan, name, arms, tally, says, level) for name, arms in arms_of(plan).items()]


def pooled_compliance(found: Sequence[Compliance]) -> PooledCompliance:
    """All groups together: γ = Σ_g (n_g/N) γ_g, with the variance Σ_g (n_g/N)² Var γ_g, as groups are independent.

    `found` is the result of `compliance`. Each γ_g is its unbounded estimate, so γ is normal for many groups and for
    large ones; its interval is cut to what shares can be.
    """
    from scipy.special import ndtr, ndtri

    weights = np.array([each.n_reports for each in found], dtype=float)
    weights /= weights.sum()
    share = float(weights @ [each.unbounded for each in found])
    error = math.sqrt(float(weights**2 @ [each.covariance[-1, -1] for each in found]))
    level = found[0].level
    reach = float(ndtri((1 + level) / 2)) * error
    estimate, low, high = (min(max(end, 0.0), 1.0) for end in (share, share - reach, share + reach))
    return PooledCompliance(
        sum(each.n_reports for each in found), level, Span(estimate, low, high), float(ndtr(-share / error))
    )


def expected_errors(plan: Plan, shares: Sequence[Fraction], respondents: int) -> dict[str | None, float | None]:
    """For each group with arms the standard error of the share that does not follow, at most over the report that these
    people send; None where the arms cannot tell.

    It is for `respondents` people in all, of whom the groups of the `plan` are the `shares`, and for priors that are
    right.
    """
    people = {arm.name: float(share) * respondents for arm, share in zip(plan.groups, shares, strict=True)}
    found: dict[str | None, float | None] = {}
    for name, arms in arms_of(plan).items():
        fewest = min(0 if (table := arm.mechanism.table()) is None else table.n_possible_reports for arm in arms)
        errors = [_expected_error(arms, [people[arm.name] for arm in arms], says) for says in range(fewest)]
        worst = max(errors, default=math.inf)
        found[name] = None if math.isinf(worst) else worst
    return found


def _expected_error(arms: Sequence[Group], people: Sequence[float], says: int) -> float:
    counts = [n * (arm.prior.probabilities @ _table(arm).matrix) for arm, n in zip(arms, people, strict=True)]
    try:
        model = ArmsModel.of(arms, counts, says)
    except NotEstimableError:
        return math.inf
    return math.sqrt(model.covariance(np.append(arms[0].prior.probabilities, 0.0))[-1, -1])


def _compliance(
    plan: Plan, name: str | None, arms: Sequence[Group], tally: Tally, says: int | None, level: float
) -> Compliance:
    model = ArmsModel.of(arms, [_counts(tally, arm) for arm in arms], says)
    gamma = np.append(np.zeros(len(plan.values)), 1.0)
    rows = []
    for values in [plan.task.wanted] if plan.task.wanted else [(value,) for value in plan.values]:
        held = np.array([*(float(value in values) for value in plan.values), 0.0])
        spans = model.span(held, level), model.span(held, level, beside=gamma), model.span(held + gamma, level)
        rows.append(ComplianceRow(values[0] if len(values) == 1 else None, *spans))
    return Compliance(
        group=name, n_reports=int(model.counts.sum()), level=level, not_following=model.span(gamma, level),
        p_value=model.p_value(gamma), fit=model.fit(), rows=tuple(rows), covariance=model.covariance(model.best[0]),
        unbounded=float(model.unbounded[-1]),
    )  # fmt: skip


def _counts(tally: Tally, arm: Group) -> Floats:
    """How often each report came in one arm."""
    kept = tally.groups.get(arm.name, Counts())
    counts = np.zeros(_table(arm).n_possible_reports)
    if kept.has_weights:
        raise ValueError("Who followed the rule is estimated from plain counts. Leave the weights out.")
    came = kept.counted()
    counts[came.reports] = came.counts
    if not counts.sum():
        raise ValueError(f"There are no reports of {arm.name!r}: both arms are needed.")
    return counts


def _table(arm: Group) -> Channel:
    """The table of an arm; raises where its mechanism is a rule."""
    table = arm.mechanism.table()
    if table is None:
        raise NotEstimableError("Arms are compared by the reports of tables. This plan's mechanisms are rules.")
    return table


@dataclass(frozen=True)
class ArmsModel:
    """The likelihood of the shares θ = (h, γ): `rows` has the probabilities of all reports of all arms, a row for each
    value and one for not following; `counts` how often each came, `sizes` how many reports its arm has.
    """

    rows: Floats
    counts: Floats
    sizes: Floats

    @classmethod
    def of(cls, arms: Sequence[Group], counts: Sequence[Floats], says: int | None) -> ArmsModel:
        """From the arms' channels; raises `NotEstimableError` where they cannot tell who does not follow."""
        parts = []
        for arm, came in zip(arms, counts, strict=True):
            if says is not None and not arm.mechanism.can_send(says):
                raise ValueError(f"Report {says} does not exist in {arm.name!r}, which has {len(came)}, from 0.")
            sent = np.full(len(came), 1 / len(came)) if says is None else np.eye(len(came))[says]
            parts.append(np.vstack([_table(arm).matrix, sent]))
        rows = np.hstack(parts)
        seen = np.linalg.svd(rows, compute_uv=False)
        if len(seen) < len(rows) or seen[-1] < _SMALLEST_SEEN * seen[0]:
            raise NotEstimableError(
                "These arms cannot tell who does not follow the rule: such reports look like those of some mixture of "
                "answers in every arm. Arms need channels that differ, and reports drawn at random often look like "
                "answers: name the report that they send."
            )
        sizes = np.concatenate([np.full(len(came), came.sum()) for came in counts])
        return cls(rows, np.concatenate(counts), sizes)

    @cached_property
    def best(self) -> tuple[Floats, float]:
        """The most likely shares of all, and their log-likelihood."""
        return most_likely_mixture(self.rows, self.counts)

    def ratio(self, direction: Floats, value: float) -> float:
        """Twice what the log-likelihood loses if direction·θ = value."""
        lost = self.best[1] - most_likely_mixture(self.rows, self.counts, direction, value)[1]
        return max(0.0, 2 * lost)

    def span(self, direction: Floats, level: float, beside: Floats | None = None) -> Span:
        """direction·θ with its interval; divided by 1 − beside·θ, where that is given."""
        from scipy.optimize import brentq
        from scipy.special import chdtri

        theta = self.best[0]
        rest = 1.0 if beside is None else 1.0 - float(beside @ theta)
        estimate = min(1.0, float(direction @ theta) / rest) if rest > 0 else math.nan
        most = float(chdtri(1, 1 - level))

        def excess(value: float) -> float:
            # direction·θ = value (1 − beside·θ).
            constraint = direction if beside is None else direction + value * beside
            return min(self.ratio(constraint, value), _EXCLUDED) - most

        def end(outermost: float) -> float:
            if math.isnan(estimate) or excess(outermost) <= 0:
                return outermost
            return float(brentq(excess, outermost, estimate, xtol=1e-5))

        return Span(estimate, end(0.0), end(1.0))

    def p_value(self, direction: Floats) -> float:
        """Of the test that direction·θ is 0, against more than that."""
        from scipy.special import chdtrc

        ratio = self.ratio(direction, 0.0)
        return 1.0 if ratio < 1e-5 else float(chdtrc(1, ratio)) / 2

    def fit(self) -> float | None:
        """Of the test that the model holds at all; None where there is nothing left to test it by."""
        from scipy.special import chdtrc

        n_arms = round(float(self.rows[0].sum()))
        degrees = len(self.counts) - n_arms - (len(self.rows) - 1)
        if degrees <= 0:
            return None
        expected = np.maximum(self.best[0] @ self.rows, 1e-300) * self.sizes
        came = self.counts > 0
        deviance = 2 * float(self.counts[came] @ np.log(self.counts[came] / expected[came]))
        return float(chdtrc(degrees, max(0.0, deviance)))

    @property
    def unbounded(self) -> Floats:
        """θ = I⁻¹ Σ_y (n_y/λ_y) Q(y|·), weighted least squares with the weights of the most likely shares: these where
        none of them is 0, and without bias, up to what the weights owe to chance, where one is.
        """
        inverse, chances = self._inverse(self.best[0])
        return inverse @ self.rows @ (self.counts / chances)

    def covariance(self, theta: Floats) -> Floats:
        """I⁻¹ − θθᵀ/N if θ is the truth, away from 0."""
        return self._inverse(theta)[0] - np.outer(theta, theta) / self.counts.sum()

    def _inverse(self, theta: Floats) -> tuple[Floats, Floats]:
        """I⁻¹, I the information of the reports, and their chances λ."""
        chances = np.maximum(theta @ self.rows, 1e-300)
        return np.linalg.inv((self.rows * (self.sizes / chances)) @ self.rows.T).astype(np.float64), chances


def most_likely_mixture(
    rows: Floats, counts: Floats, direction: Floats | None = None, value: float = 0.0
) -> tuple[Floats, float]:
    """The most likely shares θ of a mixture with known parts, and their log-likelihood:

        maximise  Σ_y n_y ln (θR)_y      over  θ ≥ 0, Σθ = 1, and direction·θ = value where that is asked for.

    `rows` is R and `counts` n. The likelihood is −∞ where no such θ explains the counts. It is concave, and an
    interior-point method with exact Newton steps finds its maximum to within `GAP` nats: for a barrier weight μ the
    log-likelihood is below the maximum by at most μ times the number of shares.

    >>> theta, _ = most_likely_mixture(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([400.0, 600.0]))
    >>> theta.round(5).tolist()
    [0.3, 0.7]
    """
    kept, fixed = _room(len(rows), direction, value)
    theta, seen = np.zeros(len(rows)), counts > 0
    inside, shares = rows[kept][:, seen], counts[seen] / counts.sum()
    if not (inside.max(axis=0) > 0).all():
        return theta, -math.inf
    matrix = np.ones((1, len(inside))) if fixed is None else np.array([np.ones(len(inside)), fixed[kept]])
    found = _centre(len(inside), None if fixed is None else fixed[kept], value)
    last, weight = GAP / (counts.sum() * len(inside)), _FIRST_WEIGHT
    while len(inside) > len(matrix):
        found = _climb(inside, shares, matrix, found, weight)
        if weight <= last:
            break
        weight = max(weight * _SHRINK, last)
    theta[kept] = found / found.sum()
    return theta, float(counts[seen] @ np.log(theta[kept] @ inside))


def _room(size: int, direction: Floats | None, value: float) -> tuple[NDArray[np.bool_], Floats | None]:
    """Which shares may be positive, and what else is fixed: at an end of what is possible, others are zero."""
    kept = np.ones(size, dtype=np.bool_)
    if direction is None:
        return kept, None
    for end in (direction.min(), direction.max()):
        if value == end:
            return direction == end, None
    if not direction.min() < value < direction.max():
        raise ValueError(
            f"No shares have the value {value:g}: it must lie in {direction.min():g} … {direction.max():g}."
        )
    return kept, direction


def _centre(size: int, direction: Floats | None, value: float) -> Floats:
    """Shares that are all positive and keep what is fixed."""
    centre = np.full(size, 1 / size)
    if direction is None:
        return centre
    here = float(direction @ centre)
    beyond = direction > value if here < value else direction < value
    there = float(direction[beyond].mean())
    step = 0.0 if here == value else (value - here) / (there - here)
    return (1 - step) * centre + step * beyond / beyond.sum()


def _climb(rows: Floats, shares: Floats, matrix: Floats, start: Floats, weight: float) -> Floats:
    """The maximum of shares·ln(θR) + weight·Σ ln θ where matrix·θ stays what it is, by Newton steps."""
    theta, size = start, len(start)
    system = np.zeros((size + len(matrix), size + len(matrix)))
    system[:size, size:], system[size:, :size] = matrix.T, matrix
    target = np.zeros(len(system))

    def height(at: Floats) -> float:
        return float(shares @ np.log(at @ rows) + weight * np.log(at).sum())

    for _ in range(_MOST_STEPS):
        scaled = rows / (theta @ rows)
        gradient = scaled @ shares + weight / theta
        # In units of θ the barrier is as steep in all directions.
        curved = (scaled * shares) @ scaled.T * np.outer(theta, theta)
        curved[np.diag_indices(size)] += weight
        system[:size, :size] = curved
        system[size:, :size] = matrix * theta
        system[:size, size:] = system[size:, :size].T
        target[:size] = gradient * theta
        step = np.linalg.solve(system, target)[:size]
        gain = float(step @ target[:size])
        if gain < 1e-7 * weight:
            break
        length = min(1.0, 0.99 / max(1e-300, float(-step.min())))
        before = height(theta)
        while height(theta * (1 + length * step)) < before + 1e-4 * length * gain and length > 1e-12:
            length /= 2
        theta = theta * (1 + length * step)
    return theta
