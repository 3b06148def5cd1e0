"""
DynamoDB Streams, played over the strict engine: what the API reference says, and the worst that it allows.

`PlayedStreams` is a client (`describe_stream`, `get_shard_iterator`, `get_records`) and the hand behind the
service: shards roll over and split, records are trimmed after a day, iterators die after 15 minutes,
stretches of empty pages lie between records, a stream is switched off and on. All by an injected clock.

Sources: the API reference of DynamoDB Streams (2012-08-10), as botocore's model of the service has it, and
the developer guide, "Change data capture for DynamoDB Streams". Where they promise nothing, it does now this,
now that: the last records of a closed shard, or an empty page after them, say that it is at its end.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from tests.kit.strict.engine import StrictEngine, client_error
from tests.kit.strict.items import size_of
from tests.kit.strict.schemas import counted
from tests.kit.strict.tables import Key, Table
from tests.kit.strict.trees import Item

RETENTION: Final = timedelta(hours=24)
ITERATOR_LIVES: Final = timedelta(minutes=15)
COUNTED_EVERY: Final = timedelta(hours=6)
"""How old the ItemCount of DescribeTable may be."""
MOST_RECORDS: Final = 1_000
MOST_BYTES: Final = 1_048_576
MOST_SHARDS: Final = 100
FIRST_NUMBER: Final = 10**20
"""Sequence numbers have 21 digits or more."""
HASHES: Final = 2**32

Answer = dict[str, Any]


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the time, in UTC."""


@dataclass(slots=True)
class Written:
    """A record of a shard, and how many empty pages lie before it."""

    number: int
    at: datetime
    event: str
    keys: Item
    pages_before: int = 0


@dataclass(slots=True)
class Shard:
    """The records of the keys whose hash is in *hashes*, from *first* on, until it is closed."""

    ordinal: int
    name: str
    parent: str | None
    hashes: range
    first: int
    records: list[Written] = field(default_factory=list)
    last: int | None = None
    """The ending sequence number of a closed shard."""
    closed_at: datetime | None = None
    trimmed: int = 0
    """The number of the youngest record that is gone."""
    stretch: int = 0
    """How many empty pages will lie before the next record."""


@dataclass(slots=True)
class Stream:
    """One stream of a table: switched off and on again it is another one."""

    arn: str
    table: Table
    made: datetime
    shards: dict[str, Shard] = field(default_factory=dict)
    off_at: datetime | None = None

    @property
    def open(self) -> list[Shard]:
        return [shard for shard in self.shards.values() if shard.last is None]


@dataclass(frozen=True, slots=True)
class Place:
    """What an iterator says: where in a shard, how many empty pages before it are passed, and since when."""

    arn: str
    shard: str
    number: int
    passed: int
    issued: float

    def text(self) -> str:
        said = [self.arn, self.shard, self.number, self.passed, self.issued]
        return base64.b64encode(json.dumps(said).encode()).decode()


