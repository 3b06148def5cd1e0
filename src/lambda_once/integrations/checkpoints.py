"""
The token table's answers as a durable execution checkpoints them, and what each replay makes of them.

A step returns them, so they are values that the SDK's serialiser takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from aws_durable_execution_sdk_python.exceptions import InvocationError

from lambda_once import errors
from lambda_once.core.lifecycle import Decision, Record, State
from lambda_once.core.results import NotSerialisable
from lambda_once.engine.replay import Replayed
from lambda_once.errors import OnceError, RetryLater, StoredError, stored_error

if TYPE_CHECKING:
    from lambda_once.engine.engine import Engine
    from lambda_once.engine.invocation import Call
    from lambda_once.policies import OnError

CHECKPOINTED: Final = 96 * 1024
"""Characters of a replayed result that a checkpoint takes; a checkpoint is limited to 256 KB (SDK)."""

Answer = dict[str, Any]


def answer_of_error(error: OnceError) -> Answer:
    """Return *error*; one of the developer's own (`Seal.open`) as the class of ours that it extends."""
    ours = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    known = vars(error)
    return {
        "token": error.token,
        "error": error.kind if isinstance(error, StoredError) else ours.__name__,
        "stored": isinstance(error, StoredError),
        "message": str(error),
        "known": {name: known[name] for name in (*errors.KNOWN, "fields") if name in known},
    }


def answer_of_replay(call: Call, replayed: Replayed) -> Answer:
    """
    Return *replayed* without its result if that is sealed, too large or not to be written again.

    It is read from the table then.
    """
    text = None
    if call.seal is None:
        with suppress(NotSerialisable):  # a codec may return what it does not take
            text = call.plan.codec.dump(replayed.result)
    fits = text is not None and len(json.dumps(text)) <= CHECKPOINTED
    record = replayed.record._replace(stored=None, error=None, resolution=None)
    return {
        "token": call.token,
        "record": {**record._asdict(), "state": record.state.value},
        "text": text if fits else None,
    }


def outcome_of(engine: Engine, call: Call, answer: Answer) -> Replayed:
    """Return the outcome in *answer*, or raise its error."""
    if "error" in answer:
        raise _error(answer, call.plan.on_error)
    record = Record(**{**answer["record"], "state": State(answer["record"]["state"])})
    if answer["text"] is not None:
        return Replayed(call.plan.codec.load(answer["text"]), record)
    try:
        found = engine.store.read(call.token, call.invocation.deadline)
        if found is None or found.write_id != record.write_id or found.attempt_id != record.attempt_id:
            raise engine.replayer.error(call, record, Decision.RESULT_UNAVAILABLE)
        return engine.replayer.replay_or_raise(call, found, Decision.REPLAY)
    except RetryLater as error:  # outside a step it is the invocation that is retried
        raise InvocationError(str(error)) from error


def _error(answer: Answer, on_error: OnError) -> OnceError:
    if answer["stored"]:
        named = on_error if isinstance(on_error, Mapping) else ()
        error: OnceError = stored_error(answer["error"], answer["message"], named=named)
    else:
        error = getattr(errors, answer["error"])(answer["message"])
    vars(error).update(answer["known"])
    return error
