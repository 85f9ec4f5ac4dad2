"""The vault: a small file beside the database, so that the database alone tells nothing.

It holds a record of 128 bytes for each open survey, found by the survey's life (`schema.surveys.c.life`):

    16 bytes  life; zeros in a free record
    32 bytes  secret, which turns keys and invitations into tags
    40 bytes  version, seal      } the place of even versions
    40 bytes  version, seal      } the place of odd versions

There are two places for the seal of a survey's newest reports, so that a crash between writing a new seal and
committing what it seals leaves the old one readable. New seals of all surveys of a transaction are written with one
sync. Seals are overwritten in place as soon as what they sealed was replaced, a whole record when its survey closes.
From then on nothing opens old contents that a log, a free page or a backup of the database still holds.

Who writes a survey's seals holds its row in the database. The file's lock is taken for the writing alone, so that what
one process forgets is not what another has just written; readers share it, which keeps seals while they look.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.randomize.randomness import secret_bytes
from tacit.server.storage.schema import TAG_DIGITS

LIFE_BYTES, SECRET_BYTES, SEAL_BYTES, _VERSION_BYTES = 16, 32, 32, 8
_PLACE_BYTES = _VERSION_BYTES + SEAL_BYTES
_RECORD_BYTES = LIFE_BYTES + SECRET_BYTES + 2 * _PLACE_BYTES
_FREE = bytes(LIFE_BYTES)
#: Seconds to wait for another process that holds the file.
PATIENCE = 5.0


class VaultError(OSError):
    """The vault does not have what the database needs, or does not give it in time."""


def new_life() -> str:
    """A random name for a survey's time from its opening to its deletion: a survey of the same plan gets another."""
    return secret_bytes(LIFE_BYTES).hex()


