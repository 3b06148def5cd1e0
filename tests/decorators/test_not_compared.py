"""What has no canonical form, or raises: the rest of a payload is compared, and a line says what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, Field, HttpUrl, SecretStr, computed_field, create_model, model_serializer

from lambda_once import KeyMissing, KeyReused, Misconfigured
from lambda_once.decorators.identify import Identifier
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig, in_memory

pytestmark = in_memory


class Opaque:
    """A connection: nothing says when two are equal."""

    def __repr__(self) -> str:
        raise AssertionError("a value is never written")

    def __eq__(self, _other: object) -> bool:
        raise AssertionError("nor compared")

    __hash__ = object.__hash__


class Webhook(BaseModel):
    order_id: int
    cents: int
    callback: HttpUrl = HttpUrl("https://a.example/x")
    address: IPv4Address = IPv4Address("10.0.0.1")
    folder: Path = Path("/invoices")


class Card(BaseModel):
    number: SecretStr
    cents: int


class Priced(BaseModel):
    cents: int

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def total(self) -> int:
        raise ZeroDivisionError


class Connected(BaseModel):
    cents: int
    connection: object = Field(exclude=True)


class Unwritable(BaseModel):
    cents: int

    @model_serializer
    def refuse(self) -> dict[str, int]:
        raise LookupError


@dataclass
class Held:
    cents: int
    connection: object = field(default_factory=Opaque)


@dataclass
class Paid:
    cents: int
    total: int = field(init=False)

    def __getattribute__(self, name: str) -> Any:
        return 1 / 0 if name == "total" else super().__getattribute__(name)


class Deferred(Enum):
    ONE = 1

    @property
    def value(self) -> int:
        raise LookupError


@dataclass(frozen=True)
class Tag:
    inner: object


class Broken:
    """Powertools' shape of a data class, with an event that cannot be read."""

    @property
    def raw_event(self) -> object:
        raise LookupError


def looped(cents: int) -> dict[str, object]:
    """Return an object that contains itself."""
    found: dict[str, object] = {"cents": cents}
    found["self"] = found
    return found


def deep(cents: int) -> dict[str, object]:
    """Return an object with a list too deep for the encoder."""
    found: list[object] = []
    for _ in range(200_000):
        found = [found]
    return {"cents": cents, "deep": found}


def noted(rig: Rig) -> list[str]:
    """Return the parts that the log names, with their kinds."""
    lines = [each for each in rig.reported if each.event.value == "once.not_compared"]
    return [str(line.reason).partition(" has no canonical form")[0] for line in lines]


ODD: dict[str, tuple[Callable[[int], object], list[str]]] = {
    "beside": (lambda cents: [cents, Opaque()], ["order: a {here}.Opaque"]),
    "a list": (lambda cents: {"cents": cents, "x": [1, {"y": Opaque()}]}, ["order.x.y: a {here}.Opaque"]),
    "a dataclass": (Held, ["order.connection: a {here}.Opaque"]),
    "a secret": (
        lambda cents: Card(number=SecretStr("4111"), cents=cents),
        ["order.number: a pydantic.types.SecretStr"],
    ),
    "a name": (
        lambda cents: {"x": {Opaque(): cents}},
        ["order.x.a {here}.Opaque: the name, a {here}.Opaque,"],
    ),
    "two names": (
        lambda cents: {"x": {Tag(Opaque()): cents, Tag(Opaque()): 2}},
        ["order.x.a {here}.Tag: the name, a {here}.Tag,"],
    ),
    "a set": (lambda cents: {"cents": cents, "x": {Tag(Opaque())}}, ["order.x.inner: a {here}.Opaque"]),
    "a property": (Paid, ["order.total: what raises ZeroDivisionError"]),
    "an excluded field": (
        lambda cents: Connected(cents=cents, connection=Opaque()),
        ["order.connection: a {here}.Opaque"],
    ),
    "an enum": (lambda cents: {"cents": cents, "x": Deferred.ONE}, ["order.x: what raises LookupError"]),
    "a raw event": (lambda cents: {"cents": cents, "x": Broken()}, ["order.x: what raises LookupError"]),
    "a cycle": (looped, ["order.self: a builtins.dict that contains itself or is nested too deeply"]),
    "a depth": (deep, ["order.deep: a builtins.list that contains itself or is nested too deeply"]),
    "a time": (
        lambda cents: [cents, datetime.min.replace(tzinfo=ZoneInfo("Asia/Tokyo"))],
        ["order: a datetime.datetime"],
    ),
}


