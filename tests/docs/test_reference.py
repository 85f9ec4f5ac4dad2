"""The reference leaves nothing out: every public name and every command has its place on the site.

`tools/site.py` fills the pages; `test_site.py` builds them. Routes are held by tests/server/test_service_documents.py.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from importlib import import_module

import pytest

from tacit.cli.everything import FILES, command_of

from support.places import ROOT

DOCS = ROOT / "docs"
REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")
SPEC = importlib.util.spec_from_file_location("site_of_tacit", ROOT / "tools" / "site.py")
site = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(site)


def test_every_room_has_its_place_on_a_page():
    described = [
        room for page in (DOCS / "api").glob("*.md")
        for room in re.findall(r"<!-- describe: tacit\.([\w.]+) -->", page.read_text(encoding="utf-8"))
    ]  # fmt: skip
    assert sorted(described) == sorted(site.ROOMS)
    rooms = {path.parent.name for path in (ROOT / "src" / "tacit").glob("*/__init__.py")}
    public = {room for room in rooms if hasattr(import_module(f"tacit.{room}"), "__all__")}
    assert public <= set(site.ROOMS)


def test_every_public_name_of_tacit_has_a_home_in_a_room():
    homes = site.homes()
    for name, thing in site.public("tacit").items():
        assert any(path.endswith(f".{name}") and site._get(path) is thing for path in homes), name


@pytest.mark.parametrize("room", ["", *(f".{room}" for room in site.ROOMS)])
def test_what_is_public_exists_and_is_listed_once(room: str):
    public = getattr(import_module(f"tacit{room}"), "__all__", [])
    assert len(set(public)) == len(public)
    assert set(public) <= set(dir(import_module(f"tacit{room}")))


def test_every_command_is_in_the_reference():
    known = set()
    for name in FILES:
        nested = getattr(command_of(name), "commands", None)
        known |= {f"{name} {each}" for each in nested} if nested else {name}
    assert sorted(re.findall(r"<!-- command: ([\w -]+) -->", REFERENCE)) == sorted(known)


def test_a_name_without_a_docstring_and_an_option_without_help_stop_the_build():
    def undocumented() -> None: ...

    with pytest.raises(site.PluginError, match="undocumented is public and has no docstring"):
        site.summary(undocumented, "undocumented")
    with pytest.raises(site.PluginError, match="has no comment"):
        site.constant("tacit.plan", "__name__")
    command = command_of("audit")
    silent = type("Silent", (), {"opts": ["--silent"], "help": None, "param_type_name": "option"})()
    with pytest.raises(site.PluginError, match="--silent has no help"):
        site.option(silent, command.make_context("tacit audit", [], resilient_parsing=True))


def test_a_link_to_a_file_that_is_not_there_stops_the_build():
    wrong = re.search(r"\]\(([^)#]+)(#.*)?\)", "[x](../src/tacit/nowhere.py)")
    with pytest.raises(site.PluginError, match="leads nowhere"):
        site.link(wrong, "docs/plan.md")


#: Their examples are longer than a docstring; a page shows them, and the tests run that page.
SHOWN_ON_PAGES = {
    "covariate_levels", "crosstab", "estimate_questions", "expected_errors", "pooled_compliance", "read_for",
    "regress_on_private", "arms_drawn", "estimate", "make_questionnaire", "read_joint", "ends_within",
}  # fmt: skip


@pytest.mark.parametrize("path", [path for path in site.homes() if site._is_function(site._get(path))])
def test_every_function_names_its_parameters_and_has_an_example(path: str):
    """A parameter has a line under Args, or the text says in `backticks` what it is for."""
    function = inspect.unwrap(site._get(path))
    text, _, described = inspect.getdoc(function).partition("Args:")
    missing = [
        name for name in inspect.signature(function).parameters
        if f"`{name}`" not in text and not re.search(rf"^    \**{name}: \S", described, re.MULTILINE)
    ]  # fmt: skip
    if ">>> " not in text + described and function.__name__ not in SHOWN_ON_PAGES:
        missing.append("an example")
    assert missing == []


def test_every_environment_variable_is_in_the_reference():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "tacit").rglob("*.py")]
    read = {variable for text in sources for variable in re.findall(r"TACIT_[A-Z_]+[A-Z]", text)}
    assert read
    shown = REFERENCE + "".join(site.command(f"serve {name}") for name in command_of("serve").commands)
    # Each can also be read from a file, by the name with _FILE.
    assert {variable for variable in read if f"`{variable.removesuffix('_FILE')}`" not in shown} == set()
