"""Intervals whose ends are judged by their own variance, as Wilson's (1927) is: what rare answers need.

A pure protocol's estimate x of a count θ has a variance that is linear in θ. Few holders may all go unseen: then x is
0, and so, nearly, is the variance at x, but not at the θ that would explain it. So θ belongs to the interval if

    (x − θ)² ≤ z² V(θ),     V(θ) = V(x) + s·(θ − x),

which is solved by θ = x ± r, r = ±z²s/2 + √((z²s/2)² + z²V(x)). With s = 0 this is z·√V(x), as ever.
"""

from __future__ import annotations

import numpy as np

from tacit.exact import Floats


def reach(variance: Floats, slope: float | Floats, z: float, side: int) -> Floats:
    """r for the upper end (`side` 1) or the lower one (−1).

    Unary encoding at a large ε: nobody was seen, and 3 may have been there.

    >>> [round(float(reach(np.zeros(1), slope, 1.96, 1)[0]), 2) for slope in (0.0, 1.0)]
    [0.0, 3.84]
    """
    half = side * z * z * slope / 2
    found: Floats = half + np.sqrt(half * half + z * z * np.maximum(variance, 0.0))
    return found
