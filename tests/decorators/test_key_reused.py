"""What `KeyReused` tells: which fields of the payload are not those of the first one."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Attempt, KeyMissing, KeyReused
from lambda_once.core.fields import MOST_FIELDS
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.decorators.test_api import KEY, Shop
from tests.sources.samples import batch, eventbridge, rest, sns_event, sqs_record

FIRST = {"id": 1, "amount": 4990, "currency": "EUR", "note": "fragile"}


def _refused(rig: Rig, once: Any, event: object) -> KeyReused:
    with pytest.raises(KeyReused) as caught:
        once(event, rig.context("request-2"))
    return caught.value


@on_every_store
def test_the_fields_that_differ_are_named(rig: Rig) -> None:
    """Changed and new fields by name, missing ones by number: as attribute and in the message."""

    @rig.once.event(key="id")
    def charge(event: dict[str, Any]) -> None: ...

    charge(FIRST, rig.context())
    error = _refused(rig, charge, {"id": 1, "amount": 5990, "currency": "EUR", "tip": 5})
    assert error.fields == ("amount", "tip")
    assert "another payload (different: amount; new: tip; missing: 1)" in str(error)
    assert "5990" not in str(error)
    assert rig.reported[-1].reason == str(error)  # of a batch that goes on, nobody sees the exception
    assert (error.token, error.state) == (rig.row().token, "complete")


def test_a_row_stays_small(rig: Rig) -> None:
    """A payload of a thousand fields leaves 128 bytes on its row, and no name or value."""

    @rig.once.event(key="id")
    def charge(event: dict[str, Any]) -> None: ...

    charge({"id": 1} | {f"field-{n}": "secret" for n in range(1000)}, rig.context())
    fields = rig.row().fields
    assert fields is not None
    assert len(fields) == 4 * MOST_FIELDS
    assert b"secret" not in fields
    assert b"field" not in fields


@pytest.mark.parametrize("options", [{}, {"key": "id", "fingerprint": False}])
def test_no_fields_where_there_is_nothing_to_compare(rig: Rig, options: dict[str, Any]) -> None:
    """Without a fingerprint a row keeps none."""

    @rig.once.event(**options)
    def charge(event: dict[str, Any]) -> None: ...

    charge(FIRST, rig.context())
    assert rig.row().fields is None


def test_a_second_acquisition_keeps_its_own_fields(rig: Rig) -> None:
    """The fields on a row are those of the attempt that has it."""

    @rig.once.event(key="id")
    def charge(event: dict[str, Any]) -> None:
        if event.get("fails"):
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        charge({"id": 1, "amount": 1, "fails": True}, rig.context())
    assert rig.row().state is State.RELEASED
    charge({"id": 1, "amount": 2}, rig.context("request-2"))
    error = _refused(rig, charge, {"id": 1, "amount": 3})
    assert (error.fields, "missing" in str(error)) == (("amount",), False)


@in_memory
def test_what_is_ignored_is_not_named(rig: Rig) -> None:
    """ignore= counts: a field that may differ is no reason."""

    @rig.once.event(key="id", ignore=("sentAt",))
    def charge(event: dict[str, Any]) -> None: ...

    charge(FIRST | {"sentAt": 1}, rig.context())
    assert _refused(rig, charge, FIRST | {"sentAt": 2, "note": ""}).fields == ("note",)


@in_memory
def test_a_narrowed_fingerprint_names_its_fields(rig: Rig) -> None:
    """fingerprint= counts: the fields are those of what it selects."""

    @rig.once.event(key="detail.id", fingerprint="detail")
    def charge(event: dict[str, Any]) -> None: ...

    charge(eventbridge(FIRST), rig.context())
    assert _refused(rig, charge, eventbridge(FIRST | {"note": ""}, time="later")).fields == ("note",)


@in_memory
@pytest.mark.parametrize(
    ("narrowed", "fields"),
    [
        ("note", ("note",)),
        ("address.street", ("address.street",)),
        ("[amount, note, address.street]", ("address.street", "note")),
        ("[note]", ("note",)),
        ("[amount, to_string(note)]", ("[1]",)),
        ("{what: note, how_much: amount}", ("what",)),
        ("tags", ("tags",)),
        ("address", ("street",)),
    ],
)
def test_every_kind_of_fingerprint_names_what_differs(
    rig: Rig, narrowed: str, fields: tuple[str, ...]
) -> None:
    """A scalar or list is called by its expression, the parts of a multi-select by their paths or places."""

    @rig.once.event(key="id", fingerprint=narrowed)
    def charge(event: dict[str, Any]) -> None: ...

    first = FIRST | {"address": {"street": "Elm", "zip": "1"}, "tags": ["a"]}
    charge(first, rig.context())
    later = first | {"address": {"street": "Oak", "zip": "1"}, "tags": ["b"], "note": "none"}
    assert charge(first, rig.context("request-3")) is None
    assert _refused(rig, charge, later).fields == fields


@in_memory
def test_an_event_names_the_fields_of_its_detail(rig: Rig) -> None:
    """What a face has put together is named by its parts, as ignore= would name them."""

    @rig.once.event(key="detail.id")
    def charge(event: dict[str, Any]) -> None: ...

    charge(eventbridge(FIRST), rig.context())
    later = eventbridge(FIRST | {"note": ""}) | {"resources": ["r"]}
    assert _refused(rig, charge, later).fields == ("detail.note", "resources")


@in_memory
def test_a_function_names_its_arguments(rig: Rig) -> None:
    """Arguments are named, and the fields of those that have some."""

    @rig.once.function(key="order.id")
    def charge(order: dict[str, Any], currency: str = "EUR") -> None: ...

    charge(FIRST)
    with pytest.raises(KeyReused) as caught:
        charge(FIRST | {"amount": 0}, "CHF")
    assert caught.value.fields == ("currency", "order.amount")


@in_memory
def test_the_way_out_of_run_is_an_option_of_function(rig: Rig) -> None:
    """once.run has no options: the way out names the decorator that has them, and holds at once there."""
    blue, green = (sqs_record(FIRST, eventSourceARN=f"arn:aws:sqs:e:1:{name}") for name in ("blue", "green"))

    charged = []

    def charge(record: dict[str, Any]) -> None:
        charged.append(record)

    rig.once.run("charge", 1, charge, blue)
    with pytest.raises(
        KeyReused, match=r'ignore=\("@origin",\).*; once.run has no options: use once.function$'
    ):
        rig.once.run("charge", 1, charge, green)

    key = "powertools_json(record.body).id"
    decorated = rig.once.function(name="charge", key=key, ignore=("@origin",))(charge)
    decorated(green)
    decorated(blue)
    assert charged == [blue]


@in_memory
def test_the_scope_of_a_block_is_a_value(rig: Rig) -> None:
    """A block cannot select its scope from the record: the way out is the queue itself."""
    blue, green = (sqs_record(FIRST, eventSourceARN=f"arn:aws:sqs:e:1:{name}") for name in ("blue", "green"))

    def charged(record: dict[str, Any], scope: str | None = None) -> bool:
        with rig.once.begin(1, name="charge", payload=record, scope=scope) as attempt:
            return isinstance(attempt, Attempt)

    assert charged(blue)
    with pytest.raises(
        KeyReused, match=r"if not, a scope= with it; this renames tokens: drain the queue first"
    ):
        charged(green)
    assert [charged(record, record["eventSourceARN"]) for record in (blue, green, green)] == [
        True,
        True,
        False,
    ]


@in_memory
def test_a_function_has_the_options_of_its_way_out(rig: Rig) -> None:
    """once.function itself is told to pass them, and no more."""

    @rig.once.function(key="order.id")
    def charge(order: dict[str, Any]) -> None: ...

    charge(FIRST)
    with pytest.raises(KeyReused, match=r"in ignore=$"):
        charge(FIRST | {"amount": 0})


@pytest.mark.parametrize("key", [None, "", (1, None)])
def test_run_needs_a_whole_key(rig: Rig, key: object) -> None:
    """The error names once.run, not how it passes its key on."""
    with pytest.raises(KeyMissing, match=r"^the key of once.run, or a part of it, is missing"):
        rig.once.run("charge", key, len, [1])


def test_a_batch_tells_the_log(rig: Rig) -> None:
    """In one batch too: the names go where the swallowed error does not, to log and hooks."""

    @rig.once.sqs(key="id")
    def charge(record: SQSRecord) -> None: ...

    amended = FIRST | {"amount": 5990}
    event = batch(sqs_record(FIRST, id_="a"), sqs_record(amended, id_="b"), sqs_record(amended, id_="c"))
    failed = charge(event, rig.context())["batchItemFailures"]
    assert [each["itemIdentifier"] for each in failed] == ["b", "c"]
    (details,) = [details for details in rig.reported if details.event.value == "once.key_reused"]
    assert details.differing == "amount"
    assert details.fields()["differing"] == "amount"


@in_memory
def test_a_notification_names_fields(rig: Rig) -> None:
    """SNS: the fields are those of the message."""

    @rig.once.sns(key="id")
    def charge(record: Any) -> None: ...

    charge(sns_event(json.dumps(FIRST)), rig.context())
    assert _refused(rig, charge, sns_event(json.dumps(FIRST | {"note": ""}))).fields == ("note",)


def test_a_client_is_told_which_fields(rig: Rig) -> None:
    """The 422 names the body's fields as the client sent them, and no value."""
    shop = Shop(rig)
    headers = {KEY: ["k"], "Authorization": ["Bearer a"]}
    shop.ask(rest(json.dumps(FIRST), headers=headers))
    answer = shop.ask(rest(json.dumps(FIRST | {"amount": 5990}), headers=headers))
    assert answer["statusCode"] == 422
    detail = json.loads(answer["body"])["detail"]
    assert detail.endswith("Fields that differ: amount.")
    assert "5990" not in detail


@in_memory
def test_a_row_of_an_earlier_version_names_nothing(rig: Rig) -> None:
    """Where the row has no fields, the error says what it said before."""

    @rig.once.event(key="id", fingerprint="note")
    def charge(event: dict[str, Any]) -> None: ...

    charge(FIRST, rig.context())
    rows: Any = rig.ground.store
    rows.records = {row.token: row._replace(fields=None) for row in rig.rows()}
    error = _refused(rig, charge, FIRST | {"note": "other"})
    assert error.fields == ()
    assert "was used for another payload:" in str(error)


def test_the_error_can_be_pickled() -> None:
    """Its fields travel with it."""
    error = KeyReused("reused", fields=("amount",), token="t")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.fields, copy.token) == ("reused", ("amount",), "t")
    assert KeyReused("reused").fields == ()
