"""Drawing reports by a rule for values with positive prior.

A value with prior zero is replaced by a stand-in: a value drawn from the prior, which says nothing about its holder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from threading import Thread
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Integers
from tacit.mechanism.protocol import RandomWords
from tacit.prior import Prior


class Rule(Protocol):
    """What draws a report from a value of the support and some words of `word_bits` bits: a pure function.

    `draw_many` stays on the core that it is called on; `steps_per_report` says what a report costs there, in steps of a
    loop, so that others are called where it pays.
    """

    @property
    def words_per_report(self) -> int: ...

    @property
    def steps_per_report(self) -> int: ...

    @property
    def word_bits(self) -> int: ...

    def draw(self, value: int, words: tuple[int, ...]) -> int: ...

    def draw_many(self, values: Integers, words: NDArray[np.uint64]) -> Integers: ...


class RuleSampler:
    """Rules with their stand-ins, ready to draw."""

    def __init__(self, rules: Sequence[tuple[Rule, StandIn]]) -> None:
        self._members = rules

    def one(self, member: int, position: int, words: RandomWords) -> int:
        """One respondent's report."""
        rule, stand_in = self._members[member]
        inside = stand_in.one(position, words)
        return rule.draw(inside, tuple(words.integer(rule.word_bits) for _ in range(rule.words_per_report)))

    def each(self, positions: Integers, words: Sequence[RandomWords]) -> Integers:
        """What `one` draws for each respondent from a source of words of the respondent's own, of the first rule."""
        rule, stand_in = self._members[0]
        inside = [stand_in.one(position, source) for position, source in zip(positions.tolist(), words, strict=True)]
        drawn = [[source.integer(rule.word_bits) for _ in range(rule.words_per_report)] for source in words]
        shape = len(drawn), rule.words_per_report
        return rule.draw_many(np.array(inside, dtype=np.int64), np.array(drawn, dtype=np.uint64).reshape(shape))

    def many(self, members: Integers, positions: Integers, words: RandomWords) -> Integers:
        """A report for each respondent; of a chunk of them, one mechanism after the other."""
        reports = np.empty(len(positions), dtype=np.int64)

        def draw(few: slice) -> None:
            if len(self._members) == 1:
                reports[few] = self._of(0, positions[few], words)
                return
            for member in range(len(self._members)):
                mine = few.start + np.flatnonzero(members[few] == member)
                if len(mine):
                    reports[mine] = self._of(member, positions[mine], words)

        for rule, stand_in in self._members:
            # Lazy parts of a rule are made here, before threads share it.
            rule.draw_many(stand_in.many(positions[:0], words), np.empty((0, rule.words_per_report), dtype=np.uint64))
        in_chunks(len(positions), words, draw, max(rule.steps_per_report for rule, _ in self._members))
        return reports

    def _of(self, member: int, positions: Integers, words: RandomWords) -> Integers:
        rule, stand_in = self._members[member]
        inside = stand_in.many(positions, words)
        drawn = words.draw(len(inside) * rule.words_per_report, 64).reshape(-1, rule.words_per_report)
        return rule.draw_many(inside, drawn if rule.word_bits == 64 else drawn >> np.uint64(64 - rule.word_bits))


class StandIn:
    """Positions in the domain to positions in the support; a value outside it is replaced by a draw from the prior.

    Where the prior has zeros, every answer takes one word of 64 bits, used or not: the number of words does not depend
    on the answer.
    """

    def __init__(self, prior: Prior) -> None:
        self._inside = np.full(len(prior), -1, dtype=np.int64)
        self._inside[list(prior.support)] = np.arange(len(prior.support))
        # Thresholds of 64-bit words. Rounding them does not touch the promise, which excludes values with prior zero.
        sums = list(accumulate(prior.weights[x] for x in prior.support))
        self._edges = np.array([min(2**64 - 1, part * 2**64 // sums[-1]) for part in sums[:-1]], dtype=np.uint64)
        self._has_zeros = len(prior.support) < len(prior)

    def one(self, position: int, words: RandomWords) -> int:
        """The place in the support of one answer or its stand-in."""
        if not self._has_zeros:
            return position
        word, inside = words.integer(64), int(self._inside[position])
        return inside if inside >= 0 else int(np.searchsorted(self._edges, np.uint64(word), side="right"))

    def many(self, positions: Integers, words: RandomWords) -> Integers:
        """The same for an array."""
        if not self._has_zeros:
            return np.asarray(positions)
        inside: Integers = self._inside[positions]
        drawn, outside = words.draw(len(inside), 64), inside < 0
        inside[outside] = np.searchsorted(self._edges, drawn[outside], side="right")
        return inside


#: A thread is started for at least this many steps of a loop.
_STEPS_PER_THREAD = 2**16
#: Reports drawn per call of a loop: few enough that their words stay in the cache of the core that made them.
_CHUNK = 2**16


def in_threads(rows: int, work: Callable[[int, slice], None], steps: int = 1) -> None:
    """Call work(k, rows of part k) for parts of `rows` rows that take `steps` each, at most one part for each core.

    This thread takes the first part. The others end with the call, unlike those of OpenMP and of pools: a process that
    forks afterwards, as multiprocessing, Dask and gunicorn do, has none that its child would wait for in vain.

    >>> done = np.zeros(200_000, dtype=bool)
    >>> in_threads(len(done), lambda k, part: done.__setitem__(part, True))
    >>> bool(done.all())
    True
    """
    count = n_threads(rows, steps)
    failures: list[BaseException] = []

    def attempt(k: int) -> None:
        try:
            work(k, slice(k * rows // count, (k + 1) * rows // count))
        except BaseException as failure:
            failures.append(failure)

    others = [Thread(target=attempt, args=(k,)) for k in range(1, count)]
    for thread in others:
        thread.start()
    attempt(0)
    for thread in others:
        thread.join()
    if failures:
        raise failures[0]


def in_chunks(rows: int, words: RandomWords, draw: Callable[[slice], None], steps: int = 1) -> None:
    """Call draw(chunk) for chunks of `rows` rows that take `steps` each: in threads where each has a stream of its own;
    one stream's words are taken in the order of the rows, for any number of cores.
    """

    def work(_: int, part: slice) -> None:
        for start in range(part.start, part.stop, _CHUNK):
            draw(slice(start, min(start + _CHUNK, part.stop)))

    if words.per_thread:
        in_threads(rows, work, steps)
    else:
        work(0, slice(0, rows))


def n_threads(rows: int, steps: int = 1) -> int:
    """How many parts `in_threads` makes."""
    import numba

    cores: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return max(1, min(cores, rows, rows * steps // _STEPS_PER_THREAD))
