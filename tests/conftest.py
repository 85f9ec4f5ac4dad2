"""Small dense algebra is fastest on one thread; the limit has to be set before numpy loads."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

import pytest

pytest.register_assert_rewrite("support")

#: Whole folders and files that take long or need a browser, a database, node or a wheel.
SLOW = ("e2e", "evaluation", "packaging", "server", "cli", "docs/test_readme.py", "literature/test_centralized.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make check` leaves out."""
    root = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(root) and item.path.relative_to(root).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)
