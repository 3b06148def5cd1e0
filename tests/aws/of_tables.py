"""Assertions about DynamoDB and its streams."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from secrets import token_hex
from typing import Any, Final, Literal, NamedTuple

from lambda_once import Once
from lambda_once.testing import lambda_context, sqs_event
from tests.aws.play import Answer, Assertion, Later, Run, judged, noticed

Attributes = dict[str, Any]
LOCAL: Final = "first-run"
"""The service of work that this machine does in the table itself."""


def _key() -> str:
    return token_hex(8)


def _batch(run: Run, *statements: tuple[str, list[str]]) -> list[Attributes]:
    """Send statements over the facts table, `{}` in their text; return their answers."""
    table = f'"{run.outputs["FactsTable"]}"'
    sent = [
        {
            "Statement": text.replace("{}", table),
            "Parameters": [{"S": value} for value in values],
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        for text, values in statements
    ]
    client = run.client("dynamodb")
    answer = client.batch_execute_statement(Statements=sent, ReturnConsumedCapacity="TOTAL")
    for consumed in answer.get("ConsumedCapacity", []):
        run.count("write units", consumed["CapacityUnits"])
    return list(answer["Responses"])


INSERT: Final = "INSERT INTO {} VALUE {'id': ?, 'owner': ?}"
UPDATE: Final = 'UPDATE {} SET "owner" = ? WHERE id = ? AND "owner" = ?'


def _code(answer: Attributes) -> str:
    return str(answer.get("Error", {}).get("Code", "written"))


def insert_of_a_taken_key(run: Run) -> Answer:
    """In a batch of statements, INSERT of a taken key is a DuplicateItem, and the others are written."""
    taken, free = _key(), _key()
    _batch(run, (INSERT, [taken, "first"]))
    refused, written = _batch(run, (INSERT, [taken, "second"]), (INSERT, [free, "second"]))
    holds = _code(refused) == "DuplicateItem" and _code(written) == "written"
    return judged(holds, f"{_code(refused)}, {_code(written)}; the item {_came_along(refused)}")


def refused_update_in_a_batch(run: Run) -> Answer:
    """In a batch of statements, an UPDATE whose condition is false is a ConditionalCheckFailed."""
    taken = _key()
    _batch(run, (INSERT, [taken, "first"]))
    (refused,) = _batch(run, (UPDATE, ["second", taken, "nobody"]))
    return judged(
        _code(refused) == "ConditionalCheckFailed", f"{_code(refused)}; the item {_came_along(refused)}"
    )


def _came_along(answer: Attributes) -> str:
    has = "Item" in answer or "Item" in answer.get("Error", {})
    return "came along with it" if has else "didn't come along, though ALL_OLD asked for it"


def update_of_a_missing_row(run: Run) -> Answer:
    """In a batch of statements, an UPDATE of a row that isn't there is refused."""
    (refused,) = _batch(run, (UPDATE, ["second", _key(), "first"]))
    return judged(_code(refused) == "ConditionalCheckFailed", _code(refused))


def same_item_twice(run: Run) -> Answer:
    """A batch that names one item twice is refused as a whole, and nothing is written."""
    twice = _key()
    client = run.client("dynamodb")
    try:
        _batch(run, (INSERT, [twice, "a"]), (INSERT, [twice, "b"]))
    except client.exceptions.ClientError as error:
        there = client.get_item(
            TableName=run.outputs["FactsTable"], Key={"id": {"S": twice}}, ConsistentRead=True
        )
        return judged("Item" not in there, error.response["Error"]["Code"])
    return judged(holds=False, seen="it was taken")


def most_statements(run: Run) -> Answer:
    """A batch has 25 statements at most."""
    client = run.client("dynamodb")
    written = _batch(run, *((INSERT, [_key(), "a"]) for _ in range(25)))
    try:
        _batch(run, *((INSERT, [_key(), "a"]) for _ in range(26)))
    except client.exceptions.ClientError as error:
        return judged(
            set(map(_code, written)) == {"written"}, f"25 were written; 26: {error.response['Error']['Code']}"
        )
    return judged(holds=False, seen="26 were taken")


