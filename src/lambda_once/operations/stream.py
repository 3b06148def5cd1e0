"""
Reads the table's stream, and lists what a first acquisition left open: the list of stream mode.

    StreamReader(table).read(deadline)

Page by page: read the records, list what is lost (`unlisted`), write the checkpoint. What is killed on the
way is done again by the next run. `checkpoint` has the rules, pure.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError

from lambda_once.dynamodb.client import endpoint_given, new_streams_client
from lambda_once.dynamodb.errors import DENIED, Caught, code_of, is_transient, message_of, named_operation
from lambda_once.dynamodb.transport import Transport
from lambda_once.errors import Misconfigured, OnceError, StoreUnavailable
from lambda_once.operations.checkpoint import (
    Checkpoint,
    Scan,
    Stream,
    StreamRecord,
    at_end,
    begun_anew,
    by_age,
    disproved,
    gap_in,
    inserted,
    is_fresh,
    kept_with,
    moved,
    old_enough,
    read_past,
    read_to,
    with_children,
)
from lambda_once.operations.list_state import stream_of
from lambda_once.operations.tokens import is_auxiliary
from lambda_once.operations.unlisted import SETTLED, CheckpointRow, Lister, Overtaken
from lambda_once.stores.row import TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lambda_once.core.clock import Deadline
    from lambda_once.operations.checkpoint import Position
    from lambda_once.operations.table import TokenTable

PAGE_SECONDS: Final = 3.0
"""Seconds before the end of a reading, or the last quarter of one, in which no page is begun."""
TIP_PAGES: Final = 10
"""Empty pages in a row that are taken for the end of what there is: no answer tells it."""
QUIET_PAGES: Final = 100
"""Empty pages in a row of one reading that are taken for the tip where ten have been wrong."""
PATIENT_PAGES: Final = 2_000
"""Empty pages of one shard in one reading, at most: some 20 seconds' worth."""
_ON: Final = ("ENABLED", "ENABLING")
"""StreamStatus of a stream that takes records; one that is switched off can be read for a day, and ends."""
_GONE: Final = "ResourceNotFoundException"
_NEXT_KIND: Final = ("ExpiredIteratorException", "TrimmedDataAccessException", "ValidationException")
"""Answers to an iterator, or to a place in a shard, that is no longer one: ask by the next kind."""
_MEGABYTE: Final = 1_048_576


class Reading(NamedTuple):
    """What one reading of the stream did, and how far the list is right."""

    records: int = 0
    """Of tokens."""
    listed: int = 0
    kept: frozenset[str] = frozenset()
    """Tokens that are alive and not listed, as far as the stream is read."""
    lag_seconds: float | None = None
    """Age of the oldest record that may not be read yet, or of a gap; None: nobody knows."""
    in_gap: bool = False
    overtaken: bool = False
    """Whether another watchdog was faster, and goes on."""
    failed: OnceError | None = None
    """Why the reading ended early, or what was not answered."""

    @property
    def counts(self) -> dict[str, Any]:
        """What a run of the watchdog returns of it."""
        return {
            "listed": self.listed,
            "streamRecords": self.records,
            "streamLagSeconds": self.lag_seconds,
            "streamGap": self.in_gap,
        }


NO_READING: Final = Reading()
"""There is no stream, and no checkpoint."""


def streams_client(table: TokenTable) -> Any:
    """
    Make the client that reads the stream of *table*. Raises botocore's NoRegionError without a region.

    Region and endpoint are those of the DynamoDB client where they were given; before that comes
    AWS_ENDPOINT_URL_DYNAMODB_STREAMS.
    """
    table.transport.prepare()
    region, endpoint = table.transport.given_place
    if os.environ.get("AWS_ENDPOINT_URL_DYNAMODB_STREAMS"):
        endpoint = None
    elif endpoint is None:
        endpoint = endpoint_given(os.environ)
    return new_streams_client(region, endpoint)


