"""Who sends, from where and how often: senders behind proxies, pages of other sites, a limit per address in memory."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

#: So many addresses are remembered at most; beyond that the longest silent is forgotten.
_ADDRESSES = 100_000


class RateLimit:
    """A token bucket per address: `per_minute` on average and as many at once.

    >>> limit = RateLimit(60, clock=lambda: 0.0)
    >>> [limit.wait("127.0.0.1") for _ in range(61)][-2:]
    [0, 1]
    """

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._rate, self._most, self._clock = per_minute / 60, float(per_minute), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def left(self, address: str) -> float:
        """How many this address may send now."""
        left, since = self._buckets.get(network(address), (self._most, 0.0))
        return math.inf if not self._rate else min(self._most, left + (self._clock() - since) * self._rate)

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

    >>> network("2001:db8:1:2:3:4:5:6"), network("::ffff:192.0.2.7"), network("192.0.2.7"), network("")
    ('2001:db8:1:2::/64', '192.0.2.7', '192.0.2.7', '')
    """
    found = _address(address)
    return str(ipaddress.ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found or "")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address; an IPv4 one also where a socket for both kinds writes it as ::ffff:192.0.2.7."""
    try:
        found = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


class Proxies:
    """Proxies in front, whose word about the sender's address is taken.

    Each proxy adds whom it heard from at the right of X-Forwarded-For. So the rightmost address that is not one of the
    proxies themselves is the sender's; whatever stands left of it, the sender may have made up.

    >>> Proxies(["10.0.0.0/8"]).sender("10.0.0.1", "198.51.100.1, 192.0.2.7, 10.0.0.2")
    '192.0.2.7'
    >>> Proxies(["10.0.0.1"]).sender("192.0.2.9", "198.51.100.1")
    '192.0.2.9'
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        self._networks = [_network(each) for each in trusted]

    def sender(self, peer: str, forwarded: str | None) -> str:
        """Who sent a request that came from `peer`."""
        if not self._networks or forwarded is None or not self._trusts(peer):
            return peer
        heard = [each.strip() for each in forwarded.split(",")]
        for each in reversed(heard):
            if _address(each) is None:
                return peer
            if not self._trusts(each):
                return each
        return heard[0]

    def _trusts(self, address: str) -> bool:
        found = _address(address)
        return found is not None and any(found in network for network in self._networks)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ipaddress.ip_network(text.strip())
    except ValueError as error:
        raise ValueError(
            f"A proxy must be an address, such as 127.0.0.1, or a network, such as 10.0.0.0/8. Got {text!r}."
        ) from error


def from_another_site(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser says that a page of another site sends this.

    Programs say nothing. Browsers of today state the relation, which survives every proxy; older ones state the page's
    origin, whose host must be the one that they asked.
    """
    relation = headers.get(b"sec-fetch-site")
    if relation is not None:
        return relation not in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return False
    host = origin.partition(b"://")[2].lower()
    asked = (headers.get(b"host", b""), headers.get(b"x-forwarded-host", b""))
    return host not in [each.strip().lower() for each in asked] or not host
