"""The token table of the sample stack, on the DynamoDB at an endpoint or on moto in this process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws

from lambda_once.stores.row import Item

from .template import Template

REGION = "eu-central-1"
"""The default region."""
ACROSS = ("BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
"""The properties of CreateTable that CloudFormation names alike; a demo needs no recovery or encryption."""


@contextmanager
def engine(endpoint: str | None) -> Iterator[None]:
    """Run moto in the block if there is no *endpoint*."""
    if endpoint is not None:
        yield
        return
    with mock_aws():
        yield


def fresh_name() -> str:
    """Return a random table name, so that the demo touches no table but its own."""
    return f"lambda-once-demo-{secrets.token_hex(4)}"


def account(endpoint: str | None) -> dict[str, str]:
    """Return the variables that boto3 needs to sign; if there are no credentials, with made-up ones."""
    if endpoint is None:
        return {"AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}  # moto brings the credentials
    session = botocore.session.get_session()
    region = os.environ.get("AWS_REGION") or session.get_config_variable("region") or REGION
    found = {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    if session.get_credentials() is None:
        found |= {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo"}  # local engines accept any
    return found


@contextmanager
def token_table(template: Template, name: str, endpoint: str | None) -> Iterator[Any]:
    """Create the table of *template* as *name*, yield a client, and delete the table afterwards."""
    impatient = Config(connect_timeout=3, retries={"total_max_attempts": 2})  # a wrong endpoint fails fast
    client: Any = boto3.client("dynamodb", endpoint_url=endpoint, config=impatient)
    properties = template.table()
    client.create_table(TableName=name, **{key: properties[key] for key in ACROSS})
    try:
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        _switch_on_expiry(client, name, properties["TimeToLiveSpecification"])
        yield client
    finally:
        client.delete_table(TableName=name)


def rows(client: Any, name: str) -> list[Item]:
    """Return the token rows by their time of creation, without the parts of large results."""
    items: list[Item] = client.scan(TableName=name, ConsistentRead=True)["Items"]
    tokens = [item for item in items if "fence" in item]
    return sorted(tokens, key=lambda item: (item["created"]["S"], item["lockToken"]["S"]))


def _switch_on_expiry(client: Any, name: str, wanted: dict[str, Any]) -> None:
    try:
        client.update_time_to_live(TableName=name, TimeToLiveSpecification=wanted)
    except ClientError as refused:
        # Some local engines have no TTL; nothing expires within a demo.
        if refused.response["Error"]["Code"] != "UnknownOperationException":
            raise
