"""Ways of taking guards out of the package: each drops one thing, and leaves all else as it is."""

from __future__ import annotations

from collections.abc import Callable, Generator
from copy import copy
from dataclasses import replace
from decimal import Decimal
from functools import partialmethod
from typing import Any

import pytest

from lambda_once.core.clock import epoch_seconds, has_running_loop
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.writes import (
    Complete,
    End,
    Hold,
    Release,
    Resolver,
    Write,
    made_by,
    resolving,
    stored_form,
)
from lambda_once.engine import engine as acquiring
from lambda_once.engine import finish, lapsed, ownership
from lambda_once.engine.engine import Engine
from lambda_once.engine.finish import Finisher
from lambda_once.engine.history import HistoryAnswer, Vacant
from lambda_once.engine.invocation import current_invocation
from lambda_once.engine.ownership import Ownership
from lambda_once.integrations.powertools_history import Marks, PowertoolsRecord
from lambda_once.stores import batches, requests, store
from lambda_once.stores.contract import AcquireAnswer, Refused, Unanswered, Won
from lambda_once.stores.store import DynamoDBStore
from tests.kit.strict import partiql

Patch = Callable[[pytest.MonkeyPatch], None]

ALWAYS = "attribute_exists(lockToken)"
ALWAYS_IN_PARTIQL = '"lockToken" IS NOT MISSING'


def without(module: Any, name: str, *parts: str) -> Patch:
    """Let each of *parts* of the condition *name* always hold; the engine wants their placeholders used."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        text = getattr(module, name)
        always = ALWAYS_IN_PARTIQL if name == "OURS_IN_PARTIQL" else ALWAYS
        for part in parts:
            assert part in text, f"{part!r} is not in {text!r}"
            text = text.replace(part, f"({part} OR {always})")
        monkeypatch.setattr(module, name, text)

    return patch


def both(*patches: Patch) -> Patch:
    """Take several guards away: each alone is enough."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in patches:
            each(monkeypatch)

    return patch


def placing(owner: Any, name: str, value: Any) -> Patch:
    """Put *value* where *name* of *owner* was."""
    return lambda monkeypatch: monkeypatch.setattr(owner, name, value)


def made_by_id_alone(record: Any, write: Any) -> bool:
    """Recognise a write by the attempt id, whatever the state."""
    return record is not None and record.attempt_id == write.attempt_id


_ENDS = {Complete: State.COMPLETE, Hold: State.HELD, Release: State.RELEASED}


def made_by_id_and_state(record: Any, write: Any) -> bool:
    """Recognise what ends an attempt by its id and the state that it makes, whichever write had made it."""
    if not isinstance(write.change, End):
        return _right_made_by(record, write)
    return (
        record is not None
        and record.attempt_id == write.attempt_id
        and record.state is _ENDS[type(write.change)]
    )


def made_by_content(record: Any, write: Any) -> bool:
    """Recognise what ends an attempt by its id and by what it says."""
    if not isinstance(write.change, End):
        return _right_made_by(record, write)
    stored = stored_form(write.change.result) if isinstance(write.change, Complete) else None
    same = record is not None and (record.stored, record.error) == (stored, write.change.error)
    return same and made_by_id_and_state(record, write)


_right_made_by = made_by


def part_key_by_attempt(token: str, attempt: str, _write: str, number: int) -> str:
    """Name parts by token and attempt."""
    return f"{token}#{attempt}#{number}"


def whenever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let transactions be sent after the end of their attempt, and let no finish wait for one."""
    begin = Ownership.begin_transaction

    def begun(attempt: Ownership) -> Any:
        attempt._finishing = False
        return begin(attempt)

    monkeypatch.setattr(Ownership, "begin_transaction", begun)
    monkeypatch.setattr(Ownership, "close", lambda _attempt: None)


def returning_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return what the work returned, though another write of its attempt is stored."""
    right = Finisher._outcome_of

    def own(self: Finisher, attempt: Ownership, successor: Record, ending: Any = None) -> Any:
        return ending.value if successor.attempt_id == attempt.attempt_id else right(self, attempt, successor)

    conclude = Finisher.conclude

    def concluded(self: Finisher, ending: Any, answer: Any) -> Any:
        monkeypatch.setattr(Finisher, "_outcome_of", partialmethod(own, ending=ending))
        return conclude(self, ending, answer)

    monkeypatch.setattr(Finisher, "conclude", concluded)


