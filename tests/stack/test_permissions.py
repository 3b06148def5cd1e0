"""What the functions may do: as much as the store does, to one table, and no more."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import boto3
import pytest

from lambda_once.core.clock import Deadline
from lambda_once.core.keys import token as token_of
from lambda_once.core.lifecycle import Resolve, State
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Acquire, Complete, Holder, Unclaimed, Write
from lambda_once.operations import stream
from lambda_once.operations.decisions import Author, decided
from lambda_once.operations.table import TokenTable
from lambda_once.operations.watchdog import watchdog
from lambda_once.stores.contract import Refused, Won, Written
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock
from lambda_once_tools.search import containing, scan, table_size
from tests.kit import tables
from tests.kit.iam import filled, permits
from tests.kit.judge import listed

from .conftest import NOW, REGION, Deployed, StoppedClock, Template
from .named import target
from .test_alarms import PROTECTED

LEASE = NOW + timedelta(seconds=32)
KEPT_UNTIL = int((NOW + timedelta(days=14)).timestamp())
TABLE = {"Fn::GetAtt": ["TokenTable", "Arn"]}

LISTING = {"dynamodb:Query"}
"""What only those do who look after tokens."""

Statement = dict[str, Any]


def statements(translated: Template) -> list[tuple[str, Statement]]:
    """Return every statement of the stack's own policies with the logical id of the policy or role."""
    found: list[tuple[str, Statement]] = []
    for name, resource in translated["Resources"].items():
        properties = resource.get("Properties", {})
        documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
        if resource["Type"] in ("AWS::IAM::ManagedPolicy", "AWS::IAM::Policy"):
            documents.append(properties["PolicyDocument"])
        found += [(name, statement) for document in documents for statement in document["Statement"]]
    return found


def allowed(translated: Template, policy: str) -> set[str]:
    """Return the actions that *policy* allows."""
    return {
        action
        for name, statement in statements(translated)
        if name == policy
        for action in listed(statement["Action"])
    }


def acquisition(key: str, attempt: str) -> Acquire:
    """An acquisition under hold."""
    return Acquire(f"orders/{key}", attempt, "f/r", NOW, LEASE, Unclaimed(take_over=False), ttl=None)


def complete(key: str, chunks: Chunks | None) -> Write:
    """The completion of what the first attempt did."""
    return Write(f"orders/{key}", Holder("a1"), Complete(chunks), NOW, KEPT_UNTIL, "w")


def parts_condition(translated: Template, policy: str) -> dict[str, Any]:
    """Return the condition under which *policy* allows BatchWriteItem."""
    (statement,) = [
        statement
        for name, statement in statements(translated)
        if name == policy and "dynamodb:BatchWriteItem" in listed(statement["Action"])
    ]
    assert listed(statement["Action"]) == ["dynamodb:BatchWriteItem"], "its condition is for no other action"
    condition: dict[str, Any] = statement["Condition"]
    return condition


def may_write(condition: dict[str, Any], keys: list[str]) -> bool:
    """Tell whether IAM lets these partition keys pass."""
    return permits([{"Action": "write", "Condition": filled(condition, {})}], "write", keys)


def noted(client: Any, service: str = "dynamodb") -> set[str]:
    """Return the IAM actions of what *client* calls from now on."""
    calls: set[str] = set()
    client.meta.events.register(
        f"before-call.{service}", lambda model, params, **_: calls.update(_actions(model.name, params))
    )
    return calls


@pytest.fixture
def batches(engine_endpoint: str, partiql: None) -> set[str]:
    """The IAM actions with which a batch of messages is acquired and completed, new and duplicate."""
    client = tables.client(engine_endpoint)
    calls = noted(client)
    with tables.fresh(client) as name:
        calls.clear()
        store = DynamoDBStore(name, client)
        deadline = Deadline(StoppedClock(), NOW + timedelta(seconds=30))
        for attempt, answer in (("a1", Won), ("a2", Refused)):
            answers = store.acquire([acquisition("1", attempt), acquisition("2", attempt)], deadline)
            assert [type(each) for each in answers] == [answer, answer]
        assert store.write([complete("1", None), complete("2", None)], deadline) == [
            Written.WRITTEN,
            Written.WRITTEN,
        ]
        made = set(calls)
    client.close()
    return made


