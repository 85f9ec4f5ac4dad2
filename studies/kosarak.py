"""Figure 9a: the popular pages of a news portal (Kosarak); and, beyond the paper, the histogram of all its clicks.

Everywhere E = e^ε and P is the prior; an error is the mean squared error per respondent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from studies.baselines import (
    Pure,
    binary_mse,
    context_free_mse,
    opt_ldp_binary_mse,
    optimized_unary,
    published_binary_mse,
    subset_support,
)
from studies.drift import mmse_arm, realised
from studies.figure import (
    BEST_LDP,
    BOUND,
    FREE,
    HALF,
    K_ARY,
    NO_DATA,
    OPTIMAL,
    UNARY,
    Figure,
    Options,
    Point,
    Version,
    curve,
    grid,
    k_ary_level,
    noise,
    published_error,
    published_level,
    reached,
)
from studies.groups import subset_level
from studies.loaders import find, load_clicks
from tacit.designs import Design, Promise, design, optimal_binary
from tacit.designs.rules import theorem3
from tacit.exact import Floats
from tacit.mechanism import Channel
from tacit.mechanism.auditing import audit
from tacit.prior import Prior
from tacit.task import Histogram, Survey, Task

#: The paper calls a page popular above this many clicks.
POPULAR = 15_000
WITH, WITHOUT = "read with the prior", "read without the prior"
REALISED = "realised on these pages"
SUBSET = "subset selection, read with the prior cell by cell"
FREE_SUBSET = "subset selection"
#: The best LDP channel for a large histogram is searched on this many of the heaviest values, the others as one.
LDP_CORES = (12, 20)


def figure_9a(options: Options) -> Figure:
    """How many of the 41,270 pages are popular, each page a respondent, one prior for all: errors against ε.

    The paper takes the prior from the answer itself, so the third panel also says what really happens on these pages.
    """
    clicks = load_clicks(find("kosarak", options))
    popular, pages = int((clicks.counts > POPULAR).sum()), len(clicks.counts)
    prior = Prior.of({"popular": popular, "other": pages - popular})
    budgets = grid(options.small, (1.0, 2.0, 4.0), 0.5, 8.0, 0.5)
    points = _binary_points(prior, budgets) + _realised_points(prior, popular, pages, budgets, options)
    return Figure(
        "9a",
        f"Popular pages of Kosarak: {popular} of {pages:,}",
        "ε",
        "√(MSE/N)",
        tuple(points),
        _binary_remark(popular / pages, budgets),
        panels=(WITH, WITHOUT, REALISED),
        log_y=True,
        notes=(
            "The prior is the answer: the share of popular pages in this very file. With it, no data at all estimates "
            "the count without error, so the panel of realised errors says what the reports add in noise.",
        ),
    )


def _binary_remark(p: float, budgets: Sequence[float]) -> str:
    variance = p * (1 - p)
    lip, half = (variance - binary_mse(p, np.array(budgets) / part) for part in (1, 2))
    ldp = variance - np.array([float(opt_ldp_binary_mse(p, e)) for e in budgets])
    better = [f"{e:g}" for e, a, b in zip(budgets, half, ldp, strict=True) if a > b]
    return (
        f"Only {p:.3%} of the pages are popular, and the published channel names them almost openly. At equal ε the "
        f"true optimum removes {lip[0] / ldp[0]:.3f} times the variance that the best LDP channel removes at ε = "
        f"{budgets[0]:g} and {lip[-1] / ldp[-1]:.3f} times at ε = {budgets[-1]:g}: for a rare answer LIP and LDP are "
        "nearly the same promise. The paper finds ε/2-LIP better than ε-LDP for small ε; with channels that keep their "
        f"promise it is better at {'ε = ' + ', '.join(better) if better else 'no ε of this figure'}."
    )


def _binary_points(prior: Prior, budgets: Sequence[float]) -> list[Point]:
    p, xs = float(prior.probabilities[0]), np.array(budgets)
    half = [e / 2 for e in budgets]
    optimal, halved = ([audit(optimal_binary(prior, e)).lip.epsilon for e in part] for part in (budgets, half))
    forced, forced_half = ([published_level(prior.probabilities, e) for e in part] for part in (budgets, half))
    ldp = [k_ary_level(prior.probabilities, e) for e in budgets]
    unary = _free_errors(prior, budgets, optimized_unary)
    nothing = [p * (1 - p)] * len(budgets)
    full, halves = reached("published", budgets, forced), reached("published at ε/2", half, forced_half)
    return [
        *curve(full, "published", xs, published_binary_mse(p, xs), forced, WITH),
        *curve(halves, "published", xs, published_binary_mse(p, xs / 2), forced_half, WITH),
        *curve(OPTIMAL, "corrected", xs, binary_mse(p, xs), optimal, WITH),
        *curve(HALF, "corrected", xs, binary_mse(p, xs / 2), halved, WITH),
        *curve(BEST_LDP, "corrected", xs, [float(opt_ldp_binary_mse(p, e)) for e in budgets], ldp, WITH),
        *curve(BOUND, "corrected", xs, binary_mse(p, xs), None, WITH),
        *curve(NO_DATA, "corrected", xs, nothing, 0.0, WITH),
        *curve(FREE, "corrected", xs, [context_free_mse(e) for e in budgets], ldp, WITHOUT),
        *curve(UNARY, "corrected", xs, unary, unary_levels(prior, budgets), WITHOUT),
        *curve(NO_DATA, "corrected", xs, nothing, 0.0, WITHOUT),
    ]


def _realised_points(prior: Prior, popular: int, pages: int, budgets: Sequence[float], options: Options) -> list[Point]:
    """The same pages in every round, the randomization repeated."""
    held, task = np.array([[popular, pages - popular]]), Survey("popular")
    points = []
    for number, epsilon in enumerate(budgets):
        arms: tuple[tuple[str, Channel, Version], ...] = (
            (OPTIMAL, optimal_binary(prior, epsilon), "corrected"),
            ("published", theorem3(prior, epsilon, force=True), "published"),
        )
        for place, (name, channel, version) in enumerate(arms):
            measured = realised(mmse_arm([channel], [prior], task), held, options.runs, [options.seed, number, place])
            level = audit(channel.under(prior)).lip.epsilon
            points.append(measured.point(REALISED, name, version, epsilon, level))
    return points


def kosarak_histogram(options: Options) -> Figure:
    """Which page was clicked, for 8 million clicks on 41,270 pages: giants, bins and a ring beside LDP."""
    clicks = load_clicks(find("kosarak", options))
    prior = Prior(clicks.pages.tolist(), clicks.counts.tolist())
    budgets = (1.0, 4.0) if options.small else (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
    found = histogram_curves(prior, budgets)
    return Figure(
        "kosarak",
        f"The page of every click: {len(prior):,} pages, {int(clicks.counts.sum()):,} clicks",
        "ε",
        "√(MSE/N)",
        tuple(found.points),
        f"Bins come within {max(found.gaps):.2%} of the proven bound at every ε here. {found.summary()}",
        panels=(WITH, WITHOUT),
        log_y=True,
        notes=(LDP_NOTE,),
    )


LDP_NOTE = (
    "Best ε-LDP: the best found of k-ary response, subset selection and the optimal LDP channel on the 12 or 20 "
    "heaviest values with all others merged into one; the exact LDP optimum over so many values is not known to us. "
    "Every ε-LDP channel is ε-LIP, so the proven bound holds for it as well."
)


@dataclass(frozen=True)
class HistogramCurves:
    """Curves for one prior, with what a sentence about them needs: gains of LIP and LDP, and gaps to the bound."""

    points: list[Point]
    budgets: tuple[float, ...]
    gains: tuple[float, ...]
    ldp_gains: tuple[float, ...]
    gaps: tuple[float, ...]

    def summary(self) -> str:
        """How much more variance LIP removes than LDP."""
        rows = zip(self.budgets, self.gains, self.ldp_gains, strict=True)
        ratios = [f"{lip / ldp:.1f} at ε = {e:g}" for e, lip, ldp in rows]
        return f"LIP removes more variance than the best LDP channel found, by the factor {', '.join(ratios)}."


def histogram_curves(
    prior: Prior, budgets: Sequence[float], panels: tuple[str, str] = (WITH, WITHOUT)
) -> HistogramCurves:
    """Every curve for the histogram under one prior; values of prior zero are left out."""
    inside = prior.on_support()
    p = inside.probabilities
    variance = float(p @ (1 - p))
    optimal = [design(inside, Histogram(), e, aim="mmse") for e in budgets]
    halved = [design(inside, Histogram(), e / 2, aim="mmse") for e in budgets]
    ldp = [best_ldp(p, e) for e in budgets]
    forced = [published_level(p, e) for e in budgets]
    k_ary = [variance - k_ary_gain(p, e) for e in budgets]
    subset = [variance - subset_gain(p, e) for e in budgets]
    levels = [subset_level(p, e) for e in budgets]
    read, unread = panels
    published = [published_error(variance, e) for e in budgets]
    free = _free_errors(inside, budgets, lambda e: subset_support(len(p), e))
    unary = _free_errors(inside, budgets, optimized_unary)
    points = [
        *curve(reached("published", budgets, forced), "published", budgets, published, forced, read),
        *curve(OPTIMAL, "corrected", budgets, [f.certificate.mse for f in optimal], map(level_of, optimal), read),
        *curve(HALF, "corrected", budgets, [f.certificate.mse for f in halved], map(level_of, halved), read),
        *curve(BEST_LDP, "corrected", budgets, [variance - gain for gain, _ in ldp], [level for _, level in ldp], read),
        *curve(K_ARY, "corrected", budgets, k_ary, [k_ary_level(p, e) for e in budgets], read),
        *curve(SUBSET, "corrected", budgets, subset, levels, read),
        *curve(BOUND, "corrected", budgets, [f.certificate.lower_bound for f in optimal], None, read),
        *curve(NO_DATA, "corrected", budgets, [variance] * len(budgets), 0.0, read),
        *curve(UNARY, "corrected", budgets, unary, unary_levels(inside, budgets), unread),
        *curve(FREE_SUBSET, "corrected", budgets, free, levels, unread),
        *curve(NO_DATA, "corrected", budgets, [variance] * len(budgets), 0.0, unread),
    ]  # fmt: skip
    return HistogramCurves(
        points,
        tuple(budgets),
        tuple(f.certificate.gain for f in optimal),
        tuple(gain for gain, _ in ldp),
        tuple(f.certificate.gap for f in optimal),
    )


def level_of(found: Design) -> float:
    """The LIP level that a finished design reaches, exactly, rounded up."""
    return found.mechanism.audit().lip.epsilon


def k_ary_gain(p: Floats, epsilon: float) -> float:
    """Σ_k (E−1)² P_k² (1 − 2P_k + ΣP²) / ((1 + (E−1)P_k)(E+d−1)): what k-ary response with MMSE removes, at any d.

    >>> prior = Prior.of({"a": 5, "b": 3, "c": 2})
    >>> from studies.baselines import k_ary_response
    >>> from tacit.mechanism import gain
    >>> abs(k_ary_gain(prior.probabilities, 1.0) - gain(k_ary_response(prior, 1.0), Histogram())) < 1e-8
    True
    """
    more = math.expm1(epsilon)
    return float((more**2 * p**2 * (1 - 2 * p + p @ p) / ((1 + more * p) * (more + len(p)))).sum())


def subset_gain(p: Floats, epsilon: float) -> float:
    """Σ_x (P(1−P)(p−q))²/(s(1−s)), s = q + (p−q)P: the gain of subset selection read cell by cell.

    Each cell reads only whether the report supports it: a lower bound of what the full posterior removes.
    """
    pure = subset_support(len(p), epsilon)
    supported = pure.q + (pure.p - pure.q) * p
    return float(((p * (1 - p) * (pure.p - pure.q)) ** 2 / (supported * (1 - supported))).sum())


def unary_levels(prior: Prior, budgets: Sequence[float]) -> list[float]:
    """The LIP level of optimized unary encoding, ln(E − (E−1)·min P): every bit set but that of the rarest value."""
    rarest = float(prior.on_support().probabilities.min())
    return [math.log1p(math.expm1(e) * (1 - rarest)) for e in budgets]


@dataclass(frozen=True)
class _HeavyAndRest(Task):
    """The histogram when the last value stands for many: its share of the gain is that of its members."""

    scale: float

    def g(self, prior: Prior) -> Floats:
        g = np.eye(len(prior))
        g[-1, -1] = self.scale
        return g


def best_ldp(p: Floats, epsilon: float) -> tuple[float, float]:
    """The gain of the best ε-LDP channel found for a histogram, and its LIP level.

    A channel on the heaviest values and the rest as one is a channel on all values; a member x of the rest, of mass T,
    then has the lift of the rest, so the rest gains Σ P_x² (v−1)² = (ΣP_x²/T²) · T²(v−1)².
    """
    found = [(k_ary_gain(p, epsilon), k_ary_level(p, epsilon)), (subset_gain(p, epsilon), subset_level(p, epsilon))]
    order = np.argsort(-p, kind="stable")
    for size in LDP_CORES:
        heavy, rest = p[order[:size]], p[order[size:]]
        mass = float(rest.sum())
        scale = math.sqrt(float(rest @ rest)) / mass if mass else 1.0
        weights = [*heavy, mass] if mass else list(heavy)
        merged = Prior(range(len(weights)), [round(weight * 10**15) for weight in weights])
        # The scale differs from 1 only for the rest, so a domain without one is a plain histogram.
        made = design(merged, _HeavyAndRest(scale), Promise(epsilon, notion="ldp"), aim="mmse")
        found.append((made.certificate.gain, audit(made.channel).lip.epsilon))
        if not mass:
            break
    return max(found)


def _free_errors(prior: Prior, budgets: Sequence[float], support: Callable[[float], Pure]) -> list[float]:
    """The noise of a pure LDP mechanism over all cells, read without the prior: d times its mean, being linear."""
    d = len(prior.support)
    return [d * noise(support(e), 1 / d) for e in budgets]
