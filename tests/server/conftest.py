"""The same tests on SQLite and on PostgreSQL, each with a fresh database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacit.server.storage.store import Store

from support import postgres as pg
from support import service


@pytest.fixture(scope="session")
def postgres() -> Iterator[pg.Postgres]:
    """A PostgreSQL of the tests' own; without it these tests are skipped, except where everything must run."""
    if pg.binaries() is None:
        told = "PostgreSQL is missing, so the collector is UNTESTED on it: install Debian's package postgresql."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    with pg.running() as running:
        yield running


@pytest.fixture(autouse=True, scope="session")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where the secrets of all databases of PostgreSQL are, also for the processes that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_SECRETS", str(tmp_path_factory.mktemp("secrets")))
        yield


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store keeps its data: a new folder, or the URL of a new database."""
    return service.new_place(request, tmp_path, request.param)


@pytest.fixture
def on_postgres(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new database."""
    return service.new_place(request, tmp_path, "postgres")


@pytest.fixture
def days() -> service.Days:
    """The calendar of `store`."""
    return service.Days()


@pytest.fixture
def store(where: str, days: service.Days) -> Iterator[Store]:
    """A store on either database."""
    opened = Store(where, days)
    yield opened
    opened.close()


@pytest.fixture
def client(tmp_path: Path, days: service.Days) -> Iterator[service.Client]:
    """The service on SQLite: what is above the store does not know the database."""
    opened = Store(tmp_path / "data", days)
    with service.serving(opened) as serving:
        yield serving
    opened.close()


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service.Client]:
    """One service for all requests of a file that are refused, with a survey of the plain plan: nothing ever changes.

    What did change is found when the file ends.
    """
    opened = Store(tmp_path_factory.mktemp("refusing"), service.Days())
    with service.serving(opened) as serving:
        survey = serving.open(service.plain_plan())
        before = serving.get(survey).json()
        yield serving
        assert service.stored(opened) == {}
        assert [(each.id, n) for each, n in opened.surveys()] == [(before["id"], 0)]
        assert serving.get(survey).json() == before
    opened.close()
