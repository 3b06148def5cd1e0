"""Several effects in one handler: each is a step with a token of its own, inside the handler's token."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import HOLD, STORE, Held, InProgress, KeyReused, Once
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, elsewhere, in_memory
from tests.docs.pages import ROOT
from tests.faults.tables import Layers, made
from tests.kit.strict.mounted import mounted
from tests.kit.wire import Wire
from tests.sources.samples import batch, sqs_record

ORDER = {"orderId": "o-1", "card": "visa"}
PAGE = (ROOT / "docs" / "effects.md").read_text(encoding="utf-8")


class MailDown(Exception):
    """The mail service does not answer."""


class CardDeclined(Exception):
    """A final answer."""


class Shop:
    """A provider that knows its idempotency keys, and a mail service; both count, and fail on demand."""

    def __init__(self) -> None:
        self.charged: list[tuple[str, str]] = []
        """Card and idempotency key of each charge."""
        self.mailed: list[str] = []
        self.refuses: BaseException | None = None
        """What the provider raises once it has charged."""
        self.mail_is_down = False

    def charge(self, once: Once, card: str) -> str:
        key = once.current().downstream_key("charge")
        self.charged.append((card, key))
        if self.refuses is not None:
            raise self.refuses
        return f"ch_{key[:8]}"

    def mail(self, order: str, receipt: str) -> None:
        if self.mail_is_down:
            raise MailDown(order)
        self.mailed.append(receipt)


def checkout(once: Once, shop: Shop, steps: Once | None = None) -> Callable[..., Any]:
    """A handler of two effects, the policies of its steps being those of *steps*."""
    each = steps or once

    def charge(card: str) -> str:
        return shop.charge(each, card)

    @once.event(key="orderId")
    def handler(order: dict[str, Any]) -> str:
        receipt = each.run("charge", order["orderId"], charge, order["card"])
        each.run("mail", order["orderId"], shop.mail, order["orderId"], receipt)
        return receipt

    return handler


# ------------------------------------------------------------------ the outer attempt is retried


def _mail_failed(rig: Rig, shop: Shop, handler: Callable[..., Any]) -> None:
    shop.mail_is_down = True
    with pytest.raises(MailDown):
        elsewhere(handler, ORDER, rig.context())
    shop.mail_is_down = False


def test_a_failed_mail_repeats_no_charge(rig: Rig) -> None:
    """Handler and mail are released, the charge stays complete; the retry mails its receipt."""
    shop = Shop()
    handler = checkout(rig.once, shop)
    _mail_failed(rig, shop, handler)
    assert rig.states() == [State.RELEASED, State.COMPLETE, State.RELEASED]
    for request in ("request-2", "request-3"):
        receipt = elsewhere(handler, ORDER, rig.context(request))
        assert (len(shop.charged), shop.mailed) == (1, [receipt])


@in_memory
def test_twin_without_a_token_of_its_own_the_charge_is_repeated(rig: Rig) -> None:
    """One token for both effects: the retry does both again."""
    shop = Shop()

    @rig.once.event(key="orderId")
    def handler(order: dict[str, Any]) -> str:
        receipt = shop.charge(rig.once, order["card"])
        shop.mail(order["orderId"], receipt)
        return receipt

    _mail_failed(rig, shop, handler)
    elsewhere(handler, ORDER, rig.context("request-2"))
    assert len(shop.charged) == 2
    assert len(set(shop.charged)) == 1  # which the provider folds by its idempotency key


def test_killed_within_a_step_its_lease_ends_with_the_handlers(rig: Rig) -> None:
    """Whoever takes the handler over may take its step over, too: both leases end with the invocation."""
    shop = Shop()
    handler = checkout(rig.once, shop)
    with rig.crash():
        _mail_failed(rig, shop, handler)
    outer, charge, mail = rig.rows()
    assert outer.expected_completion == charge.expected_completion == mail.expected_completion
    with pytest.raises(InProgress):
        elsewhere(handler, ORDER, rig.context("request-2"))
    rig.clock.advance(33)
    elsewhere(handler, ORDER, rig.context("request-3"))
    assert len(shop.charged) == 2
    assert len(set(shop.charged)) == 1  # the step's downstream_key is that of every attempt
    assert rig.states() == [State.COMPLETE] * 3


def test_a_step_that_is_still_in_progress_releases_its_handler(rig: Rig) -> None:
    """Its lease is longer than the handler's: the new attempt gets InProgress, and the next one goes on."""
    shop = Shop()
    handler = checkout(rig.once, shop, rig.new(lease=timedelta(minutes=5)))
    with rig.crash():
        _mail_failed(rig, shop, handler)
    rig.clock.advance(33)
    with pytest.raises(InProgress):
        elsewhere(handler, ORDER, rig.context("request-2"))
    assert rig.states() == [State.RELEASED, State.IN_PROGRESS, State.IN_PROGRESS]
    rig.clock.advance(300)
    elsewhere(handler, ORDER, rig.context("request-3"))
    assert rig.states() == [State.COMPLETE] * 3


