"""Every policy that a template or a page shows suffices for every decorator and results of any size."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

from lambda_once import Once
from lambda_once.errors import Misconfigured, ResultUnavailable
from lambda_once.testing import (
    api_event,
    create_table,
    eventbridge_event,
    lambda_context,
    sqs_event,
)
from tests.decorators import sources_table
from tests.kit import iam, tables
from tests.kit.executions import executions
from tests.kit.judge import Statement, listed
from tests.kit.recorded import SHOP
from tests.kit.strict.mounted import mounted

from .conftest import ROOT
from .named import of_type
from .nested import flat, parsed

KB = 1000
SIZES = {"small": 20, "12 KB": 12 * KB, "300 KB": 300 * KB, "900 KB": 900 * KB}
"""Of a result's text, which compresses to three quarters."""
IN_ROW = ("small", "12 KB", "300 KB")
"""What a row can hold where no parts may be written."""
PARTS = "dynamodb:BatchWriteItem"


def sample() -> list[Statement]:
    """Return the policy of the sample stack's functions, that of tokens.yaml; the CDK nests the file, too."""
    template = flat(SHOP / "template.yaml")
    (policy,) = of_type(template, "AWS::Serverless::Function")["PaymentsFunction"]["Policies"]
    document = template["Resources"][policy["Ref"]]["Properties"]["PolicyDocument"]
    service = template["Globals"]["Function"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
    return _of_shop(document["Statement"], service)


def minimal() -> list[Statement]:
    """Return the policy of examples/minimal, which the tutorial deploys."""
    template = parsed(ROOT / "examples" / "minimal" / "template.yaml")
    function = of_type(template, "AWS::Serverless::Function")["PaymentsFunction"]
    statements = [statement for policy in function["Policies"] for statement in policy["Statement"]]
    return _of_shop(statements, function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"])


def deploying() -> list[Statement]:
    """Return the policy that docs/deploying.md shows for a function."""
    return _of_shop(_shown("deploying", "PartiQLInsert"), "billing")


def words(page: str, *rows: str) -> set[str]:
    """Return the actions that the rows of a table in *page* name."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.startswith(rows)]
    assert len(found) == len(rows)
    return {f"dynamodb:{verb}" for verb in re.findall(r"`([A-Z]\w+)`", " ".join(found))}


def asking() -> list[Statement]:
    """Return the policy of docs/api.md for a function that only asks what became of a key."""
    return _shown("api", "shop/charge/*")


def _shown(page: str, having: str) -> list[Statement]:
    """Return the only policy with the text *having* that a page shows."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    from samtranslator.yaml_helper import yaml_parse  # as in `nested`

    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (shown,) = [block for block in blocks if having in block]
    statements: list[Statement] = yaml_parse(shown)
    return statements


def _of_shop(statements: Sequence[Statement], service: str) -> list[Statement]:
    """Return *statements* for the tokens of *service* as statements for those of the shop."""
    plain = iam.filled(list(statements), {"TokenTable.Arn": iam.ARN})
    made: list[Statement] = json.loads(json.dumps(plain).replace(f'["{service}/', '["shop/'))
    return made


SOURCES: dict[str, Callable[[], list[Statement]]] = {
    "template.yaml": sample,
    "examples/minimal": minimal,
    "docs/deploying.md": deploying,
}


def _distinct() -> dict[str, list[Statement]]:
    """Return the policies that differ, by the names of all who show them."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for name, read in SOURCES.items():
        found.setdefault(_allowed(read()), []).append(name)
    return {", ".join(names): SOURCES[names[0]]() for names in found.values()}


def _allowed(statements: Sequence[Statement]) -> tuple[Any, ...]:
    return tuple(
        sorted(
            (action, repr(statement.get("Condition")))
            for statement in statements
            for action in listed(statement["Action"])
        )
    )


POLICIES = _distinct()


def test_the_page_names_the_actions_of_the_policy() -> None:
    """In its table of permissions."""
    wanted = iam.actions(minimal())
    rows = ("| every function |", "| SQS batches |", "| results of more than 4 KB")
    assert words("docs/deploying.md", *rows) == wanted


@dataclass
class Shop:
    """Protected functions of every kind, whose results have one size; what they did is counted."""

    once: Once
    size: int
    done: list[str] = field(default_factory=list)

    def work(self, *_: object) -> str:
        self.done.append("work")
        return os.urandom(self.size // 2).hex()


def _keyed(row: sources_table.Row) -> Callable[[Once], Any]:
    """Return what decorates a function for the records of *row*."""
    return lambda once: getattr(once, row.decorator)(key=row.key)


ROWS = sources_table.SOURCES
TWO = ({"id": 1}, {"id": 2})
RECORDS: dict[str, tuple[Callable[[Once], Any], Any, int]] = {
    "sqs under hold": (lambda once: once.sqs(key="id", on_lapse="hold"), sqs_event(*TWO), 2),
    **{row.name: (_keyed(row), row.build({"orderId": 1}, {"orderId": 2}), 2) for row in ROWS},
}
"""Decorators of records, with an event, and how often the work runs for it."""


def _of_records(decorator: str) -> Callable[[Shop], Callable[[], Any]]:
    decorate, event, _ = RECORDS[decorator]

    def made(shop: Shop) -> Callable[[], Any]:
        def handle(record: Any) -> str:
            return shop.work(record)

        return _delivered(decorate(shop.once)(handle), event)

    return made


def _delivered(handler: Callable[[Any, Any], Any], event: Any) -> Callable[[], Any]:
    return lambda: handler(event, lambda_context("shop", os.urandom(4).hex()))


def _event(shop: Shop) -> Callable[[], Any]:
    @shop.once.event(key="detail.id")
    def handle(event: Any, context: Any) -> str:
        return shop.work(event, context)

    return _delivered(handle, eventbridge_event({"id": 1}))


def _api(shop: Shop) -> Callable[[], Any]:
    @shop.once.api_gateway
    def handle(event: Any, context: Any) -> Any:
        return {"statusCode": 201, "body": shop.work(event, context)}

    return _delivered(handle, api_event("POST", "/pay", {"id": 1}, headers={"Idempotency-Key": "k1"}))


def _function(shop: Shop) -> Callable[[], Any]:
    @shop.once.function(key="order")
    def charge(order: str) -> str:
        return shop.work(order)

    return lambda: charge("o-1")


def _run(shop: Shop) -> Callable[[], Any]:
    return lambda: shop.once.run("charge", "o-1", shop.work)


def _route(shop: Shop) -> Callable[[], Any]:
    app = APIGatewayHttpResolver()

    @app.post("/pay", middlewares=[shop.once.route()])
    def pay() -> Any:
        return {"paid": shop.work()}

    event = api_event("POST", "/pay", {"id": 1}, headers={"Idempotency-Key": "k1"})
    return lambda: app.resolve(event, lambda_context("shop", os.urandom(4).hex()))


def _execution(shop: Shop) -> Callable[[], Any]:
    def handle(event: Any, context: Any) -> Any:
        with shop.once.execution(context, key=event["id"], name="pay", lease=timedelta(hours=1)) as attempt:
            result = attempt.result if attempt.replayed else attempt.complete(shop.work())
        return result[:20]  # Lambda takes no large result of an execution

    def deliver() -> Any:
        with executions(handle) as started:
            ended = started.run(os.urandom(4).hex(), {"id": 5})
        if ended.error is not None:
            raise Misconfigured(ended.message or ended.error)
        return ended.value

    return deliver


def _begin(shop: Shop) -> Callable[[], Any]:
    def charge() -> Any:
        with shop.once.begin("o-1", name="charge") as attempt:
            return attempt.result if attempt.replayed else attempt.complete(shop.work())

    return charge


DECORATORS: dict[str, tuple[Callable[[Shop], Callable[[], Any]], int]] = {
    **{name: (_of_records(name), runs) for name, (_, _, runs) in RECORDS.items()},
    "event": (_event, 1),
    "api_gateway": (_api, 1),
    "function": (_function, 1),
    "begin": (_begin, 1),
    "run": (_run, 1),
    "route": (_route, 1),
    "execution": (_execution, 1),
}
"""What makes a delivery, and how often the work runs in it."""

Ask = Callable[[str, Sequence[Statement]], tuple[Shop, Once, list[str]]]
Deliver = Callable[[str, str, Sequence[Statement]], tuple[Shop, Callable[[], Any], list[str]]]


@pytest.fixture
def deliver() -> Iterator[Deliver]:
    """Make a shop on a new table whose client may do what *statements* allow."""

    def make(
        decorator: str, size: str, statements: Sequence[Statement]
    ) -> tuple[Shop, Callable[[], Any], list[str]]:
        client = tables.client()
        create_table(client, "tokens")
        denied = iam.limit(client, statements)
        shop = Shop(Once(table="tokens", client=client, service="shop"), SIZES[size])
        return shop, DECORATORS[decorator][0](shop), denied

    with mounted():
        yield make


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_published_policy_suffices(deliver: Deliver, policy: str, decorator: str, size: str) -> None:
    """Nothing is denied, the work runs once, and a duplicate gets what the first delivery got."""
    shop, delivered, denied = deliver(decorator, size, POLICIES[policy])
    first, again = delivered(), delivered()
    assert denied == []
    assert len(shop.done) == DECORATORS[decorator][1]
    assert _answer(again) == _answer(first)


@pytest.mark.parametrize("size", IN_ROW)
@pytest.mark.parametrize("decorator", DECORATORS)
def test_work_is_not_done_again_for_want_of_the_permission_for_parts(
    deliver: Deliver, decorator: str, size: str
) -> None:
    """A row holds the result then, and duplicates get it."""
    shop, delivered, denied = deliver(decorator, size, iam.without(minimal(), PARTS))
    first, again = delivered(), delivered()
    assert len(shop.done) == DECORATORS[decorator][1]
    assert _answer(again) == _answer(first)
    assert (denied == []) == (size == "small")


@pytest.mark.parametrize("decorator", ["api_gateway", "function", "begin", "event"])
def test_a_result_that_no_row_holds_is_unavailable_to_duplicates(deliver: Deliver, decorator: str) -> None:
    """The work is done once all the same."""
    shop, delivered, _ = deliver(decorator, "900 KB", iam.without(minimal(), PARTS))
    delivered()
    if decorator == "api_gateway":
        assert delivered()["statusCode"] == 409
    else:
        with pytest.raises(ResultUnavailable):
            delivered()
    assert len(shop.done) == 1


def test_batches_of_results_that_no_row_holds_are_not_delivered_for_ever(deliver: Deliver) -> None:
    """The result of a message is not read: it is done."""
    shop, delivered, _ = deliver("sqs", "900 KB", iam.without(minimal(), PARTS))
    assert delivered() == {"batchItemFailures": []}
    assert delivered() == {"batchItemFailures": []}
    assert len(shop.done) == 2


@pytest.mark.parametrize("denied", ["PartiQLInsert", "PartiQLUpdate", "BatchGetItem", "GetItem"])
@pytest.mark.parametrize("decorator", DECORATORS)
def test_other_missing_permissions_cost_no_second_run(deliver: Deliver, decorator: str, denied: str) -> None:
    """Batches are written one by one then; only the replay of a large result needs to read."""
    shop, delivered, _ = deliver(decorator, "small", iam.without(minimal(), f"dynamodb:{denied}"))
    first, again = delivered(), delivered()
    assert len(shop.done) == DECORATORS[decorator][1]
    assert _answer(again) == _answer(first)


@pytest.fixture
def ask() -> Iterator[Ask]:
    """Do a work named charge, and return what asks for it as *statements* allow."""

    def make(size: str, statements: Sequence[Statement]) -> tuple[Shop, Once, list[str]]:
        client = tables.client()
        create_table(client, "tokens")
        shop = Shop(Once(table="tokens", client=client, service="shop"), SIZES[size])
        shop.once.run("charge", "o-1", shop.work)
        shop.once.run("refund", "o-1", shop.work)
        asker = tables.client()
        denied = iam.limit(asker, statements)
        return shop, Once(table="tokens", client=asker, service="shop"), denied

    with mounted():
        yield make


@pytest.mark.parametrize("size", SIZES)
def test_the_policy_for_asking_suffices(ask: Ask, size: str) -> None:
    """For results of every size, and keys that were never used."""
    shop, once, denied = ask(size, asking())
    assert once.outcome("o-1", name="charge").result == shop.once.outcome("o-1", name="charge").result
    assert once.outcome("o-2", name="charge").state == "unknown"
    assert denied == []


def test_the_policy_for_asking_allows_nothing_else(ask: Ask) -> None:
    """Neither another name, nor a write."""
    shop, once, _ = ask("small", asking())
    with pytest.raises(Misconfigured, match="GetItem"):
        once.outcome("o-1", name="refund")
    with pytest.raises(Misconfigured, match="UpdateItem"):
        once.run("charge", "o-3", shop.work)
    assert len(shop.done) == 2


@pytest.mark.parametrize(("denied", "size"), [("GetItem", "small"), ("BatchGetItem", "900 KB")])
def test_twin_each_permission_for_asking_is_needed(ask: Ask, denied: str, size: str) -> None:
    """A denial is never taken for a key that is unknown, or a result that is lost."""
    _, once, _ = ask(size, iam.without(asking(), f"dynamodb:{denied}"))
    with pytest.raises(Misconfigured, match=denied):
        _ = once.outcome("o-1", name="charge").result


def _answer(answer: Any) -> Any:
    """Return *answer* without the header that marks a replay."""
    if isinstance(answer, dict) and "headers" in answer:
        return {name: value for name, value in answer.items() if name != "headers"}
    return answer
