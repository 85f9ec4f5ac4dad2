"""Tables read words from their beginning, and on where that leaves a report open: the same rule, word for word."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from tacit import Histogram, Prior
from tacit.designs import optimal_binary, repaired_response
from tacit.mechanism.table import _sampler as table_sampler
from tacit.mechanism.table._sampler import Beginnings, TableSampler
from tacit.plan import Group, Plan
from tacit.randomize import DerivedWords, Randomizer, SecureWords, SeededWords

#: Weights over 2^16. Some reports are never sent, some thresholds fall together, into one byte or between two.
FEW = [[0, 0xA07F, 0x5F81, 0], [1, 0, 0xFFFE, 1], [0x10000, 0, 0, 0], [0x4000] * 4, [0x0180, 0x00C0, 0xFDC0, 0]]


def many_reports(count: int, total: int) -> list[list[int]]:
    rows = np.random.default_rng(count).multinomial(total, np.full(count, 1 / count), size=3)
    return [row.tolist() for row in rows]


#: For each: weights, how many bits of a word are drawn first, and how many of these are looked at.
TABLES = {
    "a byte": (FEW, 8, 8),
    "nine bits of 16": (many_reports(20, 2**16), 16, 9),
    "all of 16 bits": (many_reports(3000, 2**20), 16, 16),
}


def sampler_of(rows: list[list[int]]) -> TableSampler:
    return TableSampler([(np.array(rows, dtype=object), sum(rows[0]))])


def lazily(sampler: TableSampler, rows: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, int]:
    """The reports of whole words of 32 bits that are handed out as they are asked for, and how many were read on."""
    bits, reports = sampler.beginnings.bits, np.full(len(rows), -1)
    begun = (words >> np.uint32(32 - bits)).astype(f"u{bits // 8}")
    left_open = sampler.begin(rows, begun, reports)
    sampler.read_on(left_open, rows, begun, words[left_open] << np.uint32(bits), reports)
    return reports, len(left_open)


def decides_too_early(sampler: TableSampler) -> None:
    """The named wrong rule: a beginning that leaves the report open is taken for the one before it."""
    bits, shift, decided = sampler.beginnings
    nothing = np.iinfo(decided.dtype).max
    early = np.array([np.maximum.accumulate(np.where(row == nothing, 0, row)) for row in decided]).astype(decided.dtype)
    sampler.__dict__["beginnings"] = Beginnings(bits, shift, early)


@pytest.mark.parametrize("table", TABLES)
def test_all_words_give_the_reports_of_the_rule_and_counts_equal_the_weights(table):
    """Thresholds are multiples of 2^32/total: the first and the last word between two of these stand for all."""
    weights, bits, looked_at = TABLES[table]
    total = sum(weights[0])
    sampler, wrong = sampler_of(weights), sampler_of(weights)
    assert (sampler.beginnings.bits, sampler.beginnings.bits - sampler.beginnings.shift) == (bits, looked_at)
    decides_too_early(wrong)
    first = np.arange(total, dtype=np.uint32) * np.uint32(2**32 // total)
    words, missed = np.concatenate([first, first + np.uint32(2**32 // total - 1)]), 0
    for row, expected in enumerate(weights):
        rows = np.full(len(words), row)
        reports, read_on = lazily(sampler, rows, words)
        whole = np.empty(len(words), dtype=np.int64)
        sampler.apply(rows, words, whole)
        assert (reports == whole).all()
        assert reports[:: 2**10].tolist() == [sampler.report_for(row, int(word)) for word in words[:: 2**10]]
        assert np.bincount(reports, minlength=len(expected)).tolist() == [2 * weight for weight in expected]
        assert read_on <= len(words) / 16
        missed += int((lazily(wrong, rows, words)[0] != whole).sum())
    assert missed


def test_as_many_words_are_read_on_for_one_answer_as_for_another():
    """However many thresholds an answer has; tables may differ, as groups are public."""
    tables = [(np.array(rows, dtype=object), 2**16) for rows in (FEW, [[2**15, 2**15], [2**14, 3 * 2**14]])]
    sampler = TableSampler(tables)
    left_open = (sampler.beginnings.reports == 255).sum(axis=1).tolist()
    assert left_open == [2] * len(FEW) + [0, 0]
    alone = [int((sampler._reports_at(x, 8) != sampler._reports_at(x, 8, ends=True)).sum()) for x in range(len(FEW))]
    assert len(set(alone)) > 1


def test_large_tables_take_whole_words():
    sampler = sampler_of(many_reports(5000, 2**20))
    assert sampler.beginnings is None
    with pytest.raises(ValueError, match="too large"):
        sampler.begin(np.zeros(1, int), np.zeros(1, np.uint16), np.zeros(1, int))
    people = np.zeros(1000, dtype=np.int64)
    expected = [sampler.report_for(0, int(word)) for word in SeededWords(1).draw(1000, 32)]
    assert sampler.many(people, people, SeededWords(1)).tolist() == expected


@pytest.mark.parametrize("epsilon", [1, Fraction(1, 10**6), Fraction(1, 10**15)])
def test_one_stream_is_read_chunk_by_chunk_in_the_order_of_the_respondents(epsilon):
    """Words of 32, 64 and 96 bits."""
    channel, rng = optimal_binary(Prior.of({"a": 1, "b": 2}), epsilon), np.random.default_rng(0)
    sampler = TableSampler([(channel.weights, channel.denominator)])
    positions, stream, bits = rng.integers(0, 2, 2**16 + 5000), SeededWords(1), sampler.word_bits
    expected: list[int] = []
    for rows in (positions[: 2**16], positions[2**16 :]):
        begun = stream.draw(len(rows), 8)
        reports = np.empty(len(rows), dtype=np.int64)
        left_open = sampler.begin(rows, begun, reports).tolist()
        drawn = min(bits, 64)
        for i, more in zip(left_open, stream.draw(len(left_open), drawn).tolist(), strict=True):
            # Of longer words, zeros stand for what is not drawn since it decides nothing.
            word = (int(begun[i]) << drawn - 8 | more >> 8) << bits - drawn
            reports[i] = sampler.report_for(int(rows[i]), word)
        expected += reports.tolist()
    assert len(left_open) > 5
    assert sampler.many(np.zeros_like(positions), positions, SeededWords(1)).tolist() == expected


class Scripted:
    """One word of 66 bits, in the pieces in which it is asked for."""

    per_thread = False

    def __init__(self, word: int) -> None:
        self._word, self._begun, self.to_the_end = word, 0, False

    def draw(self, count: int, bits: int) -> np.ndarray:
        piece = (self._word >> 2 << self._begun) % 2**64 >> 64 - bits
        self._begun = bits
        return np.full(count, piece, dtype=f"u{bits // 8}")

    def integer(self, bits: int) -> int:
        self.to_the_end = True
        return self._word % 2**bits


@pytest.mark.parametrize("most_bytes", [2**20, 0])
def test_words_beyond_64_bits_are_read_to_the_end_where_that_decides(most_bytes, monkeypatch):
    """The threshold is one word into four that share their first 64 bits: those bits alone would give 0, 0, 0, 0."""
    monkeypatch.setattr(table_sampler, "_MOST_BYTES", most_bytes)
    threshold = 2**65 + 1
    sampler, nobody = sampler_of([[threshold, 2**66 - threshold]]), np.zeros(1, dtype=np.int64)
    assert sampler.word_bits == 66
    assert (sampler.beginnings is None) == (most_bytes == 0)
    for word in [0, *range(threshold - 9, threshold + 9), 2**66 - 5]:
        words = Scripted(word)
        assert sampler.many(nobody, nobody, words).tolist() == [int(word >= threshold)]
        assert words.to_the_end == (word >> 2 == threshold >> 2)


def p_value(reports: np.ndarray, chance: float) -> float:
    expected = np.array([chance, 1 - chance]) * len(reports)
    counts = np.bincount(reports, minlength=2)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 1))


def test_secure_reports_follow_a_threshold_within_a_byte_and_deciding_too_early_shows():
    """One half and 1/512: the rule that decides by the byte alone is off by 1/512, some eight standard deviations."""
    weights = [[2**15 + 2**7, 2**15 - 2**7], [2**15, 2**15]]
    people = np.zeros(4_000_000, dtype=np.uint8)
    right, wrong = sampler_of(weights), sampler_of(weights)
    decides_too_early(wrong)
    chance = weights[0][0] / 2**16
    assert p_value(right.many(people, people, SecureWords()), chance) > 1e-9
    # Seeded: eight standard deviations fall below six once in forty times.
    assert p_value(wrong.many(people, people, SeededWords(1)), chance) < 1e-9


def two_groups() -> Plan:
    prior = Prior.of({"a": 5, "b": 3, "c": 2})
    groups = [
        Group(name=name, epsilon=Fraction(epsilon), mechanism=repaired_response(prior, epsilon))
        for name, epsilon in (("a", 1), ("b", 2))
    ]
    return Plan.of_groups(Histogram(), tuple(groups))


def test_a_task_that_is_done_again_reports_the_same():
    """With several groups, and more rows than a chunk has."""
    randomizer, rng, key = Randomizer(two_groups()), np.random.default_rng(0), bytes(32)
    groups, positions = rng.integers(0, 2, 100_000), rng.integers(0, 3, 100_000)
    first, again, other = (
        randomizer.reports(groups, positions, DerivedWords(key, rows)) for rows in (b"1", b"1", b"2")
    )
    assert (first == again).all()
    assert 0.2 < (first == other).mean() < 0.8


def test_one_group_may_stand_for_all():
    randomizer, positions = Randomizer(two_groups()), np.arange(300) % 3
    expected = randomizer.reports(np.ones(300, dtype=np.int64), positions, SeededWords(2))
    assert (randomizer.reports(1, positions, SeededWords(2)) == expected).all()
