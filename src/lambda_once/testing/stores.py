"""Stores for tests: in place of one Once's store, in place of all stores, or a real token table."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from lambda_once.core.tenant import TENANCY
from lambda_once.decorators.names import Names
from lambda_once.decorators.runtime import Overrides, Runtime
from lambda_once.stores.row import INDEX, INDEXED, TOKEN
from lambda_once.testing.recording import RecordingStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lambda_once._once import Once
    from lambda_once.core.clock import Clock
    from lambda_once.stores.contract import Store

    S = TypeVar("S", bound=Store)


@overload
def using(
    once: Once, store: None = None, clock: Clock | None = None
) -> AbstractContextManager[RecordingStore]: ...
@overload
def using(once: Once, store: S, clock: Clock | None = None) -> AbstractContextManager[S]: ...
def using(once: Once, store: Any = None, clock: Clock | None = None) -> Any:
    """
    Run everything that *once* decorates with *store* and *clock* until the block ends.

    The block gets *store*, by default a new `RecordingStore`; *clock* is the system clock by default. The
    ``cache=`` is emptied at the beginning and end of the block, and no tenant was served before it. Names of
    functions that are decorated in the block are taken until it ends; outside of it, only those of modules'
    own functions count. The override applies to all threads of the process: do not use one Once in two tests
    at the same time.
    """
    return _using(once, RecordingStore() if store is None else store, clock)


@contextmanager
def _using(once: Once, store: Store, clock: Clock | None) -> Iterator[Store]:
    with once._using(store, clock), Names.apart(), TENANCY.fresh():  # noqa: SLF001  (its public face is this function)
        yield store


@contextmanager
def overridden(**changes: Any) -> Iterator[None]:
    """
    Override *changes* (fields of `Overrides`) for every Once, until the block ends.

    It applies to all threads, and to every Once that exists or is created meanwhile. One with its own store
    or clock (``Once(store=…)``, `using`) keeps that.
    """
    before = Runtime.overrides
    Runtime.overrides = (before or Overrides())._replace(**changes)
    try:
        yield
    finally:
        Runtime.overrides = before


def create_table(client: Any, name: str = "tokens") -> None:
    """
    Create the token table *name* with *client*, a low-level DynamoDB client, and wait until it exists.

    It has the keys, the index and the billing of the sample stack's table, and TTL on ``ttl`` if the engine
    supports TTL. For moto, other engines and test accounts:

        with mock_aws():
            client = boto3.client("dynamodb", region_name="eu-central-1")
            create_table(client, "tokens")
            once = Once(table="tokens", client=client)
    """
    keys = (TOKEN, "listed", "expectedCompletion")
    index = {
        "IndexName": INDEX,
        "KeySchema": [
            {"AttributeName": "listed", "KeyType": "HASH"},
            {"AttributeName": "expectedCompletion", "KeyType": "RANGE"},
        ],
        "Projection": {
            "ProjectionType": "INCLUDE",
            "NonKeyAttributes": [name for name in INDEXED if name not in keys],
        },
    }
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        KeySchema=[{"AttributeName": TOKEN, "KeyType": "HASH"}],
        GlobalSecondaryIndexes=[index],
    )
    client.get_waiter("table_exists").wait(TableName=name)
    try:
        client.update_time_to_live(
            TableName=name, TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": True}
        )
    except client.exceptions.ClientError as error:
        if error.response["Error"]["Code"] != "UnknownOperationException":
            raise
