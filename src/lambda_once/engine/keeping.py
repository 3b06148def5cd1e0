"""In what form an outcome is kept, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from lambda_once.core.clock import epoch_seconds
from lambda_once.core.lifecycle import OnLapse
from lambda_once.core.results import Chunks, Corrupt, Inline, NotSerialisable, Unavailable, pack
from lambda_once.core.writes import Complete, Extend, Hold, Pin, Release

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.codec import Codec
    from lambda_once.core.writes import Change
    from lambda_once.engine.call import Call


class Kept(NamedTuple):
    """A result as it is stored and as it will come back, or the problem with it."""

    stored: Inline | Chunks | Unavailable | None
    value: Any
    problem: str | None = None


def kept(codec: Codec, value: Any) -> Kept:
    """
    Bring *value* into its stored form.

    Never raises: work that was done is never done again because its result cannot be kept (guarantee 5).
    """
    try:
        text = codec.dump(value)
        return Kept(pack(text), codec.load(text))
    except (NotSerialisable, Corrupt) as error:
        return Kept(Unavailable(), value, str(error))


def ttl_after(change: Change, call: Call, now: datetime) -> int | None:
    """
    Return the row's ttl after *change*: none where it waits for a person or may have to (guarantee 6).

    An unfinished row lives for its lease and keep: deleted near its lease it would let the fence fall.
    """
    match change:
        case Complete() | Release():
            return epoch_seconds(now + call.plan.keep)
        case Extend(lease):
            return epoch_seconds(lease + call.plan.keep) if call.plan.on_lapse is OnLapse.TAKE_OVER else None
        case Hold() | Pin():
            return None
        case _ as unreachable:
            assert_never(unreachable)
