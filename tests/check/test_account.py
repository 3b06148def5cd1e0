"""What is read of an account, and what is left open where a request is denied or fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    UnauthorizedSSOTokenError,
)

from lambda_once.errors import Misconfigured
from lambda_once_tools.check.account import LAYERS
from lambda_once_tools.check.deployment import (
    IN_CODE,
    NO_FUNCTION,
    UNKNOWN,
    CannotCheck,
    Deployment,
    EventSource,
    Index,
    NotChecked,
    Queue,
    Table,
)
from lambda_once_tools.check.policies import LEADING_KEYS, UNSEEN, permits
from lambda_once_tools.check.rules import findings
from tests.kit import elasticmq

from .deployed import (
    ANYTHING,
    DEAD,
    FUNCTION,
    QUEUE,
    TABLE,
    TOKENS,
    VARIABLES,
    Account,
    account,
    arn,
    document,
)

ALWAYS = (UNSEEN, IN_CODE, LAYERS)
"""What is never checked of a function."""


@pytest.fixture(name="shop")
def _shop() -> Iterator[Account]:
    with account() as opened:
        yield opened


def test_a_whole_deployment_is_read(shop: Account) -> None:
    """The function, its policies, its mapping, both queues and its table: nothing is left open."""
    shop.whole()
    found = shop.read(FUNCTION)
    (function,) = found.functions
    assert (function.resource, function.name, function.timeout) == (FUNCTION, FUNCTION, 30)
    assert function.environment == VARIABLES
    assert function.handler == "app.handler"
    assert function.statements is not UNKNOWN
    table = arn("dynamodb", f"table/{TABLE}")
    assert permits(function.statements, "dynamodb:PartiQLUpdate", table) is True, "inline"
    assert permits(function.statements, "sqs:DeleteMessage", arn("sqs", QUEUE)) is True, "managed"
    assert found.sources == (
        EventSource(
            f"{FUNCTION}/{QUEUE}", FUNCTION, "sqs", QUEUE, 10, 0, reports_failures=True, bisects=False
        ),
    )
    assert found.queues == (
        Queue(QUEUE, QUEUE, arn("sqs", QUEUE), 180, 345_600, fifo=False, dead_letter=DEAD, receives=5),
        Queue(
            resource=DEAD,
            name=DEAD,
            arn=arn("sqs", DEAD),
            visibility=30,
            retention=1_209_600,
            fifo=False,
            dead_letter=None,
            receives=None,
            is_dead_letter=True,
        ),
    )
    assert found.tables == (
        Table(
            resource=TABLE,
            name=TABLE,
            arn=table,
            keys=(("lockToken", "S"),),
            indexes=(
                Index(
                    "byStatus",
                    ("status", "expectedCompletion"),
                    "INCLUDE",
                    ("lockedBy", "created", "attempt"),
                ),
            ),
            ttl="ttl",
            recovery=False,
            deletion_protection=False,
            resource_policy=False,
        ),
    )
    assert (found.not_checked, found.missing_tables) == (ALWAYS, ())


def test_a_table_is_read_alone(shop: Account) -> None:
    """A line has that no function is here; its policy, which is for functions, is not read."""
    shop.table()
    found = shop.read(tables=[TABLE])
    assert found == Deployment(tables=found.tables, not_checked=(NO_FUNCTION,), deployed=True)
    assert [table.resource_policy for table in found.tables] == [UNKNOWN]
    assert {call.partition(":")[0] for call in shop.calls} == {"dynamodb"}


def test_a_table_with_another_key_is_a_finding(shop: Account) -> None:
    """Whether a function names it or not; nothing else is to be changed in it."""
    shop.own("dynamodb").create_table(
        TableName="idempotency",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    (found,) = findings(shop.read(tables=["idempotency"]))
    assert (found.code, found.resource, found.what) == (
        "T1",
        "idempotency",
        "its key is id (S), not lockToken (S)",
    )


def test_powertools_table_is_recognised(shop: Account) -> None:
    """By its key and time to live, which another table would keep; nothing makes a token table of it."""
    client = shop.own("dynamodb")
    client.create_table(
        TableName="idempotency",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.update_time_to_live(
        TableName="idempotency",
        TimeToLiveSpecification={"Enabled": True, "AttributeName": "expiration"},
    )
    shop.function(
        Environment={"Variables": {**VARIABLES, "LAMBDA_ONCE_TABLE": "idempotency"}},
        role=shop.role(TOKENS[2]),
    )
    for read in (shop.read(tables=["idempotency"]), shop.read(FUNCTION)):
        (found,) = findings(read)
        assert (found.code, found.what) == (
            "T1",
            "this is Powertools' table (id and expiration): make another",
        )
        assert "ttl" not in found.fix


def test_a_table_is_checked_where_functions_name_another(shop: Account) -> None:
    """Its key, its time to live and its index."""
    shop.whole()
    shop.own("dynamodb").create_table(
        TableName="bare",
        KeySchema=[{"AttributeName": "lockToken", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "lockToken", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for functions in ((), (FUNCTION,)):
        found = findings(shop.read(*functions, tables=["bare"]))
        assert {each.code for each in found if each.resource == "bare"} == {"T4", "T5", "T6", "T9"}


@pytest.mark.parametrize(
    ("rule", "schedule", "what"),
    [
        ("ENABLED", None, None),
        (None, "ENABLED", None),
        ("DISABLED", "ENABLED", None),
        ("DISABLED", None, "its schedule is disabled"),
        (None, "DISABLED", "its schedule is disabled"),
        (None, None, "no rule or schedule invokes it"),
    ],
)
def test_a_watchdog_that_never_runs(
    shop: Account, rule: str | None, schedule: str | None, what: str | None
) -> None:
    """Rules and schedules that invoke it are asked for."""
    shop.table()
    found = findings(shop.read(shop.watchdog(rule, schedule)))
    assert [each.what for each in found if each.code == "W1"] == ([] if what is None else [what])


def test_a_watchdog_without_concurrency_never_runs(shop: Account) -> None:
    """Though its rule is on."""
    shop.table()
    name = shop.watchdog("ENABLED")
    shop.own("lambda").put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    (found,) = (each for each in findings(shop.read(name)) if each.code == "W1")
    assert found.what == "its reserved concurrency is 0"


@pytest.mark.parametrize("action", ["events:ListRuleNamesByTarget", "events:DescribeRule"])
def test_a_watchdog_whose_rules_are_denied_is_not_judged(shop: Account, action: str) -> None:
    """It may run."""
    shop.table()
    name = shop.watchdog("DISABLED")
    shop.may_not(action)
    seen = shop.read(name)
    assert NotChecked(name, f"{action} is denied") in seen.not_checked
    assert "W1" not in {each.code for each in findings(seen)}


def test_a_queue_that_gets_dead_letters_is_no_source_queue(shop: Account) -> None:
    """Its handler may be the only function that is named; denied, it is not judged."""
    shop.whole()
    shop.function("redo", role=shop.role(*TOKENS, name="redo-role"))
    shop.mapping(arn("sqs", DEAD), "redo", **MAPPING)
    assert codes(shop, "redo") == []
    shop.may_not("sqs:ListDeadLetterSourceQueues")
    assert codes(shop, "redo") == []
    assert NotChecked(DEAD, "sqs:ListDeadLetterSourceQueues is denied") in shop.read("redo").not_checked


def test_a_table_is_read_once_by_whatever_names(shop: Account) -> None:
    """By its ARN, by its name, and by the variable of two functions."""
    shop.whole()
    shop.function("refunds", role=shop.role(name="refunds-role"))
    found = shop.read(FUNCTION, "refunds", FUNCTION, tables=[arn("dynamodb", f"table/{TABLE}"), TABLE])
    assert [table.resource for table in found.tables] == [TABLE]
    assert [function.resource for function in found.functions] == [FUNCTION, "refunds"]


def test_a_table_is_asked_for_by_the_arn_that_names_it(shop: Account) -> None:
    """By its name, a table of another account would be taken for one of this account."""
    shop.table()
    asked: set[str] = set()
    shop.client("dynamodb").meta.events.register(
        "before-parameter-build.dynamodb", lambda params, **_: asked.add(params["TableName"])
    )
    (table,) = shop.read(tables=[arn("dynamodb", f"table/{TABLE}")]).tables
    assert asked == {table.arn}
    assert table.ttl == "ttl"


def test_recovery_protection_and_a_policy_of_the_table_are_seen(shop: Account) -> None:
    """And a time to live that is off."""
    shop.whole()
    client = shop.own("dynamodb")
    client.update_continuous_backups(
        TableName=TABLE, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    client.update_table(TableName=TABLE, DeletionProtectionEnabled=True)
    client.put_resource_policy(ResourceArn=arn("dynamodb", f"table/{TABLE}"), Policy='{"Statement": []}')
    client.update_time_to_live(
        TableName=TABLE, TimeToLiveSpecification={"Enabled": False, "AttributeName": "ttl"}
    )
    (table,) = shop.read(FUNCTION).tables
    assert (table.recovery, table.deletion_protection, table.resource_policy, table.ttl) == (
        True,
        True,
        True,
        None,
    )


def test_a_stream_is_a_source_without_a_queue(shop: Account) -> None:
    """Its retries, its destination, and whether it bisects; what is missing means forever and none."""
    shop.whole()
    shop.own("kinesis").create_stream(StreamName="clicks", ShardCount=1)
    shop.mapping(
        arn("kinesis", "stream/clicks"),
        StartingPosition="LATEST",
        MaximumRetryAttempts=4,
        BisectBatchOnFunctionError=True,
        DestinationConfig={"OnFailure": {"Destination": arn("sqs", DEAD)}},
        MaximumBatchingWindowInSeconds=7,
    )
    shop.own("dynamodb").create_table(
        TableName="orders",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )
    stream = shop.own("dynamodb").describe_table(TableName="orders")["Table"]["LatestStreamArn"]
    shop.mapping(stream, StartingPosition="LATEST")
    _, kinesis, table = shop.read(FUNCTION).sources
    assert (kinesis.resource, table.resource) == (f"{FUNCTION}/clicks", f"{FUNCTION}/orders")
    assert (kinesis.kind, kinesis.source, kinesis.window) == ("kinesis", arn("kinesis", "stream/clicks"), 7)
    assert (kinesis.retries, kinesis.on_failure, kinesis.bisects) == (4, arn("sqs", DEAD), True)
    assert (kinesis.reports_failures, kinesis.batch_size) == (False, 100)
    assert (table.kind, table.retries, table.on_failure) == ("dynamodb", None, None)


def test_an_alias_has_mappings_of_its_own(shop: Account) -> None:
    """They are listed under the alias; its table and policies are the function's. An ARN is its name."""
    shop.whole()
    shop.own("lambda").create_alias(FunctionName=FUNCTION, Name="live", FunctionVersion="$LATEST")
    shop.queue("live-queue")
    shop.mapping(arn("sqs", "live-queue"), f"{FUNCTION}:live")
    found = shop.read(f"{FUNCTION}:live", arn("lambda", f"function:{FUNCTION}:live"))
    assert [(each.resource, each.name) for each in found.functions] == [(f"{FUNCTION}:live", FUNCTION)]
    assert [each.resource for each in found.sources] == [f"{FUNCTION}:live/live-queue"]
    assert [each.resource for each in found.tables] == [TABLE]


