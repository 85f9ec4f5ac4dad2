"""What is promised, what is asked for, and the ways to a design: column generation, many values, repaired response.

Each takes a request and returns a finished design with its certificate, which `design` audits, or raises
`ArithmeticError` or `PrivacyError` so that the next one is tried.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tacit.designs._program.bounds import TINY, dual_bound
from tacit.designs._program.deadline import Deadline
from tacit.designs._program.lifts import LiftSet
from tacit.exact import Floats, Number, budget, exp_below
from tacit.mechanism import Channel, Mechanism, Notion, PrivacyError, mse, round_channel, satisfies, unbiased_variance
from tacit.plan import Aim, Certificate
from tacit.prior import Ball, Prior, PriorSet
from tacit.task import Task, prior_variance

if TYPE_CHECKING:
    from tacit.designs._program.search import Found

#: The most steps to read a plan with many groups.
MOST_FOR_ALL_GROUPS = 2**29
#: Up to this many values the linear program finds the best unbiased channel; beyond there are rules without a search.
FEW_VALUES = 12
#: Rounding to integers may cost an optimal channel this share.
OPTIMAL_GAP = 1e-5
#: A table with a report for each value has at most this many.
MOST_ROWS = 500
#: A table of a histogram is searched for up to this many values.
MOST_SEARCHED = 1000


@dataclass(frozen=True)
class Promise:
    """LIP or LDP at level ε, and what is promised beside it.

    Args:
        epsilon: the budget ε, read exactly.
        notion: "lip", or "ldp" for the best LDP channel under the same prior, the fair baseline.
        ldp_cap: an LDP level that is kept as well.
        prior_set: LIP is kept for every prior of this set around the stated one, which may be wrong.

    Combinations that cannot help are refused.

    >>> Promise(1, ldp_cap=1.25).levels
    {'lip': Fraction(1, 1), 'ldp': Fraction(5, 4)}
    """

    epsilon: Fraction
    notion: Literal["lip", "ldp"]
    ldp_cap: Fraction | None
    prior_set: PriorSet | None

    def __init__(
        self,
        epsilon: Number,
        notion: Literal["lip", "ldp"] = "lip",
        ldp_cap: Number | None = None,
        prior_set: PriorSet | None = None,
    ) -> None:
        if notion not in ("lip", "ldp"):
            raise ValueError(f"The 'notion' must be 'lip' or 'ldp'. Got {notion!r} instead.")
        if prior_set is not None and (notion != "lip" or ldp_cap is not None):
            raise ValueError("A 'prior_set' refines plain LIP: drop 'ldp_cap', or the set.")
        if notion == "ldp" and ldp_cap is not None:
            raise ValueError("An 'ldp_cap' refines LIP; with notion='ldp' there is nothing to refine.")
        level, cap = budget(epsilon), None if ldp_cap is None else budget(ldp_cap, "ldp_cap")
        if cap is not None and cap <= level:
            raise ValueError(
                f"'ldp_cap' = {float(cap):g} is not above 'epsilon' = {float(level):g}: LDP at the cap already implies "
                f"the LIP budget. Use notion='ldp', epsilon={float(cap):g}, or a cap between {float(level):g} and "
                f"{2 * float(level):g}."
            )
        alone = prior_set is not None and prior_set.radius == 0
        for name, value in (
            ("epsilon", level), ("notion", notion), ("ldp_cap", cap), ("prior_set", None if alone else prior_set),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, promise: Promise | Number) -> Promise:
        """A promise as it is, or plain LIP at ε."""
        return promise if isinstance(promise, Promise) else cls(promise)

    @cached_property
    def levels(self) -> dict[Notion, Fraction]:
        """A level for each notion, exact."""
        if self.notion == "ldp":
            return {"ldp": self.epsilon}
        return {"lip": self.epsilon} if self.ldp_cap is None else {"lip": self.epsilon, "ldp": self.ldp_cap}

    @cached_property
    def lifts(self) -> LiftSet:
        """The same as bounds on lifts, in floats, for the search."""
        e = math.exp(self.epsilon)
        if self.notion == "ldp":
            return LiftSet(1 / e, e, e)
        return LiftSet(math.exp(-self.epsilon), e, math.inf if self.ldp_cap is None else math.exp(self.ldp_cap))

    @property
    def main(self) -> tuple[Notion, Fraction]:
        """The first notion and its level."""
        return next(iter(self.levels.items()))

    @property
    def others(self) -> dict[Notion, Fraction]:
        """Everything else that is promised."""
        return dict(list(self.levels.items())[1:])

    def kept_by(self, mechanism: Mechanism) -> bool:
        """Whether the mechanism keeps all of it, decided exactly."""
        kept = all(satisfies(mechanism, notion, level) for notion, level in self.levels.items())
        if self.prior_set is None or not kept:
            return kept
        return all(side.holds(self.levels["lip"]) for side in mechanism.set_levels(self.prior_set))

    @property
    def radius(self) -> Fraction:
        """How far the set reaches from the prior; 0 without one."""
        return Fraction(0) if self.prior_set is None else self.prior_set.radius

    @property
    def is_lip_or_ldp(self) -> bool:
        """Whether it is one of these, for a prior or a set, and nothing else."""
        return list(self.levels) in (["lip"], ["ldp"])


@dataclass(frozen=True, kw_only=True)
class Design:
    """A mechanism that has passed the exact audit, and its certificate."""

    task: Task
    promise: Promise
    mechanism: Mechanism
    certificate: Certificate

    @property
    def prior(self) -> Prior:
        """The prior that the mechanism is bound to."""
        return self.mechanism.prior

    @property
    def channel(self) -> Channel:
        """The mechanism, where it is a table."""
        table = self.mechanism.table()
        if table is None:
            raise TypeError(f"The mechanism {self.mechanism.kind!r} is a rule, not a table. Use 'mechanism'.")
        return table


@dataclass(frozen=True, kw_only=True)
class Request:
    """What `design` was asked for."""

    prior: Prior
    task: Task
    promise: Promise
    aim: Aim
    gap: float
    deadline: Deadline
    progress: Callable[[float, float], None] | None
    groups: int = 1
    different_groups: int = 1
    started: float = field(default_factory=perf_counter)

    @cached_property
    def inside(self) -> list[int]:
        """Positions of the possible values."""
        return list(self.prior.support)

    @cached_property
    def g(self) -> Floats:
        """The task on the possible values, in units of its range and centred: errors of it times `unit`² are real."""
        return np.eye(len(self.inside)) if self.is_histogram else self._normalised[0]

    @property
    def unit(self) -> float:
        """How many of the task's units one unit of `g` is."""
        return 1.0 if self.is_histogram else self._normalised[1]

    @cached_property
    def _normalised(self) -> tuple[Floats, float]:
        from tacit.designs._program.gain import normalised

        return normalised(self.task.g(self.prior)[self.inside])

    @property
    def watch(self) -> Callable[[float, float], None] | None:
        """The progress callback, for errors of `g`."""
        progress, square = self.progress, self.unit**2
        return None if progress is None else lambda reached, bound: progress(square * reached, square * bound)

    @cached_property
    def p(self) -> Floats:
        """The prior on the possible values."""
        return possible(self.prior)

    @cached_property
    def searched(self) -> tuple[Floats, LiftSet]:
        """Prior and lifts to search with."""
        return searchable(self.p, self.promise.lifts)

    @property
    def is_histogram(self) -> bool:
        return self.task.per_value

    @cached_property
    def told_apart(self) -> int:
        """How many different rows g has: values that it does not tell apart can share everything."""
        return len(self.inside) if self.is_histogram else len(np.unique(self.g, axis=0))

    @cached_property
    def is_joint(self) -> bool:
        """Whether the task has several numbers for each of more answers than vertices are listed for."""
        return not self.is_histogram and self.g.shape[1] > 1 and self.told_apart > FEW_VALUES

    @cached_property
    def is_sum(self) -> bool:
        """Whether the task adds up one number for each answer: the answer itself, or g of it."""
        return not self.is_histogram and self.g.shape[1] == 1

    @property
    def cheap_bound(self) -> float:
        """A bound of what the aim is about, for `g`, that needs no search."""
        return unsearched_bound(self.p, self.g, self.promise, self.aim)

    def says_nothing(self, found: Design) -> bool:
        """Whether a channel is useless although another would not be: its reports do not tell what is asked."""
        if self.told_apart == 1 or self.promise.lifts.trivial:
            return False
        if self.aim == "unbiased":
            return math.isinf(found.certificate.unbiased_variance)
        table = found.mechanism.table()
        return table is not None and bool((table.weights == table.weights[0]).all())


