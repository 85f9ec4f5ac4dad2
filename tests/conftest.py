"""Small dense algebra is fastest on one thread; the limit has to be set before numpy loads."""

import atexit
import gc
import os
from collections.abc import Generator, Iterator
from functools import cache

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if "PYTEST_XDIST_WORKER" in os.environ:
    # Registered first, so it comes last: workers skip the teardown in which DuckDB's nanobind lists what is left.
    atexit.register(os._exit, 0)

from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, and nothing about what is tested.
settings.register_profile("tacit", deadline=None)
settings.load_profile("tacit")

pytest.register_assert_rewrite("support")

#: Whole folders and files that take long or need a browser, a database, node or a wheel.
SLOW = (
    "browser", "e2e", "studies", "packaging", "server", "deploy", "cli", "docs/test_readme.py", "docs/test_f",
    "docs/test_site.py", "designs/program", "designs/test_knots.py", "designs/test_design.py",
    "mechanism/test_many_values", "personal",
    "estimates", "prior/test_sets.py", "files/test_spark.py",
)  # fmt: skip


#: The files that take longest come first, so that all workers end together (`--no-loadscope-reorder` keeps this order),
#: and those that share a browser one after the other.
FIRST = (
    "files/test_spark.py", "e2e", "server/storage/test_crash.py", "server/http/test_hostile_openapi.py", "packaging",
    "studies", "browser", "cli", "docs", "estimates", "mechanism", "designs", "server",
)  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: looking for garbage in it, again and again, takes a sixth of this time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make check` leaves out, and put the longest first."""
    for item in items:
        if _place(item.path).startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: next((k for k, name in enumerate(FIRST) if _place(item.path).startswith(name)), 99))


@cache
def _place(path: Path) -> str:
    """The path of a file in this folder; empty for a file of another one."""
    root = Path(__file__).parent
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else ""


@pytest.fixture(scope="session")
def tacit_on_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the PATH with a `tacit` that starts at once."""
    from support.warm import warm_command

    with warm_command(tmp_path_factory.mktemp("warm")) as folder:
        yield folder
