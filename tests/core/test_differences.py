"""What of a result would come back different, by its declared type."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from functools import cached_property, partial
from math import inf, nan
from types import GenericAlias, MappingProxyType
from typing import Annotated, Any, Generic, Literal, NamedTuple, Protocol, TypedDict, TypeVar
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pydantic.dataclasses
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from lambda_once.core.codec import Codec, codec_by, codec_for
from lambda_once.core.differences import Difference, difference
from lambda_once.core.lazy import MOST_PARTS
from lambda_once.core.results import NotSerialisable

T = TypeVar("T")


@dataclass
class Paid:
    id: str
    cents: float


@dataclass
class Refunded:
    id: str
    cents: float


@dataclass
class Equal:
    """Says of itself that it equals everything."""

    id: str

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@dataclass
class EqualToo(Equal):
    cents: int = 0


@dataclass(frozen=True, eq=False)
class Identical:
    """Equals itself alone."""

    id: str


class Cart(dict[str, int]):
    """Pydantic makes no adapter of it."""


class Named(str):
    """Of this neither."""

    __slots__ = ()


@dataclass
class Keeps:
    """And so not of this."""

    id: str
    cart: Cart


class HasId(Protocol):
    """A protocol that isn't runtime-checkable."""

    id: str


@dataclass
class Wide:
    more: Any


class Coin(BaseModel):
    model_config = ConfigDict(frozen=True)
    id: str
    note: str = Field(default="", exclude=True)


class Order(BaseModel):
    id: int


class Gift(Order):
    text: str


class Page(BaseModel, Generic[T]):
    items: list[T]


class ApiKey(BaseModel):
    secret: SecretStr


class Hidden(BaseModel):
    id: int
    note: str = Field(default="", exclude=True)


class Cached(BaseModel):
    id: int
    _seen: list[int] = PrivateAttr(default_factory=list)


class Loose(BaseModel):
    more: Any
    other: int | None = 1


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int


class Raw(BaseModel):
    content: bytes


class Point(NamedTuple):
    x: int
    y: int


class Item(TypedDict):
    at: date
    more: Any


class Later(typing_extensions.TypedDict):
    at: date
    more: Any


def scope() -> Any:
    """Return a model with a named tuple of which `typing` cannot resolve the annotations; pydantic can."""

    class Key(BaseModel):
        secret: SecretStr

    class Pair(NamedTuple):
        key: Key
        more: Any = None

    class Owner(BaseModel):
        pair: Pair

    return Owner(pair=Pair(Key(secret=SecretStr("s3cr3t"))))


class Lying(float):
    """Says of itself that it equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


class LyingWhole(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pydantic.dataclasses.dataclass(config=ConfigDict(extra="allow"))
class Labelled:
    id: str

    def __post_init__(self) -> None:
        self._seen: list[int] = []

    @cached_property
    def title(self) -> str:
        return f"Label {self.id}"


def labelled(**more: str) -> Labelled:
    """Return one that has been looked at."""
    label = Labelled("1", **more)
    label._seen.append(len(label.title))
    return label


class State(StrEnum):
    PAID = "paid"


class Level(Enum):
    HIGH = "high"


@dataclass
class Total:
    state: str
    at: datetime
    lines: tuple[Order, ...] = ()
    kinds: frozenset[str] = frozenset()
    more: dict[str, Any] = field(default_factory=dict)


class Frozen(datetime):
    """As a test library's."""


SCOPED = scope()
REPEATED = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def cached() -> Cached:
    """One whose private attribute is set."""
    found = Cached(id=1)
    found._seen.append(1)
    return found


