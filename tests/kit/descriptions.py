"""
What botocore works out for every session and client anew, worked out once a process.

Most of what a new client costs is a search for the descriptions of its service, their parse, and the names
and signatures of a hundred event handlers; a tenth of each request is its user agent. None of it depends on
a test.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

from botocore import hooks, useragent
from botocore.loaders import JSONFileLoader, Loader

_read = JSONFileLoader._load_file
_new_loader = Loader.__init__
_new_aliaser = hooks.EventAliaser.__init__
_accepts_kwargs = hooks.accepts_kwargs

_found: dict[tuple[str, ...], dict[Any, Any]] = defaultdict(dict)
"""What loaders found, by the folders that they search."""
_aliases: dict[str, str] = {}
"""The names of events as botocore's own table translates them."""


@cache
def _once(path: str, open_file: Callable[..., Any]) -> Any:
    return _read(JSONFileLoader(), path, open_file)


def read_once() -> None:
    """Let all sessions of this process share what was found, read or translated; it is read-only."""
    JSONFileLoader._load_file = lambda _loader, path, open_file: _once(path, open_file)
    Loader.__init__ = _sharing_finds
    hooks.EventAliaser.__init__ = _sharing_aliases
    hooks.accepts_kwargs = _has_kwargs
    useragent.sanitize_user_agent_string_component = cache(useragent.sanitize_user_agent_string_component)


def _sharing_finds(loader: Loader, *args: Any, **options: Any) -> None:
    _new_loader(loader, *args, **options)
    loader._cache = _found[tuple(loader.search_paths)]


def _sharing_aliases(aliaser: hooks.EventAliaser, emitter: Any, event_aliases: Any = None) -> None:
    _new_aliaser(aliaser, emitter, event_aliases)
    if aliaser._event_aliases == hooks.EVENT_ALIASES:
        aliaser._alias_name_cache = _aliases


def _has_kwargs(handler: Any) -> bool:
    """Tell whether *handler* takes any keyword, as `inspect.getfullargspec` finds it, from the code alone."""
    function = getattr(handler, "__func__", handler)
    if inspect.isfunction(function):
        return bool(function.__code__.co_flags & inspect.CO_VARKEYWORDS)
    return bool(_accepts_kwargs(handler))