def unsearched_bound(p: Floats, g: Floats, promise: Promise, aim: Aim) -> float:
    """A bound of the gain or of the unbiased variance that needs no search."""
    from tacit.designs._program.bounds import cheap_bound, cheap_variance_bound
    from tacit.designs._program.gain import Gain

    if aim == "mmse":
        return cheap_bound(p, Gain.of(p, g), promise.lifts)
    bound = cheap_variance_bound(p, g, promise.lifts)
    if not isinstance(promise.prior_set, Ball):
        return bound
    from tacit.designs._program.sets import spread_bound_in

    return max(bound, spread_bound_in(promise.prior_set, g, float(promise.main[1])))


def possible(prior: Prior) -> Floats:
    """The probabilities of the possible values; what floats cannot tell from zero is the least that they can."""
    return np.maximum(prior.probabilities[list(prior.support)], sys.float_info.min)


def searchable(p: Floats, lifts: LiftSet) -> tuple[Floats, LiftSet]:
    """Prior and lifts to search with: tiny values count a little more, and lifts keep off their bounds as far as this
    can move them, so that the channel keeps its promise for the prior itself.
    """
    if p.min() >= TINY:
        return p, lifts
    least = max(2 * TINY, min(1e-6, 1e-5 / len(p) / min(lifts.upper, 1e9)))
    more = np.maximum(p, least)
    room = min(0.5, 2 * least * len(p) * min(lifts.upper, 1e9))
    within = replace(lifts, lower=min(1.0, lifts.lower * (1 + room)), upper=max(1.0, lifts.upper * (1 - room)))
    return more / more.sum(), within