def compared(annotation: object, value: object) -> tuple[Difference | None, Any]:
    """Return how *value* differs from what comes back under *annotation*, and that."""
    codec = codec_for(annotation)
    loaded = codec.load(codec.dump(value))
    return codec.difference(value, loaded), loaded


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Paid | Refunded, Paid("1", 5)),
        (Paid, Paid("1", 10)),  # int for float (PEP 484)
        (Paid, Paid("1", nan)),
        (Paid, Paid("1", inf)),
        (Equal, Equal("1")),
        (Identical, Identical("1")),
        (Order | None, Order(id=1)),
        (Page[Order], Page(items=[Order(id=1)])),
        (Page[Order], Page[Order](items=[Order(id=1)])),
        (Cached, cached()),
        (Open, Open(id=1, other="x")),  # type: ignore[call-arg]
        (Labelled, labelled()),
        (Raw, Raw(content=b"text")),
        (Raw, Raw(content=b"\xff\xfe")),
        (bytes, b"\xff"),
        (Sequence[int], (1, 2)),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2)),
        (deque[int], deque([1])),
        (set[int], {1, 2, 3}),
        (frozenset[UUID], frozenset({uuid4(), uuid4()})),
        (dict[str, int], defaultdict(int, a=1)),
        (Mapping[str, Order], OrderedDict(a=Order(id=1))),
        (dict[int, str], {1: "a"}),
        (Point, Point(1, 2)),
        (Item, {"at": "2026-01-01", "more": None}),
        (State, State.PAID),
        (str, State.PAID),
        (Level | int, Level.HIGH),
        (Literal["a", 1], "a"),
        (datetime, REPEATED.replace(fold=0)),
        (datetime, Frozen(2026, 1, 1, tzinfo=UTC)),
        (datetime, datetime(2026, 1, 1)),  # noqa: DTZ001  (a naive one)
        (timedelta, timedelta(seconds=1.5)),
        (Decimal, Decimal("4.50")),
        (Annotated[int, Field(gt=0)], 5),
        (bool | int, True),
        (Total, Total(State.PAID, NOON, (Order(id=1),), frozenset({"a"}), {"n": 1})),
        (list[Total], [Total("x", NOON)]),
        (Sequence[Order], (Order(id=1),)),
        (Sequence[Any], deque([1, (2,)])),
        (Iterable[int], {3, 1, 2}),
        (Iterable[Order], [Order(id=1)]),
        (Collection[int], {3, 1, 2}),
        (Collection[Order], (Order(id=1),)),
        (dict[str, Collection[Order]], {"a": [Order(id=1)]}),
        (Mapping[str, int], MappingProxyType({"a": 1})),
        (Item | None, {"at": "2026-01-01", "more": Decimal("4.50")}),
        (list[Later | None], [{"at": "2026-01-01", "more": Decimal("4.50")}, None]),
        (Item | Later, {"at": "2026-01-01", "more": Decimal("4.50")}),
        (list[Iterable[Order]] | None, [(Order(id=1),)]),
        (set[float], {nan, 1.5}),
        (set[Identical], {Identical("1"), Identical("2")}),
        (frozenset[tuple[State, int]], frozenset({(State.PAID, 1), (State.PAID, 2)})),
        (dict[State, Order], {State.PAID: Order(id=1)}),
        (dict[date, int], {date(2026, 1, 2): 1, date(2026, 1, 1): 2}),
        (Loose, Loose(more=nan, other=None)),
        (list[Loose], [Loose(more=[inf, {"a": -inf}])]),
        (Wide, Wide(more=nan)),
        (Decimal, Decimal("1.00")),
        (dict[str, Any], {"a": (1,), "b": NOON}),
        (Any, {"a": [1, 1.5, None, True, "x"], "n": nan}),
        (Any, Decimal("1e400")),
        (dict, {"total": Decimal("4.50"), "many": [Decimal(10**40 + 1), Decimal("-0.0")]}),
    ],
)
def test_what_comes_back(annotation: object, value: Any) -> None:
    """Equal, of the declared type, and of the same digits."""
    different, loaded = compared(annotation, value)
    assert different is None
    if isinstance(value, Decimal):
        assert str(loaded) == str(value)


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (Paid | Refunded, Refunded("1", 5), ""),
        (list[Paid | Refunded], [Paid("1", 5), Refunded("1", 5)], "1"),
        (dict[str, Paid | Refunded], {"a": Refunded("1", 5)}, "a"),
        (Equal, EqualToo("1", 5), ""),
        (Order, Gift(id=1, text="x"), ""),
        (Page[Order], Page[Order](items=[Gift(id=1, text="x")]), "items.0"),
        (ApiKey, ApiKey(secret=SecretStr("s3cr3t")), "secret"),
        (Hidden, Hidden(id=1, note="x"), "note"),
        (bytes | str, "abcd", ""),
        (str | bytes, b"abc", ""),
        (str | date, date(2026, 1, 1), ""),
        (list | tuple, (1, 2), ""),
        (list | set, {1}, ""),
        (str, date(2026, 1, 1), ""),
        (dict[str, str], {"at": NOON}, "at"),
        (Order | int, Gift(id=1, text="x"), ""),
        (list[int], (1, 2), ""),
        (Cart, Cart(tea=1), ""),
        (list[Cart], [Cart(tea=1)], "0"),
        (bytearray, bytearray(b"x"), ""),
        (HasId | None, Paid("1", 5), ""),
        (Keeps, Keeps("1", Cart(tea=1)), ""),
        (Named, Named("x"), ""),
        (datetime, datetime(2026, 10, 25, 2, 30, fold=1), ""),  # noqa: DTZ001  (a naive one)
        (datetime, REPEATED, ""),
        (time, time(2, 30, fold=1), ""),
        (Item, {"at": date(2026, 1, 1), "more": 1}, "at"),
        (Item | None, {"at": date(2026, 1, 1), "more": 1}, "at"),
        (Later, {"at": date(2026, 1, 1), "more": 1}, "at"),
        (tuple[Any, ApiKey], ((1,), ApiKey(secret=SecretStr("s3cr3t"))), "1.secret"),
        (frozenset[Coin], frozenset({Coin(id="1"), Coin(id="2", note="x")}), "1.note"),
        (type(SCOPED), SCOPED, "pair.0.secret"),
        (Decimal | int, Lying(0.1), ""),
        (Labelled, labelled(colour="red"), ""),
        (list[Any] | list[ApiKey], [ApiKey(secret=SecretStr("s3cr3t"))], "0"),
        (Sequence[object] | Sequence[ApiKey], [ApiKey(secret=SecretStr("s3cr3t"))], "0"),
        (dict | dict[str, ApiKey], {"a": ApiKey(secret=SecretStr("s3cr3t"))}, "a"),
    ],
)
def test_what_would_come_back_different(annotation: object, value: object, path: str) -> None:
    """Another class, a lost field, a mask: at the place where it is."""
    different, _ = compared(annotation, value)
    assert isinstance(different, Difference)
    assert different.path == path


