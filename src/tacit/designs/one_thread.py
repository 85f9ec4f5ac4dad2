"""Linear algebra on one thread: designs solve many small systems, whose threads would wait for each other mostly."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """While it is entered, the libraries of linear algebra that are loaded use one thread each.

    >>> with one_thread():
    ...     pass
    """
    limited: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """What is loaded. Looking takes milliseconds, and libraries come with modules: again only if there are more."""
    return ThreadpoolController()
