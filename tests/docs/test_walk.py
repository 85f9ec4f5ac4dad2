"""The walk of one answer in CONTRIBUTING is true: its script runs, and calls what the picture says, in that order."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import tacit

from support.places import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALK = TEXT[TEXT.index("## One answer's way") : TEXT.index("## A new mechanism")]
SCRIPT = re.search(r"```python\n(.*?)```", WALK, re.DOTALL).group(1)
PICTURE = re.search(r"```text\n(.*?)```", WALK, re.DOTALL).group(1)
SOURCE = Path(tacit.__file__).parent
PRIORS = "group,value,probability\nold,yes,0.3\nold,no,0.7\nyoung,yes,0.1\nyoung,no,0.9\n"
#: The rooms that the script enters, in the order of the house.
HOUSE = ("designs", "plan", "randomize", "tally", "estimates", "show")

#: A function by its file and name.
Call = tuple[str, str]


def steps(picture: str) -> list[tuple[Call, list[Call]]]:
    """Each function of the picture, and those above it to its left."""
    found, above = [], []
    for line in picture.splitlines():
        indent, name, file = re.match(r"( *)(\S+) +(\S+\.py)", line).groups()
        del above[len(indent) // 2 :]
        found.append(((file, name), list(above)))
        above.append((file, name))
    return found


@pytest.fixture(scope="module")
def calls(tmp_path_factory) -> list[list[Call]]:
    """Every call of the script into the package, as the stack that it makes, the new function last."""
    folder, found, stack = tmp_path_factory.mktemp("walk"), [], []
    (folder / "priors.csv").write_text(PRIORS, encoding="utf-8")

    def watch(frame, event, _):
        file = frame.f_code.co_filename
        if not file.startswith(str(SOURCE)) or frame.f_code.co_name.startswith("<"):
            return
        call = Path(file).relative_to(SOURCE).as_posix(), frame.f_code.co_qualname
        if event == "call":
            stack.append(call)
            found.append(list(stack))
        elif event == "return" and stack and stack[-1] == call:
            stack.pop()

    code, before, there = compile(SCRIPT, "CONTRIBUTING.md", "exec"), sys.getprofile(), os.getcwd()
    os.chdir(folder)
    try:
        exec(code, {})  # Once without a profiler: what is imported is no part of the walk.
        sys.setprofile(watch)
        exec(code, {})
    finally:
        sys.setprofile(before)
        os.chdir(there)
    assert (folder / "estimate.html").stat().st_size > 1000
    return found


def first_missing(calls: list[list[Call]], wanted: list[tuple[Call, list[Call]]]) -> Call | None:
    """The first function that is not called below those above it, after the ones before it; None if all are."""
    place = 0
    for call, above in wanted:
        while place < len(calls) and not (calls[place][-1] == call and set(above) <= set(calls[place])):
            place += 1
        if place == len(calls):
            return call
        place += 1
    return None


def test_every_function_of_the_picture_is_called_in_that_order(calls):
    wanted = steps(PICTURE)
    assert len(wanted) > 20
    assert first_missing(calls, wanted) is None
    # Named wrong pictures: two steps exchanged, and a function below one that does not call it.
    exchanged = [*wanted[:1], wanted[-1], *wanted[1:]]
    assert first_missing(calls, exchanged) is not None
    assert first_missing(calls, [(wanted[0][0], [wanted[-1][0]])]) is not None


def test_the_script_enters_each_room_once(calls):
    rooms = [stack[0][0].split("/")[0].removesuffix(".py") for stack in calls if len(stack) == 1]
    entered = [room for place, room in enumerate(rooms) if room in HOUSE and rooms[place - 1 : place] != [room]]
    assert list(dict.fromkeys(entered)) == list(HOUSE)
    order = [HOUSE.index(room) for room in rooms if room in HOUSE]
    assert order == sorted(order)
