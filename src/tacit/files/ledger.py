"""The ledger: which people have answered which waves, and what their reports add up to.

It lists no answers and no reports, only who took part, as keyed hashes: without the file's own key they match no name,
but a holder of the file can try names, so it is kept like a list of participants. Levels of different reports about one
person are bounded for any dependence between the answers: with ε_t the level of each, LIP by 2Σ ε_t − max ε_t, LDP by
the sum of the LDP levels (`tacit.mechanism.repeated`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tacit.disk import write_text
from tacit.exact import Number, budget
from tacit.files.columns import InputError
from tacit.plan import AnyPlan

FORMAT = 1
#: Hexadecimal digits of a person's tag.
_DIGITS = 24


@dataclass(frozen=True)
class Occasion:
    """One wave of a survey: its first wording's hash names it. `lip` and `ldp` are the levels of one report, the worst
    of all groups; `ldp` is None where it is not bounded.
    """

    name: str
    wave: int
    lip: Fraction
    ldp: float | None

    @classmethod
    def of(cls, plan: AnyPlan) -> Occasion:
        """The occasion to answer this plan."""
        odds = [group.audit.ldp.epsilon for group in plan.groups]
        most = max(odds)
        return cls(
            plan.hashes[0],
            plan.wave,
            max(group.epsilon for group in plan.groups),
            None if most == float("inf") else most,
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"occasion": self.name, "wave": self.wave, "lip": str(self.lip), "ldp": self.ldp}


def added_up(occasions: Iterable[Occasion]) -> tuple[Fraction, float | None]:
    """The LIP bound 2Σε − max ε of one report on each occasion, and the sum of the LDP levels.

    >>> added_up([Occasion("a", 1, Fraction(1), 1.5), Occasion("b", 2, Fraction(1, 2), 0.75)])
    (Fraction(2, 1), 2.25)
    """
    told = list(occasions)
    if not told:
        return Fraction(0), 0.0
    odds = [each.ldp for each in told]
    ldp = None if None in odds else sum(level for level in odds if level is not None)
    return 2 * sum((each.lip for each in told), Fraction(0)) - max(each.lip for each in told), ldp


class Ledger:
    """A ledger file, read or new; `limit` is the largest LIP level that a person may add up to, None for none."""

    def __init__(
        self, path: str | Path, key: bytes, occasions: dict[str, Occasion], persons: dict[str, list[str]],
        limit: Fraction | None,
    ) -> None:  # fmt: skip
        self.path, self.occasions, self.persons, self.limit = Path(path), occasions, persons, limit
        self._key, self._before, self._saved = key, _text_of(self.path), False

    @classmethod
    def open(cls, path: str | Path, limit: Number | None = None) -> Ledger:
        """The ledger at a path, empty where there is none yet. Its limit can be lowered, not raised."""
        asked = None if limit is None else budget(limit, "limit")
        if not Path(path).exists():
            return cls(path, secrets.token_bytes(16), {}, {}, asked)
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if data["tacit_ledger"] != FORMAT:
                raise ValueError("another format")
            occasions = {
                each["occasion"]: Occasion(each["occasion"], each["wave"], budget(each["lip"]), each["ldp"])
                for each in data["occasions"]
            }
            names = list(occasions)
            persons = {tag: [names[place] for place in places] for tag, places in data["persons"].items()}
            kept = None if data["limit"] is None else budget(data["limit"])
            found = cls(path, bytes.fromhex(data["key"]), occasions, persons, kept)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{path} is not a ledger of Tacit. Name another file.") from error
        if asked is not None and kept is not None and asked > kept:
            raise InputError(f"{path} has a limit of {float(kept):g}, which cannot be raised to {float(asked):g}.")
        found.limit = asked if asked is not None else kept
        return found

    def tag(self, person: str) -> str:
        """The keyed hash that stands for a person."""
        return hmac.new(self._key, person.encode("utf-8"), hashlib.sha256).hexdigest()[:_DIGITS]

    def add(self, plan: AnyPlan, people: Iterable[str]) -> None:
        """Note that these people draw a report of the plan. Raises, and notes nothing, where one may not."""
        now = Occasion.of(plan)
        tags = [self.tag(person) for person in people]
        again = sum(now.name in self.persons.get(tag, ()) for tag in tags)
        if again:
            raise InputError(
                f"{again:,} {'person has' if again == 1 else 'people have'} a report of wave {plan.wave} of this "
                f"survey already, by {self.path}. A second draw would tell more: use the reports that are there. "
                "Nothing was written."
            )
        if self.limit is not None:
            over = sum(added_up([*self._of(tag), now])[0] > self.limit for tag in tags)
            if over:
                raise InputError(
                    f"With this wave the reports of {over:,} {'person' if over == 1 else 'people'} would add up to "
                    f"more than the limit of {float(self.limit):g} in {self.path}. Leave them out. Nothing was written."
                )
        self.occasions[now.name] = now
        for tag in tags:
            self.persons.setdefault(tag, []).append(now.name)

    def _of(self, tag: str) -> list[Occasion]:
        return [self.occasions[name] for name in self.persons.get(tag, ())]

    def sums(self) -> list[dict[str, Any]]:
        """What reports add up to: for each number of waves answered how many people, and the worst of their levels."""
        kinds = Counter(tuple(names) for names in self.persons.values())
        rows: dict[int, dict[str, Any]] = {}
        for names, people in kinds.items():
            lip, ldp = added_up(self.occasions[name] for name in names)
            row = rows.setdefault(len(names), {"waves": len(names), "people": 0, "lip": 0.0, "ldp": 0.0})
            row["people"] += people
            row["lip"] = max(row["lip"], float(lip))
            row["ldp"] = None if ldp is None or row["ldp"] is None else max(row["ldp"], ldp)
        return [rows[count] for count in sorted(rows)]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        places = {name: place for place, name in enumerate(self.occasions)}
        persons: Mapping[str, list[int]] = {
            tag: [places[name] for name in names] for tag, names in sorted(self.persons.items())
        }
        return {
            "tacit_ledger": FORMAT,
            "key": self._key.hex(),
            "limit": None if self.limit is None else str(self.limit),
            "occasions": [each.to_dict() for each in self.occasions.values()],
            "persons": persons,
        }

    def save(self) -> None:
        """Write the file, atomically; refuses if somebody else has written it since it was read."""
        if _text_of(self.path) != self._before:
            raise InputError(
                f"{self.path} was changed by another run meanwhile. Run this one again. Nothing was written."
            )
        self._saved = True
        write_text(self.path, json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":")) + "\n")

    def undo(self) -> None:
        """Put the file back as it was before `save`, where that was called."""
        if not self._saved:
            return
        if self._before is None:
            self.path.unlink(missing_ok=True)
        else:
            write_text(self.path, self._before)


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
