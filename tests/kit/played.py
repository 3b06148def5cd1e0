"""DynamoDB on a socket: the strict engine executes each request, a test chooses the bytes that go back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.kit.host import Request, Sent, http, serving
from tests.kit.strict import mounted

Play = Callable[[bytes], Sent]
"""Returns what is sent in place of the right answer to a request that was executed."""


def right(answer: bytes) -> Sent:
    """All is well."""
    return Sent(answer)


class Crossing:
    """From `begin` on, *most* requests get an answer from before it, though each was executed."""

    def __init__(self) -> None:
        self._left = 0
        self._last = b""
        self.crossed = 0

    def begin(self, most: int = 1) -> None:
        self._left, self.crossed = most, 0

    def __call__(self, answer: bytes) -> Sent:
        if not self._left:
            self._last = answer
            return Sent(answer)
        self._left -= 1
        self.crossed += 1
        return Sent(self._last)


@contextmanager
def played(play: Play = right) -> Iterator[str]:
    """Serve the engine that is mounted, and yield the endpoint; what goes back is as *play* returns it."""

    def answer(request: Request) -> Sent:
        return play(http(*mounted.executed(request.headers["x-amz-target"], request.body)))

    with serving(answer) as host:
        yield host.url