def actions_of_every_verb(deployed: Deployed) -> set[str]:
    """
    Take each verb of the store once on the deployed table, and return the IAM actions of its calls.

    TransactWriteItems has no action of its own: IAM asks for those of the writes inside (DynamoDB
    developer guide, transactions and IAM).
    """
    client = deployed.client("dynamodb")
    calls = noted(client)
    store = DynamoDBStore(deployed.outputs["TokenTableName"], client)
    deadline = Deadline(StoppedClock(), NOW + timedelta(seconds=30))

    def acquire(key: str, attempt: str) -> object:
        return store.acquire([acquisition(key, attempt)], deadline)[0]

    assert isinstance(acquire("small", "a1"), Won)
    assert isinstance(acquire("small", "a2"), Refused)
    assert isinstance(acquire("large", "a1"), Won)
    assert len(list(store.unfinished(State.IN_PROGRESS, deadline))) == 2
    assert store.write([complete("large", Chunks((b"1", b"2")))], deadline) == [Written.WRITTEN]
    record = store.read("orders/large", deadline)
    assert record is not None
    assert store.chunks(record, deadline) == (b"1", b"2")
    assert store.transact(complete("small", None), [], deadline) == Written.WRITTEN
    return calls


def actions_of_a_search(deployed: Deployed) -> set[str]:
    """Look for a part of a key in the deployed table, and return the IAM actions of that."""
    client = deployed.client("dynamodb")
    calls = noted(client)
    table = TokenTable(deployed.outputs["TokenTableName"], client)
    assert table_size(table) is not None
    assert list(scan(table, containing("small"), segments=2, most_pages=2))
    return calls


def actions_of_a_run(deployed: Deployed, monkeypatch: pytest.MonkeyPatch, *, sweep: bool) -> set[str]:
    """Let the watchdog make two runs in which it does all that it can, and return their IAM actions."""
    client = deployed.client("dynamodb")
    # moto 5.2.5 knows none of the addresses with an account, which botocore takes by itself.
    streams = deployed.client("dynamodbstreams", f"https://streams.dynamodb.{REGION}.amazonaws.com")
    monkeypatch.setattr(stream, "streams_client", lambda _table: streams)
    table = deployed.outputs["TokenTableName"]
    store = DynamoDBStore(table, client)
    deadline = Deadline(StoppedClock(), NOW + timedelta(seconds=30))
    for n in range(3):
        assert isinstance(store.acquire([acquisition(f"charge/{n}", "a1")], deadline)[0], Won)
    over = {"lockToken": {"S": "orders/charge/over"}, "ttl": {"N": "1"}}
    client.put_item(TableName=table, Item=over)
    calls, reads = noted(client), noted(streams, "dynamodb-streams")
    clock = FakeClock(LEASE + timedelta(minutes=5))
    options: dict[str, Any] = {"rows": 2, "sweep": sweep, "listing": "stream"}
    handler = watchdog(table, client, clock, actions={"charge": "release"}, **options)
    answers = [handler({}, None) for _ in range(2)]
    assert [answer["released"] for answer in answers] == [2, 1]
    assert sum(answer["swept"] for answer in answers) == sweep
    return calls | reads


def _actions(operation: str, params: Any) -> set[str]:
    if operation == "BatchExecuteStatement":
        statements = json.loads(params["body"])["Statements"]
        verbs = {statement["Statement"].split()[0] for statement in statements}
        return {f"dynamodb:PartiQL{verb.capitalize()}" for verb in verbs}
    if operation != "TransactWriteItems":
        return {f"dynamodb:{operation}"}
    assert b'"Update"' in params["body"], "the store's own part of a transaction is an update"
    return {"dynamodb:UpdateItem"}


@pytest.mark.engine
def test_functions_may_do_what_the_store_does(
    deployed: Deployed, translated: Template, batches: set[str]
) -> None:
    """The actions allowed to functions are those of the store's calls, without the operators' listing."""
    made = actions_of_every_verb(deployed)
    assert made >= LISTING
    assert allowed(translated, "TokenAccess") == (made - LISTING) | batches


