"""Bad input to the patterns on a table: one error that says what is wrong, before anything is sent."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from lambda_once.errors import KeyMissing, Misconfigured, OnceError
from lambda_once.patterns import Documents, Ledger, Ratchet, Unique
from lambda_once.patterns.results import Conflict, Refused
from lambda_once.testing import FakeClock

HOUR = timedelta(hours=1)
MS = 1_795_169_520_000


class Silent:
    """A client that is never asked."""

    meta = None

    def __getattr__(self, operation: str) -> Any:
        raise AssertionError(f"{operation} was sent")


def ledger(**options: Any) -> Ledger:
    """Return a ledger on a client that is never asked."""
    return Ledger("points", Silent(), **{"window": HOUR, "clock": FakeClock(), **options})


def ratchet(**options: Any) -> Ratchet:
    """Return a ratchet on a client that is never asked."""
    return Ratchet("prices", Silent(), **{"key": ("pk", "sk"), "clock": FakeClock(), **options})


def unique(**options: Any) -> Unique:
    """Return a unique on a client that is never asked."""
    return Unique("receipts", Silent(), **{"clock": FakeClock(), **options})


def documents(**options: Any) -> Documents:
    """Return documents on a client that is never asked."""
    return Documents("contracts", Silent(), **{"part_bytes": 100, "clock": FakeClock(), **options})


# -- keys

BY_KEY: dict[str, Callable[[Any], object]] = {
    "Ledger": lambda key: ledger(key=key),
    "Ratchet": lambda key: ratchet(key=key),
    "Unique": lambda key: unique(key=key),
}


@pytest.mark.parametrize("key", [(), ("a", "b", "c"), ("a", "a"), "", ("pk", ""), "n" * 256], ids=repr)
@pytest.mark.parametrize("made", BY_KEY.values(), ids=BY_KEY)
def test_a_key_of_no_table_is_refused(made: Callable[[Any], object], key: Any) -> None:
    """One or two attributes that differ, each with a name that DynamoDB takes."""
    with pytest.raises(Misconfigured, match=r"key=.* one or two attributes that differ"):
        made(key)


BY_VALUE: dict[str, Callable[[Any, Any], object]] = {
    "Ledger.get": lambda pk, sk: ledger(key=("pk", "sk")).get((pk, sk)),
    "Ledger.add": lambda pk, sk: ledger(key=("pk", "sk")).add((pk, sk), {"n": 1}, id="m"),
    "Ratchet.get": lambda pk, sk: ratchet().get({"pk": pk, "sk": sk}),
    "Ratchet.put": lambda pk, sk: ratchet().put({"pk": pk, "sk": sk}, MS),
    "Ratchet.delete": lambda pk, sk: ratchet().delete({"pk": pk, "sk": sk}, MS),
    "Ratchet.query": lambda pk, _: ratchet().query(pk),
    "Unique.put": lambda pk, sk: unique().put({"pk": pk, "sk": sk}),
}


@pytest.mark.parametrize(
    ("pk", "sk", "message"),
    [
        ("", "s", "empty: give text, bytes or a number|key is missing"),
        (b"", "s", "empty: give text, bytes or a number|key is missing"),
        (None, "s", "is a NoneType: give text|key is missing"),
        (True, "s", "'pk' is a bool: give text, bytes or a number"),
        (1.5, "s", "'pk' is a float"),
        (["a"], "s", "'pk' is a list"),
        ("x" * 2_049, "s", "2049 bytes.*takes 2048: use a digest"),
        ("ü" * 1_025, "s", "2050 bytes"),
        (b"x" * 2_049, "s", "2049 bytes"),
    ],
    ids=lambda each: repr(each)[:20],
)
@pytest.mark.parametrize("call", BY_VALUE.values(), ids=BY_VALUE)
def test_what_is_no_key_is_refused(
    call: Callable[[Any, Any], object], pk: Any, sk: Any, message: str
) -> None:
    """The message names the attribute, and does not repeat the value; of an item it is a missing key."""
    with pytest.raises((Misconfigured, KeyMissing), match=message):
        call(pk, sk)


@pytest.mark.parametrize("call", [BY_VALUE[name] for name in ("Ledger.get", "Ratchet.get", "Unique.put")])
def test_a_sort_key_is_shorter(call: Callable[[Any, Any], object]) -> None:
    """1,024 bytes are sent, one more is not; neither are the 2,048 of a partition key."""
    with pytest.raises(AssertionError, match="was sent"):
        call("x" * 2_048, "x" * 1_024)
    with pytest.raises(Misconfigured, match="'sk' has 1025 bytes, and DynamoDB takes 1024"):
        call("x", "x" * 1_025)


# -- arguments and options

RECEIPT: dict[str, object] = {"customer": "cust_7", "order": 5, "kind": "paid"}
RECEIPT_KEY = {"pk": "customer", "sk": ["order", "kind"]}


def receipt(**more: Any) -> object:
    """Put the receipt with *more*."""
    return unique(key=RECEIPT_KEY).put({**RECEIPT, **more})


def written(**given: Any) -> object:
    """Write a document."""
    return documents().write(**({"entity_id": "7"} | given))


Wrong = dict[str, tuple[Callable[[], object], str]]

LEDGER: Wrong = {
    "empty id": (lambda: ledger().add("c", {"n": 1}, id=""), "1 to 1,024 bytes"),
    "empty bytes": (lambda: ledger().add("c", {"n": 1}, id=b""), "1 to 1,024 bytes"),
    "long id": (lambda: ledger().add("c", {"n": 1}, id="x" * 1025), "not 1,025"),
    "long id in bytes": (lambda: ledger().add("c", {"n": 1}, id="é" * 513), "not 1,026"),
    "number as id": (lambda: ledger().add("c", {"n": 1}, id=5), "not int"),  # type: ignore[arg-type]
    "no id": (lambda: ledger().add("c", {"n": 1}, id=None), "not NoneType"),  # type: ignore[arg-type]
    "half a surrogate": (lambda: ledger().add("c", {"n": 1}, id="\ud800"), "valid Unicode"),
    "float": (lambda: ledger().add("c", {"n": float("nan")}, id="m"), "no numbers here"),
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
    "float floor": (lambda: ledger().add("c", {"n": 1}, id="m", floor={"n": float("inf")}), "no numbers"),
    "floor out of reach": (
        lambda: ledger().add("c", {"n": -1}, id="m", floor={"n": Decimal("1E+60")}),
        "cannot be stored",
    ),
    "too many parts": (lambda: ledger().get(("a", "b")), "1 parts, not 2"),
    "too few parts": (lambda: ledger(key=("pk", "sk")).get("a"), "2 parts, not 1"),
    "separator": (lambda: ledger(shards=2).get("a#1"), "text without '#'"),
    "bytes with shards": (lambda: ledger(shards=2).add(b"a", {"n": 1}, id="m"), "text without '#'"),
    "floor with shards": (
        lambda: ledger(shards=2).add("c", {"n": -1}, id="m", floor={"n": 0}),
        "no single item",
    ),
    "set with shards": (lambda: ledger(shards=2).add("c", {"n": 1}, id="m", set={"x": 1}), "floor, set"),
    "update with shards": (lambda: ledger(shards=2).update("c", {}, expected={"v": 1}), "update: a key"),
    "change with shards": (lambda: ledger(shards=2).change("c", dict), "change: a key"),
    "nothing expected": (lambda: ledger().update("c", {"n": 1}, expected={}), "names no attribute"),
    "list expected": (lambda: ledger().update("c", {"n": 1}, expected={"v": [1]}), "'v' is a list"),
    "float expected": (lambda: ledger().update("c", {"n": 1}, expected={"v": float("inf")}), "'v'"),
    "update of the key": (lambda: ledger().update("c", {"pk": 1}, expected={"v": 1}), "belongs to the key"),
    "update with a bad id": (lambda: ledger().update("c", {}, expected={"v": 1}, id=""), "1 to 1,024"),
    "change with a bad id": (lambda: ledger().change("c", dict, id=b""), "1 to 1,024"),
    "a key of its own": (lambda: ledger(key="bt"), "'bt': names are text and must differ, the key's too$"),
    "a key of its buckets": (lambda: ledger(key="b5"), "'b5': .* must differ"),
    "no shards": (lambda: ledger(shards=0), "1 to 1,000 shards"),
    "too many shards": (lambda: ledger(shards=1001), "1 to 1,000 shards"),
    "half a shard": (lambda: ledger(shards=1.5), "1 to 1,000 shards"),
    "no window": (lambda: ledger(window=timedelta(0)), "positive timedelta"),
    "too many buckets": (lambda: ledger(buckets=33), "2 to 32"),
}
RATCHET: Wrong = {
    "tombstones that are forgotten": (lambda: ratchet(tombstone_ttl=timedelta(0)), "tombstone_ttl"),
    "tombstones of the past": (lambda: ratchet(tombstone_ttl=timedelta(days=-1)), "tombstone_ttl"),
    "tombstones for ever": (lambda: ratchet(tombstone_ttl=timedelta.max), "tombstone_ttl"),
    "behind": (lambda: ratchet(ahead=timedelta(seconds=-1)), "ahead -1 day"),
    "no table": (lambda: Ratchet("", Silent()), "name of a table"),
    "no stamp": (lambda: ratchet(stamp=""), "names are text and must differ"),
    "key as stamp": (lambda: ratchet(key=("ts",)), "'ts': names are text and must differ"),
    **{
        f"{own} as stamp": (partial(ratchet, stamp=own), f"'{own}': names are text and must differ")
        for own in ("deleted", "ttl", "_rank", "_write")
    },
    "half a key": (lambda: ratchet().get({"pk": "p"}), "'sk' is missing: the key is pk, sk"),
    "more than a key": (lambda: ratchet().get({"pk": "p", "sk": "s", "price": 5}), "price: not in the key"),
    "more than keys": (lambda: ratchet().batch_get([{"pk": "p", "sk": "s", "n": 5}]), "n: not in the key"),
    "a delete of an item": (lambda: ratchet().delete({"pk": "p", "sk": "s", "n": 5}, MS), "n: not in the"),
    "float as ts": (lambda: ratchet().put({"pk": "p", "sk": "s"}, 1.5), "type float"),  # type: ignore[arg-type]
    "text as ts": (lambda: ratchet().delete({"pk": "p", "sk": "s"}, "0007"), "type str"),
    "text as an item": (lambda: ratchet().put("pk", MS), "mapping of attributes, not a str"),  # type: ignore[arg-type]
    "text as a key": (lambda: ratchet().get("p"), "mapping of attributes, not a str"),  # type: ignore[arg-type]
    "a list as expected": (
        lambda: ratchet().put({"pk": "p", "sk": "s"}, MS, expected=["p"]),  # type: ignore[arg-type]
        "mapping of attributes, not a list",
    ),
    "a time as after": (
        lambda: ratchet().revision(after=datetime(2026, 11, 20, tzinfo=UTC)),  # type: ignore[arg-type]
        "after is a datetime",
    ),
    "seconds": (lambda: ratchet().put({"pk": "p", "sk": "s"}, 1_795_169_520), "seconds"),
}
UNIQUE: Wrong = {
    "float in a key": (lambda: receipt(order=1.5), "'order' is a float"),
    "a key that is made": (lambda: receipt(sk="x"), "'sk' is made of order, kind"),
    "the mark": (lambda: receipt(put="x"), "'put'.*mark="),
    "infinity": (lambda: receipt(weight=float("inf")), "stored"),
    "a time": (lambda: receipt(at=datetime(2026, 11, 20, tzinfo=UTC)), "'at'"),
    "an object": (lambda: receipt(what=object()), "attribute 'what'.*object"),
    "a list": (lambda: unique().put(["pk"]), "mapping of attributes, not a list"),  # type: ignore[arg-type]
    "a long field": (lambda: receipt(customer="x" * 2_049), "2049 bytes"),
    "many long characters": (lambda: receipt(kind="#" * 1_000), "'sk' has 3003 bytes"),
    **{
        f"fields {fields!r}": (partial(unique, key={"pk": fields}), "key=.* made of")
        for fields in ((), "", ("a", ""), ("pk",))
    },
    "no key": (lambda: unique(key={}), "key="),
    **{
        f"{mark!r} as mark": (partial(unique, identity="id", mark=mark), "mark=") for mark in ("", "pk", "id")
    },
}
DOCUMENTS: Wrong = {
    "empty": (lambda: written(document=b""), "is empty"),
    "no sections": (lambda: written(sections={}), "is empty"),
    "nothing": (written, "either a document or sections="),
    "both": (lambda: written(document=b"1", sections={"a": b"1"}), "either a document or"),
    "a set": (lambda: written(document={1, 2}), "neither bytes nor JSON-serialisable"),
    "NaN": (lambda: written(document=float("nan")), "neither bytes nor JSON-serialisable"),
    "separator": (lambda: written(sections={"a": b"1", "a#b": b"2"}), "'a#b' cannot be stored.*without '#'"),
    "no name": (lambda: written(sections={"a": b"1", "": b"2"}), "the section '' cannot be stored"),
    "long name": (lambda: written(sections={"a": b"1", "n" * 256: b"2"}), "1 to 255 bytes"),
    "number as name": (lambda: written(sections={"a": b"1", 7: b"2"}), "the section 7 cannot be stored"),
    "large section": (lambda: written(sections={"large": bytes(101)}), "has 101 bytes, and a part has 100"),
    "odd section": (lambda: written(sections={"odd": {1, 2}}), "the section 'odd' is neither"),
    "many parts": (
        lambda: written(document=bytes(100 * 9_999 + 1)),
        "10,000 parts or sections, and 9,999 is the most",
    ),
    "no version": (lambda: written(document=b"1", expected_version="last"), "expected_version is 'last'"),
    "empty id": (lambda: written(document=b"1", entity_id=""), "1 to 2,048 bytes"),
    "long id": (lambda: written(document=b"1", entity_id="ü" * 1_025), "1 to 2,048 bytes"),
    "number as id": (lambda: written(document=b"1", entity_id=7), "1 to 2,048 bytes, and this is 7"),
    **{
        f"parts of {size}": (partial(documents, part_bytes=size), "1 to 400,000")
        for size in (0, 400_001, True)
    },
    "one key twice": (lambda: documents(key="sk"), "that differ"),
    "a name of its own": (lambda: documents(sort="version"), "'version': .* must differ.* names="),
    "behind": (lambda: documents(ahead=timedelta(seconds=-1)), "how far clocks may differ"),
    "deleted too briefly": (lambda: documents(keep_deleted=timedelta(minutes=59)), "outlive"),
}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(*wrong, id=f"{pattern}, {name}")
        for pattern, table in (
            ("Ledger", LEDGER),
            ("Ratchet", RATCHET),
            ("Unique", UNIQUE),
            ("Documents", DOCUMENTS),
        )
        for name, wrong in table.items()
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(call: Callable[[], object], message: str) -> None:
    """One error that says what is wrong; the client is not asked."""
    with pytest.raises(Misconfigured, match=message):
        call()


@pytest.mark.parametrize("missing", [{"customer": None}, {"order": ""}, {"kind": None}])
def test_a_missing_field_is_a_missing_key(missing: dict[str, Any]) -> None:
    """Of an item, which comes from outside."""
    with pytest.raises(KeyMissing, match=next(iter(missing))):
        receipt(**missing)


def test_messages_repeat_no_values() -> None:
    """What an item holds is not logged."""
    calls: list[Callable[[], object]] = [
        partial(receipt, order=4711.5),
        partial(ratchet().get, {"pk": 4711.5, "sk": "s"}),
        lambda: ledger().get(4711.5),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(OnceError) as refused:
            call()
        assert "4711" not in str(refused.value)


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
