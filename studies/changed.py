"""Populations that changed: what each estimator says if the prior is of other people than those who answer.

Nobody is simulated but by randomization and, below everybody, by who is drawn: the answers are real, and so is the
change. Diabetes by age is asked of 2020 with the rates of 2015; general health by age and sex with priors of smokers
and of those of 65 and older only; the place of the last check-in, by time of day, with all earlier ones; hours of work
by education with those of high-school graduates.

    python -m studies.changed out/figures/changed.csv

prints the tables of docs/evaluation.md from the points that `python -m studies changed` has kept.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from studies.figure import Figure, Options, Point
from studies.gowalla import NEW_YORK
from studies.groups import HEALTH
from studies.loaders import find, load_adult, load_checkins, load_diabetes, load_heart
from tacit.designs import Search
from tacit.designs.guidance import costs
from tacit.designs.planning import least_variance_method, make_plan, with_ldp
from tacit.estimates import Estimator, estimate
from tacit.exact import Floats, Integers
from tacit.plan import Plan
from tacit.prior import Prior, Value
from tacit.randomize import Randomizer, SeededWords
from tacit.tally import Counts, Kept, Tally
from tacit.task import Histogram, Sum, Survey, Task

PEOPLE = (500, 2_000, 8_000, 32_000, 128_000)
BUDGETS = (1.0, 2.0)
OLD = ("65-69", "70-74", "75-79", "80 or older")
#: Districts on a side, and hours of a part of the day.
SIDE, HOURS = 12, 6
ERROR, COVERAGE = "relative error", "95% coverage"
ASSISTED, UNBIASED, MMSE, LDP = "assisted (default)", "unbiased", "mmse, trusts the prior", "LDP, unbiased"
NEEDED = "respondents relative to LDP"


@dataclass(frozen=True, eq=False)
class Change:
    """People by group and value, and the priors of other people that they are asked with."""

    name: str
    task: Task
    priors: dict[str, Prior]
    held: Integers

    @property
    def g(self) -> Floats:
        """What each value adds to each row; the same in all groups."""
        return self.task.g(next(iter(self.priors.values())))

    @property
    def n_people(self) -> int:
        return int(self.held.sum())


def changed(options: Options) -> Figure:
    """Errors and coverage of all estimators, for more and more people."""
    changes = [load(options) for load in (_diabetes, _health_smokers, _health_old, _districts, _hours)]
    points: list[Point] = []
    for change in changes[:2] if options.small else changes:
        for epsilon in BUDGETS:
            points += _cells(change, epsilon, options)
    names = list(dict.fromkeys(point.panel for point in points))
    return Figure(
        "changed",
        "Real changes: errors and coverage if the prior is of other people",
        "log₁₀ of the people who answer",
        "relative error, and coverage",
        tuple(points),
        _remark(points),
        panels=tuple(names),
        notes=(
            "Errors are root mean squares over all rows of an estimate, for the people who took part; mmse has the "
            "channel that is best for it. Relative errors of LDP squared are how many times as many people it needs "
            "for this task, among those who take part.",
        ),
    )


def _cells(change: Change, epsilon: float, options: Options) -> list[Point]:
    """All points of one change at one budget."""
    default = with_ldp(make_plan(change.priors, change.task, epsilon))
    trusting = make_plan(change.priors, change.task, epsilon, aim="mmse")
    method = least_variance_method(next(iter(change.priors.values())), change.task)
    ldp = make_plan(change.priors, change.task, epsilon, notion="ldp", search=Search(method=method))
    ways: Sequence[tuple[Plan, dict[str, Estimator]]] = (
        (default, {ASSISTED: "assisted", UNBIASED: "unbiased"}),
        (trusting, {MMSE: "mmse"}),
        (ldp, {LDP: "unbiased"}),
    )
    sizes = [n for n in PEOPLE if n < change.n_people] + [change.n_people]
    rounds = (12 if options.small else 1_000) // (1 if change.g.shape[1] < 20 else 40) + 1
    panels = [f"{change.name}, ε = {epsilon:g}: {what}" for what in (ERROR, COVERAGE)]
    points: list[Point] = []
    for n in sizes[:2] if options.small else sizes:
        rng = np.random.default_rng([options.seed, n, int(10 * epsilon)])
        squares: dict[str, list[float]] = {name: [] for _, names in ways for name in names}
        held: dict[str, list[float]] = {name: [] for name in squares}
        for k in range(rounds):
            people = _drawn(change.held, n, rng)
            truth = people.sum(axis=0) @ change.g
            # What we compare with needs less precision.
            for plan, names in ways if k % 4 == 0 else ways[:1]:
                tally = _reports(plan, people, rng)
                for name, estimator in names.items():
                    rows = estimate(plan, tally, estimator, simultaneous=False).rows
                    told, low, high = np.array([(row.estimate, row.low, row.high) for row in rows]).T
                    squares[name].append(float(((told - truth) ** 2).sum()))
                    held[name].append(float(((low <= truth) & (truth <= high)).mean()))
        place, unit = math.log10(n), math.sqrt(np.mean(squares[UNBIASED]))
        for name in squares:
            error = math.sqrt(np.mean(squares[name])) / unit
            points.append(Point(panels[0], name, "corrected", place, error))
            points.append(Point(panels[1], name, "corrected", place, float(np.mean(held[name]))))
    shares = [Fraction(int(n), int(change.held.sum())) for n in change.held.sum(axis=1)]
    needed = costs(default, shares, int(change.held.sum())).respondents_needed["ldp"]
    points.append(Point(panels[0], NEEDED, "corrected", place, math.nan if needed is None else 1 / needed))
    return points


def _drawn(held: Integers, n: int, rng: np.random.Generator) -> Integers:
    """n of the people, without replacement."""
    if n >= held.sum():
        return held
    return rng.multivariate_hypergeometric(held.ravel(), n, method="marginals").reshape(held.shape)


def _reports(plan: Plan, people: Integers, rng: np.random.Generator) -> Tally:
    """What these people report."""
    groups: dict[str | None, Kept] = {}
    for k, (group, holders) in enumerate(zip(plan.groups, people, strict=True)):
        if not holders.sum():
            continue
        table = group.mechanism.table()
        if table is not None and len(table.matrix) == len(holders):
            matrix = table.matrix
            rows = matrix / matrix.sum(axis=1, keepdims=True)
            sent = np.sum([rng.multinomial(count, row) for count, row in zip(holders, rows, strict=True)], axis=0)
            seen = np.flatnonzero(sent)
            groups[group.name] = Counts(seen.astype(np.int64), sent[seen])
        else:
            answers = np.repeat(np.arange(len(holders)), holders)
            words = SeededWords(int(rng.integers(2**63)))
            drawn = Randomizer(plan).reports(np.full(len(answers), k), answers, words)
            groups[group.name] = group.mechanism.keep(drawn)
    return Tally(plan.hash, groups)


# -- the data -----------------------------------------------------------------------------------------------------


def _diabetes(options: Options) -> Change:
    """The people of 2020, by age, with the rates of 2015."""
    heart, before = load_heart(find("heart", options)), load_diabetes(find("diabetes", options))
    priors = {age: Prior.of({"yes": yes, "no": people - yes}) for age, (yes, people) in before.items()}
    here = [heart.age == age for age in priors]
    held = [[int((heart.diabetes & each).sum()), int((~heart.diabetes & each).sum())] for each in here]
    return Change("diabetes, 2015 → 2020", Survey("yes"), priors, np.array(held))


def _health_smokers(options: Options) -> Change:
    return _health(options, "smokers")


def _health_old(options: Options) -> Change:
    return _health(options, "65 and older")


def _health(options: Options, who: str) -> Change:
    """General health by age and sex, with priors of smokers of that age and sex, or of all of that sex over 64."""
    heart = load_heart(find("heart", options))
    old = np.isin(heart.age, OLD)
    priors, held = {}, []
    for age in sorted(set(heart.age.tolist())):
        for sex in ("Female", "Male"):
            here = (heart.age == age) & (heart.sex == sex)
            learned = here & heart.smokes if who == "smokers" else old & (heart.sex == sex)
            priors[f"{sex} {age}"] = Prior(HEALTH, [int((heart.health[learned] == value).sum()) for value in HEALTH])
            held.append([int((heart.health[here] == value).sum()) for value in HEALTH])
    return Change(f"general health, priors of {who}", Histogram(), priors, np.array(held))


def _districts(options: Options) -> Change:
    """Where users were last, by the part of the day, with all earlier check-ins; one district more, so none is zero."""
    checkins = load_checkins(find("gowalla", options))
    box = NEW_YORK
    inside = (checkins.latitude >= box.south) & (checkins.latitude <= box.north)
    inside &= (checkins.longitude >= box.west) & (checkins.longitude <= box.east)
    north = (checkins.latitude[inside] - box.south) / (box.north - box.south)
    east = (checkins.longitude[inside] - box.west) / (box.east - box.west)
    row, column = (np.minimum((part * SIDE).astype(np.int64), SIDE - 1) for part in (north, east))
    user, part = checkins.user[inside], checkins.time[inside] // 3600 % 24 // HOURS
    last = np.append(user[1:] != user[:-1], True)
    cell, size = part * SIDE**2 + row * SIDE + column, (24 // HOURS, SIDE**2)
    earlier, held = (np.bincount(cell[which], minlength=size[0] * size[1]).reshape(size) for which in (~last, last))
    priors = {f"hours {k * HOURS} to {(k + 1) * HOURS} UTC": Prior(range(SIDE**2), (each + 1).tolist())
              for k, each in enumerate(earlier)}  # fmt: skip
    return Change("last check-in, priors of earlier ones", Histogram(), priors, held)


def _hours(options: Options) -> Change:
    """Hours of work by education, with those of high-school graduates as everybody's prior."""
    adult = load_adult(find("adult", options))
    levels = sorted(set(adult.education.tolist()))
    values: list[Value] = list(range(0, 100))
    known = np.bincount(adult.hours[adult.education == "HS-grad"], minlength=100) + 1
    priors = {level: Prior(values, known.tolist()) for level in levels}
    held = np.array([np.bincount(adult.hours[adult.education == level], minlength=100) for level in levels])
    return Change("hours of work, priors of high-school graduates", Sum(), priors, held)