def never(*_: Any, **__: Any) -> bool:
    """Recognise nothing."""
    return False


def asks_nothing(acquisition: Any) -> Any:
    """Acquire without a condition."""
    return f"{ALWAYS} OR {requests.ABSENT}", {}


def with_any_status(granted: Any) -> Won:
    """Take every status that an acquisition found for an attempt that had lapsed."""
    took_over = granted.get("before", {"S": "none"})["S"] != "none"
    return _right_won(granted)._replace(took_over=took_over)


_right_won = requests.won


def released_by_an_attempt(_write: Write) -> tuple[dict[str, Any], list[str]]:
    """Release as an attempt does, whoever decided it."""
    return {}, ["status", "listed"]


def request_id() -> str:
    """One id for all tries of a request, as a request id is."""
    invocation = current_invocation()
    assert invocation is not None
    return str(invocation.request_id)


def with_ttl_under_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every acquisition have a ttl."""
    acquire_by = acquiring.acquire_by

    def mortal(*args: Any, **options: Any) -> Any:
        made = acquire_by(*args, **options)
        return made._replace(ttl=epoch_seconds(made.lease) + 1_000)

    monkeypatch.setattr(acquiring, "acquire_by", mortal)


def with_ttl_within_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every acquisition expire in a second."""
    acquire_by = acquiring.acquire_by

    def short(*args: Any, **options: Any) -> Any:
        made = acquire_by(*args, **options)
        return made._replace(ttl=epoch_seconds(made.now) + 1)

    monkeypatch.setattr(acquiring, "acquire_by", short)


def ttl_after_with(kind: type, ttl: Callable[[Any, Any, Any], int | None]) -> Patch:
    """Let `ttl_after` say *ttl* for a change of this *kind*."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = vars(ownership)["ttl_after"]

        def wrong(change: Any, call: Any, now: Any) -> int | None:
            return ttl(change, call, now) if isinstance(change, kind) else right(change, call, now)

        for module in (finish, lapsed, ownership):
            monkeypatch.setattr(module, "ttl_after", wrong)

    return patch


def keeping_the_old_ttl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an acquisition without a ttl leave the one that is there."""
    monkeypatch.setattr(requests, "OPTIONAL", ("fingerprint", "delivery"))


def parts_after_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the parts of a large result when the row says already that they are there."""
    put, finish = DynamoDBStore._put_parts, DynamoDBStore.write

    def flipped(store: DynamoDBStore, found: Any, deadline: Any) -> Any:
        monkeypatch.setattr(DynamoDBStore, "_put_parts", lambda _store, write, _deadline: write)
        answers = finish(store, found, deadline)
        for write in found:
            put(store, write, deadline)
        return answers

    monkeypatch.setattr(DynamoDBStore, "write", flipped)


def part_key_by_token(token: str, _attempt: str, _write: str, number: int) -> str:
    """Name parts by their token alone."""
    return f"{token}#{number}"


def not_recognised(self: Any, error: Any, acquisition: Any, deadline: Any) -> AcquireAnswer:
    """Take our own row for somebody else's, after a single write."""
    answer = _right_not_acquired(self, error, acquisition, deadline)
    if not isinstance(answer, Won):
        return answer
    standing = self._refusing(error.response.get("Item"), acquisition.token, deadline)
    return Refused(standing) if isinstance(standing, Record) else answer


_right_not_acquired = DynamoDBStore._not_acquired


def unrecognised_insert(acquisition: Any, outcome: Any, standing: Any) -> Any:
    """Take our own row for somebody else's, after an INSERT."""
    answer = _right_acquired(acquisition, outcome, standing)
    return Refused(standing) if isinstance(answer, Won) and outcome is not None else answer


