"""`seal=`: results and error messages are encrypted before they are stored."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import HOLD, RELEASE, STORE, Done, Misconfigured, Once
from lambda_once.core.lifecycle import State
from lambda_once.core.results import INLINE_LIMIT, PART_LIMIT, SEALED, Inline, Parts, Unavailable
from lambda_once.engine.invocation import Call
from lambda_once.errors import ResultUnavailable, RetryLater, StoredError
from lambda_once.policies import Policy
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig, in_memory, on_every_store

Pair = tuple[Callable[[bytes, str], bytes], Callable[[bytes, str], bytes]]

NAME = "Ann Private"
SIZES = {"small": 1, "one part": INLINE_LIMIT, "two parts": PART_LIMIT}
"""Of a result, in bytes that do not compress."""


class WrongMark(Exception):
    """Sealed under another key, or for another token."""


def pair() -> Pair:
    """Encrypt and authenticate under a new key, for the token (docs/sealing.md has a real cipher)."""
    key = os.urandom(32)

    def stream(nonce: bytes, data: bytes) -> bytes:
        mask = hashlib.shake_256(key + nonce).digest(len(data))
        return (int.from_bytes(data) ^ int.from_bytes(mask)).to_bytes(len(data))

    def mark(body: bytes, context: str) -> bytes:
        return hmac.digest(key, context.encode() + b"\0" + body, "sha256")

    def encrypt(data: bytes, context: str) -> bytes:
        nonce = os.urandom(16)
        body = nonce + stream(nonce, data)
        return mark(body, context) + body

    def decrypt(sealed: bytes, context: str) -> bytes:
        body = sealed[32:]
        if sealed[:32] != mark(body, context):
            raise WrongMark
        return stream(body[:16], body[16:])

    return encrypt, decrypt


def result_of(size: int) -> dict[str, str]:
    """A result with personal data."""
    return {"name": NAME, "scan": os.urandom(size).hex()}


class Charge:
    """Work under one key, which may raise; how often it ran."""

    def __init__(self, once: Once, result: object = None, error: Exception | None = None) -> None:
        self.ran = 0

        def work(order: str) -> Any:
            self.ran += 1
            if error is not None:
                raise error
            return {"name": NAME} if result is None else result

        work.__annotations__ = {}
        self.call = once.function(key="order", name="charge")(work)


def stored(rig: Rig) -> bytes:
    """Return all bytes that the row and its parts have for an outcome."""
    row = rig.row()
    match row.stored:
        case Parts():
            data = b"".join(rig.store.chunks(row, _deadline(rig)) or ())
        case Inline(bytes() as data):
            pass
        case other:
            data = repr(other).encode()
    return data + repr(row).encode()


def _deadline(rig: Rig) -> Any:
    from lambda_once.core.clock import Deadline

    return Deadline(rig.clock, rig.clock.now().replace(year=2030))


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@on_every_store
def test_a_result_is_stored_sealed(rig: Rig, size: int) -> None:
    """Whatever its size; every duplicate gets it, and the work runs once."""
    result = result_of(size)
    charge = Charge(rig.new(seal=pair()), result)
    assert [charge.call("5"), charge.call("5")] == [result, result]
    assert charge.ran == 1
    data = stored(rig)
    assert data.startswith(SEALED)
    assert NAME.encode() not in data
    assert isinstance(rig.row().stored, Inline if size == 1 else Parts)


@in_memory
def test_twin_a_call_without_its_seal(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing seals, the name is readable in the row."""
    monkeypatch.setattr(Call, "seal", None)
    Charge(rig.new(seal=pair())).call("5")
    assert NAME.encode() in stored(rig)


@pytest.mark.parametrize(
    ("policy", "state"), [(STORE, State.COMPLETE), (HOLD, State.HELD), (RELEASE, State.RELEASED)]
)
def test_the_message_of_an_error_is_stored_sealed(rig: Rig, policy: Policy, state: State) -> None:
    """Its kind stays readable, for operators."""
    charge = Charge(rig.new(seal=pair(), on_error=policy), error=ValueError(NAME))
    with pytest.raises(ValueError, match=NAME):
        charge.call("5")
    row = rig.row()
    assert row.state is state
    assert row.error is not None
    assert (row.error.kind, row.error.message) == ("ValueError", "(sealed)")
    assert NAME.encode() not in stored(rig)


def test_a_stored_error_is_opened(rig: Rig) -> None:
    """A duplicate gets its message."""
    charge = Charge(rig.new(seal=pair(), on_error=STORE), error=ValueError(NAME))
    with pytest.raises(ValueError, match=NAME):
        charge.call("5")
    with pytest.raises(StoredError, match=NAME):
        charge.call("5")
    assert charge.ran == 1


