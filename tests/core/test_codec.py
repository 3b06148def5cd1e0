from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from inspect import Parameter
from math import inf, nan
from typing import (  # noqa: UP035  # users write Dict and List
    Annotated,
    Any,
    Dict,
    ForwardRef,
    Generic,
    List,
    Literal,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.core.codec import codec_by, codec_for, is_plain
from lambda_once.core.results import Corrupt, NotSerialisable
from lambda_once.errors import Misconfigured

NOON = datetime(2026, 11, 20, 12, 0, 0, 123_000, tzinfo=UTC)
SOME_UUID = UUID("12345678-1234-5678-1234-567812345678")
Sku = NewType("Sku", str)
Skus = NewType("Skus", list[Sku])
T = TypeVar("T")


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@dataclass(frozen=True, slots=True)
class Line:
    sku: Sku
    price: Decimal
    note: str | None = None


@dataclass(frozen=True)
class Refund:
    reason: Literal["late", "broken"]


@dataclass
class Order:
    id: UUID
    placed: datetime
    lines: list[Line]
    first: Line | None
    tags: frozenset[str]
    size: tuple[int, float]
    names: tuple[str, ...]
    by_number: dict[int, Line]
    colour: Colour
    level: Level
    due: date
    at: time
    lasts: timedelta
    seal: bytes
    either: Line | Refund
    weight: Annotated[float, "kg"]
    skus: Skus
    free: Any = None
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = len(self.lines)


def an_order() -> Order:
    """Build a dataclass with a field of every kind."""
    line = Line(Sku("a"), Decimal("1.10"), "é")
    return Order(
        id=SOME_UUID,
        placed=NOON,
        lines=[line],
        first=None,
        tags=frozenset({"x", "y"}),
        size=(1, 2.5),
        names=("n", "m"),
        by_number={7: line},
        colour=Colour.RED,
        level=Level.LOW,
        due=NOON.date(),
        at=time(1, 2),
        lasts=timedelta(seconds=1.5),
        seal=b"seal",
        either=Refund("late"),
        weight=1,
        skus=Skus([Sku("a")]),
        free={"a": [1]},
    )


class Item(pydantic.BaseModel):
    sku: str
    price: Decimal = pydantic.Field(serialization_alias="cost", validation_alias="amount")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        return f"{self.sku}!"


class Basket(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    items: list[Item]
    placed: datetime
    parent: Optional[Basket] = None  # noqa: UP045  # users write it


class Page(pydantic.BaseModel, Generic[T]):
    found: list[T]


@dataclass
class Pair(Generic[T]):
    one: T
    more: list[T] | None = None


@dataclass
class Measured:
    score: float
    samples: list[float]


class Ratio(pydantic.BaseModel):
    value: float


class Dictionary(TypedDict):
    id: str


def an_item() -> Item:
    """Build a model whose names differ on the way in and out."""
    return Item.model_validate({"sku": "a", "amount": "1.10"})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_json_comes_back(value: object) -> None:
    """A value that JSON can hold comes back equal, and of the same type."""
    back = codec_for(Any).round_trip(value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("value", [0, {}, [], "", False, None, 0.0])
@pytest.mark.parametrize("annotation", [Any, None, Parameter.empty, Dictionary, "Unresolved"])
def test_falsy_results_come_back(value: object, annotation: object) -> None:
    """Each falsy result comes back as itself, not as None."""
    back = codec_for(annotation).round_trip(value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("annotation", [Item, list[Item], Line, int | None, set[int], bytes])
def test_none_is_null_for_every_annotation(annotation: object) -> None:
    """None comes back as None even where the annotation has no place for it."""
    assert codec_for(annotation).dump(None) == "null"
    assert codec_for(annotation).load("null") is None


def test_untyped_values_come_back_in_their_plain_form() -> None:
    """Without an annotation, what JSON has no word for comes back as its plain form."""
    value = {
        "price": Decimal("1.5"),
        "at": NOON,
        "line": Line(Sku("a"), Decimal(2)),
        SOME_UUID: {3, 1},
        5: (1,),
    }
    assert codec_for(Any).round_trip(value) == {
        "price": 1.5,
        "at": "2026-11-20T12:00:00.123000+00:00",
        "line": {"sku": "a", "price": 2, "note": None},
        str(SOME_UUID): [1, 3],
        "5": [1],
    }


@pytest.mark.parametrize("text", ["Köln", "日本", "\U0001f600", "\ud800", "\ud83d\ude00", "\0", '"\\'])
def test_any_text_is_written_in_utf_8(text: str) -> None:
    """Every string can be encoded once written, lone surrogates too, and reads the same each time."""
    codec = codec_for(str)
    written = codec.dump([text])
    written.encode()
    assert codec.load(written) == [text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "builtins.object"),
        ({"a": [object()]}, "builtins.object"),
        ({SOME_UUID: object()}, "builtins.object"),
    ],
)
def test_what_json_cannot_write_is_refused(value: object, problem: str) -> None:
    """An object of another class raises NotSerialisable with its type."""
    with pytest.raises(NotSerialisable, match=problem):
        codec_for(Any).dump(value)


def test_cycles_are_refused() -> None:
    """A result that contains itself raises NotSerialisable."""
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(NotSerialisable, match="list"):
        codec_for(list).dump(cycle)


def test_an_error_of_the_result_itself_is_no_error_of_the_work() -> None:
    """Whatever a model raises while it is written is NotSerialisable."""

    class Broken(pydantic.BaseModel):
        a: int = 1

        @pydantic.model_serializer
        def refuse(self) -> dict[str, int]:
            raise LookupError

    for annotation in (Broken, Any):
        with pytest.raises(NotSerialisable, match="Broken"):
            codec_for(annotation).dump(Broken())


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, an_order()),
        (list[Order], [an_order()]),
        (dict[str, Line], {"a": Line(Sku("a"), Decimal("0.1000000000000000055"))}),
        (Line | None, Line(Sku("a"), Decimal(3))),
        (Optional[Line], Line(Sku("a"), Decimal(3))),  # noqa: UP045  # users write it
        (Line | Refund, Refund("broken")),
        (tuple[Line, ...], (Line(Sku("a"), Decimal(3)),)),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (frozenset[str], frozenset({"a"})),
        (tuple, (1, 2)),
        (Pair[Refund], Pair(Refund("late"), [Refund("broken")])),
        (list[Pair[int]], [Pair(1)]),
        (dict[int, str], {1: "a"}),
        (Decimal, Decimal("12345678901234567890.12")),
        (datetime, NOON),
        (UUID, SOME_UUID),
        (Colour, Colour.RED),
        (bytes, b"\xff\x00"),
        (Sequence[Refund], [Refund("late")]),
        (Mapping[str, Refund], {"a": Refund("late")}),
        (List[Refund], [Refund("late")]),  # noqa: UP006  # users write it
    ],
)
def test_typed_results_come_back_typed(annotation: object, value: object) -> None:
    """Dataclasses, nested and in collections, and single values come back equal and of their types."""
    back = codec_for(annotation).round_trip(value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Item, an_item()),
        (list[Item], [an_item()]),
        (Optional[Item], an_item()),  # noqa: UP045  # users write it
        (Basket, Basket(items=[an_item()], placed=NOON, parent=Basket(items=[], placed=NOON))),
        (Page[Item], Page[Item](found=[an_item()])),
        (dict[str, list[Item]], {"a": [an_item()]}),
    ],
)
def test_models_come_back_as_models(annotation: object, value: object) -> None:
    """Models of pydantic come back, with aliases, computed fields and forbidden extras."""
    codec = codec_for(annotation)
    assert codec.round_trip(value) == value
    assert codec.load(codec.dump(value)) == value


