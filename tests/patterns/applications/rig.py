"""The applications of the pages: their own code, a queue that delivers again, and what they are charged."""

from __future__ import annotations

import ast
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

from lambda_once.errors import RetryLater
from tests.docs.pages import ROOT, blocks
from tests.patterns.meter import Meter

M = TypeVar("M")
MOST_DELIVERIES = 100


def defined_in(path: str, *names: str, **given: object) -> Any:
    """
    Return what *path*, a file or the Python of a page, defines as *names*, run with its imports and *given*.

    *given* stands for the objects that it makes elsewhere, such as a ledger on its table in memory.
    """
    file = ROOT / path
    python = [each.text for each in blocks(file) if each.language == "python"]
    imports: list[ast.stmt] = []
    wanted: dict[str, ast.stmt] = {}
    for text in python if file.suffix == ".md" else [file.read_text(encoding="utf-8")]:
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports.append(node)
            for name in _defined(node):
                wanted[name] = node
    missing = set(names) - wanted.keys()
    assert not missing, f"{path} does not define {missing}"
    namespace: dict[str, Any] = {}
    chosen = [wanted[name] for name in names]
    exec(compile(ast.Module(imports, []), path, "exec"), namespace)
    namespace |= given
    exec(compile(ast.Module(chosen, []), path, "exec"), namespace)
    return SimpleNamespace(**{name: namespace[name] for name in names})


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [each.id for each in node.targets if isinstance(each, ast.Name)]
    return []


def delivered(messages: Iterable[M], consumers: Sequence[Callable[[M], object]], seed: int) -> None:
    """
    Let *consumers*, each in a thread, process *messages* as a standard queue delivers them.

    In any order, every third one twice although it was acknowledged, and again after a `RetryLater`.
    """
    dice = random.Random(seed)
    waiting = list(messages)
    waiting += dice.sample(waiting, len(waiting) // 3)
    dice.shuffle(waiting)
    most = MOST_DELIVERIES * len(waiting)
    lock = threading.Lock()
    failed: list[BaseException] = []
    count = 0

    def consume(work: Callable[[M], object]) -> None:
        nonlocal count
        while not failed:
            with lock:
                if not waiting:
                    return
                message = waiting.pop()
                count += 1
            try:
                work(message)
            except RetryLater:
                assert count < most, "delivered again and again"
                with lock:
                    waiting.insert(dice.randint(0, len(waiting)), message)
            except BaseException as error:  # noqa: BLE001  (raised by the caller's thread)
                failed.append(error)

    threads = [threading.Thread(target=consume, args=(work,)) for work in consumers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


class Between:
    """A client before whose first PutItem *other* happens."""

    def __init__(self, client: Any, other: Callable[[], object]) -> None:
        self._client = client
        self._others = [other]

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def put_item(self, **request: Any) -> Any:
        while self._others:
            self._others.pop()()
        return self._client.put_item(**request)


class Figure(NamedTuple):
    """Requests, write units and read units of one step: as it was written before, and as the page has it."""

    step: str
    before: tuple[int, float, float]
    now: tuple[int, float, float]


def measured(meter: Meter, step: str, before: Callable[[], object], now: Callable[[], object]) -> Figure:
    """Do *before* and *now*, which have data of their own, with clients of *meter*."""
    return Figure(step, meter.of(before), meter.of(now))
