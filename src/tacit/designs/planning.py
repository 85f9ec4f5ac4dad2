"""From priors to a plan: design every group, and find the budget that a target error needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from tacit.designs._design import Method, Search, design, one_thread
from tacit.designs._methods import FEW_VALUES, Design, Promise, searchable
from tacit.designs._program.lifts import LiftSet
from tacit.designs.knots import Knots, best_knots, places_of, readable, rounded_to
from tacit.designs.prior_file import GroupPrior
from tacit.exact import Number, budget, rational
from tacit.plan import Aim, ErrorField, Group, Plan, arm_name
from tacit.prior import Ball, Box, Hull, Prior, PriorSet, Value, from_records
from tacit.task import Survey, Task

#: The planner finds the smallest budget to this many decimals.
BUDGET_STEP = Fraction(1, 1000)
#: Budgets above this leave nothing to protect; a target that needs more is out of reach.
LARGEST_BUDGET = Fraction(10)
#: The best LDP channel is searched for comparison up to this many values, of a histogram and of any other task.
HISTOGRAM_LIMIT, COMPARISON_LIMIT = 60, 1200
#: One such search takes no longer, and only this many different groups are compared.
COMPARISON_SECONDS, COMPARED_GROUPS = 5.0, 50
#: How sure the set of priors that records leave plausible holds the truth.
CONFIDENCE = "0.99"


def make_task(name: str, values: Sequence[str], priors: Sequence[GroupPrior]) -> Task:
    """The task of that name; a survey counts the `values`, written as in the prior file."""
    if name != "survey":
        if values:
            raise ValueError(f"A value goes with the task survey, not with {name}. Leave it out.")
        return Task.of(name)
    if not values:
        raise ValueError("A survey needs a value: which answer is counted? Give it with --value.")
    wanted = tuple(dict.fromkeys(priors[0].prior.value_of(value) for value in values))
    return Survey(wanted[0]) if len(wanted) == 1 else Survey(wanted)


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """How wrong the priors of a plan may be; one of these, for all groups.

    `error` is a total variation distance; `records` the number of past records a prior rests on, None to take it from
    the counts of each group; with `candidates` every group's candidates and their mixtures are plausible.

    >>> from tacit import Prior
    >>> Uncertainty(error="0.03").around(GroupPrior(name=None, prior=Prior.of({"yes": 0.1, "no": 0.9}))).to_dict()
    {'kind': 'ball', 'radius': '3/100'}
    """

    error: Number | None = None
    records: int | None = None
    confidence: Number = CONFIDENCE
    candidates: bool = False

    def around(self, each: GroupPrior, between: bool = False) -> PriorSet:
        """The set around one group's prior; `between` says that its values are knots that answers are rounded to."""
        if self.error is not None:
            return Ball(each.prior, self.error)
        if self.candidates:
            if not each.candidates:
                raise ValueError(f"There are no candidates for group {each.name!r}.")
            return Hull(each.prior, each.candidates)
        records = self.records if self.records is not None else each.records
        if records is None or records < 1:
            whose = "" if each.name is None else f" of group {each.name!r}"
            raise ValueError(
                f"It is not known how many records the prior{whose} rests on: give counts, or --prior-records."
            )
        if between:
            return _knots_box(each.prior, each.observed or each.prior, records, self.confidence)
        return from_records(each.prior, records, self.confidence, each.observed)


def _knots_box(prior: Prior, observed: Prior, records: int, confidence: Number) -> Box:
    """Ranges of the knots' probabilities that n past answers leave plausible.

    By Dvoretzky, Kiefer, Wolfowitz and Massart the distribution function of the answers is within
    D = √(ln(2/(1 − confidence))/2n) of the empirical one, everywhere at once. The weight of a knot rises from 0 to 1
    and falls again as an answer moves over it (at the ends it does only one of the two), so its mean is off by at most
    2D (or D). D is rounded up.
    """
    risk = 1 - rational(confidence, "confidence")
    if not 0 < risk < 1:
        raise ValueError(f"The 'confidence' must lie between 0 and 1. Got {confidence} instead.")
    off = rational(math.ceil(math.sqrt(math.log(2 / risk) / (2 * records)) * 1e6)) / 10**6
    low, high = [], []
    for place, (weight, seen) in enumerate(zip(prior.weights, observed.weights, strict=True)):
        share, found = Fraction(weight, prior.total), Fraction(seen, observed.total)
        far = off if place in (0, len(prior) - 1) else 2 * off
        low.append(max(Fraction(0), min(share, found - far)))
        high.append(min(Fraction(1), max(share, found + far)))
    return Box(prior, low, high)