NOT_FINITE = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}


@pytest.mark.parametrize("text", NOT_FINITE)
def test_nan_and_infinity_come_back(text: str) -> None:
    """They are written as Python's `json` writes them, untyped and typed; a Decimal comes back as one."""
    number = NOT_FINITE[text]
    assert (
        codec_for(Any).dump({"score": number})
        == f'{{"score":{text}}}'
        == codec_for(dict).dump({"score": number})
    )
    for annotation, value in (
        (Any, [number]),
        (float, number),
        (dict[str, float], {"a": number}),
        (tuple[float, ...], (number,)),
        (Measured, Measured(number, [1.5, number])),
    ):
        codec = codec_for(annotation)
        assert repr(codec.round_trip(value)) == repr(value)
        assert text in codec.dump(value)
    assert repr(codec_for(Any).round_trip(Decimal(text))) == repr(Decimal(text))


@pytest.mark.parametrize("number", NOT_FINITE.values())
def test_nan_in_a_model_comes_back(number: float) -> None:
    """As NaN, where pydantic's own JSON has null."""
    assert repr(codec_for(Ratio).round_trip(Ratio(value=number))) == repr(Ratio(value=number))


def test_a_value_that_is_not_of_its_annotation_does_not_come_back() -> None:
    """A round trip raises NotSerialisable, a load Corrupt, and neither repeats the value."""
    codec = codec_for(Line)
    with pytest.raises(NotSerialisable, match=r"builtins\.dict"):
        codec.round_trip({"sku": "secret"})
    with pytest.raises(Corrupt) as raised:
        codec.load('{"sku":"secret"}')
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Line, "[]"),
        (Line | Refund, "1"),
        (tuple[int, str], "[1]"),
        (set[int], '["x"]'),
        (set[int], "{}"),
        (dict[int, int], '{"x":1}'),
        (Refund, '{"reason":"none"}'),
        (tuple[Refund, None], '[{"reason":"late"},1]'),
        (Colour, '"blue"'),
        (datetime, '"yesterday"'),
        (Any, "{"),
    ],
)
def test_what_does_not_fit_is_corrupt(annotation: object, text: str) -> None:
    """Stored JSON of another shape raises Corrupt."""
    with pytest.raises(Corrupt, match="does not fit"):
        codec_for(annotation).load(text)