@pytest.mark.parametrize(
    ("annotation", "value", "path", "returned", "loaded"),
    [
        (Any, (1, 2), "", "tuple", "list"),
        (Any, {"at": NOON}, "at", "datetime.datetime", "str"),
        (Any, {"raw": b"r-1"}, "raw", "bytes", "str"),
        (Any, {"at": Point(1, 2)}, "at", f"{__name__}.Point", "list"),
        (dict, {"lines": [{1: "a"}]}, "lines.0.1", "int", "str"),
        (dict[str, Any], {"ids": {1}}, "ids", "set", "list"),
        (Total, Total("x", NOON, more={"at": (1,)}), "more.at", "tuple", "list"),
        (Item, {"at": "x", "more": (1,)}, "more", "tuple", "list"),
        (Loose, Loose(more=Decimal("4.50")), "more", "decimal.Decimal", "str"),
    ],
)
def test_json_s_form_of_what_has_no_type(
    annotation: object, value: object, path: str, returned: str, loaded: str
) -> None:
    """It is a change that is worth a line; nothing that was declared is broken."""
    different, back = compared(annotation, value)
    assert different is None
    assert codec_for(annotation).difference(value, back, untyped=True) == Difference(path, returned, loaded)


@pytest.mark.parametrize("untyped", [False, True])
def test_a_codec_is_the_developers_word(untyped: bool) -> None:
    """What ``codec=`` reads is not compared."""
    codec = codec_by(int, str)
    assert codec.difference(5.0, codec.load(codec.dump(5.0)), untyped=untyped) is None


class Bag:
    """Of a class of which nothing is known."""

    def __init__(self, held: object) -> None:
        self.held = held


class Slotted:
    """What it holds is in slots, one of them empty."""

    __slots__ = ("__held", "empty")

    def __init__(self, held: object) -> None:
        self.__held = held


class SlottedBag(Slotted):
    """It has attributes, too."""

    def __init__(self, held: object, more: object) -> None:
        super().__init__(held)
        self.more = more


