"""What happened in a schedule, step by step, as a person reads it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tests.kit.strict.trees import Item

RECORDS = "records"
"""Powertools' table."""

Arguments = dict[str, Any]


class Counterexample(AssertionError):
    """A promise was broken. The message is the schedule that broke it."""


class Story:
    """Notes steps cheaply; they are worded only when somebody reads them."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._steps: list[tuple[int, str, Callable[[], str]]] = []
        self.broken: list[str] = []
        """The promises that did not hold, in their order; the first counts."""

    def tell(self, who: str, what: str) -> None:
        self._steps.append((self._now(), who, lambda: what))

    def request(self, who: str, operation: str, arguments: Arguments, what: str) -> None:
        self._steps.append((self._now(), who, lambda: f"{_worded(operation, arguments)} -> {what}"))

    def row(self, token: str, item: Item | None) -> None:
        """Note the row of *token* as it is now."""
        self._steps.append((self._now(), "", lambda: f"        {_short(token)} is {described(item)}"))

    def record(self, token: str, item: Item | None) -> None:
        """Note what Powertools' record of *token* is now."""
        status = "gone" if item is None else item["status"]["S"]
        self._steps.append((self._now(), "", lambda: f"        the record of {_short(token)} is {status}"))

    def breaks(self, promise: str) -> None:
        """Note that *promise* does not hold."""
        self.broken.append(promise)
        self._steps.append((self._now(), "!!!", lambda: promise))

    def text(self) -> str:
        lines = [
            f"{number:5d} {when / 1000:9.3f} s  {who:<14} {what()}"
            for number, (when, who, what) in enumerate(self._steps, 1)
        ]
        return "\n".join(lines)


def described(item: Item | None) -> str:
    """Say in a line what a row says."""
    if item is None:
        return "gone"
    if "data" in item:
        return f"a part of {len(item['data']['B'])} bytes"
    state = item.get("status", {}).get("S") or ("complete" if "actualCompletion" in item else "released")
    facts = [
        state,
        f"attempt {_id(item['attempt']['S'])}",
        f"lease {_clock(item['expectedCompletion']['S'])}",
    ]
    facts += [f"fence {item['fence']['N'][-6:]}"]
    facts += [f"ttl {item['ttl']['N'][-6:]}"] if "ttl" in item else ["no ttl"]
    facts += [name for name in ("result", "parts", "error", "resultUnavailable") if name in item]
    return ", ".join(facts)


def _id(attempt: str) -> str:
    return attempt.lstrip("0") or "0"


def _clock(stamp: str) -> str:
    return f"{datetime.fromisoformat(stamp):%H:%M:%S.%f}"[:-3]


def _short(token: str) -> str:
    key, *part = token.rpartition("/")[2].split("#")
    return f"{key} part {'.'.join(map(_id, part))}" if part else key


def _worded(operation: str, arguments: Arguments) -> str:
    if arguments.get("TableName") == RECORDS:
        return f"{operation} of a record"
    match operation:
        case "update_item":
            token, values = arguments["Key"]["lockToken"]["S"], arguments.get("ExpressionAttributeValues", {})
            sets, _, removes = arguments["UpdateExpression"].partition(" REMOVE ")
            shown = ", ".join(f"{name} {_value(value)}" for name, value in sorted(values.items()))
            condition = arguments["ConditionExpression"]
            if "lockedBy" in sets:
                return f"ACQUIRE {_short(token)} as {_value(values[':attempt'])} IF {condition}"
            return f"UPDATE {_short(token)} {sets} REMOVE {removes} IF {condition} [{shown}]"
        case "get_item":
            return f"GET {_short(arguments['Key']['lockToken']['S'])}"
        case "batch_execute_statement":
            return " | ".join(
                f"{one['Statement']} [{', '.join(map(_value, one['Parameters']))}]"
                for one in arguments["Statements"]
            )
        case "batch_get_item":
            ((_, acquisition),) = arguments["RequestItems"].items()
            return f"GET {', '.join(_short(key['lockToken']['S']) for key in acquisition['Keys'])}"
        case "batch_write_item":
            ((_, puts),) = arguments["RequestItems"].items()
            return f"PUT {', '.join(_short(put['PutRequest']['Item']['lockToken']['S']) for put in puts)}"
        case "transact_write_items":
            return f"TRANSACT {len(arguments['TransactItems'])} items"
        case _:
            return operation


def _value(value: Any) -> str:
    ((kind, content),) = value.items()
    if kind == "S" and len(content) == 32 and content.startswith("0000"):
        return _id(content)
    text = str(content)
    return text if len(text) < 40 else f"{text[:37]}…"