def test_a_message_names_the_field_that_does_not_fit() -> None:
    """With what is wrong there, and never its value; of an error of the user's the class."""

    class Receipt(pydantic.BaseModel):
        order: int

    for text, wrong in (('{"order": "secret"}', "order (int_parsing)"), ("5", "the result (model_type)")):
        with pytest.raises(Corrupt, match=re.escape(f": {wrong}")) as raised:
            codec_for(Receipt).load(text)
        assert "secret" not in str(raised.value)
    with pytest.raises(Corrupt, match=r": ZeroDivisionError$"):
        codec_by(str, lambda _: 1 // 0).load('"secret"')


def test_what_nothing_can_describe_is_plain_json() -> None:
    """A class without a schema, or no type, gets plain JSON, so that a dict returned in its place replays."""

    class Response:
        pass

    for annotation in (Response, 7):
        assert codec_for(annotation).round_trip({"statusCode": 200}) == {"statusCode": 200}


def test_a_dataclass_may_contain_itself() -> None:
    """Its own name is known in it, wherever it is defined."""

    @dataclass
    class Node:
        at: date
        next: Node | None = None

    chain = Node(date(2026, 1, 2), Node(date(2026, 1, 3)))
    assert codec_for(Node).round_trip(chain) == chain


@pytest.mark.parametrize(
    ("annotation", "plain"),
    [
        (dict, True),
        (dict[str, Any], True),
        (dict[str, list[int | None]], True),
        (Dict, True),  # noqa: UP006  # users write it
        (Sequence, True),
        (Optional[str], True),  # noqa: UP045  # users write it
        (Literal["a", 1] | None, True),
        (Annotated[str, 1], True),
        (ForwardRef("X"), True),
        (T, True),
        (Literal[Colour.RED], False),
        (Annotated[Decimal, 1], False),
        (dict[int, str], False),
        (list[Line], False),
        (str | Decimal, False),
        (tuple[int, ...], False),
    ],
)
def test_plain_annotations_are_distinguished_from_typed_ones(annotation: object, plain: bool) -> None:
    """An annotation is plain when JSON comes back as it says."""
    assert is_plain(annotation) is plain


def test_a_pydantic_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused when the codec is made: later every result would be unavailable."""
    monkeypatch.setattr(pydantic, "VERSION", "2.10.6")
    with pytest.raises(Misconfigured, match=r"pydantic 2\.10\.6 cannot .* install pydantic 2\.11"):
        codec_for(Item)
    assert codec_for(dict).round_trip({"n": 1}) == {"n": 1}
    monkeypatch.setattr(pydantic, "VERSION", "2.11.0b1")
    item = Item.model_validate({"sku": "a", "amount": "1.5"})
    assert codec_for(Item).round_trip(item) == item


@pytest.mark.parametrize("annotation", [Line, list[Order], Decimal, tuple[int, ...], int | Decimal, Colour])
def test_typed_results_need_pydantic(annotation: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it they are refused when the codec is made, with what to do; plain JSON needs nothing."""
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(
        Misconfigured, match=r"need pydantic: install lambda-once\[pydantic\], or pass returns=Any"
    ):
        codec_for(annotation)
    for plain in (Any, None, dict[str, Any], Dictionary, "Unresolved"):
        assert codec_for(plain).round_trip({"n": (1, 2)}) == {"n": [1, 2]}
