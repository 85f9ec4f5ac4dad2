"""The forms that texts must have, as patterns for programs and in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The key of a submission, and the hash of a plan.
KEY, HASH = "^[0-9a-f]{32}$", "^[0-9a-f]{64}$"
#: A survey's name.
SURVEY = "^[0-9a-f]{16}(-[1-9][0-9]{0,3})?$"

_WORDS = {
    KEY: "Should be 32 hexadecimal digits in lower case: 16 random bytes, as 'openssl rand -hex 16' writes them",
    HASH: "Should be 64 hexadecimal digits in lower case: the hash of a plan, as 'tacit plan' and the plan say it",
}
#: What is missing without its form being known.
_MISSING = {("header", "idempotency-key"): f"Field required. {_WORDS[KEY]}"}


def complaint(error: Mapping[str, Any]) -> str:
    """What is wrong with a field, from what pydantic says of it; never what was sent."""
    if error["type"] == "missing":
        return _MISSING.get(tuple(error["loc"]), str(error["msg"]))
    return _WORDS.get(error.get("ctx", {}).get("pattern", ""), str(error["msg"]))
