"""One door to designs: the best channel known for a prior, a task and a promise, with a proof of how good it is.

    maximise Σ_y λ_y gain(v_y)   subject to   Σ_y λ_y v_y = 1,  λ ≥ 0,  v_y in the lift set of the promise

Read `TABLE` first: it says which builder serves which task, number of values and promise. For any builder, the
finished integers pass the exact audit here, and the certificate's errors are computed from them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, get_args

import numpy as np
from numpy import errstate
from numpy.linalg import LinAlgError
from threadpoolctl import ThreadpoolController

from tacit.designs import _methods as methods
from tacit.designs._methods import FEW_VALUES, Design, Promise, Request
from tacit.designs._program.deadline import Deadline
from tacit.designs.without_prior import MECHANISMS, capped_histogram, large_histogram, without_prior
from tacit.exact import Number
from tacit.mechanism import PrivacyError
from tacit.plan import Aim
from tacit.prior import Prior, Value
from tacit.task import Task

Method = Literal[
    "auto", "columns", "many-values", "repaired", "without-prior", "subset-selection",
    "projective",
]  # fmt: skip
#: A histogram over more values than this gets no table.
TABLE_LIMIT = 500
#: The search for several numbers for each of many answers stops at this gap.
JOINT_GAP = 8e-3
#: Errors are squares, which floats must hold.
LARGEST_DIFFERENCE = 1e150

Builder = Callable[[Request], Design]
_BUILDERS: dict[str, Builder] = {
    "columns": methods.columns,
    "many-values": methods.many_values,
    "repaired": methods.repaired,
    "without-prior": without_prior,
    **{name: partial(without_prior, name=name) for name in MECHANISMS},
    # The others are taken by "auto" only.
    "robust": methods.robust,
    "knots": methods.knots,
    "large histogram": large_histogram,
    "capped histogram": capped_histogram,
}


def _unbiased_of_many(request: Request) -> bool:
    return request.aim == "unbiased" and request.told_apart > FEW_VALUES


#: Task, values and promise; whether a request is of this kind; builders, the best first and then safe ones.
TABLE: tuple[tuple[str, Callable[[Request], bool], tuple[str, ...]], ...] = (
    ("one number for each of more than 12 answers, unbiased; any promise",
     lambda request: _unbiased_of_many(request) and request.is_sum, ("knots", "repaired")),
    ("histogram of more than 12 values, unbiased; LIP with a cap or another budget below",
     lambda request: _unbiased_of_many(request) and request.is_histogram and bool(request.promise.others),
     ("capped histogram", "repaired")),
    ("histogram of more than 12 values, unbiased; LIP, for a set of priors too, or LDP",
     lambda request: _unbiased_of_many(request) and request.is_histogram and request.promise.is_lip_or_ldp,
     ("large histogram", "repaired")),
    ("any other task; LIP for a set of priors",
     lambda request: request.promise.prior_set is not None, ("robust", "repaired")),
    ("histogram of more than 500 values, mmse; LIP",
     lambda request: request.is_histogram and len(request.inside) > TABLE_LIMIT, ("many-values",)),
    ("any other", lambda request: True, ("columns", "repaired")),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Search:
    """How to search for a design.

    Args:
        method: "auto" takes the builders of `TABLE`; "without-prior" does not look at the prior, and takes the best of
            the LDP mechanisms, which also have names of their own.
        gap: the search stops at this relative gap, by default 0.1% up to 50 values, 0.4% up to 200, 0.8% beyond and for
            several numbers for each of more than 12 answers.
        time_limit: or after the work of this many seconds of an ordinary core, which is counted, so that a busy machine
            finds the same design; or at a keyboard interrupt. The best channel so far has a valid certificate.
        groups: how many groups a plan will hold: if many, "auto" prefers rules to tables, which make it long.
        different_groups: how many of them have designs of their own: if many, those are preferred that are found and
            read quickly.
        progress: is called with gain and bound or, for the aim "unbiased", with variance and bound.
    """

    method: Method = "auto"
    gap: float | None = None
    time_limit: float = 30.0
    groups: int = 1
    different_groups: int = 1
    progress: Callable[[float, float], None] | None = None


def design(
    prior: Prior | Mapping[Value, Number],
    task: Task | str,
    promise: Promise | Number,
    *,
    aim: Aim = "unbiased",
    search: Search | None = None,
) -> Design:
    """The best channel for `task` under `prior` that keeps the promise, and a proof of how good it is.

    Args:
        prior: what is believed about one respondent beforehand; a mapping is short for `Prior.of(mapping)`.
        task: what is to be estimated; the names "histogram", "sum" and "weighted-sum" are short for the tasks.
        promise: what has to be kept; a number ε is short for `Promise(ε)`, plain LIP.
        aim: "unbiased" minimises the variance of the estimate that does not use the prior, and is within a few per
            cent of the best however good the prior is; "mmse", the paper's, the error of the one that trusts it.
        search: how to search.

    Returns:
        The audited mechanism and a certificate with its error and a bound that no mechanism with this promise can beat.

    Raises:
        PrivacyError: no method gave a channel that passes the exact audit.

    >>> found = design({"a": 0.5, "b": 0.3, "c": 0.2}, "histogram", 1)
    >>> found.certificate.status, found.certificate.gap < 1e-3
    ('optimal', True)
    """
    believed = Prior.of(prior)
    asked, d = Search() if search is None else search, len(believed.support)
    request = Request(
        prior=believed, task=Task.of(task), promise=Promise.of(promise), aim=aim,
        gap=(1e-3 if d <= 50 else 4e-3 if d <= 200 else 8e-3) if asked.gap is None else asked.gap,
        deadline=Deadline.after(asked.time_limit), groups=asked.groups, different_groups=asked.different_groups,
        progress=asked.progress,
    )  # fmt: skip
    _check(request)
    if asked.gap is None and request.is_joint:
        request = replace(request, gap=JOINT_GAP)
    notes: list[str] = []
    for name in _builders(request, asked.method):
        try:
            # What floats cannot hold shows below, in the audit.
            with one_thread(), errstate(all="ignore"):
                found = _BUILDERS[name](request)
        except (PrivacyError, ArithmeticError, LinAlgError) as failure:
            why = "floats cannot solve its equations" if isinstance(failure, LinAlgError) else failure
            notes.append(f"{name} failed: {why}")
            continue
        if not request.promise.kept_by(found.mechanism):
            level = found.mechanism.audit().lip.epsilon
            notes.append(f"{name} failed the audit: its channel reaches {level:.6g}.")
            continue
        if request.says_nothing(found):
            notes.append(f"{name} failed: its reports do not depend on what is asked.")
            continue
        return replace(found, certificate=replace(found.certificate, notes=(*notes, *found.certificate.notes)))
    raise PrivacyError(f"No method gave a channel that keeps the promise. {' '.join(notes)}")


def _builders(request: Request, method: Method) -> tuple[str, ...]:
    """The method asked for, or those of the first row of the table that fits."""
    if method == "without-prior" and not (request.is_histogram and request.told_apart > FEW_VALUES):
        method = "auto"  # The linear program, which finds the best channel for few values.
    if method == "auto":
        return next(builders for _, fits, builders in TABLE if fits(request))
    if method not in get_args(Method):
        raise ValueError(f"The 'method' must be one of {', '.join(get_args(Method))}. Got {method!r} instead.")
    return (method,)


def _check(request: Request) -> None:
    d, epsilon = len(request.inside), request.promise.main[1]
    if request.aim not in ("mmse", "unbiased"):
        raise ValueError(f"The 'aim' must be 'mmse' or 'unbiased'. Got {request.aim!r} instead.")
    if not request.is_histogram:
        with errstate(over="ignore"):
            apart = float(np.ptp(request.task.g(request.prior)[request.inside], axis=0).max(initial=0.0))
        if not apart < LARGEST_DIFFERENCE:
            raise ValueError("The values lie too far apart: the squares of their differences exceed what floats hold.")
        if request.aim == "unbiased" and request.g.shape[1] > 1 and request.told_apart > TABLE_LIMIT:
            raise ValueError(
                f"A task with several numbers for each answer has no good unbiased design over more than {TABLE_LIMIT} "
                f"different answers. Got {request.told_apart:,}. Ask for each number in a plan of its own, or merge "
                "values, or use the aim 'mmse'."
            )
    if d > 1 and epsilon == 0 and request.aim == "unbiased":
        raise ValueError("At ε = 0 reports say nothing, so no unbiased estimate exists. Any ε > 0 is feasible.")
    set_asked = request.promise.prior_set is not None and request.aim == "mmse"
    if d > TABLE_LIMIT and request.is_histogram and (request.promise.others or set_asked):
        raise ValueError(
            f"Histograms over more than {TABLE_LIMIT} values are served by rules, for plain LIP, for a set of priors "
            "with the aim 'unbiased', and for LDP. Merge rare values, or drop the cap."
        )


def one_thread() -> AbstractContextManager[Any]:
    """While it is entered, the libraries of linear algebra that are loaded use one thread each.

    >>> with one_thread():
    ...     pass
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """What is loaded. Looking takes milliseconds, and libraries come with modules: again only if there are more."""
    return ThreadpoolController()