def _charge(id_: str, order: object) -> None: ...


def _of_order(order: object) -> None: ...


def _of_instant(at: datetime) -> None: ...


def _paid(id_: str, cents: int, session: object) -> int:
    return cents


def plain(rig: Rig, order: object) -> None:
    """A protected function."""
    rig.once.function(name="charge", key="id_")(_charge)("1", order)


def awaited(rig: Rig, order: object) -> None:
    """A protected coroutine function."""

    async def work(id_: str, order: object) -> None: ...

    asyncio.run(rig.once.function(name="charge", key="id_")(work)("1", order))


def method(rig: Rig, order: object) -> None:
    """A method, whose object never counts."""

    class Shop:
        @rig.once.function(name="charge", key="id_")
        def charge(self, id_: str, order: object) -> None: ...

    Shop().charge("1", order)


def called(rig: Rig, order: object) -> None:
    """`once.run`."""
    rig.once.run("charge", "1", _of_order, order)


def begun(rig: Rig, order: object) -> None:
    """`once.begin`."""
    with rig.once.begin("1", name="charge", payload={"order": order}):
        pass


def chosen(rig: Rig, order: object) -> None:
    """A fingerprint of its own."""
    select = rig.once.function(name="charge", key="id_", fingerprint="{order: order, id: id_}")
    select(_charge)("1", order)


@pytest.mark.parametrize("door", [plain, awaited, method, called, begun, chosen])
@pytest.mark.parametrize("odd", ODD)
def test_the_rest_is_compared(rig: Rig, odd: str, door: Callable[[Rig, object], None]) -> None:
    """An equal payload is a duplicate and another one KeyReused, however odd a part is; one line names it."""
    make, lines = ODD[odd]
    expected = [line.format(here=__name__) for line in lines]
    door(rig, make(100))
    door(rig, make(100))
    with pytest.raises(KeyReused):
        door(rig, make(999))
    assert len(rig.rows()) == 1
    if door is not chosen:  # an expression sees the plain form, which names no set and no property
        assert noted(rig) == expected
    assert noted(rig) or (door is chosen and odd == "an excluded field")  # which it does not see


@pytest.mark.parametrize("door", [plain, awaited, method, called, begun, chosen])
@pytest.mark.parametrize("kind", [Priced, Unwritable])
def test_a_model_is_compared_by_its_fields(
    rig: Rig, kind: type[Priced | Unwritable], door: Callable[[Rig, object], None]
) -> None:
    """What a computed field or a serialiser raises is no matter: neither counts."""
    door(rig, kind(cents=100))
    door(rig, kind(cents=100))
    with pytest.raises(KeyReused):
        door(rig, kind(cents=999))
    assert door is chosen or noted(rig) == []


def test_an_event_that_cannot_be_read_is_no_error_of_the_caller(rig: Rig) -> None:
    """An argument of Powertools' shape whose event raises counts as null, beside a sum that is compared."""
    protected = rig.once.function(name="charge", key="id_")(_paid)
    assert protected("1", 100, Broken()) == protected("1", 100, Broken()) == 100
    with pytest.raises(KeyReused):
        protected("1", 999, Broken())
    assert noted(rig) == ["session: what raises LookupError"]


class Detailed(BaseModel):
    """A model with a field of EventBridge's events, which cannot be written."""

    detail: int

    @model_serializer
    def refuse(self) -> dict[str, int]:
        raise LookupError


