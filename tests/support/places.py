"""Where things are: the project, its golden files, and the real data beside it, which is read in place."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
CLIENT = ROOT / "browser"
PAGES = ROOT / "src" / "tacit" / "server" / "site" / "pages"
DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the evaluation data is not beside the project: {DATA}")


def node() -> str:
    """Node 20 or newer: the system's, else the one that Playwright brings along."""
    import playwright

    found = shutil.which("node")
    if found is not None:
        version = subprocess.run([found, "-p", "parseInt(process.versions.node)"], capture_output=True, text=True)
        if version.returncode == 0 and int(version.stdout) >= 20:
            return found
    return str(Path(playwright.__file__).parent / "driver" / "node")