class StreamReader:
    """Reads the stream of one table. Keeps nothing between two readings."""

    def __init__(
        self,
        table: TokenTable,
        client: Any = None,
        *,
        gap: Callable[[str], object] = str,
        malformed: Callable[[Misconfigured], object] = str,
    ) -> None:
        """
        *client* is boto3's for DynamoDB Streams; None: `streams_client` makes it, at the first reading.

        *gap* is called with a sentence where records may be missing, and when nothing is missing any more;
        *malformed* with each row that can't be read.
        """
        self._table = table
        self._client = client
        self._streams: Transport | None = None
        self._gap = gap
        self._malformed = malformed

    def read(self, deadline: Deadline) -> Reading:
        """Read until *deadline*, or to the tip. Raises nothing: what failed is in the reading."""
        if self._streams is None:
            try:
                client = streams_client(self._table) if self._client is None else self._client
            except (BotoCoreError, ValueError) as error:  # ValueError: the endpoint is no URL
                reason = f"no client for the stream of table {self._table.name!r} can be made: {error}"
                return Reading(failed=Misconfigured(reason))
            self._streams = Transport(client)
            self._streams.is_patient = True
        return _Turn(self._table, deadline, self._gap, self._malformed, self._streams).read()


def leave_stream(
    table: TokenTable,
    deadline: Deadline,
    gap: Callable[[str], object] = str,
    malformed: Callable[[Misconfigured], object] = str,
) -> Reading | None:
    """
    Take *table* out of stream mode: scan it once for work that nobody listed, then empty the checkpoint.

    The scan begins an hour after the last reading, and takes as many runs as it takes. None: the table has
    no checkpoint. Until there is none the list is not whole.
    """
    return _Turn(table, deadline, gap, malformed, None).leave()