class EqualBag(Bag):
    """It says itself what is equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualBag) and self.held == other.held

    __hash__ = None  # type: ignore[assignment]


Alias = typing_extensions.TypeAliasType("Alias", list[int])
K = TypeVar("K")
Listed = typing_extensions.TypeAliasType("Listed", Sequence[T], type_params=(T,))
Inverted = typing_extensions.TypeAliasType("Inverted", Mapping[T, K], type_params=(K, T))
Maybe = typing_extensions.TypeAliasType("Maybe", T | None, type_params=(T,))
Itself = typing_extensions.TypeAliasType("Itself", T, type_params=(T,))
Phantom = typing_extensions.TypeAliasType("Phantom", Sequence[int], type_params=(T,))


@pytest.mark.parametrize(
    ("annotation", "returned", "loaded", "path"),
    [
        (Bag, Bag([1, nan]), Bag([1, nan]), None),
        (Bag, Bag([1, 2]), Bag([1, 3]), "held.1"),
        (Slotted, Slotted([1, nan]), Slotted([1, nan]), None),
        (Slotted, Slotted([1, 2]), Slotted([1, 3]), "_Slotted__held.1"),
        (SlottedBag, SlottedBag([1], 2), SlottedBag([1], 2), None),
        (SlottedBag, SlottedBag([1], 2), SlottedBag([1.0], 2), "_Slotted__held.0"),
        (SlottedBag, SlottedBag([1], 2), SlottedBag([1], 3), "more"),
        (EqualBag, EqualBag(1), EqualBag(1.0), None),
        (EqualBag, EqualBag(nan), EqualBag(nan), ""),
        (dict[str, int], {"a": 1}, {"b": 1}, ""),
        (dict[str, int], {"a": 1}, {"a": 1, "b": 1}, ""),
        (list[Decimal], [Decimal("1.0")], [Decimal("1.00")], "0"),
        (Alias, [1, 2], (1, 2), ""),
        (typing_extensions.ReadOnly[Sequence[int]], (1, 2), [1, 2], None),
        (typing_extensions.NotRequired[Alias], (1, 2), [1, 2], ""),
        (Listed[int], (1, 2), [1, 2], None),
        (Listed[int], (1, 2), [1, 3], "1"),
        (Maybe[Listed[int]], (1, 2), [1, 2], None),
        (Maybe[Alias], (1, 2), [1, 2], ""),
        (Inverted[Listed[int], str], {"a": (1, 2)}, {"a": [1, 2]}, None),
        (Itself[Sequence[int]], (1, 2), [1, 2], None),
        (Phantom[str], (1, 2), [1, 2], None),
        (Sequence[Paid], [Paid("1", 5)], [Paid("1", 5.0)], None),
        (Sequence[Paid], {"1": 5}, ["1"], ""),
        (Mapping[str, int], {"1": 5}, {"1": 5.0}, "1"),
        ("Unknown", (1,), [1], ""),
        (int, LyingWhole(5), 5, None),
        (int, LyingWhole(5), 6, ""),
        (float, Lying(0.5), 0.25, ""),
        (float, Lying(nan), nan, None),
    ],
)
def test_two_values_that_differ_or_do_not(
    annotation: Any, returned: object, loaded: object, path: str | None
) -> None:
    """Whatever made them."""
    different = difference(annotation, returned, loaded)
    assert (different and different.path) == path


# -- how long it takes


class Counted:
    """How many values of `Part` were read, and compared by ``==``."""

    reads = 0


@dataclass(frozen=True, eq=False)
class Part:
    """Equal to itself alone."""

    value: str

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            Counted.reads += 1
        return object.__getattribute__(self, name)


@dataclass
class Tree:
    part: Part
    inner: list[Tree]


def tree(size: int) -> Tree:
    """Return a tree of *size* nodes, each with two below it."""
    nodes = [Tree(Part(str(number)), []) for number in range(size)]
    for number, node in enumerate(nodes[1:], 1):
        nodes[(number - 1) // 2].inner.append(node)
    return nodes[0]


def nested(size: int) -> tuple[Any, Any]:
    """Return *size* parts in lists, each in a union of two that may be it."""
    annotation: Any = Part | int
    for _ in range(6):
        annotation = list[annotation] | Sequence[annotation] | None
    value: Any = [Part(str(number)) for number in range(size)]
    for _ in range(5):
        value = [value]
    return annotation, value


SIZED: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "set": lambda size: (set[Part], {Part(str(number)) for number in range(size)}),
    "set of tuples": lambda size: (
        frozenset[tuple[Part, int]],
        frozenset((Part(str(number)), number) for number in range(size)),
    ),
    "names": lambda size: (dict[Part, int], {Part(str(number)): number for number in range(size)}),
    "tree": lambda size: (Tree, tree(size)),
    "unions": nested,
}


def reads_to_compare(kind: str, size: int) -> int:
    """Return how many fields are read to compare a value of *size* parts with an equal one."""
    annotation, returned = SIZED[kind](size)
    _, loaded = SIZED[kind](size)
    Counted.reads = 0
    assert difference(annotation, returned, loaded) is None
    return Counted.reads


@pytest.mark.parametrize("kind", SIZED)
def test_a_comparison_is_linear(kind: str) -> None:
    """The token waits for it: four times the parts cost four times the reads."""
    assert reads_to_compare(kind, 160) == 4 * reads_to_compare(kind, 40) > 0


@pytest.mark.parametrize("most", [(MOST_PARTS - 1,), (1, (MOST_PARTS - 2) // 2)])
def test_too_many_parts_are_not_compared(most: tuple[int, ...]) -> None:
    """Neither many in one list nor many in all, and the reason says how many are."""
    annotation: Any = Decimal
    for _ in most:
        annotation = list[annotation]

    def filled(more: int) -> Any:
        rows = [[Decimal(1)] * (size + more) for size in (most[-1:] * (2 if len(most) > 1 else 1))]
        return rows if len(most) > 1 else rows[0]

    assert difference(annotation, filled(-1), filled(-1)) is None
    with pytest.raises(NotSerialisable, match=r"more than 50,000 parts"):
        difference(annotation, filled(+1), filled(+1))


def test_a_late_comparison_ends() -> None:
    """It looks each 1,000 parts, so a short one always ends well."""
    looks: list[int] = []

    def is_late() -> bool:
        looks.append(1)
        return len(looks) == 3

    one, other = ([Decimal(each) for each in range(2_999)] for _ in range(2))
    assert difference(list[Decimal], one[:2_998], other[:2_998], is_late) is None
    looks.clear()
    with pytest.raises(NotSerialisable, match="in time"):
        difference(list[Decimal], one, other, is_late)


def test_what_raises_when_compared_is_different() -> None:
    """A property or ``==`` of the user's."""

    class Raising(Order):
        def __getattribute__(self, name: str) -> Any:
            if name == "id" and broken:
                raise RuntimeError
            return super().__getattribute__(name)

    broken = False
    codec = codec_for(Raising)
    value = Raising(id=1)
    loaded = codec.load(codec.dump(value))
    broken = True
    different = codec.difference(value, loaded)
    assert isinstance(different, Difference)


