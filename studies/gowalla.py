"""Figure 9b: where people checked in last (Gowalla), on a 36 × 36 grid, with a prior from earlier check-ins.

The paper lays the grid over "the area" without saying which. We lay it over New York, where our subset of the data is
dense, and over the whole world. The respondents are the users; each reports the district of the last check-in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from studies.figure import NO_DATA, OPTIMAL, Figure, Options, Point, curve
from studies.kosarak import LDP_NOTE, WITH, WITHOUT, histogram_curves, level_of
from studies.loaders import Checkins, find, load_checkins
from tacit.designs import Design, Search, design
from tacit.designs.rules import theorem3
from tacit.estimates import estimate
from tacit.exact import Floats, Integers, budget
from tacit.mechanism import Counts, audit
from tacit.plan import Group, Plan
from tacit.prior import Prior
from tacit.randomize import Randomizer, SeededWords
from tacit.tally import Tally
from tacit.task import Histogram

#: The paper's grid has this many districts on a side, and after dropping empty ones an "effective domain" of 83.
SIDE, PAPER_DOMAIN = 36, 83
#: Mixed with the uniform distribution by this share, the prior has no zeros left.
FLOOR = "0.01"
FLOORED = "optimal ε-LIP, prior floored by 1%"
ONCE = ", each user counted once"
OWN = "optimal ε-LIP, each user's own prior"
#: Weight of everybody's prior in a user's own, in check-ins.
LEAN = 5


@dataclass(frozen=True)
class Box:
    """An area: latitudes and longitudes in degrees."""

    name: str
    south: float
    north: float
    west: float
    east: float

    def __str__(self) -> str:
        return f"{self.name} ({self.south:g} to {self.north:g}° north, {self.west:g} to {self.east:g}° east)"


NEW_YORK = Box("New York", 40.48, 40.92, -74.26, -73.70)
WORLD = Box("the world", -90.0, 90.0, -180.0, 180.0)


@dataclass(frozen=True, eq=False)
class Traces:
    """Check-ins on the grid: per check-in the user (0, 1, …) and the district, and whether it is the user's last."""

    box: Box
    user: Integers
    district: Integers
    is_last: np.ndarray[tuple[int], np.dtype[np.bool_]]
    repeated: int

    @classmethod
    def of(cls, checkins: Checkins, box: Box) -> Traces:
        """Those inside the box; each is put into one of SIDE × SIDE districts, row by row from the south-west."""
        inside = (checkins.latitude >= box.south) & (checkins.latitude <= box.north)
        inside &= (checkins.longitude >= box.west) & (checkins.longitude <= box.east)
        _, user = np.unique(checkins.user[inside], return_inverse=True)
        north = (checkins.latitude[inside] - box.south) / (box.north - box.south)
        east = (checkins.longitude[inside] - box.west) / (box.east - box.west)
        row, column = (np.minimum((part * SIDE).astype(np.int64), SIDE - 1) for part in (north, east))
        # Check-ins come by user and time.
        last = np.append(user[1:] != user[:-1], True)
        return cls(box, user.astype(np.int64), row * SIDE + column, last, checkins.repeated)

    @cached_property
    def last(self) -> Integers:
        """The district that each user reports."""
        return self.district[self.is_last]

    @cached_property
    def past(self) -> Integers:
        """Earlier check-ins per district, pooled over all users: the paper's prior."""
        return np.bincount(self.district[~self.is_last], minlength=SIDE**2)

    @cached_property
    def prior(self) -> Prior:
        return Prior(range(SIDE**2), self.past.tolist())

    @cached_property
    def prior_of_users(self) -> Prior:
        """The mean of the users' own distributions: somebody with 1,000 check-ins counts as much as one with 2."""
        user, district = self.user[~self.is_last], self.district[~self.is_last]
        shares = np.bincount(district, weights=1.0 / np.bincount(user)[user], minlength=SIDE**2)
        return Prior(range(SIDE**2), np.rint(shares * 1e6).astype(np.int64).tolist())

    @cached_property
    def held(self) -> Integers:
        """Users per district of their last check-in."""
        return np.bincount(self.last, minlength=SIDE**2)

    @property
    def strangers(self) -> Integers:
        """Districts where somebody's last check-in lies although nobody had checked in there before."""
        return np.flatnonzero((self.held > 0) & (self.past == 0))

    def facts(self) -> str:
        """What the data is, in a sentence."""
        alone = len(self.last) - len(np.unique(self.user[~self.is_last]))
        empty = int((self.past == 0).sum())
        return (
            f"{self.box}: {len(self.user):,} check-ins by {len(self.last):,} users after {self.repeated} exact "
            f"repetitions in the file were removed, {alone:,} users with a single check-in. {SIDE**2 - empty} of "
            f"{SIDE**2:,} districts have a positive prior (the paper's effective domain: {PAPER_DOMAIN}) and {empty:,} "
            f"have none; the last check-in of {int(self.held[self.strangers].sum())} users lies in one of those."
        )


