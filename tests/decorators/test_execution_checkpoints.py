"""
The format of the checkpoints of `once.execution`: an execution that survives a deploy resumes from them.

``tests/golden/checkpoints.json``: what the SDK's serialiser made of the results of the steps, in
executions of the key 5.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from aws_durable_execution_sdk_python import DurableContext
from aws_durable_execution_sdk_python.serdes import deserialize, serialize

from lambda_once import Fenced, Held, InProgress, KeyReused, MemoryStore, ResultUnavailable, StoredError
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Inline
from lambda_once.errors import KNOWN
from lambda_once.integrations import durable
from tests.decorators.durable_shop import HOUR
from tests.decorators.rig import Rig, elsewhere
from tests.docs.pages import ROOT

GOLDEN: dict[str, dict[str, Any]] = json.loads(
    (ROOT / "tests" / "golden" / "checkpoints.json").read_text(encoding="utf-8")
)
ERRORS: dict[str, tuple[type[Exception], str]] = {
    "in progress": (InProgress, "inProgress"),
    "held": (Held, "error"),
    "lapsed": (Held, "inProgress"),
    "key reused": (KeyReused, "complete"),
    "result unavailable": (ResultUnavailable, "complete"),
    "stored error": (StoredError, "complete"),
}


class Resumed(DurableContext):
    """The context of an invocation that finds *found* in its checkpoints, and makes others."""

    def __init__(self, rig: Rig, found: dict[str, Any]) -> None:
        self.lambda_context = rig.context()  # type: ignore[assignment]
        self.execution_context: Any = SimpleNamespace(durable_execution_arn="arn")
        self.found = found
        self.made: dict[str, Any] = {}

    def step(self, func: Callable[[Any], Any], name: Any = None, config: Any = None) -> Any:
        del config
        if name not in self.found:
            self.made[name] = json.loads(serialize(None, func(None), name, "arn"))
        return deserialize(None, json.dumps(self.found.get(name, self.made.get(name))), name, "arn")


def enter(rig: Rig, context: Resumed, **options: Any) -> Any:
    """Return the context manager of the execution."""
    return rig.once.execution(context, key=5, name="pay", lease=HOUR, **options)


def value(name: str, step: str = "once.acquire") -> Any:
    """Return what the step of a golden execution had returned."""
    return deserialize(None, json.dumps(GOLDEN[name][step]), step, "arn")


@pytest.fixture
def rig() -> Rig:
    """A table in memory, at the time of the golden executions."""
    return Rig()


def put(rig: Rig, record: Record) -> None:
    """Write *record* into the table."""
    assert isinstance(rig.ground.store, MemoryStore)
    rig.ground.store.records[record.token] = record
    rig.store.wished.append(record.token)


def acquisition(name: str) -> Record:
    """Return the row that a golden execution had acquired."""
    of = value(name)
    return Record(
        token=of["token"],
        state=State.IN_PROGRESS,
        attempt_id=value(name, "once.attempt"),
        fence=of["fence"],
        locked_by="orders/arn",
        created=of["created"],
        expected_completion=of["lease"],
    )


def outcome(name: str, step: str = "once.acquire") -> Record:
    """Return the row whose result a golden execution got."""
    known = value(name, step)["record"]
    return Record(**known | {"state": State(known["state"])})


# -- an execution goes on


def test_an_acquired_execution_completes(rig: Rig) -> None:
    """The attempt has its id, fence and lease, and its completion is written."""
    put(rig, acquisition("acquired"))
    context = Resumed(rig, GOLDEN["acquired"])
    with enter(rig, context) as attempt:
        assert (attempt.id, attempt.fence) == (rig.row().attempt_id, rig.row().fence)
        assert attempt.complete({"charged": 1}) == {"charged": 1}
    assert (rig.row().state, list(context.made)) == (State.COMPLETE, ["once.complete"])


def test_an_acquired_execution_fails(rig: Rig) -> None:
    """It releases the row of its attempt."""
    put(rig, acquisition("acquired"))
    context = Resumed(rig, GOLDEN["acquired"])
    with pytest.raises(ValueError, match="declined"), enter(rig, context):
        raise ValueError("declined")
    assert (rig.row().state, list(context.made)) == (State.RELEASED, ["once.fail"])


def test_a_completed_execution_returns_what_it_did(rig: Rig) -> None:
    """Nothing is written again."""
    context = Resumed(rig, GOLDEN["completed"])
    with enter(rig, context) as attempt:
        assert attempt.complete({"charged": 1}) == {"charged": 1}
    assert (rig.rows(), context.made) == ([], {})


def test_a_failed_execution_fails_as_it_did(rig: Rig) -> None:
    """Nothing is written again, either."""
    context = Resumed(rig, GOLDEN["failed"])
    with pytest.raises(ValueError, match="declined"), enter(rig, context):
        raise ValueError("declined")
    assert (rig.rows(), context.made) == ([], {})


@pytest.mark.parametrize(
    ("name", "result"), [("replayed", {"charged": 1}), ("replayed with a payload", {"charged": 1})]
)
def test_a_replay_gets_its_result(rig: Rig, name: str, result: Any) -> None:
    """From the checkpoint, with the row as it was then."""
    with enter(rig, Resumed(rig, GOLDEN[name])) as attempt:
        assert (attempt.replayed, attempt.result) == (True, result)
        assert attempt.record == outcome(name)
    assert rig.rows() == []


def test_a_large_replay_is_read_from_the_row_that_it_was_of(rig: Rig) -> None:
    """A row of the same write; for another one the result is unavailable."""
    name = "replayed from the table"
    record = outcome(name)
    put(rig, record._replace(stored=Inline('"large"')))
    with enter(rig, Resumed(rig, GOLDEN[name])) as attempt:
        assert (attempt.replayed, attempt.result) == (True, "large")
    put(rig, record._replace(stored=Inline('"another"'), write_id="f" * 32))
    gone = "its result is no longer in the table: it was forgotten or resolved, or has expired"
    with pytest.raises(ResultUnavailable, match=gone), enter(rig, Resumed(rig, GOLDEN[name])):
        pass


def test_an_overtaken_execution_gets_what_its_successor_stored(rig: Rig) -> None:
    """A completion that was refused is the successor's outcome, or `Fenced`."""
    with enter(rig, Resumed(rig, GOLDEN["overtaken, and its successor completed"])) as attempt:
        assert attempt.complete({"charged": 1}) == {"charged": 2}
    context = Resumed(rig, GOLDEN["overtaken, and its successor in progress"])
    with pytest.raises(Fenced) as refused, enter(rig, context) as attempt:
        attempt.complete({"charged": 1})
    assert refused.value.state == "inProgress"
    assert rig.rows() == []


