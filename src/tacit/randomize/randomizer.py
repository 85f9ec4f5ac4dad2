"""The randomizer of a plan: answers in, reports out. Every mechanism draws by its own rule, see `tacit.mechanism`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Integers
from tacit.mechanism import KINDS
from tacit.mechanism.protocol import RandomWords, Sampler
from tacit.plan import Plan
from tacit.prior import Value
from tacit.randomize.randomness import SecureWords


class Randomizer:
    """A plan, ready to randomize the answers of its groups.

    Groups and answers are given as positions in `plan.groups` and `plan.values` (`report`, `reports`) or as they are
    called (`randomize`); a report is an integer that means something only together with its group. Unless words are
    passed in, they come from a secure generator.

    >>> from tacit import Histogram, Prior, make_plan
    >>> randomizer = Randomizer(make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Histogram(), epsilon=1))
    >>> randomizer.randomize(["yes", "no", "no"]).shape
    (3,)
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._samplers: list[tuple[Sampler, list[int]]] = []
        #: For each group: which sampler draws its reports, and the group's place among the members of that sampler.
        self._places: list[tuple[int, int]] = [(0, 0)] * len(plan.groups)
        for kind, mechanism in KINDS.items():
            members = [k for k, group in enumerate(plan.groups) if group.mechanism.kind == kind]
            if members:
                for place, k in enumerate(members):
                    self._places[k] = len(self._samplers), place
                groups = [plan.groups[k] for k in members]
                sampler = mechanism.sampler([group.mechanism for group in groups])
                self._samplers.append((sampler, members))

    def report(self, group: int, position: int, words: RandomWords | None = None) -> int:
        """One respondent's report."""
        which, member = self._places[group]
        return self._samplers[which][0].one(member, position, words or secure_words())

    def reports(self, groups: Any, positions: Any, words: RandomWords | None = None) -> Integers:
        """A report for each respondent. `groups` has a group for each, or is that of all."""
        source, places, owners = words or secure_words(), np.asarray(positions), np.asarray(groups)
        if places.ndim != 1:
            raise ValueError(f"The positions must be in a row. Got an array of {places.ndim} dimensions instead.")
        # The loops that draw do not look where they read.
        _check_below(len(self.plan.values), places, "positions")
        _check_below(len(self.plan.groups), owners, "groups")
        if not owners.ndim:
            owners = np.broadcast_to(owners, places.shape)
        if len(self._samplers) == 1:
            # All groups are members of the one sampler, in their order.
            return self._samplers[0][0].many(owners, places, source)
        reports = np.empty(len(places), dtype=np.int64)
        which, member = np.array(self._places, dtype=np.int64).T
        for number, (sampler, _) in enumerate(self._samplers):
            mine = np.flatnonzero(which[owners] == number)
            reports[mine] = sampler.many(member[owners[mine]], places[mine], source)
        return reports

    def randomize(
        self, answers: Sequence[Value], groups: Sequence[str] | None = None, words: RandomWords | None = None
    ) -> Integers:
        """A report for each answer, given as it is called in the plan, in the group of that name."""
        if groups is None and self.plan.groups[0].name is not None:
            raise ValueError("This plan names groups: give the group of each answer.")
        named = [None] * len(answers) if groups is None else list(groups)
        if len(named) != len(answers):
            raise ValueError(f"There must be one group for each answer. Got {len(named)} for {len(answers)}.")
        source = words or secure_words()
        places = (
            self.rounded(answers, source)
            if self.plan.between
            else [_place(self._value_places, _plain(answer), "values") for answer in answers]
        )
        members = [_place(self._group_places, _plain(name), "groups") for name in named]
        return self.reports(np.array(members, dtype=np.int64), np.array(places, dtype=np.int64), source)

    def rounded(self, numbers: Any, words: RandomWords | None = None) -> Integers:
        """Positions of the values that numbers between them are rounded to, at random, so that the mean is kept.

        With a ≤ x ≤ b the neighbours and u a word of 64 bits, x becomes b if ⌊u/2¹¹⌋ < ⌊2⁵³·(x − a)/(b − a)⌋, in floats
        that every language computes alike; else a. The chance differs from (x − a)/(b − a) by less than 2⁻⁵⁰, which
        concerns the estimate only: whichever neighbour it is, its channel keeps the promise, and so does the mixture.
        """
        knots = self.plan.groups[0].prior.numbers
        held = np.asarray(numbers, dtype=np.float64)
        if not ((held >= knots[0]) & (held <= knots[-1])).all():
            raise ValueError(f"Answers must be numbers from {knots[0]:g} to {knots[-1]:g}. Some are not.")
        below = np.minimum(np.searchsorted(knots, held, side="right") - 1, len(knots) - 2)
        part = (held - knots[below]) / (knots[below + 1] - knots[below])
        drawn = (words or secure_words()).draw(len(held), 64) >> np.uint64(11)
        positions: Integers = below + (drawn < np.floor(part * 2.0**53).astype(np.uint64))
        return positions

    @cached_property
    def _value_places(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.plan.values)}

    @cached_property
    def _group_places(self) -> dict[Any, int]:
        return {group.name: place for place, group in enumerate(self.plan.groups)}


@cache
def secure_words() -> SecureWords:
    """The secure generator of this process."""
    return SecureWords()


def _check_below(size: int, numbers: NDArray[Any], what: str) -> None:
    """Raise unless all numbers are integers from 0 to size − 1."""
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise ValueError(f"The {what} must be integers. Got numbers of the type {numbers.dtype} instead.")
    # Below zero they are large without a sign, which takes one look instead of two.
    unsigned = numbers.view(f"u{numbers.dtype.itemsize}") if numbers.dtype.kind == "i" else numbers
    if numbers.size and int(unsigned.max()) >= size:
        raise ValueError(f"The {what} must be from 0 to {size - 1}. Some are not.")


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _place(places: dict[Any, int], label: Any, what: str) -> int:
    try:
        return places[label]
    except (KeyError, TypeError):
        # Never the label: it may be somebody's answer.
        raise ValueError(f"A label is none of the plan's {len(places)} {what}.") from None