# ------------------------------------------------------------------ policies of a step


def test_a_held_step_fails_every_attempt_of_its_handler_until_it_is_resolved(rig: Rig) -> None:
    """The handler is released each time, so one decision, about the step, is enough."""
    shop = Shop()
    handler = checkout(rig.once, shop, rig.new(on_error={TimeoutError: HOLD}))
    shop.refuses = TimeoutError("no answer")
    with pytest.raises(TimeoutError):
        elsewhere(handler, ORDER, rig.context())
    with pytest.raises(Held):
        elsewhere(handler, ORDER, rig.context("request-2"))
    assert rig.states() == [State.RELEASED, State.HELD]
    assert len(shop.charged) == 1


@pytest.mark.parametrize("outer", [{}, {"on_error": {CardDeclined: STORE}}], ids=["released", "stored"])
def test_a_stored_error_of_a_step_needs_the_handlers_policy_to_end_it(rig: Rig, outer: Any) -> None:
    """Every attempt gets the same error without a second charge; the handler's own policy makes it final."""
    shop = Shop()
    shop.refuses = CardDeclined("no money")
    handler = checkout(rig.new(**outer), shop, rig.new(on_error={CardDeclined: STORE}))
    for request in ("request-1", "request-2"):
        with pytest.raises(CardDeclined):
            elsewhere(handler, ORDER, rig.context(request))
    assert len(shop.charged) == 1
    assert rig.states() == [State.COMPLETE if outer else State.RELEASED, State.COMPLETE]


# ------------------------------------------------------------------ keys and names


@in_memory
def test_a_step_is_its_function_and_key_whoever_calls_it(rig: Rig) -> None:
    """Two handlers that call one function with one key share the effect; another key is another effect."""
    mailed: list[str] = []

    def mail(to: str) -> None:
        mailed.append(to)

    @rig.once.event(key="id")
    def first(event: dict[str, str]) -> None:
        rig.once.run("mail", event["id"], mail, "ann")

    @rig.once.event(key="id")
    def second(event: dict[str, str]) -> None:
        rig.once.run("mail", event["id"], mail, "ann")
        rig.once.run("mail", f"{event['id']}/copy", mail, "bob")

    first({"id": "o-1"}, rig.context())
    second({"id": "o-1"}, rig.context("request-2"))
    assert mailed == ["ann", "bob"]


@in_memory
def test_the_same_key_with_other_arguments_is_no_second_step(rig: Rig) -> None:
    """Two mails of one order under one key: the second is KeyReused, never silently left out."""
    mailed: list[str] = []

    @rig.once.event(key="id")
    def handler(event: dict[str, str]) -> None:
        for to in ("ann", "bob"):
            rig.once.run("mail", event["id"], mailed.append, to)

    def mail_both() -> None:
        handler({"id": "o-1"}, rig.context())

    with pytest.raises(KeyReused):
        mail_both()
    assert mailed == ["ann"]


@in_memory
def test_the_handlers_scope_is_not_its_steps(rig: Rig) -> None:
    """A tenant that keeps handlers apart has to be in the step's key or scope, too."""
    charged: list[str] = []

    @rig.once.function(key="order", scope="tenant")
    def charge(tenant: str, order: str) -> None:
        charged.append(tenant)

    @rig.once.event(key="order", scope="tenant")
    def handler(event: dict[str, str]) -> None:
        charge(event["tenant"], event["order"])

    for tenant in ("acme", "emca"):
        handler({"tenant": tenant, "order": "7"}, rig.context())
    assert charged == ["acme", "emca"]


# ------------------------------------------------------------------ what it costs, on the wire

