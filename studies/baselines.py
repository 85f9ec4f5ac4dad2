"""The LDP mechanisms that everybody compares with, as exact channels and as error formulas; closed forms of the best.

Each of the four is *pure* (Wang et al., USENIX Security 2017): a report supports a set of values, the true value
with probability p and any other with probability q, whatever the prior. Then (1{y supports x} − q)/(p − q) is an
unbiased estimate of 1{X = x}, and its variance is known in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from tacit.exact import Floats, Number, budget, exp_below
from tacit.mechanism import Channel, round_channel
from tacit.prior import Prior

#: Channels with more cells than this are not enumerated; their error formulas serve at any size.
MAX_CELLS = 2**20


@dataclass(frozen=True)
class Pure:
    """The support probabilities of a pure LDP mechanism: p for the true value, q for every other."""

    p: float
    q: float

    def cell_variance(self, share: float) -> float:
        """The variance that one respondent adds to the estimated count of a value that a `share` of people hold.

        s(1−s)/(p−q)² with s = q + (p−q)·share, X drawn from the prior. At share 0 it is q(1−q)/(p−q)².

        >>> round(optimized_unary(1.0).cell_variance(0.0), 4) == round(4 * math.e / (math.e - 1) ** 2, 4)
        True
        """
        if self.p == self.q:
            return math.inf
        supported = self.q + (self.p - self.q) * share
        return supported * (1.0 - supported) / (self.p - self.q) ** 2

    def variance(self, prior: Prior) -> float:
        """The same, summed over all values of the prior: the prior-free histogram variance per respondent."""
        return math.fsum(self.cell_variance(float(share)) for share in prior.probabilities)


def context_free_mse(epsilon: float) -> float:
    """E/(E−1)²: the error per respondent of the paper's estimator Ĉ = (ΣY − Nf)/(1−2f) for binary answers.

    f = 1/(E+1) is the probability of a flipped answer (the paper's Section V prints E/(E+1), which would be right
    if every report were negated; the variance f(1−f)/(1−2f)² is the same).

    >>> round(context_free_mse(1.0), 6)
    0.920674
    """
    return math.inf if epsilon == 0 else math.exp(-epsilon) / math.expm1(-epsilon) ** 2


def context_free_estimate(yes_reports: int, n_reports: int, epsilon: float) -> float:
    """The paper's Ĉ: the unbiased count of "yes" from symmetric randomized response, without any prior.

    >>> round(context_free_estimate(600, 1000, math.log(3)), 6)
    700.0
    """
    flipped = 1.0 / (math.exp(epsilon) + 1.0)
    if flipped == 0.5:
        raise ValueError("At ε = 0 the reports say nothing, so there is no estimate.")
    return (yes_reports - n_reports * flipped) / (1.0 - 2.0 * flipped)


def k_ary_support(d: int, epsilon: float) -> Pure:
    """k-ary randomized response over d values."""
    e = math.exp(epsilon)
    return Pure(e / (e + d - 1), 1 / (e + d - 1))


def k_ary_response(prior: Prior, epsilon: Number) -> Channel:
    """k-ary randomized response: the truth with weight E, any other value with weight 1.

    >>> k_ary_response(Prior.uniform(3), 1).n_possible_reports
    3
    """
    exact = budget(epsilon)
    bound = exp_below(exact)
    rows = [[bound if x == y else 1 for y in range(len(prior))] for x in range(len(prior))]
    return round_channel(prior, rows, exact, "ldp")


def subset_size(d: int, epsilon: float) -> int:
    """The subset size of least prior-free variance: about d/(E+1).

    >>> subset_size(7, 1.0)
    2
    """
    around = d / (math.exp(epsilon) + 1)
    sizes = {min(max(1, size), max(1, d - 1)) for size in (math.floor(around), math.ceil(around))}
    return min(sizes, key=lambda size: _subset_variance(d, epsilon, size))


def subset_support(d: int, epsilon: float, size: int | None = None) -> Pure:
    """Subset selection over d values (Ye and Barg; Wang et al.)."""
    size = subset_size(d, epsilon) if size is None else size
    e = math.exp(epsilon)
    if d == 1:
        return Pure(1.0, 0.0)
    truthful = size * e / (size * e + d - size)
    # Another value is in the subset as one of size−1 (truth included) or of size (truth left out) among d−1.
    return Pure(truthful, (truthful * (size - 1) + (1 - truthful) * size) / (d - 1))


def subset_selection(prior: Prior, epsilon: Number, size: int | None = None) -> Channel:
    """Report a subset of `size` values, those that contain the truth with weight E, the others with weight 1.

    >>> subset_selection(Prior.uniform(5), 0.5, size=2).n_possible_reports
    10
    """
    exact = budget(epsilon)
    d = len(prior)
    size = subset_size(d, float(exact)) if size is None else size
    if not 1 <= size <= d:
        raise ValueError(f"The 'size' parameter must lie between 1 and {d}. Got {size} instead.")
    _check_cells(d * math.comb(d, size), "subset_selection")
    bound = exp_below(exact)
    subsets = list(combinations(range(d), size))
    rows = [[bound if x in subset else 1 for subset in subsets] for x in range(d)]
    return round_channel(prior, rows, exact, "ldp")


def optimized_unary(epsilon: float) -> Pure:
    """Optimized unary encoding: the true bit is kept with probability 1/2, any other bit set with 1/(E+1)."""
    return Pure(0.5, 1.0 / (math.exp(epsilon) + 1.0))


def unary_encoding(prior: Prior, epsilon: Number) -> Channel:
    """Optimized unary encoding as a channel onto all 2^d bit vectors.

    >>> unary_encoding(Prior.uniform(3), 1).n_possible_reports
    8
    """
    exact = budget(epsilon)
    d = len(prior)
    _check_cells(d * 2**d if d < 64 else math.inf, "unary_encoding")
    bound = exp_below(exact)
    # The holder's bit is fair; each other bit is set with weight 1 and clear with weight E.
    rows = [
        [
            bound ** sum(1 - bit for position, bit in enumerate(bits) if position != x)
            for bits in product((0, 1), repeat=d)
        ]
        for x in range(d)
    ]
    return round_channel(prior, rows, exact, "ldp")


def hash_range(epsilon: float) -> int:
    """The number of buckets of least variance for local hashing: E + 1, rounded."""
    return max(2, round(math.exp(epsilon)) + 1)


def optimized_hashing(epsilon: float, buckets: int | None = None) -> Pure:
    """Optimized local hashing: k-ary response on the hash of the value, for a random hash function."""
    size = hash_range(epsilon) if buckets is None else buckets
    e = math.exp(epsilon)
    return Pure(e / (e + size - 1), 1.0 / size)


def local_hashing(prior: Prior, epsilon: Number, buckets: int | None = None) -> Channel:
    """Optimized local hashing as a channel onto pairs (hash function, bucket), over all functions.

    >>> local_hashing(Prior.uniform(3), 1, buckets=2).n_possible_reports
    16
    """
    exact = budget(epsilon)
    size = hash_range(float(exact)) if buckets is None else buckets
    if size < 2:
        raise ValueError(f"The 'buckets' parameter must be at least 2. Got {size} instead.")
    d = len(prior)
    _check_cells(d * size ** (d + 1) if d < 64 else math.inf, "local_hashing")
    bound = exp_below(exact)
    functions = list(product(range(size), repeat=d))
    rows = [[bound if hashed[x] == bucket else 1 for hashed in functions for bucket in range(size)] for x in range(d)]
    return round_channel(prior, rows, exact, "ldp")


def _subset_variance(d: int, epsilon: float, size: int) -> float:
    return subset_support(d, epsilon, size).cell_variance(1.0 / d)


def _check_cells(cells: float, name: str) -> None:
    if cells > MAX_CELLS:
        raise ValueError(
            f"{name} has too many reports to enumerate at this domain size ({cells:g} cells, at most {MAX_CELLS}). "
            "Its prior-free variance is available at any size."
        )


def published_binary_mse(probability: Floats | float, epsilon: Floats | float) -> Floats:
    """Theorem 2's MSE, P₀P₁(2/E − 1/E²): right if min P ≥ 1/(E+1), otherwise below what any ε-LIP channel reaches.

    >>> float(published_binary_mse(0.5, 1).round(6))
    0.150106
    """
    p1 = np.asarray(probability, dtype=np.float64)
    lie = np.exp(-np.asarray(epsilon, dtype=np.float64))
    result: Floats = p1 * (1.0 - p1) * lie * (2.0 - lie)
    return result


def opt_ldp_binary_mse(probability: Floats | float, epsilon: float) -> Floats:
    """Proposition 4: the MSE of symmetric randomized response read with the prior, the best that ε-LDP allows.

    >>> float(opt_ldp_binary_mse(0.5, 1).round(6))
    0.196612
    """
    p1 = np.asarray(probability, dtype=np.float64)
    p0 = 1.0 - p1
    e = math.exp(epsilon)
    result: Floats = p0 * p1 - (p0 * p1 * (e - 1.0)) ** 2 / ((p0 + p1 * e) * (p0 * e + p1))
    return result


def binary_mse(probability: Floats | float, epsilon: Floats | float) -> Floats:
    """The least MSE of any ε-LIP channel for a yes/no value: P₀P₁ − (u−P₁)(P₁−l), vectorised.

    Where u = min(E·P₁, 1−P₀/E) and l = max(P₁/E, 1−E·P₀) are the highest and lowest beliefs that the budget ε =
    `epsilon` allows, P₁ = `probability` that of one of the two values.

    >>> float(binary_mse(0.5, 1).round(6))
    0.150106
    """
    p1 = np.asarray(probability, dtype=np.float64)
    p0 = 1.0 - p1
    up, down = np.expm1(epsilon), -np.expm1(-np.asarray(epsilon, dtype=np.float64))
    # u − P₁ and P₁ − l, written so that nothing cancels for tiny budgets and priors.
    rise = np.minimum(p1 * up, p0 * down)
    fall = np.minimum(p1 * down, p0 * up)
    result: Floats = p0 * p1 - rise * fall
    return result


def cyclic(prior: Prior, epsilon: Number) -> Channel:
    """The optimal histogram channel for a uniform `prior` on d values, ε = `epsilon`: report y is an arc of the domain
    from y on.

    Each report lifts k = ⌊d/(E+1)⌋ values to E, one to d − kE − (d−k−1)/E and the others to 1/E, and its d cyclic
    shifts are equally likely. A convex utility is maximal at such a vertex and by symmetry all shifts are as good, so
    the bound and the channel meet. Some of these matrices are singular (d = 8 as ε nears ln 3) and allow no prior-free
    estimate.

    >>> from tacit.mechanism.auditing import audit
    >>> prior = Prior.uniform(5)
    >>> cyclic(prior, 1).n_possible_reports, audit(cyclic(prior, 1)).lip.holds(Fraction(1))
    (5, True)
    """
    exact = budget(epsilon)
    inside = prior.on_support()
    if len(set(inside.weights)) > 1:
        raise ValueError("cyclic needs a uniform prior (zeros aside). Use the optimal design for this one.")
    lifts = cyclic_lifts(len(inside), exp_below(exact))
    rows = [[lifts[(x - y) % len(lifts)] for y in range(len(lifts))] for x in range(len(lifts))]
    return round_channel(prior, rows, exact)


def cyclic_lifts(d: int, bound: Fraction) -> list[Fraction]:
    """The lifts of one report: E … E, the fractional one, 1/E … 1/E, with E = bound.

    >>> sum(cyclic_lifts(5, Fraction(3)))
    Fraction(5, 1)
    """
    k = int(d / (bound + 1))
    return [bound] * k + [d - k * bound - (d - k - 1) / bound] + [1 / bound] * (d - k - 1)
