"""A client that a policy limits: each request is asked for as IAM asks, evaluated by `check.policies`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lambda_once.check import policies
from lambda_once.check.deployment import UNKNOWN

Statement = Mapping[str, Any]
LEADING = policies.LEADING_KEYS


def listed(value: Any) -> list[Any]:
    """Return *value* as the list that IAM lets one leave out around a single entry."""
    return value if isinstance(value, list) else [value]


def actions(statements: Sequence[Statement]) -> set[str]:
    """Return the actions that *statements* allow, under whatever condition."""
    return {action for statement in statements for action in listed(statement["Action"])}


def without(statements: Sequence[Statement], action: str) -> list[Statement]:
    """Return *statements* without *action*."""
    return [
        {**statement, "Action": [each for each in listed(statement["Action"]) if each != action]}
        for statement in statements
    ]


def permits(statements: Sequence[Statement], action: str, keys: Sequence[str]) -> bool:
    """Return whether *statements* allow *action* on rows of these partition *keys*, of whatever table."""
    anywhere = [{"Effect": "Allow", **statement, "Resource": "*"} for statement in statements]
    answer = policies.permits(policies.statements({"Statement": anywhere}), action, "*", {LEADING: keys})
    assert answer is not UNKNOWN, "a condition is not evaluated here"
    return answer


def limit(client: Any, statements: Sequence[Statement]) -> list[str]:
    """Deny *client* from now on what *statements* do not allow; return the list of what was denied."""
    denied: list[str] = []

    def ask(params: Mapping[str, Any], model: Any, **_: Any) -> None:
        for action, keys in _asked(model.name, params):
            if not permits(statements, action, keys):
                denied.append(action)
                message = f"User: f is not authorized to perform: {action}"
                raise ClientError(
                    {
                        "Error": {"Code": "AccessDeniedException", "Message": message},
                        "ResponseMetadata": {"HTTPStatusCode": 400},
                    },
                    model.name,
                )

    client.meta.events.register("before-parameter-build.dynamodb", ask)
    return denied


def _asked(operation: str, params: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the actions that a request needs, with the partition keys of each."""
    match operation:
        case "BatchExecuteStatement":
            for statement in params["Statements"]:
                yield f"dynamodb:PartiQL{statement['Statement'].split()[0].capitalize()}", []
        case "TransactWriteItems":
            for item in params["TransactItems"]:
                ((verb, arguments),) = item.items()
                yield f"dynamodb:{verb}Item", [_key(arguments.get("Key") or arguments["Item"])]
        case "BatchWriteItem":
            for requests in params["RequestItems"].values():
                keys = [_key(next(iter(next(iter(each.values())).values()))) for each in requests]
                yield "dynamodb:BatchWriteItem", keys
        case "BatchGetItem":
            for requests in params["RequestItems"].values():
                yield "dynamodb:BatchGetItem", [_key(key) for key in requests["Keys"]]
        case _:
            yield f"dynamodb:{operation}", [_key(params["Key"])] if "Key" in params else []


def _key(item: Mapping[str, Any]) -> str:
    key: str = item["lockToken"]["S"]
    return key
