"""The token table, for tests that use an engine."""

from __future__ import annotations

from typing import Any


def create_table(client: Any, name: str = "tokens") -> None:
    """
    Create the token table *name* through *client*, a low-level DynamoDB client, and wait until it is there.

    It has the keys, the index and the billing of the sample stack's table, and TTL on ``ttl`` where the
    engine knows TTL. For moto, DynamoDB Local and scratch accounts:

        with mock_aws():
            client = boto3.client("dynamodb", region_name="eu-central-1")
            create_table(client, "tokens")
            once = Once(table="tokens", client=client)
    """
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": "S"}
            for attribute in ("lockToken", "status", "expectedCompletion")
        ],
        KeySchema=[{"AttributeName": "lockToken", "KeyType": "HASH"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "byStatus",
                "KeySchema": [
                    {"AttributeName": "status", "KeyType": "HASH"},
                    {"AttributeName": "expectedCompletion", "KeyType": "RANGE"},
                ],
                "Projection": {
                    "ProjectionType": "INCLUDE",
                    "NonKeyAttributes": ["lockedBy", "created", "attempt"],
                },
            }
        ],
    )
    client.get_waiter("table_exists").wait(TableName=name)
    try:
        client.update_time_to_live(
            TableName=name, TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": True}
        )
    except client.exceptions.ClientError as error:
        if error.response["Error"]["Code"] != "UnknownOperationException":
            raise
