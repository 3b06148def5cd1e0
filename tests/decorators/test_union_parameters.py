"""A parameter that is a union of classes: which of them an argument is counts, as in a field of a model."""

# ruff: noqa: D103  (signatures are what is tested here)

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from lambda_once import KeyReused
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig, in_memory

if TYPE_CHECKING:
    from decimal import Context as NotThere

pytestmark = in_memory


class Created(BaseModel):
    order: int


class Cancelled(BaseModel):
    order: int


class Amended(Cancelled):
    pass


@dataclass
class Paid:
    order: int


@dataclass
class Refunded:
    order: int


class Opened(BaseModel):
    kind: Literal["opened"] = "opened"


class Closed(BaseModel):
    kind: Literal["closed"] = "closed"


Change = Created | Cancelled


class Shop:
    def apply(self, change: Change) -> None: ...

    def __call__(self, change: Change) -> None: ...


def of_union(change: Created | Cancelled) -> None: ...


def of_alias(change: Change) -> None: ...


def of_an_optional(change: Change | None = None) -> None: ...


def of_text(change: "Created | Cancelled") -> None: ...  # noqa: UP037  (twice a text)


def of_more(change: Change | dict[str, Any], elsewhere: NotThere | None = None) -> None: ...


def of_a_keyword(*, change: Change) -> None: ...


def of_keywords(**changes: Change) -> None: ...


def of_several(*changes: Change) -> None: ...


def of_a_list(changes: list[Change]) -> None: ...


async def awaited(change: Change) -> None: ...


UNIONS: dict[str, tuple[Callable[..., Any], Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]]] = {
    "a union": (of_union, lambda change: ((change,), {})),
    "an alias": (of_alias, lambda change: ((change,), {})),
    "an optional": (of_an_optional, lambda change: ((change,), {})),
    "a text": (of_text, lambda change: ((change,), {})),
    "beside a name that isn't there": (of_more, lambda change: ((change,), {})),
    "a keyword": (of_a_keyword, lambda change: ((), {"change": change})),
    "keywords": (of_keywords, lambda change: ((), {"first": change})),
    "several": (of_several, lambda change: ((change, change), {})),
    "a list": (of_a_list, lambda change: (([change],), {})),
    "a partial": (partial(of_union), lambda change: ((change,), {})),
    "a bound method": (Shop().apply, lambda change: ((change,), {})),
    "an object": (Shop(), lambda change: ((change,), {})),
}


@pytest.mark.parametrize("form", UNIONS)
@pytest.mark.parametrize("kinds", [(Created, Cancelled), (Cancelled, Amended)])
def test_the_class_of_an_argument_is_the_key(rig: Rig, form: str, kinds: tuple[Any, Any]) -> None:
    """An order that was created and one that was cancelled are two pieces of work, each done once."""
    function, given = UNIONS[form]
    work = rig.once.function(name="apply")(function)
    for kind in (*kinds, *kinds):
        args, kwargs = given(kind(order=5))
        work(*args, **kwargs)
    assert len(rig.rows()) == 2


@pytest.mark.parametrize("form", UNIONS)
def test_the_class_of_an_argument_is_compared(rig: Rig, form: str) -> None:
    """Under ``key=``, and of `once.run`, another one is KeyReused."""
    function, given = UNIONS[form]
    for kind in (Created, Created):
        args, kwargs = given(kind(order=5))
        rig.once.run("apply", "5", function, *args, **kwargs)
    args, kwargs = given(Cancelled(order=5))
    with pytest.raises(KeyReused, match=r"different: (change|changes|first)\b"):
        rig.once.run("apply", "5", function, *args, **kwargs)
    assert len(rig.rows()) == 1


def test_a_coroutine_function_and_dataclasses(rig: Rig) -> None:
    """As elsewhere."""
    work = rig.once.function(name="apply")(awaited)
    asyncio.run(work(Created(order=5)))
    asyncio.run(work(Cancelled(order=5)))

    def pay(order: Paid | Refunded) -> None: ...

    both = rig.once.function(name="pay")(pay)
    both(Paid(5))
    both(Refunded(5))
    assert len(rig.rows()) == 4


def test_beside_a_record(rig: Rig) -> None:
    """Which counts as its source has it."""

    def work(change: Change, record: dict[str, Any]) -> None: ...

    both = rig.once.function(name="apply")(work)
    for kind in (Created, Cancelled, Created):
        both(kind(order=5), sqs_event("a")["Records"][0])
    assert len(rig.rows()) == 2


def test_what_is_no_union_counts_as_before(rig: Rig) -> None:
    """One class, a discriminated union, no type at all: a model is the dict of its fields."""

    def one(change: Created) -> None: ...

    def told(change: Annotated[Opened | Closed, Field(discriminator="kind")]) -> None: ...

    def absent(change: NotThere | Created) -> None: ...

    def mapping(change: Created | dict[str, Any]) -> None: ...

    def bare(change) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  (what is tested)

    for function, model in (
        (one, Created(order=5)),
        (told, Opened()),
        (absent, Created(order=5)),
        (mapping, Created(order=5)),
        (bare, Created(order=5)),
    ):
        work: Any = rig.once.function(name=function.__name__)(function)
        work(model)
        work(model.model_dump())
    assert len(rig.rows()) == 5


def test_expressions_and_ignore_see_the_class(rig: Rig) -> None:
    """Under the name that a field has."""
    by_class = rig.once.function(name="a", key='[change.order, change."@class"]')(of_union)
    by_class(Created(order=5))
    by_class(Cancelled(order=5))
    assert len(rig.rows()) == 2
    without = rig.once.function(name="b", ignore=("change.@class",))(of_union)
    without(Created(order=5))
    without(Cancelled(order=5))
    assert len(rig.rows()) == 3


def test_a_class_that_is_defined_later_counts(rig: Rig) -> None:
    """Annotations are evaluated at the first call, not when it's decorated."""
    names: dict[str, Any] = {"once": rig.once, "BaseModel": BaseModel}
    source = (
        "from __future__ import annotations\n"
        "@once.function(name='apply')\ndef apply(change: A | B): ...\n"
        "class A(BaseModel):\n    order: int\nclass B(BaseModel):\n    order: int\n"
    )
    exec(source, names)
    for kind in (names["A"], names["B"], names["A"]):
        names["apply"](kind(order=5))
    assert len(rig.rows()) == 2
