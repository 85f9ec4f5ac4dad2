"""Real data beside the project, read in place. Tests that need it skip with a reason where it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the evaluation data is not beside the project: {DATA}")