def in_arms(groups: Sequence[GroupPrior], budgets: Sequence[Number]) -> list[GroupPrior]:
    """Every group once for each budget, with the same prior: chance decides who is asked with which.

    >>> from tacit import Prior
    >>> [(each.name, float(each.epsilon)) for each in in_arms([GroupPrior(name=None, prior=Prior.uniform(2))], [1, 2])]
    [('arm 1', 1.0), ('arm 2', 2.0)]
    """
    levels = [budget(each, "arms") for each in budgets]
    if len(levels) < 2 or len(set(levels)) < len(levels):
        raise ValueError("Arms need at least two different budgets, as in --arms 0.5,1.5.")
    if any(group.epsilon is not None for group in groups):
        raise ValueError("The groups state their own budgets. Drop the 'epsilon' column, or the arms.")
    return [
        replace(group, name=arm_name(group.name, number), epsilon=level, share=group.share / len(levels))
        for group in groups
        for number, level in enumerate(levels, start=1)
    ]


#: Anything that `Prior.of` takes by name: a prior, or a mapping of values to probabilities or counts.
OnePrior = Prior | Mapping[Value, Number]
#: The priors of a plan: one for all people, one for each group by name, or those of a prior file.
Priors = OnePrior | Mapping[str, OnePrior] | Sequence[GroupPrior]


