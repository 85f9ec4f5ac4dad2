"""What a prior is worth: how many respondents a survey needs, relative to LDP, as the prior may be more and more wrong.

A channel is ε-LIP for every prior within total variation τ of the stated one, and the estimate does not use the prior
at all. N respondents give a variance of V/N, so that the same precision as LDP's takes

    N / N_LDP = V(τ) / V_LDP

of LDP's respondents, V being `unbiased_variance` of the certificate: people are drawn from the prior, and randomization
is added. V_LDP is the least that we know: of the LDP channel that `design` finds, of subset selection (Ye and Barg) for
histograms, and of the linear mechanism for sums. Up to 12 values both V are the optimum, to 0.001%.

Beside it stands a tempting wrong way, the scalar bound: a channel made for one prior at level a reaches at most
a − ln(1 − τ(e^a − e^−a)), and at most 2a, under the others, so one takes the largest a that keeps this at ε
(`drift.robust_level`). It keeps the promise, but it can need more respondents than LDP.

    python -m studies.worth out/figures/worth.csv

prints the table of docs/evaluation.md from the points that `python -m studies worth` has kept.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from studies.baselines import subset_support
from studies.drift import robust_level
from studies.figure import Figure, Options, Point
from tacit.designs import Promise, Search, design
from tacit.designs._methods import FEW_VALUES
from tacit.designs.planning import least_variance_method
from tacit.exact import Number
from tacit.prior import Ball, Prior
from tacit.task import Histogram, Sum, Task

SIZES, SMALL_SIZES = (2, 5, 12, 100, 1_000, 10_000), (2, 5, 100, 1_000)
BUDGETS = (0.5, 1.0, 2.0)
RADII = ("0", "0.01", "0.03", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.4", "0.5")
SMALL_RADII = ("0", "0.03", "0.1", "0.2", "0.3", "0.5")
#: A mean's designs take longest, and those for many values.
FEW_RADII = ("0", "0.1")
#: The columns of the table.
TABLE_RADII = (0.0, 0.03, 0.1, 0.2, 0.3, 0.5)
#: The wrong way is drawn for these many values only.
SCALAR_SIZES = (5, 1_000)
SUM_VALUES, SUM_EPSILON = 100, 1.0

LDP = "the best LDP known"
SUM_PANEL = f"mean of an answer from 0 to {SUM_VALUES - 1}, ε = {SUM_EPSILON:g}"
#: Searches stop here, so that the last digits do not depend on where a search happened to stop.
_GAP = 1e-5


def worth(options: Options) -> Figure:
    """Respondents relative to LDP against τ, for histograms of many sizes at three budgets, and for a mean."""
    sizes, radii = (SMALL_SIZES, SMALL_RADII) if options.small else (SIZES, RADII)
    few = FEW_RADII if options.small else RADII
    points: list[Point] = []
    yardsticks: dict[tuple[float, int], float] = {}
    for epsilon in BUDGETS:
        for d in sizes:
            prior = zipf(d)
            yardsticks[epsilon, d] = ldp = best_ldp_variance(prior, Histogram(), epsilon)
            at = radii if d < 1_000 else few
            points += _curve(panel_of(epsilon), curve_of(d), prior, Histogram(), epsilon, at, ldp)
        for d in SCALAR_SIZES:
            at = radii if d < 1_000 else few
            points += _scalar_curve(panel_of(epsilon), d, epsilon, at, yardsticks[epsilon, d])
        points += [Point(panel_of(epsilon), LDP, "corrected", float(radius), 1.0) for radius in radii]
    for name, prior in sum_priors().items():
        ldp = best_ldp_variance(prior, Sum(), SUM_EPSILON)
        points += _curve(SUM_PANEL, sum_curve(name), prior, Sum(), SUM_EPSILON, few, ldp)
    points += [Point(SUM_PANEL, LDP, "corrected", float(radius), 1.0) for radius in few]
    return Figure(
        "worth",
        "What a prior is worth: respondents needed, relative to LDP",
        "how wrong the prior may be: total variation distance τ",
        "respondents relative to LDP",
        tuple(points),
        _remark(points),
        panels=(*map(panel_of, BUDGETS), SUM_PANEL),
        told_at=0.1,
        notes=(
            "Histograms under Zipf priors, P(k) in proportion to 1/k. Every channel is ε-LIP for every prior within τ, "
            "and no estimate uses the prior. For many values and an exact prior the ratio tends to one quarter: "
            "E/(E−1)² for each value, against 4E/(E−1)².",
            "LDP is the best known to us: the optimum for up to 12 values; beyond, subset selection, which "
            "`many-values` is under LDP; for the mean, the better of the linear mechanism and random rounding to "
            f"knots. At ε = {SUM_EPSILON:g} its variance per value is {_per_value(yardsticks)}.",
            "By the scalar bound: a channel for the stated prior alone, at the largest level that stays within ε under "
            "all the others by the bound a − ln(1 − τ(e^a − e^−a)), or at ε/2. It keeps the same promise.",
        ),
    )


def zipf(d: int) -> Prior:
    """P(k) in proportion to 1/k for k = 1 … d, on the values 0 … d−1.

    >>> zipf(3).weights
    (6, 3, 2)
    """
    if d > 100:  # Exact fractions would have a denominator of as many digits.
        return Prior(range(d), [10**9 // (k + 1) for k in range(d)])
    return Prior(range(d), [Fraction(1, k + 1) for k in range(d)])


def bell(d: int) -> Prior:
    """A normal curve in the middle of 0 … d−1, with three standard deviations and a third on either side."""
    middle, deviation = (d - 1) / 2, 3 * d / 20
    return Prior(range(d), [round(1e9 * math.exp(-(((k - middle) / deviation) ** 2) / 2)) for k in range(d)])


def sum_priors(d: int = SUM_VALUES) -> Mapping[str, Prior]:
    """The priors for a mean of an answer from 0 to d − 1."""
    return {"uniform": Prior.uniform(d), "bell-shaped": bell(d), "Zipf": zipf(d)}


def panel_of(epsilon: float) -> str:
    """The name of a histogram's panel."""
    return f"histogram, ε = {epsilon:g}"


