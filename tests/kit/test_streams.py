"""The played streams do what the API reference says; its shapes are checked with botocore's own model."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import get_session
from botocore.validate import validate_parameters

from lambda_once.testing import FakeClock
from tests.kit.streams import PlayedStreams, Shard
from tests.kit.strict.engine import StrictEngine
from tests.kit.strict.schemas import token_table


class World:
    """A token table, its stream, and a reader that asks as simply as can be."""

    def __init__(self, shards: int = 1) -> None:
        self.clock = FakeClock()
        self.engine = StrictEngine(token_table("tokens"))
        self.streams = PlayedStreams(self.engine, self.clock)
        self.arn = self.streams.switch_on(with_table=True, shards=shards).arn

    def put(self, *tokens: str, **texts: str) -> None:
        for token in tokens:
            values = {name: {"S": text} for name, text in texts.items()}
            self.engine.put_item(TableName="tokens", Item={"lockToken": {"S": token}} | values)

    def described(self, **request: Any) -> dict[str, Any]:
        answer = self.streams.describe_stream(StreamArn=self.arn, **request)
        found: dict[str, Any] = answer["StreamDescription"]
        return found

    def shard(self, number: int = 0) -> str:
        name: str = self.described()["Shards"][number]["ShardId"]
        return name

    def iterator(self, kind: str = "TRIM_HORIZON", shard: int = 0, after: str | None = None) -> str:
        numbered = {} if after is None else {"SequenceNumber": after}
        answer = self.streams.get_shard_iterator(
            StreamArn=self.arn, ShardId=self.shard(shard), ShardIteratorType=kind, **numbered
        )
        iterator: str = answer["ShardIterator"]
        return iterator

    def page(self, iterator: str, **limit: int) -> tuple[list[dict[str, Any]], str | None]:
        answer = self.streams.get_records(ShardIterator=iterator, **limit)
        return answer["Records"], answer.get("NextShardIterator")

    def read(self, shard: int = 0) -> list[tuple[str, str]]:
        """Read a shard to its end, or to three empty pages."""
        iterator: str | None = self.iterator(shard=shard)
        found: list[tuple[str, str]] = []
        empty = 0
        while iterator is not None and empty < 3:
            records, iterator = self.page(iterator)
            empty = 0 if records else empty + 1
            found += [(each["eventName"], each["dynamodb"]["Keys"]["lockToken"]["S"]) for each in records]
        return found


@pytest.fixture
def world() -> World:
    """One shard."""
    return World()


def code(raised: pytest.ExceptionInfo[ClientError]) -> str:
    """Return the code that the service answered."""
    found: str = raised.value.response["Error"]["Code"]
    return found


def test_its_answers_are_of_the_models_shapes() -> None:
    """Every field that is answered is one of the service's, of its type; so are the errors."""
    model = get_session().get_service_model("dynamodbstreams")
    world = World(shards=3)
    world.put("a", "b", "c")
    world.streams.roll_over()
    answers = {
        "DescribeStream": world.streams.describe_stream(StreamArn=world.arn, Limit=2),
        "GetShardIterator": {"ShardIterator": world.iterator()},
        "GetRecords": world.streams.get_records(ShardIterator=world.iterator()),
    }
    for operation, answer in answers.items():
        shape = model.operation_model(operation).output_shape
        validate_parameters(answer, shape)
        assert set(answer) <= set(shape.members)
    errors = {shape.name for shape in model.operation_model("GetRecords").error_shapes}
    assert {"ExpiredIteratorException", "TrimmedDataAccessException", "LimitExceededException"} <= errors


def test_a_record_for_each_change_and_none_for_a_write_that_changes_nothing(world: World) -> None:
    """INSERT only where there was no row: one that is past its ttl and written again is a MODIFY."""
    world.put("a", status="inProgress")
    world.put("a", status="inProgress")
    world.put("a", status="complete")
    world.put("b", ttl="past")
    world.put("b", status="inProgress")
    world.engine.delete("tokens", "a")
    assert world.read() == [
        ("INSERT", "a"),
        ("MODIFY", "a"),
        ("INSERT", "b"),
        ("MODIFY", "b"),
        ("REMOVE", "a"),
    ]