class PlayedStreams:
    """The streams of the tables of *engine*. `sent` counts requests by their operation."""

    def __init__(self, engine: StrictEngine, clock: Clock, *, delay: timedelta = timedelta(0)) -> None:
        """*delay*: how long after its write a record can be read."""
        self._engine = engine
        self._clock = clock
        self.delay = delay
        self.streams: dict[str, Stream] = {}
        self.latest: dict[str, Stream] = {}
        self.sent: Counter[str] = Counter()
        self.before: Callable[[str, Mapping[str, Any]], object] = lambda _operation, _request: None
        """Called before each request: what happens meanwhile. What it raises is the request's answer."""
        self.pages_before: Callable[[], int] = lambda: 0
        """Asked at each record how many empty pages lie before it."""
        self._failures: dict[str, list[str]] = {}
        self._made: dict[str, datetime] = {}
        self._counted: dict[str, datetime] = {}
        self._ordinals = 0
        self._number = FIRST_NUMBER
        engine.watches.append(self._saw)
        engine.described_also = self._description

    # ---------------------------------------------------------------- what a test does

    def switch_on(self, table: str = "tokens", *, with_table: bool = False, shards: int = 1) -> Stream:
        """Switch a new stream on, KEYS_ONLY. *with_table*: the table is made now, too."""
        assert table not in self.latest or self.latest[table].off_at is not None
        now = self._clock.now()
        if with_table:
            self._made[table] = now
        found = self._engine.tables[table]
        label = now.strftime("%Y-%m-%dT%H:%M:%S") + f".{len(self.streams):03d}"
        made = Stream(f"arn:aws:dynamodb:eu-central-1:123456789012:table/{table}/stream/{label}", found, now)
        self.streams[made.arn] = self.latest[table] = made
        for part in range(shards):
            self._add(made, None, range(HASHES * part // shards, HASHES * (part + 1) // shards))
        return made

    def switch_off(self) -> None:
        """Switch the stream off. It can be read for a day still: all its shards are closed."""
        stream = self.latest["tokens"]
        for shard in stream.open:
            self._close(shard)
        stream.off_at = self._clock.now()

    def forget_stream(self) -> None:
        """Let DescribeTable know no stream, as of a restored table."""
        del self.latest["tokens"]

    def shard_of(self, token: str, table: str = "tokens") -> Shard:
        """Return the open shard that takes the records of *token*."""
        spot = _hash(token)
        return next(shard for shard in self.latest[table].open if spot in shard.hashes)

    def roll_over(self, shard: Shard | None = None, table: str = "tokens") -> None:
        """Close *shard*, or every open one; a child of each goes on."""
        stream = self.latest[table]
        for parent in stream.open if shard is None else [shard]:
            self._close(parent)
            self._add(stream, parent, parent.hashes)

    def split(self, shard: Shard | None = None, table: str = "tokens") -> None:
        """Close *shard*, or the first open one; two children go on, with half of its keys each."""
        stream = self.latest[table]
        parent = stream.open[0] if shard is None else shard
        middle = (parent.hashes.start + parent.hashes.stop) // 2
        self._close(parent)
        self._add(stream, parent, range(parent.hashes.start, middle))
        self._add(stream, parent, range(middle, parent.hashes.stop))

    def stretch(self, pages: int, shard: Shard | None = None, table: str = "tokens") -> None:
        """Let *pages* empty pages lie before the next record of *shard*, or of every open one."""
        for each in self.latest[table].open if shard is None else [shard]:
            each.stretch += pages

    def fail(self, operation: str, *codes: str) -> None:
        """Answer the next requests of *operation* (`get_records`) with the errors *codes*, in turn."""
        self._failures.setdefault(operation, []).extend(codes)

    # ---------------------------------------------------------------- the client

    def describe_stream(self, **request: Any) -> Answer:
        self._begun("describe_stream", request, {"StreamArn"}, {"Limit", "ExclusiveStartShardId"})
        stream = self._stream(request["StreamArn"], "DescribeStream")
        most = _limit(request, MOST_SHARDS, "DescribeStream")
        names = sorted(stream.shards)
        after = request.get("ExclusiveStartShardId", "")
        left = [name for name in names if name > after]
        found: Answer = {
            "StreamArn": stream.arn,
            "StreamLabel": stream.arn.rpartition("/")[2],
            "StreamStatus": "ENABLED" if stream.off_at is None else "DISABLED",
            "StreamViewType": "KEYS_ONLY",
            "CreationRequestDateTime": stream.made,
            "TableName": stream.table.name,
            "KeySchema": [{"AttributeName": stream.table.key, "KeyType": "HASH"}],
            "Shards": [_described(stream.shards[name]) for name in left[:most]],
        }
        if len(left) > most:
            found["LastEvaluatedShardId"] = left[most - 1]
        return {"StreamDescription": found}

    def get_shard_iterator(self, **request: Any) -> Answer:
        operation = "GetShardIterator"
        needed = {"StreamArn", "ShardId", "ShardIteratorType"}
        self._begun("get_shard_iterator", request, needed, {"SequenceNumber"})
        stream = self._stream(request["StreamArn"], operation)
        shard = _shard(stream, request["ShardId"], operation)
        kind = request["ShardIteratorType"]
        if kind == "TRIM_HORIZON":
            number = shard.records[0].number if shard.records else shard.trimmed + 1
        elif kind == "LATEST":
            number = self._number + 1
        elif kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
            number = self._numbered(shard, request.get("SequenceNumber"), operation)
            number += kind == "AFTER_SEQUENCE_NUMBER"
        else:
            raise client_error("ValidationException", f"ShardIteratorType {kind}", operation)
        return {"ShardIterator": self._place(stream, shard, number, 0).text()}

    def get_records(self, **request: Any) -> Answer:
        operation = "GetRecords"
        self._begun("get_records", request, {"ShardIterator"}, {"Limit"})
        most = _limit(request, MOST_RECORDS, operation)
        try:
            place = Place(*json.loads(base64.b64decode(request["ShardIterator"])))
        except ValueError:
            raise client_error("ValidationException", "Invalid ShardIterator", operation) from None
        stream = self._stream(place.arn, operation)
        shard = _shard(stream, place.shard, operation)
        if self._clock.now().timestamp() - place.issued > ITERATOR_LIVES.total_seconds():
            raise client_error("ExpiredIteratorException", "the iterator exceeds the maximum age", operation)
        if shard.trimmed >= place.number:
            raise client_error("TrimmedDataAccessException", "the data has been trimmed", operation)
        left = [record for record in shard.records if record.number >= place.number]
        ahead = [record for record in left if record.at <= self._clock.now() - self.delay]
        if ahead and place.passed < ahead[0].pages_before:
            passed = place.passed + 1
            return {
                "Records": [],
                "NextShardIterator": self._place(stream, shard, place.number, passed).text(),
            }
        page = list(_page(ahead, most))
        answer: Answer = {"Records": [_record(record) for record in page]}
        after = page[-1].number + 1 if page else place.number
        at_end = shard.last is not None and len(page) == len(left)
        if at_end and (not page or shard.ordinal % 2):
            return answer
        return answer | {"NextShardIterator": self._place(stream, shard, after, 0).text()}

    # ---------------------------------------------------------------- parts of these

    def _begun(self, operation: str, request: Mapping[str, Any], needed: set[str], more: set[str]) -> None:
        self.sent[operation] += 1
        self.before(operation, request)
        if self._failures.get(operation):
            raise client_error(self._failures[operation].pop(0), "played", operation)
        if not needed <= set(request) <= needed | more:
            raise client_error("ValidationException", f"parameters {sorted(request)}", operation)
        self._trim()

    def _trim(self) -> None:
        """Take away records of more than a day, closed shards a day after their end, streams so."""
        oldest = self._clock.now() - RETENTION
        for stream in list(self.streams.values()):
            for shard in list(stream.shards.values()):
                gone = 0
                while gone < len(shard.records) and shard.records[gone].at < oldest:
                    gone += 1
                if gone:
                    shard.trimmed = shard.records[gone - 1].number
                    del shard.records[:gone]
                if shard.closed_at is not None and shard.closed_at < oldest:
                    del stream.shards[shard.name]
            if stream.off_at is not None and stream.off_at < oldest:
                del self.streams[stream.arn]

    def _numbered(self, shard: Shard, text: str | None, operation: str) -> int:
        if text is None or not text.isdecimal():
            raise client_error("ValidationException", f"Invalid SequenceNumber {text}", operation)
        number = int(text)
        if number < shard.first or number > (shard.last or self._number):
            raise client_error("ValidationException", f"SequenceNumber {text} is none of it", operation)
        if number <= shard.trimmed:
            raise client_error("TrimmedDataAccessException", "the data has been trimmed", operation)
        return number

    def _stream(self, arn: str, operation: str) -> Stream:
        if arn not in self.streams:
            raise client_error("ResourceNotFoundException", f"Requested resource not found: {arn}", operation)
        return self.streams[arn]

    def _place(self, stream: Stream, shard: Shard, number: int, passed: int) -> Place:
        return Place(stream.arn, shard.name, number, passed, self._clock.now().timestamp())

    def _add(self, stream: Stream, parent: Shard | None, hashes: range) -> None:
        self._ordinals += 1
        self._number += 1
        millis = int(self._clock.now().timestamp() * 1000)
        name = f"shardId-{millis:020d}-{self._ordinals:08x}"
        parent_name = None if parent is None else parent.name
        stream.shards[name] = Shard(self._ordinals, name, parent_name, hashes, self._number)

    def _close(self, shard: Shard) -> None:
        shard.last = shard.records[-1].number if shard.records else max(shard.first, shard.trimmed)
        shard.closed_at = self._clock.now()

    def _saw(self, table: Table, key: Key, before: Item | None, after: Item | None) -> None:
        """Write the record of a change. What changes nothing is no change: the engine doesn't tell."""
        stream = self.latest.get(table.name)
        if stream is None or stream.off_at is not None:
            return
        shard = self.shard_of(key if isinstance(key, str) else key[0], table.name)
        self._number += 1
        event = "INSERT" if before is None else "REMOVE" if after is None else "MODIFY"
        pages, shard.stretch = shard.stretch + self.pages_before(), 0
        now = self._clock.now()
        shard.records.append(Written(self._number, now, event, table.key_attributes(key), pages))

    def _description(self, table: Table) -> Answer:
        """Return what DescribeTable says besides, of the stream; count again what was counted hours ago."""
        now = self._clock.now()
        if now - self._counted.get(table.name, now - COUNTED_EVERY) >= COUNTED_EVERY:
            self._counted[table.name] = now
            table.counted = counted(table)
        found: Answer = {
            "CreationDateTime": self._made.get(table.name, datetime.fromtimestamp(0, now.tzinfo))
        }
        stream = self.latest.get(table.name)
        if stream is not None and stream.arn in self.streams:
            label = stream.arn.rpartition("/")[2]
            found |= {"LatestStreamArn": stream.arn, "LatestStreamLabel": label}
            if stream.off_at is None:
                specification = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
                found["StreamSpecification"] = specification
        return found


def _hash(token: str) -> int:
    """Return where *token* lies among all hashes, the same in every process."""
    return int.from_bytes(hashlib.sha256(token.encode()).digest()[:4], "big")


def _limit(request: Mapping[str, Any], most: int, operation: str) -> int:
    limit: int = request.get("Limit", most)
    if not 1 <= limit <= most:
        raise client_error("ValidationException", f"Limit must be 1 to {most}", operation)
    return limit


def _shard(stream: Stream, name: str, operation: str) -> Shard:
    if name not in stream.shards:
        raise client_error("ResourceNotFoundException", f"Requested resource not found: {name}", operation)
    return stream.shards[name]


def _page(ahead: list[Written], most: int) -> Iterator[Written]:
    """Yield what one page has: up to *most*, or 1 MB, and nothing behind an empty stretch."""
    size = 0
    for place, record in enumerate(ahead[:most]):
        size += size_of(record.keys)
        if place and (record.pages_before or size > MOST_BYTES):
            return
        yield record


def _described(shard: Shard) -> Answer:
    numbers = {"StartingSequenceNumber": str(shard.first)}
    if shard.last is not None:
        numbers["EndingSequenceNumber"] = str(shard.last)
    found: Answer = {"ShardId": shard.name, "SequenceNumberRange": numbers}
    return found if shard.parent is None else found | {"ParentShardId": shard.parent}


def _record(record: Written) -> Answer:
    """Return a record as GetRecords has it: its time is rounded down to the second."""
    return {
        "eventID": hashlib.md5(str(record.number).encode(), usedforsecurity=False).hexdigest(),
        "eventName": record.event,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-central-1",
        "dynamodb": {
            "ApproximateCreationDateTime": record.at.replace(microsecond=0),
            "Keys": record.keys,
            "SequenceNumber": str(record.number),
            "SizeBytes": size_of(record.keys),
            "StreamViewType": "KEYS_ONLY",
        },
    }
