"""Sentences and cells for plans, estimates, differences and regressions: shared by terminal, page and service."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tacit.estimates import (
    FEW,
    MANY_ROWS,
    Coefficient,
    CovariateLevels,
    Difference,
    Differences,
    Estimate,
    PriorCheck,
    Quantile,
    QuantileDifference,
    Regression,
    Row,
    Scope,
    estimators,
)
from tacit.mechanism import Belief
from tacit.mechanism.auditing import percent
from tacit.mechanism.repeated import RESEND_BITS
from tacit.plan import Group, Plan
from tacit.prior import Ball, Box, Hull, PriorSet, Value

#: Instead of an interval, where the reports do not tell a value from others.
NOT_DETERMINED = "not determined"
#: Fewer reports than this make no estimate that is shown, and a prior that replaces fewer people than this none.
LEAST_REPORTS, _NO_RECORDS = 5, 5
#: An interval with more than this part of what is possible says nothing.
_ALL_OF_IT = 0.8
#: Longer tables are cut when printed for people; JSON and files hold everything.
MAX_ROWS = MANY_ROWS


def group_label(name: str | None) -> str:
    """A group's name; a plan without groups is about all people."""
    return "everybody" if name is None else name


def promise(plan: Plan, name: str | None) -> str:
    """What a respondent of the group of that name is promised, in a sentence: about one answer, or about all."""
    if len(plan.private) > 1:
        return record_sentence([each.group(name) for each in plan.block_plans])
    (asked,) = plan.block_plans
    group = asked.group(name)
    if group.without_prior:
        return f"for any report and any belief, odds change by at most a factor of {_odds(group)}."
    moved = str(_belief(asked, group))
    if asked.between:
        moved = moved.replace("believed to be ", "believed to be near ", 1)
    return f"for any report, {moved}; for any other belief, odds change by at most a factor of {_odds(group)}."


def short_promise(plan: Plan) -> str:
    """What all respondents were promised, in a sentence for people who read the result."""
    ratios = [group.audit.ldp.ratio for group in plan.groups]
    odds = factor(None if None in ratios else max(filter(None, ratios)))
    return f"No report changes the odds of a person's answer by more than a factor of {odds}, for any belief."


def record_sentence(mine: Sequence[Group]) -> str:
    """The promise of several blocks or groups about a whole record: that of the worst of them."""
    bound, odds = record_factors(mine)
    if bound is None:
        return f"for any report and any belief, odds change by at most a factor of {odds}."
    return (
        "for any report, the belief in any answer, or in any combination of answers, changes by at most a factor "
        f"of {bound}; for any other belief, odds change by at most a factor of {odds}."
    )


#: What two layers do not protect.
CHANGED = (
    "An answer that changes has a stored report of its own, and so has a person who moves to another group: that and "
    "when it changed can become known, and the LDP levels of all stored reports of a person add up."
)


def again_sentence(plan: Plan) -> str:
    """What the same people in several waves are promised, by two layers or by the belief rule; else nothing."""
    layers = plan.groups[0].layers
    if layers is not None:
        notion, level = plan.groups[0].notion.upper(), float(max(g.layers.lifelong for g in plan.groups if g.layers))
        share = percent(Fraction(layers.resend, 1 << RESEND_BITS))
        return (
            f"Two layers: each device stores one report of its answer, and sends it in {share} of the waves, else one "
            "that does not depend on the answer. However many waves there are, all reports about an answer that stays "
            f"keep {notion} ε = {level:g} for a reader who knows that it stays. {CHANGED}"
        )
    if plan.follows is not None:
        stay = plan.follows.persistence
        change = (
            "change from the last wave to this one by the transition matrix that the plan states"
            if stay is None
            else f"stay from wave to wave with probability {float(stay):g} and are else drawn from the prior"
        )
        return (
            "The same people are followed by the belief rule: there is a group for each history of reports, and the "
            f"levels of a person's reports in all waves add up exactly, if answers {change}. It follows plan "
            f"{plan.follows.plans[-1]}."
        )
    return ""


