"""What a pattern takes for a client: boto3's low-level one, and no resource."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from lambda_once.dynamodb import sender
from lambda_once.dynamodb.client import low_level
from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents import Documents
from lambda_once.patterns.fifo import Publisher
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.unique import Unique

QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo"
PATTERNS: dict[str, Callable[[Any], object]] = {
    "Ledger": lambda client: Ledger("t", client, window=timedelta(days=1)),
    "Ratchet": lambda client: Ratchet("t", client),
    "Unique": lambda client: Unique("t", client),
    "Documents": lambda client: Documents("t", client),
    "Publisher": lambda client: Publisher(QUEUE, client, group="customer"),
}
TABLE: Any = {
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
}


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())
def test_a_resource_is_refused_by_name(pattern: Callable[[Any], object]) -> None:
    """When the pattern is made: a resource, a Table, and the clients of both, which convert attributes."""
    with mock_aws():
        resource = boto3.resource("dynamodb", "eu-central-1")
        table = resource.Table("t")
        for each in (resource, table):
            with pytest.raises(Misconfigured, match=r"boto3 resource .*give a low-level client"):
                pattern(each)
        for each in (resource.meta.client, table.meta.client):
            with pytest.raises(Misconfigured, match="the client of a boto3 resource"):
                pattern(each)
        pattern(boto3.client("dynamodb", "eu-central-1"))


def test_asking_leaves_a_client_as_it_is() -> None:
    """A plain client has no handler more, and a resource's client still converts."""
    with mock_aws():
        client = boto3.client("dynamodb", "eu-central-1")
        assert low_level(low_level(client)) is client
        client.meta.events.register("x", lambda **_: None, unique_id="dynamodb-attr-value-input")
        resource = boto3.resource("dynamodb", "eu-central-1")
        for each in (client, resource.meta.client) * 2:
            with pytest.raises(Misconfigured, match="the client of a boto3 resource"):
                low_level(each)
        table = resource.create_table(TableName="t", **TABLE)
        table.put_item(Item={"pk": "5"})
        assert table.get_item(Key={"pk": "5"})["Item"] == {"pk": "5"}


def test_believed_a_resources_client_stores_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: the request is refused for its types, by words that say nothing of the client."""
    monkeypatch.setattr(sender, "low_level", lambda client: client)
    with mock_aws():
        resource = boto3.resource("dynamodb", "eu-central-1")
        resource.create_table(TableName="t", **TABLE)
        with pytest.raises(Misconfigured) as raised:
            Unique("t", resource.meta.client, key="pk").put({"pk": "5"})
    assert "resource" not in str(raised.value)


WITHOUT_BOTO3 = """
import sys
from datetime import timedelta
from lambda_once.patterns import Ledger, Ratchet, Unique

class Client:
    def update_item(self, **request): return {}
    put_item = update_item

Ledger("t", Client(), window=timedelta(days=1)).add("a", {"n": 1}, id="x")
Ratchet("t", Client()).put({"pk": "a", "list": [1.5, {"deep"}]}, 1_795_169_520_000)
Unique("t", Client(), key="pk").put({"pk": "a", "bytes": b"1"})
assert "boto3" not in sys.modules
"""


def test_a_write_needs_no_boto3() -> None:
    """With a client that is given, a cold start does not import it."""
    subprocess.run([sys.executable, "-c", WITHOUT_BOTO3], check=True)