def curve_of(d: int, scalar: bool = False) -> str:
    """The name of the curve for a histogram over d values, also for the wrong way."""
    return f"{d:,} values, by the scalar bound" if scalar else f"{d:,} values"


def sum_curve(name: str) -> str:
    """The name of the curve for a mean under one of `sum_priors`."""
    return f"{name} prior"


def best_ldp_variance(prior: Prior, task: Task, epsilon: float) -> float:
    """The least unbiased variance per respondent of any ε-LDP mechanism known to us.

    >>> round(best_ldp_variance(Prior.uniform(2), Histogram(), 1.0), 4)
    2.3413
    """
    known = linear_ldp_variance(prior, epsilon) if task.adds_numbers else subset_variance(prior, epsilon)
    method = least_variance_method(prior, task)
    # A promise for every prior is LDP.
    found = design(
        prior, task, Promise(epsilon, prior_set=Ball(prior, 1)), search=Search(gap=_gap(prior, task), method=method)
    ).certificate
    return min(found.unbiased_variance, known)


def subset_variance(prior: Prior, epsilon: float) -> float:
    """Σ_x s_x(1−s_x)/(p−q)², s = q + (p−q)P: the histogram's variance by subset selection, with the best subset size.

    p and q are the probabilities that a report supports the true value and another. The rest, that of randomization,
    is (d·q(1−q) + (p−q)(1−p−q))/(p−q)²; people drawn from the prior add 1 − ΣP².
    """
    d, away = len(prior), float((prior.probabilities**2).sum())
    around = d / (math.exp(epsilon) + 1)
    sizes = [k for k in range(math.floor(around) - 2, math.ceil(around) + 3) if 1 <= k < d]
    variances = []
    for size in sizes:
        pure = subset_support(d, epsilon, size)
        p, q = pure.p, pure.q
        variances.append((d * q * (1 - q) + (p - q) * (1 - p - q)) / (p - q) ** 2 + 1 - away)
    return min(variances)


def linear_ldp_variance(prior: Prior, epsilon: float) -> float:
    """c² − (μ − middle)², c = (b−a)/2·(E+1)/(E−1): a mean's variance by LDP's linear mechanism on the range [a, b].

    An answer x is rounded at random to the ends, b with probability (x−a)/(b−a), and the end is sent by randomized
    response, true with probability E/(E+1). The report b is read as middle + c, a as middle − c: then the mean of what
    is read is x. Its second moment around the middle is c² whatever x is, and its mean under the prior is μ.

    >>> round(linear_ldp_variance(Prior.uniform(100), 1.0))
    11474
    """
    numbers = prior.on_support().numbers
    middle, half = (numbers.max() + numbers.min()) / 2, (numbers.max() - numbers.min()) / 2
    mean = float(prior.probabilities @ prior.numbers)
    return float((half / math.tanh(epsilon / 2)) ** 2 - (mean - middle) ** 2)


def _gap(prior: Prior, task: Task) -> float | None:
    """Where there is a program, it is solved to the end: for few values, and for the knots of a mean."""
    return _GAP if len(prior) <= FEW_VALUES or task.adds_numbers else None


