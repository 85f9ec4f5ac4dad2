"""What is served is what is published: hashes on the pages, at /integrity, and from outside with `verify-page`."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli.everything import app
from tacit.server.http import intake
from tacit.server.invitations import new_secrets
from tacit.server.site import published as site
from tacit.server.site import verify_page as module
from tacit.server.site.published import digest
from tacit.server.site.verify_page import verify_page
from tacit.server.storage.store import Store, survey_id

from support.listening import listening
from support.places import PAGES
from support.service import Client, Days, key, plain_plan, serving


@pytest.fixture
def survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a survey's page, below a path, on a real connection."""
    store = Store(tmp_path / "data", Days())
    store.create(plain_plan())
    with listening(store, monkeypatch, below="/our/surveys/") as url:
        yield f"{url}/s/{survey_id(plain_plan())}"
    store.close()


def test_every_page_states_the_hash_of_everything_it_loads():
    published = site.published()
    for path in site.PAGES:
        html = published[path].content.decode()
        loaded = re.findall(
            r'<(?:script|link)[^>]*(?:src|href)="(?:\.\./)?(?:v/\w+/)?((?:static|client)/[^"]+)"([^>]*)>', html
        )
        scripts = [name for name, _ in loaded if name.endswith((".js", ".css"))]
        assert len(scripts) >= 3
        for name, attributes in loaded:
            if name.endswith((".js", ".css")):
                assert f'integrity="{published[name].digest}"' in attributes, name
    # Whatever a module imports is stated on the page as well: nothing comes in unchecked.
    survey = published["s/SURVEY"].content.decode()
    for script in (PAGES / "survey.js", PAGES / "report.js", PAGES / "language.js"):
        for name in re.findall(r'from "\./([\w/]+\.js)"', script.read_text(encoding="utf-8")):
            assert re.search(rf'href="../v/\w+/static/{name}" integrity=', survey), name
    assert re.search(r'href="../v/\w+/client/mechanism/many_values/shuffled_circle.js" integrity=', survey)


def test_the_hashes_are_published(client: Client):
    survey = client.open(plain_plan()).rpartition("/")[2]
    said = client.get("/integrity").json()
    assert said["tacit"] == tacit.__version__
    for path, hashed in said["files"].items():
        answer = client.get("/" + path.replace("SURVEY", survey))
        assert digest(answer.content) == hashed
    assert {"", "s/SURVEY", "d/SURVEY", "static/survey.js", "client/index.js", "static/languages/de.js"} <= set(
        said["files"]
    )


def test_files_of_an_edition_may_be_kept_and_another_edition_has_none(client: Client):
    html = client.get(client.open(plain_plan()).replace("/api/surveys", "/s")).text
    (path,) = set(re.findall(r'src="\.\.(/v/\w+/static/survey\.js)"', html))
    kept = client.get(path)
    assert kept.content == client.get("/static/survey.js").content
    assert kept.headers.get_list("cache-control") == ["public, max-age=31536000, immutable"]
    other = client.get("/v/0123456789abcdef/static/survey.js")
    assert (other.status_code, other.headers["cache-control"]) == (404, "no-cache")
    assert client.get("/static/survey.js").headers["cache-control"] == "no-cache"