class Vault:
    """The secrets and seals of one database's open surveys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "vault"
        self._secrets: dict[str, bytes] = {}
        self._offsets: dict[str, int] = {}
        #: What `replace` wrote for the next versions, by life, and the thread that brings it to disk.
        self._prepared: dict[str, bytes] = {}
        self._descriptors: dict[int, int] = {}
        self._thread = ThreadPoolExecutor(1, "tacit-vault")
        self._syncing: Future[None] | None = None

    @property
    def is_there(self) -> bool:
        """Whether there is a vault at all."""
        return self._file.exists()

    def close(self) -> None:
        """Wait for what is being written."""
        self._thread.shutdown()

    # -- records ------------------------------------------------------------------------------------------------------

    def create(self, life: str, secret: bytes | None = None) -> None:
        """Make a survey's record, durably, unless it has one."""
        with _failing_as("The vault cannot be written"):
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = not self._file.exists()
            with self._locked(fcntl.LOCK_EX, create=True) as descriptor:
                offset = self._find(descriptor, life)
                if offset is not None:
                    return
                offset = self._find(descriptor, _FREE.hex())
                offset = os.fstat(descriptor).st_size if offset is None else offset
                record = bytes.fromhex(life) + (secret or secret_bytes(SECRET_BYTES)) + bytes(2 * _PLACE_BYTES)
                if os.pwrite(descriptor, record, offset) != _RECORD_BYTES:
                    os.ftruncate(descriptor, offset)
                    raise OSError("the disk is full")
                os.fsync(descriptor)
            if new:
                _sync_folder(self.folder)

    def lives(self) -> set[str]:
        """The surveys that have a record."""
        if not self._file.exists():
            return set()
        with self._locked(fcntl.LOCK_SH) as descriptor:
            return {life.hex() for life in _lives(descriptor) if life != _FREE}

    def secret(self, life: str) -> bytes:
        """What turns this survey's keys into tags."""
        known = self._secrets.get(life)
        if known is None:
            # It never changes, so no lock is needed.
            with self._opened() as descriptor:
                record = self._record(descriptor, life)
            known = self._secrets[life] = record[LIFE_BYTES : LIFE_BYTES + SECRET_BYTES]
        return known

    def erase(self, life: str) -> None:
        """Overwrite a survey's record, if it has one."""
        self._secrets.pop(life, None)
        self._prepared.pop(life, None)
        if not self._file.exists():
            return
        with self._locked(fcntl.LOCK_EX) as descriptor:
            offset = self._find(descriptor, life)
            if offset is not None:
                os.pwrite(descriptor, bytes(_RECORD_BYTES), offset)
                os.fsync(descriptor)

    def check(self) -> None:
        """Raise unless a record could be written."""
        with _failing_as("The vault cannot be written"):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = self.folder / f"check-{secret_bytes(4).hex()}"
            try:
                descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                try:
                    if os.write(descriptor, bytes(_RECORD_BYTES)) != _RECORD_BYTES:
                        raise OSError("the disk is full")
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            finally:
                probe.unlink(missing_ok=True)

    # -- seals --------------------------------------------------------------------------------------------------------

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """While the block lasts, no seal is forgotten: what a query of it finds sealed can be opened in it."""
        if not self._file.exists():
            yield
            return
        with self._locked(fcntl.LOCK_SH):
            yield

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        """The file is opened once for all seals that are read in the block, by one thread."""
        with self._opened() as descriptor:
            self._descriptors[threading.get_ident()] = descriptor
            try:
                yield
            finally:
                del self._descriptors[threading.get_ident()]

    def seal(self, life: str, version: int) -> bytes:
        """The seal of a version that was committed."""
        at_hand = self._descriptors.get(threading.get_ident())
        with self._opened() if at_hand is None else nullcontext(at_hand) as descriptor:
            place = self._record(descriptor, life)[_start(version) : _start(version) + _PLACE_BYTES]
        if int.from_bytes(place[:_VERSION_BYTES], "big") != version:
            raise VaultError(
                "The vault has no seal for the newest reports: it is not of the same time as the database."
            )
        return place[_VERSION_BYTES:]

    def new_seals(self, versions: Mapping[str, int]) -> dict[str, bytes]:
        """Fresh seals for the next versions of surveys, on disk before they are used."""
        with _failing_as("The vault cannot be written"), self._locked(fcntl.LOCK_EX) as descriptor:
            self._wait_for_prepared()
            seals, unwritten = {}, False
            for life, version in versions.items():
                place = self._offset(descriptor, life) + _start(version)
                prepared = self._prepared.pop(life, b"")
                # Another process may have written one of its own since.
                ready = prepared[:_VERSION_BYTES] == version.to_bytes(_VERSION_BYTES, "big")
                if not ready or os.pread(descriptor, _PLACE_BYTES, place) != prepared:
                    prepared = version.to_bytes(_VERSION_BYTES, "big") + secret_bytes(SEAL_BYTES)
                    os.pwrite(descriptor, prepared, place)
                    unwritten = True
                seals[life] = prepared[_VERSION_BYTES:]
            if unwritten:
                os.fdatasync(descriptor)
        return seals

    def replace(self, versions: Mapping[str, int]) -> None:
        """Overwrite seals that were replaced, with those of the versions after the next, which use the same places.

        They are written to disk while the next reports are gathered, so that no request waits for that.
        """
        if not versions:
            return
        with self._locked(fcntl.LOCK_EX) as descriptor:
            for life, version in versions.items():
                next_one = (version + 2).to_bytes(_VERSION_BYTES, "big") + secret_bytes(SEAL_BYTES)
                if self._overwrite(descriptor, life, version, next_one):
                    self._prepared[life] = next_one
        self._syncing = self._thread.submit(self._sync)

    def _sync(self) -> None:
        with self._opened() as descriptor:
            os.fdatasync(descriptor)

    def _wait_for_prepared(self) -> None:
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.result()

    def forget(self, versions: Mapping[str, int]) -> None:
        """Overwrite seals that were replaced with zeros, durably."""
        if not versions or not self._file.exists():
            return
        with self._locked(fcntl.LOCK_EX) as descriptor:
            for life, version in versions.items():
                self._overwrite(descriptor, life, version, bytes(_PLACE_BYTES))
            os.fdatasync(descriptor)

    def _overwrite(self, descriptor: int, life: str, version: int, by: bytes) -> bool:
        """Write over a survey's seal if it is of that version, as it is unless the survey never had one."""
        offset = self._find(descriptor, life)
        expected = version.to_bytes(_VERSION_BYTES, "big")
        if offset is None or os.pread(descriptor, _VERSION_BYTES, offset + _start(version)) != expected:
            return False
        os.pwrite(descriptor, by, offset + _start(version))
        return True

    # -- the file -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, create: bool = False) -> Iterator[int]:
        try:
            descriptor = os.open(self._file, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
        except FileNotFoundError as error:
            raise VaultError(f"There is no vault in {self.folder}.") from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _locked(self, how: int, create: bool = False) -> Iterator[int]:
        with self._opened(create) as descriptor:
            deadline, pause = time.monotonic() + PATIENCE, 0.0002
            while True:
                try:
                    fcntl.flock(descriptor, how | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > deadline:
                        raise VaultError("Another process holds the vault.") from error
                    time.sleep(pause)
                    pause = min(2 * pause, 0.01)
            yield descriptor

    def _find(self, descriptor: int, life: str) -> int | None:
        """Where a survey's record is: where it was, or else looked for."""
        wanted, known = bytes.fromhex(life), self._offsets.get(life)
        if known is not None and os.pread(descriptor, LIFE_BYTES, known) == wanted:
            return known
        places = [nth for nth, each in enumerate(_lives(descriptor)) if each == wanted]
        if not places:
            return None
        self._offsets[life] = places[0] * _RECORD_BYTES
        return self._offsets[life]

    def _offset(self, descriptor: int, life: str) -> int:
        found = self._find(descriptor, life)
        if found is None:
            raise VaultError(f"The vault in {self.folder} has no secrets of this survey.")
        return found

    def _record(self, descriptor: int, life: str) -> bytes:
        return os.pread(descriptor, _RECORD_BYTES, self._offset(descriptor, life))


def _lives(descriptor: int) -> list[bytes]:
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    whole = len(content) - len(content) % _RECORD_BYTES
    return [content[start : start + LIFE_BYTES] for start in range(0, whole, _RECORD_BYTES)]


def _start(version: int) -> int:
    return LIFE_BYTES + SECRET_BYTES + version % 2 * _PLACE_BYTES


@contextmanager
def _failing_as(what: str) -> Iterator[None]:
    try:
        yield
    except VaultError:
        raise
    except OSError as error:
        raise VaultError(f"{what}: {error.strerror or error}.") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- the sealed row ---------------------------------------------------------------------------------------------------

#: The fewest reports of a group, and the fewest tags, that are written together while a survey is open.
CROWD = 20
#: The most reports that wait for their crowds. Beyond that, those of the groups that have most are counted.
MOST_SEALED = 5_000
#: Contents are padded to a multiple of this, so that their length does not tell what came: a crowd's worth of tags and
#: of exchanges, and some 36 different reports. A database keeps a row of this size in one place, without overflow.
_PADDING = 1792
#: How many reports, keys and exchanges follow; a report: day, group, report, how often.
_HEAD, _REPORT = struct.Struct("<3I"), struct.Struct("<2I2q")
#: Every seal is used once, so that the nonce can be the same.
_NONCE = bytes(12)

#: Day, group, report.
Place = tuple[date, int, int]
#: The tags of an exchanged invitation, and of what it was exchanged for.
Exchanged = tuple[str, str]


_NONE: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class Pending:
    """The newest of a survey: reports that are not in its counts yet, and tags that are in no table yet.

    They are sorted sets, so nothing tells which report came with which tag, and they are one row of the database, which
    is replaced whenever something comes, each time under a fresh seal. `crowds` says what leaves it.
    """

    reports: Counter[Place] = field(default_factory=Counter)
    keys: frozenset[str] = frozenset()
    exchanged: frozenset[Exchanged] = frozenset()

    def plus(self, reports: Counter[Place], keys: Iterable[str] = (), exchanged: Iterable[Exchanged] = ()) -> Pending:
        """With more of them."""
        both = self.reports.copy()
        both.update(reports)
        return Pending(both, self.keys | {*keys}, self.exchanged | {*exchanged})

    def crowds(self) -> tuple[Pending, Pending]:
        """What is written to the tables now, and what waits: reports in crowds of their group, tags in crowds."""
        sizes: dict[int, int] = {}
        for (_, group, _), times in self.reports.items():
            sizes[group] = sizes.get(group, 0) + times
        full = {group for group, size in sizes.items() if size >= CROWD}
        waiting = sum(sizes.values()) - sum(sizes[group] for group in full)
        for group in sorted(sizes, key=lambda group: -sizes[group]) if waiting > MOST_SEALED else ():
            if waiting > MOST_SEALED // 2 and group not in full:
                full.add(group)
                waiting -= sizes[group]
        keys = self.keys if len(self.keys) >= CROWD else _NONE
        exchanged = self.exchanged if len(self.exchanged) >= CROWD else _NONE
        leaving = {place: times for place, times in self.reports.items() if place[1] in full}
        staying = {place: times for place, times in self.reports.items() if place[1] not in full}
        return Pending(Counter(leaving), keys, exchanged), Pending(
            Counter(staying) if leaving else self.reports, self.keys - keys, self.exchanged - exchanged
        )

    def sealed(self, seal: bytes, life: str) -> bytes:
        """For the database."""
        reports = b"".join(
            _REPORT.pack(day.toordinal(), group, report, times)
            for (day, group, report), times in sorted(self.reports.items())
        )
        tags = "".join(sorted(self.keys)) + "".join(first + second for first, second in sorted(self.exchanged))
        head = _HEAD.pack(len(self.reports), len(self.keys), len(self.exchanged))
        plain = head + reports + bytes.fromhex(tags)
        return AESGCM(seal).encrypt(_NONCE, plain + bytes(-len(plain) % _PADDING), life.encode())

    @classmethod
    def opened(cls, content: bytes, seal: bytes, life: str) -> Pending:
        """The inverse of `sealed`."""
        try:
            plain = AESGCM(seal).decrypt(_NONCE, content, life.encode())
        except InvalidTag as error:
            raise VaultError(
                "The vault's seal does not open the newest reports: they are not of the same time."
            ) from error
        n_reports, n_keys, n_exchanged = _HEAD.unpack_from(plain)
        end = _HEAD.size + n_reports * _REPORT.size
        rows = _REPORT.iter_unpack(plain[_HEAD.size : end])
        reports = Counter({(date.fromordinal(day), group, report): times for day, group, report, times in rows})
        digits = plain[end : end + (n_keys + 2 * n_exchanged) * TAG_DIGITS // 2].hex()
        tags = [digits[k : k + TAG_DIGITS] for k in range(0, len(digits), TAG_DIGITS)]
        pairs = zip(tags[n_keys::2], tags[n_keys + 1 :: 2], strict=True)
        return cls(reports, frozenset(tags[:n_keys]), frozenset(pairs))


def tag(secret: bytes, kind: str, content: bytes) -> str:
    """A keyed hash, to know something again without keeping it: HMAC-SHA256, its first 128 bits.

    >>> tag(b"secret", "key", b"one") == tag(b"secret", "key", b"one") != tag(b"secret", "invitation", b"one")
    True
    """
    return hmac.digest(secret, kind.encode() + b"\0" + content, "sha256").hex()[:TAG_DIGITS]
