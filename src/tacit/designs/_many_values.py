"""The design of `many-values`: what reports cover in closed form, which values are giants, and the best arc.

With E = e^ε, covered mass m and every prior within total variation τ of the cells' own, lifts stay in [1/E, E] iff the
amplitude q (likelihoods are proportional to 1 − mq + qc) keeps

    q ≤ (E−1) / ((E−1)m + max(1 − E·max(m−τ, 0), min(m+τ, 1))),

the two arguments of the maximum being the upper and the lower side (`ManyValuesRule.lift_range`, solved for q). A
value of little mass has an unbiased variance of 1/(q² m(1−m)) per respondent. `best_share` has the m for which that is
least.

Giants.  A value of at least the mass m is reported by its name. The report with the name alone tells it from all
others as well as one value can be told (`unbiased_variance_bound`), but tells nothing between the others. How much a
report tells of a giant and how much the others lose for it both depend on the arc L' only, through the variance of the
mass under it: h' = m for every report costs the others nothing and tells nothing of giants. So a few arcs are
compared, by closed forms of all variances: the best has the least sum of the variances, and of those of the heaviest
values with a quarter of the weight, each relative to the least there is.

Cells that follow the prior gain nothing under LDP and in wide balls. There every value has one cell and an arc is of
whole cells, which is subset selection, the best LDP channel for histograms: no design is worse than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from tacit.exact import Floats, Integers, Number, budget, exp_below, rational
from tacit.mechanism.many_values import MARGIN_UNIT, MOST_LOOKS, MOST_PLACES, MOST_SLOTS, MOST_WORK, ManyValues
from tacit.mechanism.many_values._circle import mean_square_coverage, mean_square_under_arcs
from tacit.mechanism.many_values._rule import Row, shares
from tacit.mechanism.rounding import PrivacyError
from tacit.mechanism.singer import first_full_recurrence, is_prime, next_prime
from tacit.prior import Ball, Prior, PriorSet

#: The covered mass is chosen on a grid of this many, finer than any cells.
_GRID = 1 << 52
#: Arcs are compared at these places between the shortest and the longest.
_DIALS = (0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)
#: The heaviest values are these many, and their variances count this much beside those of all.
_HEAVIEST, _EXTRA = 10, 0.25
#: A table has this many of the heaviest values, and at most 2 to this power rows with an arc. Its arc, as a multiple of
#: what reports cover of the others in the mean, is that of the best smaller one.
_IN_TABLE, _IN_SMALL_TABLE, _ROW_BITS = 10, 6, 8
_ARCS = (1.03, 1.06, 1.08, 1.1, 1.13, 1.17, 1.22, 1.3, 1.4, 1.55, 1.7, 1.9)
#: It is tried where the heaviest value has this part of what reports cover, and taken if it is better by this.
_TRIED, _MORE = 0.1, 0.005
#: And an arc leaves this part for heavy values.
_ROOM = 0.001
#: Up to this many values on the circle all lie on their own in a plane, in this many slots.
_ALONE, _FEW_SLOTS = 256, 61
#: Beyond, lines cost at most this much of the information, unless that took more slots than this.
_LOST, _MOST_SLOTS = 0.015, 251
#: Where lines cost more than this, as they do at large ε where arcs are short, seeds shuffle the circle.
_MOST_LOST = 0.1
#: The bits of a report, and how many of them are for cells.
_REPORT_BITS, _CELL_BITS, _SEED_BITS = 52, 28, 24
#: Seeds shuffle the circle.
_NO_PLANE: dict[str, Any] = {"slots": 0, "first": 0, "second": 0, "light": 0}
#: Bins that gain this part of the bound are good enough, and this many values are in them at most, if they are many.
_NEAR, _MOST_IN_BINS = 0.998, 2**14
#: Reports cover at least this part of the best share, one of this many parts.
_LESS, _COVERS = 0.7, 6
#: Seeds, which take more time, are taken where a plane has this much more variance, and tried only where it has twice
#: this more than balanced orders would have.
_WORSE = 0.04
#: The step of a design is found between the closed form's and this much below it.
_ROUNDING = Fraction(1, 100)
#: And with bins, of which an audit looks at many, to this many bits.
_STEP_BITS = 32


def design_many_values(
    prior: Prior,
    epsilon: Number,
    radius: Number = 0,
    notion: Literal["lip", "ldp"] = "lip",
    most_work: int = MOST_WORK,
    **bits: Any,
) -> ManyValues:
    """The mechanism for a histogram under ε-LIP for every prior within total variation `radius`, or under ε-LDP.

    The step is the largest that passes the exact audit. A plane takes at most `most_work` steps until it is known what
    its reports determine; without such a plane seeds shuffle the circle. `bits` are `cell_bits`, `seed_bits`,
    `word_bits` of the rule.

    >>> prior = Prior.of({"a": 50, "b": 3, "c": 1, "d": 1, "e": 2})
    >>> found = design_many_values(prior, 1, radius="0.01")
    >>> found.giants, [found.within(exp_below(Fraction(1)), Fraction(radius)) for radius in ("0.01", "0.011")]
    (1, [True, False])
    """
    ratio = exp_below(budget(epsilon))
    if ratio <= 1:
        raise ValueError("The 'epsilon' must be positive: at 0 no report depends on the answer.")
    within = rational(radius, "radius") if notion == "lip" else Fraction(1)
    if notion not in ("lip", "ldp") or not 0 <= within <= 1:
        raise ValueError(f"The 'notion' must be 'lip' or 'ldp', the 'radius' in [0, 1]. Got {notion!r} and {radius}.")
    size = len(prior.support)
    found = []
    if notion == "lip" or size == 1:
        found.append(_following(prior, ratio, within, most_work, bits))
    if size > 1 and "cell_bits" not in bits:
        found.append(_alike(prior, ratio, within, {**bits, "cell_bits": (size - 1).bit_length()}))
    best = min(found, key=lambda each: float(each.variances().sum()) if len(found) > 1 else 0.0)
    if not best.within(ratio, within) or (notion == "ldp" and best.odds > ratio):
        raise PrivacyError("No step passes the exact audit.")
    return best


def design_with_bins(prior: Prior, epsilon: Number, **bits: int) -> ManyValues:
    """The mechanism for a histogram that is read with the prior, under ε-LIP: giants, bins and a ring.

    Σ P²q²Var(c) is compared for some numbers of values in bins, and if it is not near its bound, for reports that cover
    a little less than m = 1/(E+1), so that bins leave enough on the ring, and for m = 1/K, of which K bins take all.

    >>> from tacit.task import Histogram
    >>> found = design_with_bins(Prior(range(600), [720720 // (x + 1) for x in range(600)]), 1)
    >>> found.bins, found.gain(Histogram()) / gain_bound(found.prior, 1) > 0.999
    (3, True)
    """
    ratio, most = exp_below(budget(epsilon)), gain_bound(prior, epsilon)
    h = 1 / (ratio + 1)
    shares = [
        *(h * (1 - Fraction(less, 100)) for less in range(6)),
        Fraction(1, int(1 / h)),
        Fraction(1, int(1 / h) + 1),
    ]
    for taken in range(_REPORT_BITS - _CELL_BITS, _REPORT_BITS, 2):
        numbers: dict[str, Any] = {"cell_bits": _REPORT_BITS - taken, "seed_bits": 0, "word_bits": _REPORT_BITS, **bits}
        start = ManyValues(prior=prior, giants=0, covered=1, arc=1, step=1, bins=1, **numbers)
        best: tuple[float, dict[str, Any]] = (0.0, {})
        cells = -np.sort(-start.cell_array)
        for share in shares:
            covered = min(max(int(share * start.total), 1), start.total - 1)
            q = float(_amplitude(ratio, Fraction(covered, start.total), Fraction(0)))
            giants = min(int((cells >= covered).sum()), len(cells) - 1)
            found = [each for k in {giants, max(giants - 1, 0)} for each in _packings(cells, k, covered)]
            best = max([best, *((q * q * gain, packed) for gain, packed in found)], key=lambda each: each[0])
            if best[0] >= _NEAR * most:
                break
        if not best[1]:
            raise PrivacyError("There are no bins for these values.")
        if best[1]["bins"] + 1 <= 1 << taken or bits:
            break
    return _largest_step(_with_margin(_with_giants(start, best[1])), ratio, Fraction(0))


def _packings(cells: Integers, giants: int, covered: int) -> Iterator[tuple[float, dict[str, int]]]:
    """Σ P²Var(c) of bins for the heaviest values after the giants, of which there are more and more; `cells` fall."""
    total, others = int(cells.sum()), cells[giants:].tolist()
    ring = room = sum(others)
    bins, share, with_arc, m = room // covered, covered / room, room / total, covered / total
    if not bins:
        return
    squares = cells.astype(np.float64) ** 2
    named = float((squares[:giants] * (covered**2 / (cells[:giants] * total) - m**2)).sum())
    # All values may be in two bins; of more bins, those which an arc loses something of.
    last = min(len(others), MOST_LOOKS // bins, len(others) if bins < 3 else _MOST_IN_BINS)
    checked = {0, *np.geomspace(1, max(last, 1), 30).astype(int).tolist()}
    free, on_ring, used = np.full(bins, covered), np.ones(len(others), dtype=np.bool_), 0
    for heavy in range(last + 1):
        tried = max(used, 1)
        if heavy in checked and ring and ring >= (covered if tried * covered < room else free[:tried].max()):
            chances, arcs = np.append(np.full(tried, share), 1 - tried * share), np.append(free[:tried], covered)
            square = np.full(len(others), share)
            sizes, which = np.unique(cells[giants:][on_ring], return_inverse=True)
            square[on_ring] = mean_square_under_arcs(sizes.astype(np.float64), arcs, chances, ring)[which]
            gain = named + float((squares[giants:] * (with_arc * square - m**2)).sum())
            yield gain / total**2, {"giants": giants, "covered": covered, "arc": covered, "bins": tried, "heavy": heavy}
        if heavy < last:
            j = int(np.argmax(free[: used + 1] >= others[heavy]))
            if free[j] >= others[heavy]:
                free[j] -= others[heavy]
                ring -= others[heavy]
                on_ring[heavy], used = False, max(used, j + 1)


def gain_bound(prior: Prior, epsilon: Number) -> float:
    """A gain of a histogram that no ε-LIP channel exceeds: Σ P²(hi − 1)(1 − lo), [lo, hi] the range of a value's lifts.

    A lift of mean 1 in [lo, hi] has at most that variance. If all d values are equally likely, Σ P²c² of a report is at
    most (k + f²)/d², k and f the whole and the other part of dh: given Σ c, ones and one part are extreme.
    """
    e, p = float(exp_below(budget(epsilon))), prior.on_support().probabilities
    low, high = np.maximum(1 / e, (1 - e * (1 - p)) / p), np.minimum(e, (1 - (1 - p) / e) / p)
    bound = float(p**2 @ ((high - 1) * (1 - low)))
    if np.ptp(p) == 0:
        whole, part = divmod(len(p) / (e + 1), 1.0)
        bound = min(bound, (e - 1 / e) ** 2 * ((whole + part**2) / len(p) ** 2 - 1 / (e + 1) ** 2 / len(p)))
    return bound


def _following(prior: Prior, ratio: Fraction, within: Fraction, most_work: int, bits: dict[str, Any]) -> ManyValues:
    """Cells that follow the prior, giants and the best arc: in the orders of a plane if one holds the values well."""
    start, numbers, least = _best_arc(prior, ratio, within, 1, bits)
    cells = -np.sort(-start.cell_array)[numbers["giants"] :]
    plane = _plane(cells, numbers["arc"], int(cells.sum()), most_work)
    found = _largest_step(_with_margin(_with_giants(start, numbers, plane)), ratio, within) if plane["slots"] else None
    variance = float(found.variances().sum()) if found else math.inf
    if found and variance <= (1 + 2 * _WORSE) * least:
        return found
    start, numbers, _ = _best_arc(prior, ratio, within, 0, bits)
    other = _largest_step(_with_margin(_with_giants(start, numbers)), ratio, within)
    return found if found and variance <= (1 + _WORSE) * float(other.variances().sum()) else other


def _best_arc(
    prior: Prior, ratio: Fraction, within: Fraction, slots: int, bits: dict[str, Any]
) -> tuple[ManyValues, dict[str, Any], float]:
    """A rule with enough bits, its giants, cover, arc and table of the least variances by closed forms, and their sum.

    Reports cover the best share, or a little less, if that makes more values giants that are covered alone; arcs are of
    several lengths. Where few values are so heavy, a table of the heaviest is tried, too.
    """
    for taken in range(24):  # Bits for rows with an arc, at the cost of cells.
        start = ManyValues(prior=prior, giants=0, covered=1, arc=1, step=1, **{**_bits(taken, slots), **bits})
        total, cells, sums = start.total, -np.sort(-start.cell_array), []
        found: list[dict[str, Any]] = []
        falling = np.argsort(-start.cell_array, kind="stable")
        off = _margin(start, falling, float(best_share(ratio, within) * total))[1] / total
        most = min(max(round(best_share(ratio, within + Fraction(off)) * total), 1), total - 1)
        for covered in _covers(cells, most):
            giants = min(int((cells >= covered).sum()), max(len(cells) - 2, 0))
            off = _margin(start, falling[giants:], covered)[1] / total
            q = float(_amplitude(ratio, Fraction(covered, total), within + Fraction(off)))
            room = int(cells[giants:].sum())
            shortest, longest = covered * room // total + 1, min(covered, room - 1)
            dials = {shortest + round((longest - shortest) * dial) for dial in _DIALS} if giants else {covered}
            sizes, counts = _alike_after(cells, max(giants, _HEAVIEST))
            for arc in sorted(dials):
                each = variances_of(
                    sizes, counts, _giants_alone(sizes[:giants], room, covered, arc, q), covered, arc, q
                )
                sums.append([each @ counts, each[:_HEAVIEST].sum()])
                found.append({"giants": giants, "covered": covered, "arc": arc})
        least = np.min(sums, axis=0)
        best = int(np.argmin(np.array(sums) / least @ [1.0, _EXTRA]))
        named = found[best]["giants"] if found[best]["arc"] < found[best]["covered"] else 1
        if named <= 1 << taken or bits:
            break
    if not bits:
        other, table, both = _with_table(prior, ratio, within, slots, least)
        if both and _score(both, least) < (1 - _MORE) * _score(sums[best], least):
            return other, table, both[0]
    return start, found[best], float(sums[best][0])


def _score(sums: Sequence[float], least: Floats) -> float:
    return float(np.array(sums) / least @ [1.0, _EXTRA])


def giants_alone(*, prior: Prior, **numbers: Any) -> ManyValues:
    """The rule with these numbers and giants that are covered alone."""
    none = {**_NO_PLANE, "giants": 0, "arc": 1, "covered": 1, "step": 1, "bins": 0, "heavy": 0}
    start = ManyValues(prior=prior, **{**numbers, **none})
    named = sorted(sorted(range(len(start.cells)), key=lambda x: -start.cells[x])[: numbers["giants"]])
    cells = [start.cells[x] for x in named]
    rows = rows_of_giants(cells, start.total - sum(cells), numbers["covered"], numbers["arc"], start.row_bits)
    return ManyValues(prior=prior, rows=rows, **numbers)


def _with_giants(start: ManyValues, numbers: dict[str, Any], plane: dict[str, Any] | None = None) -> ManyValues:
    """The rule with these numbers, and with a table of giants that are covered alone if they have none."""
    falling = sorted(range(len(start.cells)), key=lambda x: -start.cells[x])[: numbers["giants"]]
    named, numbers = sorted(falling), {**_NO_PLANE, **(plane or {}), **numbers}
    if "rows" in numbers:  # They count giants from the heaviest on.
        places = [named.index(x) for x in falling]
        numbers["rows"] = tuple(_renumbered(row, places) for row in numbers["rows"])
    else:
        cells = [start.cells[x] for x in named]
        room = start.total - sum(cells)
        numbers["rows"] = rows_of_giants(cells, room, numbers["covered"], numbers["arc"], start.row_bits)
    return replace(start, **numbers)


def _renumbered(row: Row, places: Sequence[int]) -> Row:
    pairs = sorted((places[i], k) for i, k in zip(row[2::2], row[3::2], strict=True))
    return (row[0], row[1], *(number for pair in pairs for number in pair))


def _with_table(
    prior: Prior, ratio: Fraction, within: Fraction, slots: int, least: Floats
) -> tuple[ManyValues, dict[str, Any], list[float]]:
    """A rule with enough bits, a table of the heaviest values and the sums of its variances as `_best_arc` has them;
    no sums where it is not tried. The arc is the best one for a smaller table.
    """
    from tacit.designs._program.master import SolverError
    from tacit.designs._program.with_rest import best_table

    start = ManyValues(prior=prior, giants=0, covered=1, arc=1, step=1, **_bits(_ROW_BITS, slots))
    cells, falling, total = -np.sort(-start.cell_array), np.argsort(-start.cell_array, kind="stable"), start.total
    if len(cells) <= 2 * _IN_TABLE:
        return start, {}, []
    off = _margin(start, falling[_IN_TABLE:], float(best_share(ratio, within) * total))[1] / total
    share = best_share(ratio, within + Fraction(off))
    covered, m, q = round(share * total), float(share), float(_amplitude(ratio, share, within + Fraction(off)))
    found: dict[str, Any] = {}
    sums: list[float] = []
    if cells[0] < _TRIED * covered or cells[_IN_TABLE - 1] >= covered:
        return start, found, sums
    parts: Sequence[float] = _ARCS
    for k in (_IN_SMALL_TABLE, _IN_TABLE):
        room, score = int(cells[k:].sum()), math.inf
        sizes, counts = _alike_after(cells, max(k, _HEAVIEST))
        for times in parts if covered < total - room else ():
            arc = round(times * covered * room / total)
            if arc >= room or arc > (1 - _ROOM) * covered:
                continue
            weights = 1 / least[0] + np.where(np.arange(k) < _HEAVIEST, _EXTRA / least[1], 0.0)
            weights = np.append(weights, float(((cells[k:] / room) ** 2).sum()) / least[0])
            try:
                table, chances, inverse = best_table(np.append(cells[:k], room) / total, m, q, arc / room, weights)
            except (SolverError, np.linalg.LinAlgError):  # Giants alone serve every prior.
                continue
            each = variances_of(sizes, counts, inverse, covered, arc, q)
            both = [float(each @ counts), float(each[:_HEAVIEST].sum())]
            if _score(both, least) < score:
                score, sums, best = _score(both, least), both, times
                rows = rows_of_table(table, chances, cells, covered, arc, start.row_bits)
                found = {"giants": k, "covered": covered, "arc": arc, "rows": rows}
        parts = (best,) if found else ()
    return start, found, sums if sum(row[1] for row in found.get("rows", ())) <= 1 << _ROW_BITS else []


def rows_of_table(
    part: Floats, chances: Floats, cells: Integers, covered: int, arc: int, row_bits: int
) -> tuple[Row, ...]:
    """The rows of a table in integers: of every value a row covers whole cells, L or L − L' in all."""
    from tacit.designs._program.master import polished

    k, total = part.shape[1] - 1, int(cells.sum())
    with_arc = part[:, -1] > part[:, -1].max() / 2
    inside = np.rint(part[:, :-1] * cells[:k]).astype(np.int64)
    lacks = covered - arc * with_arc - inside.sum(axis=1)
    # What rounding leaves goes to the value that is covered least wholly.
    fits = (inside + lacks[:, None] >= 0) & (inside + lacks[:, None] <= cells[:k])
    between = np.where(fits, np.abs(part[:, :-1] - 0.5), 1.0).argmin(axis=1)
    inside[np.arange(len(part)), between] += lacks
    inside = np.clip(inside, 0, cells[:k])
    good = inside.sum(axis=1) == covered - arc * with_arc
    room, m = total - int(cells[:k].sum()), covered / total
    lifts = np.column_stack([inside / cells[:k], np.where(with_arc, arc / room, 0.0)])[good] / m
    lifts, chances = polished(lifts, chances[good])
    words = shares([int(chance * 2**60) for chance in chances], 1 << row_bits)
    rows: list[Row] = []
    for each, row in zip(words, lifts, strict=True):
        held = np.rint(row[:-1] * m * cells[:k]).astype(np.int64).tolist()
        rows.append((each, int(row[-1] > 0), *(n for i, c in enumerate(held) if c for n in (i, c))))
    return tuple(sorted((row for row in rows if row[0]), key=lambda row: -row[1]))


def rows_of_giants(cells: Sequence[int], room: int, covered: int, arc: int, row_bits: int) -> tuple[Row, ...]:
    """The table of giants of at least L = `covered` cells each that are covered alone: giant g beside an arc of L' =
    `arc` cells, to L − L' cells, with probability a·n_g/N, and without one with (1−a)n_g/N.

    where: `cells` = n, N in all; `room` = M' are those of the circle, a = L M'/(M L') with M = N + M'.

    >>> rows_of_giants([8], 8, 5, 4, 8)
    ((160, 1, 0, 1), (96, 0, 0, 5))
    """
    if not len(cells):
        return ()
    beside, total = covered - arc, sum(cells) + room
    with_arc = [n * covered * room for n in cells] if beside else [sum(cells) * covered * room]
    without = [n * (total * arc - covered * room) for n in cells]
    words = shares([*with_arc, *without], 1 << row_bits)
    arcs = [(each, 1, i, beside) if beside else (each, 1) for i, each in enumerate(words[: len(with_arc)])]
    return (*arcs, *((each, 0, i, covered) for i, each in enumerate(words[len(with_arc) :])))


def _alike_after(cells: Integers, alone: int) -> tuple[Floats, Floats]:
    """Falling cells and how many values have them: the first `alone` one by one, the others once for each size."""
    changes = alone + 1 + np.flatnonzero(np.diff(cells[alone:]))
    begins = np.concatenate([np.arange(min(alone + 1, len(cells))), changes])
    return cells[begins].astype(np.float64), np.diff(begins, append=len(cells)).astype(np.float64)


def _covers(cells: Integers, most: int) -> list[int]:
    """How many cells reports may cover: `most`, or those of values of a little less, which are giants then."""
    near = np.unique(cells[(cells < most) & (cells >= _LESS * most)])
    chosen = near[np.linspace(0, len(near) - 1, min(len(near), _COVERS)).astype(int)] if len(near) else near
    return [most, *reversed(chosen.tolist())]


def _margin(rule: ManyValues, values: Integers, arc: float) -> tuple[float, float]:
    """The μ of the least slack of arcs of this length over these values of the circle, and that slack in cells."""
    cells = rule.cell_array[values].astype(np.float64)
    away = (rule.prior.on_support().probabilities[values] * rule.total - cells) / cells
    tried = [0.0]
    for off in (away, -away):
        falling = np.argsort(-off)
        at = min(int(np.searchsorted(np.cumsum(cells[falling]), arc)), len(cells) - 1)
        tried.append(max(float(off[falling[at]]), 0.0))
    wide = [m * arc + max(float(cells @ np.maximum(off - m, 0.0)) for off in (away, -away)) for m in tried]
    return tried[int(np.argmin(wide))], min(wide)


def _with_margin(made: ManyValues) -> ManyValues:
    """The rule with the margin for its arc; with bins, whose arcs have many lengths, with one that is good for all."""
    away = _margin(made, made.others, 0.0 if made.bins else float(made.arc))[0]
    return replace(made, margin=min(int(away * (1 + 2**-40) * MARGIN_UNIT) + 1, 2 * MARGIN_UNIT - 1))


def _bits(taken: int, slots: int) -> dict[str, Any]:
    """The bits of cells, seeds and words that leave `taken` for the names of giants."""
    if slots:  # A plane of up to 251 slots has less than 2^15 orders.
        return {"cell_bits": min(_CELL_BITS, _REPORT_BITS - 15 - taken), "seed_bits": _SEED_BITS}
    seeds = _SEED_BITS - 2 * -(-taken // 4)
    return {"cell_bits": _REPORT_BITS - seeds - taken, "seed_bits": seeds, "word_bits": _REPORT_BITS + seeds // 2}


def _alike(prior: Prior, ratio: Fraction, within: Fraction, bits: dict[str, Any]) -> ManyValues:
    """One cell for each value, and an arc of whole cells; seeds shuffle the circle, so that all values are alike."""
    size, e, tau = len(prior.support), float(ratio), float(within)
    start = ManyValues(prior=prior, giants=0, covered=1, arc=1, step=1, **bits)
    tau = float(within + start.cell_error)
    m = np.arange(1, size) / size
    load = (e - 1) * m + np.maximum(1 - e * np.maximum(m - tau, 0), np.minimum(m + tau, 1))
    arc = 1 + int(np.argmax(m * (1 - m) / load**2))
    return _largest_step(replace(start, covered=arc, arc=arc), ratio, within)


def _largest_step(made: ManyValues, ratio: Fraction, within: Fraction) -> ManyValues:
    """The largest step that passes the audit, at most the closed form's."""
    words = 1 << made.circle.choice_bits
    q = _amplitude(ratio, made.share, within)
    most = min(int(q * made.share * words / made.arc), (words - 1) // made.arc)
    least = int(most * (1 - _ROUNDING))
    if least < 1:
        raise ValueError(f"Words of {made.word_bits} bits are too short for such a small epsilon.")

    made.lift_range()  # What does not depend on the step is made once, and copied.

    def passes(step: int) -> bool:
        return _with_step(made, step).within(ratio, within)

    while least >= 1 and not passes(least):
        most, least = least, int(least * (1 - 8 * _ROUNDING))
    if least < 1:
        raise PrivacyError("No step passes the exact audit.")
    if passes(most):
        least = most
    while most - least > (max(1, most >> _STEP_BITS) if made.bins else 1):
        middle = (least + most) // 2
        least, most = (middle, most) if passes(middle) else (least, middle)
    return replace(made, step=least)


def _with_step(made: ManyValues, step: int) -> ManyValues:
    """The same rule with another step; cells and slack, which do not depend on it, are not made again."""
    other, circle = copy(made), copy(made.circle)
    for each in (other, circle):
        object.__setattr__(each, "step", step)
    other.__dict__["circle"] = circle
    return other


def _amplitude(ratio: Fraction, share: Fraction, off: Fraction) -> Fraction:
    return (ratio - 1) / ((ratio - 1) * share + side_of(share, ratio, off))


def _plane(cells: Integers, arc: int, room: int, most_work: int = MOST_WORK) -> dict[str, Any]:
    """The orders of a plane for values with these cells, or none where no plane of bounded size holds them.

    Where that is not too much work all values lie on their own. Else the light ones, of less than half a line, lie on
    lines. A line takes its length/3 of the variance of the coverage of its values, with p slots about 1/3p: the plane
    is so large that this is at most `_LOST` of it, or as large as it may be; beyond `_MOST_LOST` there is none.

    >>> _plane(np.full(40, 100), 1000, 4000)
    {'slots': 61, 'first': 7, 'second': 1, 'light': 0}
    """
    root, part = math.isqrt(len(cells) - 1) + 1, arc / room
    pieces = -(-cells // max(arc, room // (2 * root)))
    needed = next_prime(max(math.isqrt(int(pieces.sum())) + 1, 5))
    wanted = max(4 * needed // 3, math.ceil(1 / (3 * _LOST * part * (1 - part))))
    slots = next_prime(max(needed, min(wanted, _MOST_SLOTS)))
    tried = [(max(_FEW_SLOTS, needed), 0)] if len(cells) <= _ALONE or wanted > _MOST_SLOTS else []
    while needed <= slots <= MOST_SLOTS and 3 * _MOST_LOST * part * (1 - part) * slots >= 1:
        tried.append((slots, min(room // (2 * slots) + 1, arc)))
        slots = _prime_below(slots)
    tried += [(max(_FEW_SLOTS, needed), 0)]
    for slots, light in tried:
        own = int(pieces[cells >= light].sum())
        stretches = own + (slots if own < pieces.sum() else 0)
        places = (slots**2 - 1) // 2 * stretches
        if slots <= MOST_SLOTS and places <= MOST_PLACES and places * stretches * arc // room <= most_work:
            first, second = first_full_recurrence(slots)
            return {"slots": slots, "first": first, "second": second, "light": light}
    return _NO_PLANE


def _prime_below(number: int) -> int:
    """The largest prime below a number, or 1.

    >>> _prime_below(167)
    163
    """
    return next(each for each in range(number - 1, 0, -1) if is_prime(each) or each == 1)


def _giants_alone(cells: Floats, room: int, covered: int, arc: int, amplitude: float) -> Floats:
    """The diagonal of B⁻¹ (`mechanism.many_values`) for giants that are covered alone."""
    if not len(cells):
        return np.ones(1)
    named, q = float(cells.sum()), amplitude
    total, part = named + room, arc / room
    m = covered / total
    with_arc = m / part
    square = with_arc * (covered - arc) ** 2 + (1 - with_arc) * covered**2
    common = 1 + q * q * m * (part - m)
    between = 1 + q * q * (with_arc * (covered - arc) * part / named - m * m)
    each = cells * named / (q * q * square)
    theta = 1 - (q * m) ** 2 - between**2 / common
    ratio, every = theta / (1 + theta * each.sum()), each.sum()
    of_all = 1 / common + (between / common) ** 2 * (every - ratio * every**2)
    return np.append(each - ratio * each**2, of_all)


def variances_of(cells: Floats, counts: Floats, inverse: Floats, covered: int, arc: int, amplitude: float) -> Floats:
    """The variance per respondent of every unbiased share, were all orders balanced: closed forms of
    `mechanism.many_values` with W nearly diagonal, (1 − π_x)²(1 + Σπ²)/(q²aW_xx) for a value on the circle alone: what
    an arc covers of a heavy value it lacks of all others.

    where: `counts` values have each of `cells`; the first k are giants, `inverse` is the diagonal of B⁻¹.
    """
    giants, total, q = len(inverse) - 1, float(cells @ counts), amplitude
    room = float(cells[giants:] @ counts[giants:])
    m, part = covered / total, arc / room
    with_arc, around = m / part, cells[giants:] / room
    line = room / (_MOST_SLOTS if float(counts[giants:].sum()) > _ALONE else np.inf)
    alone = with_arc * (mean_square_coverage(np.maximum(cells[giants:], line), float(arc), int(room)) - part**2)
    variances = np.empty(len(cells))
    variances[:giants] = inverse[:-1]
    shared = 1 + float(around**2 @ counts[giants:])
    variances[giants:] = shared * (1 - around) ** 2 / (q * q * alone) + around**2 * inverse[-1]
    found: Floats = variances - (cells / total) ** 2
    return found


def best_share(ratio: Fraction, off: Fraction) -> Fraction:
    """The m of least variance, for E = `ratio` and priors within total variation `off` of the circle's own.

    >>> best_share(Fraction(3), Fraction(0)), best_share(Fraction(3), Fraction(1))
    (Fraction(1, 4), Fraction(1, 4))
    """
    e = ratio
    pieces = [(Fraction(-1), 1 + e * off), (e - 1, Fraction(1)), (e, off)]
    candidates = [beta / (alpha + 2 * beta) for alpha, beta in pieces if alpha + 2 * beta]
    candidates += [(1 + (e - 1) * off) / (e + 1), off, 1 - off]
    inside = [Fraction(round(m * _GRID), _GRID) for m in candidates if 0 < m < 1]
    return max(inside, key=lambda m: m * (1 - m) / ((e - 1) * m + side_of(m, e, off)) ** 2)


def unbiased_variance_bound(
    prior: Prior, epsilon: Number, within: PriorSet | None = None, notion: Literal["lip", "ldp"] = "lip"
) -> float:
    """A variance per respondent, summed over the histogram, that no channel goes below that promises ε-LIP for the
    prior, for every prior of the set `within`, or ε-LDP: the larger of two bounds.

    Value by value.  Merge all values but x: holding "not x" means holding one of the others, drawn from the prior. An
    estimate of the share of x that is unbiased under every truth is so for these two values. A lift of "not x" is an
    average of lifts, so the merged channel keeps the promise for every Pr(x) in [a, b] = `ranges`, which a prior of the
    set has while the others keep their proportions. For two values that means a ratio t = Q(y|x)/Q(y|not x) of at most
    1 + r with r = min((E−1)/(1−Ea) if Ea < 1, (E−1)/b) and at least 1 − f with f = min((1−1/E)/b, (E−1)/(E−a)), hence
    a lift t/(1−P_x+P_x t) in [lo, hi], whose variance s² is at most (hi−1)(1−lo). The mean lift differs by s²/(1−P_x)
    between the two values, so the estimate's variance at the prior is at least (1−P_x)²/s² (Cauchy–Schwarz), which is
    (1 + P_x r)(1 − P_x f)/rf. Sum over x. ∎

    All together, in a ball and under LDP.  No lift varies by more than V = `most_lift_variance` over the values, so
    J = Σ λ_y v_y v_yᵀ has Σ_x P_x J_xx ≤ 1 + V. From JP = 1 follows J = D^−½ (√P√Pᵀ + K) D^−½ with D = diag P, K√P = 0
    and tr K ≤ V; the variance is tr J⁻¹ − Σ P² = tr DK⁺ ≥ (tr C^½)²/tr K with C = ΠDΠ, Π = 1 − √P√Pᵀ. The eigenvalues
    of C lie between those of D, so that tr C^½ is at least Σ √P without the largest. ∎

    The first tends to E/(E−1)² for every light value and is reached for one prior, the second where values are many and
    equally likely.

    >>> round(unbiased_variance_bound(Prior.uniform(1000), 1) / 1000, 3)
    0.919
    >>> round(unbiased_variance_bound(Prior.uniform(1000), 1, Ball(Prior.uniform(1000), 0.1)) / 1000, 3)
    1.433
    """
    e = float(exp_below(budget(epsilon)))
    p = prior.on_support().probabilities
    if len(p) == 1:
        return 0.0
    a, b = (np.zeros(len(p)), np.ones(len(p))) if notion == "ldp" else (p, p) if within is None else within.ranges
    rise = np.minimum(np.where(e * a < 1, (e - 1) / np.where(e * a < 1, 1 - e * a, 1.0), np.inf), (e - 1) / b)
    fall = np.minimum((1 - 1 / e) / b, (e - 1) / (e - a))
    alone = float(((1 + p * rise) * (1 - p * fall) / (rise * fall)).sum())
    if notion == "lip" and not isinstance(within, Ball):
        return alone
    roots = np.sqrt(p)
    off = 1.0 if notion == "ldp" or within is None else float(within.radius)
    return max(alone, float(roots.sum() - roots.max()) ** 2 / most_lift_variance(e, off))


def most_lift_variance(ratio: float, off: float) -> float:
    """V: of no prior P, on any number of values, has a lift v that keeps ε-LIP in a ball around P a larger Σ P(v−1)².

    where: E = `ratio`, τ = `off` is the radius. V is the larger of (E−1)²/4E and, if τ ≤ ½, the product xy with

        (1+Eτ)x + Eτy = E−1   and   τx + (E+τ)y = E−1.

    Proof.  Let v reach from 1−y to 1+X, and let 1+x and 1−z be its means over the mass τ where it is largest and least.
    The worst priors move that mass to the other end, so the promise says

        (i) X + Eτ(x+y) ≤ E−1   and   (ii) τ(X+z) + Ey ≤ E−1.

    Write u = v − (1−y), and c for its value where the mass τ ends, 0 ≤ c ≤ x+y. Chords bound the squares:
    u² ≤ (X+y+c)u − (X+y)c above c and u² ≤ cu below, so E u² ≤ (X+y)τ(x+y) + c(y − τ(X+y)). If τ(X+y) ≤ y that is
    largest at c = x+y, and the variance S = E u² − y² is at most xy. Else it is so at c = 0: with q = τ(x+y) ≤ y,
    S ≤ (X+y)q − y² ≤ Xq, which by (i), X + Eq ≤ E−1, is at most (E−1)²/4E. The same for −v: S is at most Xz if
    τ(X+y) ≤ X, else yq' with q' = τ(X+z) ≤ X, and by (ii) (E−1)²/4E again. Both are left only if τ ≤ ½, and then
    S ≤ xy and S ≤ Xz.

    Add (i) and (ii) with weights w and 1−w: αX + wEτx + γy + δz ≤ E−1 with α = w + (1−w)τ, γ = wEτ + (1−w)E,
    δ = (1−w)τ. As y ≥ S/x and z ≥ S/X, for r = x/√S and R = X/√S ≥ r this is √S·(wEτr + γ/r + αR + δ/R) ≤ E−1. The
    least of that sum over R ≥ r is convex in r. At R = r it is (α+wEτ)r + (γ+δ)/r, least at r² = (γ+δ)/(α+wEτ); and
    there no larger R is better, since αr² ≥ δ: α(γ+δ) − δ(α+wEτ) = E(w²τ + w(1−w) + (1−w)²τ) ≥ 0. Hence
    S ≤ (E−1)²/4(α+wEτ)(γ+δ) for every w. The least of these is, by duality, the largest xy with (i) and (ii) for
    X = x and z = y; neither side alone is its limit for τ ≤ ½, so both are equalities. ∎

    The two levels of a circle reach it (`best_share`) where values are many and light: nothing is better for them.

    >>> round(1 / most_lift_variance(math.e, 0), 4), round(1 / most_lift_variance(math.e, 1), 4)
    (0.9207, 3.6827)
    """
    e = ratio
    slope = (e + off - e * off) / (1 + e * off - off)
    y = (e - 1) / (off * slope + e + off)
    return max((e - 1) ** 2 / (4 * e), slope * y**2 if off <= 1 / 2 else 0.0)


def side_of(m: Fraction, ratio: Fraction, off: Fraction) -> Fraction:
    """max(1 − E·max(m−τ, 0), min(m+τ, 1)), the larger of the two sides."""
    return max(1 - ratio * max(Fraction(0), m - off), min(Fraction(1), m + off))