def columns(request: Request) -> Design:
    """Column generation over the vertices of the lift set, for either aim and every promise.

    A table has a row for each value: of very many it would take minutes to write and to audit.
    """
    from tacit.designs._program.solver import solve

    if request.is_histogram and len(request.inside) > MOST_SEARCHED:
        # Before g, which has a row and a column for each value.
        raise ArithmeticError(f"a table is searched for histograms of up to {MOST_SEARCHED:,} values")
    if request.aim == "unbiased":
        return _unbiased(request)
    (p, lifts), g = request.searched, request.g
    limits: dict[str, Any] = {"gap": request.gap, "time_limit": request.deadline.part(1 / 2)}

    def search(share: float) -> Found:
        return solve(p, g, lifts.tightened(share), progress=request.watch, **limits)

    found, channel = rounded(request, search)
    bound = found.bound
    if lifts != request.promise.lifts:
        bound = dual_bound(request.p, g, request.promise.lifts, found.duals, request.deadline)
    return designed(
        request, channel, bound, duals=found.duals, method=found.method, status=found.status,
        iterations=found.iterations, notes=found.notes,
    )  # fmt: skip


def _unbiased(request: Request) -> Design:
    """The channel of least unbiased variance; its bound is proved from the finished integers."""
    from tacit.designs._program.search import NEWTON_LIMIT
    from tacit.designs._program.unbiased import proving_duals, solve_unbiased

    (p, lifts), g = request.searched, request.g
    limits: dict[str, Any] = {"gap": request.gap, "time_limit": request.deadline.part(1 / 2)}
    if request.told_apart > NEWTON_LIMIT:
        raise ArithmeticError(f"weights are optimised for up to {NEWTON_LIMIT} different answers")
    # Values that g does not tell apart share their lifts: averaging over them keeps every bound and the estimate.
    rows, group = np.unique(g, axis=0, return_inverse=True)
    group = group.ravel()
    merged = np.bincount(group, p).astype(np.float64)

    def search(share: float) -> Found:
        within = lifts.tightened(share)
        found = solve_unbiased(merged, rows, within, progress=request.watch, **limits)
        return replace(found, lifts=found.lifts[:, group])

    free, channel = rounded(request, search)
    share = p / merged[group]
    bound, duals = 0.0, free.duals[group] * share
    factor = None if free.factor is None else free.factor[group] * share[:, None]
    if len(p) > 1:
        finished, marginal = channel.inside_lifts, channel.marginal
        bound, duals = proving_duals(
            request.p, g, request.promise.lifts, finished, marginal, duals, request.gap, request.deadline, factor
        )
    return designed(
        request, channel, bound, duals=duals, method=free.method, status=free.status,
        iterations=free.iterations, notes=free.notes,
    )  # fmt: skip


