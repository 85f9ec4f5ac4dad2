"""The reference leaves nothing out: every public name, and every option of the nested commands.

Options of the other commands are held by tests/cli/test_commands.py, routes by tests/server/test_service_documents.py.
"""

from __future__ import annotations

import re
from importlib import import_module

import pytest
import typer

from tacit.cli.personal import app as personal

from support.places import ROOT
from support.public import resolve

ROOMS = (
    "tacit",
    "tacit.mechanism",
    "tacit.designs",
    "tacit.plan",
    "tacit.estimates",
    "tacit.files",
    "tacit.personal",
    "tacit.published",
    "tacit.randomize",
)
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """A part of the reference, up to the next title of its rank."""
    return REFERENCE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def described() -> list[str]:
    """The names in the tables about Python, in full: `tacit.Sum`, `Histogram` stands for tacit.Sum, tacit.Histogram."""
    names = []
    for cell in re.findall(r"^\| (`.*?`) \|", section("Python"), re.MULTILINE):
        room = ""
        for name in re.findall(r"`([\w.]+)[^`]*`", cell):
            room = name.rpartition(".")[0] or room
            names.append(f"{room}.{name.rpartition('.')[2]}")
    return names


def exists(name: str) -> bool:
    try:
        resolve(name)
    except (AttributeError, ModuleNotFoundError):
        return False
    return True


def test_the_reference_invents_no_name():
    assert described()
    invented = [name for name in described() if not exists(name)]
    assert not invented, ", ".join(invented)


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_in_the_reference(room: str):
    """A name that is public in several places is described under one of them."""
    known = [resolve(name) for name in described() if exists(name)]
    public = import_module(room).__all__
    assert public
    missing = [name for name in public if not any(resolve(f"{room}.{name}") is each for each in known)]
    assert not missing, ", ".join(missing)


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_public_exists_and_is_listed_once(room: str):
    public = import_module(room).__all__
    assert len(set(public)) == len(public)
    for name in public:
        assert exists(f"{room}.{name}"), name


def test_the_options_of_the_nested_commands_are_in_the_reference():
    text = section("Individual priors")
    for name, command in typer.main.get_command(personal).commands.items():
        (usage,) = re.findall(rf"^ +tacit personal {name} (.*)$", text, re.MULTILINE)
        for param in command.params:
            # One of --output and -o is enough; --json is said of all of them together.
            named = [option for option in param.opts if re.search(rf"{option}\b", f"{usage} --json")]
            assert named or not param.opts[0].startswith("-"), (name, param.opts)
    assert "Every step has `--json`." in text


def test_every_environment_variable_is_in_the_reference():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "tacit").rglob("*.py")]
    read = {variable for text in sources for variable in re.findall(r"TACIT_[A-Z]+", text)}
    assert read
    assert {variable for variable in read if f"`{variable}`" not in REFERENCE} == set()
