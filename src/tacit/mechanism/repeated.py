"""The exact level of several reports about one person, whose answer may change between waves.

A person's answers x₁, …, x_T are a Markov chain: x₁ has the first channel's prior and x_{t+1} follows from x_t by a
transition matrix; without one the answer stays. Given the reports y the belief in a whole path of answers changes by

    Π_t Q_t(y_t | x_t) / λ(y),      λ(y) = Σ_paths Pr(path) Π_t Q_t(y_t | x_t).

The level is the largest |ln| of it over all reports and possible paths; any statement about the answers is a mean of
paths, so its belief changes by no more. λ is a forward recursion and the extremes over paths are one with max and min
in the place of sums, all in integers. Where report sequences are too many, with ε_t the level of wave t alone,

    2Σ ε_t − max ε_t

bounds it: λ(y) ≥ λ₁(y₁) Π_{t>1} e^{−ε_t} λ_t(y_t) and Q_t ≤ e^{ε_t} λ_t(y_t), with any wave in the first place. LIP
levels do not add: two reports at ε = 1 about a fair coin reach 2.336. LDP levels do.

**However the answers are related** (`largest_ratio`): the same answer, answers that change, answers to
several surveys. With f_t = Q_t(y_t|·), each known by how probable its heights are (`columns_of`), the level is the
largest |ln| of Π f_t(x_t) / E Π f_t(X_t) over all joint distributions of the X_t. The mean of a product is largest
where all f_t rise together: it is an integral of the product of quantiles, exactly. It is at least

    Π min f_t · (1 + Σ (E f_t / min f_t − 1))     and     Π max f_t · (1 − Σ (1 − E f_t / max f_t)),

by Weierstrass's inequalities; the first is attained where answers above the minimum exclude each other, as rare answers
can, the second where those below the maximum do. Under a set of priors each height has its own worst one.

**Two layers** (`Layers`).  A channel Q of level ε with the marginal λ is the product of two: with any s ≤ 1 for which
Q₁ is a channel,

    Q₁ = λ + (Q − λ)/s is drawn once for each answer and stored;  Q₂ sends the stored report with probability s, else a
    report from λ, which does not depend on the answer:           Q₁Q₂ = s·Q₁ + (1 − s)·λ = Q.

So two layers cost nothing in a wave: Q may be the best channel for ε. An answer that stays is protected by Q₁ for any
number of waves: a lift of 1 + (v − 1)/s where that of Q is v. Any level above ε is reached by some s < 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import numpy as np

from tacit.exact import Integers, Number, budget, exact_integers, exact_ratio, rational
from tacit.mechanism.auditing import Level, Notion
from tacit.mechanism.protocol import Mechanism, RandomWords, Sampler
from tacit.mechanism.table import Channel
from tacit.mechanism.table._sampler import TableSampler
from tacit.prior import Prior, PriorSet

#: A transition matrix: the probability of each next answer, a row for each answer.
Transition = tuple[tuple[Fraction, ...], ...]
#: How likely a report is: for each likelihood that answers give it, ascending and up to a common factor, the largest
#: and the least probability of an answer that gives it at least that.
Column = tuple[tuple[int, Fraction, Fraction], ...]
#: Up to this many sequences of reports, times paths in two layers, are looked at one by one.
MOST_SEQUENCES, MOST_PATHS = 20_000, 300_000
#: The chance of sending the stored report is a multiple of 2^−12.
RESEND_BITS = 12


@dataclass(frozen=True)
class Repeated:
    """What all reports of one person together reach: exactly, or a bound on it. LDP levels add up to `ldp`."""

    lip: Level
    ldp: Level
    exact: bool


def persistent(prior: Prior, persistence: Number) -> Transition:
    """The transition matrix of people who keep the answer with the probability `persistence`, from 0 to 1, and else
    draw one from the `prior`, which does not change.

    >>> [[str(chance) for chance in row] for row in persistent(Prior.of({"yes": 1, "no": 3}), "0.8")]
    [['17/20', '3/20'], ['1/20', '19/20']]
    """
    stay = rational(persistence, "persistence")
    if not 0 <= stay <= 1:
        raise ValueError(f"The 'persistence' must lie between 0 and 1. Got {persistence} instead.")
    shares = [Fraction(weight, prior.total) for weight in prior.weights]
    return tuple(
        tuple(stay * (x == y) + (1 - stay) * share for y, share in enumerate(shares)) for x in range(len(shares))
    )


def check_transition(transition: Transition, n_values: int) -> Transition:
    """Raise unless it has a row of probabilities for each value."""
    rows = tuple(tuple(rational(chance, "transition") for chance in row) for row in transition)
    if len(rows) != n_values or any(len(row) != n_values for row in rows):
        raise ValueError(f"A transition matrix needs {n_values} rows of {n_values} probabilities.")
    if any(min(row) < 0 or sum(row) != 1 for row in rows):
        raise ValueError("Every row of a transition matrix must be probabilities that sum to 1.")
    return rows


def after(prior: Prior, transition: Transition | None) -> Prior:
    """The distribution one wave later."""
    if transition is None:
        return prior
    return Prior(
        prior.values,
        [
            sum((weight * row[y] for weight, row in zip(prior.weights, transition, strict=True)), Fraction(0))
            for y in range(len(prior))
        ],
    )


def joint_level(channels: Sequence[Channel], transition: Transition | None = None) -> Repeated:
    """The level of one report through each of the `channels`, in this order, about one person; a bound where sequences
    of reports are too many.

    The first channel's prior is that of the first answer; answers change by `transition`, and stay where it is None.

    >>> from tacit.designs import optimal_binary
    >>> coin = optimal_binary(Prior.uniform(["yes", "no"]), 1)
    >>> found = joint_level([coin, coin])
    >>> round(found.lip.epsilon, 3), found.exact
    (2.336, True)
    """
    if not channels or any(channel.values != channels[0].values for channel in channels):
        raise ValueError("There must be at least one channel, and all must have the same values.")
    moves = None if transition is None else check_transition(transition, len(channels[0].values))
    odds = [channel.audit().ldp.ratio for channel in channels]
    ldp = Level(None if None in odds else Fraction(math.prod(ratio for ratio in odds if ratio is not None)))
    if math.prod(channel.n_possible_reports for channel in channels) > MOST_SEQUENCES:
        return Repeated(_bound(channels, moves), ldp, exact=False)
    return Repeated(_searched(channels, moves), ldp, exact=True)


def _bound(channels: Sequence[Channel], moves: Transition | None) -> Level:
    """2Σε − max ε, with the level of every wave under the distribution of its answers."""
    ratios, prior = [], channels[0].prior
    for channel in channels:
        ratio = channel.under(prior).audit().lip.ratio
        if ratio is None:
            return Level(None)
        ratios.append(ratio)
        prior = after(prior, moves)
    return Level(math.prod(ratio**2 for ratio in ratios) / max(ratios))


def _searched(channels: Sequence[Channel], moves: Transition | None) -> Level:
    first = channels[0].prior
    size = len(first)
    steps, unit = _integer_steps(moves, size)
    weights = [[[int(cell) for cell in row] for row in channel.weights] for channel in channels]
    worst = Fraction(1)

    def look(wave: int, chances: list[int], most: list[int | None], least: list[int | None]) -> bool:
        """Follow every sequence of reports; False where one excludes a path that is possible."""
        nonlocal worst
        if wave == len(channels):
            total = sum(chances)
            highest, lowest = max(m for m in most if m is not None), min(m for m in least if m is not None)
            if not total:
                return True
            if not lowest:
                return False
            scale = first.total * unit ** (len(channels) - 1)
            worst = max(worst, Fraction(highest * scale, total), Fraction(total, lowest * scale))
            return True
        for report in range(channels[wave].n_possible_reports):
            sent = [row[report] for row in weights[wave]]
            now = [chance * weight for chance, weight in zip(chances, sent, strict=True)]
            up = [None if m is None else m * weight for m, weight in zip(most, sent, strict=True)]
            down = [None if m is None else m * weight for m, weight in zip(least, sent, strict=True)]
            if not sum(now):
                continue
            if wave + 1 < len(channels) and steps is not None:
                now = [sum(now[x] * steps[x][y] for x in range(size)) for y in range(size)]
                reach = [[x for x in range(size) if up[x] is not None and steps[x][y]] for y in range(size)]
                up = [max((up[x] or 0 for x in places), default=None) for places in reach]
                down = [min((down[x] or 0 for x in places), default=None) for places in reach]
            if not look(wave + 1, now, up, down):
                return False
        return True

    possible = [1 if weight else None for weight in first.weights]
    return Level(worst if look(0, list(first.weights), list(possible), list(possible)) else None)


def columns_of(channel: Channel, prior_set: PriorSet | None = None) -> tuple[Column, ...]:
    """What a report can tell, for `largest_ratio`: the columns of a `channel`, equal ones once, of the answers with
    positive prior; under the priors of `prior_set`, or else the channel's own.

    >>> columns_of(Channel.from_weights(Prior.of({"yes": 1, "no": 3}), [[3, 1], [1, 3]]))[0]
    ((1, Fraction(1, 1), Fraction(1, 1)), (3, Fraction(1, 4), Fraction(1, 4)))
    """
    prior, found = channel.prior, dict[Column, None]()
    for column in channel.weights.T.tolist():
        common = math.gcd(*(column[x] for x in prior.support))
        steps = []
        for height in sorted({column[x] for x in prior.support} if common else ()):
            reach = [int(each >= height and weight > 0) for each, weight in zip(column, prior.weights, strict=True)]
            share = Fraction(sum(w for w, inside in zip(prior.weights, reach, strict=True) if inside), prior.total)
            low, high = (share, share) if prior_set is None else prior_set.extremes(reach)
            steps.append((height // common, high, low))
        if steps:
            found[tuple(steps)] = None
    return tuple(found)


def n_sequences(releases: Sequence[tuple[Column, ...]]) -> int:
    """How many sequences of columns `largest_ratio` looks at; the order of equal releases does not matter."""
    return math.prod(math.comb(len(columns) + times - 1, times) for columns, times in Counter(releases).items())


def largest_ratio(releases: Sequence[tuple[Column, ...]]) -> Fraction | None:
    """By how much all reports together change a belief at most, however the answers are related; None where it is
    unbounded.

    `releases` has for each report the columns that it can come from (`columns_of`). The ratio is exact where the worst
    sequence lowers a belief, or where answers that make its reports likely are rare enough to exclude each other; else
    an upper bound.

    >>> from tacit.designs import optimal_binary
    >>> once = columns_of(optimal_binary(Prior.uniform(["yes", "no"]), 1))
    >>> [round(math.log(largest_ratio([once] * reports)), 3) for reports in (1, 2, 3)]
    [1.0, 2.336, 3.788]
    """
    known = {column for columns in releases for column in columns}
    unit = math.lcm(1, *(share.denominator for column in known for _, *shares in column for share in shares))
    facts = {column: _column_facts(column, unit) for column in known}
    if any(column[0][0] == 0 for column in known):
        return None
    worst = Fraction(1)
    choices = [list(combinations_with_replacement(columns, times)) for columns, times in Counter(releases).items()]
    for sequence in product(*choices):
        chosen = Counter(column for part in sequence for column in part)
        least = math.prod(column[0][0] ** times for column, times in chosen.items())
        most = math.prod(column[-1][0] ** times for column, times in chosen.items())
        parts, spare = [(*facts[column], times) for column, times in chosen.items()], (1 - chosen.total()) * unit
        lowest = max(
            least * spare + sum(times * (least // low) * mean for low, _, mean, _, times in parts),
            most * spare + sum(times * (most // high) * mean for _, high, mean, _, times in parts),
        )
        highest, before = 0, 0
        for edge in sorted({tail for *_, tails, _ in parts for _, tail in tails}):
            # Of the part of people between `before` and `edge`, counted from those who make the reports most likely.
            heights = ((next(h for h, tail in reversed(tails) if tail >= edge), times) for *_, tails, times in parts)
            highest += (edge - before) * math.prod(height**times for height, times in heights)
            before = edge
        worst = max(worst, Fraction(highest, unit * least), Fraction(unit * most, lowest))
    return worst


def _column_facts(column: Column, unit: int) -> tuple[int, int, int, list[tuple[int, int]]]:
    """The least and the largest height, the least mean and the tails, the latter two in parts of `unit`."""
    tails = [(height, int(high * unit)) for height, high, _ in column]
    below = (0, *(height for height, *_ in column))
    mean = sum((height - before) * int(low * unit) for (height, _, low), before in zip(column, below, strict=False))
    return column[0][0], column[-1][0], mean, tails


def _integer_steps(moves: Transition | None, size: int) -> tuple[list[list[int]] | None, int]:
    """The transition matrix in integers over a common denominator."""
    if moves is None:
        return None, 1
    unit = math.lcm(*(chance.denominator for row in moves for chance in row))
    return [[int(chance * unit) for chance in row] for row in moves], unit


@dataclass(frozen=True)
class Layers:
    """Two layers of a group: a stored report, and the chance of sending it again in a wave.

    Args:
        lifelong: the level that the stored report keeps, and so all reports of an answer that stays.
        stored: how the report of an answer is drawn that the device stores.
        resend: of 4096 waves, in how many the stored report is sent.
        noise: for a table, integers in proportion to which another report is sent else. The other mechanisms have
            reports that ignore the answer; theirs are sent.

    >>> stored = Channel.from_weights(Prior.uniform(["yes", "no"]), [[3, 1], [1, 3]])
    >>> Layers(Fraction(1), stored, 2048, (1, 1)).product.matrix.tolist()
    [[0.625, 0.375], [0.375, 0.625]]
    """

    lifelong: Fraction
    stored: Mechanism
    resend: int
    noise: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if type(self.resend) is not int or not 1 <= self.resend <= 1 << RESEND_BITS:
            raise ValueError(f"The 'resend' must be from 1 to {1 << RESEND_BITS}. Got {self.resend!r} instead.")
        table = self.stored.table()
        if (table is None) == bool(self.noise):
            raise ValueError("A stored table needs 'noise', an integer for each report; other mechanisms have none.")
        total = sum(self.noise)
        if table is not None and (
            len(self.noise) != table.n_possible_reports or min(self.noise) < 0 or not total or total & (total - 1)
        ):
            raise ValueError("The 'noise' must be integers that sum to a power of two, one for each report.")

    @cached_property
    def product(self) -> Mechanism:
        """What a wave sends, from the answer to the report, in exact integers."""
        table, one = self.stored.table(), 1 << RESEND_BITS
        if table is not None:
            total = sum(self.noise)
            other = (one - self.resend) * table.denominator * np.array(self.noise, dtype=object)
            return Channel.from_weights(table.prior, self.resend * total * table.weights + other)
        # The rules draw a report that ignores the answer, or one that covers it, in proportion to `step`.
        rule: Any = self.stored

        def of_wave(step: int) -> int:
            found, rest = divmod(step * self.resend, one)
            if rest or not found:
                raise ValueError("The step of the stored layer, times 'resend', must be a multiple of 4096.")
            return found

        return rule.scaled(of_wave)

    def second(self) -> Channel:
        """The second layer of a table by itself: from the stored report to the one that is sent."""
        table, one = self.stored.table(), 1 << RESEND_BITS
        if table is None:
            raise ValueError("The second layer is written out for tables only.")
        other = (one - self.resend) * np.array(self.noise, dtype=object)
        rows = np.diag([self.resend * sum(self.noise)] * len(self.noise)).astype(object) + other
        return Channel.from_weights(Prior.uniform(len(self.noise)), rows)

    def keeps(self, notion: Notion, prior_set: PriorSet | None = None) -> bool:
        """Whether the stored report keeps the lifelong level, decided exactly; of a set, for every prior of it."""
        sides = () if prior_set is None else self.stored.set_levels(prior_set)
        return self.stored.keeps(notion, self.lifelong) and all(side.holds(self.lifelong) for side in sides)

    # -- reports -------------------------------------------------------------------------------------------------

    @cached_property
    def _sampler(self) -> Sampler:
        return type(self.stored).sampler([self.stored])

    def store(self, positions: Integers, words: Sequence[RandomWords]) -> Integers:
        """The reports to store of answers at these positions, each from its own words; the same ones give the same."""
        return self._sampler.each(positions, words)

    def send(self, stored: Integers, words: RandomWords) -> Integers:
        """What a wave sends of stored reports."""
        resent = words.draw(len(stored), 16) >> np.uint16(16 - RESEND_BITS) < self.resend
        return np.where(resent, stored, self._others(len(stored), words))

    def send_one(self, stored: int, words: RandomWords) -> int:
        """What a wave sends of one stored report: a word of 16 bits says whether it does, then another is drawn."""
        resent = words.integer(16) >> 16 - RESEND_BITS < self.resend
        if self.noise:
            other = TableSampler([(np.array([self.noise], dtype=object), sum(self.noise))]).one(0, 0, words)
        else:
            rule: Any = self.stored
            first, *rest = (words.integer(rule.word_bits) for _ in range(rule.words_per_report))
            other = rule.draw(0, (first & (1 << rule.word_bits - rule.choice_bits) - 1, *rest))
        return stored if resent else int(other)

    def _others(self, count: int, words: RandomWords) -> Integers:
        """Reports that do not depend on the answer."""
        nothing = np.zeros(count, dtype=np.int64)
        if self.noise:
            row = np.array([self.noise], dtype=object)
            return TableSampler([(row, sum(self.noise))]).many(nothing, nothing, words)
        rule: Any = self.stored
        drawn = words.draw(count * rule.words_per_report, 64).reshape(count, -1) >> np.uint64(64 - rule.word_bits)
        # The first bits of the first word are α: with α = 0 a rule ignores the answer.
        drawn[:, 0] &= np.uint64((1 << rule.word_bits - rule.choice_bits) - 1)
        return rule.draw_many(nothing, drawn)

    # -- the contract --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        noise = {"noise": [str(weight) for weight in self.noise]} if self.noise else {}
        return {"lifelong": str(self.lifelong), "resend": self.resend, "stored": self.stored.to_dict(), **noise}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], prior: Prior) -> Layers:
        """The inverse of `to_dict`."""
        from tacit.mechanism import KINDS

        stored = KINDS[data["stored"]["kind"]].from_dict(data["stored"], prior)
        noise = tuple(exact_integers(data["noise"])) if "noise" in data else ()
        return cls(budget(exact_ratio(data["lifelong"]), "lifelong"), stored, data["resend"], noise)


def layered(first: Channel, second: Channel) -> Channel:
    """What one wave of two layers sends: a fresh report through `second` of the report that `first` drew once and
    stored.

    >>> from tacit.designs import optimal_binary
    >>> stored, fresh = optimal_binary(Prior.uniform(["yes", "no"]), 2), optimal_binary(Prior.uniform(2), 1)
    >>> round(layered(stored, fresh).audit().lip.epsilon, 2)
    0.79
    """
    if len(second.values) != first.n_possible_reports:
        raise ValueError("The second layer must take the reports of the first.")
    return Channel.from_weights(first.prior, first.weights @ second.weights)


def layered_level(first: Channel, second: Channel, waves: int, transition: Transition | None = None) -> Repeated:
    """The level of all reports of two layers, over some waves.

    Where answers stay, all reports depend on the answer through one stored report, so the level is at most that of
    `first`, for any number of waves. Where they change, a stored report of each answer is used, and changes show: the
    level is found by looking at every path, or bounded by `waves` times the LDP level of `second`.

    Args:
        first: the permanent channel.
        second: the channel of a wave, from its reports.
        waves: how many reports are sent.
        transition: how answers change from wave to wave; None where they stay.

    >>> from tacit.designs import optimal_binary
    >>> stored, fresh = optimal_binary(Prior.uniform(["yes", "no"]), 2), optimal_binary(Prior.uniform(2), 1)
    >>> round(layered_level(stored, fresh, 100).lip.epsilon, 6)
    2.0
    """
    layered(first, second)
    if transition is None:
        found = first.audit()
        return Repeated(found.lip, found.ldp, exact=True)
    moves = check_transition(transition, len(first.values))
    ratio = second.audit().ldp.ratio
    bound = Level(None if ratio is None else ratio**waves)
    size, kept, sent = len(first.values), first.n_possible_reports, second.n_possible_reports
    if size**waves * sent**waves * kept ** min(size, waves) > MOST_PATHS:
        return Repeated(bound, bound, exact=False)
    return Repeated(_paths(first, second, waves, moves), bound, exact=True)


def _paths(first: Channel, second: Channel, waves: int, moves: Transition) -> Level:
    size, kept = len(first.values), first.n_possible_reports
    steps, _ = _integer_steps(moves, size)
    assert steps is not None
    permanent = [[int(cell) for cell in row] for row in first.weights]
    fresh = [[int(cell) for cell in row] for row in second.weights]
    chances: dict[tuple[int, ...], int] = {}
    for path in product(range(size), repeat=waves):
        chance = first.prior.weights[path[0]]
        for x, y in pairwise(path):
            chance *= steps[x][y]
        if chance:
            chances[path] = chance
    total = sum(chances.values())
    worst = Fraction(1)
    for reports in product(range(second.n_possible_reports), repeat=waves):
        likelihoods = []
        for path in chances:
            # Over the stored reports of the answers on the path; others do not matter.
            value = 1
            for held in set(path):
                told = [y for x, y in zip(path, reports, strict=True) if x == held]
                value *= sum(permanent[held][m] * math.prod(fresh[m][y] for y in told) for m in range(kept))
            likelihoods.append(value * first.denominator ** (size - len(set(path))))
        mean = sum(chance * each for chance, each in zip(chances.values(), likelihoods, strict=True))
        if not mean:
            continue
        if not min(likelihoods):
            return Level(None)
        worst = max(worst, Fraction(max(likelihoods) * total, mean), Fraction(mean, min(likelihoods) * total))
    return Level(worst)