def test_places_in_a_shard(world: World) -> None:
    """From the oldest, from a record on, behind it, or only what comes."""
    world.put("a", "b", "c")
    records, _ = world.page(world.iterator())
    second = records[1]["dynamodb"]["SequenceNumber"]
    numbers = [int(each["dynamodb"]["SequenceNumber"]) for each in records]
    assert numbers == sorted(numbers)
    assert all(len(str(number)) >= 21 for number in numbers)
    assert [len(world.page(world.iterator(kind, 0, second))[0]) for kind in _NUMBERED] == [2, 1]
    latest = world.iterator("LATEST")
    world.put("d")
    assert [each["dynamodb"]["Keys"]["lockToken"]["S"] for each in world.page(latest)[0]] == ["d"]
    for wrong in ("1", str(10**24), "x", None):
        with pytest.raises(ClientError) as raised:
            world.iterator("AFTER_SEQUENCE_NUMBER", 0, wrong)
        assert code(raised) == "ValidationException"


_NUMBERED = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")


def test_pages_have_at_most_a_thousand_records_and_a_megabyte(world: World) -> None:
    """And as many as are asked for."""
    world.put(*(f"k{number}" for number in range(1_050)))
    first, following = world.page(world.iterator())
    assert following is not None
    rest, following = world.page(following)
    assert (len(first), len(rest)) == (1_000, 50)
    assert following is not None
    assert len(world.page(world.iterator(), Limit=7)[0]) == 7
    with pytest.raises(ClientError) as raised:
        world.page(world.iterator(), Limit=1_001)
    assert code(raised) == "ValidationException"
    wide = World()
    wide.put(*(f"{number:04d}" + "x" * 2_000 for number in range(700)))
    assert 500 < len(wide.page(wide.iterator())[0]) < 530
    assert len(wide.read()) == 700


def test_an_open_shard_has_no_end(world: World) -> None:
    """Its pages go on, empty, and what is written later is in them."""
    iterator = world.iterator()
    for _ in range(20):
        records, following = world.page(iterator)
        assert records == []
        assert following is not None
        iterator = following
    world.put("late")
    assert len(world.page(iterator)[0]) == 1


@pytest.mark.parametrize("rolls", [0, 1])
def test_a_closed_shard_ends_and_its_child_goes_on(world: World, rolls: int) -> None:
    """Some say so with their last records, and others in an empty page behind these."""
    for _ in range(rolls):
        world.streams.roll_over()
    world.put("a", "b")
    world.streams.roll_over()
    world.put("c")
    parent, child = world.described()["Shards"][-2:]
    assert set(parent["SequenceNumberRange"]) == {"StartingSequenceNumber", "EndingSequenceNumber"}
    assert set(child["SequenceNumberRange"]) == {"StartingSequenceNumber"}
    assert child["ParentShardId"] == parent["ShardId"]
    records, following = world.page(world.iterator(shard=-2))
    if following is not None:
        assert world.page(following) == ([], None)
    assert (following is None) is (rolls == 0)
    assert len(records) == 2
    assert world.read(-1) == [("INSERT", "c")]


def test_a_split_gives_each_key_to_one_child(world: World) -> None:
    """Both have the parent; together they get every record, each once."""
    world.put("before")
    world.streams.split()
    tokens = [f"k{number}" for number in range(40)]
    world.put(*tokens)
    parent, *children = world.described()["Shards"]
    assert [child["ParentShardId"] for child in children] == [parent["ShardId"]] * 2
    left, right = world.read(1), world.read(2)
    assert left
    assert right
    assert sorted([*left, *right]) == sorted(("INSERT", token) for token in tokens)


def test_shards_are_described_page_by_page() -> None:
    """A hundred at most, in a stable order."""
    world = World(shards=120)
    first = world.described()
    rest = world.described(ExclusiveStartShardId=first["LastEvaluatedShardId"])
    assert (len(first["Shards"]), len(rest["Shards"])) == (100, 20)
    assert "LastEvaluatedShardId" not in rest
    names = {shard["ShardId"] for shard in [*first["Shards"], *rest["Shards"]]}
    assert len(names) == 120
    assert all(28 <= len(name) <= 65 for name in names)


def test_an_iterator_lives_for_fifteen_minutes(world: World) -> None:
    """From when it was given; the next one from then."""
    world.put("a")
    iterator = world.iterator()
    world.clock.advance(15 * 60)
    _, following = world.page(iterator)
    world.clock.advance(1)
    with pytest.raises(ClientError) as raised:
        world.page(iterator)
    assert code(raised) == "ExpiredIteratorException"
    assert following is not None
    assert world.page(following)[0] == []


