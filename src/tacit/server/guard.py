"""Who may do what, and how often: the administrator's token, and a limit per address that is kept in memory only."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import re
from collections import OrderedDict
from collections.abc import Callable

from tacit.randomize.randomness import secret_bytes
from tacit.server.invitations import to_text
from tacit.server.store import Store

_TOKEN = "admin_token"
_SHORTEST_TOKEN = 16
#: So many addresses are remembered at most; beyond that the longest silent is forgotten.
_ADDRESSES = 100_000


class Administrator:
    """Knows the hash of the administrator's token. A token is 256 random bits, so a plain hash hides it."""

    def __init__(self, store: Store) -> None:
        self._hash = store.setting(_TOKEN)

    @staticmethod
    def new_token(store: Store) -> str:
        """Make a token that replaces any before it. It is not kept: whoever loses it makes another."""
        token = "tacit_" + to_text(secret_bytes(32))
        Administrator.set_token(store, token)
        return token

    @staticmethod
    def set_token(store: Store, token: str) -> None:
        """Let this token, and no other, administer. Refuses what an empty variable or a short password would be."""
        if not re.fullmatch(rf"[!-~]{{{_SHORTEST_TOKEN},}}", token):
            raise ValueError(
                f"The administrator's token must have at least {_SHORTEST_TOKEN} characters of ASCII, without spaces. "
                f"Got {len(token)} characters."
            )
        store.set_setting(_TOKEN, _hashed(token))

    @staticmethod
    def exists(store: Store) -> bool:
        """Whether a token was made before."""
        return store.setting(_TOKEN) is not None

    def allows(self, authorization: str | None) -> bool:
        """Whether an Authorization header holds the token; takes the same time however much of it is right."""
        scheme, _, token = (authorization or "").partition(" ")
        if self._hash is None or scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(_hashed(token.strip()), self._hash)


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


class RateLimit:
    """A token bucket per address: `per_minute` on average and as many at once.

    >>> limit = RateLimit(60, clock=lambda: 0.0)
    >>> [limit.wait("127.0.0.1") for _ in range(61)][-2:]
    [0, 1]
    """

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._rate, self._most, self._clock = per_minute / 60, float(per_minute), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, address: str) -> int:
        """Seconds until this address may send again; 0 if it may now, which is then counted. A rate of 0 allows all."""
        if not self._rate:
            return 0
        name, now = network(address), self._clock()
        left, since = self._buckets.pop(name, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[name] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)
        return 0 if allowed else math.ceil((1 - left) / self._rate)


def network(address: str) -> str:
    """What counts as one sender: an IPv4 address, or the /64 that an IPv6 user moves about in.

    >>> network("2001:db8:1:2:3:4:5:6"), network("192.0.2.7"), network("")
    ('2001:db8:1:2::/64', '192.0.2.7', '')
    """
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
