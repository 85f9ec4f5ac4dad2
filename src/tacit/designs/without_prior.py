"""Designs without a prior: block designs under LDP, the best of them, and a bound.

With E = e^ε, every value covered by the share f of all reports and E times as likely to send one of those as another,
the variance per value is (1+(E−1)f)²/((E−1)²f(1−f)) up to terms in 1/d, least at f = 1/(E+1), where it is 4E/(E−1)².
Subset selection takes the f = k/M nearest to that; projective geometry response has f ≈ 1/q, q a power of a prime.
Other LDP mechanisms of the literature (OLH, OUE, Hadamard response) have no better f.

The rule (`best_without_prior`).  All of them draw a report in the same short time. So least variance decides, but for
at most 2% (`TOLERANCE`) of it, which buys reports that are counted fast: counting an arc looks at all d values for
each report, counting a difference set takes one convolution for all reports together.

1. Candidates are the mechanisms within 2% of `ldp_variance_bound`, below which no LDP channel goes.
2. Of more than 256 values (`FEW_LOOKS`) difference sets are taken if any is among them: some hundred million reports a
   second are counted, where of arcs it is a few million for a thousand values and fewer in proportion for more. For
   fewer values arcs are counted as fast as reports are drawn, and nothing is paid.
3. Of what is left, the one of least variance.
4. With no candidate (few values, no prime near) `many-values` with one cell for each value, which
   reaches the bound for every number of values and is slower.

The automatic choice for unbiased histograms of more than twelve values (`large_histogram`): follow the prior, or take
values as alike?

A table of few values that climbing finds follows the prior best: nothing proves that it is the optimum, but it beats
`many-values` by an eighth of the variance for 16 values. At an ε so large that a report may nearly
name the answer, so does the repaired response for more values. `many-values` follows the prior of any number of values
and wins by it, up to three quarters of LDP's variance. Under LDP and in wide balls of priors nothing is won: its best
form has one cell for each value, which is subset selection. A block design (`without_prior`) is the same mechanism up
to its tolerance of 2% of the variance, with less work for drawing and counting a report, and its promise, LDP, implies
LIP for every prior there is.

For a ball of priors in which `many-values` gains little, `tiers` may still follow the prior: reports that leave out the
heaviest values.

The rule.  Cheap reports may cost 2% (`TOLERANCE`) of the variance. The block design is taken if its variance under the
prior is at most that above the best of the others; else a table, if one that takes seconds to find (`MOST_SEARCHED`,
`MOST_IN_TABLE`) is at most that above `many-values`; and else `many-values`, or `tiers` if that is better by more.
Variances are those of the finished integers; all that is taken is audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count

from numpy.linalg import LinAlgError

from tacit.designs._many_values import design_many_values, unbiased_variance_bound
from tacit.designs._methods import Design, Promise, Request, columns, designed, many_values, repaired, table_in, tiers
from tacit.exact import exp_below, exp_enclosure, float_above
from tacit.mechanism import BlockDesign, Mechanism, PrivacyError
from tacit.mechanism.block_design import MOST_POINTS
from tacit.mechanism.singer import first_recurrence, n_points, next_prime, prime_power
from tacit.prior import Ball, Hull, Prior, PriorSet
from tacit.task import prior_variance

_WORD_BITS = 64
#: Fields of difference sets stay below this.
_LARGEST_FIELD = 8191
#: So much more variance, as a share of the least there is, may be paid for speed.
TOLERANCE = 0.02
#: Up to this many values a report that looks at all of them is counted as fast as it is drawn.
FEW_LOOKS = 256


def subset_selection(prior: Prior, epsilon: Fraction) -> BlockDesign:
    """A random subset of about a share 1/(E+1) of the values, more likely with the answer in it than without.

    >>> found = subset_selection(Prior.uniform(100), Fraction(1))
    >>> found.circle, found.arc, found.n_reports
    (101, 27, 10100)
    """
    ratio, circle = exp_below(epsilon), next_prime(len(prior))
    around = int(circle / (ratio + 1))
    arcs = sorted({min(max(1, arc), circle - 1) for arc in (around, around + 1)})
    tried = [_design(prior, ratio, circle=circle, orders=circle - 1, arc=arc) for arc in arcs]
    # Subsets of one value need no orders, nor a prime.
    return best([*tried, _design(prior, ratio, circle=len(prior), orders=1, arc=1)])


def projective_response(prior: Prior, epsilon: Fraction) -> BlockDesign:
    """Projective geometry response: the points of a hyperplane for every value, over a field of about E + 1
    elements.

    >>> found = projective_response(Prior.uniform(100), Fraction(1))
    >>> found.field, found.circle, found.arc
    (4, 341, 85)
    """
    ratio, size = exp_below(epsilon), len(prior)
    # Beyond the number of values a larger field has more points than it is of use for.
    middle = min(int(ratio) + 1, size, _LARGEST_FIELD)
    below = next(q for q in range(middle, 1, -1) if prime_power(q))
    above = next(q for q in count(below + 1) if prime_power(q))
    fields = [q for q in (below, above) if q <= _LARGEST_FIELD]
    spaces = [(q, next(t for t in range(3, 64) if n_points(q, t) >= size)) for q in fields]
    fitting = [space for space in spaces if n_points(*space) <= MOST_POINTS]
    if not fitting:
        raise ValueError(f"A difference set has at most {MOST_POINTS} points, too few for {size} values.")
    return best(_geometry(prior, ratio, *space) for space in fitting)


#: By the names that `design` and the command know; the first is preferred among equals.
MECHANISMS: dict[str, Callable[[Prior, Fraction], BlockDesign]] = {
    "subset-selection": subset_selection,
    "projective": projective_response,
}


def best(mechanisms: Iterable[BlockDesign]) -> BlockDesign:
    """The one of least variance if all values are equally frequent; the first of equals."""
    return min(mechanisms, key=lambda each: each.variance_at(1 / each.size))


def best_without_prior(prior: Prior, epsilon: Fraction) -> tuple[str, Mechanism]:
    """The name and the mechanism that the rule of the module's docstring takes; the prior only says which values.

    >>> [best_without_prior(Prior.uniform(size), Fraction(2))[0] for size in (24, 100, 1000)]
    ['many-values', 'subset-selection', 'projective']
    """
    size, found = len(prior), dict[str, BlockDesign]()
    for name, make in MECHANISMS.items():
        try:
            found[name] = make(prior, epsilon)
        except ValueError:  # Its reports would be too large.
            continue
    if not found:
        raise ValueError(f"No mechanism has room for {size} values.")
    most = (1 + TOLERANCE) * ldp_variance_bound(size, epsilon) / size
    near = {name: each for name, each in found.items() if each.variance_at(1 / size) <= most}
    if not near and prior.is_uniform:
        alike = design_many_values(prior, epsilon, notion="ldp")
        return alike.kind, alike
    if size > FEW_LOOKS:
        near = {name: each for name, each in near.items() if each.counts_at_once} or near
    chosen = best((near or found).values())
    return next(name for name, each in found.items() if each is chosen), chosen


def ldp_variance_bound(size: int, epsilon: Fraction) -> float:
    """The total unbiased variance per respondent, all values equally frequent, that no LDP channel goes below.

    Proof.  Shuffling the values by a public random permutation keeps LDP, and tr J⁻¹ is convex in J = Σ λ_y v_y v_yᵀ,
    so a channel of least tr J⁻¹ may be taken to have J = αI + β11ᵀ. As J1 = d·1, only tr J is free: the variance is
    tr J⁻¹ − 1/d = (d−1)²/(tr J − d). Under ε-LDP the lifts v_y, of mean 1, lie within a factor E of each other, so
    |v_y|² is largest where k of them are E times the others: tr J ≤ max_k d²(kE² + d − k)/(kE + d − k)². ∎

    Subset selection with a circle of d places reaches it.

    >>> round(ldp_variance_bound(1000, Fraction(1)) / 1000, 3)
    3.675
    """
    e = float_above(exp_enclosure(epsilon)[1])
    around = int(size / (e + 1))
    subsets = {min(max(1, k), max(1, size - 1)) for k in (around - 1, around, around + 1, around + 2)}
    most = max(size**2 * (k * e**2 + size - k) / (k * e + size - k) ** 2 for k in subsets)
    return (size - 1) ** 2 / (most - size)


def without_prior(request: Request, name: str | None = None) -> Design:
    """A mechanism that needs no prior, by its name, or the best of them: for histograms, at the least level promised,
    as LDP implies all else.
    """
    if not request.is_histogram:
        raise ArithmeticError("the mechanisms that need no prior serve histograms")
    epsilon = min(request.promise.levels.values())
    mechanism: Mechanism
    if name is None:
        try:
            name, mechanism = best_without_prior(request.prior, epsilon)
        except ValueError as failure:
            raise ArithmeticError(str(failure)) from failure
    else:
        try:
            mechanism = MECHANISMS[name](request.prior, epsilon)
        except ValueError as failure:
            size = f"{len(request.prior):,}"
            raise ValueError(f"The design {name} does not serve {size} values: {failure} Take without-prior.") from None
    unbiased = request.aim == "unbiased"
    before = prior_variance(request.prior, request.task)  # No report removes more.
    bound = without_prior_bound(request.prior, request.promise) if unbiased else before
    method = name.replace("-", " ")
    return designed(request, mechanism, bound, duals=None, method=method, status="within gap")


def without_prior_bound(prior: Prior, promise: Promise) -> float:
    """The unbiased variance of a histogram that nothing with the promise goes below, from no search."""
    if promise.notion == "ldp" and prior.is_uniform:
        return ldp_variance_bound(len(prior), promise.epsilon)
    return unbiased_variance_bound(prior, promise.epsilon, promise.prior_set, promise.notion)


def _geometry(prior: Prior, ratio: Fraction, field: int, dimension: int) -> BlockDesign:
    circle, hyperplane = n_points(field, dimension), n_points(field, dimension - 1)
    if circle > MOST_POINTS:
        raise ValueError(f"A difference set has at most {MOST_POINTS} points. Got {circle}.")
    prime, power = prime_power(field) or (field, 1)
    recurrence = first_recurrence(prime, power * dimension)
    return _design(prior, ratio, circle=circle, orders=1, arc=hyperplane, field=field, recurrence=recurrence)


def _design(
    prior: Prior,
    ratio: Fraction,
    *,
    circle: int,
    orders: int,
    arc: int,
    field: int = 0,
    recurrence: tuple[int, ...] = (),
) -> BlockDesign:
    """The block design with the largest step that keeps the odds within `ratio`, by floor division of integers.

    With b = ⌊2^w/AM⌋ and c = ⌈2^w/A⌉, step·c ≤ (E−1)·b·(2^w − s·step).
    """
    words = 1 << _WORD_BITS
    fewest, most = words // (orders * circle), -(-words // orders)
    step = int((ratio - 1) * fewest * words / (most + (ratio - 1) * fewest * arc))
    return BlockDesign(
        prior=prior, circle=circle, orders=orders, arc=arc, step=step, field=field, recurrence=recurrence,
        word_bits=_WORD_BITS,
    )  # fmt: skip


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
    except ArithmeticError:  # No block design has room for this many values.
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
    """A table if there is one that is as good as `many-values`, or tiers where these are better."""
    rule = many_values(request)
    for found in _tried(tiers, request):
        if (1 + TOLERANCE) * found.certificate.unbiased_variance < rule.certificate.unbiased_variance:
            rule = found
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
