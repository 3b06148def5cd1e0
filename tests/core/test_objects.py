"""What counts of a model: the values of its own fields, of the class that it is, whatever it prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from itertools import count
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, TypeVar
from uuid import uuid4

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PrivateAttr,
    RootModel,
    SecretStr,
    SerializeAsAny,
    Tag,
    computed_field,
    field_serializer,
    model_serializer,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypeAliasType, TypedDict

from lambda_once.core.canonical import NoForm, NotCanonical, canonical, comparable, plain, readable, unwrapped
from lambda_once.core.fields import printed, without
from lambda_once.core.keys import token
from lambda_once.core.objects import Noted

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
T = TypeVar("T")


class Connection:
    """A value without a canonical form."""


class ObjectId:
    """An id of another library, which has no canonical form either."""

    def __init__(self, text: str) -> None:
        self.text = text


def text_of(id_: ObjectId) -> str:
    """Write an id."""
    return id_.text


Written = Annotated[ObjectId, PlainSerializer(text_of)]


class Foreign(BaseModel):
    """What models with fields of foreign types are made of."""

    model_config = ConfigDict(arbitrary_types_allowed=True)


# -- the class that it is


class Payment(BaseModel):
    order: int


class CardPayment(Payment):
    card: str


@dataclass
class Line:
    sku: str


@dataclass
class PricedLine(Line):
    cents: int = 0


class Payments(BaseModel):
    one: Payment | None = None
    many: list[Payment] = []
    named: dict[str, Payment] = {}
    pair: tuple[Payment, Payment] | None = None
    line: Line | None = None
    either: list[Payment] | dict[str, Payment] | None = None


class Root(RootModel[Payment]):
    """A model in place of which its root counts."""


class Box(BaseModel, Generic[T]):
    item: T


VISA, MASTER = CardPayment(order=5, card="visa"), CardPayment(order=5, card="master")


@pytest.mark.parametrize(
    "hold",
    [
        lambda each: Payments(one=each),
        lambda each: Payments(many=[each]),
        lambda each: Payments(named={"a": each}),
        lambda each: Payments(pair=(Payment(order=1), each)),
        lambda each: Payments(either=[each]),
        Root,
        lambda each: RootModel[list[Payment]]([each]),
        lambda each: RootModel[dict[str, Root]]({"a": Root(each)}),
        lambda each: Box[Payment](item=each),
        lambda each: Box[Any](item=each),
        lambda each: {"payments": [Payments(one=each)]},
    ],
)
def test_what_a_subclass_adds_counts(hold: Callable[[Payment], object]) -> None:
    """Where the class of a field is its base class, and model_dump() prints that one's fields."""
    for form in (canonical, printed, readable):
        assert form(hold(VISA)) == form(hold(VISA.model_copy()))
        assert form(hold(VISA)) != form(hold(MASTER))
    assert canonical(hold(Payment(order=5))) != canonical(hold(Payment(order=6)))


def test_a_root_model_of_a_number_is_a_readable_key() -> None:
    """It is its root."""
    number = RootModel[RootModel[int]](RootModel[int](5))
    assert token("s", "n", None, number) == token("s", "n", None, 5)


class AsAny(BaseModel):
    one: SerializeAsAny[Payment]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    order: int


def test_a_frozen_model_counts_in_a_set_and_as_a_name() -> None:
    """As the dict of its fields would."""
    assert canonical({Frozen(order=5)}) == canonical({Frozen(order=5)})
    assert canonical({Frozen(order=5)}) != canonical({Frozen(order=6)})
    assert canonical({Frozen(order=5): 1}) != canonical({Frozen(order=6): 1})
    assert readable({Frozen(order=5)}) == [{"order": 5}]


# -- its own fields


