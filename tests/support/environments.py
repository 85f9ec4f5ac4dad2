"""A clean environment with the wheel and one of its extras, without a network and without waiting for downloads.

The distributions that `tacit-privacy[extra]` needs are computed from metadata, markers included, and exactly these are
linked from the environment that runs the tests into a new one. Then the wheel is unpacked beside them; or pip installs
it with the extra and may not download anything, so it refuses an environment in which something is missing or too old.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distribution, distributions, packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pip as pip_itself
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: What is run sees nothing of the outside: no paths, no settings, not even the machine's for pip, which could name
#: places to download from.
_CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "TACIT_"))}
_CLEAN |= {"PIP_CONFIG_FILE": os.devnull}


class Environment:
    """A virtual environment in which the wheel is installed with an extra, or with none."""

    def __init__(self, folder: Path, wheel: Path, extra: str | None, *, by_pip: bool = False) -> None:
        (made,) = distributions(path=[str(wheel)])
        self.needed = closure(made.requires or [], extra)
        venv.create(folder, with_pip=False, symlinks=True)
        self._commands = folder / "bin"
        (packages,) = (folder / "lib").glob("python*/site-packages")
        for name in self.needed:
            _link(distribution(name), packages)
        unpacked = _unpacked(wheel)
        if not by_pip:
            for part in unpacked.iterdir():
                (packages / part.name).symlink_to(part)
            for command in made.entry_points:
                _write_command(self._commands, command)
            return
        wanted = f"tacit-privacy{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"
        # What `pip --python` does after having started once for itself.
        pip = [self._commands / "python", Path(pip_itself.__file__).with_name("__pip-runner__.py")]
        quietly = ["--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-compile", wanted]
        subprocess.run([*pip, *quietly], check=True, env=_CLEAN)
        # The same files for all environments, those of the first: else each would compile them anew.
        shutil.rmtree(packages / "tacit")
        (packages / "tacit").symlink_to(unpacked / "tacit")
        # Without a network, pip has added nothing but the wheel.
        assert {*self.needed, "tacit-privacy"} == {
            canonicalize_name(each.name) for each in distributions(path=[str(packages)])
        }

    def run(self, command: str, *words: str, cwd: Path, code: int = 0) -> str:
        """What a command of this environment prints; if it is to end with another exit code than 0, as an error."""
        line = [str(self._commands / command), *words]
        done = subprocess.run(line, cwd=cwd, env=_CLEAN, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    def start(self, command: str, *words: str, cwd: Path) -> subprocess.Popen[str]:
        """A command that goes on until it is stopped."""
        line = [str(self._commands / command), *words]
        return subprocess.Popen(line, cwd=cwd, env=_CLEAN, stdout=subprocess.PIPE, text=True)


def closure(wanted: Iterable[str], extra: str | None) -> set[str]:
    """The names of all distributions that these requirements need with the extra, and of what those need in turn."""
    seen: set[tuple[str, str]] = set()
    left = [*_applying(wanted, extra or "")]
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        for part in {"", *requirement.extras}:
            if (name, part) not in seen:
                seen.add((name, part))
                left += _applying(distribution(name).requires or [], part)
    return {name for name, _ in seen}


def _applying(wanted: Iterable[str], extra: str) -> Iterator[Requirement]:
    """The requirements whose markers hold on this machine with this extra."""
    for each in map(Requirement, wanted):
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            yield each


@cache
def _owners() -> dict[str, set[str]]:
    return {package: set(owners) for package, owners in packages_distributions().items()}


def _unpacked(wheel: Path) -> Path:
    """The folder beside the wheel with what is in it."""
    folder = wheel.with_suffix("")
    if not folder.exists():
        with ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder


def _write_command(folder: Path, command: EntryPoint) -> None:
    path = folder / command.name
    path.write_text(f"#!{folder}/python\nfrom {command.module} import {command.attr}\n{command.attr}()\n")
    path.chmod(0o755)


def _link(found: Distribution, folder: Path) -> None:
    """Show an installed distribution in another folder, without its commands."""
    assert found.files is not None
    for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
        assert len(_owners().get(top, ())) < 2, f"{top} belongs to several distributions: one cannot be shown alone"
        (folder / top).symlink_to(found.locate_file(top))