def test_none_is_sealed_too(rig: Rig) -> None:
    """Else a row without a result, which anybody can write, would look like work that returned None."""

    @rig.new(seal=pair()).function(key="order", name="charge")
    def charge(order: str) -> None: ...

    assert charge("5") is charge("5") is None
    assert stored(rig).startswith(SEALED)


# -- what cannot be opened


def _is_unavailable(rig: Rig, charge: Charge, words: str) -> None:
    """A duplicate is refused, its work does not run, and the row stays as it is."""
    before = rig.row()
    with pytest.raises(ResultUnavailable, match=words) as refused:
        charge.call("5")
    assert charge.ran == 0
    assert rig.row() == before
    assert NAME not in str(refused.value)
    assert before.token in str(refused.value)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("seal", [pair(), None], ids=["another key", "no seal"])
def test_what_cannot_be_opened_is_unavailable(rig: Rig, seal: Pair | None, size: int) -> None:
    """With another key, and without any, the error says so; nothing runs again."""
    Charge(rig.new(seal=pair()), result_of(size)).call("5")
    words = "result is unreadable, .*another key" if seal else "result is sealed, and there is no seal="
    _is_unavailable(rig, Charge(rig.new(seal=seal)), words)


@pytest.mark.parametrize("seal", [pair(), None], ids=["another key", "no seal"])
def test_an_error_that_cannot_be_opened_is_unavailable(rig: Rig, seal: Pair | None) -> None:
    """The placeholder in the row is never taken for the message."""
    with pytest.raises(ValueError, match=NAME):
        Charge(rig.new(seal=pair(), on_error=STORE), error=ValueError(NAME)).call("5")
    _is_unavailable(rig, Charge(rig.new(seal=seal, on_error=STORE)), "unreadable" if seal else "is sealed")


@in_memory
@pytest.mark.parametrize(
    "altered", [SEALED, SEALED + b"short", b"\x78\x9c"], ids=["empty", "short", "not sealed"]
)
def test_altered_bytes_are_unavailable(rig: Rig, altered: bytes) -> None:
    """Whatever is in the row is an error of the duplicate, and never runs the work."""
    once = rig.new(seal=pair())
    Charge(once).call("5")
    records = rig.ground.store.records  # type: ignore[attr-defined]
    records[rig.row().token] = rig.row()._replace(stored=Inline(altered))
    _is_unavailable(rig, Charge(once), "unreadable" if altered.startswith(SEALED) else "is unavailable")


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_row_from_before_is_read(rig: Rig, size: int) -> None:
    """A seal may be switched on while rows that were stored without are replayed."""
    result = result_of(size)
    Charge(rig.new(), result).call("5")
    charge = Charge(rig.new(seal=pair()))
    assert (charge.call("5"), charge.ran) == (result, 0)


def test_an_error_from_before_is_read(rig: Rig) -> None:
    """So may rows with errors."""
    with pytest.raises(ValueError, match="no card"):
        Charge(rig.new(on_error=STORE), error=ValueError("no card")).call("5")
    with pytest.raises(StoredError, match="no card"):
        Charge(rig.new(seal=pair(), on_error=STORE)).call("5")


# -- functions that fail


def _raises(_data: bytes, _token: str) -> bytes:
    raise RuntimeError(NAME)


def _text(_data: bytes, _token: str) -> Any:
    return NAME


@pytest.mark.parametrize(
    ("seal", "why"), [(_raises, "seal= raised RuntimeError"), (_text, "seal= returned a str, not bytes")]
)
def test_a_result_that_cannot_be_sealed_is_not_stored(rig: Rig, seal: Any, why: str) -> None:
    """The work is done and is not repeated; nothing is stored unsealed instead."""
    charge = Charge(rig.new(seal=(seal, seal)))
    assert charge.call("5") == {"name": NAME}
    assert rig.row().stored is Unavailable.UNAVAILABLE
    assert NAME.encode() not in stored(rig)
    (reported,) = [each for each in rig.reported if each.event == "once.result_unavailable"]
    assert why in str(reported.reason)
    with pytest.raises(ResultUnavailable):
        charge.call("5")
    assert charge.ran == 1


@pytest.mark.parametrize("seal", [_raises, _text])
def test_a_message_that_cannot_be_sealed_is_not_stored(rig: Rig, seal: Any) -> None:
    """The kind is, with the reason; the caller gets its own error."""
    charge = Charge(rig.new(seal=(seal, seal), on_error=STORE), error=ValueError(NAME))
    with pytest.raises(ValueError, match=NAME):
        charge.call("5")
    error = rig.row().error
    assert error is not None
    assert (error.kind, error.sealed) == ("ValueError", None)
    assert error.message.startswith("message unavailable: seal= r")
    assert NAME not in error.message


def test_an_opener_that_returns_text_is_unavailable(rig: Rig) -> None:
    """It is as good as another key."""
    encrypt, _ = pair()
    once = rig.new(seal=(encrypt, _text))
    Charge(once).call("5")
    _is_unavailable(rig, Charge(once), "opened it as a str, not bytes")