def test_what_a_browser_has_is_not_sent_again(client: Client):
    first = client.get("/static/survey.js")
    again = client.get("/static/survey.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    other = client.get("/static/survey.js", headers={"If-None-Match": 'W/"sha384-other"'})
    assert other.content == first.content


def test_below_a_path_everything_answers_with_it_and_without(tmp_path: Path):
    """A proxy may leave the path on requests or take it off."""
    store = Store(tmp_path / "data", Days())
    with serving(store, public_url="https://host.example/our/surveys/") as client:
        survey = client.open(plain_plan(), invited=True)
        page = survey.replace("/api/surveys/", "/s/")
        for prefix in ("", "/our/surveys"):
            for path in ("/", page, "/static/survey.js", survey, "/healthz", "/integrity"):
                assert client.get(prefix + path).status_code == 200, prefix + path
            assert client.get(prefix + survey).headers["cache-control"] == "no-store"
            made = client.post(f"{prefix}{survey}/invitations", {"count": 1}, admin=True).json()
            assert made["links"] == [f"https://host.example/our/surveys{page}#invitation={made['invitations'][0]}"]
            body, plain = b'{"key": "%s", "report": 1}' % key(1).encode(), {"Content-Type": "text/plain"}
            other = {"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}
            for headers, status in ((plain, 415), (other, 403)):
                sent = client.request("POST", f"{prefix}{survey}/reports", content=body, headers=headers)
                assert sent.status_code == status, "a path in front changes nothing about who may post"
        assert client.get("/other/surveys" + survey).status_code == 404
    store.close()


# -- verify-page ------------------------------------------------------------------------------------------------------


def test_an_honest_service_passes_without_a_browser(survey: str):
    found = verify_page(survey)
    assert found.wrong == []
    looked_at = {finding.what for finding in found.findings}
    assert {f"s/{found.survey}", "client/mechanism/table/table.js", f"plan {found.survey}", "integrity"} <= looked_at
    said = CliRunner().invoke(app, ["verify-page", survey, "--json"])
    assert said.exit_code == 0
    assert json.loads(said.stdout)["sound"] is True
    home = verify_page(survey.partition("/s/")[0])
    assert (home.wrong, home.survey) == ([], None)


@pytest.mark.parametrize("path", ["client/words.js", "s/SURVEY", "static/languages/de.js", "static/style.css"])
def test_a_tampered_file_is_found_and_named(survey: str, monkeypatch: pytest.MonkeyPatch, path: str):
    """The service alters a file, and even the hashes it publishes itself."""
    ours = dict(site.published())
    altered = ours | {path: site.Page(ours[path].content + b" ", ours[path].media_type)}
    monkeypatch.setattr(site, "published", lambda: altered)
    (wrong,) = verify_page(survey).wrong
    assert wrong.what == path.replace("SURVEY", survey.rpartition("/")[2])
    assert re.fullmatch(r"Altered: expected sha384-\S+, got sha384-\S+\.", wrong.wrong)
    said = CliRunner().invoke(app, ["verify-page", survey])
    assert (said.exit_code, wrong.what in said.stdout) == (1, True)


def test_a_service_that_alters_pages_for_browsers_only_is_found(survey: str, monkeypatch: pytest.MonkeyPatch):
    """It tells browsers by any of the headers that they send and programs do not."""
    respond = site.Page.respond

    def treacherous(page: site.Page, request, *, forever: bool = False):  # type: ignore[no-untyped-def]
        marks = ("sec-ch-ua", "sec-fetch-dest", "accept-language", "sec-fetch-mode")
        is_browser = "Mozilla/5.0" in request.headers.get("user-agent", "") and all(m in request.headers for m in marks)
        wanted = "gzip" in request.headers.get("accept-encoding", "")
        if is_browser and wanted and b"crypto.getRandomValues" in page.content:
            page = site.Page(page.content + b"// steals", page.media_type)
        return respond(page, request, forever=forever)

    monkeypatch.setattr(site.Page, "respond", treacherous)
    assert {finding.what for finding in verify_page(survey).wrong} == {"client/words.js"}


def test_the_credential_key_is_compared_over_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = Store(tmp_path / "data", Days())
    known = tmp_path / "known.json"
    with listening(store, monkeypatch) as url:
        page = f"{url}/s/{survey_id(plain_plan())}"
        store.create(plain_plan(), **new_secrets(True))
        first = verify_page(page, known)
        assert (first.wrong, len(first.fingerprint or "")) == ([], 32)
        assert verify_page(page, known).wrong == []
        store.delete(survey_id(plain_plan()))
        store.create(plain_plan(), **new_secrets(True))
        (wrong,) = verify_page(page, known).wrong
        assert wrong.what == "credential key"
        assert str(first.fingerprint) in wrong.wrong
    store.close()


def test_another_policy_a_redirect_and_another_plan_are_found(survey: str, monkeypatch: pytest.MonkeyPatch):
    loose = [(name, value.replace(b"'none'", b"*")) for name, value in intake._HEADERS]
    with monkeypatch.context() as change:
        change.setattr(intake, "_HEADERS", loose)
        assert "Content-Security-Policy" in verify_page(survey).wrong[0].wrong
    with monkeypatch.context() as change:
        change.setattr(intake, "_HEADERS", [*intake._HEADERS, (b"refresh", b"0; url=https://evil.example/")])
        assert "Refresh" in verify_page(survey).wrong[0].wrong
    with monkeypatch.context() as change:
        change.setattr(module, "tacit", SimpleNamespace(__version__="0.0.1"))
        assert "integrity" in {finding.what for finding in verify_page(survey).wrong}
    other = survey[:-4] + "0000"
    named = other.rpartition("/")[2]
    assert {finding.what for finding in verify_page(other).wrong} == {f"plan {named}", f"s/{named}", f"d/{named}"}


def test_what_is_no_service_is_said_in_a_sentence():
    for wrong in ("survey.example", "ftp://survey.example/", "https:///s/0"):
        said = CliRunner().invoke(app, ["verify-page", wrong])
        assert said.exit_code == 2
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        said = CliRunner().invoke(app, ["verify-page", f"http://127.0.0.1:{closed.getsockname()[1]}/"])
    assert said.exit_code == 2