def test_a_model_that_looks_like_an_event_is_compared_by_its_fields(rig: Rig) -> None:
    """What its serialiser raises is no error of the caller's."""
    protected = rig.once.function(name="charge", key="id_")(_charge)
    protected("1", Detailed(detail=100))
    with pytest.raises(KeyReused):
        protected("1", Detailed(detail=999))


@pytest.mark.parametrize("name", ["event", "info", "records", "arguments"])
def test_a_model_with_a_field_of_an_events_name_counts_by_what_it_holds(rig: Rig, name: str) -> None:
    """It's no event that a parser read."""
    kind = create_model("Change", __base__=BaseModel, **{name: (int, Field(exclude=True))})  # type: ignore[call-overload]
    ship = rig.once.function(name="ship")(_of_order)
    for n in (1, 2, 1):
        ship(kind(**{name: n}))
    assert len(rig.rows()) == 2


def test_nothing_counts_as_null(rig: Rig) -> None:
    """A retry without the session is the same work."""
    protected = rig.once.function(name="charge", key="id_")(_paid)
    assert protected("1", 100, Opaque()) == protected("1", 100, None) == 100
    with pytest.raises(KeyReused, match="different: cents"):
        protected("1", 999, Opaque())
    (line,) = noted(rig)
    assert line == f"session: a {__name__}.Opaque"
    (said,) = [each for each in rig.reported if each.event.value == "once.not_compared"]
    assert "has no canonical form; it counts as null, and payloads that differ only there" in str(said.reason)


def test_a_url_an_address_and_a_path_are_compared(rig: Rig) -> None:
    """They have a form: no line, and another one is KeyReused."""
    protected = rig.once.function(name="charge", key="order.order_id")(lambda order: order.cents)
    protected(Webhook(order_id=1, cents=100))
    protected(Webhook(order_id=1, cents=100))
    for other in (
        {"cents": 999},
        {"callback": "https://b.example/x"},
        {"address": "10.0.0.2"},
        {"folder": "/bills"},
    ):
        with pytest.raises(KeyReused, match=f"different: order.{next(iter(other))}"):
            protected(Webhook.model_validate({"order_id": 1, "cents": 100} | other))
    assert noted(rig) == []


def test_ignore_and_fingerprint_end_the_line(rig: Rig) -> None:
    """Both cures that it names; also for a model that cannot be written."""
    order = {"id": 1, "conn": Opaque(), "priced": Priced(cents=1)}
    rig.once.function(name="a", key="order.id", ignore=("order.conn", "order.priced.total"))(_of_order)(order)
    rig.once.function(name="b", key="order.id", fingerprint="order.id")(_of_order)(order)
    assert noted(rig) == []


