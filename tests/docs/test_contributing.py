"""The house: every file and every name that CONTRIBUTING mentions is there. The walk is in `test_walk.py`."""

from __future__ import annotations

import ast
import re

import pytest

from support.places import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "tacit"
FILES = sorted(set(re.findall(r"`([a-z_/]+\.(?:py|js))`", TEXT)))
#: "`folder/file.py`, `name`" says that the name is in the file; line breaks do not matter.
PAIRS = set(re.findall(r"`([a-z_/]+\.py)`,\s+`([A-Za-z_.0-9]+)`", TEXT))
NAMES = sorted((file, name) for file, name in PAIRS if not name.endswith(".py"))


def place(file: str):
    found = [path for path in SOURCE.rglob(file.rsplit("/", 1)[-1]) if path.as_posix().endswith(f"/{file}")]
    found += [path for path in [ROOT / file] if path.is_file()]
    assert found, f"CONTRIBUTING names {file}, which is not there"
    return found


@pytest.mark.parametrize("file", FILES)
def test_every_file_is_there(file: str):
    assert place(file)


@pytest.mark.parametrize(("file", "name"), NAMES)
def test_every_name_is_in_its_file(file: str, name: str):
    names = set()
    for path in place(file):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
                methods = node.body if isinstance(node, ast.ClassDef) else []
                names |= {f"{node.name}.{each.name}" for each in methods if isinstance(each, ast.FunctionDef)}
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {each.id for each in targets if isinstance(each, ast.Name)}
    assert name in names, f"{file} has no {name}"


def test_files_and_names_were_found():
    assert len(FILES) > 25
    assert NAMES


def test_every_room_has_its_line():
    rooms = {path.stem for path in SOURCE.iterdir() if not path.name.startswith(("_", "py."))}
    table = re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
    named = {room.strip("`/ ").removesuffix(".py") for row in table for room in row.split(",")}
    assert named == rooms, rooms ^ named
