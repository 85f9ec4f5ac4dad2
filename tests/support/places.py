"""Where things are: the project, its golden files, and the real data beside it, which is read in place."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
CLIENT = ROOT / "browser"
PAGES = ROOT / "src" / "tacit" / "server" / "site" / "pages"
DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the evaluation data is not beside the project: {DATA}")
