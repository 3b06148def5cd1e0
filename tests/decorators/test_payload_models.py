"""A payload that is a model: what it holds decides which work it is, whatever it prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from uuid import uuid4

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    computed_field,
    create_model,
    field_serializer,
)

from lambda_once import KeyReused, Misconfigured
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig, in_memory

pytestmark = in_memory


class Item(BaseModel):
    sku: str


class GiftItem(Item):
    to: str


class ObjectId:
    """An id of another library, without a canonical form."""

    def __init__(self, text: str) -> None:
        self.text = text


class Created(BaseModel):
    order: int


class Deleted(BaseModel):
    order: int


class Order(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")
    id: int = 5
    item: Item = Item(sku="tea")
    items: list[Item] = []
    secret: str = Field(default="", exclude=True)
    total: float = 1.0
    owner: Annotated[ObjectId, PlainSerializer(lambda id_: id_.text)] = ObjectId("o")
    change: Created | Deleted | None = None
    parsed: str = Field(default_factory=lambda: str(uuid4()), exclude=True)
    client: object = Field(default=None, exclude=True)

    @field_serializer("total")
    def whole(self, total: float) -> int:
        return int(total)

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def slug(self) -> str:
        return f"order-{self.id}"


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a subclass": ({"item": GiftItem(sku="tea", to="Ann")}, {"item": GiftItem(sku="tea", to="Bob")}),
    "a list": ({"items": [GiftItem(sku="tea", to="Ann")]}, {"items": [GiftItem(sku="tea", to="Bob")]}),
    "excluded": ({"secret": "a"}, {"secret": "b"}),
    "serialised": ({"total": 1.2}, {"total": 1.7}),
    "of another library": ({"owner": ObjectId("a")}, {"owner": ObjectId("b")}),
    "a union": ({"change": Created(order=5)}, {"change": Deleted(order=5)}),
    "extra": ({"tip": 1}, {"tip": 2}),
}


def _of_order(order: object) -> None: ...


def _of_orders(orders: object, record: object) -> None: ...


def called(rig: Rig, order: object, key: str | None) -> None:
    """A protected function, with ``key=`` or without."""
    rig.once.function(name="ship", key=key)(_of_order)(order)


def begun(rig: Rig, order: object, key: str | None) -> None:
    """A block, which always has a key."""
    with rig.once.begin(key or "order", name="ship", payload=order):
        pass


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("key", [None, "order"])
def test_what_a_model_holds_is_the_key(rig: Rig, change: str, key: str | None) -> None:
    """Another content is other work, and equal content the same: by the hash, and as ``key=`` selects it."""
    ship = rig.once.function(name="ship", key=key)(_of_order)
    one, other = CHANGES[change]
    for given in (one, other, one, other):
        ship(Order(**given))
    assert len(rig.rows()) == 2


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("door", [called, begun])
def test_what_a_model_holds_is_compared(
    rig: Rig, change: str, door: Callable[[Rig, object, str | None], None]
) -> None:
    """Another content under the same key is KeyReused; an equal one is the same work."""
    one, other = CHANGES[change]
    for _ in range(2):
        door(rig, Order(**one), "order.id")
    with pytest.raises(KeyReused, match=f"different: .*{next(iter(one))}"):
        door(rig, Order(**other), "order.id")
    assert len(rig.rows()) == 1


@pytest.mark.parametrize("key", ["order.slug", "order.owner", "order.secret", 'order.change."@class"'])
def test_a_key_of_a_field(rig: Rig, key: str) -> None:
    """A computed one, one of another library, an excluded one, and a class."""
    ship = rig.once.function(name="ship", key=key)(_of_order)
    for _ in range(2):
        ship(Order(secret="a", change=Created(order=5)))
    ship(Order(id=6, secret="b", change=Deleted(order=5), owner=ObjectId("p")))
    assert len(rig.rows()) == 2


def test_a_stamp_and_a_client_are_no_content(rig: Rig) -> None:
    """Each delivery is parsed at another time, and has another connection: the work runs once."""
    ship = rig.once.function(name="ship")(_of_order)
    ship(Order())
    ship(Order(client=object()))
    ship(Order(client=object()))
    assert len(rig.rows()) == 1


def test_a_client_is_noted_under_a_key(rig: Rig) -> None:
    """It isn't compared, and a line names it."""
    ship = rig.once.function(name="ship", key="order.id")(_of_order)
    ship(Order(client=object()))
    ship(Order(client=object()))
    with pytest.raises(KeyReused):
        ship(Order(client=object(), total=2.5))
    (line,) = [each for each in rig.reported if each.event.value == "once.not_compared"]
    assert str(line.reason).startswith(
        "order.client: a builtins.object has no canonical form; its field has exclude=True and doesn't count"
    )


