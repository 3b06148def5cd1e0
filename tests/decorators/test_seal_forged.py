"""
Rows altered by somebody who may write to the table, but has no key: duplicates are refused, nothing runs.

Rows are altered by the client of DynamoDB, under functions that authenticate and leave the context out: what
binds a seal to its place is in what is sealed.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lambda_once import STORE, Misconfigured, Once
from lambda_once.core import results
from lambda_once.core.results import SEALED
from lambda_once.errors import ResultUnavailable
from lambda_once.policies import Policy
from lambda_once.testing import sqs_event
from tests.decorators.rig import ENGINE, STRICT, Rig

Pair = tuple[Callable[[bytes, str], bytes], Callable[[bytes, str], bytes]]

here_and_on_the_engine = pytest.mark.parametrize(
    "rig", [STRICT, pytest.param(ENGINE, marks=pytest.mark.engine)], indirect=True
)
LARGE = 700_000
"""Random bytes of a result that is sealed in three parts."""


def pair() -> Pair:
    """Encrypt and authenticate under a new key, whatever the context."""
    key = AESGCM(os.urandom(32))

    def encrypt(data: bytes, _context: str) -> bytes:
        nonce = os.urandom(12)
        return nonce + key.encrypt(nonce, data, None)

    return encrypt, lambda sealed, _context: key.decrypt(sealed[:12], sealed[12:], None)


@dataclass
class Forger:
    """Work of three orders under a seal, and the rows of its table, which he may write."""

    rig: Rig
    seal: Pair = field(default_factory=pair)
    required: bool = True
    ran: list[str] = field(default_factory=list)

    def works(self, order: str, returns: object = None, raises: Exception | None = None) -> Any:
        """Ask for the work of *order*, by a new function: it runs unless its token is finished."""
        once = self.rig.new(seal=self.seal, seal_required=self.required, on_error=STORE)

        @once.function(key="order", name="charge")
        def charge(order: str) -> Any:
            self.ran.append(order)
            if raises is not None:
                raise raises
            return returns

        return charge(order)

    def fails(self, order: str, message: str) -> None:
        """Let the work of *order* fail for good."""
        with suppress(ValueError):
            self.works(order, raises=ValueError(message))

    @property
    def _client(self) -> Any:
        return self.rig.ground._client  # type: ignore[attr-defined]

    @property
    def items(self) -> dict[str, dict[str, Any]]:
        """All items of the table, by their keys."""
        return {item["lockToken"]["S"]: item for item in self.rig.ground._items()}  # type: ignore[attr-defined]

    def row(self, order: str) -> dict[str, Any]:
        return self.items[f"shop/charge/{order}"]

    def parts(self, order: str) -> list[dict[str, Any]]:
        found = [key for key in self.items if key.startswith(f"shop/charge/{order}#")]
        return [self.items[key] for key in sorted(found)]

    def put(self, item: dict[str, Any]) -> None:
        self._client.put_item(TableName=self.rig.ground._name, Item=item)  # type: ignore[attr-defined]

    def delete(self, item: dict[str, Any]) -> None:
        key = {"lockToken": item["lockToken"]}
        self._client.delete_item(TableName=self.rig.ground._name, Key=key)  # type: ignore[attr-defined]

    def alter(self, order: str, **attributes: Any) -> None:
        """Replace attributes of a row; None removes one."""
        changed = self.row(order) | attributes
        self.put({name: value for name, value in changed.items() if value is not None})

    def move_result(self, source: str, target: str) -> None:
        """Give the row *target* what the row *source* has, in the row or in parts."""
        outcome = {name: self.row(source).get(name) for name in ("result", "parts", "error")}
        theirs, ours = self.parts(source), self.parts(target)
        for part, place in zip(theirs, ours, strict=True):
            self.put(place | {"data": part["data"]})
        self.alter(target, **outcome)

    def is_refused(self, order: str, words: str) -> None:
        """A duplicate of *order* gets an error without any of the data, which is logged; nothing runs."""
        before, ran = self.items, len(self.ran)
        with pytest.raises(ResultUnavailable, match=words) as refused:
            self.works(order, returns="again")
        assert "EVIL" not in str(refused.value)
        assert (self.items, len(self.ran)) == (before, ran)
        (reason,) = [each.reason for each in self.rig.reported if each.event == "once.result_unavailable"]
        assert re.search(words, str(reason))
        assert "EVIL" not in str(reason)
        self.rig.reported.clear()


@pytest.fixture
def forger(rig: Rig) -> Forger:
    """A forger who has no key."""
    return Forger(rig)


def unbound(patch: pytest.MonkeyPatch) -> None:
    """Seal without the digest of the context, for a twin."""
    patch.setattr(results, "_digest", lambda _context: b"")


def sealed_error(kind: str, sealed: dict[str, Any]) -> dict[str, Any]:
    """Return the attribute of an error whose message is sealed."""
    return {"M": {"kind": {"S": kind}, "message": {"S": "(sealed)"}, "sealed": sealed}}


ELSEWHERE = "it was sealed as something else"
NO_KEY = "its seal cannot be opened"
PLAIN = "is not sealed, which seal_required=True refuses"


# -- moved


def _swapped(forger: Forger) -> str:
    forger.works("5", returns="of 5")
    forger.works("6", returns="of 6")
    five = forger.row("5")["result"]
    forger.move_result("6", "5")
    forger.alter("6", result=five)
    return "of 6"


def _swapped_in_parts(forger: Forger) -> str:
    for order in "56":
        forger.works(order, returns=order + os.urandom(LARGE).hex())
    forger.move_result("6", "5")
    return "6"


def _error_of_another(forger: Forger) -> str:
    forger.fails("5", "of 5")
    forger.fails("6", "of 6")
    forger.move_result("6", "5")
    return "of 6"


def _result_as_error(forger: Forger) -> str:
    forger.works("5", returns="paid")
    forger.alter("5", result=None, error=sealed_error("ValueError", forger.row("5")["result"]))
    return ""


def _error_as_result(forger: Forger) -> str:
    # What the client put into the message is a zlib stream of JSON; here the test writes that itself.
    forger.fails("5", "no such order")
    message = forger.seal[0](zlib.compress(b'"EVIL"'), "")
    forger.alter("5", error=None, result={"B": SEALED + message})
    return "EVIL"


def _of_another_kind(forger: Forger) -> str:
    forger.fails("5", "no such order")
    forger.alter("5", error=sealed_error("AlreadyPaid", forger.row("5")["error"]["M"]["sealed"]))
    return "no such order"


MOVES = [_swapped, _swapped_in_parts, _error_of_another, _result_as_error, _error_as_result, _of_another_kind]


@here_and_on_the_engine
@pytest.mark.parametrize("move", MOVES)
def test_what_was_sealed_elsewhere_is_refused(forger: Forger, move: Callable[[Forger], str]) -> None:
    """Another token's result or error, in the row or in parts; a result as an error, and back."""
    move(forger)
    forger.is_refused("5", ELSEWHERE)
    if "6" in forger.ran and "result" in forger.row("6"):
        forger.is_refused("6", ELSEWHERE)