def knots(request: Request) -> Design:
    """One number for each of many values: random rounding to a few knots, whose channel is the best of their own."""
    from tacit.designs._program.search import unbiased_variance_of
    from tacit.designs._program.sets import solve_robust
    from tacit.designs._program.unbiased import solve_unbiased
    from tacit.designs.knots import Knots, best_knots, places_of, sum_variance_bound

    if request.aim != "unbiased" or not request.is_sum:
        raise ArithmeticError("knots serve unbiased sums of one number only")
    inside = request.prior.on_support()
    added = inside.values if request.task.adds_numbers else request.task.g(request.prior)[request.inside, 0].tolist()
    lifts, places = request.promise.lifts, places_of(added)
    limits: dict[str, Any] = {"gap": request.gap, "time_limit": request.deadline.part(1 / 3)}

    def solved(found: Knots) -> Any:
        # A prior within total variation τ induces knots within τ.
        p, g = found.prior.probabilities, found.prior.numbers[:, None]
        if request.promise.prior_set is None:
            p, within = searchable(p, lifts)
            return solve_unbiased(p, g, within, **limits)
        around = Ball(found.prior, request.promise.radius)
        return solve_robust(around, g, float(request.promise.main[1]), aim="unbiased", **limits)

    tried: dict[tuple[Fraction, ...], Any] = {}

    def variance_of(found: Knots) -> float:
        made = tried[found.numbers] = solved(found)
        return unbiased_variance_of(found.prior.probabilities, found.prior.numbers, made.lifts, made.probabilities)

    best, _ = best_knots(inside, places, variance_of)
    found = tried[best.numbers]
    channel = _table(request, found.lifts @ best.weights.T, found.probabilities)
    bound = sum_variance_bound(request.p, request.g[:, 0], lifts, request.deadline)
    method = f"random rounding to {len(best.numbers)} knots"
    return designed(request, channel, bound, duals=None, method=method, status="feasible")


def robust(request: Request) -> Design:
    """The best channel for every prior of a set.

    Where the set keeps values apart that the task does not, and so many that nothing proves the best channel for it,
    the best one for the ball around it is looked at, too, whose values merge always.
    """
    from tacit.designs._program.sets import MOST_VALUES, values_searched

    prior_set = request.promise.prior_set
    if prior_set is None:
        raise ArithmeticError("there is no set of priors")
    values = values_searched(prior_set, request.g, request.aim)
    if isinstance(prior_set, Ball) or (values is not None and values <= MOST_VALUES):
        return _designed_in(request, prior_set)
    sets = [*([] if values is None else [prior_set]), Ball(request.prior, prior_set.radius)]
    return min((_designed_in(request, each) for each in sets), key=lambda found: found.certificate.aimed)


