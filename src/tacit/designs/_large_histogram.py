"""The automatic choice for unbiased histograms of more than twelve values: follow the prior, or take values as alike?

A table of few values that climbing finds follows the prior best: nothing proves that it is the optimum, but it beats
`many-values` by an eighth of the variance for 16 values. At an ε so large that a report may nearly
name the answer, so does the repaired response for more values. `many-values` follows the prior of any number of values
and wins by it, up to three quarters of LDP's variance. Under LDP and in wide balls of priors nothing is won: its best
form has one cell for each value, which is subset selection. A block design (`without_prior`) is the same mechanism up
to its tolerance of 2% of the variance, with less work for drawing and counting a report, and its promise, LDP, implies
LIP for every prior there is.

The rule.  Cheap reports may cost 2% (`TOLERANCE`) of the variance. The block design is taken if its variance under the
prior is at most that above the best of the others; else a table, if one that takes seconds to find (`MOST_SEARCHED`,
`MOST_IN_TABLE`) is at most that above `many-values`; and else `many-values`. Variances are those of the finished
integers; all that is taken is audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from numpy.linalg import LinAlgError

from tacit.designs._methods import Design, Request, columns, designed, many_values, repaired, table_in
from tacit.designs.without_prior import TOLERANCE, without_prior, without_prior_bound
from tacit.exact import exp_below
from tacit.mechanism import PrivacyError
from tacit.prior import Ball, Hull, PriorSet

#: Tables are searched for while d³ is at most this for all groups together: some seconds, and a megabyte of a plan.
MOST_SEARCHED = 2**17
#: The repaired response has a report for each value: this many integers make a plan of half a megabyte.
MOST_IN_TABLE = 200**2


def large_histogram(request: Request) -> Design:
    """A block design where it is as good as all others, which it is where values are all alike; or what follows the
    prior.
    """
    try:
        alike = without_prior(request)
    except ArithmeticError:  # So many values that no block design has room for them.
        return _following(request)
    if _near(alike, alike.certificate.lower_bound, TOLERANCE):
        return alike
    try:
        following = _following(request)
    except (PrivacyError, ArithmeticError, LinAlgError):
        return alike
    if _near(alike, following.certificate.unbiased_variance, TOLERANCE):
        return replace(alike, certificate=replace(alike.certificate, notes=following.certificate.notes))
    return following


def capped_histogram(request: Request) -> Design:
    """For promises beside LIP: what a search for columns ends with, or a block design where that is better, as LDP at
    the least level implies all of them.
    """
    found = [*_tried(columns, request), *_tried(without_prior, request)]
    if not found:
        raise ArithmeticError("neither columns nor a mechanism without a prior serve it")
    return min(found, key=lambda each: each.certificate.unbiased_variance)


def _following(request: Request) -> Design:
    """A table if there is one that is as good as `many-values`."""
    rule = many_values(request)
    tables = [*_tried(_climbed, request), *_tried(_repaired, request)]
    table = min(tables, key=lambda found: found.certificate.unbiased_variance, default=rule)
    return table if _near(table, rule.certificate.unbiased_variance, TOLERANCE) else rule


def _tried(method: Callable[[Request], Design], request: Request) -> Iterator[Design]:
    """What a method finds, if it finds anything."""
    with suppress(PrivacyError, ArithmeticError, LinAlgError):
        yield method(request)


def _repaired(request: Request) -> Design:
    """The repaired response, where E is not far below the number of values."""
    size, (notion, epsilon) = len(request.inside), request.promise.main
    if size**2 * request.groups > MOST_IN_TABLE or size > 4 * exp_below(epsilon) or notion != "lip":
        raise ArithmeticError("the repaired response would be far from the best")
    return repaired(request)


def _climbed(request: Request) -> Design:
    """The best table that climbing finds; for a hull of priors, of those that hold for a ball or a box around it.

    LDP is LIP for every prior, a ball of radius 1.
    """
    from tacit.designs._program.sets import MOST_CLIMBED

    size, (notion, _) = len(request.inside), request.promise.main
    if size > MOST_CLIMBED or size**3 * request.groups > MOST_SEARCHED:
        raise ArithmeticError("a table would be searched for too long, or in vain")
    stated = request.promise.prior_set
    radius = 1 if notion == "ldp" else request.promise.radius
    sets: list[PriorSet] = [Ball(request.prior, radius) if stated is None else stated]
    if isinstance(stated, Hull):
        sets = [Ball(request.prior, stated.radius), stated.box]
    found = [each for around in sets for each in _tried(partial(_climbed_in, around=around), request)]
    if not found:
        raise ArithmeticError("no table was found")
    return min(found, key=lambda each: each.certificate.unbiased_variance)


def _climbed_in(request: Request, around: PriorSet) -> Design:
    """The best table that climbing finds among those that hold for a set of priors, which may be larger than stated."""
    found, channel = table_in(request, around, request.deadline.part(1 / 2))
    return designed(
        request, channel, without_prior_bound(request.prior, request.promise), duals=None, method="climbing",
        status="within gap", iterations=found.iterations,
    )  # fmt: skip


def _near(found: Design, variance: float, tolerance: float) -> bool:
    return found.certificate.unbiased_variance <= (1 + tolerance) * variance
