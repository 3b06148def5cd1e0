"""The return annotation restores types, whatever else the signature says."""

# ruff: noqa: D103  (annotations are what is tested here)

from __future__ import annotations

import asyncio
import functools
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from lambda_once import MemoryStore, Misconfigured, Once
from tests.decorators.rig import Rig, in_memory

if TYPE_CHECKING:
    from nowhere import Context, Hidden  # type: ignore[import-not-found]


@dataclass(frozen=True)
class Receipt:
    id: str
    total: Decimal


RECEIPT = Receipt("r-1", Decimal("9.90"))


@in_memory
def test_a_parameter_that_only_type_checkers_know(rig: Rig) -> None:
    """It changes nothing: both calls give the type."""

    @rig.once.event(key="id", returns=Receipt)
    def handler(event: dict[str, Any], context: Context) -> Any:
        return RECEIPT

    @rig.once.function(key="n")
    def money(n: int, ctx: Context | None = None) -> Decimal:
        return Decimal("9.90")

    for _ in range(2):
        assert handler({"id": 1}, rig.context()) == RECEIPT
        assert money(1) == Decimal("9.90")
        assert isinstance(money(1), Decimal)


class Till:
    """An object that is called."""

    total: Decimal

    def __call__(self, n: int) -> Receipt:
        return Receipt(f"r-{n}", Decimal("9.90"))


class AsyncTill:
    async def __call__(self, n: int) -> list[Receipt]:
        return [Receipt(f"r-{n}", Decimal("9.90"))]


@in_memory
@pytest.mark.parametrize("wrapped", [lambda till: till, functools.partial], ids=["object", "partial"])
def test_an_object_that_is_called(rig: Rig, wrapped: Any) -> None:
    """Its ``__call__`` declares the type."""
    buy = rig.once.function(name="buy")(wrapped(Till()))
    buy_many = rig.once.function(name="buy-many")(wrapped(AsyncTill()))
    for _ in range(2):
        assert buy(1) == RECEIPT
        assert asyncio.run(buy_many(1)) == [RECEIPT]


def unresolvable() -> Hidden:
    raise NotImplementedError


def nested() -> list[Hidden] | None:
    raise NotImplementedError


async def asynchronous(event: Any) -> Hidden:
    raise NotImplementedError


class Called:
    def __call__(self) -> Hidden:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (unresolvable, "unresolvable"),
        (nested, "nested"),
        (asynchronous, "asynchronous"),
        (Called(), r"Called\.__call__"),
    ],
)
def test_an_annotation_that_cannot_be_resolved(function: Any, name: str) -> None:
    """It is refused when decorated, never dropped; ``returns=`` says what is meant."""
    once = Once(store=MemoryStore())
    with pytest.raises(Misconfigured, match=rf"return annotation of {name}, .*Hidden is not defined"):
        once.function(name="work")(function)
    once.function(name="work", returns=Receipt)(function)
    once.function(name="work", returns=Any)(function)


@dataclass
class Parcel:
    id: str
    receipt: Hidden


@dataclass
class Heavy(Parcel):
    weight: int


@dataclass
class Crate:
    parcels: list[Parcel | None]


@pytest.mark.parametrize(
    "returns", [Parcel, Heavy, Crate, list[Crate], dict[str, Parcel] | None, Annotated[Crate, 1], "Crate"]
)
@pytest.mark.parametrize("pydantic", [True, False])
def test_a_field_that_cannot_be_resolved(
    returns: Any, pydantic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dataclass with such a field is refused when decorated, by the field's name: it would be a dict."""
    if not pydantic:
        monkeypatch.setitem(sys.modules, "pydantic", None)
    once = Once(store=MemoryStore())
    with pytest.raises(
        Misconfigured, match=r"type of field Parcel\.receipt, Hidden, .*Hidden is not defined"
    ):
        once.function(returns=returns)(crate)
    with pytest.raises(Misconfigured, match=r"field Parcel\.receipt"):
        once.begin("k", name="work", returns=returns)
    with pytest.raises(Misconfigured, match=r"field Parcel\.receipt"):
        once.event(returns=returns)(crate)
    once.function(returns=Any)(crate)


def crate(event: Any) -> Crate:
    raise NotImplementedError


def test_an_annotation_of_a_handler_plays_no_part() -> None:
    """Lambda gets JSON, so it's not even resolved."""
    Once(store=MemoryStore()).event(asynchronous)
    Once(store=MemoryStore()).event(crate)


@in_memory
@pytest.mark.parametrize("returns", ["Receipt", "Receipt | None", list["Receipt"] | Receipt])
def test_returns_may_be_text(rig: Rig, returns: Any) -> None:
    """Text and forward references are read where the function is defined."""

    @rig.once.function(returns=returns)
    def buy(n: int) -> Any:
        return RECEIPT

    assert buy(1) == buy(1) == RECEIPT


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type statements are of Python 3.12")
@pytest.mark.parametrize("returns", ["Named", "Named | None", "Generic[int]"])
def test_a_type_statement_that_cannot_be_resolved(returns: str) -> None:
    """Its value is evaluated when it is asked for: it is refused when decorated, too."""
    names: dict[str, Any] = {}
    exec("type Named = list[Hidden]; type Generic[T] = dict[T, Hidden]", names)
    annotation = eval(returns, names)
    with pytest.raises(Misconfigured, match=r"cannot be resolved \(Hidden is not defined\)"):
        Once(store=MemoryStore()).function(returns=annotation)(len)


@pytest.mark.parametrize("returns", ["Hidden", list["Hidden"], "Receipt |"])
def test_returns_that_cannot_be_resolved(returns: Any) -> None:
    """It is refused when decorated, and by `begin`."""
    once = Once(store=MemoryStore())
    with pytest.raises(Misconfigured, match=r"returns=, .*, cannot be resolved"):
        once.function(returns=returns)(len)
    with pytest.raises(Misconfigured, match=r"returns=, .*, cannot be resolved"):
        once.begin("k", name="work", returns=returns)


@in_memory
def test_begin_resolves_where_it_is_called(rig: Rig) -> None:
    """``returns=`` of `begin` may be text, too."""
    for _ in range(2):
        with rig.once.begin("k", name="work", returns="Receipt") as attempt:
            assert (attempt.result if attempt.replayed else attempt.complete(RECEIPT)) == RECEIPT


@in_memory
def test_a_class_of_the_enclosing_function(rig: Rig) -> None:
    """A name that the function uses of its surroundings is known."""

    @dataclass
    class Local:
        total: Decimal

    @rig.once.function
    def buy(n: int) -> Local:
        return Local(Decimal(n))

    assert buy(1) == buy(1) == Local(Decimal(1))


@in_memory
def test_what_wraps_a_function_keeps_its_type(rig: Rig) -> None:
    """The annotation is read in the module of the wrapped function."""

    def wrapper(function: Any) -> Any:
        wraps = functools.wraps(function)
        namespace: dict[str, Any] = {"function": function}
        exec("def inner(*args, **kwargs): return function(*args, **kwargs)", namespace)
        return wraps(namespace["inner"])

    @rig.once.function
    @wrapper
    def buy(n: int) -> Receipt:
        return RECEIPT

    assert buy(1) == buy(1) == RECEIPT
