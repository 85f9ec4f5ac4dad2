"""The vault: for each open survey one small file beside the database, so that the database alone tells nothing.

A file holds the survey's secret, which turns keys into tags, and the seal of its newest reports, in two places, so that
a crash between writing a new seal and committing what it seals leaves the old one readable:

    32 bytes  secret
    40 bytes  version, seal      } the place of even versions
    40 bytes  version, seal      } the place of odd versions

Seals are overwritten in place as soon as what they sealed was replaced, and the whole file when the survey closes. From
then on nothing opens old contents that a log, a free page or a backup of the database still holds.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.randomize.randomness import secret_bytes
from tacit.server.storage.schema import TAG_DIGITS

SECRET_BYTES, SEAL_BYTES, _VERSION_BYTES = 32, 32, 8
_PLACE_BYTES = _VERSION_BYTES + SEAL_BYTES
_FILE_BYTES = SECRET_BYTES + 2 * _PLACE_BYTES
#: Seconds to wait for another process that holds a survey's file.
PATIENCE = 5.0


class VaultError(OSError):
    """The vault does not have what the database needs, or does not give it in time."""


class Vault:
    """The files of one database's surveys. Files are read and written under their lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._secrets: dict[str, bytes] = {}

    def create(self, survey: str, secret: bytes | None = None) -> str:
        """Make a survey's file, durably, in place of any; by what the database shall know it."""
        for folder in (self.folder.parent, self.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.erase(survey)
        secret = secret or secret_bytes(SECRET_BYTES)
        descriptor = os.open(self._path(survey), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, secret + bytes(2 * _PLACE_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync_folder(self.folder)
        return check_of(secret)

    def has(self, survey: str) -> bool:
        return self._path(survey).exists()

    def names(self) -> set[str]:
        """The surveys that have a file."""
        return {path.stem for path in self.folder.glob("*.vault")}

    def secret(self, survey: str, check: str | None) -> bytes:
        """What turns this survey's keys into tags. `check` is what the database knows it by."""
        known = self._secrets.get(survey)
        if known is None or check_of(known) != check:
            # It never changes, so no lock is needed.
            known = self._secrets[survey] = self._read(survey)[:SECRET_BYTES]
        if check_of(known) != check:
            raise VaultError(f"The secrets of survey {survey} in {self.folder} are those of another database.")
        return known

    @contextmanager
    def locked(self, survey: str) -> Iterator[Held]:
        """A survey's file, locked for other processes until the end of the block."""
        try:
            descriptor = os.open(self._path(survey), os.O_RDWR)
        except OSError as error:
            raise self._missing(survey) from error
        try:
            _lock(descriptor, survey)
            yield Held(descriptor)
        finally:
            os.close(descriptor)

    def erase(self, survey: str) -> None:
        """Overwrite and remove a survey's file, if there is one."""
        self._secrets.pop(survey, None)
        with suppress(FileNotFoundError), self._path(survey).open("r+b", buffering=0) as file:
            file.write(bytes(_FILE_BYTES))
            os.fsync(file.fileno())
            self._path(survey).unlink()
            _sync_folder(self.folder)

    def _read(self, survey: str) -> bytes:
        try:
            return self._path(survey).read_bytes()
        except OSError as error:
            raise self._missing(survey) from error

    def _missing(self, survey: str) -> VaultError:
        return VaultError(f"The secrets of survey {survey} are not in {self.folder}.")

    def _path(self, survey: str) -> Path:
        return self.folder / f"{survey}.vault"


class Held:
    """A locked file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def seal(self, version: int) -> bytes:
        """The seal of a version that was committed."""
        place = os.pread(self._descriptor, _PLACE_BYTES, _start(version))
        if int.from_bytes(place[:_VERSION_BYTES], "big") != version or len(place) != _PLACE_BYTES:
            raise VaultError("The vault has no seal for the newest reports: it is not as new as the database.")
        return place[_VERSION_BYTES:]

    def new_seal(self, version: int) -> bytes:
        """A fresh seal for the next version, on disk before it is used."""
        seal = secret_bytes(SEAL_BYTES)
        os.pwrite(self._descriptor, version.to_bytes(_VERSION_BYTES, "big") + seal, _start(version))
        os.fdatasync(self._descriptor)
        return seal

    def forget_all_but(self, version: int) -> None:
        """Overwrite, on disk, a seal that a process left behind when it ended before it could forget it."""
        if int.from_bytes(os.pread(self._descriptor, _VERSION_BYTES, _start(version + 1)), "big"):
            self.forget(version + 1)
            os.fdatasync(self._descriptor)

    def forget(self, version: int) -> None:
        """Overwrite the seal of a version that was replaced. It reaches the disk with the next seal, or by itself."""
        os.pwrite(self._descriptor, bytes(_PLACE_BYTES), _start(version))


def check_of(secret: bytes) -> str:
    """By what the database knows a secret, and cannot tell it."""
    return tag(secret, "check", b"")


def _start(version: int) -> int:
    return SECRET_BYTES + version % 2 * _PLACE_BYTES


def _lock(descriptor: int, survey: str) -> None:
    deadline, pause = time.monotonic() + PATIENCE, 0.0002
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise VaultError(f"Another process holds the secrets of survey {survey}.") from error
            time.sleep(pause)
            pause = min(2 * pause, 0.01)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- the sealed row ---------------------------------------------------------------------------------------------------

#: The fewest reports that enter the counts together while a survey is open.
CROWD = 20
#: Contents are padded to a multiple of this, so that their length does not tell what came.
_PADDING = 4096
#: Every seal is used once, so that the nonce can be the same.
_NONCE = bytes(12)

#: Day, group, report.
Place = tuple[date, int, int]


@dataclass(frozen=True)
class Pending:
    """The newest reports of a survey, not in its counts yet, and the tags of recent keys and exchanged invitations.

    Each is a sorted set, so nothing tells which report came with which tag. They are one row of the database that is
    replaced whenever a report comes, each time under a fresh seal. Once there are enough of them to be a crowd, they
    are added to the counts together, so that a count never changes by a single report.
    """

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
