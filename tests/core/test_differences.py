"""What of a result would come back different, by its declared type."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from functools import partial
from math import inf, nan
from types import GenericAlias
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from lambda_once.core.codec import Codec, codec_by, codec_for
from lambda_once.core.differences import Difference, Drained

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


@dataclass(eq=False)
class Identical:
    """Equals itself alone."""

    id: str


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


REPEATED = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def cached() -> Cached:
    """One whose private attribute is set."""
    found = Cached(id=1)
    found._seen.append(1)
    return found


def compared(annotation: object, value: object) -> tuple[Difference | Drained | None, Any]:
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
        (Raw, Raw(content=b"text")),
        (Raw, Raw(content=b"\xff\xfe")),
        (bytes, b"\xff"),
        (Sequence[int], (1, 2)),
        (list[int], (1, 2)),
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
        (datetime, REPEATED),
        (datetime, Frozen(2026, 1, 1, tzinfo=UTC)),
        (datetime, datetime(2026, 1, 1)),  # noqa: DTZ001  (a naive one)
        (timedelta, timedelta(seconds=1.5)),
        (Decimal, Decimal("4.50")),
        (Annotated[int, Field(gt=0)], 5),
        (bool | int, True),
        (Total, Total(State.PAID, NOON, (Order(id=1),), frozenset({"a"}), {"n": 1})),
        (list[Total], [Total("x", REPEATED)]),
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
    ],
)
def test_what_would_come_back_different(annotation: object, value: object, path: str) -> None:
    """Another class, a lost field, a mask: at the place where it is."""
    different, _ = compared(annotation, value)
    assert isinstance(different, Difference)
    assert (different.path, different.typed) == (path, True)


@pytest.mark.parametrize(
    ("annotation", "value", "path", "returned", "loaded"),
    [
        (Any, (1, 2), "", "tuple", "list"),
        (Any, {"at": NOON}, "at", "datetime.datetime", "str"),
        (dict, {"lines": [{1: "a"}]}, "lines.0.1", "int", "str"),
        (dict[str, Any], {"ids": {1}}, "ids", "set", "list"),
        (Total, Total("x", NOON, more={"at": (1,)}), "more.at", "tuple", "list"),
        (Item, {"at": date(2026, 1, 1), "more": 1}, "at", "datetime.date", "str"),
    ],
)
def test_json_s_form_of_what_has_no_type(
    annotation: object, value: object, path: str, returned: str, loaded: str
) -> None:
    """It is a change that is worth a line; nothing that was declared is broken."""
    assert compared(annotation, value)[0] == Difference(path, returned, loaded, typed=False)


def test_an_iterator_is_drained() -> None:
    """The first caller gets what is read back, for nothing is left in his own."""
    assert compared(Iterable[int], iter([1, 2]))[0] is Drained.DRAINED


def test_a_codec_is_the_developers_word() -> None:
    """What ``codec=`` reads is not compared."""
    codec = codec_by(int, str)
    assert codec.difference(5.0, codec.load(codec.dump(5.0))) is None


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
    assert different.typed


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
    different, loaded = compared(Any, value)
    assert different is None
    assert repr(loaded) == repr(value)


SCALARS = [
    (int, st.integers()),
    (str, st.text()),
    (float, st.floats()),
    (float, st.integers(-(2**53), 2**53)),  # equal, of another text: a NaN beside it would be neither
    (bytes, st.binary()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (datetime, st.datetimes(timezones=st.just(UTC))),
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