def record_factors(mine: Sequence[Group]) -> tuple[str | None, str]:
    """The largest factors of several blocks or groups: for beliefs (None without a prior), and for odds."""

    def worst(ratios: list[Fraction | None]) -> str:
        return factor(None if None in ratios else max(filter(None, ratios)))

    bound = None if all(each.without_prior for each in mine) else worst([each.audit.lip.ratio for each in mine])
    return bound, worst([each.audit.ldp.ratio for each in mine])


def promise_cells(plan: Plan, group: Group) -> tuple[str, ...]:
    """The same for a table: group, answer, believed before, at most, at least, and the factor for odds."""
    if group.without_prior:
        return group_label(group.name), "any", "any", "–", "–", f"× {_odds(group)}"
    moved = _belief(plan, group)
    shares = percent(moved.prior), percent(moved.high, "up"), percent(moved.low, "down")
    return group_label(group.name), str(moved.value), *shares, f"× {_odds(group)}"


def _odds(group: Group) -> str:
    return factor(group.audit.ldp.ratio)


def factor(ratio: Fraction | None) -> str:
    """A ratio with two decimals, rounded up."""
    if ratio is None:
        return "∞"
    whole, hundredths = divmod(math.ceil(ratio * 100), 100)
    return f"{whole}.{hundredths:02d}"


def _belief(plan: Plan, group: Group) -> Belief:
    """About the rarest answer of those that a survey asks for, or of all."""
    wanted = plan.task.wanted
    support = group.prior.support
    asked = [x for x in support if group.prior.values[x] in wanted] or support
    rarest = min(asked, key=lambda x: group.prior.weights[x])
    return group.mechanism.belief(group.prior.values[rarest])


def set_sentence(group: Group) -> str | None:
    """What holds for all priors of the group's set, as a sentence; None without a set.

    `promise` speaks in numbers about the prior itself. Under another prior of the set the same belief starts elsewhere,
    so what holds for all of them is the factor by which it moves.
    """
    if group.prior_set is None or group.set_levels is None:
        return None
    ratios = [side.ratio for side in group.set_levels]
    bound = factor(None if None in ratios else max(filter(None, ratios)))
    return (
        f"No report raises or lowers the belief in an answer by more than a factor of {bound}, "
        f"for {_whom(group.prior_set)}."
    )


def set_cell(plan: Plan, group: Group) -> str:
    """For a table: the beliefs in that answer, or how far off all beliefs may be, that the promise holds for."""
    prior_set = group.prior_set
    if prior_set is None:
        return "exactly"
    if isinstance(prior_set, Ball):
        return f"± {percent(prior_set.radius, 'down')} in all"
    told = _belief(plan, group).value
    low, high = prior_set.extremes([int(value == told) for value in group.prior.values])
    return f"{percent(low, 'up')} … {percent(high, 'down')}"


def _whom(prior_set: PriorSet) -> str:
    if isinstance(prior_set, Hull):
        return f"each of the {len(prior_set.candidates) + 1} stated expectations and every mixture of them"
    if isinstance(prior_set, Box):
        return "everybody whose expectations lie within the ranges that the plan states"
    points = percent(prior_set.radius, "down").removesuffix("%")
    unit = "percentage point" if points == "1" else "percentage points"
    return f"everybody whose expectations differ from the survey's by up to {points} {unit} in all"


def outside_values(group: Group) -> list[Value]:
    """Values with prior zero, about which nothing can be promised."""
    return [value for value, weight in zip(group.prior.values, group.prior.weights, strict=True) if not weight]


def alarm(plan: Plan, result: Estimate, check: PriorCheck) -> str:
    """What a contradicted prior means for this estimate."""
    chance = f"p = {check.p_value:.1g}" if check.p_value > 1e-300 else "p < 1e-300"
    said = f"{check.whose} contradict the prior ({chance})"
    if result.estimator == "mmse":
        remedy = (
            "prefer the estimator 'unbiased'" if estimators(plan)[0] != "mmse" else "plan again, for what is true now"
        )
        said += f": this estimate trusts it, so estimates and intervals can be far off; {remedy}."
    elif result.estimator == "assisted":
        used = _mean_share(result)
        said += "; the estimate does not use it" if used < 0.005 else f"; {used:.0%} of the estimate is the prior"
        said += ", and its interval holds all the same."
    else:
        said += f"; the estimator {result.estimator!r} does not use it."
    if any(group.prior_set is not None for group in plan.groups):
        said += " The other priors that the promise is for are not tested."
    return said