def refused_update_returns_the_row(run: Run) -> Answer:
    """A conditional UpdateItem that is refused returns the item as it is."""
    client, key = run.client("dynamodb"), {"id": {"S": _key()}}
    table = run.outputs["FactsTable"]
    update = {
        "TableName": table,
        "Key": key,
        "UpdateExpression": "SET #owner = :mine",
        "ExpressionAttributeNames": {"#owner": "owner"},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    client.update_item(**update, ExpressionAttributeValues={":mine": {"S": "first"}})
    try:
        client.update_item(
            **update,
            ExpressionAttributeValues={":mine": {"S": "second"}},
            ConditionExpression="attribute_not_exists(id)",
        )
    except client.exceptions.ConditionalCheckFailedException as error:
        item = error.response.get("Item")
        return judged(item == {**key, "owner": {"S": "first"}}, "it came" if item else "no item came")
    return judged(holds=False, seen="it was written")


def transactions(run: Run) -> Answer:
    """A refused transaction names each reason in its place, with the item; what is written costs twice."""
    client, table, taken = run.client("dynamodb"), run.outputs["FactsTable"], _key()

    def put(key: str, **more: str) -> Attributes:
        return {"Put": {"TableName": table, "Item": {"id": {"S": key}}, **more}}

    free = {
        "ConditionExpression": "attribute_not_exists(id)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    (consumed,) = client.transact_write_items(
        TransactItems=[put(taken), put(_key())], ReturnConsumedCapacity="TOTAL"
    )["ConsumedCapacity"]
    run.count("write units", consumed["CapacityUnits"])
    try:
        client.transact_write_items(TransactItems=[put(_key()), put(taken, **free)])
    except client.exceptions.TransactionCanceledException as error:
        reasons = error.response["CancellationReasons"]
        codes = [each["Code"] for each in reasons]
        holds = (
            codes == ["None", "ConditionalCheckFailed"]
            and "Item" in reasons[1]
            and consumed["CapacityUnits"] == 4
        )
        return judged(holds, f"{codes}; {consumed['CapacityUnits']:g} units for two items")
    return judged(holds=False, seen="it was written")


# ------------------------------------------------------------------ units


class Capacity:
    """Adds up the units that the answers to *client* name."""

    def __init__(self, client: Any) -> None:
        self.write = self.read = 0.0
        self.requests = 0
        client.meta.events.register("provide-client-params.dynamodb", self._ask)
        client.meta.events.register("after-call.dynamodb", self._add)

    def _ask(self, params: Attributes, **_: object) -> None:
        params["ReturnConsumedCapacity"] = "TOTAL"

    def _add(self, parsed: Attributes, model: Any, **_: object) -> None:
        consumed = parsed.get("ConsumedCapacity", [])
        units = sum(
            each["CapacityUnits"] for each in ([consumed] if isinstance(consumed, dict) else consumed)
        )
        self.requests += 1
        if model.name in ("GetItem", "BatchGetItem", "Query"):
            self.read += units
        else:
            self.write += units


def _metered(run: Run, listing: Literal["stream", "at_once"]) -> tuple[Once, Capacity]:
    """Return a `Once` over the token table that lists as *listing* says, and the units of what it sends."""
    client = run.aws.fresh("dynamodb")
    once = Once(table=run.outputs["TokenTableName"], client=client, service=LOCAL, listing=listing)
    return once, Capacity(client)


def _new_work(run: Run, listing: Literal["stream", "at_once"]) -> float:
    once, capacity = _metered(run, listing)
    once.run(f"units {listing}", _key(), lambda: "done")
    run.count("write units", capacity.write)
    return capacity.write


def units_by_stream(run: Run) -> Answer:
    """New work takes two write units where the stream finds what crashed."""
    units = _new_work(run, "stream")
    return judged(units == 2, f"{units:g}")


def units_at_once(run: Run) -> Answer:
    """New work takes four write units where each acquisition is listed."""
    units = _new_work(run, "at_once")
    return judged(units == 4, f"{units:g}")


def units_of_a_batch(run: Run) -> Answer:
    """Ten new messages take twenty write units and four requests at most, and ten duplicates two requests."""
    once, capacity = _metered(run, "stream")
    ran: list[str] = []

    @once.sqs(key="id", name="batch")
    def work(record: Any) -> None:
        ran.append(record.json_body["id"])

    event = sqs_event(*({"id": _key()} for _ in range(10)))
    work(event, lambda_context())
    units, requests = capacity.write, capacity.requests
    work(event, lambda_context())
    again = capacity.requests - requests
    run.count("write units", units)
    seen = f"{units:g} units and {requests} requests, then {again} requests; ran {len(ran)} times"
    return judged(len(ran) == 10 and units <= 20 and requests <= 4 and again <= 2, seen)


# ------------------------------------------------------------------ TTL, streams


def ttl(run: Run) -> Later:
    """A row whose time is over is still there for a while."""
    client, table, key = run.client("dynamodb"), run.outputs["FactsTable"], {"id": {"S": _key()}}
    now = run.aws.clock.now()
    client.put_item(TableName=table, Item=key | {"expiration": {"N": str(int(now.timestamp()) - 60)}})

    def look() -> Answer:
        there = "Item" in client.get_item(TableName=table, Key=key, ConsistentRead=True)
        minutes = (run.aws.clock.now() - now).total_seconds() / 60
        return noticed(f"{'still there' if there else 'gone'} {minutes:.0f} minutes later")

    return look


def ttl_is_on(run: Run) -> Answer:
    """The token table's TTL is on, on `ttl`."""
    answer = run.client("dynamodb").describe_time_to_live(TableName=run.outputs["TokenTableName"])
    described = answer["TimeToLiveDescription"]
    return judged(
        described["TimeToLiveStatus"] in ("ENABLING", "ENABLED") and described.get("AttributeName") == "ttl",
        described["TimeToLiveStatus"],
    )


class Pages(NamedTuple):
    """What a reader of the stream met."""

    keys: Counter[str]
    """How often each token was inserted."""
    shards: int
    pages: int
    longest_gap: int
    """Empty pages in a row, before one that has a record."""
    throttled: int


def stream_under_two_readers(run: Run) -> Answer:
    """Two readers of the table's stream see each new row once, although pages between are empty."""
    once, _ = _metered(run, "stream")
    expected = {f"{LOCAL}/streamed/{each}" for each in (_key() for _ in range(20))}
    for token in expected:
        once.run("streamed", token.rpartition("/")[2], lambda: None)
    described = run.client("dynamodb").describe_table(TableName=run.outputs["TokenTableName"])
    arn = described["Table"]["LatestStreamArn"]
    with ThreadPoolExecutor(2) as readers:
        first, second = readers.map(lambda _: _read(run, arn, expected), range(2))
    holds = all(
        {token: pages.keys[token] for token in expected} == dict.fromkeys(expected, 1)
        for pages in (first, second)
    )
    seen = "; ".join(
        f"{pages.shards} shards, {pages.pages} pages, {pages.longest_gap} empty in a row, "
        f"{pages.throttled} throttled"
        for pages in (first, second)
    )
    return judged(holds, seen)


def _read(run: Run, arn: str, expected: set[str]) -> Pages:
    """Read each shard of the stream *arn* until all of *expected* were seen, for a minute."""
    client = run.aws.fresh("dynamodbstreams")
    shards = client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterators = {
        shard["ShardId"]: client.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        for shard in shards
    }
    keys: Counter[str] = Counter()
    pages = throttled = longest = 0
    empty = dict.fromkeys(iterators, 0)
    ends = run.aws.clock.now() + timedelta(minutes=1)
    while iterators and not expected <= keys.keys() and run.aws.clock.now() < ends:
        for shard, iterator in list(iterators.items()):
            try:
                page = client.get_records(ShardIterator=iterator)
            except client.exceptions.LimitExceededException:
                throttled += 1
                run.aws.clock.sleep(0.2)
                continue
            pages += 1
            if page["Records"]:
                longest = max(longest, empty[shard])
            empty[shard] = 0 if page["Records"] else empty[shard] + 1
            keys.update(
                record["dynamodb"]["Keys"]["lockToken"]["S"]
                for record in page["Records"]
                if record["eventName"] == "INSERT"
            )
            if "NextShardIterator" in page:
                iterators[shard] = page["NextShardIterator"]
            else:
                del iterators[shard]
        run.aws.clock.sleep(0.05)
    return Pages(keys, len(shards), pages, longest, throttled)


def clocks(run: Run) -> Answer:
    """A function's clock differs from DynamoDB's by less than the two seconds that a lease has to spare."""
    # Asked there: between this machine and the region an answer may take a second.
    apart = run.invoke("Probe", {"ask": "apart"}).payload["seconds"]
    return judged(abs(apart) < 2, f"{apart:+.1f} s")


ASSERTIONS: Final[tuple[Assertion, ...]] = (
    ttl,
    insert_of_a_taken_key,
    refused_update_in_a_batch,
    update_of_a_missing_row,
    same_item_twice,
    most_statements,
    refused_update_returns_the_row,
    transactions,
    units_by_stream,
    units_at_once,
    units_of_a_batch,
    ttl_is_on,
    stream_under_two_readers,
    clocks,
)
