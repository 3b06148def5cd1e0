"""The version that is replaced: Powertools' own decorator, on the simulated client and time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)
from aws_lambda_powertools.utilities.idempotency import base as handlers
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyInconsistentStateError,
    IdempotencyPersistenceLayerError,
)
from aws_lambda_powertools.utilities.idempotency.persistence import base, datarecord, dynamodb
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from lambda_once import PowertoolsHistory
from lambda_once.testing.clock import START
from tests.simulation.network import Network
from tests.simulation.scenario import Scenario
from tests.simulation.scheduler import running
from tests.simulation.story import RECORDS

OLD = "powertools"
"""In the place of an ``on_lapse``: what has lapsed runs again."""
EARLY_MS = 3_000
"""An old attempt is killed so much before its time: Powertools leaves no margin for late kills and clocks."""
REFUSALS = (
    IdempotencyAlreadyInProgressError,
    IdempotencyInconsistentStateError,
    IdempotencyPersistenceLayerError,
)
"""What the old version raises, after which its message is delivered again."""
_TRIES = 3
_PREFIX = "shop#charge"


class RepeatingClient:
    """A client that repeats by itself what was not answered, as botocore's do by default."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def put_item(self, **arguments: Any) -> Any:
        return self._send("put_item", arguments)

    def get_item(self, **arguments: Any) -> Any:
        return self._send("get_item", arguments)

    def update_item(self, **arguments: Any) -> Any:
        return self._send("update_item", arguments)

    def delete_item(self, **arguments: Any) -> Any:
        return self._send("delete_item", arguments)

    def _send(self, operation: str, arguments: dict[str, Any]) -> Any:
        for _ in range(_TRIES - 1):
            try:
                return self._network.send(operation, arguments)
            except (ConnectTimeoutError, ReadTimeoutError):
                continue
        return self._network.send(operation, arguments)


def old_handler(
    work: Callable[[dict[str, Any]], Any], found: Scenario, network: Network
) -> Callable[[Any, Any], Any]:
    """Return the Lambda handler that does *work* under Powertools."""
    layer = DynamoDBPersistenceLayer(table_name=RECORDS, boto3_client=RepeatingClient(network))

    @idempotent(persistence_store=layer, config=_config(found), key_prefix=_PREFIX)
    def handler(event: dict[str, Any], context: Any) -> Any:
        return work(event)

    return handler


def history_of(found: Scenario, network: Network) -> PowertoolsHistory:
    """Return the history that the new version is given."""
    layer = DynamoDBPersistenceLayer(table_name=RECORDS, boto3_client=RepeatingClient(network))
    return PowertoolsHistory(layer, config=_config(found), key_prefix=_PREFIX)


def _config(found: Scenario) -> IdempotencyConfig:
    return IdempotencyConfig(event_key_jmespath="order", expires_after_seconds=found.expires)


def context_until(ends: int, network: Network) -> Any:
    """Return the context of an invocation that has until *ends*."""
    return SimpleNamespace(get_remaining_time_in_millis=lambda: max(ends - network.scheduler.now, 0))


class _Simulated(dt.datetime):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        """Return the time by the clock of the running sandbox's machine."""
        task = running()
        milliseconds = task.scheduler.now + task.sandbox.skew
        return START.astimezone(tz) + dt.timedelta(milliseconds=milliseconds)


_TIME = SimpleNamespace(**(vars(dt) | {"datetime": _Simulated}))
POWERTOOLS_TIME: list[tuple[Any, str, Any]] = [
    (module, "dt", _TIME) for module in (handlers, base, datarecord, dynamodb)
]
"""What takes the place of Powertools' time while a schedule is played."""
