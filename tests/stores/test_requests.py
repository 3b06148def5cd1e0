"""
Requests and statements as values: the whole of what goes to DynamoDB is in `tests/golden/requests.json`.

``python -m tests.stores.test_requests`` accepts what they are now: read the difference as a change of the
conditions, each of which carries a guarantee.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

from lambda_once.core.lifecycle import Decider, Decision, Failure, Resolve, State
from lambda_once.core.results import Chunks, Inline, Unavailable
from lambda_once.core.variables import Listing
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Change,
    Complete,
    Extend,
    Hold,
    Holder,
    Keep,
    Pin,
    Release,
    Resolver,
    Unclaimed,
    Write,
    new_write_id,
)
from lambda_once.stores import requests
from lambda_once.stores.index import partitions

GOLDEN = Path(__file__).parents[1] / "golden" / "requests.json"
NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
LEASE = NOW + timedelta(seconds=30)
ACQUISITION = Acquire(
    *("t", "a1", "orders/r1", NOW, LEASE, Unclaimed(take_over=True), 1796379150, "f", "m-1"),
    caller="a1.c",
    trace="00-5b-6c-01",
)
BARE = ACQUISITION._replace(ttl=None, fingerprint=None, delivery=None, caller=None, trace=None)
FAILURE = Failure("ValueError", "no")
ACQUISITIONS = {
    "take over": ACQUISITION,
    "hold": BARE._replace(take=Unclaimed(take_over=False)),
    "seen released": BARE._replace(take=AsSeen("a0", None)),
    "seen lapsed": BARE._replace(take=AsSeen("a0", LEASE)),
}
CHANGES: dict[str, tuple[Change, int | None]] = {
    "complete": (Complete(Inline("1")), 9),
    "complete, compressed": (Complete(Inline(b"\x00")), 9),
    "complete with None": (Complete(None), 9),
    "complete with parts": (Complete(Chunks((b"1", b"2"))), 9),
    "complete without its result": (Complete(Unavailable.UNAVAILABLE), 9),
    "store": (Complete(None, FAILURE), 9),
    "store, sealed": (Complete(None, FAILURE._replace(sealed=b"sealed:x")), 9),
    "hold": (Hold(FAILURE), None),
    "release": (Release(FAILURE), 9),
    "release unstarted": (Release(), 9),
    "extend": (Extend(LEASE + timedelta(seconds=30)), 9),
    "pin": (Pin.PIN, None),
}


def write(by: Holder | Resolver, change: Change, ttl: int | None, *decisions: Decision) -> Write:
    """Return *change* by *by*, with an id where it ends the attempt."""
    return Write("t", by, change, NOW, ttl, "w1" if new_write_id(change) else None, decisions)


def _built() -> Iterator[tuple[str, Any]]:
    """Return each request under its name."""
    for name, acquisition in ACQUISITIONS.items():
        yield f"acquire: {name}", requests.acquire("tokens", acquisition)
        if isinstance(acquisition.take, Unclaimed):
            for listing in Listing:
                of = f"{name}, {listing.value}"
                yield f"acquire new: {of}", requests.acquire_new("tokens", acquisition, listing)
                yield f"insert: {of}", requests.insert("tokens", acquisition, listing)
    for name, (change, ttl) in CHANGES.items():
        own = write(Holder("a1"), change, ttl)
        yield f"write: {name}", requests.finish("tokens", own)
        if requests.can_update(own):
            yield f"update: {name}", requests.update("tokens", own)
    named = replace(write(Holder("a1"), *CHANGES["complete"]), fields=b"ab")
    yield "write: complete, with fields", requests.finish("tokens", named)
    yield "update: complete, with fields", requests.update("tokens", named)
    decided = Decision(
        NOW,
        Decider.PERSON,
        "ann",
        "seen at the provider",
        State.HELD,
        Resolve.HOLD,
        "fresh",
        "arn:ann",
        times=2,
    )
    for state in State:
        by = Resolver("a1", LEASE, "fresh", state, 7)
        for change, ttl in (
            (Release(), 9),
            (Release(), None),
            (Hold(FAILURE), None),
            (Complete(Inline("1")), 9),
        ):
            name = f"resolve: {state.value}, {type(change).__name__}, ttl {ttl}"
            yield name, requests.finish("tokens", write(by, change, ttl, decided))
    keep = Keep("w1", 2)
    kept = write(Resolver("a1", LEASE, "a1", State.COMPLETE, 7), keep, 9, decided)
    yield "keep", [requests.finish("tokens", kept), *requests.kept_parts("tokens", kept, keep)]
    yield "parts", requests.part_items(write(Holder("a1"), Complete(Chunks((b"1", b"2"))), 9), (b"1", b"2"))


def built() -> dict[str, Any]:
    """Return all requests as JSON values; a dict's names are sorted, an expression's are as they are sent."""
    text = json.dumps(dict(_built()), default=lambda data: data.decode("latin-1"), sort_keys=True, indent=1)
    found: dict[str, Any] = json.loads(text)
    return found


def test_requests_are_the_committed_ones() -> None:
    """A changed condition is a changed guarantee; so is an attribute that is no longer set or removed."""
    assert built() == json.loads(GOLDEN.read_text())


def test_every_attribute_and_placeholder_is_used_and_defined() -> None:
    """DynamoDB refuses a request with a placeholder too many or too few."""
    for request in _flat(dict(_built()).values()):
        if "UpdateExpression" in request:
            text = f"{request['UpdateExpression']} {request['ConditionExpression']}"
            assert set(re.findall(r"#\w+", text)) == set(request["ExpressionAttributeNames"])
            assert set(re.findall(r":\w+", text)) == set(request["ExpressionAttributeValues"])
            bare = set(re.findall(r"(?<![#:\w])[a-z]\w+", text)) - {"begins_with"}
            assert not {name for name in bare if name.upper() in _reserved()}
        elif "Statement" in request:
            assert request["Statement"].count("?") == len(request["Parameters"])


def _reserved() -> list[str]:
    """The words that DynamoDB takes only as placeholders."""
    words: list[str] = ReservedKeywords.get_reserved_keywords()
    return words


def _flat(values: Any) -> Iterator[dict[str, Any]]:
    for value in values:
        yield from _flat(value) if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", ["take over", "hold"])
def test_insert_makes_the_row_of_the_single_write(name: str) -> None:
    """Every attribute has the value that both single writes give it, the partition included."""
    single = set_by(requests.acquire("tokens", ACQUISITIONS[name]))
    first = set_by(requests.acquire_new("tokens", ACQUISITIONS[name], Listing.AT_ONCE))
    statement = requests.insert("tokens", ACQUISITIONS[name], Listing.AT_ONCE)
    names = re.findall(r"'(\w+)': \?", statement["Statement"])
    row = dict(zip(names, statement["Parameters"], strict=True))
    assert row.pop("lockToken") == {"S": "t"}
    assert first == row
    computed = {"fence", "generation", "before"}  # in an expression, of what the row has
    fence = requests.acquire("tokens", ACQUISITIONS[name])["ExpressionAttributeValues"][":epoch_ms"]
    assert row["fence"] == {"N": str(int(fence["N"]) + 1)}
    assert row["generation"] == row["attempt"]
    assert single == {each: value for each, value in row.items() if each not in computed}


def set_by(request: dict[str, Any]) -> dict[str, Any]:
    """Return each attribute that an UpdateItem sets to a value, with that."""
    names, values = request["ExpressionAttributeNames"], request["ExpressionAttributeValues"]
    update = request["UpdateExpression"].partition(" REMOVE ")[0].removeprefix("SET ")
    pairs = re.findall(r"([#\w]+) = (:\w+)(?=,|$)", update)
    return {names.get(name, name): values[place] for name, place in pairs}


def test_a_token_is_listed_by_its_hash() -> None:
    """The same token is always in the same partition, and not all tokens in one; the status is bare."""

    def listed(token: str) -> str:
        values = set_by(requests.acquire("tokens", ACQUISITION._replace(token=token)))
        assert values["status"] == {"S": "inProgress"}
        return str(values["listed"]["S"])

    written = [listed(f"t{n}") for n in (*range(80), *range(80))]
    assert written[:80] == written[80:]
    assert set(written) == set(partitions(State.IN_PROGRESS))


@pytest.mark.parametrize("by", [Holder("a1"), Resolver("a1", LEASE, "probe")], ids=["extension", "resolver"])
def test_what_asks_for_more_is_no_statement(by: Holder | Resolver) -> None:
    """An extension only ever lengthens, and a resolver moves the fence: these stay single writes."""
    change = Extend(LEASE) if isinstance(by, Holder) else Complete(None)
    assert not requests.can_update(write(by, change, 9))


def _text(request: Any) -> str:
    """Return *request* as JSON, a line for each of its arguments."""
    if isinstance(request, list):
        return f"[{', '.join(map(_text, request))}]"
    arguments = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in request.items()]
    return "{\n" + ",\n".join(arguments) + "}"


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {_text(request)}" for name, request in built().items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
