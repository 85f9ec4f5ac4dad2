"""The ways to a design: closed forms, column generation, core and tail, arcs, repaired response.

Each takes a request and returns a finished design, audited, with its certificate, or raises `ArithmeticError` or
`PrivacyError` so that the next one is tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from tacit.designs.binary import optimal_binary
from tacit.designs.cyclic import cyclic, cyclic_lifts
from tacit.designs.promise import Promise
from tacit.designs.repaired import repaired_response
from tacit.exact import exp_below
from tacit.mechanism.core_tail import CoreTail
from tacit.mechanism.rounding import round_channel
from tacit.mechanism.table import Channel
from tacit.plan.certificate import Aim, Certificate
from tacit.prior import Floats, Prior
from tacit.task import Histogram, Task, mse, prior_variance, unbiased_variance


@dataclass(frozen=True)
class Design:
    """A mechanism that has passed the exact audit, and its certificate."""

    prior: Prior
    task: Task
    promise: Promise
    mechanism: Channel | CoreTail
    certificate: Certificate

    @property
    def channel(self) -> Channel:
        """The mechanism as a table."""
        if isinstance(self.mechanism, CoreTail):
            raise TypeError("This mechanism is implicit: it has no table. Use 'mechanism'.")
        return self.mechanism

    @property
    def n_outputs(self) -> int | None:
        """How many different reports there are; None where they are positions on a circle."""
        return self.mechanism.n_outputs if isinstance(self.mechanism, Channel) else None


@dataclass(frozen=True)
class Request:
    """What `design` was asked for."""

    prior: Prior
    task: Task
    promise: Promise
    aim: Aim
    invertible: bool
    max_outputs: int | None
    gap: float
    time_limit: float
    progress: Callable[[float, float], None] | None
    started: float = field(default_factory=perf_counter)

    @property
    def inside(self) -> list[int]:
        """Positions of the possible values."""
        return list(self.prior.support)

    @property
    def g(self) -> Floats:
        """The task on the possible values."""
        return self.task.g(self.prior)[self.inside]

    @property
    def p(self) -> Floats:
        """The prior on the possible values."""
        return self.prior.probabilities[self.inside]

    @property
    def is_histogram(self) -> bool:
        return isinstance(self.task, Histogram)

    @property
    def is_plain(self) -> bool:
        """Whether closed forms and implicit mechanisms apply: plain LIP and no further wishes."""
        wishes = self.invertible or self.max_outputs is not None or self.aim != "mmse"
        return self.promise.is_plain_lip and not wishes


def closed_kind(request: Request) -> str | None:
    """Which closed form is optimal here, if any: "binary" also for the survey of a value or a set."""
    if not request.is_plain:
        return None
    if request.is_histogram:
        if len(request.inside) <= 2:
            return "binary"
        return "cyclic" if len({request.prior.weights[x] for x in request.inside}) == 1 else None
    return "binary" if len(np.unique(request.g, axis=0)) <= 2 else None


def closed_form(request: Request) -> Design:
    """The binary or the cyclic optimum."""
    kind = closed_kind(request)
    if kind is None:
        raise ArithmeticError("no closed form is optimal for this prior and task")
    if kind == "binary":
        channel, best, duals = _two_answers(request)
        return _designed(request, channel, best, duals, "closed form, two answers", "optimal")
    epsilon = request.promise.main[1]
    lifts = np.array([float(v) for v in cyclic_lifts(len(request.p), exp_below(epsilon))])
    best = float(((lifts - 1) ** 2).sum()) / len(lifts) ** 2
    # By symmetry every value has the same dual, and they sum to the best gain.
    duals = np.full(len(lifts), best / len(lifts))
    return _designed(request, cyclic(request.prior, epsilon), best, duals, "closed form, uniform", "optimal")


def _two_answers(request: Request) -> tuple[Channel, float, Floats]:
    """Values with equal g share their lifts, so g with two rows is a yes/no question. Channel, gain and duals."""
    epsilon = request.promise.main[1]
    rows, which = np.unique(request.g, axis=0, return_inverse=True)
    which = which.ravel()
    if len(rows) == 1:
        return round_channel(request.prior, [[1]] * len(which), 0), 0.0, np.zeros(len(which))
    weights = [0, 0]
    for x, k in zip(request.inside, which, strict=True):
        weights[k] += request.prior.weights[x]
    two = Prior([0, 1], weights)
    small = optimal_binary(two, epsilon)
    words = small.denominator.bit_length() - 1
    channel = round_channel(request.prior, [small.weights[k] for k in which], epsilon, bits=words)
    p, up, down = two.probabilities, math.expm1(epsilon), -math.expm1(-epsilon)
    # How far the one report raises the second answer's probability, and the other lowers it.
    rise, fall = min(p[1] * up, p[0] * down), min(p[1] * down, p[0] * up)
    apart = float(((rows[1] - rows[0]) ** 2).sum())
    if rise * fall == 0:
        return channel, 0.0, np.zeros(len(which))
    lifts = np.array([[1 - rise / p[0], 1 + rise / p[1]], [1 + fall / p[0], 1 - fall / p[1]]])
    # Both reports are used, so the duals price them exactly: μ·v = gain.
    duals = np.linalg.solve(lifts, apart * np.array([rise, fall]) ** 2)
    return channel, apart * rise * fall, duals[which] * request.p / p[which]


def columns(request: Request) -> Design:
    """Column generation over the vertices of the lift set, for either aim and every wish."""
    from tacit.designs.program.prior_free import solve_invertible
    from tacit.designs.program.solver import solve

    p, g, lifts = request.p, request.g, request.promise.lifts
    limits: dict[str, Any] = {"gap": request.gap, "time_limit": request.time_limit}
    if request.aim == "prior_free":
        return _prior_free(request)
    if request.invertible:
        found = solve_invertible(p, g, lifts, **limits)
    else:
        found = solve(p, g, lifts, progress=_watch(request), max_outputs=request.max_outputs, **limits)
    channel = _table(request, found.lifts, found.probabilities)
    made = _designed(request, channel, found.gain_bound, found.duals, found.method, found.status)
    return replace(made, certificate=replace(made.certificate, iterations=found.iterations, notes=found.notes))


def _prior_free(request: Request) -> Design:
    """The channel of least prior-free variance; its bound is proved from the finished integers."""
    from tacit.designs.program.prior_free import proving_duals, solve_prior_free

    p, g, lifts = request.p, request.g, request.promise.lifts
    limits: dict[str, Any] = {"gap": request.gap, "time_limit": request.time_limit}
    free = solve_prior_free(p, g, lifts, progress=request.progress, **limits)
    channel = _table(request, free.lifts, free.probabilities)
    made = _designed(request, channel, 0.0, None, free.method, free.status)
    variance = unbiased_variance(request.task, channel, request.prior)
    bound, duals = 0.0, free.duals
    if len(p) > 1:
        finished = channel.lifts(request.prior)[:, request.inside]
        bound, duals = proving_duals(p, g, lifts, finished, channel.marginal(request.prior), free.duals)
    certificate = replace(
        made.certificate,
        aim="prior_free",
        error=variance,
        error_bound=min(bound, variance),
        duals=tuple(duals.tolist()),
        iterations=free.iterations,
        notes=free.notes,
        seconds=perf_counter() - request.started,
    )
    return replace(made, certificate=certificate)


def core_tail(request: Request, max_core: int = 256) -> Design:
    """The implicit mechanism for histograms of any size."""
    from tacit.designs.core_tail import design_core_tail

    if not (request.is_plain and request.is_histogram):
        raise ArithmeticError("the core-and-tail mechanism serves histograms under plain LIP only")
    inside = request.prior.on_support()
    try:
        found = design_core_tail(inside.weights, exp_below(request.promise.main[1]), max_core)
    except ValueError as failure:
        raise ArithmeticError(str(failure)) from failure
    p = inside.probabilities
    variance = float(p @ (1.0 - p))
    method = "core and tail" if found.channel.core else "arcs"
    certificate = Certificate(
        "mmse",
        variance - found.gain,
        variance - max(found.gain_bound, found.gain),
        variance,
        method,
        "within gap" if found.gap <= 0.01 else "feasible",
        seconds=perf_counter() - request.started,
        duals=found.duals,
    )
    return Design(request.prior, request.task, request.promise, found.channel, certificate)


def arcs(request: Request) -> Design:
    """The plain arc mechanism: the core-and-tail mechanism without a core."""
    return core_tail(request, max_core=0)


def repaired(request: Request) -> Design:
    """The repaired randomized response: private for every prior, with a bound that needs no search."""
    from tacit.designs.program.bounds import cheap_bound
    from tacit.designs.program.gain import Gain

    if not request.is_plain:
        raise ArithmeticError("the repaired response serves plain LIP only")
    channel = repaired_response(request.prior, request.promise.main[1])
    bound = cheap_bound(request.p, Gain.of(request.p, request.g), request.promise.lifts)
    return _designed(request, channel, bound, None, "repaired response", "feasible")


def _watch(request: Request) -> Callable[[Any], None] | None:
    progress = request.progress
    if progress is None:
        return None
    return lambda state: progress(state.gain, state.gain_bound)


def _table(request: Request, lifts: Floats, probabilities: Floats) -> Channel:
    """Integers for Q(y|x) = λ_y v_y(x)."""
    notion, epsilon = request.promise.main
    matrix = (lifts * probabilities[:, None]).T
    return round_channel(request.prior, matrix, epsilon, notion, also=request.promise.others)


def _designed(
    request: Request, channel: Channel, gain_bound: float, duals: Floats | None, method: str, status: str
) -> Design:
    variance = prior_variance(request.task, request.prior)
    error = mse(request.task, channel, request.prior)
    certificate = Certificate(
        "mmse",
        error,
        # The bound is in floats: it may not claim more than the integers achieve.
        max(0.0, min(variance - gain_bound, error)),
        variance,
        method,
        status,
        seconds=perf_counter() - request.started,
        duals=None if duals is None else tuple(duals.tolist()),
    )
    return Design(request.prior, request.task, request.promise, channel, certificate)
