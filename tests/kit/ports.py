"""Ports of this machine: one that is free, and whether somebody listens on one."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a free port; another process may take it before the caller does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def answers(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether somebody listens on *port* of *host*."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
