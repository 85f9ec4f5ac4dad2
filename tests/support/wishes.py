"""Keywords of promises and searches in one dictionary, for tests that try many of them."""

from __future__ import annotations

from typing import Any

from tacit.designs import Promise, Search

_OF_PROMISES = ("notion", "ldp_cap", "prior_set")


def wished(epsilon: Any, **wishes: Any) -> dict[str, Any]:
    """The arguments of `design` after prior and task."""
    promise = Promise(epsilon, **{name: wishes.pop(name) for name in _OF_PROMISES if name in wishes})
    aim = {"aim": wishes.pop("aim")} if "aim" in wishes else {}
    return {"promise": promise, "search": Search(**wishes), **aim}


def in_search(options: dict[str, Any]) -> dict[str, Any]:
    """The same options of `make_plan` with what is about the search in a `Search`."""
    search = {name: options[name] for name in ("method", "gap", "time_limit") if name in options}
    return {name: value for name, value in options.items() if name not in search} | {"search": Search(**search)}