def figure_9b(options: Options) -> Figure:
    """The histogram of last check-ins: expected errors on two grids, and what is realised by the users themselves."""
    city = Traces.of(load_checkins(find("gowalla", options)), NEW_YORK)
    world = Traces.of(load_checkins(find("gowalla world", options)), WORLD)
    budgets = (1.0, 4.0) if options.small else (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
    panels = [f"{where}, {how}" for where in ("New York", "world") for how in (WITH, WITHOUT)]
    near = histogram_curves(city.prior, budgets, (panels[0], panels[1]))
    far = histogram_curves(world.prior, budgets, (panels[2], panels[3]))
    floored = [_circle(city.prior.floored(FLOOR), e) for e in budgets]
    errors = [found.certificate.mse for found in floored]
    realised, own = "New York, realised", "New York, own priors"
    points = [
        *near.points,
        *curve(FLOORED, "corrected", budgets, errors, map(level_of, floored), panels[0]),
        *far.points,
        *_realised_points(city, budgets, realised, options),
        *_own_points(city, (2.0,) if options.small else (1.0, 2.0, 4.0), own, options),
    ]
    return Figure(
        "9b",
        f"The last check-in of {len(city.last):,} users in New York and {len(world.last):,} in the world",
        "ε",
        "√(MSE/N)",
        tuple(points),
        f"New York: {near.summary()} World: {far.summary()}",
        panels=(*panels, realised, own),
        log_y=True,
        notes=(
            city.facts(),
            world.facts(),
            "The paper counts 6,442,892 users; that is the number of check-ins in SNAP's full file. The prepared files "
            "are subsets of it: the New York box, and 1,000 users worldwide.",
            "Realised errors are far above the expected ones because where people go last differs from where they "
            f"went before (total variation {_distance(city, city.prior):.2f}, or "
            f"{_distance(city, city.prior_of_users):.2f} if each user counts once), and the estimate trusts the prior.",
            LDP_NOTE,
        ),
    )


def zero_prior(options: Options) -> Figure:
    """What happens to users whose last check-in lies in a district of prior zero: named by the published channel.

    There it tells the truth with probability 1 − 1/E, and nobody else can send that report.
    """
    city = Traces.of(load_checkins(find("gowalla", options)), NEW_YORK)
    users = int(city.held[city.strangers].sum())
    budgets = (1.0, 4.0) if options.small else (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
    small = _reduced(city)
    exposed = audit(theorem3(small, 1, force=True)).exposed
    ours = audit(design(small, Histogram(), 1, aim="mmse").channel).exposed
    named = [users * -math.expm1(-e) for e in budgets]
    floored = [level_of(_circle(city.prior.floored(FLOOR), e)) for e in budgets]
    plain = [level_of(_circle(city.prior, e)) for e in budgets]
    points = [
        *(Point("", "published", "published", e, y, math.inf) for e, y in zip(budgets, named, strict=True)),
        *(Point("", "ours, their report says nothing about them", "corrected", e, 0.0, level)
          for e, level in zip(budgets, plain, strict=True)),
        *(Point("", "ours, prior floored by 1%", "corrected", e, 0.0, level)
          for e, level in zip(budgets, floored, strict=True)),
    ]  # fmt: skip
    return Figure(
        "zero-prior",
        f"{users} users whose last district has prior zero",
        "ε",
        "users whose report names their district with certainty, on average",
        tuple(points),
        f"The audit finds {len(exposed)} districts exposed by the published channel and {len(ours)} by ours. The "
        f"published channel names {named[0]:.1f} of {users} users on average at ε = {budgets[0]:g} and {named[-1]:.1f} "
        f"at ε = {budgets[-1]:g}. Ours draws their report from the marginal: it says nothing about them, and they are "
        "missing from the estimate. With a floored prior they are inside the guarantee like everybody else.",
        notes=(city.facts(),),
    )


def _reduced(city: Traces) -> Prior:
    """The districts in question, the twelve heaviest and all others as one: small enough to audit tables exactly."""
    heavy = np.argsort(-city.past, kind="stable")[:12]
    heavy = heavy[city.past[heavy] > 0]
    rest = int(city.past.sum() - city.past[heavy].sum())
    weights = {f"district {x}": int(city.past[x]) for x in heavy} | ({"other": rest} if rest else {})
    weights |= {f"district {x}": 0 for x in city.strangers}
    return Prior(weights.keys(), weights.values())


def _circle(prior: Prior, epsilon: float) -> Design:
    """The mechanism for large histograms, whatever the size, so that reports are read the same way throughout."""
    return design(prior, Histogram(), epsilon, aim="mmse", search=Search(method="many-values"))


def _realised_points(city: Traces, budgets: Sequence[float], panel: str, options: Options) -> list[Point]:
    """These users, the randomization repeated: the library's own path from plan to estimate."""
    held, n = city.held.astype(np.float64), len(city.last)
    points = []
    for suffix, prior in (("", city.prior), (ONCE, city.prior_of_users)):
        idle = float(((n * prior.probabilities - held) ** 2).sum()) / n
        points += curve(NO_DATA + suffix, "corrected", budgets, [idle] * len(budgets), 0.0, panel)
        for epsilon in budgets:
            found = _circle(prior, epsilon)
            squares = _squares(found, epsilon, city, max(2, min(options.runs, 50)), options.seed)
            root = math.sqrt(float(squares.mean()) / n)
            error = float(squares.std(ddof=1)) / math.sqrt(len(squares)) / (2 * root * n)
            points.append(Point(panel, OPTIMAL + suffix, "corrected", epsilon, root, level_of(found), error))
    published = [published_realised(city.prior.probabilities, held, e) for e in budgets]
    # The users of prior zero are exposed, so no finite level holds for everybody.
    level = math.inf if len(city.strangers) else None
    return points + curve("published", "published", budgets, published, level, panel)


def published_realised(p: Floats, held: Floats, epsilon: float) -> float:
    """The published channel's mean squared error per respondent with these people: exact.

    With s = 1 − 1/E and c_x the reports of x, its estimate is (1−s)·N·P + s·c, of bias (1−s²)(N·P − n).
    """
    n, lie = float(held.sum()), math.exp(-epsilon)
    yes, no = 1 - lie + lie * p, lie * p
    variance = (1 - lie) ** 2 * (held * yes * (1 - yes) + (n - held) * no * (1 - no))
    bias = lie * (2 - lie) * (n * p - held)
    return float((bias**2 + variance).sum()) / n


def _squares(found: Design, epsilon: float, city: Traces, rounds: int, seed: int) -> Floats:
    """Squared errors of the estimated histogram in each round."""
    group = Group(name=None, epsilon=budget(epsilon), mechanism=found.mechanism)
    plan = Plan.of_groups(Histogram(), (group,))
    groups = np.zeros(len(city.last) * rounds, dtype=np.int64)
    # A user of prior zero gets a stand-in from the prior here, and so a report that says nothing about them.
    sent = Randomizer(plan).reports(groups, np.tile(city.last, rounds), SeededWords(seed))
    squares = []
    for reports in sent.reshape(rounds, -1):
        counted = estimate(plan, Tally.of(plan, reports), "mmse").columns["estimate"]
        squares.append(float(((counted - city.held) ** 2).sum()))
    return np.array(squares)


def _own_points(city: Traces, budgets: Sequence[float], panel: str, options: Options) -> list[Point]:
    """A sample of users, each with a prior from their own earlier check-ins and, less and less, everybody's."""
    rng = np.random.default_rng([options.seed, 4])
    chosen = rng.choice(len(city.last), size=min(len(city.last), 8 if options.small else 150), replace=False)
    inside = np.flatnonzero(city.past)
    everybody = Prior(inside.tolist(), city.past[inside].tolist())
    own = [_own_prior(city, int(user), inside) for user in chosen]
    points = []
    for epsilon in budgets:
        shared = [_circle(everybody, epsilon)] * len(chosen)
        for name, designs in ((OWN, [_circle(prior, epsilon) for prior in own]), (OPTIMAL, shared)):
            level = max(level_of(found) for found in {id(found): found for found in designs}.values())
            error = math.fsum(found.certificate.mse for found in designs) / len(chosen)
            points.append(Point(panel, name, "corrected", epsilon, math.sqrt(error), level))
            squares = _sampled(designs, city.last[chosen], inside, rng) / len(chosen)
            root = math.sqrt(float(squares.mean()))
            spread = float(squares.std(ddof=1)) / math.sqrt(len(squares)) / (2 * root)
            points.append(Point(panel, f"{name}, realised", "corrected", epsilon, root, level, spread))
    return points


def _own_prior(city: Traces, user: int, inside: Integers) -> Prior:
    """(own earlier check-ins + LEAN × everybody's distribution), on the districts where anybody was before."""
    earlier = np.bincount(city.district[(city.user == user) & ~city.is_last], minlength=SIDE**2)[inside]
    return Prior(inside.tolist(), (earlier * int(city.past.sum()) + LEAN * city.past[inside]).tolist())


def _sampled(designs: Sequence[Design], last: Integers, inside: Integers, rng: np.random.Generator) -> Floats:
    """Squared errors of the histogram of users who each have a design of their own, in ten rounds."""
    rounds, place = 10, np.full(SIDE**2, -1)
    place[inside] = np.arange(len(inside))
    off = np.tile(-np.bincount(last, minlength=SIDE**2).astype(np.float64), (rounds, 1))
    for found, district in zip(designs, last, strict=True):
        at, p = int(place[district]), found.prior.probabilities
        standing = np.full(rounds, at) if at >= 0 else rng.choice(len(inside), rounds, p=p / p.sum())
        sampler = found.mechanism.sampler([found.mechanism])
        for row, report in enumerate(
            sampler.many(np.zeros(rounds, dtype=np.int64), standing, SeededWords(int(rng.integers(2**63))))
        ):
            off[row, inside] += found.mechanism.read("mmse", Histogram(), Counts.of([report])).estimate
    squares: Floats = (off**2).sum(axis=1)
    return squares


def _distance(city: Traces, prior: Prior) -> float:
    """The total variation distance of a prior from where the users really were last."""
    return float(np.abs(prior.probabilities - city.held / city.held.sum()).sum()) / 2
