"""Channels that keep their promise for every prior of a set, for tasks that tell few values apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.designs.methods import Design, Request, designed, rounded
from tacit.mechanism import Channel
from tacit.prior import Ball, PriorSet

if TYPE_CHECKING:
    from tacit.designs.program.deadline import Deadline
    from tacit.designs.program.search import Found


def robust(request: Request) -> Design:
    """The best channel for every prior of a set.

    Where the set keeps values apart that the task does not, and so many that nothing proves the best channel for it,
    the best one for the ball around it is looked at, too, whose values merge always.
    """
    from tacit.designs.program.sets import MOST_VALUES, values_searched

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
    from tacit.designs.program.sets import solve_robust

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
    return designed(
        request, channel, bound, duals=None, method=f"for a set of priors, {found.method}",
        status=found.status if proved else "feasible", iterations=found.iterations, notes=found.notes,
    )  # fmt: skip