@pytest.mark.parametrize("move", MOVES)
def test_twin_without_the_binding(
    forger: Forger, move: Callable[[Forger], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A duplicate gets what was moved: the functions alone bind nothing."""
    unbound(monkeypatch)
    expected = move(forger)
    try:
        found = forger.works("5")
    except ResultUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  (the stored error)
        found = str(error)
    assert expected in found
    assert len(forger.ran) <= 2


# -- altered


@here_and_on_the_engine
@pytest.mark.parametrize("length", [0, 1, len(SEALED), len(SEALED) + 1, len(SEALED) + 40, -1])
def test_a_truncated_seal_is_refused(forger: Forger, length: int) -> None:
    """Wherever it is cut; without its mark it is no seal at all."""
    forger.works("5", returns="paid")
    forger.alter("5", result={"B": bytes(forger.row("5")["result"]["B"])[:length]})
    forger.is_refused("5", PLAIN if 0 <= length < len(SEALED) else NO_KEY)


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_refused(forger: Forger, bit: int) -> None:
    """In each byte, the mark included."""
    forger.works("5", returns="paid")
    sealed = bytes(forger.row("5")["result"]["B"])
    for at in range(bit, len(sealed), 8):
        flipped = sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :]
        forger.alter("5", result={"B": flipped})
        forger.is_refused("5", PLAIN if at < len(SEALED) else NO_KEY)


@here_and_on_the_engine
def test_a_seal_under_another_key_is_refused(forger: Forger) -> None:
    """Of this very token: another service, which has a seal of its own, wrote to the row."""
    theirs = Forger(forger.rig)
    theirs.works("5", returns="EVIL")
    planted = theirs.row("5")
    forger.delete(planted)
    forger.works("5", returns="paid")
    forger.alter("5", result=planted["result"])
    forger.is_refused("5", NO_KEY)


# -- planted


def _text(forger: Forger) -> object:
    forger.alter("5", result={"S": '"EVIL"'})
    return "EVIL"


def _compressed(forger: Forger) -> object:
    forger.alter("5", result={"B": zlib.compress(b'"EVIL"')})
    return "EVIL"


def _in_parts(forger: Forger) -> object:
    row = forger.row("5")
    key = "#".join(row[name]["S"] for name in ("lockToken", "attempt", "write"))
    forger.put({"lockToken": {"S": f"{key}#0"}, "data": {"B": zlib.compress(b'"EVIL"')}})
    forger.alter("5", result=None, parts={"N": "1"})
    return "EVIL"


def _nothing(forger: Forger) -> object:
    forger.alter("5", result=None)
    return None


def _error(forger: Forger) -> object:
    forger.alter("5", result=None, error={"M": {"kind": {"S": "Paid"}, "message": {"S": "EVIL"}}})
    return "EVIL"


PLANTS = [_text, _compressed, _in_parts, _nothing, _error]


@here_and_on_the_engine
@pytest.mark.parametrize("plant", PLANTS)
def test_plain_text_is_refused(forger: Forger, plant: Callable[[Forger], object]) -> None:
    """A result, also in parts, that there was none, and an error."""
    forger.works("5", returns="paid")
    plant(forger)
    forger.is_refused("5", PLAIN)


@pytest.mark.parametrize("plant", PLANTS)
def test_twin_that_does_not_require_a_seal(forger: Forger, plant: Callable[[Forger], object]) -> None:
    """Without seal_required=True a duplicate gets it: so may a row from before seal=."""
    forger.works("5", returns="paid")
    planted, forger.required = plant(forger), False
    try:
        found = forger.works("5")
    except Exception as error:  # noqa: BLE001  (the stored error)
        found = str(error)
    assert found == planted
    assert forger.ran == ["5"]


@here_and_on_the_engine
def test_a_whole_row_that_was_planted_is_refused(forger: Forger) -> None:
    """Of an order that never ran: it does not run, either, and nobody gets an answer from it."""
    forger.works("6", returns="paid")
    planted = forger.row("6") | {"lockToken": {"S": "shop/charge/5"}, "result": {"S": '"EVIL"'}}
    del planted["fingerprint"]
    forger.put(planted)
    forger.is_refused("5", PLAIN)


# -- parts


def _large(forger: Forger, *orders: str) -> list[dict[str, Any]]:
    for order in orders:
        forger.works(order, returns=os.urandom(LARGE).hex())
    parts = forger.parts(orders[0])
    assert len(parts) == 3
    return parts


def _part_swapped(forger: Forger) -> None:
    _, second, third = _large(forger, "5")
    forger.put(second | {"data": third["data"]})
    forger.put(third | {"data": second["data"]})


def _part_of_another_token(forger: Forger) -> None:
    first = _large(forger, "5", "6")[0]
    forger.put(first | {"data": forger.parts("6")[0]["data"]})


def _part_dropped(forger: Forger) -> None:
    forger.delete(_large(forger, "5")[1])


def _last_part_not_counted(forger: Forger) -> None:
    _large(forger, "5")
    forger.alter("5", parts={"N": "2"})


def _part_truncated(forger: Forger) -> None:
    last = _large(forger, "5")[2]
    forger.put(last | {"data": {"B": bytes(last["data"]["B"])[:-1]}})


def _part_of_another_attempt(forger: Forger) -> None:
    earlier = _large(forger, "5")
    for part in earlier:
        forger.delete(part)
    forger.rig.clock.advance(15 * 86_400)  # the outcome has expired: the work is done again
    first = _large(forger, "5")[0]
    assert first["lockToken"] != earlier[0]["lockToken"]
    forger.put(first | {"data": earlier[0]["data"]})


@here_and_on_the_engine
@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (_part_swapped, NO_KEY),
        (_part_of_another_token, NO_KEY),
        (_part_dropped, "a part of the stored result is missing"),
        (_last_part_not_counted, NO_KEY),
        (_part_truncated, NO_KEY),
        (_part_of_another_attempt, NO_KEY),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(
    forger: Forger, tamper: Callable[[Forger], None], words: str
) -> None:
    """They are one sealed text: none of them can be taken from elsewhere, left out, or put elsewhere."""
    tamper(forger)
    forger.is_refused("5", words)


# -- what no seal refuses


def test_an_earlier_outcome_of_the_token_is_opened(forger: Forger) -> None:
    """Who kept a whole row can put it back: nothing in the table knows that it is old."""
    forger.works("5", returns="first")
    earlier = forger.row("5")
    forger.rig.clock.advance(15 * 86_400)
    assert forger.works("5", returns="second") == "second"
    forger.put(earlier | {"ttl": forger.row("5")["ttl"]})
    assert forger.works("5") == "first"


def test_a_cipher_that_does_not_authenticate_binds_nothing(forger: Forger) -> None:
    """The digest is no secret: where flipped bits open, who moves a seal can also move its digest."""

    def stream(data: bytes, _context: str) -> bytes:
        return bytes(each ^ 90 for each in data)

    forger.seal = (stream, stream)
    forger.works("5", returns="of 5")
    forger.works("6", returns="of 6")
    forger.move_result("6", "5")
    forger.is_refused("5", ELSEWHERE)
    sealed = bytes(forger.row("6")["result"]["B"]).removeprefix(SEALED)
    ours, theirs = (results._digest(f"shop/charge/{order}#result") for order in "56")
    digest = bytes(a ^ b ^ c for a, b, c in zip(sealed, ours, theirs, strict=False))
    forger.alter("5", result={"B": SEALED + digest + sealed[len(ours) :]})
    assert forger.works("5") == "of 6"


def test_twin_a_cipher_that_opens_altered_bytes(forger: Forger) -> None:
    """A flipped bit is another message: the cipher alone refuses it."""

    def stream(data: bytes, _context: str) -> bytes:
        return bytes(each ^ 90 for each in data)

    forger.seal = (stream, stream)
    forger.fails("5", "declined: owes 100")
    sealed = bytes(forger.row("5")["error"]["M"]["sealed"]["B"])
    altered = sealed[:-3] + bytes([sealed[-3] ^ ord("1") ^ ord("9")]) + sealed[-2:]
    forger.alter("5", error=sealed_error("ValueError", {"B": altered}))
    with pytest.raises(Exception, match="owes 900"):
        forger.works("5")


# -- faces


@pytest.mark.parametrize("policy", [STORE, {ValueError: STORE}])
def test_the_context_has_token_and_kind(rig: Rig, policy: Policy | dict[type[Exception], Policy]) -> None:
    """Both functions get the same one, for encryption context or associated data."""
    encrypt, decrypt = pair()
    seen: list[tuple[str, str]] = []

    def noted(function: Callable[[bytes, str], bytes]) -> Callable[[bytes, str], bytes]:
        def called(data: bytes, context: str) -> bytes:
            seen.append(("encrypt" if function is encrypt else "decrypt", context))
            return function(data, context)

        return called

    forger = Forger(rig, (noted(encrypt), noted(decrypt)))
    forger.works("5", returns="paid")
    forger.works("5")
    forger.fails("6", "declined")
    with pytest.raises(Exception, match="declined"):
        forger.works("6")
    contexts = "shop/charge/5#result", "shop/charge/6#error:ValueError"
    opened = [context for name, context in seen if name == "decrypt"]
    assert list(dict.fromkeys(context for _, context in seen)) == list(contexts)
    assert set(opened) == set(contexts)


def test_a_batch_whose_row_was_planted(rig: Rig) -> None:
    """The record does not run, and counts as finished: it would be refused for ever."""
    ran: list[Any] = []

    @rig.new(seal=pair(), seal_required=True).sqs(key="order", name="charge")
    def handler(record: Any) -> None:
        ran.append(record.json_body["order"])

    forger = Forger(rig)
    handler(sqs_event({"order": "5"}), rig.context())
    forger.alter("5", result={"S": '"EVIL"'})
    assert handler(sqs_event({"order": "5"}), rig.context()) == {"batchItemFailures": []}
    assert ran == ["5"]
    assert rig.events()[-1] == "once.refused"


# -- the option


def _function(once: Once, **options: Any) -> object:
    return once.function(key="order", name="charge", **options)(lambda order: order)


def test_required_without_a_seal_is_a_mistake(rig: Rig) -> None:
    """When it is decorated: `Once` may require a seal that each decorator gives."""
    once, sealing = rig.new(seal_required=True), rig.new(seal_required=True, seal=pair())
    words = "seal_required=True without seal="
    with pytest.raises(Misconfigured, match=words):
        _function(once)
    with pytest.raises(Misconfigured, match=words):
        _function(sealing, seal=None)
    with pytest.raises(Misconfigured, match=words):
        _function(rig.once, seal_required=True)
    with pytest.raises(Misconfigured, match=words):
        once.outcome("5", name="charge")
    _function(once, seal=pair())
    _function(sealing)
    _function(sealing, seal=None, seal_required=False)
    with pytest.raises(Misconfigured, match="give True or False"):
        rig.new(seal_required="yes")