class Order(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int = Field(alias="orderId")
    note: str | None = Field(default=None, exclude=True)
    source: str = Field(default="web", exclude=True)
    _private: object = PrivateAttr(default_factory=Connection)

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own way
    @property
    def stamp(self) -> str:
        return str(uuid4())

    @cached_property
    def cached(self) -> object:
        return Connection()


def order(**given: object) -> Order:
    """Return an order, with an alias."""
    return Order.model_validate({"orderId": 5, **given})


def test_excluded_fields_and_extras_count() -> None:
    """Also an extra one of a field's name, which an alias allows."""
    given: list[dict[str, Any]]
    given = [{}, {"note": "a"}, {"note": "b"}, {"source": "app"}, {"tip": 1}, {"tip": 2}, {"id": 1}]
    for form in (
        canonical,
        lambda each: printed(each).fingerprint,
        lambda each: str(readable(without(each, ["stamp"]))),
    ):
        assert len({form(order(**each)) for each in (*given, {})}) == len(given)
    assert canonical(order(tip=Payment(order=1))) == canonical(order(tip={"order": 1}))
    assert canonical(order(id=1, **{"@id": 2})) == canonical(order(**{"@id": 2}, id=1))
    assert canonical(order(id=1, **{"@id": 2})) != canonical(order(id=2, **{"@id": 1}))


class ByAlias(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)
    id: int = Field(alias="orderId")
    kind: int = 1


class Taken(ByAlias):
    orderId: int = 6  # noqa: N815  (the alias of another field)


def test_expressions_see_computed_fields() -> None:
    """Beside those that count; what raises is seen as what it is, and its neighbours as ever."""

    class Seen(BaseModel):
        id: int
        hidden: int = Field(default=1, exclude=True)

        @computed_field  # type: ignore[prop-decorator]  # as above
        @property
        def slug(self) -> str:
            return f"order-{self.id}"

    assert readable([Seen(id=5)]) == [{"id": 5, "hidden": 1, "slug": "order-5"}]
    assert readable(without({"order": Seen(id=5)}, ["order.slug"])) == {"order": {"id": 5, "hidden": 1}}
    assert plain(Seen(id=5)) == {"id": 5, "slug": "order-5"}


def test_results_are_printed() -> None:
    """What is excluded is not stored; the fields that `ignore=` leaves are plain."""
    assert plain(order(note="secret")).keys() == {"id", "stamp"}  # type: ignore[attr-defined]  # an object
    assert plain(without({"order": order(note="a")}, ["order.source"])) == {"order": {"id": 5, "note": "a"}}
    assert plain({"line": PricedLine("a", 2)}) == {"line": {"sku": "a", "cents": 2}}
    assert plain([order(), Decimal(1)], Decimal)[1] == Decimal(1)  # type: ignore[index]  # a list


def test_a_model_that_was_not_validated_has_the_fields_that_it_has() -> None:
    """None is made up, also if a library made it and set nothing else."""
    bare = CardPayment.__new__(CardPayment)
    bare.__dict__["order"] = 5
    assert canonical(bare) == canonical({"order": 5})


class OfAnotherKind:
    """A model that only prints."""

    def __init__(self, order: int) -> None:
        self.order = order

    def model_dump(self) -> dict[str, int]:
        return {"order": self.order // self.order * self.order}


def test_what_only_prints_counts_as_it_prints() -> None:
    """A class with ``model_dump`` and without pydantic's fields."""
    assert canonical(OfAnotherKind(5)) == canonical({"order": 5})
    with pytest.raises(NoForm, match="what raises ZeroDivisionError"):
        canonical(OfAnotherKind(0))
    with pytest.raises(ZeroDivisionError):
        plain([OfAnotherKind(0)])


# -- serialisers


class Dropped(BaseModel):
    total: Decimal
    at: Annotated[datetime, PlainSerializer(lambda at: at.date())] = NOON
    payment: Payment | None = None

    @field_serializer("total")
    def whole(self, total: Decimal) -> int:
        return int(total)

    @field_serializer("payment")
    def short(self, _payment: object) -> str:
        return "a payment"


class Summary(BaseModel):
    id: int
    cents: int

    @model_serializer
    def summarise(self) -> dict[str, int]:
        return {"id": self.id}


class ByField(Foreign):
    id: ObjectId

    @field_serializer("id")
    def write(self, id_: ObjectId) -> str:
        return id_.text


class ByType(Foreign):
    id: Written


class InAList(Foreign):
    id: list[Written]


class ByModel(Foreign):
    id: ObjectId
    cents: int = 1

    @model_serializer
    def write(self) -> dict[str, object]:
        return {"id": self.id.text}


class ByModelAsText(Foreign):
    id: ObjectId
    cents: int = 1

    @model_serializer
    def write(self) -> str:
        return self.id.text


class OfItsRoot(RootModel[object]):
    root: object

    @field_serializer("root")
    def write(self, id_: ObjectId) -> str:
        return id_.text


class OfTheTypeOfItsRoot(RootModel[Any]):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    root: dict[str, Written]


class Extras(Foreign):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Written]


@pydantic_dataclass(config=ConfigDict(arbitrary_types_allowed=True))
class OfADataclass:
    id: Written


class Outside(Foreign):
    """Its own serialiser writes what a model within cannot."""

    inner: ByNothing

    @field_serializer("inner")
    def write(self, inner: ByNothing) -> str:
        return inner.id.text


class ByNothing(Foreign):
    id: ObjectId


class Deep(Foreign):
    """Its type's serialiser does, two levels above."""

    boxes: Annotated[list[Box[Any]], PlainSerializer(lambda boxes: [each.item.id.text for each in boxes])]


Outside.model_rebuild()
FORMLESS: dict[str, Callable[[str], object]] = {
    "field_serializer": lambda id_: ByField(id=ObjectId(id_)),
    "PlainSerializer": lambda id_: ByType(id=ObjectId(id_)),
    "PlainSerializer in a list": lambda id_: InAList(id=[ObjectId(id_)]),
    "model_serializer": lambda id_: ByModel(id=ObjectId(id_)),
    "model_serializer, text": lambda id_: ByModelAsText(id=ObjectId(id_)),
    "a root": lambda id_: OfItsRoot(ObjectId(id_)),
    "a root's items": lambda id_: OfTheTypeOfItsRoot({"root": ObjectId(id_)}),
    "an extra field": lambda id_: Extras.model_validate({"x": ObjectId(id_)}),
    "pydantic's dataclass": lambda id_: OfADataclass(ObjectId(id_)),
    "a model within": lambda id_: Box[ByField](item=ByField(id=ObjectId(id_))),
    "from without": lambda id_: Outside(inner=ByNothing(id=ObjectId(id_))),
    "from further": lambda id_: Deep(boxes=[Box[Any](item=ByNothing(id=ObjectId(id_)))]),
}


@pytest.mark.parametrize("kind", FORMLESS)
def test_what_has_no_form_counts_by_its_serialiser(kind: str) -> None:
    """Beside what has none either, for expressions, and for what another field leaves out."""
    make = FORMLESS[kind]
    assert canonical(make("a")) == canonical(make("a"))
    assert canonical(make("a")) != canonical(make("b"))
    assert readable(make("a")) == readable(make("a")) != readable(make("b"))
    for beside in (Connection(), SecretStr("4111")):
        one, same, other = (printed({"odd": beside, "order": make(each)}) for each in "aab")
        assert one.fingerprint == same.fingerprint != other.fingerprint
        assert [path for path, _ in one.not_compared] == ["odd"]


class Silent(Foreign):
    id: Annotated[ObjectId, PlainSerializer(lambda _: 1 / 0)]


class InJsonOnly(Foreign):
    id: Annotated[ObjectId, PlainSerializer(text_of, when_used="json")]


class Masked(BaseModel):
    id: SecretStr


class AsOdd(Foreign):
    id: Annotated[ObjectId, PlainSerializer(lambda _: Connection())]


@pytest.mark.parametrize(
    "odd",
    [
        ByNothing(id=ObjectId("a")),
        Silent(id=ObjectId("a")),
        InJsonOnly(id=ObjectId("a")),
        Masked(id=SecretStr("4111")),
        AsOdd(id=ObjectId("a")),
    ],
    ids=lambda odd: type(odd).__name__,
)
def test_what_no_serialiser_writes_is_refused(odd: BaseModel) -> None:
    """With its path; a fingerprint has null in its place, and an expression what it is."""
    kind = type(odd.id).__qualname__  # type: ignore[attr-defined]  # each has one
    for whole, path in ((odd, "id"), ([{"x": Box[Any](item=odd)}], "0.x.item.id")):
        with pytest.raises(NoForm, match=rf"^{path}: a .*{kind} has no canonical form") as raised:
            canonical(whole)
        assert "4111" not in str(raised.value)
    found = printed({"order": odd, "cents": Decimal("1.5")})
    assert found.text == '{"cents":1.5,"order":{"id":null}}'
    assert [path for path, _ in found.not_compared] == ["order.id"]
    assert readable({"order": odd}) == {"order": {"id": odd.id}}  # type: ignore[attr-defined]  # as above


def test_a_serialiser_writes_nothing_that_is_ignored() -> None:
    """It writes the whole field, so what is left of one has no form."""
    payload = {"order": Outside(inner=ByNothing(id=ObjectId("a")))}
    assert canonical(without(payload, ["order.inner.absent"])) == canonical(payload)
    assert canonical(without(payload, ["order.inner.id"])) == canonical({"order": {"inner": {}}})

    class Two(Foreign):
        inner: Annotated[Box[Any], PlainSerializer(lambda box: repr(box.model_extra))]

    class Open(Box[Any]):
        model_config = ConfigDict(extra="allow")

    two = Two(inner=Open.model_validate({"item": Connection(), "at": 1}))
    with pytest.raises(NoForm, match=r"inner\.item"):
        canonical(without(two, ["inner.at"]))


# -- excluded fields

CLOCK = count()


class Stamped(Foreign):
    id: int
    parsed: int = Field(default_factory=lambda: next(CLOCK), exclude=True)
    client: object = Field(default=None, exclude=True)


def test_what_is_neither_printed_nor_canonical_does_not_count() -> None:
    """Nor is it null: so the model still equals the dict, and one without a client."""
    with_client = Stamped(id=5, client=Connection())
    assert canonical(with_client) == canonical({"id": 5})
    assert readable(with_client) == {"id": 5}
    for beside in (1, Connection()):
        found = printed({"order": [Stamped(id=5, client={"a": [1, Connection()]})], "x": beside})
        reason = "a builtins.dict has no canonical form; its field has exclude=True and doesn't count"
        assert ("order.client", reason) in found.not_compared
        assert len(found.not_compared) == (1 if beside == 1 else 2)
        same = printed({"order": [{"id": 5}], "x": beside})
        assert found.fingerprint == same.fingerprint


def test_a_field_that_prints_itself_out_does_not_count() -> None:
    """Where its condition leaves out a value without a form."""

    class Omitted(Foreign):
        id: int
        client: object = None

        @model_serializer(mode="wrap")
        def write(self, handler: Callable[[object], Mapping[str, object]]) -> dict[str, object]:
            return {name: each for name, each in handler(self).items() if name != "client"}

    found = printed([Omitted(id=5, client=Connection())])
    assert found.fingerprint == printed([Omitted(id=5, client=Connection())]).fingerprint
    assert found.fingerprint != printed([Omitted(id=6, client=Connection())]).fingerprint


# -- unions


class Created(BaseModel):
    order: int


class Deleted(BaseModel):
    order: int


class DeletedAgain(Deleted):
    pass


@dataclass
class Opened:
    order: int


@dataclass
class Closed:
    order: int


class Metres(RootModel[int]):
    pass


class Feet(RootModel[int]):
    pass


class Row(TypedDict):
    event: Created | Deleted
    next: Row | None


class Pair(NamedTuple):
    event: Created | Deleted


Event = TypeAliasType("Event", Created | Deleted)
Tree = TypeAliasType("Tree", Created | Deleted | list["Tree"])  # type: ignore[misc]  # it is recursive
Named = NewType("Named", Created)
OneOf = TypeVar("OneOf", Created, Deleted)


class Single(BaseModel, Generic[OneOf]):
    event: OneOf


class Events(BaseModel):
    event: Created | Deleted | None = None
    events: list[Created | Deleted] = []
    named: dict[str, Created | Deleted] = {}
    apart: list[Created] | list[Deleted] = []
    alias: Event | None = None
    tree: Tree | None = None
    new: Named | Deleted | None = None
    row: Row | None = None
    pair: Pair | None = None
    opened: Opened | Closed | None = None
    length: Metres | Feet | None = None


@dataclass
class Envelope:
    event: Created | Deleted


@dataclass
class Wrapped(Generic[T]):
    items: list[T]


@dataclass
class Twice(Generic[T]):
    inner: Wrapped[T]


@dataclass
class OfEvents(Wrapped[Created | Deleted]):
    pass


@dataclass
class Wrappers:
    once: Wrapped[Created | Deleted] | None = None
    twice: Twice[Created | Deleted] | None = None
    apart: Wrapped[Created] | Wrapped[Deleted] | None = None
    base: OfEvents | None = None
    model: Box[Created | Deleted] | None = None


@pytest.mark.parametrize(
    ("hold", "one", "other"),
    [
        (lambda each: Events(event=each), Created(order=5), Deleted(order=5)),
        (lambda each: Events(event=each), Deleted(order=5), DeletedAgain(order=5)),
        (lambda each: Events(events=[each]), Created(order=5), Deleted(order=5)),
        (lambda each: Events(named={"a": each}), Created(order=5), Deleted(order=5)),
        (lambda each: Events(apart=[each]), Created(order=5), Deleted(order=5)),
        (lambda each: Events(alias=each), Created(order=5), Deleted(order=5)),
        (lambda each: Events(tree=each), Created(order=5), Deleted(order=5)),
        (lambda each: Events(new=each), Created(order=5), Deleted(order=5)),
        (
            lambda each: Events(row={"event": Created(order=1), "next": {"event": each, "next": None}}),
            Created(order=5),
            Deleted(order=5),
        ),
        (lambda each: Events(pair=Pair(each)), Created(order=5), Deleted(order=5)),
        (lambda each: Events(opened=each), Opened(5), Closed(5)),
        (lambda each: Events(length=each), Metres(5), Feet(5)),
        (lambda each: Box[Created | Deleted](item=each), Created(order=5), Deleted(order=5)),
        (RootModel[Created | Deleted], Created(order=5), Deleted(order=5)),
        (lambda each: Single(event=each), Created(order=5), Deleted(order=5)),
        (lambda each: Envelope(event=each), Created(order=5), Deleted(order=5)),
        (lambda each: Wrappers(once=Wrapped([each])), Created(order=5), Deleted(order=5)),
        (lambda each: Wrappers(twice=Twice(Wrapped([each]))), Created(order=5), Deleted(order=5)),
        (lambda each: Wrappers(apart=Wrapped([each])), Created(order=5), Deleted(order=5)),
        (lambda each: Wrappers(base=OfEvents([each])), Created(order=5), Deleted(order=5)),
        (lambda each: Wrappers(model=Box(item=each)), Created(order=5), Deleted(order=5)),
    ],
)
def test_the_class_counts_in_a_union(hold: Callable[[object], object], one: Any, other: Any) -> None:
    """Where nothing else says which of two kinds of work it is."""
    for form in (canonical, printed, readable):
        assert form(hold(one)) == form(hold(one))
        assert form(hold(one)) != form(hold(other))
    beside = (
        printed({"odd": Connection(), "it": hold(one)}),
        printed({"odd": Connection(), "it": hold(other)}),
    )
    assert beside[0].fingerprint != beside[1].fingerprint
    assert canonical(one) != canonical(hold(one))


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Other(BaseModel):
    pass


def test_two_classes_of_one_name_are_told_apart() -> None:
    """By module and qualified name."""

    def made() -> type[BaseModel]:
        return type("Created", (BaseModel,), {"__annotations__": {"order": int}, "__module__": "elsewhere"})

    another = made()
    held = [Box[Created | another](item=each) for each in (Created(order=5), another(order=5))]  # type: ignore[valid-type]
    assert canonical(held[0]) != canonical(held[1])
    assert b'"@class":"elsewhere.Created"' in canonical(held[1])


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Pets(BaseModel):
    of_field: Cat | Dog = Field(default=Cat(), discriminator="kind")
    of_type: Annotated[Cat | Dog, Discriminator("kind")] = Cat()
    of_list: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = []
    optional: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    one: Cat | None = None
    text: Cat | str | dict[str, Any] | None = None
    apart: tuple[Cat, Dog] | None = None


class Told(BaseModel):
    """A function tells the classes apart; what it looks at need not be in the model."""

    event: Annotated[
        Annotated[Created, Tag("created")] | Annotated[Deleted, Tag("deleted")],
        Discriminator(
            lambda each: each.get("type") if isinstance(each, dict) else type(each).__name__.lower()
        ),
    ]


class Unresolved:
    """An alias whose value names what isn't there."""

    @property
    def __value__(self) -> object:
        raise NameError


@pytest.mark.parametrize("hint", ["Absent | Created", Unresolved()])
def test_hints_that_cannot_be_read_name_no_union(hint: object) -> None:
    """A dataclass whose annotations need what isn't there counts by its fields alone."""
    kind: Any = dataclass(type("Made", (), {"__annotations__": {"event": hint}}))
    assert canonical(kind(Created(order=5))) == canonical({"event": {"order": 5}})


# -- objects that refer to each other


class Node(BaseModel):
    name: str
    children: list[Node] = []
    parent: Node | None = Field(default=None, exclude=True)
    peer: Node | None = None


def family(name: str) -> Node:
    """Return a node whose child refers to it."""
    node = Node(name=name)
    node.children = [Node(name="child", parent=node)]
    return node


def test_a_way_back_that_is_not_printed_does_not_count() -> None:
    """It has no form, as the object contains itself."""
    assert canonical(family("a")) == canonical(family("a")) != canonical(family("b"))
    assert printed(family("a")).not_compared[0][0] == "children.parent"
    assert readable(family("a"))["children"][0]["name"] == "child"  # type: ignore[index]  # an object


def test_a_way_back_that_is_written_counts_as_written() -> None:
    """By the field's serialiser, such as the name of the parent."""

    class Child(BaseModel):
        parent: Parent

        @field_serializer("parent")
        def by_name(self, parent: Parent) -> str:
            return parent.name

    class Parent(BaseModel):
        name: str
        child: Child | None = None

    Child.model_rebuild(_types_namespace={"Parent": Parent})
    Parent.model_rebuild(_types_namespace={"Child": Child})

    def parent(name: str) -> Parent:
        made = Parent(name=name)
        made.child = Child.model_construct(parent=made)
        return made

    assert canonical(parent("a")) == canonical({"name": "a", "child": {"parent": "a"}})


def test_a_model_within_itself_is_refused() -> None:
    """As a dict is; a fingerprint has null in its place."""
    node = Node(name="a")
    node.peer = Node(name="b", peer=node)
    with pytest.raises(NotCanonical, match="itself"):
        canonical(node)
    one, other = Node(name="a"), Node(name="c")
    one.peer, other.peer = one, other
    assert printed({"x": one}).fingerprint != printed({"x": other}).fingerprint
    assert printed({"x": one}).not_compared[0][0] == "x.peer"


def chain(length: int) -> Node:
    """Return nodes within each other."""
    node = Node(name="end")
    for n in range(length):
        node = Node(name=str(n), peer=node)
    return node


def test_depth_is_refused_as_that_of_a_dict() -> None:
    """Not an error of Python's."""
    assert canonical(chain(60)) != canonical(chain(61))
    with pytest.raises(NotCanonical, match="nested too deeply"):
        canonical(chain(2_000))
    root = RootModel[Any](5)
    for _ in range(1_000):
        root = RootModel[Any].model_construct(root)
    reason = "a pydantic.root_model.RootModel[Any] has no canonical form; it counts as null"
    assert printed(root).not_compared == (("", reason),)
    assert printed(root).text == "null"


class Link(Foreign):
    """Part of a chain, of which each field may have a serialiser."""

    id: object
    next: Link | None = None
    asked: ClassVar[list[object]] = []

    @field_serializer("id")
    def write(self, id_: object) -> object:
        self.asked.append(id_)
        return "written" if isinstance(id_, ObjectId) else id_


@pytest.mark.parametrize("length", [10, 40])
@pytest.mark.parametrize("odd", [ObjectId("a"), Connection()])
def test_a_serialiser_is_asked_once(length: int, odd: object) -> None:
    """However deep what has no form is, and whether or not there is one: the work is that of the size."""
    link = Link(id=odd)
    for _ in range(length):
        link = Link(id=1, next=link)
    Link.asked.clear()
    noted: Noted = []
    comparable(link, noted)
    assert (Link.asked, len(noted)) == ([odd], isinstance(odd, Connection))
    with suppress(NoForm):
        canonical(link)
    assert Link.asked == [odd, odd]
    readable(link)
    assert Link.asked == [odd, odd, odd]


def test_the_fields_are_a_mapping() -> None:
    """For whoever looks one layer deep."""
    found = unwrapped(VISA)
    assert isinstance(found, Mapping)
    assert (len(found), "card" in found, found["card"], "cents" in found) == (2, True, "visa", False)


def test_what_is_no_model_is_as_ever() -> None:
    """A class is not its object, and no dataclass either."""
    for odd in (Payment, Line, SimpleNamespace(model_dump=dict)):
        with pytest.raises(NoForm):
            canonical(odd)


# -- equal and unequal objects

NODE = Node(name="a")
CREATED = {"@class": "Created", "order": 5}
PETS = Pets(of_field=Dog(), of_list=[Dog()], optional=Cat(), one=Cat(), text=Cat(), apart=(Cat(), Dog()))


@pytest.mark.parametrize(
    ("it", "same"),
    [
        # its fields by their names, aliases if it prints these
        (
            Payments(one=VISA, many=[Payment(order=6)], line=Line("a")),
            {
                "one": {"order": 5, "card": "visa"},
                "many": [{"order": 6}],
                "named": {},
                "pair": None,
                "line": {"sku": "a"},
                "either": None,
            },
        ),
        (AsAny(one=VISA), {"one": VISA}),
        (order(), {"id": 5, "source": "web"}),
        (order(note=None), order()),
        (ByAlias(orderId=5), {"orderId": 5, "kind": 1}),
        (Taken.model_construct(id=5), {"orderId": 6, "id": 5, "kind": 1}),
        (Payment.model_construct(), {}),
        # no private attribute, computed field, cached property or stamp that differs for each delivery
        ([each for each in [order()] if each.cached], [order()]),
        (Stamped(id=5), {"id": 5}),
        # a root model is its root
        (Root(Payment(order=5)), {"order": 5}),
        (RootModel[list[int]]([1]), [1]),
        (without({"root": Root(VISA)}, ["root.card"]), {"root": {"order": 5}}),
        (without({"root": Root(VISA)}, ["root.sku"]), {"root": VISA}),
        # in a union the class is a name beside the fields, which `ignore=` can leave out
        (Envelope(Created(order=5)), {"event": CREATED}),
        (Events(length=Feet(5)), Events().model_dump() | {"length": {"@class": "Feet", "root": 5}}),
        (without(Envelope(Created(order=5)), ["event.@class"]), {"event": {"order": 5}}),
        (without(Envelope(Deleted(order=5)), ["event.@class"]), {"event": {"order": 5}}),
        (without(Envelope(Created(order=5)), ["event.x"]), {"event": CREATED}),
        (without(Envelope(Created(order=5)), ["event.order"]), {"event": {"@class": "Created"}}),
        (
            Box[Open | Other](item=Open.model_validate({"@class": "Other"})),
            {"item": {"@class": "Other", "@@class": "Open"}},
        ),
        # not if a field tells the classes apart, or there is one
        (PETS, PETS.model_dump()),
        (Box[Cat](item=Cat()), {"item": {"kind": "cat"}}),
        (Box[Any](item=Cat()), {"item": {"kind": "cat"}}),
        # one in two places does not contain itself
        ([NODE, NODE], [Node(name="a"), Node(name="a")]),
        (
            Node(name="b", peer=NODE, children=[NODE]),
            Node(name="b", peer=Node(name="a"), children=[Node(name="a")]),
        ),
    ],
)
def test_an_object_counts_as_what_it_holds(it: object, same: object) -> None:
    """Nested, too: it equals the dict of the fields that count."""
    assert canonical(it) == canonical(same)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # dropped by the serialiser of a field, a type or a model
        (Dropped(total=Decimal("1.5")), Dropped(total=Decimal("1.6"))),
        (Dropped(total=Decimal(1), at=NOON.replace(hour=1)), Dropped(total=Decimal(1), at=NOON)),
        (
            Dropped(total=Decimal(1), payment=Payment(order=5)),
            Dropped(total=Decimal(1), payment=Payment(order=6)),
        ),
        (Summary(id=5, cents=1), Summary(id=5, cents=2)),
        (Box[Summary](item=Summary(id=5, cents=1)), Box[Summary](item=Summary(id=5, cents=2))),
        (ByModel(id=ObjectId("a"), cents=1), ByModel(id=ObjectId("a"), cents=2)),
        (ByModelAsText(id=ObjectId("a"), cents=1), ByModelAsText(id=ObjectId("a"), cents=2)),
        # of a dataclass's own class, excluded but given, or told apart by a function
        (Payments(line=PricedLine("a", 1)), Payments(line=PricedLine("a", 2))),
        (Stamped(id=5, parsed=1), Stamped(id=5, parsed=2)),
        (Stamped(id=5, client="a"), Stamped(id=5, client="b")),
        (
            Told.model_validate({"event": {"type": "created", "order": 5}}),
            Told.model_validate({"event": {"type": "deleted", "order": 5}}),
        ),
    ],
)
def test_what_is_not_printed_counts(one: BaseModel, other: BaseModel) -> None:
    """Beside what is."""
    for form in (canonical, printed, readable):
        assert form(one) == form(one.model_copy(deep=True))
        assert form(one) != form(other)
        assert form([one]) != form([other])
