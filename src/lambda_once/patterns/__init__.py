"""
Patterns for work that needs no token, because the data records what was applied.

Each works without the decorators, requires only boto3, and is imported on first use. Their results and errors
are in `results`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lambda_once.patterns.documents import Documents
    from lambda_once.patterns.fifo import Publisher
    from lambda_once.patterns.ledger import Ledger
    from lambda_once.patterns.ratchet import Ratchet
    from lambda_once.patterns.sizing import plan
    from lambda_once.patterns.transactions import transaction_results
    from lambda_once.patterns.unique import Unique

__all__ = ["Documents", "Ledger", "Publisher", "Ratchet", "Unique", "plan", "transaction_results"]

_HOMES: Final = {"Publisher": "fifo", "plan": "sizing", "transaction_results": "transactions"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, name.lower())}"), name)