@pytest.mark.parametrize("policy", ["TokenAccess", "TokenOperation"])
def test_no_policy_may_put_or_delete_a_token(deployed: Deployed, translated: Template, policy: str) -> None:
    """BatchWriteItem does both: it is allowed for the keys of parts, which no token has."""
    condition = parts_condition(translated, policy)
    written: list[list[str]] = []

    def note(params: Any, **_: Any) -> None:
        (puts,) = json.loads(params["body"])["RequestItems"].values()
        written.append([put["PutRequest"]["Item"]["lockToken"]["S"] for put in puts])

    client = deployed.client("dynamodb")
    client.meta.events.register("before-call.dynamodb.BatchWriteItem", note)
    store = DynamoDBStore(deployed.outputs["TokenTableName"], client)
    deadline = Deadline(StoppedClock(), NOW + timedelta(seconds=30))
    assert isinstance(store.acquire([acquisition("large", "a1")], deadline)[0], Won)
    assert store.write([complete("large", Chunks((b"1", b"2")))], deadline) == [Written.WRITTEN]
    assert written
    assert all(may_write(condition, keys) for keys in written)
    hostile = token_of("orders", "charge", "a#b", "c#d#e")
    for tokens in ([hostile], ["orders/charge/5"], [*written[0], "orders/charge/5"], []):
        assert not may_write(condition, tokens), tokens
    for key in ("orders/charge/5#a1#0", "orders/charge/5#a1#w1#0"):
        assert may_write(condition, [key])


def test_operators_may_list_read_and_settle(deployed: Deployed, translated: Template) -> None:
    """What operators may do are the calls of the store and of `find`; they acquire no batches."""
    made = actions_of_every_verb(deployed) | actions_of_a_search(deployed)
    assert allowed(translated, "TokenOperation") == made


def test_operators_may_forget(deployed: Deployed, translated: Template) -> None:
    """They may delete the parts of a result, and no token."""
    client = deployed.client("dynamodb")
    table = TokenTable(deployed.outputs["TokenTableName"], client)
    deadline = Deadline(StoppedClock(), NOW + timedelta(seconds=30))
    assert isinstance(table.store.acquire([acquisition("large", "a1")], deadline)[0], Won)
    assert table.store.write([complete("large", Chunks((b"1", b"2")))], deadline) == [Written.WRITTEN]
    deleted: list[str] = []

    def note(params: Any, **_: Any) -> None:
        (requests,) = json.loads(params["body"])["RequestItems"].values()
        deleted.extend(request["DeleteRequest"]["Key"]["lockToken"]["S"] for request in requests)

    client.meta.events.register("before-call.dynamodb.BatchWriteItem", note)
    calls = noted(client)
    record = table.read("orders/large")
    assert record is not None
    table.erase_parts(record)
    assert table.write(decided(record, Resolve.FORGET, Author("ann", "x"), NOW)) == Written.WRITTEN
    assert calls <= allowed(translated, "TokenOperation")
    assert may_write(parts_condition(translated, "TokenOperation"), deleted)
    assert len(deleted) == 2


def test_who_erases_may_delete_a_token(deployed: Deployed, translated: Template) -> None:
    """By a policy of its own: no function and no other operator may."""
    client = deployed.client("dynamodb")
    table = TokenTable(deployed.outputs["TokenTableName"], client)
    deadline = Deadline(StoppedClock(), NOW + timedelta(seconds=30))
    assert isinstance(table.store.acquire([acquisition("erased", "a1")], deadline)[0], Won)
    assert table.store.write([complete("erased", None)], deadline) == [Written.WRITTEN]
    record = table.read("orders/erased")
    assert record is not None
    calls = noted(client)
    assert table.delete(record) is Written.WRITTEN
    assert calls == allowed(translated, "TokenErasure")
    deleting = {name for name, each in statements(translated) if calls & {*listed(each["Action"])}}
    assert deleting & {"TokenAccess", "TokenListing", "TokenOperation", "WatchdogFunctionRole"} == set()
    assert table.read("orders/erased") is None