def test_an_excluded_field_is_noted_without_a_key(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders that differ only there are one work; no line where it's ignored, or nothing is protected."""

    def work(orders: object, record: object) -> None: ...

    def shipped(**options: Any) -> None:
        ship = rig.once.function(**options)(work)
        for _ in range(2):
            ship([Connected(cents=1, connection=Opaque())], sqs_event("a")["Records"][0])

    shipped(name="a", ignore=("orders.connection",))
    with monkeypatch.context() as patch:
        patch.setenv("LAMBDA_ONCE_DISABLED", "true")
        shipped(name="b")
    assert noted(rig) == []
    shipped(name="c")
    assert len(rig.rows()) == 2
    (line,) = [each for each in rig.reported if each.event.value == "once.not_compared"]
    assert str(line.reason).startswith(
        f"orders.connection: a {__name__}.Opaque has no canonical form; its field has exclude=True and "
        "doesn't count"
    )
    assert "counts as null" not in str(line.reason)


@pytest.mark.parametrize("chosen", ["detail", "[detail, amount]", "{detail: detail}", "detail[].amount"])
def test_a_fingerprint_that_selects_nothing_says_so(rig: Rig, chosen: str) -> None:
    """A misspelt one would compare nothing at all."""
    handler = rig.once.event(name="charge", key="id", fingerprint=chosen)(_of_order)
    handler({"id": 1, "amounts": 1}, rig.context())
    handler({"id": 1, "amounts": 2}, rig.context())
    (line,) = [each for each in rig.reported if each.event.value == "once.not_compared"]
    assert "detail" in str(line.reason)
    assert ": fingerprint= selects nothing from this payload; it counts as null, and" in str(line.reason)


def test_a_payload_of_none_is_compared(rig: Rig) -> None:
    """`once.begin` with a payload that is None by accident; without one it compares nothing."""
    with rig.once.begin("1", name="charge", payload=None):
        pass
    with pytest.raises(KeyReused), rig.once.begin("1", name="charge", payload={"cents": 999}):
        raise AssertionError
    with rig.once.begin("1", name="charge"):
        pass


def test_the_lines_are_bounded(rig: Rig) -> None:
    """The names in a payload may be data, without end: ten lines a function, and none says the value."""
    protected = rig.once.function(name="charge", key="id_")(_charge)
    for n in range(30):
        protected(str(n), {f"name-{n}": Opaque()})
    assert len(noted(rig)) == 10


def test_an_expression_reads_beside_what_is_odd(rig: Rig) -> None:
    """A cycle, or what raises, beside what ``key=`` selects."""
    protected = rig.once.function(name="charge", key="order.id")(lambda order: order["id"])
    assert protected({"id": 5, "self": looped(1), "x": Broken(), "y": Priced(cents=1)}) == 5
    assert rig.row().token == "shop/charge/5"


@pytest.mark.parametrize(
    ("odd", "error"),
    [
        (Opaque(), Misconfigured),
        (SecretStr("4111"), Misconfigured),
        (Card(number=SecretStr("4111"), cents=1), Misconfigured),
        (looped(1), KeyMissing),
    ],
)
@pytest.mark.parametrize("key", [None, "order", lambda order: order])
def test_a_key_without_a_form_is_refused(rig: Rig, key: Any, odd: object, error: type[Exception]) -> None:
    """Never its address, and never a digest of a secret, which could be guessed."""
    protected = rig.once.function(name="charge", **({} if key is None else {"key": key}))(_of_order)
    with pytest.raises(error) as raised:
        protected(odd)
    assert "4111" not in str(raised.value)
    assert rig.rows() == []


def test_a_record_without_a_form_fails_alone(rig: Rig) -> None:
    """The others of its batch are worked."""
    keys = {"a": Opaque(), "b": "b"}
    handler = rig.once.sqs(key=lambda record: keys[record.body])(_of_order)
    response = handler(sqs_event("a", "b", message_ids=["m-a", "m-b"]), rig.context())
    assert response == {"batchItemFailures": [{"itemIdentifier": "m-a"}]}
    assert len(rig.rows()) == 1


@pytest.mark.parametrize("key", ["at", lambda at: at, "[at, `1`]", lambda at: (at, 1)])
def test_an_instant_is_one_key_in_every_zone(rig: Rig, key: Any) -> None:
    """An aware datetime counts as its instant, also where JMESPath selects it."""
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    run = rig.once.function(name="job", key=key)(_of_instant)
    run(noon)
    run(noon.astimezone(ZoneInfo("Asia/Tokyo")))
    assert len(rig.rows()) == 1
    run(noon.replace(hour=13))
    assert len(rig.rows()) == 2


def test_twin_that_ends_the_comparison(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One odd argument, and a second charge is replayed."""
    right = Identifier._text_to_hash

    def all_or_nothing(*args: Any) -> Any:
        found = right(*args)
        return None if found is None or found.not_compared else found

    monkeypatch.setattr(Identifier, "_text_to_hash", all_or_nothing)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_nothing_counts_as_null(rig)


def test_twin_without_the_line(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody learns that a part is not compared."""
    monkeypatch.setattr(Identifier, "_not_compared", lambda *_: None)
    with pytest.raises(ValueError, match="not enough values"):
        test_nothing_counts_as_null(rig)
