"""botocore's descriptions of services, read once a process: they are most of what a new client costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from botocore.loaders import JSONFileLoader

_read = JSONFileLoader._load_file


@cache
def _once(path: str, open_file: Callable[..., Any]) -> Any:
    return _read(JSONFileLoader(), path, open_file)


def read_once() -> None:
    """Let all loaders of this process share what was read from a file; nobody changes it."""

    def load(_loader: JSONFileLoader, path: str, open_file: Callable[..., Any]) -> Any:
        return _once(path, open_file)

    JSONFileLoader._load_file = load
