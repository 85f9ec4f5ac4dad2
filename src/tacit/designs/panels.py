"""The same people in several waves: three ways to ask again, at the same level for the person.

*Fresh channels*: every wave draws through the same channel again. LIP levels do not add, so each wave gets less than
its part (`tacit.mechanism.repeated`).

*The belief rule*: wave t is designed for the belief after the person's earlier reports, b_t = Pr(x_t | y_1…y_{t−1}).
Then λ(y) = Π λ_t(y_t), the lift of a path is the product of the waves' lifts, and levels add up exactly. Device and
collector compute b_t and the channel alike, from the reports that both know, in rationals and by closed forms.

*Two layers*: a report of each answer is drawn once and stored; every wave sends a fresh, noisier report of it. Answers
that stay cost the level of the stored report, however many waves there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from tacit.designs._design import one_thread
from tacit.designs.closed_forms import optimal_binary, repaired_response
from tacit.designs.planning import uninterrupted_design
from tacit.exact import Number, budget, exp_below, rational
from tacit.mechanism import Channel, Level, unbiased_variance
from tacit.mechanism.repeated import (
    Repeated,
    Transition,
    after,
    check_transition,
    joint_level,
    layered,
    layered_level,
    persistent,
)
from tacit.plan import Aim
from tacit.prior import Prior
from tacit.task import Task, prior_variance

#: Histories of reports that the error of the belief rule is averaged over, at most.
_MOST_HISTORIES = 3000
#: Budgets are found to this part of themselves.
_STEPS = 10


@dataclass(frozen=True)
class BeliefRule:
    """The channel of a wave for the belief after the earlier reports of a person; levels add up exactly.

    Args:
        prior: of the first answer.
        epsilon: the level of each wave.
        transition: how answers change from wave to wave; None where they stay.

    >>> rule = BeliefRule.of(Prior.uniform(["yes", "no"]), 1, persistence="0.9")
    >>> rule.belief([]).probabilities.tolist(), rule.belief([0, 0]).probabilities.round(3).tolist()
    ([0.5, 0.5], [0.879, 0.121])
    """

    prior: Prior
    epsilon: Fraction
    transition: Transition | None = None

    @classmethod
    def of(
        cls,
        prior: Prior,
        epsilon: Number,
        *,
        persistence: Number | None = None,
        transition: Transition | None = None,
    ) -> BeliefRule:
        """From a persistence (`tacit.mechanism.repeated.persistent`) or a transition matrix; answers stay without."""
        return cls(prior, budget(epsilon), _moves(prior, persistence, transition))

    def belief(self, history: Sequence[int]) -> Prior:
        """The belief about the answer of the next wave, after these reports; exact."""
        belief = self.prior
        for report in history:
            posterior = Prior(belief.values, self._channel(belief).exact_posterior(report))
            belief = after(posterior, self.transition)
        return belief

    def channel(self, history: Sequence[int]) -> Channel:
        """The channel of the next wave, after these reports: bound to its belief, and audited."""
        return self._channel(self.belief(history))

    def _channel(self, belief: Prior) -> Channel:
        make = optimal_binary if len(belief.support) <= 2 else repaired_response
        return make(belief, self.epsilon)

    def level(self, waves: int) -> Repeated:
        """The exact joint level of this many waves, found from the definition over all reports and paths.

        It looks at every path, so it is for small cases; by its derivation it is `waves` times ε at most.
        """
        worst, moves = Fraction(1), self.transition
        size = len(self.prior)
        for reports in product(range(self.channel([]).n_possible_reports), repeat=waves):
            belief, marginal, chain = self.prior, Fraction(1), [Fraction(1) if w else None for w in self.prior.weights]
            high, low = list(chain), list(chain)
            for wave, report in enumerate(reports):
                channel = self._channel(belief)
                if report >= channel.n_possible_reports:
                    marginal = Fraction(0)
                    break
                sent = [channel.likelihood(x, report) for x in range(size)]
                marginal *= sum((Fraction(w, belief.total) * q for w, q in zip(belief.weights, sent, strict=True)),
                                Fraction(0))  # fmt: skip
                high = [None if m is None else m * q for m, q in zip(high, sent, strict=True)]
                low = [None if m is None else m * q for m, q in zip(low, sent, strict=True)]
                if not marginal:
                    break
                belief = after(Prior(belief.values, channel.exact_posterior(report)), moves)
                if moves is not None and wave + 1 < waves:
                    reach = [[x for x in range(size) if high[x] is not None and moves[x][y]] for y in range(size)]
                    high = [max((high[x] or Fraction(0) for x in places), default=None) for places in reach]
                    low = [min((low[x] or Fraction(0) for x in places), default=None) for places in reach]
            if marginal:
                most, least = max(m for m in high if m is not None), min(m for m in low if m is not None)
                worst = max(worst, most / marginal, marginal / least)
        return Repeated(Level(worst), Level(None), exact=True)


@dataclass(frozen=True, kw_only=True)
class PanelRow:
    """One way to ask the same people again: the ε of a wave, the level for the person over all, and the error.

    `error` is the standard error of one wave's estimate from one respondent, of the mean variance of all waves; of a
    histogram, of all counts together. `exact` says that the level is exact, not a bound.
    """

    way: str
    epsilon: float
    level: float
    exact: bool
    error: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"level": None if math.isinf(self.level) else self.level}


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The ways compared, at the same level for the person; `fresh_at_epsilon` is what the stated ε would reach."""

    rows: tuple[PanelRow, ...]
    waves: int
    level: float
    fresh_at_epsilon: PanelRow
    recommended: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = [row.to_dict() for row in self.rows]
        return {
            "waves": self.waves, "level": self.level, "ways": rows,
            "fresh_at_epsilon": self.fresh_at_epsilon.to_dict(), "recommended": self.recommended,
        }  # fmt: skip


