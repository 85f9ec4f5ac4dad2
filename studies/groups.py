"""Priors by group, learned on one half of real people and used on the other: heart disease (BRFSS) and Adult."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studies.baselines import k_ary_response, subset_size, subset_support
from studies.drift import Arm, error_moments, mmse_arm, realised, unbiased_arm
from studies.figure import Figure, Options, Point, Version, noise
from studies.loaders import find, load_adult, load_heart
from tacit.designs import Promise, Search, design, optimal_binary
from tacit.designs.rules import theorem3
from tacit.exact import Floats, Integers
from tacit.mechanism import Channel, audit, mse
from tacit.prior import Prior, Value
from tacit.task import Histogram, Sum, Survey, Task

HEALTH: tuple[Value, ...] = ("Poor", "Fair", "Good", "Very good", "Excellent")
GROUP_LIP, COMMON_LIP = "LIP, prior by age and sex", "LIP, one common prior"
GROUP_LDP, COMMON_LDP = "LDP, read with the prior by age and sex", "LDP, read with one common prior"
FREE_LDP, GROUP_PUBLISHED = "LDP, read without a prior", "published, prior by age and sex"
NOTHING = "no data, the prior alone"
ADULT_LIP, ADULT_LDP, ADULT_K_ARY = "LIP", "best LDP found, read with the prior", "k-ary response, read with the prior"
TWO_POINT, SUBSET_FREE = "LDP on two points, read without the prior", "subset selection, read without the prior"
#: Random halves over which the realised error of the survey is averaged.
SPLITS = 200
OVER_SPLITS = f"heart disease, realised, mean over {SPLITS} splits"


@dataclass(frozen=True, eq=False)
class Crowd:
    """People by group and value: those the prior is learned on, and those who are asked."""

    values: tuple[Value, ...]
    learned: Integers
    held: Integers

    @property
    def priors(self) -> list[Prior]:
        """Per group, with one more person at every value, so that nobody's answer is impossible."""
        return [Prior(self.values, (row + 1).tolist()) for row in self.learned]

    @property
    def common(self) -> Prior:
        """One prior for everybody."""
        return Prior(self.values, (self.learned.sum(axis=0) + 1).tolist())


def halves(values: Sequence[Value], answers: Integers, groups: Integers, seed: int) -> Crowd:
    """Split people at random into a half to learn from and a half to ask; `answers` and `groups` are positions."""
    chosen = np.random.default_rng([seed, 2]).permutation(len(answers)) < len(answers) // 2
    size = (int(groups.max()) + 1, len(values))
    cell = groups * size[1] + answers
    learned, held = (np.bincount(cell[part], minlength=size[0] * size[1]).reshape(size) for part in (chosen, ~chosen))
    return Crowd(tuple(values), learned, held)


