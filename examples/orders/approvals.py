"""
Orders that wait for an approval, for days if need be: a durable execution, started by a queue.

* ``request`` starts the execution under a name that is the same for every attempt of the order, with a
  payload of the order alone: however often the message comes, Lambda starts one execution.
* ``approve`` is the execution. Whoever else starts one for the same order, by hand or from another queue,
  is refused while it waits, and gets its result afterwards.
* ``pay``, in a step of it, charges once, even if the step runs again after a crash.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from functools import cache
from typing import Any

import boto3
from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import CallbackConfig, Duration, StepConfig
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import HOLD, STORE, Once
from lambda_once.integrations.durable import retry_strategy

from .effects import EFFECTS
from .gateway import GATEWAY, CardDeclined, GatewayTimeout
from .settings import KEEP

TIMEOUT = timedelta(days=7)
"""That of the execution, in its DurableConfig."""
RETRIED = StepConfig(retry_strategy=retry_strategy)

logger = Logger()
once = Once(logger=logger)


@cache
def function_client() -> Any:
    """Return a client of Lambda."""
    return boto3.client("lambda")


@once.sqs(key="orderId", keep=KEEP)
def request(record: SQSRecord) -> str:
    """Ask for the approval of one order: ``{"orderId": ..., "card": ..., "amount": <cents>}``."""
    order = {name: record.json_body[name] for name in ("orderId", "card", "amount")}
    name = once.current().downstream_key()
    client = function_client()
    try:
        client.invoke(
            FunctionName=os.environ["APPROVALS_FUNCTION"],  # with a version or an alias
            InvocationType="Event",
            DurableExecutionName=name,
            Payload=json.dumps(order, sort_keys=True),
        )
    except client.exceptions.DurableExecutionAlreadyStartedException:
        logger.info("approval already started", extra={"order_id": order["orderId"]})
    return name


@once.function(key="order_id", keep=KEEP, on_error={GatewayTimeout: HOLD, CardDeclined: STORE})
def pay(order_id: str, card: str, amount: int) -> str:
    """Charge the card."""
    key = once.current().downstream_key("charge")
    return GATEWAY.charge(order_id, card, amount, idempotency_key=key).charge_id


def ask(order_id: str, callback: str) -> None:
    """Ask a person, who answers by SendDurableExecutionCallbackSuccess."""
    EFFECTS.add("asked", order_id)
    logger.info("approval asked for", extra={"order_id": order_id, "callback": callback})


@durable_execution
def approve(event: dict[str, Any], context: DurableContext) -> dict[str, object]:
    """Wait for the approval of one order, then charge it."""
    order_id = event["orderId"]
    with once.execution(context, key=order_id, payload=event, name="approve", lease=TIMEOUT) as attempt:
        if attempt.replayed:
            result: dict[str, object] = attempt.result
            return result
        waiting = CallbackConfig(timeout=Duration.from_days(3))
        approval = context.create_callback(name="approval", config=waiting)
        context.step(lambda _: ask(order_id, approval.callback_id), name="ask")
        if approval.result() != "yes":
            return attempt.complete({"approved": False})  # type: ignore[no-any-return]
        charge = context.step(
            lambda _: pay(order_id, event["card"], event["amount"]), name="pay", config=RETRIED
        )
        return attempt.complete({"approved": True, "chargeId": charge})  # type: ignore[no-any-return]