@pytest.mark.parametrize("name", ERRORS)
def test_a_refusal_is_the_same_error(rig: Rig, name: str) -> None:
    """Its class, its message and what is known of the row, for callers that look at these."""
    kind, state = ERRORS[name]
    with pytest.raises(kind) as refused, enter(rig, Resumed(rig, GOLDEN[name])):
        pass
    error: Any = refused.value
    answer = value(name)
    assert (str(error), error.token, error.state) == (answer["message"], "shop/pay/5", state)
    assert error.locked_by.startswith("test-function/")
    assert error.expected_completion - error.created == HOUR
    assert type(error).__name__ == answer["error"]
    if isinstance(error, KeyReused):
        assert error.fields == ("b",)
    if isinstance(error, Held):
        assert error.lapsed is (name == "lapsed")
    if isinstance(error, InProgress):
        assert error.retry_after == 5.0


# -- nothing is checkpointed that no golden execution has


def _names(encoded: Any, above: str = "") -> Iterator[str]:
    """Yield the names in a checkpoint, each with the kind that the serialiser gives its value."""
    if isinstance(encoded, dict) and encoded["t"] == "m":
        for name, each in encoded["v"].items():
            yield f"{above}{name} {each['t']}"
            yield from _names(each, f"{above}{name}.")


def _golden_names() -> set[str]:
    return {name for steps in GOLDEN.values() for encoded in steps.values() for name in _names(encoded)}


def _made(rig: Rig) -> set[str]:
    """Return the names that today's steps checkpoint: acquired and completed, a duplicate, a refusal."""
    contexts = [Resumed(rig, {}) for _ in range(4)]
    working, late, replayed, refused = contexts
    with enter(rig, working, payload={"a": 1, "b": 2}) as attempt:
        with pytest.raises(InProgress):
            elsewhere(lambda: enter(rig, late, payload={"a": 1, "b": 2}).__enter__())
        attempt.complete("done")
    with enter(rig, replayed, payload={"a": 1, "b": 2}) as attempt:
        assert attempt.replayed
    with pytest.raises(KeyReused), enter(rig, refused, payload={"a": 1, "b": 3}):
        pass
    return {name for each in contexts for encoded in each.made.values() for name in _names(encoded)}


def test_every_name_is_in_a_golden_checkpoint(rig: Rig) -> None:
    """Whoever adds one adds an execution that has it, which every later version must resume."""
    made = _made(rig)
    assert {f"record.{name}" for name in Record._fields if name not in durable._NOT_CHECKPOINTED} <= {
        name.split()[0] for name in made
    }
    assert {f"known.{name}" for name in KNOWN} <= {name.split()[0] for name in made}
    assert made - _golden_names() == set()


def test_a_name_without_a_golden_checkpoint_is_seen(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail."""
    made = durable.answer_of_replay
    monkeypatch.setattr(durable, "answer_of_replay", lambda *given: made(*given) | {"region": "eu"})
    assert _made(rig) - _golden_names() == {"region s"}