# -- what it says -------------------------------------------------------------------------------------------------


def _remark(points: Sequence[Point]) -> str:
    """The least coverage and the largest errors over all cells."""
    covered = {
        name: min(p.y for p in points if p.curve == name and p.panel.endswith(COVERAGE)) for name in (ASSISTED, MMSE)
    }
    worst = max(p.y for p in points if p.curve == ASSISTED and p.panel.endswith(ERROR))
    return (
        f"The least coverage of default intervals in any cell is {covered[ASSISTED]:.1%}, of intervals that trust the "
        f"prior {covered[MMSE]:.1%}. The default estimate errs at most {worst:.2f} times as much as the unbiased one."
    )


def table(points: Sequence[Point]) -> str:
    """A table for each change and budget, in Markdown."""
    lines = []
    for panel in dict.fromkeys(point.panel for point in points if point.panel.endswith(ERROR)):
        name = panel.removesuffix(f": {ERROR}")
        covered = {(p.x, p.curve): p.y for p in points if p.panel == f"{name}: {COVERAGE}"}
        errors = {(p.x, p.curve): p.y for p in points if p.panel == panel}
        needed = [p.y for p in points if p.panel == panel and p.curve == NEEDED]
        ways = (ASSISTED, MMSE, LDP)
        lines += [f"**{name}** (LDP's respondents × {needed[0]:.2f})", ""]
        lines += ["| people | " + " | ".join(ways) + " | coverage: assisted | unbiased | mmse |", "|---|" + "---|" * 6]
        for x in sorted({x for x, curve in errors if curve == ASSISTED}):
            cells = [f"{errors[x, way]:.2f}" for way in ways]
            cells += [f"{covered[x, way]:.1%}" for way in (ASSISTED, UNBIASED, MMSE)]
            lines.append(f"| {10**x:,.0f} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    from studies.reproduce import from_csv

    print(table(from_csv(Path(sys.argv[1]).read_text(encoding="utf-8"))))
