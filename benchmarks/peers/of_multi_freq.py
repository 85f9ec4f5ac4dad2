"""multi-freq-ldpy (PyPI, 0.2.5): a compiled call for each respondent, words from numba's generator, always clipped.

Its aggregators end in `MI`, which clips and renormalises. What it is given is kept on the way, so that the unclipped
estimate can be read from the same counts: (count/n − q)/(p − q). Intervals are around what it returns, with the
variance that its `VAR_Pure` states.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from peers.peer import Exact, Peer, Shares, bytes_for, k_ary_ratio, pure_shares

SYSTEM = "multi-freq-ldpy"
SEED_BYTES = 8
NORMAL = 1.959963984540054


def peers(d: int, epsilon: float) -> list[Peer]:
    """Its protocols for d values."""
    return [_k_ary(d, epsilon), _unary(d, epsilon), _hashing(d, epsilon), _subset(d, epsilon)]


def _read(module: ModuleType, aggregate: Callable[[Any], Any]) -> Callable[[Any], Shares]:
    """Its aggregator, with the counts that it passes on to `MI` kept."""
    from multi_freq_ldpy.estimators.Histogram_estimator import MI
    from multi_freq_ldpy.pure_frequency_oracles.Variance_PURE import VAR_Pure

    def estimate(reports: Any) -> Shares:
        seen: list[tuple[Any, int, float, float]] = []

        def keep(counts: Any, n: int, p: float, q: float) -> Any:
            seen.append((counts, n, p, q))
            return MI(counts, n, p, q)

        module.MI = keep  # type: ignore[attr-defined]
        try:
            own = np.asarray(aggregate(reports))
        finally:
            module.MI = MI  # type: ignore[attr-defined]
        [(counts, n, p, q)] = seen
        half = NORMAL * np.sqrt(np.maximum(VAR_Pure(p, q, n, own), 0))
        return Shares(pure_shares(counts, n, p, q), own, own - half, own + half)

    return estimate


def _each(client: Callable[..., Any], d: int, epsilon: float) -> Callable[[Any], Any]:
    return lambda values: [client(value, d, epsilon) for value in values.tolist()]


def _k_ary(d: int, epsilon: float) -> Peer:
    from multi_freq_ldpy.pure_frequency_oracles import GRR

    truthful = float(np.exp(epsilon) / (np.exp(epsilon) + d - 1))
    return Peer(
        system=SYSTEM, protocol="k-RR", epsilon=epsilon, secure=False, bytes_per_report=bytes_for(d),
        perturb=_each(GRR.GRR_Client, d, epsilon),
        estimate=_read(GRR, lambda reports: GRR.GRR_Aggregator_MI(reports, d, epsilon)),
        supports=lambda reports, x: np.asarray(reports) == x,
        exact=lambda: Exact(k_ary_ratio(truthful, d)),
    )  # fmt: skip


def _unary(d: int, epsilon: float) -> Peer:
    from multi_freq_ldpy.pure_frequency_oracles import UE

    return Peer(
        system=SYSTEM, protocol="OUE", epsilon=epsilon, secure=False, bytes_per_report=math.ceil(d / 8),
        perturb=_each(UE.UE_Client, d, epsilon),
        estimate=_read(UE, lambda reports: UE.UE_Aggregator_MI(reports, epsilon)),
        supports=lambda reports, x: np.array([report[x] == 1 for report in reports]),
    )  # fmt: skip


def _hashing(d: int, epsilon: float) -> Peer:
    from multi_freq_ldpy.pure_frequency_oracles import LH

    buckets = round(math.exp(epsilon)) + 1
    return Peer(
        system=SYSTEM, protocol="OLH", epsilon=epsilon, secure=False,
        bytes_per_report=SEED_BYTES + bytes_for(buckets),
        perturb=_each(LH.LH_Client, d, epsilon),
        estimate=_read(LH, lambda reports: LH.LH_Aggregator_MI(reports, d, epsilon)),
        supports=lambda reports, x: np.array([_hashed(report, x, buckets) for report in reports]),
    )  # fmt: skip


def _hashed(report: tuple[int, int], x: int, buckets: int) -> bool:
    import xxhash

    value, seed = report
    return bool(value == xxhash.xxh32(str(x), seed=seed).intdigest() % buckets)


def _subset(d: int, epsilon: float) -> Peer:
    from multi_freq_ldpy.pure_frequency_oracles import SS

    size = max(1, round(d / (math.exp(epsilon) + 1)))
    return Peer(
        system=SYSTEM, protocol="subset", epsilon=epsilon, secure=False,
        bytes_per_report=min(size * bytes_for(d), math.ceil(d / 8)),
        perturb=_each(SS.SS_Client, d, epsilon),
        estimate=_read(SS, lambda reports: SS.SS_Aggregator_MI(reports, d, epsilon)),
        supports=lambda reports, x: (np.asarray(reports) == x).any(axis=1),
    )  # fmt: skip
