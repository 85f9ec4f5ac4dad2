"""A free port."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
