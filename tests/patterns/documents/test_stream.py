"""The function on the stream: what it removes, in whatever order records arrive."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents import Documents, requests
from lambda_once.patterns.documents import parts as document_parts
from lambda_once.patterns.documents import stream as document_stream
from lambda_once.patterns.documents.parts import Version, new_version
from lambda_once.patterns.documents.stream import GRACE, cleaner
from lambda_once.testing import FakeClock, lambda_context
from tests.kit.faulty import Fate, FaultyClient
from tests.patterns.conftest import Ground
from tests.patterns.documents.shelf import ID, Shelf, shelf, text

NOTHING_FAILED: dict[str, list[Any]] = {"batchItemFailures": []}


@pytest.fixture(name="shelf")
def _shelf(ground: Ground) -> Shelf:
    return shelf(ground)


def record(sort: str, entity_id: str = ID, number: int = 1, name: str = "MODIFY") -> dict[str, Any]:
    """Return what the stream says of one item, as KEYS_ONLY."""
    return {
        "eventSource": "aws:dynamodb",
        "eventName": name,
        "dynamodb": {
            "Keys": {"pk": {"S": entity_id}, "sk": {"S": sort}},
            "SequenceNumber": str(number),
            "StreamViewType": "KEYS_ONLY",
        },
    }


def event(*records: dict[str, Any]) -> dict[str, Any]:
    """Return one batch of the stream."""
    return {"Records": list(records)}


def streamed(client: Any, table: str) -> list[dict[str, Any]]:
    """Return the records that are on the engine's own stream of *table*, as Lambda hands them on."""
    described = client.describe_table(TableName=table)["Table"]
    import boto3

    streams: Any = boto3.client(
        "dynamodbstreams", endpoint_url=client.meta.endpoint_url, region_name=client.meta.region_name
    )
    arn = described["LatestStreamArn"]
    shards = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    found: list[dict[str, Any]] = []
    for shard in shards:
        iterator = streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        found += streams.get_records(ShardIterator=iterator)["Records"]
    streams.close()
    return found


@pytest.mark.parametrize("writes", [9, 30])
def test_every_superseded_version_goes(shelf: Shelf, writes: int) -> None:
    """However many writes came between two cleanings: the head and the newest version stay."""
    for _ in range(3):
        for n in range(writes):
            shelf.documents.write(ID, {"n": n})
        assert shelf.documents.clean(ID) >= writes - 1
        assert len(shelf.items()) == 2
        assert shelf.documents.clean(ID) == 0


