"""Random words for reports, and secret bytes: the only random source of the library, except for simulations.

Respondents' reports are drawn from `SecureWords`: ChaCha20 under a key from the operating system; on a cluster, where a
lost task is done again, from `DerivedWords`, which then come out the same. `SeededWords` repeats itself and exists for
simulation; nothing in the library chooses it unless it, or a seed, is passed in by name.
"""

from __future__ import annotations

import hashlib
import hmac
import mmap
import os
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.mechanism.protocol import WordBits

Words = NDArray[Any]

_KINDS: dict[WordBits, type[np.unsignedinteger[Any]]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}

#: Three signs of a fork. A process number alone is not enough: in a new PID namespace parent and child can have the
#: same one. Python counts its own forks. For forks by C code, Linux fills a page of memory with zeros in the child.
_forks = 0
_WIPE_ON_FORK = 18
_page: mmap.mmap | None = None
_serial = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)
with suppress(OSError, ValueError, AttributeError):
    _page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _page.madvise(_WIPE_ON_FORK)
    _page[0] = 1


def _process() -> tuple[int, int, int]:
    """Different in every process, however it was forked."""
    global _serial
    if _page is not None and not _page[0]:
        _page[0] = 1
        _serial += 1
    return _forks, os.getpid(), _serial


#: A key is used for at most this many bytes, far below ChaCha20's 256 GiB.
_BYTES_PER_KEY = 2**36


class SecureWords(threading.local):
    """The ChaCha20 keystream under a fresh key from the operating system; every thread has a stream of its own, and a
    forked process takes new keys.

    >>> words = SecureWords().draw(1000, 32)
    >>> words.dtype, len(set(words.tolist())) > 990
    (dtype('uint32'), True)
    """

    #: Several threads may draw at once.
    per_thread = True

    def __init__(self) -> None:
        self._owner: tuple[int, int, int] | None = None
        self._left = 0

    def draw(self, count: int, bits: WordBits) -> Words:
        buffer = np.zeros(count * (bits // 8), dtype=np.uint8)
        self._fill(buffer)
        return buffer.view(_KINDS[bits])

    def integer(self, bits: int) -> int:
        return int.from_bytes(os.urandom((bits + 7) // 8), "little") >> (-bits % 8)

    def _fill(self, zeros: NDArray[np.uint8]) -> None:
        """Overwrite zeros with keystream, in place."""
        if self._owner != _process() or self._left < zeros.nbytes:
            self._take_key(max(_BYTES_PER_KEY, zeros.nbytes))
        self._left -= zeros.nbytes
        self._stream.update_into(zeros.data, zeros.data)

    def _take_key(self, bytes_allowed: int) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        # The first four bytes are the counter of blocks: one that starts anywhere would run over before its 256 GiB.
        nonce = bytes(4) + os.urandom(12)
        self._stream = Cipher(algorithms.ChaCha20(os.urandom(32), nonce), mode=None).encryptor()
        self._owner, self._left = _process(), bytes_allowed


class _ByteStream(ABC):
    """Words that take their bytes from a stream as little-endian numbers, of which the leading bits count."""

    per_thread = False

    @abstractmethod
    def _bytes(self, count: int) -> bytes:
        """The next bytes of the stream."""

    def draw(self, count: int, bits: WordBits) -> Words:
        return np.frombuffer(self._bytes(count * (bits // 8)), dtype=_KINDS[bits])

    def integer(self, bits: int) -> int:
        return int.from_bytes(self._bytes((bits + 7) // 8), "little") >> (-bits % 8)


class DerivedWords(_ByteStream):
    """Words that are a secret function of the rows they are for. With K the key of a run:

        ChaCha20 keystream under BLAKE2b-256(K; place and content of the rows)

    The same rows at the same place get the same words again, so that a task that is done twice reports the same. Other
    rows, or another place, get words that look independent without K: a change of the input never
    gets words that were used before. K comes from the operating system and is good for one run.

    >>> key = secret_bytes(32)
    >>> first, again, other = (DerivedWords(key, rows).integer(64) for rows in (b"rows", b"rows", b"others"))
    >>> first == again, first == other
    (True, False)
    """

    def __init__(self, key: bytes, *about: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        digest = hashlib.blake2b(key=key, digest_size=32, person=b"tacit: rows")
        for part in about:
            # With its length: no two lists of parts read the same.
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        self._stream = Cipher(algorithms.ChaCha20(digest.digest(), bytes(16)), mode=None).encryptor()

    def _bytes(self, count: int) -> bytes:
        return bytes(self._stream.update(bytes(count)))


class StoredWords(_ByteStream):
    """Words that stored reports of two layers follow from, the same in Python and browsers. With K the memory:

        HMAC-SHA256(K; each part after its length in 8 bytes, then the number of the block in 8 bytes), block by block

    Numbers are little-endian. Parts are the series, the hash of how reports are stored, the group, the person and the
    answer's position.

    >>> words = StoredWords(bytes(16), b"series", b"", b"p1", b"0")
    >>> words.integer(32) == StoredWords(bytes(16), b"series", b"", b"p1", b"0").integer(32) != words.integer(32)
    True
    """

    def __init__(self, key: bytes, *about: bytes) -> None:
        self._key, self._blocks, self._left = key, 0, b""
        self._about = b"".join(len(part).to_bytes(8, "little") + part for part in about)

    def _bytes(self, count: int) -> bytes:
        while len(self._left) < count:
            self._left += hmac.digest(self._key, self._about + self._blocks.to_bytes(8, "little"), "sha256")
            self._blocks += 1
        taken, self._left = self._left[:count], self._left[count:]
        return taken


def secret_bytes(count: int) -> bytes:
    """Bytes for keys and tokens, straight from the operating system.

    >>> len(secret_bytes(16))
    16
    """
    return os.urandom(count)


class SeededWords(_ByteStream):
    """A repeatable stream for simulations and tests. Never for people: the seed undoes the privacy of every report.

    >>> SeededWords(7).integer(16) == SeededWords(7).integer(16)
    True
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64DXSM(seed))

    def _bytes(self, count: int) -> bytes:
        return self._generator.bytes(count)