def table_in(request: Request, around: PriorSet, deadline: Deadline) -> tuple[Found, Channel]:
    """The best table found for every prior of a set, which may be larger than the one that is asked for."""
    from tacit.designs._program.sets import solve_robust

    epsilon = float(request.promise.main[1])
    return rounded(
        request,
        lambda share: solve_robust(
            around, request.g, share * epsilon, aim=request.aim, gap=request.gap, time_limit=deadline,
            progress=request.watch,
        ),
    )  # fmt: skip


def _designed_in(request: Request, around: PriorSet) -> Design:
    found, channel = table_in(request, around, request.deadline)
    proved = around == request.promise.prior_set  # What a larger set allows is no bound of what this one does.
    better = min if request.aim == "mmse" else max
    bound = better(request.cheap_bound, found.bound) if proved else request.cheap_bound
    duals = None
    if proved and request.is_joint and isinstance(around, Ball) and found.factor is not None:
        duals = np.concatenate([found.duals, found.factor.ravel()])
    return designed(
        request, channel, bound, duals=duals, method=f"for a set of priors, {found.method}",
        status=found.status if proved else "feasible", iterations=found.iterations, notes=found.notes,
    )  # fmt: skip


def many_values(request: Request) -> Design:
    """The mechanism `many-values`, for histograms of any size: unbiased under LIP for a ball of priors or LDP, and with
    bins for the aim "mmse" under plain LIP.
    """
    from tacit.designs._many_values import design_many_values, design_with_bins, gain_bound, unbiased_variance_bound
    from tacit.mechanism.many_values import MOST_WORK

    plain = list(request.promise.levels) == ["lip"] and request.promise.prior_set is None
    served = request.promise.is_lip_or_ldp if request.aim == "unbiased" else plain
    if not (request.is_histogram and served):
        raise ArithmeticError("the mechanism many-values serves histograms, unbiased under LIP or LDP, else under LIP")
    notion: Any = request.promise.main[0]
    epsilon, radius = request.promise.main[1], request.promise.radius
    if request.aim == "mmse":
        try:
            binned = design_with_bins(request.prior, epsilon)
        except ValueError as failure:
            raise ArithmeticError(str(failure)) from failure
        bound = gain_bound(request.prior, epsilon)
        status = "within gap" if binned.gain(request.task) >= 0.99 * bound else "feasible"
        return designed(request, binned, bound, duals=None, method="many values in bins", status=status)
    bound = unbiased_variance_bound(request.prior, epsilon, request.promise.prior_set, notion)
    # What reports determine is found in a few seconds for all groups of a plan.
    work = min(MOST_WORK, MOST_FOR_ALL_GROUPS // request.different_groups)
    found = design_many_values(request.prior, epsilon, radius, notion, work)
    return designed(request, found, bound, duals=None, method="many values", status="feasible")


def tiers(request: Request) -> Design:
    """The mechanism `tiers`, for unbiased histograms under LIP for a set of priors."""
    from tacit.designs._many_values import unbiased_variance_bound
    from tacit.designs._tiers import design_tiers
    from tacit.mechanism.many_values import MOST_WORK

    promise = request.promise
    if promise.prior_set is None or promise.main[0] != "lip" or request.aim != "unbiased" or not request.is_histogram:
        raise ArithmeticError("tiers serve unbiased histograms under LIP for a set of priors")
    epsilon, work = promise.main[1], min(MOST_WORK, MOST_FOR_ALL_GROUPS // request.different_groups)
    try:
        found = design_tiers(request.prior, epsilon, promise.radius, work)
    except ValueError as failure:
        raise ArithmeticError(str(failure)) from failure
    bound = unbiased_variance_bound(request.prior, epsilon, promise.prior_set)
    return designed(request, found, bound, duals=None, method="tiers", status="feasible")


def repaired(request: Request) -> Design:
    """Randomized response, repaired for LIP or, at the least level that is promised, LDP, which implies all else.

    No floats take part, so it is there for every prior; its bounds need no search.
    """

    if len(request.inside) > MOST_ROWS:
        raise ArithmeticError(f"the repaired response needs a report for each value, more than {MOST_ROWS}")
    if list(request.promise.levels) == ["lip"]:
        channel = repaired_response(request.prior, request.promise.main[1], request.promise.prior_set)
        method = "repaired response"
    else:
        channel = repaired_response(request.prior, min(request.promise.levels.values()), notion="ldp")
        method = "randomized response"
    return designed(request, channel, request.cheap_bound, duals=None, method=method, status="feasible")


def rounded(request: Request, search: Callable[[float], Found]) -> tuple[Found, Channel]:
    """The search at the full budget, and its integers; where floats leave these a hair outside the promise, those of
    a search at a little less.
    """
    found = search(1.0)
    for share in (0.9999, 0.999, 0.99):
        try:
            return found, _table(request, found.lifts, found.probabilities)
        except PrivacyError:
            close = search(share)
            found = replace(found, lifts=close.lifts, probabilities=close.probabilities)
    return found, _table(request, found.lifts, found.probabilities)


def _table(request: Request, lifts: Floats, probabilities: Floats) -> Channel:
    """Integers for Q(y|x) = λ_y v_y(x); reports with the same lifts say the same and become one."""
    notion, epsilon = request.promise.main
    prior_set = request.promise.prior_set
    seen: dict[bytes, int] = {}
    which = [seen.setdefault(row.tobytes(), len(seen)) for row in np.round(lifts, 9) + 0.0]
    first = np.unique(which, return_index=True)[1]
    matrix = (lifts[first] * np.bincount(which, probabilities)[:, None]).T
    if not np.isfinite(matrix).all():
        raise ArithmeticError("the channel that was found is not finite")
    return round_channel(request.prior, matrix, epsilon, notion, also=request.promise.others, prior_set=prior_set)


def designed(
    request: Request,
    mechanism: Mechanism,
    bound: float,
    *,
    duals: Floats | None,
    method: str,
    status: str,
    iterations: int = 0,
    notes: tuple[str, ...] = (),
) -> Design:
    """A finished mechanism with the errors that its integers have.

    `bound` is for the request's `g`: no channel has a larger gain (aim "mmse") or a smaller variance ("unbiased").
    """
    task, square = request.task, request.unit**2
    before, error = prior_variance(request.prior, task), mse(mechanism, task)
    variance = unbiased_variance(mechanism, task)
    # Bounds are floats: they may not claim more than the integers achieve.
    lower = min(before - square * bound, error) if request.aim == "mmse" else min(square * bound, variance)
    made = Certificate(
        aim=request.aim,
        mse=error,
        unbiased_variance=variance,
        prior_variance=before,
        lower_bound=float(max(0.0, lower)),
        method=method,
        status=status,
        iterations=iterations,
        seconds=perf_counter() - request.started,
        duals=None if duals is None else tuple(duals.tolist()),
        notes=notes,
    )
    certificate = replace(made, status=_status(status, made.gap, request.gap))
    return Design(task=task, promise=request.promise, mechanism=mechanism, certificate=certificate)


def _status(searched: str, gap: float, wanted: float) -> str:
    """What the search says of itself, as far as the finished integers and the proof of their bound bear it out."""
    if searched not in ("optimal", "within gap"):
        return searched
    if searched == "optimal" and gap <= OPTIMAL_GAP:
        return searched
    return "within gap" if gap <= wanted else "feasible"


# -- channels that need no search --------------------------------------------------------------------------------------


def optimal_binary(prior: Prior, epsilon: Number) -> Channel:
    """The channel of least MSE for a `prior` with at most two possible values, ε = `epsilon`.

    With p the prior of the rarer value and E = e^ε: if p ≥ 1/(E+1) it is the published Theorem 2, which touches both
    lower bounds. Otherwise the rare value's upper bound binds first:

        Q(rare|rare) = E/(E+1),   Q(rare|common) = (1 − pE) / ((E+1)(1−p)).

    Two outputs suffice and the choice is optimal for every convex utility.

    >>> from tacit.mechanism.auditing import audit
    >>> from tacit import Survey, mse
    >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
    >>> round(mse(optimal_binary(prior, 1), Survey("yes")), 7)
    0.0791384
    """
    exact = budget(epsilon)
    inside = prior.on_support()
    if len(inside) > 2:
        raise ValueError(f"optimal_binary needs a prior with at most two possible values. Got {len(inside)}.")
    if len(inside) == 1:
        return round_channel(prior, [[1]], exact)
    bound = exp_below(exact)
    a, b = bound.numerator, bound.denominator
    rare = 0 if inside.weights[0] <= inside.weights[1] else 1
    p, rest = inside.weights[rare], inside.weights[1 - rare]
    if p * (a + b) >= inside.total * b:
        rows = [[inside.total * a - rest * b, rest * b], [p * b, inside.total * a - p * b]]
    else:
        lie = inside.total * b - p * a
        rows = [[a * rest, b * rest], [lie, (a + b) * rest - lie]]
    order = [rare, 1 - rare]
    return round_channel(prior, [[rows[order[x]][order[y]] for y in range(2)] for x in range(2)], exact)


def repaired_response(
    prior: Prior, epsilon: Number, prior_set: PriorSet | None = None, notion: Notion = "lip"
) -> Channel:
    """Tell the truth with probability s, otherwise report k with probability proportional to m_k.

        q = s·I + 1·cᵀ,  m_k = max(u_k, 1 − E·l_k),  s = (E−1)/(E−1+Σm),  c_k = s·m_k/(E−1),

    where E = e^ε, ε = `epsilon`, and l_k ≤ u_k are the least and the largest probability of value k over the
    `prior_set`; both are the `prior` P_k without a set. Under a prior p report k has λ_k = s·p_k + c_k, so its lower
    lift c_k/λ_k reaches 1/E where m_k = u_k and its upper lift (s+c_k)/λ_k reaches E where m_k = 1 − E·l_k: ε-LIP for
    every prior of the set, optimal for one prior of two values, far from optimal for many. With l = 0 and u = 1, which
    is the `notion` "ldp", it is k-ary randomized response.

    >>> from tacit.mechanism.auditing import satisfies
    >>> prior = Prior.of({"a": 0.01, "b": 0.29, "c": 0.7})
    >>> satisfies(repaired_response(prior, 1), "lip", 1), satisfies(repaired_response(prior, 1, notion="ldp"), "ldp", 1)
    (True, True)
    """
    exact = budget(epsilon)
    bound = exp_below(exact)
    inside = prior.on_support()
    ends = [(Fraction(0), Fraction(1)) for _ in inside.values] if notion == "ldp" else _ends(inside, prior_set)
    # Rows over the denominator s/(E−1).
    fallback = [max(most, 1 - bound * least) for least, most in ends]
    rows = [list(fallback) for _ in inside.values]
    for x in range(len(inside)):
        rows[x][x] += bound - 1
    return round_channel(prior, rows, exact, notion, prior_set=prior_set)


def _ends(inside: Prior, prior_set: PriorSet | None) -> list[tuple[Fraction, Fraction]]:
    """The least and the largest probability of each possible value over the set."""
    if prior_set is None:
        return [(share, share) for share in (Fraction(weight, inside.total) for weight in inside.weights)]
    values = prior_set.prior.values
    return [prior_set.extremes([int(value == one) for value in values]) for one in inside.values]
