"""`once.function`: functions and methods, plain and async."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from lambda_once import KeyReused, Misconfigured
from tests.decorators.rig import Rig, in_memory


@dataclass(frozen=True)
class Order:
    id: int
    total: Decimal
    at: datetime


class Receipt(BaseModel):
    order: int
    amount: Decimal


ORDER = Order(5, Decimal("49.90"), datetime(2026, 11, 20, tzinfo=UTC))


class Opaque:
    """An argument without canonical form."""


def test_equal_arguments_are_one_call(rig: Rig) -> None:
    """Arguments count by name and value, however they are passed."""
    seen: list[tuple[int, str]] = []

    @rig.once.function
    def charge(order: int, currency: str = "EUR") -> dict[str, int]:
        """Charge an order."""
        seen.append((order, currency))
        return {"run": len(seen)}

    assert charge(5) == charge(order=5) == charge(5, "EUR") == {"run": 1}
    assert charge(5, currency="CHF") == {"run": 2}
    assert charge.__name__ == "charge"
    assert charge.__doc__ == "Charge an order."
    assert list(inspect.signature(charge).parameters) == ["order", "currency"]


def test_a_key_over_the_bound_arguments(rig: Rig) -> None:
    """key= selects from the arguments by name; other arguments are the fingerprint."""

    @rig.once.function(key="order.id")
    def charge(order: Order, *, note: str = "") -> int:
        return order.id

    assert charge(ORDER) == 5
    assert rig.row().token.endswith("/" + rig.row().token.rpartition("/")[2])
    with pytest.raises(KeyReused):
        charge(ORDER, note="again")


def test_typed_arguments_and_results(rig: Rig) -> None:
    """Dataclasses and models are canonical as arguments, and come back typed as results."""
    runs: list[int] = []

    @rig.once.function
    def charge(order: Order) -> Receipt:
        runs.append(order.id)
        return Receipt(order=order.id, amount=order.total)

    @rig.once.function
    def copy(receipt: Receipt) -> Order:
        return ORDER

    first, second = charge(ORDER), charge(Order(5, Decimal("49.90"), ORDER.at))
    assert first == second == Receipt(order=5, amount=Decimal("49.90"))
    assert runs == [5]
    assert copy(first) == copy(second) == ORDER


def test_an_async_function_stays_one(rig: Rig) -> None:
    """`async def` is awaited once, and its result replays."""
    runs: list[int] = []

    @rig.once.function
    async def charge(order: int) -> int:
        runs.append(order)
        await asyncio.to_thread(int)
        return 0

    assert inspect.iscoroutinefunction(charge)

    async def twice() -> list[int]:
        return [await charge(5), await charge(5)]

    assert asyncio.run(twice()) == [0, 0]
    assert runs == [5]


@in_memory
def test_a_method_needs_to_say_what_self_is(rig: Rig) -> None:
    """Without key= or scope= a method is refused when it is decorated."""
    with pytest.raises(Misconfigured, match="self is not part of the key"):

        class Tenant:
            @rig.once.function
            def charge(self, order: int) -> None: ...


@pytest.mark.parametrize(
    "options",
    [{"key": lambda self, order: [self.name, order]}, {"scope": lambda self, *_: self.name}],
    ids=["key", "scope"],
)
def test_a_callable_key_or_scope_gets_self(rig: Rig, options: Any) -> None:
    """It sees the arguments themselves; two tenants are two tokens."""

    class Tenant:
        def __init__(self, name: str) -> None:
            self.name = name
            self.runs = 0

        @rig.once.function(**options)
        def charge(self, order: int) -> str:
            self.runs += order
            return self.name

    acme, zenith = Tenant("acme"), Tenant("zenith")
    assert [acme.charge(5), acme.charge(5), zenith.charge(5)] == ["acme", "acme", "zenith"]
    assert (acme.runs, zenith.runs) == (5, 5)


def test_static_and_class_methods_stand_outside(rig: Rig) -> None:
    """Above the decorator they work; below it the error says so."""

    class Shop:
        @staticmethod
        @rig.once.function
        def charge(order: int) -> int:
            return order

        @classmethod
        @rig.once.function(key="order")
        def refund(cls, order: int) -> str:
            return f"{cls.__name__} {order}"

    assert (Shop.charge(5), Shop.refund(5)) == (5, "Shop 5")
    wrong: Any = staticmethod(lambda order: order)
    with pytest.raises(Misconfigured, match="outside"):
        rig.once.function(wrong)


def test_arguments_without_canonical_form(rig: Rig) -> None:
    """They are an error where they are the key, never a hash of an address; beside a key they may be."""
    runs: list[int] = []

    @rig.once.function
    def hashed(order: int, connection: Opaque) -> None:
        raise AssertionError

    @rig.once.function(key="order")
    def keyed(order: int, connection: Opaque) -> None:
        runs.append(order)

    with pytest.raises(Misconfigured):
        hashed(5, Opaque())
    keyed(5, Opaque())
    keyed(5, Opaque())
    assert runs == [5]


def test_work_that_has_not_begun_is_not_done(rig: Rig) -> None:
    """A plain function that hands back a coroutine is refused; its token does not say that it is done."""

    async def charge(order: int) -> int:
        return order

    @rig.once.function
    def handed_on(order: int) -> Any:
        return charge(order)

    with pytest.raises(Misconfigured, match="coroutine"):
        handed_on(5)
    assert rig.row().state.value == "released"


def test_names_tell_functions_apart(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default name is that of Lambda, module and function; name= replaces all of it."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "payments")

    @rig.once.function(key="order")
    def charge(order: int) -> None: ...

    @rig.once.function(key="order", name="shared")
    def other(order: int) -> None: ...

    charge(5)
    other(5)
    here = f"{__name__}.test_names_tell_functions_apart.%3Clocals%3E.charge"
    tokens = {row.token.replace(row.token.rpartition("/")[2], "") for row in rig.rows()}
    assert tokens == {f"shop/payments.{here}/", "shop/shared/"}


@pytest.mark.parametrize("fingerprint", ["order", False])
def test_the_fingerprint_can_be_narrowed(rig: Rig, fingerprint: Any) -> None:
    """fingerprint= counts less of the payload, or none of it."""

    @rig.once.function(key="id", fingerprint=fingerprint)
    def charge(id: int, order: int, note: str) -> str:  # noqa: A002
        return note

    assert charge(1, 5, "a") == charge(1, 5, "b") == "a"
    if fingerprint:
        with pytest.raises(KeyReused):
            charge(1, 6, "a")
    else:
        assert charge(1, 6, "a") == "a"


@in_memory
def test_wrong_arguments_are_a_type_error(rig: Rig) -> None:
    """A call that the function would refuse is refused, and leaves no token."""

    @rig.once.function
    def charge(order: int) -> None: ...

    wrong: Any = charge
    with pytest.raises(TypeError):
        wrong()
    assert rig.rows() == []
