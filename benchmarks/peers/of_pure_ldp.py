"""pure-ldp (PyPI, 1.2.0): one Python call for each respondent, words from `random` and `numpy.random`."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from peers.peer import Exact, Peer, Shares, bytes_for, k_ary_ratio

SYSTEM = "pure-ldp"
#: Hash functions of its fast local hashing, the number in its own examples.
FAST_HASHES = 500
#: Its table of hashes is filled in Python: a minute beyond this many cells.
FAST_CELLS = 200_000
SEED_BYTES = 8


def peers(d: int, epsilon: float) -> list[Peer]:
    """Its protocols for d values."""
    made = [_direct(d, epsilon), _unary(d, epsilon), _hashing(d, epsilon), _hadamard(d, epsilon)]
    if d * FAST_HASHES <= FAST_CELLS:
        made.append(_fast_hashing(d, epsilon))
    return made


def _same(position: int) -> int:
    return position


def _each(client: Any) -> Any:
    return lambda values: [client.privatise(value) for value in values.tolist()]


def _server(server: Any, d: int) -> Any:
    """Its own aggregation, and its own estimate for every value, neither clipped nor normalised."""

    def estimate(reports: Any) -> Shares:
        server.reset()
        server.aggregate_all(reports)
        return Shares(np.asarray(server.estimate_all(range(d), suppress_warnings=True)) / len(reports))

    return estimate


def _direct(d: int, epsilon: float) -> Peer:
    from pure_ldp.frequency_oracles import DEClient, DEServer

    client = DEClient(epsilon, d, index_mapper=_same)
    return Peer(
        system=SYSTEM, protocol="k-RR", epsilon=epsilon, secure=False, bytes_per_report=bytes_for(d),
        perturb=_each(client), estimate=_server(DEServer(epsilon, d, index_mapper=_same), d),
        supports=lambda reports, x: np.asarray(reports) == x,
        exact=lambda: Exact(k_ary_ratio(client.p, d)),
    )  # fmt: skip


def _unary(d: int, epsilon: float) -> Peer:
    from pure_ldp.frequency_oracles import UEClient, UEServer

    return Peer(
        system=SYSTEM, protocol="OUE", epsilon=epsilon, secure=False, bytes_per_report=math.ceil(d / 8),
        perturb=_each(UEClient(epsilon, d, use_oue=True, index_mapper=_same)),
        estimate=_server(UEServer(epsilon, d, use_oue=True, index_mapper=_same), d),
        supports=lambda reports, x: np.array([report[x] == 1 for report in reports]),
    )  # fmt: skip


def _hashed(report: tuple[int, int], x: int, buckets: int) -> bool:
    import xxhash

    value, seed = report
    return bool(value == xxhash.xxh32(str(x), seed=seed).intdigest() % buckets)


def _hashing(d: int, epsilon: float) -> Peer:
    from pure_ldp.frequency_oracles import LHClient, LHServer

    client = LHClient(epsilon, d, use_olh=True, index_mapper=_same)
    return Peer(
        system=SYSTEM, protocol="OLH", epsilon=epsilon, secure=False,
        bytes_per_report=SEED_BYTES + bytes_for(client.g),
        perturb=_each(client), estimate=_server(LHServer(epsilon, d, use_olh=True, index_mapper=_same), d),
        supports=lambda reports, x: np.array([_hashed(report, x, client.g) for report in reports]),
    )  # fmt: skip


def _fast_hashing(d: int, epsilon: float) -> Peer:
    from pure_ldp.frequency_oracles.local_hashing import FastLHClient, FastLHServer

    client = FastLHClient(epsilon, d, FAST_HASHES, use_olh=True, index_mapper=_same)
    server = FastLHServer(epsilon, d, FAST_HASHES, use_olh=True, index_mapper=_same)

    def estimate(reports: Any) -> Shares:
        # Its reset leaves these counts.
        server.hash_counts = np.zeros((FAST_HASHES, server.g))
        return _server(server, d)(reports)

    return Peer(
        system=SYSTEM, protocol="fast OLH", epsilon=epsilon, secure=False,
        bytes_per_report=bytes_for(FAST_HASHES) + bytes_for(client.g),
        perturb=_each(client), estimate=estimate,
        supports=lambda reports, x: np.array([_hashed(report, x, client.g) for report in reports]),
        biased=True, note=f"{FAST_HASHES} hash functions for everybody: a part of its error does not shrink with N",
    )  # fmt: skip


def _hadamard(d: int, epsilon: float) -> Peer:
    from pure_ldp.frequency_oracles import HadamardResponseClient, HadamardResponseServer

    server = HadamardResponseServer(epsilon, d, index_mapper=_same)
    client = HadamardResponseClient(epsilon, d, server.get_hash_funcs(), index_mapper=_same)
    size = server.hr.outsz

    @cache
    def column(x: int) -> Any:
        """Which of its reports count for x, by its own check of the matrix."""
        if epsilon <= 1:
            return np.array([server.hr.parity_check(x + 1, report) == 0 for report in range(size)])
        block, within = divmod(int(server.hr.permute[x]), server.hr.partsz - 1)
        place = (block << server.hr.tailbit) + within + 1
        return np.array([server.hr.entry_check(place, report) == 0 for report in range(size)])

    return Peer(
        system=SYSTEM, protocol="Hadamard", epsilon=epsilon, secure=False, bytes_per_report=bytes_for(size),
        perturb=_each(client), estimate=_server(server, d),
        supports=lambda reports, x: column(x)[np.asarray(reports)],
    )  # fmt: skip