def test_records_are_trimmed_after_a_day(world: World) -> None:
    """An iterator that points to one, and a place behind one that is gone, are refused; the oldest is not."""
    world.put("a")
    (record,), _ = world.page(world.iterator())
    number = record["dynamodb"]["SequenceNumber"]
    world.clock.advance(24 * 3600 - 60)
    early = world.iterator()
    world.clock.advance(61)
    for asked in (lambda: world.page(early), lambda: world.iterator("AFTER_SEQUENCE_NUMBER", 0, number)):
        with pytest.raises(ClientError) as raised:
            asked()
        assert code(raised) == "TrimmedDataAccessException"
    world.put("b")
    assert world.read() == [("INSERT", "b")]


def test_a_closed_shard_is_gone_after_a_day(world: World) -> None:
    """Its name is then unknown."""
    gone = world.shard()
    world.streams.roll_over()
    world.clock.advance(24 * 3600 + 1)
    assert [shard["ShardId"] for shard in world.described()["Shards"]] != [gone]
    with pytest.raises(ClientError) as raised:
        world.streams.get_shard_iterator(StreamArn=world.arn, ShardId=gone, ShardIteratorType="TRIM_HORIZON")
    assert code(raised) == "ResourceNotFoundException"


def test_a_stretch_of_empty_pages_lies_before_a_record(world: World) -> None:
    """An iterator that goes on passes it; one that begins anew has all of it before it again."""
    world.put("a")
    world.streams.stretch(300)
    world.put("b", "c")
    (first,), following = world.page(world.iterator())
    pages, records = 0, [first]
    while following is not None:
        records, following = world.page(following)
        if records:
            break
        pages += 1
    assert pages == 300
    assert len(records) == 2
    again = world.iterator("AFTER_SEQUENCE_NUMBER", 0, first["dynamodb"]["SequenceNumber"])
    assert world.page(again)[0] == []


def test_a_stream_that_is_off_is_read_for_a_day(world: World) -> None:
    """All its shards are closed, no record is added, and a new one has another ARN."""
    assert _table(world)["StreamSpecification"]["StreamEnabled"]
    world.put("a")
    world.streams.switch_off()
    world.put("unseen")
    assert world.described()["StreamStatus"] == "DISABLED"
    assert world.read() == [("INSERT", "a")]
    assert "StreamSpecification" not in _table(world)
    assert _table(world)["LatestStreamArn"] == world.arn
    new = world.streams.switch_on()
    world.put("b")
    assert _table(world)["LatestStreamArn"] == new.arn != world.arn
    assert world.read() == [("INSERT", "a")]
    world.clock.advance(24 * 3600 + 1)
    with pytest.raises(ClientError) as raised:
        world.described()
    assert code(raised) == "ResourceNotFoundException"


def test_the_count_of_items_is_hours_old(world: World) -> None:
    """As DescribeTable says: about every six hours it is counted."""
    assert _table(world)["ItemCount"] == 0
    world.put("a")
    assert _table(world)["ItemCount"] == 0
    world.clock.advance(6 * 3600)
    assert _table(world)["ItemCount"] == 1
    assert _table(world)["CreationDateTime"] == world.described()["CreationRequestDateTime"]


def test_a_request_may_be_throttled_and_something_may_happen_meanwhile(world: World) -> None:
    """Each error once, in turn; a reader that is faster, or a crash, between two requests."""
    world.put("a")
    iterator = world.iterator()
    world.streams.fail("get_records", "LimitExceededException", "InternalServerError")
    for expected in ("LimitExceededException", "InternalServerError"):
        with pytest.raises(ClientError) as raised:
            world.page(iterator)
        assert code(raised) == expected
    world.streams.before = lambda operation, _: world.put("b") if operation == "get_records" else None
    assert len(world.page(iterator)[0]) == 2
    assert world.streams.sent["get_records"] == 3


def test_a_record_is_seen_after_its_delay(world: World) -> None:
    """And a closed shard is at its end only when the last one was seen."""
    world.streams.delay = timedelta(seconds=5)
    world.put("a")
    world.streams.roll_over()
    records, following = world.page(world.iterator())
    assert (records, following is None) == ([], False)
    world.clock.advance(5)
    assert following is not None
    assert len(world.page(following)[0]) == 1


def test_a_token_has_one_open_shard() -> None:
    """The same one, until it is closed."""
    world = World(shards=4)
    shard: Shard = world.streams.shard_of("a")
    world.put("a")
    assert [record.event for record in shard.records] == ["INSERT"]
    world.streams.roll_over(shard)
    assert world.streams.shard_of("a").parent == shard.name


def _table(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.engine.describe_table(TableName="tokens")["Table"]
    return found