@pytest.mark.parametrize("ignore", [(), ("order.items",)])
def test_a_client_is_noted_without_a_key(rig: Rig, ignore: tuple[str, ...]) -> None:
    """Two orders that differ only there are one work: a line says so, once, and that it doesn't count."""
    ship = rig.once.function(name="ship", ignore=ignore)(_of_order)
    ship(Order(client=object()))
    ship(Order(client=object()))
    assert len(rig.rows()) == 1
    (line,) = [each for each in rig.reported if each.event.value == "once.not_compared"]
    assert str(line.reason).startswith(
        "order.client: a builtins.object has no canonical form; its field has exclude=True and doesn't count"
    )
    assert "counts as null" not in str(line.reason)


def test_an_ignored_client_is_not_noted(rig: Rig) -> None:
    """The cure that the line names ends it."""
    rig.once.function(name="ship", ignore=("order.client",))(_of_order)(Order(client=object()))
    assert "once.not_compared" not in rig.events()


def test_nothing_is_noted_where_nothing_is_protected(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under LAMBDA_ONCE_DISABLED nothing is compared anyway."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    rig.once.function(name="ship")(_of_order)(Order(client=object()))
    assert "once.not_compared" not in rig.events()


def test_an_excluded_part_of_a_batch_is_named_as_ignore_names_it(rig: Rig) -> None:
    """Within a list, and beside what a queue says of a message."""
    ship = rig.once.function(name="ship")(_of_orders)
    ship([Order(), Order(client=object())], sqs_event("a")["Records"][0])
    (line,) = [each for each in rig.reported if each.event.value == "once.not_compared"]
    assert str(line.reason).startswith("orders.client: a builtins.object")


def test_a_model_is_the_same_work_as_its_dict(rig: Rig) -> None:
    """A producer sends JSON, and a consumer validates it."""
    ship = rig.once.function(name="ship")(_of_order)
    ship({"sku": "tea", "to": "Ann"})
    ship(GiftItem(sku="tea", to="Ann"))
    assert len(rig.rows()) == 1


def test_a_secret_is_refused_as_a_key(rig: Rig) -> None:
    """Its digest could be guessed."""

    class Card(BaseModel):
        number: SecretStr

    with pytest.raises(Misconfigured, match=r"order\.number") as raised:
        rig.once.function(name="ship")(_of_order)(Card(number=SecretStr("4111")))
    assert "4111" not in str(raised.value)
    assert rig.rows() == []


def test_ignore_reaches_into_models(rig: Rig) -> None:
    """Beside a field that only its serialiser writes, which still counts."""
    ship = rig.once.function(name="ship", ignore=("order.item.to", "order.change.@class"))(_of_order)
    ship(Order(item=GiftItem(sku="tea", to="Ann"), change=Created(order=5)))
    ship(Order(item=GiftItem(sku="tea", to="Bob"), change=Deleted(order=5)))
    assert len(rig.rows()) == 1
    ship(Order(item=GiftItem(sku="tea", to="Ann"), change=Created(order=5), owner=ObjectId("p")))
    assert len(rig.rows()) == 2


@pytest.mark.parametrize("name", ["event", "info", "records", "arguments"])
def test_a_model_with_a_field_of_an_events_name_counts_by_what_it_holds(rig: Rig, name: str) -> None:
    """It's no event that a parser read."""
    kind = create_model("Change", __base__=BaseModel, **{name: (int, Field(exclude=True))})  # type: ignore[call-overload]
    ship = rig.once.function(name="ship")(_of_order)
    for n in (1, 2, 1):
        ship(kind(**{name: n}))
    assert len(rig.rows()) == 2