WRITE, BATCH, TRANSACTION = "UpdateItem", "BatchExecuteStatement", "TransactWriteItems"


@pytest.fixture
def wire() -> Iterator[Wire]:
    """A wire to an account of the strict engine."""
    with mounted():
        yield Wire()


@pytest.fixture
def layers(wire: Wire) -> Layers:
    """A table at its other end."""
    return made(wire.client)


def _costs(form: str) -> list[str]:
    """The cells of *form*'s row in the page's table of round trips."""
    (row,) = re.findall(rf"^\| {re.escape(form)} \|(.+)\|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


def _measured(wire: Wire, layers: Layers, shop: Shop, handler: Callable[..., Any]) -> list[str]:
    """Round trips of a new order, of its duplicate, and of one whose mail fails and is then retried."""

    def call(order: str, request: str) -> list[str]:
        return wire.of(lambda: handler({"orderId": order, "card": "visa"}, layers.context(request)))

    def failing() -> None:
        with pytest.raises(MailDown):
            handler({"orderId": "o-2", "card": "visa"}, layers.context("request-3"))

    new, duplicate = call("o-1", "request-1"), call("o-1", "request-2")
    shop.mail_is_down = True
    failed = wire.of(failing)
    shop.mail_is_down = False
    retried = call("o-2", "request-4")
    return [str(len(sent)) for sent in (new, duplicate, failed, retried)]


def test_what_nested_steps_cost(layers: Layers, wire: Wire) -> None:
    """Two for the handler and two for each step that runs; one for each that is replayed."""
    shop = Shop()
    assert _measured(wire, layers, shop, checkout(layers.once(), shop)) == _costs(
        "`once.run` for each effect"
    )
    assert len(shop.charged) == 2


def test_what_one_token_costs(layers: Layers, wire: Wire) -> None:
    """The retry asks the provider again, by the same idempotency key."""
    shop, once = Shop(), layers.once()

    @once.event(key="orderId")
    def handler(order: dict[str, Any]) -> None:
        shop.mail(order["orderId"], shop.charge(once, order["card"]))

    assert _measured(wire, layers, shop, handler) == _costs("one token, `downstream_key`")
    assert len(shop.charged) == 3
    assert len(set(shop.charged)) == 2


def test_what_a_transaction_costs(layers: Layers, wire: Wire) -> None:
    """The mail is an item that a stream's function sends: it cannot fail here."""
    once = layers.once()

    @once.event(key="orderId")
    def handler(order: dict[str, Any]) -> Any:
        mail = {"Put": {"TableName": "powertools", "Item": {"id": {"S": order["orderId"]}}}}
        return once.current().transact([mail], "ch_1")

    new, duplicate, *_ = _costs("`transact`")
    assert wire.of(lambda: handler(ORDER, layers.context())) == [WRITE, TRANSACTION]
    assert wire.of(lambda: handler(ORDER, layers.context("request-2"))) == [WRITE]
    assert [new, duplicate] == ["2", "1"]


def test_what_steps_of_a_batch_cost(layers: Layers, wire: Wire) -> None:
    """Ten records: the handler's tokens travel together, each step alone."""
    shop, once = Shop(), layers.once()

    def charge(card: str) -> str:
        return shop.charge(once, card)

    @once.sqs(key="orderId")
    def handler(record: SQSRecord) -> None:
        order = record.json_body
        receipt = once.run("charge", order["orderId"], charge, order["card"])
        once.run("mail", order["orderId"], shop.mail, order["orderId"], receipt)

    bodies = [f'{{"orderId": "o-{n}", "card": "visa"}}' for n in range(10)]
    assert set(wire.of(lambda: handler(batch(*map(sqs_record, bodies)), layers.context()))) == {WRITE, BATCH}
    written = [body["Key"]["lockToken"]["S"] for body in wire.bodies if "Key" in body]
    assert len([token for token in written if "handler" not in token]) == 40
    assert len(shop.mailed) == 10
    assert "ten records with two steps each send 40 single writes" in PAGE

    shop.mail_is_down = True
    others = [body.replace("o-", "p-") for body in bodies]
    with pytest.raises(BatchProcessingError):
        handler(batch(*map(sqs_record, others)), layers.context("request-2"))
    shop.mail_is_down = False
    handler(batch(*map(sqs_record, others)), layers.context("request-3"))
    assert len(shop.charged) == len(shop.mailed) == 20
