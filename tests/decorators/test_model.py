"""``model=`` is checked by its kind where it is given, and a `TypeAdapter` is as good as its type."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NewType

import pytest
from aws_lambda_powertools.utilities.parser.models import (
    EventBridgeModel,
    KinesisDataStreamModel,
    S3Model,
    SqsModel,
    SqsRecordModel,
)
from pydantic import BaseModel, Field, Json, TypeAdapter
from typing_extensions import TypeAliasType, TypedDict

from lambda_once import Misconfigured
from lambda_once.integrations import private
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig, in_memory
from tests.decorators.sources_table import RECORD_DECORATORS

pytestmark = in_memory


class Order(BaseModel):
    id: int


class Refund(BaseModel):
    refund: int


class Row(TypedDict):
    id: int


class OrderRecord(SqsRecordModel):
    body: Json[Order]


Number = NewType("Number", int)
Orders = TypeAliasType("Orders", list[Order])
Tree = TypeAliasType("Tree", "dict[str, Tree] | int")
Records = TypeAliasType("Records", list[OrderRecord] | None)


def _of(_found: object) -> None: ...


@pytest.mark.parametrize(
    "model",
    [
        *(Order, Row, dict, Any, Number, Orders, Tree, Order | None, list[Order], Literal["a"]),
        *(Annotated[Order | Refund, Field()], TypeAdapter(Order), TypeAdapter(Order | Refund)),
        S3Model,  # the body, if S3 sends to a queue
    ],
    ids=str,
)
@pytest.mark.parametrize("decorator", RECORD_DECORATORS)
def test_a_type_is_taken(rig: Rig, decorator: str, model: object) -> None:
    """Every kind that pydantic makes an adapter of."""
    getattr(rig.once, decorator)(name="ship", model=model)(_of)


def test_no_adapter_is_made_when_decorated(rig: Rig) -> None:
    """What it names may be defined below."""
    rig.once.sqs(model=list["DefinedBelow"])(_of)  # type: ignore[name-defined]  # noqa: F821  (what is tested)


@pytest.mark.parametrize("model", ["Order", Order(id=1), object(), 5, _of, [Order], (Order, Refund)])
def test_what_is_no_type_is_refused(rig: Rig, model: object) -> None:
    """Each record would fail: a first deployment would send its whole queue to the dead letters."""
    with pytest.raises(Misconfigured, match=r"^model=.*give a type"):
        rig.once.sqs(model=model)


@pytest.mark.parametrize(
    "model",
    [
        *(OrderRecord, SqsRecordModel, SqsModel, KinesisDataStreamModel, EventBridgeModel),
        *(list[OrderRecord], OrderRecord | None, Annotated[OrderRecord | Order, Field()], Records),
        *(TypeAdapter(OrderRecord), TypeAdapter(list[OrderRecord]), NewType("Mine", OrderRecord)),
    ],
    ids=str,
)
def test_a_model_of_what_is_around_the_body_is_refused(rig: Rig, model: object) -> None:
    """Powertools' models of a record or event have its fields, and the body has none of them."""
    with pytest.raises(Misconfigured, match="model= is for the body"):
        rig.once.sqs(model=model)


def test_an_adapter_that_does_not_tell_its_type(rig: Rig) -> None:
    """Of a version of pydantic that we don't know: it is taken, whatever it is of."""
    private._changed.cache_clear()
    adapter = TypeAdapter(OrderRecord)
    del adapter._type
    with pytest.warns(RuntimeWarning, match="TypeAdapter of the installed pydantic"):
        rig.once.sqs(model=adapter)


def test_an_adapter_is_as_good_as_its_type(rig: Rig) -> None:
    """It validates, and names the type of what does not fit."""
    seen: list[object] = []
    handler = rig.once.sqs(key="id", model=TypeAdapter(Order), raise_on_entire_batch_failure=False)(
        seen.append
    )
    assert handler(sqs_event({"id": 1}), rig.context()) == {"batchItemFailures": []}
    assert seen == [Order(id=1)]
    assert len(handler(sqs_event({"id": "?"}), rig.context())["batchItemFailures"]) == 1
    assert str(rig.reported[-1].reason).startswith("the payload is not a valid Order: id")
