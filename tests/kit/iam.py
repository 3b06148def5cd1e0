"""A client that a policy limits: each request is asked for as IAM asks, and `judge` answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError

from tests.kit.judge import Context, Statement, allows, listed

LEADING: Final = "dynamodb:LeadingKeys"
ATTRIBUTES: Final = "dynamodb:Attributes"
SELECT: Final = "dynamodb:Select"
ARN: Final = "arn:aws:dynamodb:eu-central-1:123456789012:table/tokens"
"""What `limit` takes every table for."""
_VARIABLE: Final = re.compile(r"\$\{([\w.:]+)\}")


def actions(statements: Sequence[Statement]) -> set[str]:
    """Return the actions that *statements* allow, under whatever condition."""
    return {action for statement in statements for action in listed(statement["Action"])}


def without(statements: Sequence[Statement], action: str) -> list[Statement]:
    """Return *statements* without *action*."""
    return [
        {**statement, "Action": [each for each in listed(statement["Action"]) if each != action]}
        for statement in statements
    ]


def filled(value: Any, values: Mapping[str, str]) -> Any:
    """Return *value* of a template with *values* for what Ref, GetAtt and Sub name; others stay."""
    match value:
        case {"Ref": str(name)} if name in values:
            return values[name]
        case {"Fn::GetAtt": [str(name), str(attribute)]} if f"{name}.{attribute}" in values:
            return values[f"{name}.{attribute}"]
        case {"Fn::Sub": str(text)}:
            return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)
        case dict():
            return {key: filled(each, values) for key, each in value.items()}
        case list():
            return [filled(each, values) for each in value]
        case _:
            return value


def unconditional(statements: Sequence[Statement]) -> list[Statement]:
    """Return *statements* without their conditions."""
    return [
        {key: value for key, value in statement.items() if key != "Condition"} for statement in statements
    ]


class Asked(NamedTuple):
    """What IAM is asked before a request is answered (Service Authorization Reference, DynamoDB)."""

    action: str
    context: Context
    on: str = ""
    """Of the table's ARN, the index."""


def permits(
    statements: Sequence[Statement],
    action: str,
    keys: Sequence[str],
    resource: str | None = None,
    **context: str | Sequence[str],
) -> bool:
    """
    Return whether *statements* allow *action* on rows of these partition *keys*.

    *resource*: the ARN; without it, and for statements that name none, any. *context*: other condition keys
    of DynamoDB, such as Select.
    """
    asked = Asked(action, {LEADING: keys} | {f"dynamodb:{key}": each for key, each in context.items()})
    return _permits(statements, asked, resource)


def _permits(statements: Sequence[Statement], asked: Asked, resource: str | None) -> bool:
    named = [
        {"Effect": "Allow", **statement}
        | ({} if resource and isinstance(statement.get("Resource"), str) else {"Resource": "*"})
        for statement in statements
    ]
    on = f"{resource or '*'}{asked.on if resource else ''}"
    return allows(named, asked.action, on, asked.context)


def limit(client: Any, statements: Sequence[Statement], denied: list[str] | None = None) -> list[str]:
    """Deny *client* from now on what *statements* do not allow; return *denied*, which lists what was."""
    denied = [] if denied is None else denied

    def ask(params: Mapping[str, Any], model: Any, **_: Any) -> None:
        for asked in _asked(model.name, params):
            if not _permits(statements, asked, ARN):
                denied.append(asked.action)
                message = f"User: f is not authorized to perform: {asked.action}"
                raise ClientError(
                    {
                        "Error": {"Code": "AccessDeniedException", "Message": message},
                        "ResponseMetadata": {"HTTPStatusCode": 400},
                    },
                    model.name,
                )

    client.meta.events.register("before-parameter-build.dynamodb", ask)
    return denied


def _asked(operation: str, params: Mapping[str, Any]) -> Iterator[Asked]:
    """Yield what a request needs."""
    match operation:
        case "BatchExecuteStatement" | "ExecuteStatement":
            yield from map(_of_statement, params.get("Statements", [params]))
        case "TransactWriteItems" | "TransactGetItems":  # whether the latter has a Select is not known
            for item in params["TransactItems"]:
                ((verb, arguments),) = item.items()
                yield _of(f"{verb}Item", [arguments.get("Key") or arguments["Item"]], arguments)
        case "BatchWriteItem":
            for requests in params["RequestItems"].values():
                yield _of(
                    operation, [next(iter(next(iter(each.values())).values())) for each in requests], {}
                )
        case "BatchGetItem":
            for requests in params["RequestItems"].values():
                yield _reading(operation, requests["Keys"], requests)
        case "GetItem":
            yield _reading(operation, [params["Key"]], params)
        case "Query" | "Scan":
            yield _of_many(operation, params)
        case _:
            yield _of(operation, [params[each] for each in ("Key", "Item") if each in params], params)


def _of_many(operation: str, params: Mapping[str, Any]) -> Asked:
    index = f"/index/{params['IndexName']}" if "IndexName" in params else ""
    values = params.get("ExpressionAttributeValues", {}) if operation == "Query" else {}
    leading = [next(iter(each.values())) for each in list(values.values())[:1]]
    return Asked(f"dynamodb:{operation}", {**_select(params), LEADING: leading}, index)


def _of(operation: str, rows: Iterable[Mapping[str, Any]], params: Mapping[str, Any]) -> Asked:
    values = params.get("ReturnValues", "NONE")
    context = {LEADING: [_key(row) for row in rows], "dynamodb:ReturnValues": values, SELECT: None}
    return Asked(f"dynamodb:{operation}", context)


def _reading(operation: str, keys: Sequence[Mapping[str, Any]], params: Mapping[str, Any]) -> Asked:
    """
    Return what a read needs.

    Attributes are those that the request names, its key among them; without a projection all are returned
    although it names none (DynamoDB developer guide, conditions for fine-grained access control).
    """
    context = _select(params)
    named = {*context[ATTRIBUTES], *(name for key in keys for name in key)}
    leading = [_key(key) for key in keys]
    return Asked(f"dynamodb:{operation}", context | {LEADING: leading, ATTRIBUTES: sorted(named)})


def _select(params: Mapping[str, Any]) -> dict[str, Any]:
    names = params.get("ExpressionAttributeNames", {})
    shown = [each.strip() for each in params.get("ProjectionExpression", "").split(",") if each.strip()]
    shown += params.get("AttributesToGet", [])
    if "Select" in params:
        selected = params["Select"]
    elif shown:
        selected = "SPECIFIC_ATTRIBUTES"
    else:
        selected = "ALL_PROJECTED_ATTRIBUTES" if "IndexName" in params else "ALL_ATTRIBUTES"
    top = {names.get(path.split(".")[0], path.split(".")[0]) for path in shown}
    return {ATTRIBUTES: sorted(top), SELECT: selected}


def _of_statement(statement: Mapping[str, Any]) -> Asked:
    """Return what a statement of PartiQL needs; its leading key is the parameter of ``lockToken``."""
    text = statement["Statement"]
    before, found, _ = text.partition("'lockToken': ?" if text.startswith("INSERT") else '"lockToken" = ?')
    keys = [statement["Parameters"][before.count("?")]["S"]] if found else []
    context = {LEADING: keys, SELECT: "ALL_ATTRIBUTES" if text.startswith("SELECT") else None}
    return Asked(f"dynamodb:PartiQL{text.split()[0].capitalize()}", context)


def _key(item: Mapping[str, Any]) -> Any:
    return item["lockToken"]["S"]
