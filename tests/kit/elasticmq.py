"""Starts ElasticMQ, a queue with the interface of SQS: visibility timeouts, FIFO groups, redrive."""

from __future__ import annotations

from typing import Any

from tests.kit import tables
from tests.kit.engines import ENGINES, Engine


def _command(port: int) -> list[str]:
    return [
        "java",
        f"-Dnode-address.port={port}",
        f"-Drest-sqs.bind-port={port}",
        "-Drest-sqs.bind-hostname=127.0.0.1",
        "-Drest-stats.enabled=false",
        *("-cp", "lib/*", "org.elasticmq.server.Main"),
    ]


running = Engine("ElasticMQ", ENGINES / "elasticmq", "lib/elasticmq-server_*.jar", "queue", _command).running
"""Run it in memory, and yield its endpoint."""


def client(endpoint: str) -> Any:
    """Return a client of the queues at *endpoint*."""
    return tables.session().client("sqs", endpoint_url=endpoint)
