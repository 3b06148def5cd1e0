"""The user's own listeners: they see everything and can change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lambda_once.observability.details import Details

Hook = Callable[[Details], object]
"""Called with each happening, on its thread. What it returns is ignored: an `async def` would never run."""


def run(hooks: Sequence[Hook], details: Details, complain: Callable[[str, Exception], object]) -> None:
    """
    Show *details* to every hook, in order.

    An Exception of one is handed to *complain* with the hook's name and stops neither the others nor
    the caller. What is no Exception (SystemExit, KeyboardInterrupt, cancellation) passes.
    """
    for hook in hooks:
        try:
            hook(details)
        except Exception as error:  # noqa: BLE001 - a listener must not decide an outcome
            complain(_name_of(hook), error)


def _name_of(hook: Hook) -> str:
    named = hook if hasattr(hook, "__qualname__") else type(hook)
    return f"{named.__module__}.{named.__qualname__}"
