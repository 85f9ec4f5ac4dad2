"""The ledger: which people have answered which waves, and what their reports add up to.

It lists no answers and no reports, only who took part, as keyed hashes: without the file's own key they match no name,
but a holder of the file can try names, so it is kept like a list of participants. A browser keeps the same for its own
user, with the reports that it sent (`browser/ledger.js`, which reads and writes this format).

Reports about one person add up as follows, for any dependence between the answers. With ε_t the LIP level of report t
and δ_t its LDP level, both alone,

    Σ_t min(2ε_t, δ_t) − max_t (min(2ε_t, δ_t) − min(ε_t, δ_t))

bounds the LIP level of all: 2Σε_t − max ε_t where no LDP level is small, Σδ_t where LDP was promised. In the lift
Π Q_t(y_t|x_t) / E Π Q_t(y_t|X_t) a report is taken out of the expectation at a cost of e^δ_t, because
Q_t(y_t|x) ≤ e^δ_t Q_t(y_t|x'), or of e^2ε_t, because Q_t(y_t|·) is within e^±ε_t of its mean; the last one costs e^ε_t.
Where the ledger has the `columns` of reports and their sequences are few, the level of those reports is computed from
all sequences (`tacit.mechanism.repeated.largest_ratio`), and the other reports are added at min(2ε_t, δ_t) each; the
smaller of both sums counts. LDP levels add up to Σδ_t. The waves of a series by the belief rule count as one report
with the sum of their levels, if answers change as the plans state; those of a plan in two layers as one report of the
lifelong level, as long as the answer stays and the plans store reports alike; in another group a person has another
stored report, so groups of such plans are noted.

The key is also the memory of the devices for two layers: stored reports follow from it. It stays on the side of the
respondents, and is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from tacit.disk import write_text
from tacit.exact import Number, at_most_exp, budget, exact_integers, exact_ratio, float_above, log_above
from tacit.files.columns import InputError
from tacit.mechanism.repeated import Column, columns_of, largest_ratio, n_sequences
from tacit.plan import Plan

FORMAT = 1
#: Hexadecimal digits of a person's tag.
_DIGITS = 24
#: Longer questions are cut; ratios of odds from here on are not bounded. Both as in browsers.
_QUESTION, _MOST_ODDS = 300, 2**1000
#: Levels that are computed are rounded up to a millionth, so that every language writes the same.
_PARTS = 10**6
#: Columns of reports are kept up to this many heights in all, and sequences of reports looked at up to this many.
_MOST_HEIGHTS, _MOST_SEQUENCES = 64, 1000


@dataclass(frozen=True)
class Occasion:
    """One wave of a survey: its first wording's hash names it. `lip` and `ldp` are the levels of one report, the worst
    of all groups; `ldp` is None where it is not bounded. `series` is the first wave's name, also in the first wave.
    The `rule` is "belief" where the plan follows the wave before, "layers" where it has two; levels are then lifelong.
    `stored` says which plans share stored reports: their levels do not add up.
    `columns` are those of the reports of all groups, under all priors in question; none where they are many.
    """

    name: str
    series: str
    wave: int
    question: str | None
    lip: Fraction
    ldp: Fraction | None
    rule: str | None = None
    columns: tuple[Column, ...] = ()
    stored: str | None = None

    @classmethod
    def of(cls, plan: Plan) -> Occasion:
        """The occasion to answer this plan."""
        layers = [group.layers for group in plan.groups if group.layers is not None]
        audits = [each.stored.audit() for each in layers] or [group.audit for group in plan.groups]
        odds = [audit.ldp.ratio for audit in audits]
        most = max((ratio for ratio in odds if ratio is not None), default=Fraction(1))
        ldp = None if None in odds or most >= _MOST_ODDS else _level_above(most)
        question = None if plan.heading is None else plan.heading[:_QUESTION]
        lip = max([each.lifelong for each in layers] or [group.epsilon for group in plan.groups])
        rule = "layers" if layers else None if plan.follows is None else "belief"
        columns = _columns_of(plan) if plan.block_column is None and rule != "belief" else ()
        return cls(plan.hashes[0], plan.first_wave, plan.wave, question, lip, ldp, rule, columns, plan.stored)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Occasion:
        """From JSON. Raises `ValueError` and the like unless everything is as Tacit writes it."""
        lip, ldp = budget(exact_ratio(data["lip"])), None if data["ldp"] is None else exact_ratio(data["ldp"])
        rule = data.get("rule")
        columns = tuple(tuple(map(_step_of, column)) for column in data.get("columns", ()))
        if not all(map(_is_column, columns)) or sum(map(len, columns)) > _MOST_HEIGHTS:
            raise ValueError("not columns")
        named, stored = (data["occasion"], data["series"], data["wave"], data["question"]), data.get("stored")
        found = cls(*named, lip, ldp, rule, columns, stored)
        written = found.name, found.series, *([] if stored is None else [stored])
        hashes = all(re.fullmatch("[0-9a-f]{64}", each) for each in written)
        counted = type(found.wave) is int and 1 <= found.wave < 2**31
        if rule not in (None, "belief", "layers") or (rule == "layers") == (stored is None):
            raise ValueError("not a rule")
        if not (hashes and counted and isinstance(found.question, str | None) and (ldp is None or ldp >= 0)):
            raise ValueError("not an occasion")
        return found

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        ldp = None if self.ldp is None else str(self.ldp)
        told = {"series": self.series, "wave": self.wave, "question": self.question}
        rule = {} if self.rule is None else {"rule": self.rule}
        written = [[list(dict.fromkeys(map(str, step[1:]))) for step in column] for column in self.columns]
        heights = [[[str(height), *shares] for (height, *_), shares in zip(column, each, strict=True)]
                   for column, each in zip(self.columns, written, strict=True)]  # fmt: skip
        columns = {"columns": heights} if heights else {}
        stored = {} if self.stored is None else {"stored": self.stored}
        return {"occasion": self.name, **told, "lip": str(self.lip), "ldp": ldp, **rule, **columns, **stored}


def _columns_of(plan: Plan) -> tuple[Column, ...]:
    """The columns of all groups, if they are few; of two layers those of the stored report. A promise of LDP is for
    every prior, and under the worst one LDP levels add up: it has none.
    """
    drawn = [(group.mechanism if group.layers is None else group.layers.stored, group) for group in plan.groups]
    tables = [(table, group.prior_set) for mechanism, group in drawn if (table := mechanism.table()) is not None]
    size = sum(len(table.prior.support) * table.n_possible_reports for table, _ in tables)
    if len(tables) < len(drawn) or size > _MOST_HEIGHTS or any(group.notion == "ldp" for group in plan.groups):
        return ()
    return tuple(dict.fromkeys(column for table, around in tables for column in columns_of(table, around)))


def _step_of(written: list[str]) -> tuple[int, Fraction, Fraction]:
    """A height and its two probabilities, of which equal ones are written once."""
    height, *shares = written
    (likelihood,) = exact_integers([height])
    high, low = map(exact_ratio, shares if len(shares) == 2 else shares * 2)
    return likelihood, high, low


def _is_column(column: Column) -> bool:
    rising = all(a < b for (a, *_), (b, *_) in pairwise(column))
    falling = all(a >= b and c >= d for (_, a, c), (_, b, d) in pairwise(column))
    whole = bool(column) and column[0][1] == column[0][2] == 1
    return whole and rising and falling and all(0 <= low <= high > 0 for _, high, low in column)


def _level_above(ratio: Fraction) -> Fraction:
    """The least number of millionths that is not below ln(ratio), decided exactly."""
    parts = math.ceil(log_above(ratio) * _PARTS)
    while parts and at_most_exp(ratio, Fraction(parts - 1, _PARTS)):
        parts -= 1
    while not at_most_exp(ratio, Fraction(parts, _PARTS)):
        parts += 1
    return Fraction(parts, _PARTS)


def added_up(occasions: Iterable[Occasion]) -> tuple[Fraction, Fraction | None]:
    """The LIP bound of one report on each occasion, and the sum of the LDP levels, None where one is not bounded.

    >>> first = Occasion("a", "a", 1, None, Fraction(1), Fraction(5))
    >>> [str(level) for level in added_up([first, Occasion("b", "a", 2, None, Fraction(1, 2), Fraction(5))])]
    ['2', '10']
    >>> [str(level) for level in added_up([first, Occasion("b", "a", 2, None, Fraction(1, 2), Fraction(5), "belief")])]
    ['3/2', '10']
    >>> coin = (((1, Fraction(1), Fraction(1)), (3, Fraction(1, 2), Fraction(1, 2))),)
    >>> twice = [replace(first, columns=coin, name=name) for name in ("a", "b")]
    >>> str(added_up(twice)[0])  # ln 5, and not 3
    '804719/500000'
    """
    told = _releases(occasions)
    if not told:
        return Fraction(0), Fraction(0)
    few: list[int] = []
    for place, each in enumerate(told):
        if each.columns and n_sequences([*(told[one].columns for one in few), each.columns]) <= _MOST_SEQUENCES:
            few.append(place)
    most = [2 * each.lip if each.ldp is None else min(2 * each.lip, each.ldp) for each in told]
    once = [each.lip if each.ldp is None else min(each.lip, each.ldp) for each in told]
    odds = [each.ldp for each in told]
    ldp = None if None in odds else sum((level for level in odds if level is not None), Fraction(0))
    lip = sum(most, Fraction(0)) - max(many - one for many, one in zip(most, once, strict=True))
    ratio = largest_ratio([told[place].columns for place in few])
    if few and ratio is not None:
        others = [price for place, price in enumerate(most) if place not in few]
        lip = min(lip, _level_above(ratio) + sum(others, Fraction(0)))
    return lip, ldp


def _releases(occasions: Iterable[Occasion]) -> list[Occasion]:
    """The occasions, with those of a series by the belief rule added up, and those of two layers counted once."""
    told = list(occasions)
    followed = {each.series for each in told if each.rule == "belief"}
    alone = [each for each in told if each.rule is None and each.name not in followed]
    found: dict[str, Occasion] = {f"{each.series} {each.stored}": each for each in told if each.rule == "layers"}
    for each in told:
        if each.rule == "belief" or (each.rule is None and each.name in followed):
            before = found.get(each.series)
            if before is not None:
                odds = None if before.ldp is None or each.ldp is None else before.ldp + each.ldp
                each = replace(each, lip=before.lip + each.lip, ldp=odds, columns=())
            found[each.series] = each
    return [*alone, *found.values()]


def _in_group(told: Occasion, group: str | None) -> Occasion:
    """The occasion, of which stored reports are shared with the same group only."""
    return told if told.stored is None or group is None else replace(told, stored=f"{told.stored} {group}")


class Ledger:
    """A ledger file, read or new; `limit` is the largest LIP level that a person may add up to, None for none.

    In the order of `persons`, `groups` has the groups in which people answered plans in two layers, None for others;
    and `reports` what was sent, which only a ledger of a browser has.
    """

    def __init__(
        self, path: str | Path, key: bytes, occasions: dict[str, Occasion], persons: dict[str, list[str]],
        limit: Fraction | None, reports: dict[str, list[Any]] | None = None,
        groups: dict[str, list[str | None]] | None = None,
    ) -> None:  # fmt: skip
        self.path, self.occasions, self.persons, self.limit = Path(path), occasions, persons, limit
        self.reports, self.groups = reports, groups or {}
        self._key, self._before = key, _text_of(self.path)
        self._written: str | None = None

    @classmethod
    def open(cls, path: str | Path, limit: Number | None = None) -> Ledger:
        """The ledger at a path, empty where there is none yet. Its limit can be lowered, not raised."""
        asked = None if limit is None else budget(limit, "limit")
        if not Path(path).exists():
            return cls(path, secrets.token_bytes(16), {}, {}, asked)
        try:
            found = cls._read(path)
        except InputError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{path} is not a ledger of Tacit, or it is damaged. If it was one, restore it from a backup: a new "
                "ledger does not know who has answered. Nothing was written."
            ) from error
        kept = found.limit
        if asked is not None and kept is not None and asked > kept:
            raise InputError(f"{path} has a limit of {float(kept):g}, which cannot be raised to {float(asked):g}.")
        found.limit = asked if asked is not None else kept
        return found

    @classmethod
    def _read(cls, path: str | Path) -> Ledger:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["tacit_ledger"] != FORMAT:
            raise ValueError("another format")
        if data["hash"] != hash_of(data):
            raise InputError(f"{path} was altered: its content does not match its hash. Restore it from a backup.")
        occasions = {each.name: each for each in map(Occasion.from_dict, data["occasions"])}
        names = list(occasions)
        people = {tag: len(places) for tag, places in data["persons"].items()}
        if not all(re.fullmatch(f"[0-9a-f]{{{_DIGITS}}}", tag) for tag in people):
            raise ValueError("not tags")
        if any(len(set(places)) < len(places) or min(places) < 0 for places in data["persons"].values()):
            raise ValueError("not places")
        if "reports" in data and people != {tag: len(told) for tag, told in data["reports"].items()}:
            raise ValueError("not their reports")
        groups = data.get("groups", {})
        named = all(isinstance(name, str | None) for told in groups.values() for name in told)
        if not named or any(people[tag] != len(told) for tag, told in groups.items()):
            raise ValueError("not their groups")
        persons = {tag: [names[place] for place in places] for tag, places in data["persons"].items()}
        if not re.fullmatch("[0-9a-f]{32}", data["key"]):
            raise ValueError("not a key")
        limit = None if data["limit"] is None else budget(exact_ratio(data["limit"]))
        found = cls(path, bytes.fromhex(data["key"]), occasions, persons, limit, data.get("reports"), groups)
        # Both the text and what was read from it have this hash, so the text has no other fields or forms.
        if found.to_dict() != data:
            raise ValueError("not as Tacit writes it")
        return found

    def knows(self, series: str, person: str | None = None) -> bool:
        """Whether someone, or this person, has answered a wave of the series."""
        names = self.occasions if person is None else self.persons.get(self.tag(person), ())
        return any(self.occasions[name].series == series for name in names)

    @property
    def memory(self) -> bytes:
        """The secret that stored reports of two layers follow from (`Randomizer.reports`)."""
        return hmac.new(self._key, b"stored reports", hashlib.sha256).digest()

    def tag(self, person: str) -> str:
        """The keyed hash that stands for a person."""
        return hmac.new(self._key, person.encode("utf-8"), hashlib.sha256).hexdigest()[:_DIGITS]

    def add(self, plan: Plan, people: Iterable[str] | Mapping[str, str | None]) -> None:
        """Note that these people draw a report of the plan, in these groups where they are known. Raises, and notes
        nothing, where one may not.
        """
        now = Occasion.of(plan)
        known = people if isinstance(people, Mapping) else dict.fromkeys(people)
        group_of = {self.tag(person): None if now.stored is None else group for person, group in known.items()}
        same = {each.name for each in self.occasions.values() if (each.series, each.wave) == (now.series, now.wave)}
        again = sum(not same.isdisjoint(self.persons.get(tag, ())) for tag in group_of)
        if again:
            raise InputError(
                f"{again:,} {'person has' if again == 1 else 'people have'} a report of wave {plan.wave} of this "
                f"survey already, by {self.path}. A second draw would tell more: use the reports that are there. "
                "Nothing was written."
            )
        late = {each.name for each in self.occasions.values()
                if each.rule == "belief" and each.series == now.series and each.wave > now.wave}  # fmt: skip
        if late and (early := sum(not late.isdisjoint(self.persons.get(tag, ())) for tag in group_of)):
            raise InputError(
                f"{early:,} {'person has' if early == 1 else 'people have'} a report of a later wave of this survey, "
                f"by {self.path}, which the belief rule made as if wave {plan.wave} had been left out. Leave them out. "
                "Nothing was written."
            )
        self._check_limits(plan, now, group_of)
        self.occasions[now.name] = now
        for tag, group in group_of.items():
            if group is not None or tag in self.groups:
                self.groups[tag] = [*(each for _, each in self._told(tag)), group]
            self.persons.setdefault(tag, []).append(now.name)

    def _check_limits(self, plan: Plan, now: Occasion, group_of: Mapping[str, str | None]) -> None:
        """Raise where the reports of a person, with this one, add up to more than a limit: that of the ledger is on all
        reports, that of the plan on those of its series.
        """
        for limit, whose, series in ((self.limit, f" in {self.path}", None), (plan.limit, " of the plan", now.series)):
            if limit is None:
                continue
            kinds = Counter((*self._told(tag), (now.name, group)) for tag, group in group_of.items())
            names = self.occasions | {now.name: now}
            over = 0
            for told, times in kinds.items():
                mine = [(name, group) for name, group in told if series in (None, names[name].series)]
                over += times * (added_up(_in_group(names[name], group) for name, group in mine)[0] > limit)
            if over:
                raise InputError(
                    f"With this wave the reports of {over:,} {'person' if over == 1 else 'people'} would add up to "
                    f"more than the limit of {float(limit):g}{whose}. Leave them out. Nothing was written."
                )

    def _told(self, tag: str) -> list[tuple[str, str | None]]:
        """The occasions that a person has answered, each with the group where it is known."""
        names = self.persons.get(tag, [])
        groups = self.groups.get(tag) or [None] * len(names)
        if self.reports is not None and names:
            groups = [each.get("group") for each in self.reports[tag]]
        return list(zip(names, groups, strict=True))

    def sums(self) -> list[dict[str, Any]]:
        """What reports add up to: for each number of waves answered how many people, and the worst of their levels."""
        kinds = Counter(tuple(self._told(tag)) for tag in self.persons)
        rows: dict[int, dict[str, Any]] = {}
        for told, people in kinds.items():
            lip, ldp = added_up(_in_group(self.occasions[name], group) for name, group in told)
            row = rows.setdefault(len(told), {"waves": len(told), "people": 0, "lip": 0.0, "ldp": 0.0})
            row["people"] += people
            row["lip"] = max(row["lip"], float_above(lip))
            row["ldp"] = None if ldp is None or row["ldp"] is None else max(row["ldp"], float_above(ldp))
        return [rows[count] for count in sorted(rows)]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        places = {name: place for place, name in enumerate(self.occasions)}
        data: dict[str, Any] = {
            "tacit_ledger": FORMAT,
            "key": self._key.hex(),
            "limit": None if self.limit is None else str(self.limit),
            "occasions": [each.to_dict() for each in self.occasions.values()],
            "persons": {tag: [places[name] for name in names] for tag, names in sorted(self.persons.items())},
            **({"groups": dict(sorted(self.groups.items()))} if self.groups else {}),
            **({} if self.reports is None else {"reports": self.reports}),
        }
        return data | {"hash": hash_of(data)}

    def save(self) -> None:
        """Write the file, atomically; refuses if another run has written it since it was read."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":")) + "\n"
        with _alone(self.path.resolve().parent):
            if _text_of(self.path) != self._before:
                raise InputError(
                    f"{self.path} was changed by another run meanwhile. Run this one again. Nothing was written."
                )
            self._written = text
            write_text(self.path, text)

    def undo(self) -> None:
        """Put the file back as it was before `save`, where that was called and no other run has written it since."""
        if self._written is None:
            return
        with _alone(self.path.resolve().parent):
            if _text_of(self.path) != self._written:
                return
            if self._before is None:
                self.path.unlink()
            else:
                write_text(self.path, self._before)

    @property
    def is_new(self) -> bool:
        """Whether there was no such file when it was opened."""
        return self._before is None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Other runs that save a ledger in this folder wait; a run that is killed stops holding them up."""
    try:
        import fcntl
    except ImportError:  # Not on Windows.
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def hash_of(data: dict[str, Any]) -> str:
    """SHA-256 over the ledger in canonical JSON, as of plans."""
    content = {name: part for name, part in data.items() if name != "hash"}
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
