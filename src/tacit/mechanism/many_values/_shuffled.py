"""The orders of seeds: every seed shuffles the pieces of the values in its own way.

Any number of values, and nothing is made in advance; drawing and counting a report looks at every value, which
`_plane` does not.

Under a seed, which is the order, piece j gets the key

    key = mul(h ⊕ ⌊h/2^15⌋, 0x846ca68b),   h = mul(a, j) + b   (mod 2^32),   a odd, a and b a function of the seed,

and on the circle the pieces lie in the order of their keys, each on its own cells. Every step of the key can be
undone, so no two pieces share one. (The shift matters: keys a·j + b alone are a lattice, and values whose places in
the domain form a progression keep theirs on every circle.) All else, and the proof of its privacy: `_circle`.

What the reports of a shuffled circle determine: J = E[v vᵀ] = 11ᵀ + q²A and its inverse, in O(d) memory.

v = 1 + q(c − m) are the lifts, A is the covariance of the coverage c over seeds and positions. Averaged over all
orders, the variance D(p) of what is covered of a piece and the covariance K(p, p') of two depend on the pieces' parts p
of the circle only. A value is the mean of its k pieces, so that

    A_xx = D(p_x)/k_x + (1 − 1/k_x) K(p_x, p_x),   A_xx' = K(p_x, p_x'),   p_x = P̃_x/k_x.

(The pieces of a value differ by a cell at most; of n cells in pieces of s the mean of their squares differs from s² by
less than 1, so that all are taken as equal up to 1/s², far below the kernel's accuracy on a fine circle.)

*D* has a closed form in cells (`mean_square_coverage`): m(1−m) − p/3 for a piece shorter than the arc and its rest.

*K.*  The chance that an arc covers two points at distance Δ is m² + 2 Σ_k w_k cos 2πkΔ, w_k = (sin πkm/πk)². From a
point of x onwards to a point of x' lie the end of x, the beginning of x', and in between every other piece y with
probability t, independently, where t, the difference of the two keys, is uniform on [0, 1]. With e_y = e^{2πikp_y},

    K(p_x, p_x') = Σ_k 2w_k Re ∫₀¹ ψ(p_x) ψ(p_x') Π_y (1 + t(e_y − 1)) dt,   ψ(p) = (e−1)/(2πikp) / (1 + t(e−1)),

and t ↦ 1−t conjugates the integrand, so half the interval is enough. For every (k, t) the integrand is a product of a
function of p_x and one of p_x': K is evaluated at few nodes (the heavy pieces themselves, Chebyshev points for the
light ones) and interpolated. Frequencies beyond `_FREQUENCIES` hold a small part of A, and get the covariance that has
their known diagonal d and Σ_x' p_x' A_xx' = 0 to first order, −p_x d_x − p_x' d_x' + Σ p² d, and for light pieces that
of sharing a gap between heavy ones (`_same_gap`). If all pieces are equal, the sum rule alone gives
K = −D/(their number − 1), on coarse circles too.

The sum rule.  Σ P̃_x c_x = m for every report, so A P̃ = 0, exactly and frequency by frequency. `residual` is by how much
the computed A misses it, a check that costs nothing; A is then projected, A − ρ1ᵀ − 1ρᵀ + (P̃·ρ)11ᵀ with ρ = AP̃,
so that J P̃ = 1, hence J⁻¹1 = P̃, holds to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from tacit.exact import Floats, Integers
from tacit.mechanism.many_values._circle import Circle, Stretch, mean_square_coverage

Keys = npt.NDArray[np.uint32]

_LOW_32 = 0xFFFFFFFF
_MULTIPLIER = 0x846CA68B


@dataclass(frozen=True, kw_only=True)
class ShuffledCircle(Circle):
    """A shuffled circle; see `_circle` and the module's docstring.

    >>> rule = ShuffledCircle(
    ...     cells=(9, 1, 4, 2), arc=4, step=9, cell_bits=4, seed_bits=4, word_bits=8
    ... )
    >>> rule.cells, rule.pieces, rule.piece_cells.tolist(), rule.base, rule.draw(0, (255, 255))
    ((9, 1, 4, 2), (3, 1, 1, 1), [3, 3, 3, 1, 4, 2], 28, 243)
    """

    @property
    def orders(self) -> int:
        """2^S: every seed is an order."""
        return 1 << self.seed_bits

    def stretches(self, value: int, order: int) -> list[Stretch]:
        """The pieces of a value, each after the cells of all pieces with smaller keys."""
        keys, first = keys_of(order, len(self.owners)), int(self.first_pieces[value])
        return [
            (int(self.piece_cells[keys < keys[j]].sum()), int(self.piece_cells[j]), int(self.offsets[j]))
            for j in range(first, first + self.pieces[value])
        ]

    @property
    def steps_per_report(self) -> int:
        """Every piece of the circle is looked at."""
        return len(self.piece_cells)

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers:
        """`draw` for arrays, O(d) for each."""
        from tacit.mechanism.many_values import _kernels as loops

        reports = np.empty(len(values), dtype=np.int64)
        rule = (
            self.cell_array.astype(np.uint64), np.array(self.pieces, dtype=np.uint64), self.first_pieces,
            self.offsets.astype(np.uint64), self.piece_cells.astype(np.uint32), np.uint64(self.base),
            np.uint64(self.step), np.uint64(self.circle), self.cell_bits, self.seed_bits, self.choice_bits,
        )  # fmt: skip
        loops.draw(values, words, *rule, reports)
        return reports

    def fold(self, reports: Integers, times: Integers | None = None) -> Integers:
        """T_x, O(d) for each report."""
        from tacit.mechanism.many_values import _kernels as loops

        rule = self.piece_cells.astype(np.uint32), self._units, self.arc, self.circle, self.cell_bits
        of_pieces = loops.fold_reports(np.ascontiguousarray(reports, dtype=np.int64), times, *rule)
        sums: Integers = np.add.reduceat(of_pieces, self.first_pieces)
        return sums

    def information_at(self, amplitude: float) -> CircleInformation:
        """11ᵀ + q²W, averaged over all orders."""
        return circle_information(self.cell_array, np.array(self.pieces), self.arc, self.circle, amplitude)


def keys_of(seed: int, size: int) -> Keys:
    """The keys of the pieces 0, …, size−1 under a seed: on the circle they lie in increasing order of keys.

    >>> keys_of(7, 3).tolist()
    [701323630, 1712764510, 2136487101]
    """
    multiplier, offset = np.array(seed_numbers(seed), dtype=np.uint32)
    mixed = np.arange(size, dtype=np.uint32) * multiplier + offset
    keys: Keys = (mixed ^ mixed >> np.uint32(15)) * np.uint32(_MULTIPLIER)
    return keys


def seed_numbers(seed: int) -> tuple[int, int]:
    """The odd multiplier a and the offset b of a seed."""
    return _mix(seed ^ 0x9E3779B9) | 1, _mix(seed + 0x51ED270B)


def _mix(number: int) -> int:
    """A bijection of 32-bit integers in which every bit of the argument moves every bit of the result."""
    h = number & _LOW_32
    h = (h ^ h >> 16) * 0x7FEB352D & _LOW_32
    h = (h ^ h >> 15) * _MULTIPLIER & _LOW_32
    return h ^ h >> 16


#: Frequencies that are computed; pieces longer than 1/(4 · this) are nodes of their own.
_FREQUENCIES = 64
#: Chebyshev points that stand for all lighter pieces.
_LIGHT_NODES = 8
#: Light pieces in a product are collected by classes of this width in ln p.
_CLASS_WIDTH = 0.1

_Places = NDArray[np.intp]


@dataclass(frozen=True)
class CircleInformation:
    """J = diag(own) + U·core·Uᵀ by classes of values with equally many cells; made by `circle_information`.

    where: `which` is the class of each value, `sizes` how many values a class has, `shares` = P̃, `spread` = A_xx and
    `own` are by class, `factors` = U, `middle` = (I + core·UᵀΔ⁻¹U)⁻¹·core of Woodbury's formula, `residual` = max |AP̃|.
    """

    which: _Places
    sizes: Floats
    shares: Floats
    amplitude: float
    spread: Floats
    own: Floats
    factors: Floats
    core: Floats
    middle: Floats
    residual: float

    @property
    def spreads(self) -> Floats:
        """A_xx for every value."""
        return self.spread[self.which]

    def solve(self, right: Floats) -> Floats:
        """J⁻¹·right, O(d); for each row of a matrix."""
        scaled = right / self.own[self.which]
        shift = self._class_sums(scaled) @ self.factors @ self.middle.T @ self.factors.T
        solved: Floats = scaled - (shift / self.own)[..., self.which]
        return solved

    def _class_sums(self, numbers: Floats) -> Floats:
        """Sums over the values of each size."""
        if numbers.ndim == 1:
            counted: Floats = np.bincount(self.which, weights=numbers, minlength=len(self.sizes)).astype(np.float64)
            return counted
        order, starts = self._by_class
        sums: Floats = np.add.reduceat(numbers[:, order], starts, axis=1)
        return sums

    @cached_property
    def _by_class(self) -> tuple[_Places, _Places]:
        """The values in the order of their classes, and where each class begins."""
        order = np.argsort(self.which, kind="stable")
        return order, np.searchsorted(self.which[order], np.arange(len(self.sizes)))

    def multiply(self, right: Floats) -> Floats:
        """J·right, O(d); for each row of a matrix."""
        shift = self._class_sums(right) @ self.factors @ self.core @ self.factors.T
        product: Floats = self.own[self.which] * right + shift[..., self.which]
        return product

    def inverse_diagonal(self) -> Floats:
        """(J⁻¹)_xx for every value."""
        inner = ((self.factors @ self.middle) * self.factors).sum(axis=1)
        by_class: Floats = (1.0 - inner / self.own) / self.own
        return by_class[self.which]


def circle_information(cells: Integers, pieces: Integers, arc: int, circle: int, amplitude: float) -> CircleInformation:
    """J of values with `cells` = n in `pieces` = k, arcs of `arc` = L cells on M = `circle`, lifts 1 + q(c − m).

    Values with equally many cells must be cut into equally many pieces.

    >>> found = circle_information(np.full(50, 20), np.ones(50), 270, 1000, amplitude=1.0)
    >>> j = found.multiply(np.eye(50))
    >>> np.allclose((j - 1)[:2, :2], found.spread[0] * np.array([[1, -1 / 49], [-1 / 49, 1]]))
    True
    """
    lengths, one, which, counts = np.unique(cells, return_index=True, return_inverse=True, return_counts=True)
    sizes, k, m = counts.astype(np.float64), np.asarray(pieces, np.float64)[one], arc / circle
    piece_cells, piece = np.unique(lengths / k, return_inverse=True)
    p, n_pieces = piece_cells / circle, np.bincount(piece, weights=sizes * k).astype(np.float64)
    spread = mean_square_coverage(piece_cells, float(arc), circle) - m**2
    nodes, weights = _nodes(p)
    kernel = _kernel(nodes, p, n_pieces, m, spread)
    at_itself = ((weights @ kernel) * weights).sum(axis=1)
    rule = p * (spread - at_itself) + weights @ (kernel @ (weights.T @ (n_pieces * p)))
    factors = np.column_stack([np.ones(len(p)), rule, weights])[piece]
    square = amplitude**2
    core = np.zeros((factors.shape[1],) * 2)
    core[0, 0] = 1.0 + square * float((n_pieces * p) @ rule)
    core[0, 1] = core[1, 0] = -square
    core[2:, 2:] = square * kernel
    own = (spread - at_itself)[piece] / k
    gram = factors.T @ (factors * (sizes / (square * own))[:, None])
    middle = np.linalg.solve(np.eye(len(core)) + core @ gram, core)
    residual = float(np.abs(rule).max())
    return CircleInformation(
        which, sizes, lengths / circle, amplitude, own + at_itself[piece], square * own, factors, core, middle, residual
    )


@lru_cache(maxsize=32)
def _gauss(size: int) -> tuple[Floats, Floats]:
    points, lengths = np.polynomial.legendre.leggauss(size)
    return points, lengths


def _nodes(p: Floats) -> tuple[Floats, Floats]:
    """Where the kernel is evaluated, and the weights that carry it from there to the classes of shares `p`."""
    light = int(np.searchsorted(p, 1 / (4 * _FREQUENCIES)))
    if light <= _LIGHT_NODES:
        return p, np.eye(len(p))
    angles = (np.arange(_LIGHT_NODES) + 0.5) * np.pi / _LIGHT_NODES
    chebyshev = p[light - 1] * (0.5 - 0.5 * np.cos(angles))
    nodes = np.concatenate([chebyshev, p[light:]])
    weights = np.zeros((len(p), len(nodes)))
    weights[light:, _LIGHT_NODES:] = np.eye(len(p) - light)
    for j, node in enumerate(chebyshev):
        others = np.delete(chebyshev, j)
        weights[:light, j] = np.prod((p[:light, None] - others) / (node - others), axis=1)
    return nodes, weights


def _kernel(nodes: Floats, p: Floats, sizes: Floats, m: float, spread: Floats) -> Floats:
    """K between all nodes, where p, `sizes` and `spread` = D describe the pieces on the circle."""
    if len(p) == 1 and sizes[0] > 1:
        return np.array([[-spread[0] / (sizes[0] - 1)]])
    shares, counts = _classes(p, sizes)
    kernel = np.zeros((len(nodes), len(nodes)))
    covered = np.zeros(len(p))
    for k in range(1, _FREQUENCIES + 1):
        weight = 2.0 * (np.sin(np.pi * k * m) / (np.pi * k)) ** 2
        covered += weight * np.sinc(k * p) ** 2
        # An even number of points never meets t = ½, where a piece of length 1/2k makes a factor vanish.
        points, lengths = _gauss(16 * (2 + 5 * k // 64))
        t, dt = (points + 1) / 4, lengths / 4
        turn = np.exp(2j * np.pi * k * shares) - 1.0
        between = np.exp(counts @ np.log1p(turn[:, None] * t))
        step = np.exp(2j * np.pi * k * nodes) - 1.0
        psi = (step / (2j * np.pi * k * nodes))[:, None] / (1.0 + step[:, None] * t)
        kernel += 2.0 * weight * ((psi * (between * dt)) @ psi.T).real
    beyond = np.interp(nodes, p, spread - covered)
    square = float(sizes @ (p**2 * (spread - covered)))
    kernel += square - (nodes * beyond)[:, None] - nodes * beyond + _same_gap(nodes, p, sizes)
    # A heavy piece that has no equal: K with an equal is not needed, and its product would leave out what is not there.
    alone = np.isin(nodes, p[sizes == 1])
    guess = np.interp(nodes, p, spread) * (float(sizes @ p**2) - 2 * nodes)
    kernel[alone, alone] = guess[alone]
    return kernel


def _same_gap(nodes: Floats, p: Floats, sizes: Floats) -> Floats:
    """What frequencies beyond `_FREQUENCIES` add to K between light pieces that no heavy one tells apart.

    There the phases of the n heavy pieces are as good as random. In the mean their factors leave (1−t)^n and, at the
    other end of the interval, its mirror image; with ε the mass of the other light pieces, ∫ (1−t)^n e^{2πikεt} dt is
    1/(n+1−2πikε) to first order, and 2w_k is 1/(πk)² in the mean. The sum over k is an integral over u = 1/k.
    """
    light = p < 1 / (4 * _FREQUENCIES)
    n, mass = float(sizes[~light].sum()), float((sizes * p)[light].sum())
    points, lengths = _gauss(16)
    end = 1 / (_FREQUENCIES + 0.5)
    u, du = (points[:, None, None] + 1) / 2 * end, lengths * end / 2
    own = np.where(nodes < 1 / (4 * _FREQUENCIES), np.sinc(nodes / u[:, 0]), 0.0)
    both = nodes[:, None] + nodes
    gap = (np.exp(1j * np.pi * both / u) / (n + 1 - 2j * np.pi * (mass - both) / u)).real
    shared: Floats = 2 / np.pi**2 * np.einsum("u,ux,uy,uxy->xy", du, own, own, gap)
    return shared


def _classes(p: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Few shares and (broken) counts with the same Σ p and Σ p² by class: light pieces collected, heavy ones kept."""
    light = p < 1 / (4 * _FREQUENCIES)
    label = np.floor(np.log(p[light]) / _CLASS_WIDTH)
    _, which = np.unique(label, return_inverse=True)
    first = np.bincount(which, weights=sizes[light] * p[light])
    second = np.bincount(which, weights=sizes[light] * p[light] ** 2)
    return np.append(second / first, p[~light]), np.append(first**2 / second, sizes[~light])
