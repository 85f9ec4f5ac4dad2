"""The newest reports of a survey: a set of reports and a set of tags, without a word about which came with which.

They are kept as one sealed row that is replaced whenever one comes, each time under a fresh seal. When there are enough
of them to be a crowd they are added to the counts together, so that a count never changes by a single report.
"""

from __future__ import annotations

import hmac
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.server.schema import TAG_DIGITS

#: So many reports enter the counts together, at least, while a survey is open.
CROWD = 20
#: Contents are padded to a multiple of this, so that their length does not tell what came.
_PADDING = 4096
#: Every seal is used once, so that the nonce can be the same.
_NONCE = bytes(12)

#: Day, group, report.
Place = tuple[date, int, int]


@dataclass(frozen=True)
class Pending:
    """Reports that are not in the counts yet, and the tags of recent keys and exchanged invitations, ascending."""

    reports: Counter[Place] = field(default_factory=Counter)
    keys: tuple[str, ...] = ()
    redemptions: tuple[str, ...] = ()

    @property
    def n_reports(self) -> int:
        return self.reports.total()

    def plus(self, reports: Counter[Place], keys: Iterable[str] = (), redemptions: Iterable[str] = ()) -> Pending:
        """With more of them; sorted, which forgets the order in which they came."""
        return Pending(
            self.reports + reports,
            tuple(sorted({*self.keys, *keys})),
            tuple(sorted({*self.redemptions, *redemptions})),
        )

    def sealed(self, seal: bytes, survey: str) -> bytes:
        """For the database."""
        rows = [[day.isoformat(), *rest, times] for (day, *rest), times in sorted(self.reports.items())]
        plain = json.dumps([rows, self.keys, self.redemptions], separators=(",", ":")).encode()
        padded = plain + b" " * (-len(plain) % _PADDING)
        return AESGCM(seal).encrypt(_NONCE, padded, survey.encode())

    @classmethod
    def opened(cls, content: bytes, seal: bytes, survey: str) -> Pending:
        """The inverse of `sealed`."""
        rows, keys, redemptions = json.loads(AESGCM(seal).decrypt(_NONCE, content, survey.encode()))
        reports = Counter({(date.fromisoformat(day), group, report): times for day, group, report, times in rows})
        return cls(reports, tuple(keys), tuple(redemptions))


def tag(secret: bytes, kind: str, content: bytes) -> str:
    """A keyed hash, to know something again without keeping it: HMAC-SHA256, its first 128 bits.

    >>> tag(b"secret", "key", b"one") == tag(b"secret", "key", b"one") != tag(b"secret", "invitation", b"one")
    True
    """
    return hmac.digest(secret, kind.encode() + b"\0" + content, "sha256").hex()[:TAG_DIGITS]