def _curve(
    panel: str, name: str, prior: Prior, task: Task, epsilon: float, radii: Sequence[Number], ldp: float
) -> list[Point]:
    points, gap, method = [], _gap(prior, task), least_variance_method(prior, task)
    for radius in radii:
        found = design(
            prior, task, Promise(epsilon, prior_set=Ball(prior, radius)), search=Search(gap=gap, method=method)
        ).certificate
        points.append(Point(panel, name, "corrected", float(radius), found.unbiased_variance / ldp))
    return points


def _scalar_curve(panel: str, d: int, epsilon: float, radii: Sequence[Number], ldp: float) -> list[Point]:
    prior, points = zipf(d), []
    for radius in radii:
        # Four decimals, rounded down, keep the design a short exact number.
        level = math.floor(robust_level(epsilon, float(radius)) * 10_000) / 10_000
        method = least_variance_method(prior, Histogram())
        found = design(
            prior, Histogram(), level, search=Search(gap=_gap(prior, Histogram()), method=method)
        ).certificate
        points.append(Point(panel, curve_of(d, scalar=True), "corrected", float(radius), found.unbiased_variance / ldp))
    return points


# -- in words and in a table --


def _ours(points: Sequence[Point], epsilon: float, tau: float) -> dict[str, float]:
    """By curve, at one place of a histogram's panel."""
    names = [curve_of(d) for d in SIZES]
    return {p.curve: p.y for p in points if p.panel == panel_of(epsilon) and p.x == tau and p.curve in names}


def _remark(points: Sequence[Point]) -> str:
    """What an exact prior is worth, what a rough one is, and what the worst is of either way."""
    exact, rough = _ours(points, 1.0, 0.0), _ours(points, 1.0, 0.1)
    few, many = next(iter(exact)), list(exact)[-1]
    scalar = max(filter(_is_scalar, points), key=lambda p: p.y)
    means = [p for p in points if p.panel == SUM_PANEL and p.curve != LDP and p.x == 0.1]
    worst = max((p for p in points if p.curve != LDP and not _is_scalar(p)), key=lambda p: p.y)
    over = (
        f"Nowhere does it need more than LDP (at most {worst.y:.3f})."
        if worst.y <= 1.0005
        else f"It needs more than the best LDP known only where the prior hardly counts, at most {worst.y:.2f} "
        f"({worst.curve}, {worst.panel}, τ = {worst.x:g})."
    )
    return (
        f"At ε = 1 an exact prior leaves {exact[few]:.2f} of LDP's respondents for {few} and {exact[many]:.2f} for "
        f"{many}; a prior that may be off by a tenth leaves {rough[few]:.2f} and {rough[many]:.2f}, and for the mean "
        f"of an answer {min(p.y for p in means):.2f} to {max(p.y for p in means):.2f}. {over} The scalar bound keeps "
        f"the same promise and needs up to {scalar.y:.2f} times LDP's respondents ({scalar.panel}, τ = {scalar.x:g})."
    )


def _is_scalar(point: Point) -> bool:
    return point.curve in [curve_of(d, scalar=True) for d in SCALAR_SIZES]


def _per_value(yardsticks: Mapping[tuple[float, int], float]) -> str:
    told = [f"{v / d:.2f} for {d:,}" for (epsilon, d), v in yardsticks.items() if epsilon == SUM_EPSILON]
    return f"{', '.join(told)} values"


def table(points: Sequence[Point]) -> str:
    """Respondents relative to LDP in Markdown: a row for each ε and curve that is complete, a column for each τ."""
    ratios = {(p.panel, p.curve, p.x): p.y for p in points}
    heads = ["exact prior", *(f"τ = {tau:g}" for tau in TABLE_RADII[1:])]
    lines = [f"| ε | answers | {' | '.join(heads)} |", f"|---|---|{'---:|' * len(heads)}"]
    rows = [(f"{e:g}", curve_of(d), panel_of(e), curve_of(d)) for e in BUDGETS for d in SIZES]
    rows += [
        (f"{SUM_EPSILON:g}", f"mean of 0 to {SUM_VALUES - 1}, {name}", SUM_PANEL, sum_curve(name))
        for name in sum_priors()
    ]
    for epsilon, named, panel, curve in rows:
        found = [ratios[panel, curve, tau] for tau in TABLE_RADII if (panel, curve, tau) in ratios]
        if len(found) == len(TABLE_RADII):
            lines.append(f"| {epsilon} | {named} | {' | '.join(f'{y:.2f}' for y in found)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    from studies.reproduce import from_csv

    print(table(from_csv(Path(sys.argv[1]).read_text(encoding="utf-8"))))
