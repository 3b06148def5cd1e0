"""Bad input to a ledger: a clear error, and nothing was sent."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.results import Conflict, Refused
from lambda_once.testing import FakeClock

HOUR = timedelta(hours=1)


class Silent:
    """A client that is never to be asked."""

    meta = None

    def __getattr__(self, operation: str) -> Any:
        raise AssertionError(f"{operation} was sent")


def ledger(**options: Any) -> Ledger:
    """Return a ledger that sends nothing."""
    return Ledger("points", Silent(), **{"window": HOUR, "clock": FakeClock(), **options})


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "empty id": (lambda: ledger().add("c", {"n": 1}, id=""), "1 to 1,024 bytes"),
    "empty bytes": (lambda: ledger().add("c", {"n": 1}, id=b""), "1 to 1,024 bytes"),
    "long id": (lambda: ledger().add("c", {"n": 1}, id="x" * 1025), "not 1,025"),
    "long id in bytes": (lambda: ledger().add("c", {"n": 1}, id="é" * 513), "not 1,026"),
    "number as id": (lambda: ledger().add("c", {"n": 1}, id=5), "not int"),  # type: ignore[arg-type]
    "no id": (lambda: ledger().add("c", {"n": 1}, id=None), "not NoneType"),  # type: ignore[arg-type]
    "half a surrogate": (lambda: ledger().add("c", {"n": 1}, id="\ud800"), "valid Unicode"),
    "float": (lambda: ledger().add("c", {"n": float("nan")}, id="m"), "give an int or a Decimal"),
    "bool": (lambda: ledger().add("c", {"n": True}, id="m"), "give an int or a Decimal"),
    "text": (lambda: ledger().add("c", {"n": "1"}, id="m"), "'n': str is not"),  # type: ignore[dict-item]
    "no amount": (lambda: ledger().add("c", {"n": None}, id="m"), "NoneType"),  # type: ignore[dict-item]
    "NaN": (lambda: ledger().add("c", {"n": Decimal("NaN")}, id="m"), "'n'"),
    "infinity": (lambda: ledger().add("c", {"n": Decimal("-Infinity")}, id="m"), "'n'"),
    "39 digits": (lambda: ledger().add("c", {"n": 10**38 + 1}, id="m"), "'n'"),
    "nothing": (lambda: ledger().add("c", {}, id="m"), "nothing to add"),
    "amounts in a list": (lambda: ledger().add("c", [1], id="m"), "not a list"),  # type: ignore[arg-type]
    "bucket": (lambda: ledger().add("c", {"b3": 1}, id="m"), "the ledger's own"),
    "stamp": (lambda: ledger().add("c", {"n": 1}, id="m", set={"bt": 1}), "the ledger's own"),
    "key": (lambda: ledger().add("c", {"pk": 1}, id="m"), "belongs to the key"),
    "named twice": (lambda: ledger().add("c", {"n": 1}, id="m", set={"n": 2}), "named twice"),
    "path": (lambda: ledger().add("c", {"stats.n": 1}, id="m"), "not paths"),
    "element": (lambda: ledger().add("c", {"n[0]": 1}, id="m"), "not paths"),
    "no name": (lambda: ledger().add("c", {"": 1}, id="m"), "name is text"),
    "long name": (lambda: ledger().add("c", {"n" * 256: 1}, id="m"), "name is text"),
    "number as name": (lambda: ledger().add("c", {1: 1}, id="m"), "name is text"),  # type: ignore[dict-item]
    "float set": (lambda: ledger().add("c", {}, id="m", set={"x": float("inf")}), "'x'"),
    "strange floor": (lambda: ledger().add("c", {"n": 1}, id="m", floor={"m": 0}), r"floor names \['m'\]"),
    "float floor": (lambda: ledger().add("c", {"n": 1}, id="m", floor={"n": float("inf")}), "give an int"),
    "floor out of reach": (
        lambda: ledger().add("c", {"n": -1}, id="m", floor={"n": Decimal("1E+60")}),
        "cannot be stored",
    ),
    "empty key": (lambda: ledger().add("", {"n": 1}, id="m"), "not empty"),
    "no key": (lambda: ledger().get(None), "text, bytes or a number"),  # type: ignore[arg-type]
    "bool as key": (lambda: ledger().get(True), "text, bytes or a number"),
    "float as key": (lambda: ledger().get(1.5), "text, bytes or a number"),  # type: ignore[arg-type]
    "too many parts": (lambda: ledger().get(("a", "b")), "1 parts, not 2"),
    "too few parts": (lambda: ledger(key=("pk", "sk")).get("a"), "2 parts, not 1"),
    "separator": (lambda: ledger(shards=2).get("a#1"), "text without '#'"),
    "bytes with shards": (lambda: ledger(shards=2).add(b"a", {"n": 1}, id="m"), "text without '#'"),
    "floor with shards": (
        lambda: ledger(shards=2).add("c", {"n": -1}, id="m", floor={"n": 0}),
        "no single item",
    ),
    "set with shards": (lambda: ledger(shards=2).add("c", {"n": 1}, id="m", set={"x": 1}), "floor and set"),
    "update with shards": (lambda: ledger(shards=2).update("c", {}, expected={"v": 1}), "update: a key"),
    "change with shards": (lambda: ledger(shards=2).change("c", dict), "change: a key"),
    "nothing expected": (lambda: ledger().update("c", {"n": 1}, expected={}), "names no attribute"),
    "list expected": (lambda: ledger().update("c", {"n": 1}, expected={"v": [1]}), "'v' is a list"),
    "float expected": (lambda: ledger().update("c", {"n": 1}, expected={"v": float("inf")}), "'v'"),
    "update of the key": (lambda: ledger().update("c", {"pk": 1}, expected={"v": 1}), "belongs to the key"),
    "update with a bad id": (lambda: ledger().update("c", {}, expected={"v": 1}, id=""), "1 to 1,024"),
    "change with a bad id": (lambda: ledger().change("c", dict, id=b""), "1 to 1,024"),
    "no key name": (lambda: ledger(key=""), "one or two attributes"),
    "three key names": (lambda: ledger(key=("a", "b", "c")), "one or two attributes"),
    "one name twice": (lambda: ledger(key=("a", "a")), "one or two attributes"),
    "a key of its own": (lambda: ledger(key="bt"), "'bt': .* must differ.* names="),
    "no shards": (lambda: ledger(shards=0), "1 to 1,000 shards"),
    "too many shards": (lambda: ledger(shards=1001), "1 to 1,000 shards"),
    "half a shard": (lambda: ledger(shards=1.5), "1 to 1,000 shards"),
    "no window": (lambda: ledger(window=timedelta(0)), "positive timedelta"),
    "too many buckets": (lambda: ledger(buckets=33), "2 to 32"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_bad_input_is_refused_before_anything_is_sent(wrong: str) -> None:
    """One error that says what is wrong; the client is not asked."""
    call, message = WRONG[wrong]
    with pytest.raises(Misconfigured, match=message):
        call()


@pytest.mark.parametrize("made", [None, 5, {"pk": 1}, {"b1": 1}, {"n": float("inf")}])
def test_a_change_that_makes_nothing_good_writes_nothing(made: Any) -> None:
    """What the callable returns is checked like any other change."""

    class Empty:
        def get_item(self, **_: Any) -> dict[str, Any]:
            return {}

    wrong = Ledger("points", Empty(), window=HOUR, clock=FakeClock())
    with pytest.raises(Misconfigured):
        wrong.change("c", lambda _: made)


def test_ids_up_to_the_bound_are_taken() -> None:
    """1,024 bytes are sent."""
    with pytest.raises(AssertionError, match="update_item was sent"):
        ledger().add("c", {"n": 1}, id="é" * 512)


def test_errors_go_through_pickle() -> None:
    """A refusal that crosses a process keeps what it knows."""
    error = pickle.loads(pickle.dumps(Conflict("lost", values={"n": 1})))
    assert (str(error), error.values) == ("lost", {"n": 1})
    refused = Refused({"n": 1}, floor={"n": 2})
    assert pickle.loads(pickle.dumps(refused)) == refused