_right_acquired = batches._acquire_answer


def unrecognised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never recognise an acquisition whose answer was lost."""
    monkeypatch.setattr(DynamoDBStore, "_not_acquired", not_recognised)
    monkeypatch.setattr(batches, "_acquire_answer", unrecognised_insert)


def overwriting_insert(statement: Any, before: Any) -> Any:
    """Let an INSERT overwrite, as moto does."""
    return statement.item if isinstance(statement, partiql.Insert) else _right_written(statement, before)


_right_written = partiql.written


def hopeful(self: DynamoDBStore, *args: Any) -> list[AcquireAnswer]:
    """Take an acquisition without an answer for granted."""
    answers = _right_acquire(self, *args)
    return [Won(1, took_over=False) if isinstance(each, Unanswered) else each for each in answers]


_right_acquire = DynamoDBStore.acquire


def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start what was acquired in place of a lost attempt as it is, whatever has become of its lease."""
    right = Engine.make_ready

    def as_it_is(attempt: Ownership, **_: bool) -> Generator[float, None, Ownership]:
        yield from ()
        return attempt

    def make_ready(self: Engine, attempt: Ownership, *, may_wait: bool) -> Any:
        within = copy(self)
        monkeypatch.setattr(within, "make_ready", as_it_is)
        return (yield from right(within, attempt, may_wait=may_wait))

    monkeypatch.setattr(Engine, "make_ready", make_ready)


def recognising(how: Callable[..., bool]) -> Patch:
    """Let *how* tell whether a refused write was our own."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (store, batches):
            monkeypatch.setattr(module, "made_by", how)

    return patch


def with_request_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all tries of a request be one attempt."""
    monkeypatch.setattr(acquiring, "new_attempt_id", request_id)


def awaited_by_the_client(_transport: Any, send: Any, arguments: Any, _deadline: Any, _now: Any) -> Any:
    """Await an answer for as long as the client does, whatever time remains."""
    return send(**arguments)


def read_before_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at a lease in the thread that acquired it, and not again on the event loop."""
    right = Engine.may_start
    monkeypatch.setattr(
        Engine,
        "may_start",
        lambda acquirer, attempt: has_running_loop() or right(acquirer, attempt),
    )


def with_seen_id(record: Record, *args: Any, **options: Any) -> Write:
    """Let a third party write under the id of the attempt that it read."""
    return replace(_right_resolving(record, *args, **options), by=Resolver.of(record, record.attempt_id))


_right_resolving = resolving


# ---------------------------------------------------------------- the history


def asks_no_history(record: PowertoolsRecord, *_: Any, **__: Any) -> Vacant:
    """Begin whatever the record says, and write none."""
    record._prepare()
    return Vacant()


def looking_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the record of an attempt without a look for a lapsed one, whatever the policy."""
    begin = PowertoolsRecord.begin

    def unseen(record: PowertoolsRecord, *args: Any, **given: Any) -> HistoryAnswer:
        return begin(record, *args, **given | {"takes_over": True})

    monkeypatch.setattr(PowertoolsRecord, "begin", unseen)


def added(marks: Marks, milliseconds: int) -> Decimal:
    """Add *marks* by Decimal's arithmetic, which rounds at 28 digits."""
    return milliseconds + Decimal(f"0.{marks.token}{marks.attempt}")


def judging_nothing(attempt: Ownership, *_: Any) -> Generator[float, None, Ownership]:
    """Start the work, whatever lapsed elsewhere."""
    yield from ()
    return attempt


def consulted_at_any_time(acquirer: Engine, attempt: Ownership, history: Any) -> Any:
    """Start the work, however late the history answered."""
    return history.before(attempt, acquirer.finisher)


def deleting_any(record: PowertoolsRecord, _now: Any) -> None:
    """Delete the record, whosever it is."""
    if record._data is not None:
        record._layer.delete_record(data=record._data, exception=Exception())
