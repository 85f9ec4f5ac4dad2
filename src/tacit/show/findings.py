"""Differences and regressions in words, for people who decide something by them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.estimates import FEW, Coefficient, CovariateLevels, Difference, Differences, Regression
from tacit.plan import Plan
from tacit.show.sentences import digits, group_label, row_name, whom


def probability(p_value: float) -> str:
    """A p-value in a few digits.

    >>> probability(0.0312), probability(1e-9)
    ('p = 0.031', 'p < 0.0001')
    """
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


# -- differences ----------------------------------------------------------------------------------------------------


def difference_cells(plan: Plan, row: Difference) -> tuple[str, str, str, str]:
    """Both sides, the difference and its interval: shares in percent and points, means as they are."""
    scale, unit = (100.0, "%") if plan.task.counts_people else (1.0, "")
    if not math.isfinite(row.difference):
        return "–", "–", "–", "–"
    margin = scale * (row.high - row.low) / 2
    while row.told and margin > 0 and not all(digits(scale * end, margin).strip("−0.,") for end in (row.low, row.high)):
        # An end that decides must not be shown as zero.
        margin /= 10
    first, second = (digits(scale * side, margin) + unit for side in (row.first, row.second))
    return first, second, signed(scale * row.difference, margin), interval(scale * row.low, scale * row.high, margin)


def ratio_cells(row: Difference) -> tuple[str, str]:
    """The ratio and its interval."""
    if not math.isfinite(row.ratio_low):
        return "–", "–"
    margin = (row.ratio_high - row.ratio_low) / 2
    return digits(row.ratio, margin), interval(row.ratio_low, row.ratio_high, margin)


def difference_sentence(plan: Plan, row: Difference, level: float) -> str:
    """One difference with what it means: "+2.1 points, 95% 0.4 … 3.8"."""
    first, second, difference, ends = difference_cells(plan, row)
    if difference == "–":
        return f"{row.part} and {row.other} cannot be compared: no report speaks of it."
    what = f"The share of “{row_name(plan, row.value)}”" if plan.task.counts_people else "The mean"
    points = " points" if plan.task.counts_people else ""
    said = f"{what} is {first} ({row.part}) against {second} ({row.other}): "
    said += f"{difference}{points}, {level * 100:g}% {ends}. "
    if row.told:
        more = "higher" if row.difference > 0 else "lower"
        return f"{said}It is {more}: chance alone would rarely make such a difference ({probability(row.p_value)})."
    return f"{said}Chance alone could make such a difference ({probability(row.p_value)}): which is higher is not told."


def verdict(row: Difference) -> str:
    """A word for a table."""
    if not math.isfinite(row.difference):
        return "–"
    if not row.told:
        return "not told"
    return "higher" if row.difference > 0 else "lower"


def surest(found: Differences, most: int) -> list[Difference]:
    """At most so many rows, in their order: those that are furthest from zero for their error."""

    def doubt(row: Difference) -> float:
        return -abs(row.difference) / row.standard_error if row.standard_error > 0 else 0.0

    kept = sorted(range(len(found.rows)), key=lambda place: doubt(found.rows[place]))[:most]
    return [found.rows[place] for place in sorted(kept)]


def difference_notes(plan: Plan, found: Differences) -> list[str]:
    """What has to be known to read differences."""
    notes = [whom(found.scope, found.simultaneous) + " Each side is estimated on its own, without the prior."]
    if found.design_effect > 1.005:
        notes.append(f"Weighted: unequal weights raise variances by up to a factor of {found.design_effect:.2f}.")
    known = [row for row in found.rows if math.isfinite(row.difference)]
    told = sum(row.told for row in known)
    if len(known) > 1:
        verb, every = "is" if told == 1 else "are", round(1 / (1 - found.level))
        if found.simultaneous or not told:
            notes.append(f"{told:,} of {len(known):,} differences {verb} more than chance would make.")
        else:
            notes.append(
                f"{told:,} of {len(known):,} intervals leave out zero. About one of {every} does by chance alone: "
                "--simultaneous guards against it."
            )
    few = sorted({row.part for row in found.rows if row.few})
    if few:
        names = ", ".join(few[:5]) + (", …" if len(few) > 5 else "")
        notes.append(f"Fewer than {FEW} reports' worth on a side, so take the intervals with care: {names}.")
    return notes


def signed(number: float, error: float) -> str:
    """A number with its sign.

    >>> signed(2.13, 0.9), signed(-0.5, 0.9)
    ('+2.13', '−0.50')
    """
    text = digits(abs(number), error)
    return text if not text.strip("0.,") else ("+" if number > 0 else "−") + text


def interval(low: float, high: float, error: float) -> str:
    """Both ends."""
    return " … ".join(digits(end, error) for end in (low, high))


# -- regressions ----------------------------------------------------------------------------------------------------


def coefficient_cells(fit: Regression, row: Coefficient) -> tuple[str, ...]:
    """β with its interval, e^β with its interval where it is one of odds, and the p-value."""
    margin = (row.high - row.low) / 2
    cells = [digits(row.estimate, margin), interval(row.low, row.high, margin)]
    if fit.model != "linear":
        ratio, low, high = row.odds_ratio
        cells += [f"{ratio:.3g}", f"{low:.3g} … {high:.3g}"]
    return *cells, probability(row.p_value).removeprefix("p ").removeprefix("= ")


def covariate_notes(levels: Sequence[CovariateLevels]) -> list[str]:
    """What a report tells somebody who knows these columns."""
    if not levels:
        return []
    worst = max(level.any_belief for level in levels)
    implied = [level for level in levels if level.covariates is not None]
    said = "Who knows these columns has a belief of their own before a report comes. "
    if implied:
        first = max(implied, key=lambda level: level.covariates or 0.0)
        own = "" if first.prior is None else f"for the plan's own prior e^{_up(first.prior)}; "
        said += (
            "For all beliefs that this fit implies, a report moves them by a factor of at most "
            f"e^{_up(first.covariates)} ({own}in the worst group, {group_label(first.group)}). "
        )
    return [said + f"Whatever is believed, odds move by at most e^{_up(worst)}. Decided in exact integers."]


def _up(level: float | None) -> str:
    """Rounded up, as levels are."""
    return "∞" if level is None or math.isinf(level) else f"{math.ceil(level * 1000) / 1000:.3f}"
