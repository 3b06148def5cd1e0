"""
What finds each open token, derived from the writes themselves: each write, on each row, in each mode.

After a write the token is not open, or its row is ``listed`` as what it is, or the write made the row: then
the stream has its INSERT, and nothing has changed it since. Only the two requests that require no row leave
``listed`` out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lambda_once.core.lifecycle import Decider, Decision, Failure, Resolve, State
from lambda_once.core.results import Inline
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
from lambda_once.stores.row import Item
from lambda_once.testing import create_table
from tests.kit import tables
from tests.kit.strict.mounted import mounted

TOKEN = "orders/charge/7"
NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
LEASE = NOW + timedelta(seconds=30)
FAILURE = Failure("ValueError", "no")
TTL = int(NOW.timestamp()) + 86_400
PAST = int(NOW.timestamp()) - 1
FIRST = Acquire(TOKEN, "a1", "orders/r1", NOW, LEASE, Unclaimed(take_over=True), TTL)
DECISION = Decision(NOW, Decider.PERSON, "ann", "seen", State.HELD, Resolve.HOLD, "a3")


def _write(by: Holder | Resolver, change: Change, ttl: int | None, *decisions: Decision) -> Write:
    return Write(TOKEN, by, change, NOW, ttl, "w1" if new_write_id(change) else None, decisions)


OWN = Holder("a1")
ENDS: dict[str, Write] = {
    "held": _write(OWN, Hold(FAILURE), None),
    "released": _write(OWN, Release(FAILURE), TTL),
    "released, expired": _write(OWN, Release(FAILURE), PAST),
    "complete": _write(OWN, Complete(Inline("1")), TTL),
    "complete, expired": _write(OWN, Complete(Inline("1")), PAST),
}
ROWS = ("none", "in progress", "lapsed", "given back", *ENDS)
"""Rows as they can be; those of work are made in the same mode. "given back" is released by a decision."""


class Ground:
    """A token of the strict engine, and requests sent one by one."""

    def __init__(self, client: Any, listing: Listing) -> None:
        self.client, self.listing = client, listing

    def row(self) -> Item:
        key = {"lockToken": {"S": TOKEN}}
        found: Item = self.client.get_item(TableName="tokens", Key=key, ConsistentRead=True).get("Item", {})
        return found

    def begin(self, row: str) -> None:
        """Make the row, by the requests that make it."""
        if row == "none":
            return
        first = FIRST
        if row == "lapsed":
            first = FIRST._replace(now=NOW - timedelta(hours=1), lease=NOW - timedelta(minutes=59))
        self.send(requests.acquire_new("tokens", first, self.listing))
        if row in ENDS:
            self.send(requests.finish("tokens", ENDS[row]))
        elif row == "given back":
            self.send(requests.finish("tokens", ENDS["held"]))
            by = Resolver("a1", LEASE, "a0", State.HELD, self.fence())
            self.send(requests.finish("tokens", _write(by, Release(), None, DECISION)))

    def fence(self) -> int:
        return int(self.row()["fence"]["N"])

    def send(self, request: dict[str, Any]) -> bool:
        """Send *request*; return whether it was written."""
        try:
            if "Statement" in request:
                (answer,) = self.client.batch_execute_statement(Statements=[request])["Responses"]
                return "Error" not in answer
            self.client.update_item(**request)
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True


def _acquisitions(ground: Ground) -> Iterator[tuple[str, dict[str, Any]]]:
    row = ground.row()
    attempt = row.get("attempt", {"S": "none"})["S"]
    lease = row.get("expectedCompletion", {"S": "2026-11-20T10:12:30.000Z"})["S"]
    again = FIRST._replace(attempt_id="a2")
    takes: dict[str, Unclaimed | AsSeen] = {
        "take over": Unclaimed(take_over=True),
        "hold": Unclaimed(take_over=False),
        "seen released": AsSeen(attempt, None),
        "seen lapsed": AsSeen(attempt, datetime.fromisoformat(lease)),
    }
    for name, take in takes.items():
        yield name, requests.acquire("tokens", again._replace(take=take))
        if isinstance(take, Unclaimed):
            fresh = again._replace(take=take)
            yield f"new, {name}", requests.acquire_new("tokens", fresh, ground.listing)
            yield f"insert, {name}", requests.insert("tokens", fresh, ground.listing)


def _writes(ground: Ground) -> Iterator[tuple[str, dict[str, Any]]]:
    row = ground.row()
    attempt = row.get("attempt", {"S": "a1"})["S"]
    lease = datetime.fromisoformat(row.get("expectedCompletion", {"S": "2026-11-20T10:12:30.000Z"})["S"])
    changes: dict[str, tuple[Change, int | None]] = {
        "complete": (Complete(Inline("1")), TTL),
        "store": (Complete(None, FAILURE), TTL),
        "hold": (Hold(FAILURE), None),
        "release": (Release(FAILURE), TTL),
        "release unstarted": (Release(), TTL),
        "release, listed": (Release(), None),
        "extend": (Extend(LEASE + timedelta(hours=1)), TTL),
        "pin": (Pin.PIN, None),
    }
    for name, (change, ttl) in changes.items():
        write = _write(Holder(attempt), change, ttl)
        yield name, requests.finish("tokens", write)
        if requests.can_update(write):
            yield f"update, {name}", requests.update("tokens", write)
        if new_write_id(change):
            for state in State:
                by = Resolver(attempt, lease, "a3", state, int(row.get("fence", {"N": "0"})["N"]))
                yield (
                    f"{name}, decided of {state.value}",
                    requests.finish("tokens", _write(by, change, ttl, DECISION)),
                )
    keep = Resolver(attempt, lease, attempt, State.COMPLETE, int(row.get("fence", {"N": "0"})["N"]))
    yield "keep", requests.finish("tokens", _write(keep, Keep("w1"), TTL + 1, DECISION))


def unfound(listing: Listing) -> tuple[set[str], set[tuple[str, str]], set[str]]:
    """
    Make every write of every row; return what breaks the rule.

    That is: open tokens that nothing would find, as "row: write"; rows left out of the list, with their
    write; and writes that were written to no row at all, which would prove nothing.
    """
    lost, left_out, names, written = set[str](), set[tuple[str, str]](), set[str](), set[str]()
    with mounted():
        client = tables.client()
        create_table(client, "tokens")
        ground = Ground(client, listing)
        for row in ROWS:
            count = 0
            while True:
                client.delete_item(TableName="tokens", Key={"lockToken": {"S": TOKEN}})
                ground.begin(row)
                sent = [*_acquisitions(ground), *_writes(ground)]
                if count == len(sent):
                    break
                name, request = sent[count]
                count += 1
                names.add(name)
                if not ground.send(request):
                    continue
                written.add(name)
                after = ground.row()
                if "status" not in after:
                    assert "listed" not in after, f"{row}: {name} leaves an entry behind"
                elif "listed" not in after:
                    left_out.add((row, name))
                    if row != "none":
                        lost.add(f"{row}: {name}")
                elif after["listed"]["S"] not in partitions(State(after["status"]["S"])):
                    lost.add(f"{row}: {name}")
    return lost, left_out, names - written


FIRST_ONES = {("none", name) for name in ("new, take over", "new, hold", "insert, take over", "insert, hold")}


@pytest.mark.parametrize("listing", Listing)
def test_every_open_token_is_listed_or_is_an_insert(listing: Listing) -> None:
    """Each write of each row; only the two that require no row leave listed out, in stream mode alone."""
    lost, left_out, unproved = unfound(listing)
    assert lost == set()
    assert left_out == (FIRST_ONES if listing is Listing.STREAM else set())
    # a release by an attempt has a ttl, a decision on a complete row that none has is a Keep
    assert unproved <= {f"{name}, decided of {state.value}" for name in ("extend", "pin") for state in State}


# ------------------------------------------------------------------ the twins


def _without(name: str, of: Callable[[Any], bool]) -> Callable[[pytest.MonkeyPatch], None]:
    """Let `requests`.*name* leave ``listed`` out of what it sets, where *of* says so of its argument."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = getattr(requests, name)

        def wrong(argument: Any, *more: Any) -> Any:
            made = right(argument, *more)
            sets = made[0] if isinstance(made, tuple) else made
            if of(argument):
                sets.pop("listed", None)
            return made

        monkeypatch.setattr(requests, name, wrong)

    return patch