def test_versions_that_name_none_before_them_stay(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: beyond the eight that the head names, no version is known as committed."""
    part_of = requests.stored_part

    def without(place: Any, item: Any) -> Any:
        found = part_of(place, item)
        return found and found._replace(above=None)

    monkeypatch.setattr(requests, "stored_part", without)
    for n in range(30):
        shelf.documents.write(ID, {"n": n})
    assert shelf.documents.clean(ID) == 8
    assert len(shelf.items()) == 30 - 8 + 1


def test_a_version_that_was_never_committed_stays(shelf: Shelf) -> None:
    """Its parts name the version above which it was begun; no head names it."""
    shelf.documents.write(ID, "first")
    (current,) = shelf.parts()
    torn = new_version(shelf.clock.now(), Version(current))
    part = {"total": {"N": "2"}, "form": {"S": "json"}, "body": {"B": b"1"}, "above": {"S": current}}
    shelf.put([{"sk": {"S": f"{torn}#0001"}, **part}])
    for n in range(12):
        shelf.documents.write(ID, {"n": n})
    assert shelf.documents.clean(ID) == 12
    assert torn in shelf.parts()


def test_superseded_versions_go(shelf: Shelf) -> None:
    """What a written head supersedes is removed; a second record changes nothing."""
    handler = cleaner(shelf.documents)
    shelf.documents.write(ID, text("a"))
    version = shelf.documents.write(ID, text("b"))
    for _ in range(2):
        assert handler(event(record("head")), lambda_context()) == NOTHING_FAILED
        assert shelf.parts() == {version}


def test_readers_have_their_grace(shelf: Shelf) -> None:
    """Parts stay until the version has been superseded for the grace; a batch waits for it once."""
    handler = cleaner(shelf.documents)
    others = [f"contract {number}" for number in range(3)]
    for each in others:
        shelf.documents.write(each, text("a"))
        shelf.documents.write(each, text("b"))
    shelf.clock.advance(4)
    shelf.clock.while_asleep(lambda _: lengths.extend(len(shelf.parts(each)) for each in others))
    lengths: list[int] = []
    handler(event(*[record("head", each) for each in others]), lambda_context())
    assert shelf.clock.slept == [GRACE.total_seconds() - 4]
    assert lengths == [2, 2, 2]
    assert [len(shelf.parts(each)) for each in others] == [1, 1, 1]


def test_what_is_superseded_during_the_wait_has_its_own_grace(shelf: Shelf) -> None:
    """A version that stood when the wait began is left to the record of the one that came in between."""
    shelf.documents.write(ID, text("a"))
    second = shelf.documents.write(ID, text("b"))
    shelf.clock.while_asleep(lambda _: shelf.documents.write(ID, text("c")))
    handler = cleaner(shelf.documents)
    handler(event(record("head")), lambda_context())
    third = max(shelf.parts())
    assert shelf.parts() == {second, third}
    handler(event(record("head")), lambda_context())
    assert shelf.parts() == {third}


def test_a_writer_whose_clock_is_ahead_does_not_prolong_it(shelf: Shelf) -> None:
    """However late the head says that it was written, the wait is the grace at most."""
    ahead = FakeClock(shelf.clock.now() + timedelta(minutes=4))
    shelf.other(clock=ahead).write(ID, text("a"))
    cleaner(shelf.documents)(event(record("head")), lambda_context())
    assert shelf.clock.slept == [GRACE.total_seconds()]


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_records_keeps_the_newest(shelf: Shelf, seed: int) -> None:
    """
    Records of many writes come in any order, several times, between the writes and after them.

    The document is whole at every moment, a version that is being written keeps its parts, and what is left
    in the end is one version.
    """
    dice = random.Random(seed)
    handler = cleaner(shelf.documents, grace=timedelta(0))
    records: list[dict[str, Any]] = []
    content = b""
    for number in range(8):
        content = text("abcdefgh"[number], dice.randint(1, 6))
        before = shelf.items()
        shelf.documents.write(ID, content)
        records += [record(sort) for sort, item in shelf.items().items() if before.get(sort) != item]
        dice.shuffle(records)
        handler(event(*records[: dice.randint(0, 6)]))
        found = shelf.documents.read(ID, consistent=True)
        assert found is not None
        assert (found.value, found.fell_back) == (content, False)
    handler(event(*records, *records))
    found = shelf.documents.read(ID)
    assert found is not None
    assert found.value == content
    assert shelf.parts() == {found.version}


def test_a_version_in_progress_keeps_its_parts(shelf: Shelf) -> None:
    """Parts newer than the current version belong to a write in progress, which succeeds."""
    shelf.documents.write(ID, text("a"))
    handler = cleaner(shelf.documents, grace=timedelta(0))

    class Slow:
        def __getattr__(self, operation: str) -> Any:
            if operation == "put_item":
                handler(event(record("head")))
            return getattr(shelf.client, operation)

    version = shelf.other(client=Slow()).write(ID, text("b"))
    found = shelf.documents.read(ID, consistent=True)
    assert found is not None
    assert (found.version, found.value) == (version, text("b"))


def test_without_the_rule_a_version_in_progress_is_lost(
    strict: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: did the newest whole version not stay, the last record removes the document."""
    found = shelf(strict)
    found.documents.write(ID, text("a"))
    found.documents.write(ID, text("b"))
    monkeypatch.setattr(document_parts.Head, "stood", lambda *_: False)
    monkeypatch.setattr(
        "lambda_once.patterns.documents.parts.superseded",
        lambda _head, versions, _old: [part for each in versions for part in each.parts],
    )
    cleaner(found.documents, grace=timedelta(0))(event(record("head")))
    assert found.parts() == set()


def test_a_deleted_document_is_removed_for_its_deleter(shelf: Shelf) -> None:
    """The deleter died after its first write: the stream does the rest."""
    shelf.documents.write(ID, text("a"))

    class Dies:
        def __getattr__(self, operation: str) -> Any:
            if operation == "query":
                raise KeyboardInterrupt
            return getattr(shelf.client, operation)

    with pytest.raises(KeyboardInterrupt):
        shelf.other(client=Dies()).delete(ID)
    cleaner(shelf.documents, grace=timedelta(0))(event(record("head")))
    assert shelf.items().keys() == {"head"}


def test_only_written_heads_are_read(shelf: Shelf) -> None:
    """Parts, removals and the user's own items cost no request."""
    handler = cleaner(shelf.other(client=object()))
    batch = event(
        record("01M7X00QE961WSR1M1G7XBM9DY#0001", name="INSERT"),
        record("head", name="REMOVE"),
        record("note"),
    )
    assert handler(batch) == NOTHING_FAILED
    assert handler({"Records": []}) == NOTHING_FAILED


def test_what_could_not_be_cleaned_comes_again(shelf: Shelf) -> None:
    """Each record of a document that the table did not answer for is reported; the others are done."""
    for each in ("a", "b"):
        shelf.documents.write(each, text("a"))
        shelf.documents.write(each, text("b"))
    tries = iter([Fate.SOUND] * 4 + [Fate.REQUEST_LOST] * 6)
    documents = shelf.other(client=FaultyClient(shelf.client, lambda: next(tries)))
    batch = event(record("head", "a", 1), record("head", "b", 2), record("head", "b", 3))
    assert cleaner(documents, grace=timedelta(0))(batch) == {
        "batchItemFailures": [{"itemIdentifier": "2"}, {"itemIdentifier": "3"}]
    }
    assert (len(shelf.parts("a")), len(shelf.parts("b"))) == (1, 2)


def test_nothing_is_begun_without_time(shelf: Shelf) -> None:
    """An invocation that would be over within the grace and five seconds reports its records."""
    handler = cleaner(shelf.other(client=object()))
    assert handler(event(record("head", number=7)), lambda_context(remaining_ms=15_000)) == {
        "batchItemFailures": [{"itemIdentifier": "7"}]
    }


def test_another_source_is_refused() -> None:
    """A mapping of a queue is a mistake that must be seen."""
    handler = cleaner(Documents("documents", client=object()))
    with pytest.raises(Misconfigured, match="not of a DynamoDB stream"):
        handler({"Records": [{"eventSource": "aws:sqs", "body": "{}"}]})


@pytest.mark.parametrize("grace", [timedelta(seconds=-1), timedelta(minutes=11)])
def test_an_unsound_grace_is_refused(grace: timedelta) -> None:
    """Below nothing, or longer than an invocation waits."""
    with pytest.raises(Misconfigured, match="grace is"):
        cleaner(Documents("documents", client=object()), grace=grace)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment of which the handler has read nothing yet."""
    monkeypatch.setattr(document_stream, "_by_environment", document_stream._by_environment.__wrapped__)
    return monkeypatch


def test_the_handler_is_made_by_the_environment(strict: Ground, environment: pytest.MonkeyPatch) -> None:
    """Table, keys, names and grace come from variables."""
    table = strict.table("id", "part")
    names = {"version": "timestamp", "total": "count"}
    documents = Documents(table, strict.client, key="id", sort="part", names=names)
    documents.write(ID, b"a")
    version = documents.write(ID, b"b")
    variables = {"TABLE": table, "KEY": "id", "SORT": "part", "GRACE": "0", "NAMES": json.dumps(names)}
    for name, value in variables.items():
        environment.setenv(f"LAMBDA_ONCE_DOCUMENTS_{name}", value)
    batch = event(record("head"))
    batch["Records"][0]["dynamodb"]["Keys"] = {"id": {"S": ID}, "part": {"S": "head"}}
    assert document_stream.handler(batch) == NOTHING_FAILED
    left = strict.client.scan(TableName=table)["Items"]
    assert {item["part"]["S"] for item in left} == {"head", f"{version}#0001"}


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "LAMBDA_ONCE_DOCUMENTS_TABLE is not set"),
        ({"TABLE": "t", "GRACE": "soon"}, "give a whole number"),
        ({"TABLE": "t", "NAMES": "ttl=expiresAt"}, "NAMES is 'ttl=expiresAt': give a JSON object"),
        ({"TABLE": "t", "NAMES": "5"}, "names=5: give a mapping of body, "),
    ],
    ids=str,
)
def test_an_unsound_environment_is_refused(
    environment: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    """The message names the variable."""
    for name, value in variables.items():
        environment.setenv(f"LAMBDA_ONCE_DOCUMENTS_{name}", value)
    with pytest.raises(Misconfigured, match=said):
        document_stream.handler(event(record("head")))


@pytest.mark.engine
def test_it_takes_the_records_of_a_real_stream(engine: Ground) -> None:
    """What the engine's own stream tells of writes, put parts included, is understood."""
    found = shelf(engine)
    found.documents.write(ID, text("a"))
    version = found.documents.write(ID, text("b"))
    records = streamed(engine.client, found.table)
    assert [each["eventName"] for each in records].count("MODIFY") == 1
    assert cleaner(found.documents, grace=timedelta(0))(event(*records)) == NOTHING_FAILED
    assert found.parts() == {version}
    removed = streamed(engine.client, found.table)[len(records) :]
    assert {each["eventName"] for each in removed} == {"REMOVE"}