def test_a_key_service_that_does_not_answer(rig: Rig) -> None:
    """The opener may raise RetryLater, which its caller gets: the result is there, later."""

    def later(_sealed: bytes, token: str) -> bytes:
        message = "the key service did not answer; retry later"
        raise RetryLater(message, token=token)

    encrypt, decrypt = pair()
    Charge(rig.new(seal=(encrypt, decrypt))).call("5")
    charge = Charge(rig.new(seal=(encrypt, later)))
    with pytest.raises(RetryLater, match="key service"):
        charge.call("5")
    assert charge.ran == 0
    assert Charge(rig.new(seal=(encrypt, decrypt))).call("5") == {"name": NAME}


# -- every way to finish


def _transacted(rig: Rig, once: Once) -> Callable[[], Any]:
    @once.function(key="order", name="charge")
    def charge(order: str) -> Any:
        return once.current().transact([rig.ground.booking], {"name": NAME})

    return lambda: charge("5")


def _completed(_rig: Rig, once: Once) -> Callable[[], Any]:
    def charge() -> Any:
        with once.begin("5", name="charge") as attempt:
            return attempt.result if attempt.replayed else attempt.complete({"name": NAME})

    return charge


def _probed(rig: Rig, once: Once) -> Callable[[], Any]:
    @once.function(key="order", name="charge", on_lapse=lambda *_: Done({"name": NAME}))
    def charge(order: str) -> Any:
        return None

    with rig.crash():
        charge("5")
    rig.clock.advance(1000)
    return lambda: charge("5")


@pytest.mark.parametrize("way", [_transacted, _completed, _probed])
def test_every_way_to_complete_seals(rig: Rig, way: Callable[[Rig, Once], Callable[[], Any]]) -> None:
    """A transaction, `complete`, and what a probe has found."""
    charge = way(rig, rig.new(seal=pair()))
    assert [charge(), charge()] == [{"name": NAME}] * 2
    assert stored(rig).startswith(SEALED)


@in_memory
def test_what_is_remembered_stays_sealed(rig: Rig) -> None:
    """With `cache=` the outcome is in memory as it is in the row, and opened for each duplicate."""
    opened: list[str] = []
    encrypt, decrypt = pair()

    def noted(sealed: bytes, token: str) -> bytes:
        opened.append(token)
        return decrypt(sealed, token)

    once = rig.new(seal=(encrypt, noted), cache=2)
    charge = Charge(once)
    assert [charge.call("5") for _ in range(3)] == [{"name": NAME}] * 3
    assert (charge.ran, rig.store.acquisitions) == (1, 1)
    assert opened == [f"{rig.row().token}#result"] * 2
    kept = once._runtime.engine.replayer.memory.get(rig.row().token, rig.clock.now())
    assert kept is not None
    assert kept.stored == rig.row().stored


def test_an_async_batch_seals_off_the_loop(rig: Rig) -> None:
    """To seal may ask a key service: the event loop goes on meanwhile."""
    import threading

    loops, sealing = set[int](), set[int]()
    encrypt, decrypt = pair()

    def slow(data: bytes, token: str) -> bytes:
        sealing.add(threading.get_ident())
        return encrypt(data, token)

    @rig.new(seal=(slow, decrypt), on_error=STORE).sqs(key="order", name="charge")
    async def handler(record: Any) -> None:
        loops.add(threading.get_ident())
        raise ValueError(NAME)

    assert handler(sqs_event({"order": "5"}, {"order": "6"}), rig.context()) == {"batchItemFailures": []}
    assert sealing
    assert not loops & sealing
    assert [row.error is not None and row.error.sealed is not None for row in rig.rows()] == [True, True]


def test_a_decorator_may_seal_alone(rig: Rig) -> None:
    """It is a policy: of `Once`, or of one decorator, which may switch it off with None."""
    once = rig.new(seal=pair())

    @once.function(key="order", name="charge", seal=None)
    def charge(order: str) -> str:
        return NAME

    assert charge("5") == NAME
    assert rig.row().stored == Inline(f'"{NAME}"')


async def _asynchronous(data: bytes, token: str) -> bytes:
    return data


@pytest.mark.parametrize(
    ("seal", "words"),
    [
        (_raises, "give a pair of functions"),
        ((_raises,), "give a pair of functions"),
        ((_raises, "key"), "give a pair of functions"),
        ((_raises, _asynchronous), "give two plain defs"),
        ((_raises, lambda sealed: sealed), "both functions must accept two arguments"),
    ],
    ids=["one", "a tuple of one", "text", "async", "no token"],
)
def test_what_is_no_pair_is_refused(seal: Any, words: str) -> None:
    """When `Once` is made, not when the work is done."""
    with pytest.raises(Misconfigured, match=words):
        Once(seal=seal)
