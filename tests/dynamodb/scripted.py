"""A server that sends what a test has written for it, and responses as DynamoDB sends them."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from zlib import crc32

JSON = "application/x-amz-json-1.0"
READ_TIMEOUT = 5.0
"""Seconds after which a server gives up a connection that a failing test has left open."""


def answer(content: object, status: int = 200, **headers: str | None) -> bytes:
    """
    Return an HTTP response as DynamoDB sends it: *content* is bytes, or is written as JSON.

    A header that is None is left out.
    """
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    shown: dict[str, str | None] = {
        "Content-Type": JSON,
        "Content-Length": str(len(body)),
        "x-amzn-RequestId": "R1",
        "x-amz-crc32": str(crc32(body)),
    }
    shown |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in shown.items() if value is not None)
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode() + body


def refusal(code: str, message: str = "no", status: int = 400, **more: object) -> bytes:
    """Return DynamoDB's error *code* as an HTTP response, with *more* in its body."""
    return answer({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message, **more}, status)


class Server:
    """Sends what its script has for each connection, one entry a request, and closes it."""

    def __init__(self, *connections: list[bytes]) -> None:
        self._script = list(connections)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if not self._script:
                connection.close()
                return
            self.connections += 1
            with suppress(OSError):  # the client has gone
                self._answer(connection, self._script.pop(0))

    def _answer(self, connection: socket.socket, script: list[bytes]) -> None:
        with connection:
            connection.settimeout(READ_TIMEOUT)
            with connection.makefile("rb") as reader:
                for sent in script:
                    if not self._read(reader):
                        break
                    connection.sendall(sent)

    def _read(self, reader: Any) -> bool:
        line = reader.readline()
        if not line:
            return False
        headers = {}
        while (line := reader.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        self.requests.append((headers, reader.read(int(headers["content-length"]))))
        return True

    def close(self) -> None:
        """End it: a last connection finds the script empty."""
        self._script.clear()
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()
