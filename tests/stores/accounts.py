"""A table of another account: every request names it by its ARN, and PartiQL does not know it."""

from __future__ import annotations

import copy
from typing import Any

from tests.stores.world import DynamoDBRows


class TheirRows(DynamoDBRows):
    """The items of a table that its own account reads by name, and the store by its ARN."""

    def __init__(self, client: Any, name: str, arn: str) -> None:
        super().__init__(client, name)
        self.arn = arn

    def order(self, key: str) -> dict[str, Any]:
        return {"Put": {**super().order(key)["Put"], "TableName": self.arn}}


def in_another_account(client: Any, arn: str, *, answers_by_name: bool) -> Any:
    """
    Let *client* reach the table of *arn* as DynamoDB does across accounts, by the ARN alone.

    Batches come back under the ARN, or by *answers_by_name* under the name (API reference, BatchGetItem: "a
    table name or table ARN"). There is no PartiQL (developer guide, "DynamoDB API operations supported by
    resource-based policies").
    """
    name = arn.rpartition("/")[2]

    def named(params: dict[str, Any], **_: Any) -> dict[str, Any]:
        assert "Statements" not in params, "no PartiQL across accounts"
        found = copy.deepcopy(params)
        writes = [write for item in found.get("TransactItems", ()) for write in item.values()]
        for each in (found, *writes):
            if "TableName" in each:
                assert each["TableName"] == arn, "the caller's account has no such table"
                each["TableName"] = name
        if "RequestItems" in found:
            found["RequestItems"] = {name: found["RequestItems"].pop(arn)}
        return found

    def answered(parsed: dict[str, Any], **_: Any) -> None:
        for field in ("Responses", "UnprocessedKeys", "UnprocessedItems"):
            if name in parsed.get(field, ()):
                parsed[field] = {arn: parsed[field][name]}

    client.meta.events.register("provide-client-params.dynamodb", named)
    if not answers_by_name:
        client.meta.events.register("after-call.dynamodb", answered)
    return client
