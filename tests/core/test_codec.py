"""How results are written and read, by the type; what comes back different is in `test_differences`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import Decimal
from enum import Enum
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

import pydantic
import pytest
from typing_extensions import TypeAliasType

from lambda_once.core.codec import codec_by, codec_for, is_plain
from lambda_once.core.results import Corrupt, NotSerialisable
from lambda_once.errors import Misconfigured

NOON = datetime(2026, 11, 20, 12, 0, 0, 123_000, tzinfo=UTC)
Sku = NewType("Sku", str)
T = TypeVar("T")
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")
Tree = TypeAliasType("Tree", dict[str, "Tree"] | list["Tree"] | int)  # type: ignore[misc]  # it is recursive
Many = TypeAliasType("Many", list[T], type_params=(T,))


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Line:
    sku: Sku
    price: Decimal
    note: str | None = None


@dataclass
class Pair(Generic[T]):
    one: T
    more: list[T] | None = None


class Item(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    sku: str
    price: Decimal = pydantic.Field(serialization_alias="cost", validation_alias="amount")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        return f"{self.sku}!"


class Basket(pydantic.BaseModel):
    items: list[Item]
    placed: datetime
    parent: Optional[Basket] = None  # noqa: UP045  # users write it


class Broken(pydantic.BaseModel):
    a: int = 1

    @pydantic.model_serializer
    def refuse(self) -> dict[str, int]:
        raise LookupError


class Dictionary(TypedDict):
    id: str


def an_item() -> Item:
    """Build a model whose names differ on the way in and out."""
    return Item.model_validate({"sku": "a", "amount": "1.10"})


@pytest.mark.parametrize("annotation", [Item, list[Item], Line, int | None, set[int], bytes])
def test_none_is_null_for_every_annotation(annotation: object) -> None:
    """None comes back as None even where the annotation has no place for it."""
    assert codec_for(annotation).dump(None) == "null"
    assert codec_for(annotation).load("null") is None


@pytest.mark.parametrize("text", ["Köln", "日本", "\U0001f600", "\ud800", "\ud83d\ude00", "\0", '"\\'])
def test_any_text_is_written_in_utf_8(text: str) -> None:
    """Every string can be encoded once written, lone surrogates too, and reads the same each time."""
    codec = codec_for(str)
    written = codec.dump([text])
    written.encode()
    assert codec.load(written) == [text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")]


@pytest.mark.parametrize(("text", "number"), [("NaN", nan), ("Infinity", inf), ("-Infinity", -inf)])
def test_nan_and_infinity_are_written_as_json_does(text: str, number: float) -> None:
    """As Python's `json`, untyped and typed; a Decimal comes back as one."""
    for annotation, value in ((Any, {"score": number}), (dict, {"score": number}), (float, number)):
        assert text in codec_for(annotation).dump(value)
        assert repr(codec_for(annotation).round_trip(value)) == repr(value)
    assert codec_for(Any).dump({"score": number}) == f'{{"score":{text}}}'
    assert repr(codec_for(Any).round_trip(Decimal(text))) == repr(Decimal(text))


class Amount(Decimal):
    def __str__(self) -> str:
        return f"{super().__str__()} EUR"


def test_a_decimal_that_prints_more_than_its_digits_keeps_them() -> None:
    """What it prints is no number, and would not be read back."""
    found = codec_for(Any).round_trip([Amount("1.50")])
    assert repr(found) == "[Decimal('1.50')]"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Basket, Basket(items=[an_item()], placed=NOON, parent=Basket(items=[], placed=NOON))),
        (Optional[Item], an_item()),  # noqa: UP045  # users write it
        (List[Pair[Line]], [Pair(Line(Sku("a"), Decimal(3)), [Line(Sku("b"), Decimal("0.1"), "é")])]),  # noqa: UP006
    ],
)
def test_typed_results_come_back(annotation: object, value: object) -> None:
    """By the names of fields, whatever aliases, computed fields and forbidden extras they have."""
    codec = codec_for(annotation)
    assert codec.round_trip(value) == value
    assert codec.load(codec.dump(value)) == value


def test_a_dataclass_may_contain_itself() -> None:
    """Its own name is known in it, wherever it is defined."""

    @dataclass
    class Local:
        at: time
        next: Local | None = None

    chain = Local(time(1, 2), Local(time(1, 3)))
    assert codec_for(Local).round_trip(chain) == chain


def cycle() -> list[object]:
    """Return a list that contains itself."""
    found: list[object] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (Any, object(), "builtins.object"),
        (Any, {"a": [object()]}, "builtins.object"),
        (Any, {5: object()}, "builtins.object"),
        (list, cycle(), "list"),
        (Broken, Broken(), "Broken"),
        (Any, Broken(), "Broken"),
    ],
)
def test_what_cannot_be_written_is_refused(annotation: object, value: object, problem: str) -> None:
    """With its type, whatever a model of the user's raises: that is no error of the work."""
    with pytest.raises(NotSerialisable, match=problem):
        codec_for(annotation).dump(value)


def test_a_value_that_is_not_of_its_annotation_does_not_come_back() -> None:
    """A round trip raises NotSerialisable, a load Corrupt, and neither repeats the value."""
    codec = codec_for(Line)
    with pytest.raises(NotSerialisable, match=r"builtins\.dict"):
        codec.round_trip({"sku": "secret"})
    with pytest.raises(Corrupt) as raised:
        codec.load('{"sku":"secret"}')
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(("annotation", "text"), [(Line, "[]"), (tuple[int, str], "[1]"), (Any, "{")])
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
        (None, True),
        (Parameter.empty, True),
        (Dictionary, True),
        ("Unresolved", True),
        (Json, True),
        (Tree, True),
        (Many[int] | None, True),
        (Many[Decimal], False),
        (Literal[Colour.RED], False),
        (Annotated[Decimal, 1], False),
        (dict[int, str], False),
        (list[Line], False),
        (str | Decimal, False),
        (tuple[int, ...], False),
        (tuple, False),
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


@pytest.mark.parametrize("annotation", [Line, list[Line], Decimal, tuple[int, ...], int | Decimal, Colour])
def test_typed_results_need_pydantic(annotation: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it they are refused when the codec is made, with what to do; plain JSON needs nothing."""
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(
        Misconfigured, match=r"need pydantic: install lambda-once\[pydantic\], or pass returns=Any"
    ):
        codec_for(annotation)
    for plain in (Any, None, dict[str, Any], Dictionary, "Unresolved"):
        assert codec_for(plain).round_trip({"n": (1, 2)}) == {"n": [1, 2]}