def test_policies_of_a_role_are_read_once(shop: Account) -> None:
    """Two functions have it."""
    shop.whole()
    shop.function("refunds", role=arn("iam", "role/shop/payments-role", ""))
    first, second = shop.read(FUNCTION, "refunds").functions
    assert first.statements == second.statements
    assert shop.calls.count("iam:ListRolePolicies") == 1


def test_a_cluster_outside_of_aws_is_a_source_without_an_arn(shop: Account) -> None:
    """Its mapping has the id that Lambda gave it."""
    shop.whole()

    def with_kafka(parsed: dict[str, Any], **_: Any) -> None:
        cluster = {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": ["kafka:9092"]}}
        parsed["EventSourceMappings"].append({"UUID": "u-1", "SelfManagedEventSource": cluster})

    shop.client("lambda").meta.events.register("after-call.lambda.ListEventSourceMappings", with_kafka)
    *_, source = shop.read(FUNCTION).sources
    assert (source.resource, source.kind, source.source) == (f"{FUNCTION}/u-1", "kafka", UNKNOWN)
    assert source.batch_size is UNKNOWN


def test_a_function_without_the_variable_has_no_table_that_is_seen(shop: Account) -> None:
    """It is listed, with what to pass."""
    shop.function(Environment={"Variables": {}})
    found = shop.read(FUNCTION)
    assert found.tables == ()
    assert found.not_checked == (
        NotChecked(FUNCTION, "its table: it has no LAMBDA_ONCE_TABLE; pass --table"),
        *ALWAYS,
    )


def test_a_table_that_does_not_exist_is_missing(shop: Account) -> None:
    """A function's variable that names none leaves nothing else open."""
    shop.function()
    found = shop.read(FUNCTION)
    assert (found.tables, found.missing_tables, found.not_checked) == ((), (TABLE,), ALWAYS)
    assert [(each.code, each.resource) for each in findings(found)] == [("T7", FUNCTION)]


@pytest.mark.parametrize("named", [{"functions": ["paymnets"]}, {"tables": ["tokns"]}])
def test_what_was_named_must_exist(shop: Account, named: dict[str, list[str]]) -> None:
    """A name mistyped in a pipeline is no clean deployment."""
    shop.whole()
    with pytest.raises(
        CannotCheck, match=r"there is no (function paymnets|table tokns): check the name, --region"
    ):
        shop.read(*named.get("functions", [FUNCTION]), tables=named.get("tables", []))


# -- findings


def codes(shop: Account, *functions: str) -> list[str]:
    """Return the codes of what is found, advice on the table left out, which moto cannot have by default."""
    return [
        each.code
        for each in findings(shop.read(*(functions or (FUNCTION,))))
        if each.code not in ("T5", "T6")
    ]


def test_a_sound_deployment_has_no_findings(shop: Account) -> None:
    """Its role has the policies of the pages."""
    shop.whole()
    assert codes(shop) == []


MAPPING: dict[str, Any] = {"BatchSize": 10, "FunctionResponseTypes": ["ReportBatchItemFailures"]}


@pytest.mark.parametrize(
    ("found", "queue", "mapping"),
    [
        ("Q1", {}, {"FunctionResponseTypes": []}),
        ("Q2", {"dead": None}, {}),
        ("Q3", {"VisibilityTimeout": "20"}, {}),
        ("Q4", {"VisibilityTimeout": "60"}, {}),
        ("Q6", {"MessageRetentionPeriod": "1209600"}, {}),
        ("Q8", {}, {"BatchSize": 100}),
    ],
)
def test_a_deployed_mistake_has_its_finding(
    shop: Account, found: str, queue: dict[str, Any], mapping: dict[str, Any]
) -> None:
    """Of a queue, or of its mapping, and no other."""
    shop.table()
    shop.function(role=shop.role(*TOKENS))
    shop.queue(DEAD)
    shop.queue(
        QUEUE, **({"dead": DEAD, "VisibilityTimeout": "180", "MessageRetentionPeriod": "86400"} | queue)
    )
    shop.mapping(arn("sqs", QUEUE), **(MAPPING | mapping))
    assert codes(shop) == [found]


def limited(keys: str) -> dict[str, Any]:
    """Return the condition of the pages for these partition keys."""
    test = {"ForAllValues:StringLike": {LEADING_KEYS: [keys]}, "Null": {LEADING_KEYS: "false"}}
    return {"Condition": test}


CRUD = [f"dynamodb:{each}" for each in ("GetItem", "DeleteItem", "PutItem", "Scan", "Query", "UpdateItem")]


@pytest.mark.parametrize(
    ("found", "policies"),
    [
        (["P1", "P2", "P3"], [TOKENS[2]]),
        (["P2"], [{**TOKENS[0], "Action": ["dynamodb:GetItem", "dynamodb:UpdateItem"]}, *TOKENS[1:]]),
        (["P3"], [TOKENS[0], TOKENS[2]]),
        (
            ["P2", "P5"],
            [
                {**TOKENS[0], "Action": [*CRUD, "dynamodb:BatchGetItem", "dynamodb:BatchWriteItem"]},
                TOKENS[2],
            ],
        ),
        (["P1", "P2", "P3"], [*TOKENS, {**TOKENS[0], "Action": "dynamodb:*", "Effect": "Deny"}]),
        ([], [{**TOKENS[0], **limited("shop/*")}, {**TOKENS[1], **limited("shop/*#*#*")}, TOKENS[2]]),
        (["P1", "P2"], [{**TOKENS[0], **limited("billing/*")}, *TOKENS[1:]]),
        (["P3"], [TOKENS[0], {**TOKENS[1], **limited("billing/*#*#*")}, TOKENS[2]]),
    ],
)
def test_what_a_role_may_not_do_is_found(shop: Account, found: list[str], policies: list[Any]) -> None:
    """SAM's DynamoDBCrudPolicy has no PartiQL, and may delete tokens; some roles are for another service."""
    shop.whole()
    shop.function("refunds", role=shop.role(*policies, name="refunds-role"))
    shop.mapping(arn("sqs", QUEUE), "refunds", **MAPPING)
    assert codes(shop, "refunds") == found


# -- denied and failed requests

OPEN = {
    "lambda:ListEventSourceMappings": FUNCTION,
    "iam:ListRolePolicies": FUNCTION,
    "iam:GetRolePolicy": FUNCTION,
    "iam:ListAttachedRolePolicies": FUNCTION,
    "iam:GetPolicy": FUNCTION,
    "iam:GetPolicyVersion": FUNCTION,
    "sqs:GetQueueUrl": QUEUE,
    "sqs:GetQueueAttributes": QUEUE,
    "dynamodb:DescribeTable": TABLE,
    "dynamodb:DescribeTimeToLive": TABLE,
    "dynamodb:DescribeContinuousBackups": TABLE,
    "dynamodb:GetResourcePolicy": TABLE,
}
"""What a denied action leaves open."""


@pytest.mark.parametrize("action", OPEN)
def test_a_denied_request_is_listed_and_its_answer_unknown(shop: Account, action: str) -> None:
    """What else can be read is the same as without the denial."""
    shop.whole()
    whole = shop.read(FUNCTION)
    shop.may_not(action)
    found = shop.read(FUNCTION)
    denied, *undecided = (each for each in found.not_checked if each not in ALWAYS)
    assert denied == NotChecked(OPEN[action], f"{action} is denied")
    assert bool(undecided) == action.startswith("iam:"), "what the function may do"
    (function,) = found.functions
    assert (function.statements is UNKNOWN) == action.startswith("iam:")
    assert found.sources == () if action.startswith("lambda:") else len(found.sources) == 1
    if action.startswith("sqs:"):
        assert (found.queues, found.sources[0].source) == ((), arn("sqs", QUEUE))
    elif not action.startswith("lambda:"):
        assert (found.queues, found.sources) == (whole.queues, whole.sources)
    if not action.startswith("dynamodb:"):
        assert found.tables == whole.tables


def test_a_denied_table_is_unknown_field_by_field(shop: Account) -> None:
    """A table whose description was read is checked for what it has."""
    shop.whole()
    shop.may_not(
        "dynamodb:DescribeTimeToLive", "dynamodb:DescribeContinuousBackups", "dynamodb:GetResourcePolicy"
    )
    (table,) = shop.read(FUNCTION).tables
    assert (table.ttl, table.recovery, table.resource_policy) == (UNKNOWN, UNKNOWN, UNKNOWN)
    assert table.indexes is not UNKNOWN
    assert len(table.indexes) == 1


def test_a_table_that_may_not_be_described_is_not_missing(shop: Account) -> None:
    """Whether it exists is unknown."""
    shop.whole()
    shop.may_not("dynamodb:*")
    found = shop.read(FUNCTION)
    assert (found.tables, found.missing_tables) == ((), ())


def test_what_a_policy_leaves_open_is_listed(shop: Account) -> None:
    """A condition that is not evaluated decides."""
    shop.whole()
    condition = {"DateGreaterThan": {"aws:CurrentTime": "2026-01-01T00:00:00Z"}}
    shop.function("refunds", role=shop.role({**ANYTHING, "Condition": condition}, name="refunds-role"))
    found = shop.read("refunds")
    assert found.not_checked[0].resource == "refunds"
    assert found.not_checked[0].why.startswith("whether it may GetItem, UpdateItem")


def test_a_dead_letter_queue_that_cannot_be_read_is_an_arn(shop: Account) -> None:
    """The queue that has it is checked all the same; one of another account is asked for by its account."""
    shop.whole()
    shop.may(
        {"Effect": "Allow", "NotAction": "sqs:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "sqs:*", "Resource": arn("sqs", QUEUE)},
    )
    found = shop.read(FUNCTION)
    assert [(queue.resource, queue.dead_letter, queue.receives) for queue in found.queues] == [
        (QUEUE, arn("sqs", DEAD), 5)
    ]
    assert NotChecked(DEAD, "sqs:GetQueueUrl is denied") in found.not_checked


def test_nothing_read_is_no_deployment(shop: Account) -> None:
    """The message is AWS' own: a wrong profile looks like a missing permission."""
    shop.whole()
    shop.may()
    with pytest.raises(
        CannotCheck, match=r"nothing could be read: .* is not authorized to perform: lambda:GetFunc"
    ):
        shop.read(FUNCTION)


def test_one_function_of_two_is_checked(shop: Account) -> None:
    """That which may be read."""
    shop.whole()
    shop.function("refunds", role=shop.role(name="refunds-role"))
    shop.may(
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        {"Effect": "Deny", "Action": "lambda:*", "Resource": arn("lambda", "function:refunds")},
    )
    found = shop.read(FUNCTION, "refunds")
    assert [function.resource for function in found.functions] == [FUNCTION]
    assert NotChecked("refunds", "lambda:GetFunctionConfiguration is denied") in found.not_checked


def fail(shop: Account, service: str, error: Exception) -> None:
    """Let each request to *service* end in *error*."""

    def raise_it(**_: Any) -> None:
        raise error

    shop.client(service).meta.events.register(f"before-parameter-build.{service}", raise_it)


def refusal(code: str) -> ClientError:
    """Return a refusal of AWS."""
    return ClientError(
        {"Error": {"Code": code, "Message": "..."}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "X"
    )


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (refusal("Throttling"), "is throttled: retry"),
        (refusal("InternalFailure"), "failed (InternalFailure)"),
        (refusal("NoSuchEntity"), "found nothing (NoSuchEntity)"),
        (ConnectTimeoutError(endpoint_url="https://iam"), "got no response (ConnectTimeoutError)"),
    ],
)
def test_a_failed_request_is_listed_with_its_reason(shop: Account, error: Exception, why: str) -> None:
    """Throttled, failed, absent, unanswered: none of them ends the check."""
    shop.whole()
    fail(shop, "iam", error)
    found = shop.read(FUNCTION)
    assert NotChecked(FUNCTION, f"iam:ListRolePolicies {why}") in found.not_checked
    assert found.functions[0].statements is UNKNOWN


def test_a_silent_service_is_asked_once(shop: Account) -> None:
    """Each further request would take as long; all of them are listed, and other services are asked."""
    shop.whole()
    fail(shop, "iam", ConnectTimeoutError(endpoint_url="https://iam"))
    found = shop.read(FUNCTION)
    assert [call for call in shop.calls if call.startswith("iam:")] == ["iam:ListRolePolicies"]
    silent = [each.why for each in found.not_checked if "got no response" in each.why]
    assert [why.split()[0] for why in silent] == ["iam:ListRolePolicies", "iam:ListAttachedRolePolicies"]
    assert len(found.queues) == 2


@pytest.mark.parametrize(
    "error",
    [
        refusal("ExpiredTokenException"),
        refusal("InvalidSignatureException"),
        NoCredentialsError(),
        UnauthorizedSSOTokenError(),
    ],
)
def test_credentials_that_are_not_accepted_end_the_check(shop: Account, error: Exception) -> None:
    """No other request would be answered; the cause is kept for the message."""
    shop.whole()
    fail(shop, "iam", error)
    with pytest.raises(Misconfigured) as caught:
        shop.read(FUNCTION)
    assert caught.value.__cause__ is error


def test_an_environment_that_cannot_be_decrypted_is_unknown(shop: Account) -> None:
    """Lambda answers with an error in its place."""
    shop.whole()

    def encrypted(parsed: dict[str, Any], **_: Any) -> None:
        parsed["Environment"] = {"Error": {"ErrorCode": "AccessDeniedException", "Message": "kms"}}

    shop.client("lambda").meta.events.register("after-call.lambda.GetFunctionConfiguration", encrypted)
    found = shop.read(FUNCTION)
    assert found.functions[0].environment is UNKNOWN
    assert NotChecked(FUNCTION, "its environment cannot be decrypted") in found.not_checked
    assert found.tables == ()


def test_a_policy_that_is_not_json_is_unknown(shop: Account) -> None:
    """What else the role has may be denied by it."""
    shop.whole()

    def garbled(parsed: dict[str, Any], **_: Any) -> None:
        parsed["PolicyDocument"] = "{'Statement': []}"

    shop.client("iam").meta.events.register("after-call.iam.GetRolePolicy", garbled)
    found = shop.read(FUNCTION)
    assert found.functions[0].statements is UNKNOWN
    assert NotChecked(FUNCTION, "its policy inline is not JSON") in found.not_checked


def test_all_pages_are_read(shop: Account) -> None:
    """Of mappings and of policies."""
    shop.whole()
    role = "payments-role"
    for number in range(120):
        shop.own("iam").put_role_policy(
            RoleName=role,
            PolicyName=f"p{number}",
            PolicyDocument=document({"Effect": "Allow", "Action": f"x:Do{number}", "Resource": "*"}),
        )
    (function,) = shop.read(FUNCTION).functions
    assert function.statements is not UNKNOWN
    assert permits(function.statements, "x:Do119", "*") is True


def test_the_time_of_each_response_of_the_table_is_heard(shop: Account) -> None:
    """And of no other service: the clock that counts is DynamoDB's."""
    shop.whole()
    seen: list[tuple[Any, datetime]] = []
    shop.read(FUNCTION, heard=lambda answer, sent: seen.append((answer, sent)))
    assert all("date" in answer["ResponseMetadata"]["HTTPHeaders"] for answer, _ in seen)
    assert len(seen) == len([call for call in shop.calls if call.startswith("dynamodb:")]) - 1, (
        "one was refused"
    )
    assert all(abs(datetime.now(UTC) - sent) < timedelta(minutes=1) for _, sent in seen)  # noqa: TID251


def test_no_call_writes(shop: Account) -> None:
    """The names of all calls begin with a word that reads."""
    shop.whole()
    shop.read(FUNCTION)
    verbs = {call.partition(":")[2] for call in shop.calls}
    assert verbs
    assert all(verb.startswith(("Get", "List", "Describe")) for verb in verbs)


# -- real engines


@pytest.mark.engine
def test_real_tables_and_queues_are_read(engine_endpoint: str) -> None:
    """Dynoxide has no recovery and no policies, ElasticMQ no retention: they are left open."""
    with elasticmq.running() as queues, account({"dynamodb": engine_endpoint, "sqs": queues}) as shop:
        shop.whole()
        try:
            found = shop.read(FUNCTION)
        finally:
            shop.own("dynamodb", engine_endpoint).delete_table(TableName=TABLE)
    (table,) = found.tables
    assert (table.keys, table.ttl) == ((("lockToken", "S"),), "ttl")
    assert table.indexes is not UNKNOWN
    assert table.indexes[0].keys == ("status", "expectedCompletion")
    assert (table.recovery, table.resource_policy) == (UNKNOWN, UNKNOWN)
    assert [
        (queue.resource, queue.visibility, queue.retention, queue.receives) for queue in found.queues
    ] == [
        (QUEUE, 180, UNKNOWN, 5),
        (DEAD, 30, UNKNOWN, None),
    ]
    assert found.queues[0].dead_letter == DEAD
    allowed = next(each for each in found.not_checked if each.resource == FUNCTION)
    assert allowed.why.startswith("whether it may GetItem"), "the engine's table has another ARN"
    assert set(found.not_checked) - {allowed} == {
        NotChecked(TABLE, "dynamodb:DescribeContinuousBackups failed (UnknownOperationException)"),
        NotChecked(TABLE, "dynamodb:GetResourcePolicy failed (UnknownOperationException)"),
        *ALWAYS,
    }


# -- a table without the index


def test_a_function_without_a_mapping_is_a_finding_on_a_table_without_the_index(shop: Account) -> None:
    """Something invokes it directly. One with a queue is none; what may not be listed is not judged."""
    shop.table(status_index=False)
    queue = shop.queue()
    shop.function()
    shop.mapping(queue)
    shop.function("orders", role=shop.role(name="orders-role"))
    found = findings(shop.read(FUNCTION, "orders"))
    assert [(each.resource, each.what) for each in found if each.code == "T8"] == [
        ("orders", "is invoked by direct invocations, and tokens has no index byStatus")
    ]
    assert {each.code for each in found} & {"T2", "T9"} == set()
    shop.may_not("lambda:ListEventSourceMappings")
    assert "T8" not in {each.code for each in findings(shop.read("orders"))}


def test_a_table_without_the_index_is_advice_alone(shop: Account) -> None:
    """Its functions were not named."""
    shop.table(status_index=False)
    assert "T9" in {each.code for each in findings(shop.read(tables=[TABLE]))}
