"""The fields of a payload: what a row keeps of them, and how a later payload differs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lambda_once.core.canonical import NotCanonical, canonical, fingerprint, written
from lambda_once.core.fields import (
    MOST_FIELDS,
    MOST_NAMED,
    Difference,
    Printed,
    checksums,
    difference,
    printed,
    selected,
)

TOKEN = "orders/charge/pay_1"
numbers = st.integers() | st.floats() | st.decimals(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | st.text() | st.binary() | st.dates() | st.uuids()
payloads: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.dictionaries(st.integers(), inner),
    max_leaves=12,
)
names = st.text(max_size=8).filter(lambda name: not name.startswith("\0"))
flat = st.dictionaries(names, st.integers() | st.text(max_size=8), max_size=12)


def _checksums(payload: object) -> bytes | None:
    return checksums(printed(payload), TOKEN)


def _difference(first: object, later: object) -> Difference:
    return difference(_checksums(first), printed(later), TOKEN)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(payload=payloads, parts=st.booleans())
def test_the_text_is_the_canonical_one(payload: object, parts: bool) -> None:
    """Built of parts or not, a payload has the fingerprint of its canonical form."""
    try:
        whole = canonical(payload)
    except NotCanonical:
        with pytest.raises(NotCanonical):
            printed(payload, parts=parts)
        return
    found = printed(payload, parts=parts)
    assert found.text.encode("utf-8", "surrogatepass") == whole
    assert all(text in found.text for _, text in found.fields)
    assert found.fingerprint == fingerprint(payload)


@pytest.mark.parametrize(
    "payload",
    [
        {"a": 1.0, "b": 1e16, "c": -0.0, "d": Decimal("1.00"), "e": [1.0, {"f": 2.0}]},
        {"\0decimal": 1, "a": {"\0b": 2}},
        {"a": "\0", "b": "\udc80", "é": '"'},
        {1: "a", "b": 2},
        {None: 1},
        {},
        [],
        "text",
        None,
    ],
)
def test_the_text_of_what_is_special(payload: object) -> None:
    """Whole floats, names that look like tags, lone surrogates and names that are no text change nothing."""
    assert printed(payload).fingerprint == fingerprint(payload)
    assert printed({"in": payload}, parts=True).fingerprint == fingerprint({"in": payload})


@given(payload=flat)
def test_equal_payloads_name_nothing(payload: dict[str, object]) -> None:
    """What is equal has the same checksums in any order: nothing differs, is new or missing."""
    assert _difference(payload, dict(reversed(payload.items()))) == Difference()


@given(payload=flat, name=names, values=st.tuples(st.integers(), st.text(max_size=8)))
def test_the_field_that_differs_is_named(
    payload: dict[str, object], name: str, values: tuple[object, object]
) -> None:
    """
    Two payloads that differ in one field name that field and no other.

    Unless 16 bits of two values, or of two names, are the same: then a message says less.
    """
    first, later = payload | {name: values[0]}, payload | {name: values[1]}
    before, after = _checksums(first), _checksums(later)
    assert before is not None
    assert after is not None
    of_names = {after[at : at + 2] for at in range(0, len(after), 4)}
    if before == after or len(of_names) < len(later):
        return
    assert _difference(first, later) == Difference(changed=(name,))


def test_what_is_new_is_named_and_what_is_missing_counted() -> None:
    """The name of a missing field is on no row and in no payload: only their number is known."""
    found = _difference(
        {"amount": 1, "card": "x", "note": ""}, {"amount": 2, "card": "x", "tip": 1, "rush": True}
    )
    assert found == Difference(changed=("amount",), new=("rush", "tip"), missing=1)
    assert found.named == ("amount", "rush", "tip")
    assert str(found) == "different: amount; new: rush, tip; missing: 1"
    assert str(Difference()) == ""


def test_few_are_named_in_a_message() -> None:
    """Five fields are named, those that changed first, and the rest is counted."""
    found = _difference({f"f{n}": 1 for n in range(4)}, {f"f{n}": 2 for n in range(8)})
    assert found.named == ("f0", "f1", "f2", "f3", "f4")
    assert len(found.named) == MOST_NAMED
    assert str(found) == "different: f0, f1, f2, f3; new: f4; 3 more"


def test_a_row_keeps_few_bytes() -> None:
    """128 bytes at most, 4 a field; nothing for what is no object or has no fields."""
    assert len(_checksums({f"field-{n}": n for n in range(500)}) or b"") == 4 * MOST_FIELDS
    assert len(_checksums(dict.fromkeys("abcdef", 1)) or b"") == 24
    for payload in ([1], "text", 5, None, {}, b"x", {"\0a": 1}):
        assert _checksums(payload) is None


def test_beyond_the_row_nothing_is_claimed() -> None:
    """Of more fields than a row keeps, one that changed is named if it was kept, and none is called new."""
    first = {f"field-{n}": n for n in range(100)}
    named = {name for name in first if _difference(first, first | {name: "other"}).named == (name,)}
    assert len(named) == MOST_FIELDS
    assert all(_difference(first, first | {name: 0.5}).new == () for name in first)


def test_one_side_without_fields_names_nothing() -> None:
    """A row of an earlier version, a text, or a list: there is nothing to compare with."""
    assert (
        _difference("text", {"a": 1})
        == _difference({"a": 1}, "text")
        == _difference(None, None)
        == Difference()
    )


def test_foreign_bytes_break_nothing() -> None:
    """What is no whole number of checksums is read as far as it goes."""
    assert difference(b"abc", printed({"a": 1}), TOKEN) == Difference(new=("a",))


def test_two_rows_of_one_payload_do_not_look_alike() -> None:
    """The checksums depend on the token: equal values cannot be found by comparing rows."""
    payload = printed({"pin": "1234"})
    assert checksums(payload, "orders/charge/a") != checksums(payload, "orders/charge/b")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("amount", "amount"),
        ("", '""'),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        ("é\u202e", "é\\u202e"),
        ("\udc80", "\\udc80"),
        ("n" * 1000, "n" * 64),
        ("\n" * 1000, "\\n" * 32),
    ],
)
def test_names_are_bounded_and_printable(name: str, shown: str) -> None:
    """A name is cut to 64 characters, and what would break or colour a line is escaped."""
    assert _difference({"a": 1}, {"a": 1, name: 1}).named == (shown,)


@dataclass
class Order:
    amount: int
    lines: list[int]


@pytest.mark.parametrize("payload", [{"order": Order(1, [2])}, {"order": {"amount": 1, "lines": [2]}}])
def test_what_a_face_put_together_counts_by_its_parts(payload: dict[str, object]) -> None:
    """The parts' own fields are the fields: those of a dataclass as those of a mapping, one level deep."""
    found = printed(payload, parts=True)
    assert found.fields == [("order.amount", "1"), ("order.lines", "[2]")]
    assert printed(payload).fields == [("order", '{"amount":1,"lines":[2]}')]
    assert printed(Order(1, [2])).fields == [("amount", "1"), ("lines", "[2]")]