def test_the_watchdog_may_do_what_it_does(
    deployed: Deployed, translated: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The actions allowed to it are those of its calls, as the sample stack sets it up."""
    assert allowed(translated, "WatchdogFunctionRole") == actions_of_a_run(deployed, monkeypatch, sweep=False)


def test_what_sweeps_has_permissions_of_its_own(
    deployed: Deployed, translated: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To scan and to delete is allowed under a condition only, and only where it is done."""
    assert translated["Resources"]["WatchdogSweeping"]["Condition"] == "Sweeps"
    swept = actions_of_a_run(deployed, monkeypatch, sweep=True)
    assert swept == allowed(translated, "WatchdogFunctionRole") | allowed(translated, "WatchdogSweeping")


CONTRACTS = dict.fromkeys(("GetItem", "PutItem", "Query", "BatchWriteItem"), "ContractsTable")
REACH = {
    "LoyaltyFunctionRole": {"dynamodb:UpdateItem": "LoyaltyTable"},
    "CatalogueFunctionRole": {"dynamodb:PutItem": "CatalogueTable", "sqs:SendMessage": "FailedEvents"},
    "ReceiptsFunctionRole": {"dynamodb:PutItem": "ReceiptsTable"},
    "PublishingFunctionRole": {"sns:Publish": "ReceiptsTopic"},
    "PricesFunctionRole": {
        "dynamodb:Query": "CatalogueTable",
        "sns:Publish": "PricesTopic",
        "sqs:SendMessage": "FailedEvents",
    },
    "PricesScheduleRole": {"lambda:InvokeFunction": "PricesFunction", "sqs:SendMessage": "FailedEvents"},
    "ContractsFunctionRole": {f"dynamodb:{verb}": table for verb, table in CONTRACTS.items()},
    "ContractsCleanerRole": {
        **{f"dynamodb:{verb}": table for verb, table in CONTRACTS.items() if verb != "PutItem"},
        "sqs:SendMessage": "FailedEvents",
    },
    "ContractsAnnouncerRole": {"sqs:SendMessage": "FailedEvents"},
}
"""What the policies of single functions allow, beside tokens, and on what."""


@pytest.mark.parametrize("role", REACH)
def test_a_function_reaches_its_own_resources_alone(translated: Template, role: str) -> None:
    """Each action on one resource, and no other action."""
    own = [each for name, each in statements(translated) if name == role]
    reached = {action: target(each["Resource"]) for each in own for action in listed(each["Action"])}
    assert reached == REACH[role]


STREAM = {"Fn::Sub": "${TokenTable.Arn}/stream/*"}
"""Of any label: a stream that is switched on again has a new one."""
OF_STREAMS = {"dynamodb:DescribeStream", "dynamodb:GetShardIterator", "dynamodb:GetRecords"}


def test_only_the_index_is_queried(translated: Template) -> None:
    """Query is the index' alone, the watchdog reads the stream, every other action is the table's."""
    index = {"Fn::Sub": "${TokenTable.Arn}/index/byStatus"}
    for name, statement in statements(translated):
        if name in (
            "TokenAccess",
            "TokenErasure",
            "TokenListing",
            "TokenOperation",
            "WatchdogFunctionRole",
            "WatchdogSweeping",
        ):
            queries = listed(statement["Action"]) == ["dynamodb:Query"]
            reads = {*listed(statement["Action"])} == OF_STREAMS and name == "WatchdogFunctionRole"
            assert statement["Resource"] == (index if queries else STREAM if reads else TABLE), name


def test_no_policy_of_the_stack_has_a_wildcard(translated: Template) -> None:
    """No action and no resource in a policy that the stack writes has one, but a stream's label."""
    seen = statements(translated)
    assert {name for name, _ in seen} >= {"TokenAccess", "TokenOperation", "NotificationsFunctionRole"}
    for name, statement in seen:
        assert not [action for action in listed(statement["Action"]) if "*" in action], name
        assert "*" not in str(statement["Resource"]) or statement["Resource"] == STREAM, name


def test_protected_functions_may_use_tokens_and_nothing_else_of_dynamodb(translated: Template) -> None:
    """
    Their roles have the token policy, and no other policy of theirs allows an action of DynamoDB's.

    Two have: one reads prices from the catalogue, one is mapped to a stream, which SAM lets it read. The
    watchdog, and functions whose data needs no tokens, have policies of their own instead.
    """
    roles = {
        name: resource["Properties"]
        for name, resource in translated["Resources"].items()
        if resource["Type"] == "AWS::IAM::Role"
    }
    having = {
        name for name, role in roles.items() if {"Ref": "TokenAccess"} in role.get("ManagedPolicyArns", [])
    }
    assert having == {f"{function}Role" for function in PROTECTED}
    own = {name: {each for each in allowed(translated, name) if "dynamodb" in each} for name in having}
    assert {name: actions for name, actions in own.items() if actions} == {
        "PricesFunctionRole": {"dynamodb:Query"}
    }
    managed = {name for name in having if "dynamodb" in str(roles[name]["ManagedPolicyArns"]).lower()}
    assert managed == {"ContractsAnnouncerRole"}
    assert "service-role/AWSLambdaDynamoDBExecutionRole" in str(roles["ContractsAnnouncerRole"])


def test_the_deployed_policy_allows_what_the_template_says(deployed: Deployed, translated: Template) -> None:
    """The deployed policy has the template's actions and the table's own address."""
    iam: Any = boto3.client("iam")
    arn = deployed.outputs["TokenAccessPolicy"]
    version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    document = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]
    found = document["Statement"]
    actions = {action for statement in found for action in listed(statement["Action"])}
    assert actions == allowed(translated, "TokenAccess")
    assert {statement["Resource"] for statement in found} == {deployed.outputs["TokenTableArn"]}
