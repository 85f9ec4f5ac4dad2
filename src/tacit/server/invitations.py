"""Invitations: each counts for one report, and the collector cannot tell which.

An invitation is a random number with the collector's signature (HMAC-SHA256). The respondent's browser makes up the key
of its report, blinds it, and exchanges the invitation for a blind signature of it; unblinded, the signature shows that
the key was paid for by some invitation. The blinded message says nothing about the key (it is uniform, whatever the
key), so even a collector who writes down everything cannot tell which invitation paid for which report.

The signatures are RSABSSA-SHA384-PSS-Deterministic of RFC 9474, over the key's 32 hexadecimal digits.
"""

from __future__ import annotations

import _hashlib
import base64
import binascii
import ctypes
import hmac
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, cached_property
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tacit.exact import Integers
from tacit.randomize.randomness import secret_bytes

#: Bits of a survey's signing key; its only use is to stuff one survey's ballot.
_KEY_BITS = 2048
#: OpenSSL's RSA_NO_PADDING: the number is signed as it is.
_NO_PADDING = 3
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


@cache
def _openssl() -> ctypes.PyDLL:
    """OpenSSL 3, the one that Python itself uses, or the system's: `cryptography` has no raw RSA."""
    address, number = ctypes.c_void_p, ctypes.c_int
    calls: list[tuple[str, Any, list[Any]]] = [
        ("d2i_AutoPrivateKey", address, [address, address, ctypes.c_long]),
        ("EVP_PKEY_free", None, [address]),
        ("EVP_PKEY_CTX_new", address, [address, address]),
        ("EVP_PKEY_sign_init", number, [address]),
        ("EVP_PKEY_CTX_set_rsa_padding", number, [address, number]),
        ("EVP_PKEY_CTX_free", None, [address]),
        ("EVP_PKEY_sign", number, [address] * 5),
    ]
    for place in (getattr(_hashlib, "__file__", None) or "", "libcrypto.so.3"):
        with suppress(OSError, AttributeError):
            library = ctypes.PyDLL(place)
            for name, gives, takes in calls:
                function = getattr(library, name)
                function.restype, function.argtypes = gives, takes
            return library
    raise OSError(
        "Surveys by invitation need OpenSSL 3 as a shared library (libcrypto.so.3). Install it, e.g. libssl3."
    )


@cache
def _sign_all() -> Callable[[Integers], Integers]:
    """Compiled: EVP_PKEY_sign for each row of its arguments, what it returns for each.

    A thread that calls it from Python waits for Python's lock after each signature; beside a busy event loop that takes
    as long as signing.
    """
    import numba

    word, place = numba.int64, ctypes.cast(_openssl().EVP_PKEY_sign, ctypes.c_void_p).value
    signature = numba.int32(word, word, word, word, word)

    class Native(numba.types.WrapperAddressProtocol):
        def __wrapper_address__(self) -> Any:
            return place

        def signature(self) -> Any:
            return signature

    rows = word[:, ::1]

    @numba.njit(numba.void(numba.types.FunctionType(signature), rows, word[::1]), cache=True, nogil=True)
    def call_each(function: Any, rows: Any, returned: Any) -> None:
        for k in range(len(rows)):
            returned[k] = function(rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3], rows[k, 4])

    def sign_all(rows: Integers) -> Integers:
        returned = np.zeros(len(rows), np.int64)
        call_each(Native(), rows, returned)
        return returned

    return sign_all


def sign_blinded(turn: Sequence[tuple[CredentialKey, bytes]]) -> list[bytes | Exception]:
    """The blind signatures m^d mod n of messages that their keys `can_sign`, or why there is none. RFC 9474, BlindSign.

    By OpenSSL, whose time does not depend on key or message, and which checks the result: a slip of the machine
    in it would give the key away. Other threads work meanwhile.
    """
    size, count = _KEY_BITS // 8, len(turn)
    contexts = [key.new_context() for key, _ in turn]
    messages = np.frombuffer(b"".join(message for _, message in turn), np.uint8).reshape(count, size)
    signed, lengths = np.zeros((count, size), np.uint8), np.full(count, size)
    from_the_first = size * np.arange(count)
    places = (signed.ctypes.data + from_the_first, lengths.ctypes.data + 8 * np.arange(count))
    rows = np.column_stack((contexts, *places, messages.ctypes.data + from_the_first, lengths))
    returned = _sign_all()(rows)
    for context in contexts:
        _openssl().EVP_PKEY_CTX_free(context)
    failure = ArithmeticError("OpenSSL did not sign a blinded message.")
    return [each.tobytes() if done == 1 else failure for each, done in zip(signed, returned, strict=True)]


class CredentialKey:
    """The key pair that signs what invitations are exchanged for; every survey has its own."""

    def __init__(self, der: bytes) -> None:
        key = serialization.load_der_private_key(der, password=None)
        assert isinstance(key, rsa.RSAPrivateKey)
        self._public = key.public_key()
        self._secret = _openssl().d2i_AutoPrivateKey(None, ctypes.byref(ctypes.c_char_p(der)), len(der))
        weakref.finalize(self, _openssl().EVP_PKEY_free, self._secret)
        _sign_all()

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

    def can_sign(self, blinded: bytes) -> bool:
        """Whether this may be a blinded message: a number below the modulus, of its length."""
        n = self._public.public_numbers().n
        return len(blinded) == _KEY_BITS // 8 and 1 < int.from_bytes(blinded, "big") < n - 1

    def new_context(self) -> int:
        """OpenSSL's context for a raw signature, which its user frees."""
        openssl = _openssl()
        context = openssl.EVP_PKEY_CTX_new(self._secret, None)
        openssl.EVP_PKEY_sign_init(context)
        openssl.EVP_PKEY_CTX_set_rsa_padding(context, _NO_PADDING)
        return int(context)

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
