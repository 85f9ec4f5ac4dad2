"""The respondent's side of RFC 9474, RSABSSA-SHA384-PSS-Deterministic, with Python's integers."""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass
from typing import Any

from tacit.server.invitations import from_text, to_text

_HASH_BYTES = _SALT_BYTES = 48


def pss_encode(message: bytes, bits: int, salt: bytes) -> int:
    """EMSA-PSS-ENCODE of RFC 8017 (9.1.1) with SHA-384 and its MGF1; `bits` is one less than the modulus has."""
    size = (bits + 7) // 8
    hashed = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    plain = (b"\x01" + salt).rjust(size - _HASH_BYTES - 1, b"\x00")
    mask = b"".join(
        hashlib.sha384(hashed + n.to_bytes(4, "big")).digest() for n in range(-(-len(plain) // _HASH_BYTES))
    )
    masked = int.from_bytes(plain, "big") ^ int.from_bytes(mask[: len(plain)], "big")
    masked &= (1 << (bits - 8 * (_HASH_BYTES + 1))) - 1
    return int.from_bytes(masked.to_bytes(len(plain), "big") + hashed + b"\xbc", "big")


@dataclass(frozen=True)
class Signer:
    """A survey's public key, as the service tells it."""

    n: int
    e: int

    @classmethod
    def of(cls, key: dict[str, Any]) -> Signer:
        n, e = (from_text(key[name]) for name in ("n", "e"))
        assert n is not None
        assert e is not None
        return cls(int.from_bytes(n, "big"), int.from_bytes(e, "big"))

    def encode(self, key: str, salt: bytes) -> int:
        """What a key becomes before it is blinded."""
        return pss_encode(key.encode(), self.n.bit_length() - 1, salt)

    def blind(self, encoded: int, factor: int) -> str:
        """The encoded key times factor^e."""
        return self.text(encoded * pow(factor, self.e, self.n) % self.n)

    def unblind(self, signature: str, factor: int) -> str:
        """The signature of the encoded key itself."""
        data = from_text(signature)
        assert data is not None
        return self.text(int.from_bytes(data, "big") * pow(factor, -1, self.n) % self.n)

    def text(self, number: int) -> str:
        """A number as it travels."""
        return to_text(number.to_bytes((self.n.bit_length() + 7) // 8, "big"))

    def factor(self, chance: random.Random) -> int:
        """A blinding factor: any number that has an inverse."""
        while math.gcd(found := chance.randrange(2, self.n), self.n) != 1:
            pass
        return found


def salt(chance: random.Random) -> bytes:
    """A fresh salt of the encoding."""
    return chance.randbytes(_SALT_BYTES)
