"""The best channel known to exist for a prior, a task and a budget, with a certificate of how good it is.

    maximise Σ_y λ_y gain(v_y)   subject to   Σ_y λ_y v_y = 1,  λ ≥ 0,  v_y in the lift set of the promise

Closed forms serve two values (and any survey of one value or a set) and uniform priors; column generation serves
everything else, sums at any size; the core-and-tail mechanism serves large histograms. Whatever the method, the
finished integers pass the exact audit, and the certificate's error is computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from numpy.linalg import LinAlgError

from tacit.designs import methods
from tacit.designs.methods import Design, Request, closed_kind
from tacit.designs.promise import make_promise
from tacit.exact import Number
from tacit.mechanism.rounding import PrivacyError
from tacit.plan.certificate import Aim
from tacit.prior import Prior
from tacit.task import Task

Method = Literal["auto", "closed form", "columns", "core-tail", "arcs", "repaired"]
#: A histogram over more values than this gets the implicit core-and-tail mechanism.
TABLE_LIMIT = 500

_BUILD: dict[str, Callable[[Request], Design]] = {
    "closed form": methods.closed_form,
    "columns": methods.columns,
    "core-tail": methods.core_tail,
    "arcs": methods.arcs,
    "repaired": methods.repaired,
}


def design(
    prior: Prior,
    task: Task,
    epsilon: Number,
    *,
    aim: Aim = "mmse",
    notion: Literal["lip", "ldp"] = "lip",
    method: Method = "auto",
    lower_epsilon: Number | None = None,
    ldp_cap: Number | None = None,
    invertible: bool = False,
    max_outputs: int | None = None,
    gap: float | None = None,
    time_limit: float = 30.0,
    progress: Callable[[float, float], None] | None = None,
) -> Design:
    """The best channel for `task` under `prior` that keeps `notion` at level ε, and a proof of how good it is.

    `aim` "mmse" minimises the error of the estimate that uses the prior, "prior_free" the variance of the one that does
    not. `notion` "ldp" gives the best LDP channel under the same prior, the fair baseline. `lower_epsilon` is a
    separate budget for lowering beliefs (math.inf for none); `ldp_cap` caps the LDP level as well; `invertible` mixes
    in what prior-free estimates need; `max_outputs` limits the number of reports. The search stops at a relative `gap`
    (by default 0.1% up to 50 values, 0.4% up to 200, 0.8% beyond), at `time_limit` seconds, or at a keyboard
    interrupt, and returns its best channel with a valid certificate. `progress` is called with gain and
    bound, or, for the aim "prior_free", with variance and bound.

    >>> from tacit.task import Histogram
    >>> found = design(Prior.of({"a": 0.5, "b": 0.3, "c": 0.2}), Histogram(), epsilon=1)
    >>> found.certificate.status, found.certificate.gap < 1e-6
    ('optimal', True)
    """
    promise = make_promise(epsilon, notion, lower_epsilon, ldp_cap)
    if gap is None:
        d = len(prior.support)
        gap = 1e-3 if d <= 50 else 4e-3 if d <= 200 else 8e-3
    request = Request(prior, task, promise, aim, invertible, max_outputs, gap, time_limit, progress)
    _check(request)
    notes: list[str] = []
    for name in _methods(request, method):
        try:
            found = _BUILD[name](request)
        except (PrivacyError, ArithmeticError, LinAlgError) as failure:
            notes.append(f"{name} failed: {failure}")
            continue
        return replace(found, certificate=replace(found.certificate, notes=(*notes, *found.certificate.notes)))
    raise PrivacyError(f"No method gave a channel that keeps the promise. {' '.join(notes)}")


def design_many(
    priors: Sequence[Prior], task: Task, epsilon: Number, progress: Callable[[int, int], None] | None = None
) -> list[Design]:
    """A design for each of many priors; equal priors are designed once.

    Two-valued priors, surveys and uniform priors have closed forms, so thousands of them take no linear program.

    >>> from tacit.task import Survey
    >>> people = [Prior.of({"yes": k % 10 + 1, "no": 20}) for k in range(100)]
    >>> len({id(found) for found in design_many(people, Survey("yes"), 1)})
    10
    """
    known: dict[Prior, Design] = {}
    for done, prior in enumerate(priors):
        if prior not in known:
            known[prior] = design(prior, task, epsilon)
        if progress is not None:
            progress(done + 1, len(priors))
    return [known[prior] for prior in priors]


def _check(request: Request) -> None:
    d, epsilon = len(request.inside), request.promise.main[1]
    if request.aim not in ("mmse", "prior_free"):
        raise ValueError(f"The 'aim' must be 'mmse' or 'prior_free'. Got {request.aim!r} instead.")
    inverts = request.invertible or request.aim == "prior_free"
    if d > 1 and epsilon == 0 and inverts:
        raise ValueError("At ε = 0 reports say nothing, so no prior-free estimate exists. Any ε > 0 is feasible.")
    if request.max_outputs is not None:
        if inverts:
            raise ValueError(
                "'max_outputs' cannot be combined with 'invertible' or aim 'prior_free'. Drop one of them."
            )
        if request.max_outputs < min(2, d):
            raise ValueError(
                f"'max_outputs' = {request.max_outputs} is too small: any design needs at least 2 reports."
            )
    if d > TABLE_LIMIT and request.is_histogram and not request.is_plain:
        raise ValueError(
            f"Histograms over more than {TABLE_LIMIT} values are served by the implicit mechanism, for plain LIP and "
            "aim 'mmse' only. Merge rare values, or drop the other wishes."
        )


def _methods(request: Request, method: Method) -> list[str]:
    """The method asked for, or the best one first and then safe ones to fall back on."""
    if method != "auto":
        if method not in _BUILD:
            raise ValueError(f"The 'method' must be one of auto, {', '.join(_BUILD)}. Got {method!r} instead.")
        return [method]
    first = ["closed form"] if closed_kind(request) else []
    if request.is_histogram and len(request.inside) > TABLE_LIMIT:
        return ["core-tail", "arcs"]
    return [*first, "columns", "repaired"] if request.is_plain else ["columns"]