def make_plan(
    priors: Priors,
    task: Task | str,
    epsilon: Number | None,
    *,
    notion: Literal["lip", "ldp"] = "lip",
    ldp_cap: Number | None = None,
    aim: Aim = "unbiased",
    search: Search | None = None,
    question: str | None = None,
    between: tuple[Number, Number] | None = None,
    uncertainty: Uncertainty | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Design a mechanism for each group and put them into a plan. Groups with the same prior and budget share one.

    Every group has a promise of its own, around its prior: a group's own budget comes before `epsilon`. `notion` and
    `ldp_cap` are those of `Promise`, `task`, `aim` and `search` those of `design`; the `question` is kept in the plan.

    Args:
        priors: one for all people, one for each group by name, or the result of `read_priors`. Instead of a
            `Prior`, a mapping of values to probabilities or counts.
        between: answers are any numbers from the first to the second; the values of the priors are past answers.
        uncertainty: how wrong the priors may be; the promise then holds for all priors that this leaves plausible.
        progress: is called with groups done and groups in all.

    Raises:
        PrivacyError: no method gave a mechanism that passes the exact audit.
        ValueError: a group has no budget, or the priors do not fit the task.

    >>> plan = make_plan({"north": {"yes": 0.1, "no": 0.9}, "south": {"yes": 0.3, "no": 0.7}}, Survey("yes"), epsilon=1)
    >>> [group.name for group in plan.groups]
    ['north', 'south']
    """
    task, stated = Task.of(task), group_priors(priors)
    if between is not None:
        stated = on_knots(stated, task, between, epsilon)
    different = len({(each.prior, _budget_of(each, epsilon)) for each in stated})
    asked = replace(Search() if search is None else search, groups=len(stated), different_groups=different)
    known: dict[tuple[Prior, Fraction, PriorSet | None], Design] = {}
    groups = []
    for done, each in enumerate(stated):
        level = _budget_of(each, epsilon)
        prior_set = each.prior_set if uncertainty is None else uncertainty.around(each, between is not None)
        promise = Promise(level, notion, ldp_cap=ldp_cap, prior_set=prior_set)
        key = each.prior, level, prior_set
        if key not in known:
            known[key] = uninterrupted_design(each.prior, task, promise, aim=aim, search=asked)
        weight, offset = (each.weight, each.offset) if task.takes_weights else (Fraction(1), Fraction(0))
        groups.append(Group(
            name=each.name, epsilon=level, mechanism=known[key].mechanism, notion=notion, ldp_cap=promise.ldp_cap,
            prior_set=prior_set, weight=weight, offset=offset, certificate=known[key].certificate,
        ))  # fmt: skip
        if progress is not None:
            progress(done + 1, len(stated))
    recoding = stated[0].recoding
    if recoding is not None and between is not None:
        recoding = recoding.without_bins([recoding.answers[0].column])
    return Plan.of_groups(task, groups, question, between=between is not None, recoding=recoding)


def _budget_of(each: GroupPrior, epsilon: Number | None) -> Fraction:
    if each.epsilon is not None:
        return each.epsilon
    if epsilon is None:
        raise ValueError(f"Group {each.name!r} needs a budget: give 'epsilon', or a column of that name.")
    return budget(epsilon)


def on_knots(
    stated: Sequence[GroupPrior], task: Task, between: tuple[Number, Number], epsilon: Number | None
) -> list[GroupPrior]:
    """The same groups over a few knots that answers between the ends are rounded to, the best for all together."""
    if not task.adds_numbers:
        raise ValueError("Answers between two ends are added up: the task must be a sum or a weighted sum.")
    low, high = (rational(end, "between") for end in between)
    if not low < high:
        raise ValueError(f"The range must go from a lower to a higher number. Got {float(low):g} to {float(high):g}.")
    everybody: dict[Value, Fraction] = {}
    for each in stated:
        for value, weight in zip(each.prior.values, each.prior.weights, strict=True):
            part = each.share * Fraction(weight, each.prior.total)
            everybody[value] = everybody.get(value, Fraction(0)) + part
    from tacit.designs._program.unbiased import solve_unbiased

    lifts = LiftSet.lip(float(max(_budget_of(each, epsilon) for each in stated)))

    def variance_of(found: Knots) -> float:
        p, g = found.prior.probabilities, found.prior.numbers[:, None]
        p, within = searchable(p, lifts)
        return solve_unbiased(p, g, within, gap=1e-3, time_limit=10.0).value

    def shown(knot: Fraction) -> Fraction:
        return (readable(low + knot * (high - low), low, high) - low) / (high - low)

    with one_thread():
        past = Prior.of(everybody).on_support()
        found, _ = best_knots(past, places_of(past.values, low, high), variance_of, shown)
    knots = [low + knot * (high - low) for knot in found.numbers]

    def on_them(prior: Prior) -> Prior:
        return rounded_to(places_of(prior.values, Fraction(0), Fraction(1)), prior, knots).prior

    def nowhere_zero(prior: Prior) -> Prior:
        # Answers can lie anywhere in the range, so every knot is possible.
        return Prior(prior.values, [weight or Fraction(prior.total, 1000) for weight in prior.weights])

    return [
        replace(
            each,
            prior=nowhere_zero(on_them(each.prior)),
            candidates=tuple(map(on_them, each.candidates)),
            observed=on_them(each.observed or each.prior),
        )
        for each in stated
    ]


def group_priors(priors: Priors) -> Sequence[GroupPrior]:
    """The same for every way to give priors."""
    if isinstance(priors, Prior):
        return [GroupPrior(name=None, prior=priors)]
    if isinstance(priors, Mapping):
        named: dict[str, Prior] = {}
        for name, prior in priors.items():
            if not isinstance(prior, Prior | Mapping):
                # Weights of values, not priors of groups.
                return [GroupPrior(name=None, prior=Prior.of(priors))]  # type: ignore[arg-type]
            named[str(name)] = Prior.of(prior)
        share = Fraction(1, max(1, len(named)))
        return [GroupPrior(name=name, prior=prior, share=share) for name, prior in named.items()]
    return priors


@dataclass(frozen=True)
class Sampling:
    """How respondents are drawn: from a population of `population_size` people, or of one so large that its size makes
    no difference, and by a design whose weights or clusters raise the variance by the factor `design_effect`.

    >>> Sampling(population_size=100).part(50)
    0.5
    """

    population_size: float | None = None
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        if self.population_size is not None and not self.population_size >= 1:
            raise ValueError(f"A population has at least one person. Got {self.population_size:g} instead.")
        if not 0 < self.design_effect < math.inf:
            raise ValueError(f"A design effect is a positive factor. Got {self.design_effect:g} instead.")

    def part(self, respondents: int) -> float:
        """The part of the population that answers."""
        if self.population_size is None:
            return 0.0
        if respondents > self.population_size:
            raise ValueError(f"{respondents:,} respondents are more than the population of {self.population_size:,g}.")
        return respondents / self.population_size

    def error(self, plan: Plan, shares: Sequence[Fraction], respondents: int, field: ErrorField = "aimed") -> float:
        """√(D (e² − f s²)): e the expected error of the total, f the part that answers, and s² the variance by sampling
        where f is 0.
        """
        square = plan.expected_rmse(shares, respondents, field) ** 2
        if field != "aimed_for_participants" and self.population_size is not None:
            whole = plan.expected_rmse(shares, respondents) ** 2
            alone = plan.expected_rmse(shares, respondents, "aimed_for_participants") ** 2
            square = max(square - self.part(respondents) * (whole - alone), 0.0)
        return math.sqrt(self.design_effect * square)


#: A simple random sample of a large population.
PLAIN = Sampling()


def smallest_budget(
    priors: Sequence[GroupPrior],
    task: Task,
    target_rmse: float,
    respondents: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    sampling: Sampling = PLAIN,
    **options: Any,
) -> Plan:
    """The plan with the smallest ε, to three decimals, whose expected error is at most the target.

    The error is that of the estimated total, so it grows with the number of respondents. Raises if even the largest
    budget misses the target.
    """
    if not target_rmse > 0:
        raise ValueError(f"The target error must be positive. Got {target_rmse:g}.")
    if any(each.epsilon is not None for each in priors):
        raise ValueError("The groups state their own budgets, so there is none to find. Drop the 'epsilon' column.")
    shares = [each.share for each in priors]

    def attempt(steps: int) -> tuple[Plan, float]:
        plan = make_plan(priors, task, steps * BUDGET_STEP, **options)
        return plan, sampling.error(plan, shares, respondents)

    most = int(LARGEST_BUDGET / BUDGET_STEP)
    if options.get("ldp_cap") is not None:  # Caps are above budgets.
        most = max(1, min(most, math.ceil(budget(options["ldp_cap"], "ldp_cap") / BUDGET_STEP) - 1))
    best, error = attempt(most)
    if error > target_rmse:
        raise ValueError(
            f"A root mean squared error of {target_rmse:g} is out of reach: ε = {float(most * BUDGET_STEP):g} still "
            f"leaves {error:.4g} with {respondents:,} respondents. Accept a larger error"
            f"{'' if options.get('ldp_cap') is None else ', or a larger cap'}."
        )
    low, high = 0, most
    rounds = most.bit_length()
    for step in range(rounds):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        plan, error = attempt(middle)
        low, high, best = (low, middle, plan) if error <= target_rmse else (middle, high, best)
        if progress is not None:
            progress(step + 1, rounds)
    return best


def with_ldp(plan: Plan, *, own_level: bool = False) -> Plan:
    """The same plan with what the same budget buys under LDP in its certificates: the best LDP channel found.

    With `own_level` the budget of LDP is the LDP level that the group's mechanism reaches, not its ε.

    Left None for large domains, where the search would take longer than the design it is compared with, for groups that
    promise LDP themselves, and beyond a limit of different groups.
    """
    known: dict[tuple[Prior, Fraction], Design | None] = {}
    groups = []
    for group in plan.groups:
        level = group.levels["ldp"] if own_level else math.inf
        # Rounded up, as levels are.
        key = group.prior, Fraction(math.ceil(level * 10_000), 10_000) if math.isfinite(level) else group.epsilon
        assert group.certificate is not None
        if key not in known and group.notion != "ldp" and len(known) < COMPARED_GROUPS:
            known[key] = ldp_comparison(group.prior, plan.task, key[1], group.certificate.aim)
        found = None if group.notion == "ldp" else known.get(key)
        if found is not None:
            group = replace(group, certificate=replace(group.certificate, ldp_aimed=found.certificate.aimed))
        groups.append(group)
    return plan.changed(groups=groups)


def ldp_comparison(prior: Prior, task: Task, epsilon: Fraction, aim: Aim) -> Design | None:
    """The best LDP channel found under the same prior, None for large domains with the aim "mmse"."""
    if aim == "mmse" and len(prior) > (HISTOGRAM_LIMIT if task.per_value else COMPARISON_LIMIT):
        return None
    methods: list[Method] = ["auto"]
    if aim == "unbiased" and (least := least_variance_method(prior, task)) != "auto":
        methods.append(least)
    searches = [Search(method=method, time_limit=COMPARISON_SECONDS) for method in methods]
    found = [uninterrupted_design(prior, task, Promise(epsilon, "ldp"), aim=aim, search=each) for each in searches]
    return min(found, key=lambda each: each.certificate.aimed)


def least_variance_method(prior: Prior, task: Task) -> Method:
    """The method of least unbiased variance: baselines and studies pay nothing for speed, which "auto" may."""
    large = task.per_value and len(prior.support) > FEW_VALUES
    return "many-values" if large else "auto"


def uninterrupted_design(
    prior: Prior, task: Task, promise: Promise | Number, *, aim: Aim = "unbiased", search: Search | None = None
) -> Design:
    """`design`, but a keyboard interrupt, at which `design` returns what it has, stops everything."""
    found = design(prior, task, promise, aim=aim, search=search)
    if found.certificate.status == "interrupted":
        raise KeyboardInterrupt
    return found
