"""What a collector keeps: each group's reports, and what was counted. Tallies of any split merge to the same."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from tacit.exact import Integers
from tacit.mechanism import Mechanism
from tacit.mechanism.kept import LARGEST_WEIGHT, SUMS, Counts, Coverage, Kept, read_kept, whole
from tacit.plan import Plan

__all__ = ["LARGEST_WEIGHT", "SUMS", "Counts", "Coverage", "Kept", "Sources", "Tally", "merge_all"]

#: The largest number of identities that a tally keeps.
MOST = 256
#: Digits of an identity: of the SHA-256 of a file's bytes, or drawn at random.
_DIGITS = 32


@dataclass(frozen=True)
class Sources:
    """Identities of what was counted, ascending, and whether every one of them would be recognised again.

    A file is named by its content. Where the identity is unknown (reports from a pipe, files so small that
    two may be equal by chance, more than 256 files) `complete` is false. Of more than 256 the smallest are kept, which
    are the same for every order of merging.

    >>> Sources(("b",), True).merge(Sources(("a",), True))
    Sources(ids=('a', 'b'), complete=True)
    """

    ids: tuple[str, ...] = ()
    complete: bool = False

    @classmethod
    def of_file(cls, path: str | Path) -> Sources:
        """The file with these bytes."""
        with open(path, "rb") as file:
            return cls((hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS],), True)

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Sources:
        """Sources with unique names. A renamed source is not recognised."""
        ids = sorted({hashlib.sha256(name.encode()).hexdigest()[:_DIGITS] for name in names})
        return cls(tuple(ids[:MOST]), False)

    @classmethod
    def drawn(cls) -> Sources:
        """A source without an identity gets a random one, so that each count of it is different."""
        return cls((secrets.token_hex(_DIGITS // 2),), False)

    def merge(self, other: Sources) -> Sources:
        """Both together. Refuses what both have counted."""
        if not set(self.ids).isdisjoint(other.ids):
            raise ValueError("These tallies have counted the same reports, which would count twice. Merge each once.")
        ids = sorted({*self.ids, *other.ids})
        return Sources(tuple(ids[:MOST]), self.complete and other.complete and len(ids) <= MOST)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"ids": list(self.ids), "complete": self.complete}

    @classmethod
    def from_dict(cls, data: Any) -> Sources:
        """The inverse of `to_dict`; nothing is known where there is nothing."""
        if data is None:
            return cls()
        if not isinstance(data, Mapping) or set(data) != {"ids", "complete"} or not isinstance(data["complete"], bool):
            raise ValueError("The sources of a tally must have the fields ids and complete, true or false.")
        ids = data["ids"]
        if not isinstance(ids, list) or len(ids) > MOST or not all(_is_identity(each) for each in ids):
            raise ValueError(f"The sources of a tally are at most {MOST} identities of {_DIGITS} hexadecimal digits.")
        if ids != sorted(set(ids)):
            raise ValueError("The sources of a tally must ascend.")
        return cls(tuple(ids), data["complete"])


def _is_identity(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(f"[0-9a-f]{{{_DIGITS}}}", text) is not None


#: The fields of a tally, see files/tally.schema.json; `sources` may be there, too.
_FIELDS = {"tacit_tally", "plan", "refused", "groups"}


def _counted(mechanism: Mechanism, reports: Integers) -> Kept:
    """What is kept of those reports that the mechanism can send.

    Where different reports are few they are counted first, and these few are looked at.
    """
    if mechanism.n_sums is None:
        counts = Counts.of(reports)
        good = mechanism.can_send_many(counts.reports)
        return counts if good.all() else Counts(counts.reports[good], counts.counts[good])
    good = mechanism.can_send_many(reports)
    # A copy of millions takes longer than adding them up.
    return mechanism.keep(reports if good.all() else reports[good])


@dataclass(frozen=True)
class Tally:
    """Counts per group for one plan, and how many reports were refused because the plan does not know them.

    `sources` say what was counted, as far as that is known; tallies that differ in them only are equal.
    """

    plan: str
    groups: Mapping[str | None, Kept]
    refused: int = 0
    sources: Sources = field(default=Sources(), compare=False)

    @classmethod
    def of(cls, plan: Plan, reports: Any, groups: Any = None) -> Tally:
        """Count an array of reports, with the names of their groups where the plan names groups.

        In a plan of several questions every block of a group has a name of its own (`tacit.plan.block_name`).

        A report that its group cannot have sent, or of a group that the plan does not have, is refused and counted.

        >>> from tacit import Prior, Survey, make_plan
        >>> plan = make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Survey("yes"), epsilon=1)
        >>> Tally.of(plan, [0, 1, 1, 7]).refused
        1
        """
        sent = np.asarray(reports)
        if sent.size and not np.issubdtype(sent.dtype, np.integer):
            raise ValueError(f"Reports must be integers. Got {sent.dtype} instead.")
        if sent.ndim != 1:
            raise ValueError(f"Reports must be in a row. Got an array of {sent.ndim} dimensions instead.")
        sent = sent.astype(np.int64, copy=False)
        named = any(group.name is not None for group in plan.groups)
        if named == (groups is None):
            raise ValueError("Groups must be given where the plan names groups, and only there.")
        names = None if groups is None else np.asarray(groups, dtype=object)
        if names is not None and names.shape != sent.shape:
            raise ValueError(f"There must be one group for each report. Got {len(names)} for {len(sent)}.")
        counts: dict[str | None, Kept] = {}
        for group in plan.groups:
            mine = sent if names is None else sent[names == group.name]
            counts[group.name] = _counted(group.mechanism, mine)
        kept = sum(each.total for each in counts.values())
        return cls(plan.hash, {name: each for name, each in counts.items() if each.total}, len(sent) - kept)

    @property
    def n_reports(self) -> int:
        return sum(counts.total for counts in self.groups.values())

    @property
    def collision_bits(self) -> float:
        """How many bits it would take chance to send these reports again: −log₂ of the probability that it does."""
        return sum(counts.collision_bits for counts in self.groups.values())

    def merge(self, other: Tally) -> Tally:
        """Both together. Refuses the tally of another plan, and one that has counted the same.

        >>> one = Tally("plan", {None: Counts.of([0, 1])})
        >>> one.merge(Tally("plan", {None: Counts.of([1])}, refused=2)).to_dict()["groups"]
        [{'group': None, 'reports': [0, 1], 'counts': [1, 2]}]
        """
        if self.plan != other.plan:
            raise ValueError(
                f"These tallies belong to different plans: {self.plan[:12]}… and {other.plan[:12]}…. If these "
                "differ in words only (`tacit edit`), name the newest plan with --plan (`Tally.under` in Python)."
            )
        sources = self.sources.merge(other.sources)
        groups = dict(self.groups)
        for name, counts in other.groups.items():
            groups[name] = groups[name].merge(counts) if name in groups else counts
        return Tally(self.plan, groups, self.refused + other.refused, sources)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, groups in a fixed order."""
        names = sorted(self.groups, key=lambda name: (name is not None, name or ""))
        groups = [{"group": name} | self.groups[name].to_dict() for name in names if self.groups[name].total]
        known = {"sources": self.sources.to_dict()} if self.sources.ids else {}
        return {"tacit_tally": 1, "plan": self.plan, "refused": self.refused, **known, "groups": groups}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tally:
        """The inverse of `to_dict`; refuses what no tally can hold."""
        if not isinstance(data, Mapping) or data.get("tacit_tally") != 1 or data["tacit_tally"] is True:
            if isinstance(data, Mapping) and "tacit_personal_tally" in data:
                raise ValueError("This is a tally for individual priors: use `tacit personal …`.")
            raise ValueError("Not a tally of format 1.")
        if set(data) - {"sources"} != _FIELDS:
            raise ValueError(
                "A tally must have the fields tacit_tally, plan, refused, groups, and no other but sources."
            )
        if not isinstance(data["plan"], str) or not isinstance(data["groups"], list):
            raise ValueError("A tally needs the hash of its plan and a list of groups.")
        groups: dict[str | None, Kept] = {}
        for group in data["groups"]:
            if not isinstance(group, Mapping) or not isinstance(group.get("group", 0), str | None):
                raise ValueError("A group of a tally must be an object with a name, a text or null.")
            if group["group"] in groups:
                raise ValueError(f"The group {group['group']!r} stands twice in this tally.")
            groups[group["group"]] = read_kept({name: field for name, field in group.items() if name != "group"})
        (refused,) = whole([data["refused"]], "refused")
        return cls(data["plan"], groups, refused, Sources.from_dict(data.get("sources")))

    def under(self, plan: Plan) -> Tally:
        """The same counts as a tally of `plan`, whose earlier wordings may be what they were counted under."""
        self.check(plan)
        return replace(self, plan=plan.hash)

    def check(self, plan: Plan) -> None:
        """Raise `ValueError` unless reports of this plan, in any of its wordings, can add up to it."""
        if self.plan not in plan.hashes:
            raise ValueError(f"This is a tally of another plan: {self.plan[:12]}…, not {plan.hash[:12]}….")
        mechanisms = {group.name: group.mechanism for group in plan.groups}
        for name, kept in self.groups.items():
            if name not in mechanisms:
                raise ValueError(f"This tally has a group {name!r}, which the plan does not have.")
            mechanism, whose = mechanisms[name], "the plan" if name is None else f"group {name!r}"
            kept.check(mechanism.n_sums, mechanism.can_send_many, whose)
            if not plan.takes_weights and kept.least_weight_sum < 0:
                raise ValueError("This tally has design weights below 0; a respondent stands for at least 0 people.")


def merge_all(tallies: Iterable[Tally]) -> Tally:
    """All `tallies` together; raises `ValueError` where they are of different plans, or counted the same file.

    >>> from tacit import Plan
    >>> plan = Plan.of([[0.75, 0.25], [0.25, 0.75]], {"yes": 0.1, "no": 0.9}, "histogram")
    >>> merge_all([Tally.of(plan, [0, 1]), Tally.of(plan, [1])]).n_reports
    3
    """
    remaining = iter(tallies)
    first = next(remaining, None)
    if first is None:
        raise ValueError("There is no tally to merge.")
    return reduce(Tally.merge, remaining, first)