def compare_panel(
    prior: Prior,
    task: Task | str,
    epsilon: Number,
    waves: int,
    *,
    persistence: Number | None = None,
    transition: Transition | None = None,
    aim: Aim = "unbiased",
) -> Panel:
    """Compare fresh channels, the belief rule and two layers for a panel, all at the level `waves`·ε for the person.

    Args:
        prior: of the answers.
        task: what is estimated in every wave.
        epsilon: the level of a wave; the person's level over all waves is `waves` times it.
        waves: how many.
        persistence: the probability of keeping the answer from wave to wave, else one is drawn from the prior; 1
            without it.
        transition: the probability of each next answer, a row for each, instead of the persistence.
        aim: as of `design`.

    Returns:
        The comparison, with the way of least error as the recommendation.

    >>> found = compare_panel(Prior.uniform(["yes", "no"]), "histogram", "0.5", 6, persistence="0.9")
    >>> round(found.fresh_at_epsilon.level, 2), found.level, found.recommended
    (4.13, 3.0, 'two layers')
    """
    asked, level = Task.of(task), budget(epsilon)
    if not 2 <= waves <= 1000:
        raise ValueError(f"The 'waves' must be at least 2. Got {waves}.")
    moves = _moves(prior, persistence, transition)
    total = waves * level

    def made(budget_of_one: Fraction) -> Channel:
        table = uninterrupted_design(prior, asked, budget_of_one, aim=aim).mechanism.table()
        if table is None:
            raise ValueError("Ways to ask a panel are compared where the channel is a table: use fewer values.")
        return table

    with one_thread():
        fresh, stated = _fresh(made, level, waves, moves, total, asked)
        others = _belief(prior, level, waves, moves, asked), _two_layers(made, total, waves, moves, asked)
    rows = [fresh, *(row for row in others if row is not None)]
    best = min(rows, key=lambda row: row.error)
    return Panel(rows=tuple(rows), waves=waves, level=float(total), fresh_at_epsilon=stated, recommended=best.way)


def _moves(prior: Prior, persistence: Number | None, transition: Transition | None) -> Transition | None:
    if persistence is not None and transition is not None:
        raise ValueError("Give the persistence or a transition matrix, not both.")
    if transition is not None:
        return check_transition(transition, len(prior))
    return None if persistence is None or rational(persistence) == 1 else persistent(prior, persistence)


Maker = Callable[[Fraction], Channel]