def whom(scope: Scope, simultaneous: bool = False) -> str:
    """Whom intervals are about, as a sentence."""
    about, together = "the people who took part", " and hold for all rows at once" if simultaneous else ""
    if scope == "population":
        about, together = "the population that the reports stand for, sampling included", together and f",{together}"
    return f"Intervals are about {about}{together}."


def few_parts(parts: Mapping[str, Estimate]) -> str | None:
    """Which parts are too small to take their intervals for a population at their word; None if none is."""
    few = [name or "(empty)" for name, part in parts.items() if part.scope == "population" and part.n_reports < FEW]
    if not few:
        return None
    names = ", ".join(few[:5]) + (", …" if len(few) > 5 else "")
    return f"Fewer than {FEW} reports, so take the intervals with care: {names}."


def weights_sentence(result: Estimate) -> str | None:
    """What weights mean for an estimate; None without any."""
    if not result.weighted:
        return None
    total = f"{result.total_weight:,.0f}" if result.total_weight >= 1000 else f"{result.total_weight:.6g}"
    said = f"Weighted: shares and means are of the {total} that the weights sum to."
    if result.design_effect > 1.0005:
        worth = result.n_reports / result.design_effect
        said += f" Design effect {result.design_effect:.2f}: the reports count as {worth:,.0f} of equal weight."
    if result.estimator in ("mmse", "mle"):
        said += f" The estimator {result.estimator!r} takes it that weights do not go with the answers."
    return said


def how_estimated(result: Estimate) -> str:
    """What an estimator does, in a few words."""
    return {
        "assisted": "assisted: uses the prior as far as the reports agree with it",
        "unbiased": "unbiased: the prior is not used",
        "mle": "mle: most likely, the prior is not used",
        "mmse": "mmse: right if the prior is exactly right",
    }[result.estimator]


def prior_part(result: Estimate) -> str | None:
    """How much of an assisted estimate is the prior, as a sentence; None for others."""
    found = prior_shares(result)
    if found is None:
        return None
    share = f"{found['mean']:.0%} of the estimate is the prior, the rest the reports"
    if len(result.rows) > 1:
        share = f"On average {share} (at most {found['most']:.0%} of a row)"
    if found["records"] is None:
        return f"{share}."
    than, fewer = found["records"]["than"], found["records"]["fewer"]
    people = f"fewer than {than} people" if fewer else f"about {than:,} people"
    return f"{share}. The reports show that a group's prior stands for {people}."


def prior_shares(result: Estimate) -> dict[str, Any] | None:
    """The same in numbers: the share of the prior in the mean and at most, and the number of records it stands for."""
    shares = [row.prior_share for row in result.rows if math.isfinite(row.estimate)]
    if result.estimator != "assisted" or not shares:
        return None
    records = None
    if result.records_worth is not None:
        worth = float(f"{result.records_worth:.1g}")
        fewer = worth < _NO_RECORDS
        records = {"than": _NO_RECORDS if fewer else round(worth), "fewer": fewer}
    return {"mean": _mean_share(result), "most": max(shares), "records": records}


def _mean_share(result: Estimate) -> float:
    """The mean share of the prior in the rows."""
    shares = [row.prior_share for row in result.rows if math.isfinite(row.estimate)]
    return sum(shares) / max(len(shares), 1)


def too_few(plan: Plan, result: Estimate) -> bool:
    """Whether the reports are too few to say anything: below a least number, or an interval is nearly as wide as what
    is possible.
    """
    wide = plan.task.counts_people and any(2 * row.margin > _ALL_OF_IT * result.total_weight for row in result.rows)
    return wide or result.n_reports < LEAST_REPORTS