def brfss(options: Options) -> Figure:
    """Heart disease and general health, asked of one half of the survey with priors learned on the other."""
    heart = load_heart(find("heart", options))
    ages, age = np.unique(heart.age, return_inverse=True)
    sexes, sex = np.unique(heart.sex, return_inverse=True)
    group = age * len(sexes) + sex
    health = np.array([HEALTH.index(answer) for answer in heart.health.tolist()])
    ill = halves(("yes", "no"), 1 - heart.disease.astype(np.int64), group, options.seed)
    well = halves(HEALTH, health, group, options.seed)
    budgets = (1.0, 3.0) if options.small else (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
    points = _crowd_points(ill, Survey("yes"), "heart disease", budgets, options)
    points += _crowd_points(well, Histogram(), "general health", budgets, options)
    points += _split_points(ill, budgets, options, {(p.curve, p.x): p.level for p in points[: len(points) // 2]})
    asked = int(ill.held.sum())
    return Figure(
        "brfss",
        f"Heart disease and general health of {asked:,} people, priors from {int(ill.learned.sum()):,} others",
        "ε",
        "√(MSE/N)",
        tuple(points),
        _brfss_remark(points, budgets),
        log_y=True,
        panels=(*_panels("heart disease"), OVER_SPLITS, *_panels("general health")),
        notes=(
            f"{len(ages) * len(sexes)} groups by age and sex. Every level is the worst over the groups for an observer "
            "who knows age and sex. A channel made for one common prior does not keep ε against that observer.",
            "Expected: under the learned prior. Realised: these people, the randomization repeated. How far the "
            "learned prior is off is luck that all rounds share, so compare methods by the expected error and by the "
            f"mean over {SPLITS} splits into halves. Survey weights are not used.",
        ),
    )


def _panels(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}, {kind}" for name in names for kind in ("expected", "realised"))


def _crowd_points(crowd: Crowd, task: Task, panel: str, budgets: Sequence[float], options: Options) -> list[Point]:
    people = crowd.held.sum(axis=1)
    points = []
    for number, epsilon in enumerate(budgets):
        for place, (name, arm, error) in enumerate(_arms(crowd, task, epsilon)):
            version: Version = "published" if name == GROUP_PUBLISHED else "corrected"
            level = _worst_level(arm, crowd.priors)
            expected = math.sqrt(float(people @ np.array(error)) / people.sum())
            points.append(Point(f"{panel}, expected", name, version, epsilon, expected, level))
            measured = realised(arm, crowd.held, options.runs, [options.seed, number, place])
            points.append(measured.point(f"{panel}, realised", name, version, epsilon, level))
    return points


def _split_points(
    crowd: Crowd, budgets: Sequence[float], options: Options, levels: Mapping[tuple[str, float], float | None]
) -> list[Point]:
    """√(MSE/N) on the half that is asked, exact for each split and averaged over splits, from the closed forms.

    `levels` are those of the first split.
    """
    people = crowd.learned + crowd.held
    rng = np.random.default_rng([options.seed, 3])
    # A random half of everybody: how many of each kind of person (group and answer) it takes is hypergeometric.
    learned = rng.multivariate_hypergeometric(people.ravel(), int(crowd.learned.sum()), size=SPLITS)
    learned = learned.reshape(SPLITS, *people.shape)
    held = people - learned
    p = (learned[..., 0] + 1) / (learned.sum(axis=2) + 2)
    common = (learned[..., 0].sum(axis=1) + 1) / (learned.sum(axis=(1, 2)) + 2)
    shared = np.broadcast_to(common[:, None], p.shape)
    points = []
    for epsilon in budgets:
        for name, prior, notion in (
            (GROUP_LIP, p, "lip"), (COMMON_LIP, shared, "lip"), (GROUP_LDP, p, "ldp"), (COMMON_LDP, shared, "ldp"),
            (NOTHING, p, "none"),
        ):  # fmt: skip
            errors = _binary_errors(prior, held, epsilon, notion) / held.sum(axis=(1, 2))
            root, level = math.sqrt(float(errors.mean())), levels[name, epsilon]
            points.append(Point(OVER_SPLITS, name, "corrected", epsilon, root, level))
    return points


def _binary_errors(p: Floats, held: Integers, epsilon: float, notion: str) -> Floats:
    """The exact mean squared error per split of a yes/no survey read with the priors p[split, group]."""
    up, down = math.expm1(epsilon), -math.expm1(-epsilon)
    if notion == "ldp":
        e = math.exp(epsilon)
        yes_if_yes, yes_if_no = np.full_like(p, e / (e + 1)), np.full_like(p, 1 / (e + 1))
        share = p * yes_if_yes + (1 - p) * yes_if_no
        high, low = p * yes_if_yes / share, p * (1 - yes_if_yes) / (1 - share)
    else:
        # The highest and the lowest belief that the budget allows, and how often the first is reported.
        rise, fall = np.minimum(p * up, (1 - p) * down), np.minimum(p * down, (1 - p) * up)
        share, high, low = fall / (rise + fall), p + rise, p - fall
        yes_if_yes, yes_if_no = share * high / p, share * (1 - high) / (1 - p)
    if notion == "none":
        high = low = p
    chance = np.stack([yes_if_yes, yes_if_no], axis=2)
    bias = chance * high[..., None] + (1 - chance) * low[..., None] - np.array([1.0, 0.0])
    variance = chance * (1 - chance) * ((high - low) ** 2)[..., None]
    result: Floats = (held * bias).sum(axis=(1, 2)) ** 2 + (held * variance).sum(axis=(1, 2))
    return result


def _arms(crowd: Crowd, task: Task, epsilon: float) -> list[tuple[str, Arm, list[float]]]:
    """Each way to collect, with its expected error per respondent and group."""
    priors, shared = crowd.priors, [crowd.common] * len(crowd.priors)
    silent = [Channel.from_weights(prior, [[1]] * len(prior)) for prior in priors]
    # A channel for the common prior is one for every group; the same object is read once.
    made = {
        GROUP_LIP: ([_lip(prior, task, epsilon) for prior in priors], priors),
        COMMON_LIP: ([_lip(crowd.common, task, epsilon)] * len(priors), shared),
        GROUP_LDP: ([ldp_channel(prior, task, epsilon) for prior in priors], priors),
        COMMON_LDP: ([ldp_channel(crowd.common, task, epsilon)] * len(priors), shared),
        GROUP_PUBLISHED: ([theorem3(prior, epsilon, force=True) for prior in priors], priors),
        NOTHING: (silent, priors),
    }
    arms = []
    for name, (channels, read) in made.items():
        errors = [mse(q.under(prior), task) for q, prior in zip(channels, read, strict=True)]
        arms.append((name, mmse_arm(channels, read, task), errors))
    free = [k_ary_response(crowd.common, epsilon)] * len(priors)
    arm = unbiased_arm(free, shared, task)
    per_person = [error_moments(arm, row).square / max(1, int(row.sum())) for row in _one_group(crowd.learned)]
    return [*arms, (FREE_LDP, arm, per_person)]


def _one_group(counts: Integers) -> list[Integers]:
    """Each group's people alone, in an array of the same shape."""
    return [np.where(np.arange(len(counts))[:, None] == group, counts, 0) for group in range(len(counts))]


def _lip(prior: Prior, task: Task, epsilon: float) -> Channel:
    return optimal_binary(prior, epsilon) if len(prior) == 2 else design(prior, task, epsilon, aim="mmse").channel


def ldp_channel(prior: Prior, task: Task, epsilon: float) -> Channel:
    """The best ε-LDP channel found under the prior: the search's, or k-ary response where that is better."""
    k_ary = k_ary_response(prior, epsilon)
    if len(prior) == 2:
        return k_ary
    found = design(prior, task, Promise(epsilon, notion="ldp"), aim="mmse", search=Search(gap=0.02)).channel
    return min(found, k_ary, key=lambda channel: mse(channel, task))


def _worst_level(arm: Arm, priors: Sequence[Prior]) -> float:
    """The LIP level against an observer who knows the group."""
    return max(audit(q.under(prior)).lip.epsilon for q, prior in zip(arm.channels, priors, strict=True))


def _brfss_remark(points: Sequence[Point], budgets: Sequence[float]) -> str:
    at = 1.0 if 1.0 in budgets else budgets[0]
    found = {(p.panel, p.curve): p for p in points if p.x == at}
    sentences = []
    for panel in ("heart disease", "general health"):
        lip, common, ldp = (found[f"{panel}, expected", name] for name in (GROUP_LIP, COMMON_LIP, GROUP_LDP))
        sentences.append(
            f"{panel.capitalize()} at ε = {at:g}: expected √(MSE/N) is {lip.y:.4f} with priors by age and sex, "
            f"{common.y:.4f} with one common prior (which reaches ε = {common.level:.2f} for some group), {ldp.y:.4f} "
            "for LDP."
        )
    return " ".join(sentences)


def adult(options: Options) -> Figure:
    """Hours worked per week (their sum) and education (a histogram) of one half of Adult, the prior from the other."""
    people = load_adult(find("adult", options))
    everybody = np.zeros(len(people.hours), dtype=np.int64)
    hours: tuple[Value, ...] = tuple(range(1, 100))
    degrees, degree = np.unique(people.education, return_inverse=True)
    worked = halves(hours, people.hours - 1, everybody, options.seed)
    learned = halves(tuple(degrees.tolist()), degree.astype(np.int64), everybody, options.seed)
    budgets = (1.0,) if options.small else (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
    points = _adult_points(worked, Sum(), "hours per week, sum", budgets, options)
    points += _adult_points(learned, Histogram(), "education, histogram", budgets, options)
    found = {(p.panel, p.curve): p.y for p in points if p.x == 1.0}
    hour, school = "hours per week, sum, expected", "education, histogram, expected"
    return Figure(
        "adult",
        f"Hours and education of {worked.held.sum():,} people, the prior from {worked.learned.sum():,} others",
        "ε",
        "√(MSE/N)",
        tuple(points),
        f"At ε = 1 the expected error per person is {found[hour, ADULT_LIP]:.2f} hours with LIP, "
        f"{found[hour, ADULT_LDP]:.2f} with the best LDP channel found, {found[hour, NOTHING]:.2f} with no data; for "
        f"education {found[school, ADULT_LIP]:.3f}, {found[school, ADULT_LDP]:.3f}, {found[school, NOTHING]:.3f}.",
        log_y=True,
        panels=_panels("hours per week, sum", "education, histogram"),
        notes=(
            "One more person is added at every hour from 1 to 99 and every degree, so that nobody's answer is "
            "impossible under the learned prior.",
        ),
    )


def _adult_points(crowd: Crowd, task: Task, panel: str, budgets: Sequence[float], options: Options) -> list[Point]:
    prior, points = crowd.common, []
    for number, epsilon in enumerate(budgets):
        made: dict[str, tuple[Channel, Version]] = {
            ADULT_LIP: (design(prior, task, epsilon, aim="mmse").channel, "corrected"),
            ADULT_LDP: (ldp_channel(prior, task, epsilon), "corrected"),
            ADULT_K_ARY: (k_ary_response(prior, epsilon), "corrected"),
            "published": (theorem3(prior, epsilon, force=True), "published"),
            NOTHING: (Channel.from_weights(prior, [[1]] * len(prior)), "corrected"),
        }
        for place, (name, (channel, version)) in enumerate(made.items()):
            level, error = audit(channel.under(prior)).lip.epsilon, mse(channel.under(prior), task)
            points.append(Point(f"{panel}, expected", name, version, epsilon, math.sqrt(error), level))
            arm = mmse_arm([channel], [prior], task)
            measured = realised(arm, crowd.held, options.runs, [options.seed, number, place])
            points.append(measured.point(f"{panel}, realised", name, version, epsilon, level))
        name, error, level = _free(prior, task, epsilon)
        points.append(Point(f"{panel}, expected", name, "corrected", epsilon, math.sqrt(error), level))
    return points


def _free(prior: Prior, task: Task, epsilon: float) -> tuple[str, float, float]:
    """The usual LDP mechanism that needs no prior, its error per respondent and its LIP level.

    A histogram: subset selection. A sum: one of two points at ±B(E+1)/(E−1) around the middle of the range, B half its
    width, the upper with probability 1/2 + (x − middle)/(2·reach) (Duchi, Jordan and Wainwright).
    """
    d, p = len(prior), prior.probabilities
    if task.per_value:
        return SUBSET_FREE, d * noise(subset_support(d, epsilon), 1 / d), subset_level(p, epsilon)
    x = prior.numbers - (prior.numbers.min() + prior.numbers.max()) / 2
    reach = float(x.max()) / math.tanh(epsilon / 2)
    upper = 0.5 + x / (2 * reach)
    lifts = np.log(np.concatenate([upper / (p @ upper), (1 - upper) / (p @ (1 - upper))]))
    return TWO_POINT, reach**2 - float(p @ x**2), float(np.abs(lifts).max())


def subset_level(p: Floats, epsilon: float) -> float:
    """The LIP level of subset selection: a subset of mass m has lifts E/(1+(E−1)m) and 1/(1+(E−1)m)."""
    size, ordered, more = subset_size(len(p), epsilon), np.sort(p), math.expm1(epsilon)
    light, heavy = float(ordered[:size].sum()), float(ordered[-size:].sum())
    return max(epsilon - math.log1p(more * light), math.log1p(more * heavy))