class _Turn:
    """One reading."""

    def __init__(
        self,
        table: TokenTable,
        deadline: Deadline,
        gap: Callable[[str], object],
        malformed: Callable[[Misconfigured], object],
        streams: Transport | None,
    ) -> None:
        self._table = table
        self._deadline = deadline
        self._until = deadline.earlier(min(PAGE_SECONDS, deadline.remaining() / 4))
        self._gap = gap
        self._lister = Lister(table, malformed)
        self._row = CheckpointRow(table)
        self._streams = streams
        self._stream = Stream("", {})
        self._checkpoint: Checkpoint | None = None
        self._changed = False
        """Whether the checkpoint has something that isn't written yet."""
        self._patient: dict[str, int] = {}
        """Shards whose tip ten empty pages don't tell, with those that they had in this reading."""
        self._records = 0
        self._failed: OnceError | None = None

    def read(self) -> Reading:
        return self._ended(self._all)

    def leave(self) -> Reading | None:
        reading = self._ended(self._leave)
        return None if self._checkpoint is None and reading.failed is None else reading

    def _ended(self, work: Callable[[], object]) -> Reading:
        overtaken = False
        try:
            work()
        except Overtaken:
            overtaken = True
        except OnceError as error:
            self._failed = error
        known = self._checkpoint
        failed = self._failed or self._lister.failed
        if known is None:
            return Reading(listed=self._lister.listed, overtaken=overtaken, failed=failed)
        lag = (self._table.clock.now() - known.read_up_to).total_seconds()
        in_gap = known.scan is not None
        kept = frozenset(known.kept)
        return Reading(self._records, self._lister.listed, kept, max(lag, 0.0), in_gap, overtaken, failed)

    # ---------------------------------------------------------------- the stages

    def _all(self) -> None:
        now = self._table.now()
        asked = self._table.transport.asked
        description = asked("describe_table", {"TableName": self._table.name}, self._deadline, None)["Table"]
        self._stream, made = self._described(description)
        found = self._row.load(self._deadline)
        reason = gap_in(found, self._stream, now)
        # The first reading of a new table: nothing is missing, and its scan ends with the first page.
        is_news = found is not None or not is_fresh(description, made, now)
        if found is None or reason is not None:
            self._checkpoint = begun_anew(self._stream, now)
            self._save()
            if is_news:
                self._gap(_estimate(str(reason), description))
        else:
            self._checkpoint = replace(found, shards=with_children(found.shards, self._stream))
            self._settle_kept()
        in_gap = self._checkpoint.scan is not None
        self._shards(self._deadline.within(self._deadline.remaining() / 2) if in_gap else self._until)
        if in_gap:
            self._scan()
            if self._known.scan is None and is_news:
                self._gap("the table was scanned: the list has all lost work again")
        elif self._changed or not self._row.was_written:
            self._save()

    def _leave(self) -> None:
        found = self._row.load(self._deadline)
        if found is None and not self._row.is_unreadable:
            return
        self._checkpoint, now = found, self._table.now()
        if found is None or found.stream:
            if found is not None and now - found.read < SETTLED:
                return
            self._checkpoint = Checkpoint("", now, scan=Scan(now))
            self._save()
            self._gap("the table's stream is read no more: the table is scanned once for lost work")
        self._scan()
        if self._known.scan is None:
            self._row.end(self._deadline)
            self._gap("the table was scanned: the list has all lost work, and functions list it at once")

    @property
    def _known(self) -> Checkpoint:
        assert self._checkpoint is not None  # noqa: S101  (it is loaded, or begun, before anything is read)
        return self._checkpoint

    def _save(self) -> None:
        self._checkpoint = self._row.save(self._known, self._deadline)
        self._changed = False

    def _settle_kept(self) -> None:
        settled = self._lister.settle(self._known.kept, self._deadline)
        stay = settled.alive | settled.unanswered
        self._checkpoint = replace(
            self._known, kept=tuple(token for token in self._known.kept if token in stay)
        )
        self._changed = True

    def _scan(self) -> None:
        """Scan a page at least, and go on until the time is up."""
        while (scan := self._known.scan) is not None:
            self._checkpoint = replace(self._known, scan=self._lister.scan(scan, self._deadline))
            self._save()
            if self._until.passed():
                return

    # ---------------------------------------------------------------- shards

    def _shards(self, until: Deadline) -> None:
        queue = deque(by_age(self._known.shards))
        now = self._table.clock.now()
        positions = self._known.shards
        self._patient = {
            shard: 0 for shard in queue if positions[shard].doubted or positions[shard].lost_iterator(now)
        }
        while queue and not until.passed():
            try:
                queue.extend(self._shard(queue.popleft(), until))
            except StoreUnavailable as failed:  # the others may be read
                self._failed = failed
        for shard, pages in self._patient.items():
            position = self._known.shards.get(shard)
            if position is not None and position.doubted and pages >= QUIET_PAGES:
                self._move(shard, replace(position, at=now, doubted=False))

    def _shard(self, shard: str, until: Deadline) -> Sequence[str]:
        """Read *shard* to its tip or end, or until it must wait; return what is to be read after it."""
        iterator = self._known.shards[shard].iterator_at(self._table.clock.now())
        empty, quiet_since = 0, self._table.clock.now()
        while not until.passed():
            now = self._table.clock.now()
            answer = self._page(shard, iterator)
            if answer is None:
                return ()
            page, iterator = answer
            known = frozenset(self._known.shards)
            if not self._took(shard, page, iterator, now):
                return ()
            if iterator is None:
                return [child for child in self._known.shards if child not in known]
            if page:
                empty = 0
                self._patient.pop(shard, None)
                if self._known.shards[shard].doubted:
                    self._patient[shard] = 0
                continue
            quiet_since = quiet_since if empty else now
            empty += 1
            if empty < TIP_PAGES:
                continue
            if shard in self._patient and self._patient[shard] < PATIENT_PAGES:
                self._patient[shard] += empty
                self._save()
                return (shard,)
            self._move(shard, replace(self._known.shards[shard], at=quiet_since))
            return ()
        return ()

    def _took(self, shard: str, page: Sequence[StreamRecord], iterator: str | None, now: datetime) -> bool:
        """Do what *page* asks for, and move behind it; return whether to go on."""
        old = old_enough(page, now)
        places = inserted(old, self._known.covered)
        settled = self._lister.settle(places, self._deadline)
        alive = {token: places[token] for token in settled.alive}
        kept = kept_with(self._known.kept, alive, settled.unanswered, places)
        self._checkpoint = replace(self._known, kept=kept.tokens)
        stop = len(old) if kept.stop is None else kept.stop
        tokens = sum(not is_auxiliary(record.token) for record in page[:stop])
        self._records += tokens
        position = self._known.shards[shard]
        doubted = position.doubted or disproved(self._known, position, page)
        if stop < len(page):
            doubted = doubted and stop < len(old)
            self._move(shard, replace(read_to(position, page, stop), doubted=doubted))
        elif iterator is None:
            self._move(shard, at_end(position, page))
            shards = with_children(self._known.shards, self._stream)
            self._checkpoint = replace(self._known, shards=shards)
        else:
            self._move(shard, replace(read_past(position, page, iterator, now), doubted=doubted))
        if tokens or iterator is None:  # a page of checkpoints is written with the next one
            self._save()
        return stop == len(page)

    def _move(self, shard: str, position: Position) -> None:
        self._checkpoint = moved(self._known, shard, position)
        self._changed = True

    # ---------------------------------------------------------------- requests to the stream

    def _page(self, shard: str, iterator: str | None) -> tuple[list[StreamRecord], str | None] | None:
        """
        Return the next records of *shard*, and the iterator after them; None if the shard is gone.

        A position may be read again from the shard's oldest record: its own time says that none is missing.
        """
        after = self._known.shards[shard].after
        kinds: list[Mapping[str, str]] = [{"ShardIteratorType": "TRIM_HORIZON"}] * 2
        if after is not None:
            kinds = [{"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": after}, *kinds]
        while True:
            try:
                if iterator is None:
                    place = {"StreamArn": self._stream.arn, "ShardId": shard, **kinds.pop(0)}
                    iterator = self._ask("get_shard_iterator", place)["ShardIterator"]
                answer = self._ask("get_records", {"ShardIterator": iterator})
                return [_stream_record(record) for record in answer["Records"]], answer.get(
                    "NextShardIterator"
                )
            except Caught as error:
                if code_of(error) == _GONE:  # the next run says what is missing
                    return None
                if code_of(error) not in _NEXT_KIND or not kinds:
                    raise self._failure(error, "get_records") from error
                iterator = None

    def _described(self, description: Mapping[str, Any]) -> tuple[Stream, datetime]:
        """Return the stream, and when it was made. Raises `Misconfigured` where there is none."""
        arn, shards, start = stream_of(description), dict[str, str | None](), dict[str, str]()
        while arn is not None:
            try:
                answer = self._ask("describe_stream", {"StreamArn": arn, **start})["StreamDescription"]
            except Caught as error:
                if code_of(error) == _GONE:
                    break
                raise self._failure(error, "describe_stream") from error
            if answer["StreamStatus"] not in _ON:
                break
            shards |= {shard["ShardId"]: shard.get("ParentShardId") for shard in answer["Shards"]}
            if "LastEvaluatedShardId" not in answer:
                return Stream(arn, shards), _utc(answer["CreationRequestDateTime"])
            start = {"ExclusiveStartShardId": answer["LastEvaluatedShardId"]}
        raise Misconfigured(
            f"table {self._table.name!r} has no stream, so nobody lists lost work in stream mode: switch the"
            " stream on (KEYS_ONLY), or set LAMBDA_ONCE_LISTING=at_once for functions and watchdog"
        )

    def _ask(self, operation: str, request: Mapping[str, Any]) -> Any:
        assert self._streams is not None  # noqa: S101  (who leaves the stream asks it nothing)
        answer = self._streams.call(operation, request, self._deadline)
        if operation == "get_records" and "Records" not in answer:
            # Without an iterator it would be taken for the end of the shard.
            raise StoreUnavailable("GetRecords answered without records", reason="no whole response")
        return answer

    def _failure(self, error: Exception, operation: str) -> OnceError:
        said = f"{named_operation(operation)} on the stream of table {self._table.name!r}"
        reason = f"{code_of(error)}: {message_of(error)}"
        if is_transient(error):
            return StoreUnavailable(f"{said} got no answer; a later run reads on: {reason}", reason=reason)
        advice = ""
        if code_of(error) in DENIED:
            advice = ": give the watchdog's role this permission on the table's stream/*"
        return Misconfigured(f"{said} failed: {reason}{advice}")


def _estimate(reason: str, table: Mapping[str, Any]) -> str:
    size = table.get("TableSizeBytes", 0)
    pages = size // _MEGABYTE + 1
    return (
        f"{reason}: lost work may be missing from the list until the table is scanned, some {pages} pages of"
        f" 1 MB, {size // 4096 + 1} read units; until then, list --scan shows it"
    )


def _stream_record(record: Mapping[str, Any]) -> StreamRecord:
    change = record["dynamodb"]
    at = _utc(change["ApproximateCreationDateTime"])
    return StreamRecord(change["Keys"][TOKEN]["S"], record["eventName"], change["SequenceNumber"], at)


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