def forged(result: Estimate) -> str:
    """What one forged report, and 1% of them, can do, in sentences."""
    changed, added = significant(result.influence), significant(result.influence_added)
    one = f"One forged report can move an estimate by at most {changed}, one that is added by {added}."
    if not result.n_reports or not math.isfinite(result.influence):
        return one
    return f"{one} 1% forged reports would move it by {significant(result.influence * result.n_reports / 100)}."


def promised_answer(plan: Plan) -> str:
    """The answer that `promise_cells` is about."""
    return "the answer that is asked for" if plan.task.wanted else "the rarest answer"


def within_possible(plan: Plan, result: Estimate, row: Row) -> Row:
    """The row with a count between 0 and the number of people, as it is shown."""
    if not plan.task.counts_people:
        return row
    return replace(row, estimate=min(max(row.estimate, 0.0), result.total_weight))


def interval_header(level: float) -> str:
    """The column of intervals."""
    return f"{level * 100:g}% interval"


def estimate_headers(plan: Plan, result: Estimate) -> tuple[str, ...]:
    """The columns of `estimate_cells`."""
    ends = interval_header(result.level)
    return "estimate", ends, "share" if plan.task.counts_people else "mean", ends


def part_headers(plan: Plan, first: Estimate, by: str) -> tuple[str, ...]:
    """The columns of `part_cells`."""
    return by, "reports", *estimate_headers(plan, first)


def part_cells(plan: Plan, parts: Mapping[str, Estimate]) -> list[tuple[str, ...]]:
    """For a table: the parts of an estimate of one number."""
    return [
        (name or "(empty)", f"{part.n_reports:,}", *estimate_cells(plan, part, part.rows[0]))
        for name, part in parts.items()
    ]


def estimate_cells(plan: Plan, result: Estimate, row: Row) -> tuple[str, ...]:
    """One row of an estimate in words, with as many digits as its margin deserves: a total, and a share or mean.

    A share is shown within 0 and 100%; the number itself is in JSON and Python.
    """
    if not math.isfinite(row.estimate):
        return ("–",) * 4
    row = within_possible(plan, result, row)
    scale = 100.0 if plan.task.counts_people else 1.0
    each = result.per_respondent(row).divided(1 / scale)
    unit = "%" if plan.task.counts_people else ""
    if not math.isfinite(row.margin):
        return (
            digits(row.estimate, row.standard_error),
            NOT_DETERMINED,
            digits(each.estimate, 1.0) + unit,
            NOT_DETERMINED,
        )
    estimate, low, high = (digits(x, row.margin) for x in (row.estimate, row.low, row.high))
    if too_few(plan, result):
        return "–", "–", "too few reports", "–"
    share, least, most = (digits(x, each.margin) for x in (each.estimate, each.low, each.high))
    return estimate, f"{low} … {high}", share + unit, f"{least} … {most}{unit}"


def row_name(plan: Plan, value: Value | None) -> str:
    """How a row is called: its value, the surveyed set, or the sum."""
    if value is not None:
        return value_name(value)
    return " or ".join(map(value_name, plan.task.wanted)) or "total"


