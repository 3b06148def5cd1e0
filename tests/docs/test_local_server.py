"""The route that docs/sam-local.md serves by ASGI: a request sent twice, as a server passes it on."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "sam-local.md"


async def posted(app: Any, key: bytes) -> tuple[int, bytes]:
    """Return status and body of the response to an order under *key*."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"items": ["tea"]}'}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"idempotency-key", key), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/orders", "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


def test_the_server_of_the_page_replays() -> None:
    """The second request gets the response of the first, another key one of its own."""
    (program,) = (block.text for block in blocks(PAGE) if block.language == "python" and block.runs)
    page: dict[str, Any] = {"__name__": "shop"}
    exec(program, page)
    responses = [asyncio.run(posted(page["app"], key)) for key in (b"1", b"1", b"2")]
    assert responses == [(200, b'{"order":1}'), (200, b'{"order":1}'), (200, b'{"order":2}')]
    assert len(page["orders"]) == 2
