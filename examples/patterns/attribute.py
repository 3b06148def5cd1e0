"""One attribute with a timestamp of its own, set to its newest value by one UpdateItem, without a ratchet."""

from __future__ import annotations

from contextlib import suppress

import boto3

client = boto3.client("dynamodb")


def set_newest(offer: str, name: str, value: int, at: int) -> None:
    """Set one attribute unless it is newer; of two values of one time the greater stays, in every order."""
    with suppress(client.exceptions.ConditionalCheckFailedException):  # stale: acknowledge it
        client.update_item(
            TableName="offers",
            Key={"offer": {"S": offer}},
            UpdateExpression="SET #name = :value, #at = :at",
            ConditionExpression="attribute_not_exists(#at) OR #at < :at OR (#at = :at AND #name <= :value)",
            ExpressionAttributeNames={"#name": name, "#at": f"{name}At"},
            ExpressionAttributeValues={":value": {"N": str(value)}, ":at": {"N": str(at)}},
        )
