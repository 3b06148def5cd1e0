"""
Tools for testing your own handlers: a store, a clock, a table, a context, events, and assertions.

    def test_an_order_is_charged_once() -> None:
        with using(app.once) as store:
            event = sqs_event({"orderId": 5})
            app.handler(event, lambda_context())
            app.handler(event, lambda_context())       # the redelivery
        assert charged == [5]
        assert_completed(store, result=None)

Only the fixtures, `lambda_once.testing.plugin`, require pytest; only `create_table` and assertions about a
table require boto3.
"""

from lambda_once.core.lifecycle import State
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing.assertions import (
    assert_completed,
    assert_held,
    assert_in_progress,
    assert_lapsed,
    assert_no_token,
    assert_ran_once,
    assert_released,
    assert_stored_error,
)
from lambda_once.testing.clock import FakeClock
from lambda_once.testing.context import InvocationContext, lambda_context
from lambda_once.testing.crash import Crash, Killed, Step, crash_at
from lambda_once.testing.events import (
    alb_event,
    api_event,
    eventbridge_event,
    function_url_event,
    rest_api_event,
    s3_event,
    s3_eventbridge_event,
    sns_event,
    sqs_event,
)
from lambda_once.testing.recording import RecordingStore
from lambda_once.testing.stores import create_table, using
from lambda_once.testing.stream_events import (
    activemq_event,
    dynamodb_stream_event,
    kafka_event,
    kinesis_event,
    pipes_event,
    rabbitmq_event,
)

__all__ = [
    "Crash",
    "FakeClock",
    "InvocationContext",
    "Killed",
    "MemoryStore",
    "RecordingStore",
    "State",
    "Step",
    "activemq_event",
    "alb_event",
    "api_event",
    "assert_completed",
    "assert_held",
    "assert_in_progress",
    "assert_lapsed",
    "assert_no_token",
    "assert_ran_once",
    "assert_released",
    "assert_stored_error",
    "crash_at",
    "create_table",
    "dynamodb_stream_event",
    "eventbridge_event",
    "function_url_event",
    "kafka_event",
    "kinesis_event",
    "lambda_context",
    "pipes_event",
    "rabbitmq_event",
    "rest_api_event",
    "s3_event",
    "s3_eventbridge_event",
    "sns_event",
    "sqs_event",
    "using",
]