def test_the_fields_of_the_payload_bear_their_own_names() -> None:
    """Fields around the payload are named with their part, those of the payload by themselves."""
    body = {"amount": 1, "meta": {"try": 1}}
    found = printed({"query": {"page": ["1"]}, "body": body}, body, parts=True)
    assert found.fields == [("amount", "1"), ("meta", '{"try":1}'), ("query.page", '["1"]')]
    assert printed({"query": {}, "body": "text"}, "text", parts=True).fields == [("body", '"text"')]


def test_what_cannot_be_written_counts_as_null() -> None:
    """Strange objects, cycles and numbers out of range: where they are, noted by the path of ``ignore=``."""
    cycle: dict[str, object] = {"amount": 1}
    cycle["self"] = cycle
    too_early = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))
    loop = "a builtins.dict that contains itself or is nested too deeply"
    for payload, text, noted in (
        ({"a": object(), "b": 1}, '{"a":null,"b":1}', ("a", "a builtins.object")),
        (cycle, '{"amount":1,"self":null}', ("self", loop)),
        ({"a": [1, too_early]}, '{"a":[1,null]}', ("a", "a datetime.datetime")),
        (object(), "null", ("", "a builtins.object")),
    ):
        found = printed(payload)
        path, kind = noted
        assert (found.text, found.not_compared) == (
            text,
            ((path, f"{kind} has no canonical form; it counts as null"),),
        )


def test_parts_of_an_expression_are_noted_by_their_labels() -> None:
    """Under ``fingerprint="[order.id, conn]"``, whose result has no names."""
    found = selected([1, {"inner": object()}], ("order.id", "conn"))
    assert found.text == '[1,{"inner":null}]'
    assert found.not_compared == (
        ("conn.inner", "a builtins.object has no canonical form; it counts as null"),
    )


def test_few_parts_are_noted() -> None:
    """The names in a payload may be data, without end."""
    assert len(printed({str(n): object() for n in range(1_000)}).not_compared) == MOST_FIELDS


@pytest.mark.parametrize(
    "attributes",
    [{"Authorization": "s3cret", "type": "created"}, [["x-api-key", "s3cret"], ["type", "created"]]],
    ids=["by name", "in pairs"],
)
def test_a_credential_beside_the_payload_has_no_checksum(attributes: Any) -> None:
    """Four bytes of it would narrow a guess; it counts in the digest all the same."""
    texts = [written(each) for each in (attributes, json.loads(json.dumps(attributes).replace("s3", "s4")))]
    first, second = (Printed("{}", beside=(("@attributes", text),)) for text in texts)
    assert first.fingerprint != second.fingerprint
    assert first.fields == second.fields
    assert "s3cret" not in str(first.fields)


def test_what_is_no_credential_has_a_checksum() -> None:
    """Of each attribute by its name, and of a list of pairs as a whole."""
    named = Printed("{}", beside=(("@attributes", '{"type":"a"}'),))
    assert named.fields == [("@attributes.type", '"a"')]
    assert Printed("{}", beside=(("@attributes", '[["type","a"]]'),)).fields == [
        ("@attributes", '[["type","a"]]')
    ]
