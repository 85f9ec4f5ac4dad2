"""What a tally counted, so that nothing is counted twice: identities of files, few enough to travel with the counts."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