MARKED = st.text("\0ab", min_size=1, max_size=3)
NAMES = st.one_of(st.text(max_size=3), MARKED.map(lambda end: f"\0{end}"), st.just("\0decimal"))
NUMBERS = st.integers() | st.floats() | st.decimals(allow_nan=False)
LEAVES = st.none() | st.booleans() | st.text() | NUMBERS
JSON = st.recursive(
    LEAVES, lambda part: st.lists(part, max_size=3) | st.dictionaries(NAMES, part, max_size=3)
)


@given(JSON)
def test_untyped_results_come_back(value: object) -> None:
    """JSON and Decimals, whatever the names look like."""
    codec = codec_for(Any)
    loaded = codec.load(codec.dump(value))
    assert codec.difference(value, loaded, untyped=True) is None
    assert repr(loaded) == repr(value)


SCALARS = [
    (int, st.integers()),
    (str, st.text()),
    (float, st.floats()),
    (float, st.integers(-(2**53), 2**53)),  # equal, of another text: a NaN beside it would be neither
    (bytes, st.binary()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (datetime, st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(fold=0))),
    (date, st.dates()),
    (UUID, st.uuids()),
    (Order, st.builds(Order, id=st.integers())),
    (Paid, st.builds(Paid, id=st.text(), cents=st.floats())),
    (Raw, st.builds(Raw, content=st.binary())),
]
CONTAINERS: list[Any] = [
    lambda kind, part: (GenericAlias(list, (kind,)), st.lists(part, max_size=3)),
    lambda kind, part: (GenericAlias(tuple, (kind, ...)), st.lists(part, max_size=3).map(tuple)),
    lambda kind, part: (
        GenericAlias(dict, (str, kind)),
        st.dictionaries(st.text(max_size=3), part, max_size=3),
    ),
    lambda kind, part: (kind | None, st.none() | part),
]


@given(st.data())
def test_typed_results_come_back(data: st.DataObject) -> None:
    """Values of a drawn type are equal to what comes back, or the difference is found."""
    kind, values = data.draw(st.sampled_from(SCALARS))
    for _ in range(data.draw(st.integers(0, 2))):
        kind, values = data.draw(st.sampled_from(CONTAINERS))(kind, values)
    value = data.draw(values)
    different, loaded = compared(kind, value)
    assert different is None
    assert repr(loaded) == repr(value) or loaded == value


@pytest.mark.parametrize("annotation", [partial, 5])
def test_a_type_without_an_adapter_has_a_reason(annotation: object) -> None:
    """It is plain JSON, and not in silence."""
    codec = Codec(annotation)
    assert codec.load(codec.dump({"a": 1})) == {"a": 1}
    assert codec.problem is not None
