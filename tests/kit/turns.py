"""Several threads on one table, of which one at a time sends one request: which, a seed decides."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any


class Turns:
    """
    Runs works side by side, in an order that depends on the seed alone.

    Each gets the client whose every request waits for its turn. A turn is given when all that have not ended
    wait for one.
    """

    def __init__(self, client: Any, seed: int) -> None:
        self._client = client
        self._dice = random.Random(seed)
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._ended = 0
        self._turn: int | None = None

    def run(self, works: Sequence[Callable[[Any], object]]) -> list[object]:
        """Return what each of *works* returned, or the exception that it raised."""
        results: list[object] = [None] * len(works)

        def work(number: int) -> None:
            try:
                results[number] = works[number](_Stepping(self, number))
            except Exception as error:  # noqa: BLE001  (what was raised is the result)
                results[number] = error
            with self._changed:
                self._ended += 1
                self._changed.notify_all()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
        for thread in threads:
            thread.start()
        self._deal(len(works))
        for thread in threads:
            thread.join()
        return results

    def _deal(self, works: int) -> None:
        with self._changed:
            while True:
                self._changed.wait_for(
                    lambda: self._turn is None and len(self._waiting) + self._ended == works, timeout=30
                )
                if self._ended == works:
                    return
                self._turn = self._dice.choice(sorted(self._waiting))
                self._waiting.discard(self._turn)
                self._changed.notify_all()

    def request(self, number: int, operation: str, arguments: dict[str, Any]) -> Any:
        with self._changed:
            self._waiting.add(number)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._turn == number, timeout=30)
        try:
            return getattr(self._client, operation)(**arguments)
        finally:
            with self._changed:
                self._turn = None
                # Counts as running until it waits again or ends.


class _Stepping:
    def __init__(self, turns: Turns, number: int) -> None:
        self._turns = turns
        self._number = number

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def request(**arguments: Any) -> Any:
            return self._turns.request(self._number, operation, arguments)

        return request