def _fresh(
    made: Maker, level: Fraction, waves: int, moves: Transition | None, total: Fraction, task: Task
) -> tuple[PanelRow, PanelRow]:
    """The same channel in every wave: with the largest ε whose joint level is `total`, and with ε = total/waves."""

    def tried(epsilon: Fraction) -> tuple[Channel, Repeated]:
        channel = made(epsilon)
        return channel, joint_level([channel] * waves, moves)

    def row(epsilon: Fraction, found: tuple[Channel, Repeated]) -> PanelRow:
        channel, joint = found
        return PanelRow(
            way="fresh channels", epsilon=float(epsilon), level=joint.lip.epsilon, exact=joint.exact,
            error=_error(channel, task),
        )  # fmt: skip

    stated = level, tried(level)
    low, high = total / (2 * waves - 1), level
    best = low, tried(low)
    if stated[1][1].lip.holds(total):
        best, low = stated, high
    for _ in range(_STEPS if best[1][1].exact and low < high else 0):
        middle = ((low + high) / 2).limit_denominator(10_000)
        found = tried(middle)
        if found[1].lip.holds(total):
            best, low = (middle, found), middle
        else:
            high = middle
    return row(*best), row(*stated)


def _belief(prior: Prior, level: Fraction, waves: int, moves: Transition | None, task: Task) -> PanelRow | None:
    """What randomization adds to the variance of a wave's unbiased mean is the mean over histories, under the belief
    that each leaves.
    """
    rule = BeliefRule(prior, level, moves)
    spread, seen, now = 0.0, 0, prior
    # Histories with their probabilities, wave by wave; equal beliefs are looked at once.
    beliefs: dict[Prior, float] = {prior: 1.0}
    for wave in range(1, waves + 1):
        later: dict[Prior, float] = {}
        spread += prior_variance(now, task)
        now = after(now, moves)
        for belief, chance in beliefs.items():
            channel = rule._channel(belief)
            seen += 1
            spread += chance * (unbiased_variance(channel, task) - prior_variance(belief, task))
            for report, share in enumerate(channel.marginal):
                if share > 0:
                    posterior = after(Prior(belief.values, channel.exact_posterior(report)), moves)
                    later[posterior] = later.get(posterior, 0.0) + chance * float(share)
        beliefs = later
        if seen + len(beliefs) > _MOST_HISTORIES:
            # Far into the series beliefs have settled: the waves so far stand for the rest.
            spread *= waves / wave
            break
    error = math.sqrt(spread / waves)
    return PanelRow(way="belief rule", epsilon=float(level), level=float(waves * level), exact=True, error=error)


def _two_layers(made: Maker, total: Fraction, waves: int, moves: Transition | None, task: Task) -> PanelRow | None:
    """A stored report at the level of all waves, and the most precise fresh report of it that keeps that level."""
    first = made(total)
    size = first.n_possible_reports
    if moves is None:
        # Nothing has to be hidden by fresh noise: the stored report itself is sent again.
        level = first.audit().lip.epsilon
        return PanelRow(way="two layers", epsilon=level, level=level, exact=True, error=_error(first, task))

    def tried(epsilon: Fraction) -> tuple[Channel, Repeated]:
        second = Channel.from_weights(Prior.uniform(size), _response(size, epsilon))
        return second, layered_level(first, second, waves, moves)

    low, high = Fraction(0), 2 * total
    best: tuple[Channel, Repeated] | None = None
    for _ in range(_STEPS):
        middle = ((low + high) / 2).limit_denominator(10_000)
        found = tried(middle)
        if found[1].lip.holds(total):
            best, low = found, middle
        else:
            high = middle
    if best is None:
        return None
    one = layered(first, best[0])
    return PanelRow(
        way="two layers", epsilon=one.audit().lip.epsilon, level=best[1].lip.epsilon, exact=best[1].exact,
        error=_error(one, task),
    )  # fmt: skip


def _response(size: int, epsilon: Fraction) -> list[list[int]]:
    """Randomized response over the stored reports, in integers, at most at this LDP level."""
    bound = exp_below(epsilon).limit_denominator(10**6)
    bound = bound if bound <= exp_below(epsilon) else bound - Fraction(1, 10**6)
    return [[bound.numerator if x == y else bound.denominator for y in range(size)] for x in range(size)]


def _error(channel: Channel, task: Task) -> float:
    return math.sqrt(max(0.0, unbiased_variance(channel, task)))
