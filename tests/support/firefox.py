"""Firefox as Debian packages it, driven by the protocol that it speaks itself (WebDriver BiDi): no driver is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

_SAYS = "WebDriver BiDi listening on "
_PATIENCE = 60


class Firefox:
    """One tab."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self.complaints: list[str] = []
        self._ask("session.new", capabilities={})
        self._ask("session.subscribe", events=["log.entryAdded"])
        self._tab = self._ask("browsingContext.create", type="tab")["context"]

    def go(self, url: str) -> None:
        """Open an address and wait until it is loaded."""
        self._ask("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def run(self, script: str) -> Any:
        """What a JavaScript expression gives, by way of JSON."""
        result = self._evaluate(f"(async () => JSON.stringify(await ({script}) ?? null))()")
        return json.loads(result["value"])

    def wait(self, script: str) -> Any:
        """What an expression gives once it is true."""
        end = time.monotonic() + _PATIENCE
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.05)
        return found

    def click(self, name: str, times: int = 1) -> None:
        """Click on the element with this test id, as a mouse does."""
        self.wait(f"document.querySelector('[data-testid={name}]')?.checkVisibility()")
        found = self._evaluate(f"document.querySelector('[data-testid={name}]')")
        self._evaluate(f"document.querySelector('[data-testid={name}]').scrollIntoView({{ block: 'center' }})")
        origin = {"type": "element", "element": {"sharedId": found["sharedId"]}}
        press = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        moves = [{"type": "pointerMove", "x": 0, "y": 0, "origin": origin}, *press * times]
        self._ask("input.performActions", context=self._tab, actions=[{"type": "pointer", "id": "m", "actions": moves}])

    def _evaluate(self, expression: str) -> dict[str, Any]:
        answer = self._ask(
            "script.evaluate", expression=expression, target={"context": self._tab}, awaitPromise=True,
        )  # fmt: skip
        assert answer["type"] == "success", answer
        result: dict[str, Any] = answer["result"]
        return result

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            said = json.loads(self._connection.recv(timeout=_PATIENCE))
            if said.get("method") == "log.entryAdded" and said["params"]["level"] in ("error", "warn"):
                self.complaints.append(str(said["params"]["text"]))
            if said.get("id") == self._number:
                assert said["type"] == "success", said
                result: dict[str, Any] = said["result"]
                return result


def _binary() -> str:
    """The system's Firefox; without it this is skipped, except where everything must run."""
    found = shutil.which("firefox-esr") or shutil.which("firefox")
    if found is None:
        told = "Firefox is missing, so the pages are UNTESTED in it: install Debian's package firefox-esr."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    return found


@contextmanager
def running(folder: Path) -> Iterator[Firefox]:
    """A fresh Firefox with a profile in this folder."""
    command = [_binary(), "--headless", "--no-remote", "--profile", str(folder), "--remote-debugging-port", "0"]
    environment = os.environ | {"HOME": str(folder)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment) as process:
        assert process.stderr is not None
        try:
            lines = (line.decode(errors="replace") for line in process.stderr)
            url = next(line.partition(_SAYS)[2].strip() for line in lines if _SAYS in line)
            with connect(f"{url}/session", proxy=None, open_timeout=_PATIENCE) as connection:
                yield Firefox(connection)
        finally:
            process.terminate()