def _change(kind: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return _without("_changed", lambda write: isinstance(write.change, kind))


def _all_acquisitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every acquisition leave it out, as a first one does."""
    right = requests.acquired_attributes
    monkeypatch.setattr(requests, "acquired_attributes", lambda each, _: right(each, Listing.STREAM))


def _as_seen(*, lapsed: bool) -> Callable[[pytest.MonkeyPatch], None]:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = requests.acquired_attributes

        def wrong(each: Acquire, listing: Listing) -> Item:
            is_one = isinstance(each.take, AsSeen) and (each.take.lease is not None) is lapsed
            return right(each, Listing.STREAM if is_one else listing)

        monkeypatch.setattr(requests, "acquired_attributes", wrong)

    return patch


TWINS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "an extension": (_change(Extend), "in progress: extend"),
    "a pin": (_change(Pin), "in progress: pin"),
    "a hold": (_change(Hold), "in progress: hold"),
    "a decision to hold": (_change(Hold), "complete: hold, decided of complete"),
    "a release by a decision": (_change(Release), "in progress: release, listed, decided of inProgress"),
    "a take-over": (_all_acquisitions, "lapsed: take over"),
    "a retry": (_all_acquisitions, "released: take over"),
    "an expired row": (_all_acquisitions, "complete, expired: hold"),
    "an expired release": (_all_acquisitions, "released, expired: hold"),
    "what was given back": (_all_acquisitions, "given back: take over"),
    "as seen released": (
        _as_seen(lapsed=False),
        "released: seen released",
    ),
    "as seen lapsed": (
        _as_seen(lapsed=True),
        "lapsed: seen lapsed",
    ),
}


@pytest.mark.parametrize(("patch", "loses"), TWINS.values(), ids=TWINS)
def test_twin_that_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch, patch: Callable[[pytest.MonkeyPatch], None], loses: str
) -> None:
    """One rule less, and an open token is in neither the list nor the stream's INSERTs."""
    patch(monkeypatch)
    assert loses in unfound(Listing.STREAM)[0]


def test_twin_whose_end_leaves_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends a token removes both attributes, or the list would have finished work for ever."""
    monkeypatch.setattr(requests, "OPEN", ("status",))
    with pytest.raises(AssertionError, match="leaves an entry behind"):
        unfound(Listing.AT_ONCE)
