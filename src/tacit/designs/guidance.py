"""Choosing ε and the number of respondents: possible beliefs, expected errors, and the power to detect a difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from tacit.designs.planning import PLAIN, Sampling, make_plan, with_ldp
from tacit.designs.prior_file import GroupPrior
from tacit.exact import Number, budget, exp_enclosure, float_above, rational
from tacit.mechanism import Belief, Notion, unbiased_variance
from tacit.plan import ErrorField, Plan
from tacit.prior import Hull, Prior, Value
from tacit.task import Task, prior_variance

#: Budgets that a guide compares, and beliefs that it follows.
BUDGETS = ("0.5", "1", "1.5", "2", "3")
BELIEFS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
#: A belief that starts below the first and can end at the second is no secret any more.
UNSURE, NEARLY_SURE = Fraction(1, 2), Fraction(9, 10)
#: The price of LDP at the LDP level that the plan reaches, searched for up to this many values.
AT_EQUAL_LEVEL, _MOST_COMPARED = "ldp at equal level", 32
#: A difference is seen where a two-sided test at this level rejects.
ALPHA = 0.05
#: Total variation distances by which priors may be off, and the number of different groups that are looked at.
PRIOR_OFF, _MOST_GROUPS = ("0.03", "0.1"), 20
#: Of a histogram the variance of this many values is looked at.
_MOST_VALUES = 200


def highest_belief(prior: Number, epsilon: Number, notion: Notion = "lip") -> Fraction:
    """What one report can raise a belief p to at most, rounded up.

    Under LIP both p and 1 − p change by at most a factor e^ε: min(e^ε·p, 1 − e^{−ε}(1 − p)). Under LDP the odds do.

    >>> [round(float(highest_belief(p, 1)), 3) for p in (0.01, 0.1, 0.5)]
    [0.027, 0.272, 0.816]
    """
    p, factor = rational(prior, "prior"), exp_enclosure(budget(epsilon))[1]
    if not 0 <= p <= 1:
        raise ValueError(f"A belief lies between 0 and 1. Got {float(p):g}.")
    if notion == "ldp":
        return factor * p / (1 - p + factor * p)
    return min(factor * p, 1 - (1 - p) / factor)


def nearly_sure(plan: Plan) -> tuple[str | None, Belief] | None:
    """The group and the belief that starts at no more than 50% and can reach 90%; None where there is none.

    Of each group it looks at the most frequent such value, of a survey at the values that are asked for.
    """
    worst: tuple[str | None, Belief] | None = None
    for group in plan.groups:
        value = _unsure_value(group.prior, plan.task.wanted)
        if value is not None:
            moved = group.mechanism.belief(value)
            if moved.high >= NEARLY_SURE and (worst is None or moved.high > worst[1].high):
                worst = group.name, moved
    return worst


def _unsure_value(prior: Prior, wanted: Sequence[Value]) -> Value | None:
    chances = dict(zip(prior.values, prior.weights, strict=True))
    found = [value for value, weight in chances.items() if 0 < Fraction(weight, prior.total) <= UNSURE]
    asked = [value for value in found if value in wanted] or found
    return max(asked, key=lambda value: chances[value], default=None)


@dataclass(frozen=True)
class Detection:
    """How many respondents show a difference, with the stated power: in each of two waves, and in each of two groups,
    the pair that needs most; None where there are no two.
    """

    difference: float
    power: float
    per_wave: int
    per_group: int | None
    groups: tuple[str, str] | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"alpha": ALPHA, "groups": None if self.groups is None else list(self.groups)}


def read_difference(text: str, task: Task) -> float:
    """A difference as people write it: 2pp, 2% or 0.02 of a share, a number of a mean.

    >>> from tacit import Sum, Survey
    >>> read_difference("2pp", Survey("yes")), read_difference("0.02", Survey("yes")), read_difference("5", Sum())
    (0.02, 0.02, 5.0)
    """
    number = text.strip().removesuffix("pp").removesuffix("%").strip()
    try:
        difference = float(rational(number, "detect")) / (1 if number == text.strip() else 100)
    except ValueError:
        raise ValueError(f"The difference to detect must be a number, or points as in 2pp. Got '{text}'.") from None
    if task.counts_people and not 0 < difference <= 1:
        raise ValueError(f"A share changes by at most 1, which is 100pp. Got '{text}'; 2 points are written 2pp.")
    return difference


def respondents_to_detect(
    plan: Plan, shares: Sequence[Fraction], difference: float, power: float = 0.8, sampling: Sampling = PLAIN
) -> Detection:
    """n = D (z_{1−α/2} + z_power)²·(V₁ + V₂)/Δ² in each of two waves, or of two groups, of different people.

    Δ is a `difference` of two shares or means, to be seen with the probability `power`. V is the variance per
    respondent of the unbiased estimate at the prior of the `plan`, sampling included: of a share for surveys and
    histograms (of the value that needs most), of the mean for sums. Of a population of M people V/n becomes V/n − S/M,
    S the variance of the answers; `sampling` states M and the design effect D. `shares` are the groups' parts of a
    wave.

    >>> from tacit import Survey
    >>> plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    >>> respondents_to_detect(plan, [Fraction(1)], 0.02).per_wave
    23125
    """
    from scipy.special import ndtri

    if not 0 < difference < math.inf:
        raise ValueError(f"The difference to detect must be positive. Got {difference:g}.")
    if not 0 < power < 1:
        raise ValueError(f"The power must lie between 0 and 1. Got {power:g}.")
    parts = [_variances(plan, place) for place in range(len(plan.groups))]
    variances = [whole for whole, _ in parts]
    if not all(map(math.isfinite, variances)):
        raise ValueError("This plan's reports are read with the prior only, so differences from it are not seen.")
    size = math.inf if sampling.population_size is None else sampling.population_size
    allowed = difference**2 / float(ndtri(1 - ALPHA / 2) + ndtri(power)) ** 2 / sampling.design_effect
    mean, spread = (sum(float(share) * each[k] for share, each in zip(shares, parts, strict=True)) for k in (0, 1))
    per_wave = max(2, math.ceil(2 * mean / (allowed + 2 * spread / size)))
    if len(variances) == 1:
        return Detection(difference, power, per_wave, None, None)
    second, first = sorted(range(len(variances)), key=variances.__getitem__)[-2:]
    known = sum(parts[place][1] / (size * float(shares[place])) for place in (first, second))
    per_group = max(2, math.ceil((variances[first] + variances[second]) / (allowed + known)))
    names = str(plan.groups[first].name), str(plan.groups[second].name)
    return Detection(difference, power, per_wave, per_group, names)


def _variances(plan: Plan, place: int) -> tuple[float, float]:
    """The variance of the row that needs most, and the part of it that is due to sampling; 0 where it is unknown."""
    group, task = plan.groups[place], plan.task
    if task.takes_weights:
        raise ValueError("Differences are those of shares and means; a weighted sum is neither.")
    rows = task.widest(group.prior, _MOST_VALUES)
    whole, row = max(((unbiased_variance(group.mechanism, row), row) for row in rows), key=lambda pair: pair[0])
    return whole, 0.0 if plan.between else prior_variance(group.prior, row)


@dataclass(frozen=True)
class Choice:
    """One budget of a guide: what beliefs of 1%, 10% and 50% become at most, the expected error of the total, and,
    where a difference was named, who shows it.
    """

    epsilon: Fraction
    beliefs: tuple[Fraction, ...]
    expected_rmse: float
    nearly_sure: tuple[str | None, Belief] | None
    detection: Detection | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "epsilon": float(self.epsilon),
            "factor": float_above(exp_enclosure(self.epsilon)[1]),
            "beliefs": {str(float(p)): float_above(high) for p, high in zip(BELIEFS, self.beliefs, strict=True)},
            "expected_rmse": self.expected_rmse,
            "reaches_90": self.nearly_sure is not None,
            "detect": None if self.detection is None else self.detection.to_dict(),
        }


def guide(
    priors: Sequence[GroupPrior],
    task: Task,
    respondents: int,
    epsilons: Sequence[Number] | None = None,
    *,
    detect: float | None = None,
    power: float = 0.8,
    sampling: Sampling = PLAIN,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> list[Choice]:
    """What several budgets, `epsilons`, promise, beside what they cost with this many `respondents`.

    Without `epsilons` they are 0.5, 1, 1.5, 2 and 3, as far as they lie below an `ldp_cap`, or half the cap. `detect`
    is a difference between two waves or groups to be seen with the probability `power`; `sampling` states the
    population and the design effect; `progress` is called with budgets done and budgets in all. `priors`, `task` and
    the `options` are those of `make_plan`.

    >>> from tacit import Survey
    >>> prior = GroupPrior(name=None, prior=Prior.of({"yes": 0.2, "no": 0.8}))
    >>> [float(choice.epsilon) for choice in guide([prior], Survey("yes"), 1000, ldp_cap=1.2)]
    [0.5, 1.0]
    """
    if any(each.epsilon is not None for each in priors):
        raise ValueError("The groups state their own budgets, so there is none to choose. Drop the 'epsilon' column.")
    shares = [each.share for each in priors]
    notion: Notion = "ldp" if options.get("notion") == "ldp" else "lip"
    if epsilons is None:
        cap = budget(options["ldp_cap"], "ldp_cap") if options.get("ldp_cap") is not None else None
        # A cap on the LDP level lies above each budget.
        epsilons = BUDGETS if cap is None else [each for each in BUDGETS if Fraction(each) < cap] or [cap / 2]
    made = []
    for done, epsilon in enumerate(epsilons):
        plan = make_plan(priors, task, epsilon, **options)
        beliefs = tuple(highest_belief(p, epsilon, notion) for p in BELIEFS)
        found = None if detect is None else respondents_to_detect(plan, shares, detect, power, sampling)
        error = sampling.error(plan, shares, respondents)
        made.append(Choice(budget(epsilon), beliefs, error, nearly_sure(plan), found))
        if progress is not None:
            progress(done + 1, len(epsilons))
    return made


@dataclass(frozen=True)
class Costs:
    """The expected errors of a plan's total, and how many respondents other promises would need instead.

    `expected_rmse` is for the population that the respondents stand for, `for_participants` for themselves,
    `without_reports` that of guessing from the prior. `price` has the expected error by promise: "exact prior", "this
    plan", "ldp" at the same ε and "ldp at equal level" at the LDP level of this plan, as far as they are known.
    `respondents_needed` says how many respondents each needs for this plan's precision, relative to it: the squared
    ratio of the errors for a large population.
    `ldp_level` is the largest of all groups; `level_if_prior_off` the LIP level if priors are off by a total variation
    of 0.03 and of 0.1, None for plans of sets or LDP.
    """

    respondents: int
    expected_rmse: float
    for_participants: float
    without_reports: float
    price: Mapping[str, float]
    respondents_needed: Mapping[str, float | None]
    ldp_level: float
    level_if_prior_off: Mapping[str, float] | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "price": [
                {"promise": name, "expected_rmse": error, "respondents_needed": self.respondents_needed[name]}
                for name, error in self.price.items()
            ],
            "ldp_level": self.ldp_level,
            "level_if_prior_off": self.level_if_prior_off,
            "respondents": self.respondents,
            "expected_rmse": self.expected_rmse,
            "expected_rmse_participants": self.for_participants,
            "rmse_without_reports": self.without_reports,
        }


def costs(
    plan: Plan, shares: Sequence[Fraction], respondents: int, exact: Plan | None = None, sampling: Sampling = PLAIN
) -> Costs:
    """What a `plan` costs: expected errors for this many `respondents`, whose parts in the groups are `shares`.

    `exact` is the plan for exactly these priors, where this one is for sets of them. The error of LDP is there if the
    plan's certificates have it (`with_ldp`). `sampling` states the size of the population, and the design effect.

    >>> from tacit import Survey
    >>> plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    >>> found = costs(plan, [Fraction(1)], 1000)
    >>> round(found.expected_rmse, 1), round(found.without_reports, 1), list(found.price)
    (24.3, 12.6, ['this plan'])
    """
    stated = [None if group.certificate is None else group.certificate.ldp_aimed for group in plan.groups]
    known: dict[str, tuple[Plan, ErrorField]] = {} if exact is None else {"exact prior": (exact, "aimed")}
    known["this plan"] = plan, "aimed"
    if None not in stated:
        known["ldp"] = plan, "ldp_aimed"
        if len(plan.values) <= _MOST_COMPARED and all(math.isfinite(group.levels["ldp"]) for group in plan.groups):
            known[AT_EQUAL_LEVEL] = with_ldp(plan, own_level=True), "ldp_aimed"
    plain = {name: each.expected_rmse(shares, respondents, field) for name, (each, field) in known.items()}
    ours = plain["this plan"]
    price = {name: sampling.error(each, shares, respondents, field) for name, (each, field) in known.items()}
    return Costs(
        respondents=respondents,
        expected_rmse=price["this plan"],
        for_participants=sampling.error(plan, shares, respondents, "aimed_for_participants"),
        without_reports=plan.expected_rmse(shares, respondents, "prior_variance"),
        price=price,
        respondents_needed={name: (error / ours) ** 2 if ours else None for name, error in plain.items()},
        ldp_level=max(group.levels["ldp"] for group in plan.groups),
        level_if_prior_off=_levels_off(plan),
    )


def _levels_off(plan: Plan) -> dict[str, float] | None:
    groups = [group for group in plan.groups if group.prior_set is None and group.notion == "lip"]
    if len(groups) < len(plan.groups):
        return None
    different = list({(group.prior, group.epsilon): group for group in groups}.values())[:_MOST_GROUPS]
    return {off: max(group.levels_within(off) for group in different) for off in PRIOR_OFF}


@dataclass(frozen=True)
class OtherBelief:
    """The LIP level of a group's mechanism for an observer whose belief is not the plan's prior.

    `exact` says whether the level is reached; else it is an upper bound. `moved` is the belief that moves most, in
    words, where it is known.
    """

    group: str | None
    level: float
    exact: bool
    moved: str | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"group": self.group, "level": self.level, "exact": self.exact, "sentence": self.moved}


def other_beliefs(plan: Plan, beliefs: Mapping[str | None, Prior]) -> list[OtherBelief]:
    """What an observer whose `beliefs` (the key None for all other groups) are not the priors of a `plan` can learn,
    group by group.

    Exact where the mechanism can be audited under another prior, else bounded by the hull of both priors.

    >>> from tacit import Survey
    >>> plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    >>> [round(each.level, 2) for each in other_beliefs(plan, {None: Prior.of({"yes": 0.1, "no": 0.9})})]
    [1.24]
    """
    found: list[OtherBelief] = []
    for group in plan.groups:
        if group.name not in beliefs:
            continue
        other = beliefs[group.name]
        try:
            audited = group.mechanism.under(other).audit()
            found.append(OtherBelief(group.name, audited.lip.epsilon, True, str(audited.witness)))
        except ValueError:
            # A value with prior zero in the plan is taken to be impossible, so beliefs in it are left out.
            sides = group.mechanism.set_levels(Hull(group.prior, [other]))
            found.append(OtherBelief(group.name, max(side.epsilon for side in sides), False, None))
    return found
