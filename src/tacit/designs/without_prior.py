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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import count

from tacit.designs._many_values import design_many_values, unbiased_variance_bound
from tacit.designs._methods import Design, Request, designed
from tacit.designs._promise import Promise
from tacit.exact import exp_below, exp_enclosure, float_above
from tacit.mechanism import BlockDesign, Mechanism
from tacit.mechanism.block_design import MOST_POINTS
from tacit.mechanism.singer import first_recurrence, n_points, next_prime, prime_power
from tacit.prior import Prior
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
        mechanism = _named(name, request.prior, epsilon)
    unbiased = request.aim == "unbiased"
    before = prior_variance(request.prior, request.task)  # No report removes more.
    bound = without_prior_bound(request.prior, request.promise) if unbiased else before
    method = name.replace("-", " ")
    return designed(request, mechanism, bound, duals=None, method=method, status="within gap")


def _named(name: str, prior: Prior, epsilon: Fraction) -> BlockDesign:
    """The mechanism that was asked for, or which others have room for this many values."""
    made, limits = dict[str, BlockDesign](), dict[str, str]()
    for each in (name, *(other for other in MECHANISMS if other != name)):
        try:
            made[each] = MECHANISMS[each](prior, epsilon)
        except ValueError as failure:
            limits[each] = str(failure)
        if name in made:
            return made[name]
    serving = f"{', '.join(made)} do; without-prior takes the best" if made else "No other does either"
    raise ValueError(f"The design {name} does not serve {len(prior):,} values. {limits[name]} {serving}.")


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