def value_name(value: Value) -> str:
    """A value as people read it: a number without a point that says nothing.

    >>> value_name(2500.0), value_name(0.5), value_name("2500.0")
    ('2500', '0.5', '2500.0')
    """
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def json_ready(data: Any) -> Any:
    """The same data with null for the numbers that JSON does not know.

    >>> json_ready({"a": [1, math.inf]})
    {'a': [1, None]}
    """
    if isinstance(data, dict):
        return {key: json_ready(part) for key, part in data.items()}
    if isinstance(data, list | tuple):
        return [json_ready(part) for part in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def digits(number: float, error: float) -> str:
    """A number for people, with two significant digits of its error, and a minus sign, no hyphen.

    >>> digits(8655.43, 77.2), digits(-12.3456, 0.0123), digits(-0.001, 1), digits(34085916, 1057734)
    ('8,655', '−12.346', '0.0', '34,100,000')
    """
    places = 1 if not 0 < error < math.inf else min(9, 1 - math.floor(math.log10(error)))
    text = f"{round(number, places) if places < 0 else number:,.{max(places, 0)}f}"
    return text.lstrip("-") if not text.strip("-0.,") else text.replace("-", "−")


def significant(number: float) -> str:
    """Three significant digits, thousands in groups.

    >>> significant(0.01234567), significant(76.97), significant(5983.2)
    ('0.0123', '77.0', '5,983')
    """
    places = 0 if number <= 0 else max(0, 2 - math.floor(math.log10(number)))
    return f"{number:,.{places}f}"


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
    ends = scale * row.low, scale * row.high
    while row.significant and margin > 0 and not all(digits(end, margin).strip("−0.,") for end in ends):
        # An end that decides must not be shown as zero.
        margin /= 10
    sides = [min(max(side, 0.0), 1.0) if unit else side for side in (row.first, row.second)]
    first, second = (digits(scale * side, margin) + unit for side in sides)
    return first, second, signed(scale * row.difference, margin), interval(*ends, margin)


def ratio_cells(row: Difference) -> tuple[str, str]:
    """The ratio and its interval."""
    if not math.isfinite(row.ratio_low):
        return "–", "–"
    margin = (row.ratio_high - row.ratio_low) / 2
    return digits(row.ratio, margin), interval(row.ratio_low, row.ratio_high, margin)


def compared_sides(plan: Plan, found: Differences) -> tuple[str, str]:
    """What the two columns of numbers are: rounds or parts by name where all rows share them."""
    parts, others = ({getattr(row, side) for row in found.rows} for side in ("part", "other"))
    mean = "share" if plan.task.counts_people else "mean"
    first = found.now or (parts.pop() if len(parts) == 1 else mean if len(others) == 1 else "first")
    return first, others.pop() if len(others) == 1 else "second"


def compared_name(plan: Plan, found: Differences, row: Difference) -> str:
    """What a row compares, as far as the names of the columns do not say it."""
    first, second = compared_sides(plan, found)
    who = row.part if row.other == second and row.part != first else f"{row.part} – {row.other}"
    if len(plan.row_values) == 1:
        return who
    answer = row_name(plan, row.value)
    return answer if row.part == first else f"{answer}, {who}"


def difference_sentence(plan: Plan, found: Differences, row: Difference) -> str:
    """One difference with what it means: "+2.1 points, 95% 0.4 … 3.8"."""
    level, of = found.level, row.part if found.now is None else f"{row.part}, {found.now}"
    first, second, difference, ends = difference_cells(plan, row)
    if difference == "–":
        return f"{row.part} and {row.other} cannot be compared: the reports say nothing about one of them."
    what = f"The share of “{row_name(plan, row.value)}”" if plan.task.counts_people else "The mean"
    points = " points" if plan.task.counts_people else ""
    said = f"{what} is {first} ({of}) against {second} ({row.other}): "
    said += f"{difference}{points}, {level * 100:g}% {ends}. "
    if row.significant:
        more = "higher" if row.difference > 0 else "lower"
        return f"{said}It is {more}: chance alone would rarely make such a difference ({probability(row.p_value)})."
    chance = f"Chance alone could make such a difference ({probability(row.p_value)})"
    return f"{said}{chance}: it is not clear which is higher."


def quantile_name(q: float) -> str:
    """How a quantile is called."""
    return "median" if q == 0.5 else f"{q * 100:g}%"


def quantile_headers(level: float) -> tuple[str, ...]:
    """The columns of `quantile_cells` but for the first."""
    return "quantile", "value", interval_header(level)


def quantile_cells(found: Sequence[Quantile]) -> list[tuple[str, ...]]:
    """For a table: whose quantile it is, which, and the number with its interval."""
    return [(q.part or "all people", quantile_name(q.q), str(q.value), f"{q.low} … {q.high}") for q in found]


def quantile_difference_headers(level: float) -> tuple[str, ...]:
    """The columns of `quantile_difference_cells`."""
    return "", "quantile", "first", "second", "difference", interval_header(level), ""


def quantile_difference_cells(found: Sequence[QuantileDifference]) -> list[tuple[str, ...]]:
    """For a table: what is compared, the quantile, both numbers, the difference, its interval and a word."""
    return [
        (
            f"{row.part} – {row.other}", quantile_name(row.q), str(row.first), str(row.second),
            f"{row.difference:+g}".replace("-", "−"), f"{row.low:g} … {row.high:g}".replace("-", "−"), verdict(row),
        )
        for row in found
    ]  # fmt: skip


def verdict(row: Difference | QuantileDifference) -> str:
    """A word for a table."""
    if not math.isfinite(row.difference):
        return "–"
    if not row.significant:
        return "not clear"
    return "higher" if row.difference > 0 else "lower"


def surest(found: Differences, most: int) -> list[Difference]:
    """The `most` rows with the largest |difference| / standard error, in their order."""

    def doubt(row: Difference) -> float:
        return -abs(row.difference) / row.standard_error if row.standard_error > 0 else 0.0

    kept = sorted(range(len(found.rows)), key=lambda place: doubt(found.rows[place]))[:most]
    return [found.rows[place] for place in sorted(kept)]


def difference_notes(plan: Plan, found: Differences) -> list[str]:
    """What has to be known to read differences."""
    apart = "They do not use the prior, so a difference need not be in the middle."
    notes = [f"{whom(found.scope, found.simultaneous)} {apart}"]
    if found.design_effect > 1.005:
        notes.append(f"Weighted: unequal weights raise variances by up to a factor of {found.design_effect:.2f}.")
    known = [row for row in found.rows if math.isfinite(row.difference)]
    significant = sum(row.significant for row in known)
    if len(known) > 1:
        verb, every = "is" if significant == 1 else "are", round(1 / (1 - found.level))
        if found.simultaneous or not significant:
            notes.append(f"{significant:,} of {len(known):,} differences {verb} more than chance would make.")
        else:
            notes.append(
                f"{significant:,} of {len(known):,} intervals leave out zero. "
                f"About one of {every} does by chance alone."
            )
    few = sorted({row.part for row in found.rows if row.few})
    if few:
        names = ", ".join(few[:5]) + (", …" if len(few) > 5 else "")
        notes.append(f"Fewer than {FEW} reports on a side (of equal weight), so take the intervals with care: {names}.")
    return notes


def signed(number: float, error: float) -> str:
    """A number with its sign.

    >>> signed(2.13, 0.9), signed(-0.5, 0.9)
    ('+2.13', '−0.50')
    """
    text = digits(abs(number), error)
    return text if not text.strip("0.,") else ("+" if number > 0 else "−") + text


def interval(low: float, high: float, error: float) -> str:
    """Both ends; ∞ where there is none."""
    return " … ".join(digits(end, error) if math.isfinite(end) else "−∞" if end < 0 else "∞" for end in (low, high))


# -- regressions ----------------------------------------------------------------------------------------------------


def coefficient_cells(fit: Regression, row: Coefficient) -> tuple[str, ...]:
    """β with its interval, e^β with its interval where it is one of odds, and the p-value."""
    margin = (row.high - row.low) / 2
    cells = [digits(row.estimate, margin), interval(row.low, row.high, margin)]
    if fit.model != "linear":
        ratio, low, high = row.odds_ratio
        cells += [f"{ratio:.3g}", f"{low:.3g} … {'∞' if math.isinf(high) else f'{high:.3g}'}"]
    return *cells, probability(row.p_value).removeprefix("p ").removeprefix("= ")


def regression_notes(fit: Regression) -> list[str]:
    """What has to be known about coefficients from few people who hold the answer."""
    notes = []
    if fit.corrected:
        notes.append(
            "Among some of these people the estimated share is zero or below, or one or above. Coefficients have "
            "Firth's correction, which keeps them finite; their intervals hold all the same."
        )
    if any(math.isinf(row.high - row.low) for row in fit.coefficients):
        notes.append("An interval without an end: the share may be zero, or one, for all that the reports show.")
    return notes


def covariate_notes(levels: Sequence[CovariateLevels]) -> list[str]:
    """What a report reveals to an observer who knows these columns."""
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
    return [said + f"For any belief, odds move by at most e^{_up(worst)}. Decided in exact integers."]


def _up(level: float | None) -> str:
    """Rounded up, as levels are."""
    return "∞" if level is None or math.isinf(level) else f"{math.ceil(level * 1000) / 1000:.3f}"
