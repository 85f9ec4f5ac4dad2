"""Singer's difference sets: the points of a hyperplane of a projective space, numbered so that sets are shifts.

A recurrence u_{n+t} = c_0 u_n + … + c_{t−1} u_{n+t−1} over the integers mod q, q prime, moves its state (u_n, …,
u_{n+t−1}) through the points of the projective space PG(t−1, q), states up to a factor, of which there are
M = (q^t − 1)/(q − 1). If it meets all of them before it returns, then

    D = {n < M : u_n = 0},     s = |D| = (q^{t−1} − 1)/(q − 1),

is a hyperplane, its shifts D + x are all the hyperplanes, and any two of these share (q^{t−2} − 1)/(q − 1) points:
every difference other than 0 occurs equally often in D (Singer 1938). The complement of D has the same property.

A field of q = p^k elements, p prime, has the same D, from a recurrence of length k·t over the integers mod p:

    D = {n < M : u_n = u_{n+M} = … = u_{n+(k−1)M} = 0}.

Proof.  If the recurrence meets all points of PG(kt−1, p), x in the ring modulo its polynomial f generates the field of
p^{kt} = q^t elements up to factors of the smallest one; so it does up to factors in the field of q, whose classes are
the points of PG(t−1, q), and β = x^M lies in that field and in none below it: 1, β, …, β^{k−1} are a basis. u_n is
L(x^n) for some linear L, which is Tr_p(c·) for some c, and Tr_p(cβ^j z) = 0 for all j < k iff the trace of cz to the
field of q is 0, which is a hyperplane. ∎
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np

from tacit.exact import Integers


def n_points(field: int, dimension: int) -> int:
    """(q^t − 1)/(q − 1), the points of PG(t−1, q).

    >>> n_points(3, 3)
    13
    """
    return sum(field**k for k in range(dimension))


def is_prime(number: int) -> bool:
    """By trial division; numbers here stay below 2^27.

    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def next_prime(number: int) -> int:
    """The least prime that is not below `number`.

    >>> next_prime(10000)
    10007
    """
    while not is_prime(number):
        number += 1
    return number


def prime_power(number: int) -> tuple[int, int] | None:
    """(p, k) if the number is p^k, p a prime; None if it is no such power.

    >>> [q for q in range(20) if prime_power(q)], prime_power(8)
    ([2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19], (2, 3))
    """
    divisors = _prime_divisors(number)
    if len(divisors) != 1:
        return None
    (prime,) = divisors
    return prime, next(k for k in range(1, number.bit_length()) if prime**k == number)


def meets_all_points(field: int, recurrence: Sequence[int]) -> bool:
    """Whether the recurrence c_0, …, c_{t−1} over a prime `field` runs through all points before it returns.

    The state moves as multiplication by x does modulo f = x^t − Σ c_i x^i. So it is asked whether x^n is a constant for
    n = M and for no M/r, r a prime divisor of M. (Then the powers of x are all points, each of them has an inverse, and
    f is irreducible.)

    >>> meets_all_points(2, (1, 1, 0)), meets_all_points(2, (1, 1, 1))
    (True, False)
    """
    points = n_points(field, len(recurrence))
    if not recurrence[0] % field or any(_power(field, recurrence, points)[1:]):
        return False
    return all(any(_power(field, recurrence, points // r)[1:]) for r in _prime_divisors(points))


def meets_all_states(field: int, recurrence: Sequence[int]) -> bool:
    """Whether the recurrence over a prime `field` runs through all states but 0 before it returns, q^t − 1 of them.

    >>> meets_all_states(5, (3, 1)), meets_all_states(5, (2, 1))
    (True, False)
    """
    states, one = field ** len(recurrence) - 1, [1] + [0] * (len(recurrence) - 1)
    if _power(field, recurrence, states) != one:
        return False
    return all(_power(field, recurrence, states // r) != one for r in _prime_divisors(states))


@cache
def first_recurrence(field: int, dimension: int) -> tuple[int, ...]:
    """The first recurrence over a prime `field`, in the order of (c_{t−1}, …, c_0), that meets all points.

    >>> first_recurrence(2, 3), first_recurrence(3, 4)
    ((1, 1, 0), (1, 1, 0, 0))
    """
    found = (reverse[::-1] for reverse in product(range(field), repeat=dimension))
    # Without the others c_0 alone returns after t steps.
    return next(each for each in found if any(each[1:]) and meets_all_points(field, each))


@cache
def first_full_recurrence(field: int) -> tuple[int, int]:
    """The first (c_0, c_1) over a prime `field` that meets all states, in the order of (c_1, c_0).

    >>> first_full_recurrence(5), first_full_recurrence(61)
    ((3, 1), (7, 1))
    """
    return next(
        (first, second)
        for second, first in product(range(1, field), repeat=2)
        if meets_all_states(field, (first, second))
    )


def difference_set(field: int, recurrence: Sequence[int]) -> Integers:
    """D in ascending order, for a field of p^k elements and a recurrence over the integers mod p that meets all points;
    u starts with 0, …, 0, 1.

    >>> difference_set(2, (1, 1, 0)).tolist(), difference_set(4, first_recurrence(2, 6)).tolist()
    ([0, 1, 3], [3, 6, 7, 12, 14])
    """
    prime, power = prime_power(field) or (field, 1)
    points = n_points(field, len(recurrence) // power)
    zero = terms_of(prime, recurrence, power * points).reshape(power, points) == 0
    return np.flatnonzero(zero.all(axis=0))


def terms_of(field: int, recurrence: Sequence[int], count: int) -> Integers:
    """u_0, …, u_{count−1}, from 0, …, 0, 1 on.

    >>> terms_of(5, (3, 1), 12).tolist()
    [0, 1, 1, 4, 2, 4, 0, 2, 2, 3, 4, 3]
    """
    t = len(recurrence)
    start = [0] * (t - 1) + [1]
    while len(start) < min(count, 4 * t):
        start.append(sum(c * u for c, u in zip(recurrence, start[-t:], strict=True)) % field)
    terms: Integers = np.array(start, dtype=np.int64)
    while len(terms) < count:
        # With r = x^m mod f, u_{m+i} = Σ_j r_j u_{i+j}: known terms give nearly as many new ones.
        m = len(terms) - t + 1
        new = sum(r * terms[j : j + m] for j, r in enumerate(_power(field, recurrence, m)))
        terms = np.concatenate([terms[:m], new % field])
    return terms[:count]


def _power(field: int, recurrence: Sequence[int], exponent: int) -> list[int]:
    """x^exponent mod f, its coefficients from the constant on."""
    t = len(recurrence)
    result, square = [1] + [0] * (t - 1), [0, 1] + [0] * (t - 2)
    while exponent:
        if exponent & 1:
            result = _product(field, recurrence, result, square)
        square = _product(field, recurrence, square, square)
        exponent >>= 1
    return result


def _product(field: int, recurrence: Sequence[int], a: Sequence[int], b: Sequence[int]) -> list[int]:
    """a·b mod f."""
    t = len(recurrence)
    product_ = [0] * (2 * t - 1)
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            product_[i + j] += left * right
    for place in range(2 * t - 2, t - 1, -1):
        top = product_[place] % field
        for i, c in enumerate(recurrence):
            product_[place - t + i] += top * c
    return [coefficient % field for coefficient in product_[:t]]


def _prime_divisors(number: int) -> list[int]:
    found, divisor = [], 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            found.append(divisor)
            while number % divisor == 0:
                number //= divisor
        divisor += 1
    return [*found, number] if number > 1 else found
