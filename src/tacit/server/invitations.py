"""Invitations: each counts for one report, and the collector cannot tell which.

An invitation is a random number with the collector's signature (HMAC-SHA256). The respondent's browser makes up the key
of its report, blinds it, and exchanges the invitation for a blind signature of it; unblinded, the signature shows that
the key was paid for by some invitation. The blinded message says nothing about the key (it is uniform, whatever the
key), so even a collector who writes down everything cannot tell which invitation paid for which report.

The signatures are RSABSSA-SHA384-PSS-Deterministic of RFC 9474, over the key's 32 hexadecimal digits.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gmpy2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tacit.randomize.randomness import secret_bytes

#: Bits of a survey's signing key; its only use is to stuff one survey's ballot.
_KEY_BITS = 2048
_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)


def new_secrets(invited: bool) -> dict[str, Any]:
    """What a new survey keeps to sign with; nothing if the survey is open."""
    return {
        "invitation_secret": secret_bytes(32) if invited else None,
        "credential_key": CredentialKey.generate() if invited else None,
    }


def make_invitations(secret: bytes, survey: str, count: int) -> list[str]:
    """New invitations. They are not kept: the signature tells the genuine ones.

    >>> [invitation] = make_invitations(b"secret", "00ff", 1)
    >>> len(invitation), len(read_invitation(b"secret", "00ff", invitation))
    (64, 16)
    """
    numbers = (secret_bytes(16) for _ in range(count))
    return [to_text(number + _signature(secret, survey, number)) for number in numbers]


def read_invitation(secret: bytes, survey: str, invitation: str) -> bytes | None:
    """The number of a genuine invitation to this survey, else None.

    >>> read_invitation(b"another", "00ff", *make_invitations(b"secret", "00ff", 1)) is None
    True
    """
    data = from_text(invitation)
    if data is None or len(data) != 48:
        return None
    number, signature = data[:16], data[16:]
    return number if hmac.compare_digest(signature, _signature(secret, survey, number)) else None


def _signature(secret: bytes, survey: str, number: bytes) -> bytes:
    return hmac.digest(secret, survey.encode() + number, "sha256")


@dataclass(frozen=True)
class _Secret:
    """A private key by its primes; `size` are its modulus' bytes."""

    size: int
    p: Any
    q: Any
    d_p: Any
    d_q: Any
    q_inverse: Any
    n: Any
    e: Any


class CredentialKey:
    """The key pair that signs what invitations are exchanged for; every survey has its own."""

    def __init__(self, der: bytes) -> None:
        key = serialization.load_der_private_key(der, password=None)
        assert isinstance(key, rsa.RSAPrivateKey)
        self._key = key

    @classmethod
    def generate(cls) -> bytes:
        """A new key, as bytes to keep."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return key.private_bytes(serialization.Encoding.DER, *form)

    @cached_property
    def public(self) -> dict[str, str]:
        """Modulus and exponent, as JSON Web Keys write them."""
        numbers = self._public.public_numbers()
        return {"n": to_text(_to_bytes(numbers.n)), "e": to_text(_to_bytes(numbers.e))}

    def sign_blinded(self, blinded: bytes) -> bytes | None:
        """The blind signature m^d mod n; None for what is not a blinded message. RFC 9474, BlindSign.

        The powers modulo both primes take the same time for any exponent (GMP's powm_sec), and the result is
        checked, because a slip of the machine in it would give the key away. Other threads work meanwhile.
        """
        secret = self._secret
        message = gmpy2.from_binary(b"\x01\x01" + blinded[::-1])
        if len(blinded) != secret.size or not 1 < message < secret.n - 1:
            return None
        context = gmpy2.get_context()
        context.allow_release_gil = True
        of_p = gmpy2.powmod_sec(message % secret.p, secret.d_p, secret.p)
        of_q = gmpy2.powmod_sec(message % secret.q, secret.d_q, secret.q)
        signed = of_q + secret.q * (secret.q_inverse * (of_p - of_q) % secret.p)
        if gmpy2.powmod(signed, secret.e, secret.n) != message:
            raise ArithmeticError("A blind signature came out wrong; it is not given away.")
        return int(signed).to_bytes(secret.size, "big")

    @cached_property
    def _secret(self) -> _Secret:
        numbers = self._key.private_numbers()
        n, e = numbers.public_numbers.n, numbers.public_numbers.e
        words = (numbers.p, numbers.q, numbers.dmp1, numbers.dmq1, numbers.iqmp, n, e)
        return _Secret((n.bit_length() + 7) // 8, *map(gmpy2.mpz, words))

    def verifies(self, key: str, credential: str | None) -> bool:
        """Whether the credential is this survey's signature of a submission's key."""
        signature = None if credential is None else from_text(credential)
        if signature is None:
            return False
        try:
            self._public.verify(signature, key.encode(), _PSS, hashes.SHA384())
        except InvalidSignature:
            return False
        return True

    @cached_property
    def _public(self) -> rsa.RSAPublicKey:
        return self._key.public_key()


def to_text(data: bytes) -> str:
    """Base64 for addresses, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_text(text: str) -> bytes | None:
    """The inverse of `to_text`; None for anything that it does not write.

    >>> from_text("_-8") == bytes([255, 239]), from_text("?"), from_text("_-9")
    (True, None, None)
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if to_text(data) == text else None


def _to_bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
