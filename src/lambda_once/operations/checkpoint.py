"""
How far the watchdog has read the table's stream: its checkpoint, and what follows from it.

Pure. A *position* is where the reading of a shard goes on. What a position says of time is a lower bound: no
record that is not read yet is older than its `at`, so a position of less than `OLDEST` has missed nothing.
Records live for 24 hours (developer guide, DynamoDB Streams).

The checkpoint also has the keys that are *kept*: tokens with a first acquisition behind the position, which
are open and alive, and which nobody has listed. A run begins with them. There is room for `MOST_KEPT`; before
a record whose key has no room the position waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import State
from lambda_once.operations.tokens import is_auxiliary
from lambda_once.stores.row import TOKEN, Item, parse_stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lambda_once.core.lifecycle import Record

OLDEST: Final = timedelta(hours=23)
"""Age of a position from which on records may be gone: an hour before they are."""
YOUNG: Final = timedelta(minutes=1)
"""Age of a record that is left to the next run: most work has ended by then, and costs no read."""
LONG: Final = timedelta(minutes=20)
"""A lease of which more is left is listed at once, or it would fill `kept`: invocations take 15 minutes."""
ITERATOR_AGE: Final = timedelta(minutes=14)
"""How long an iterator is used; it lives for 15 minutes (API reference, GetShardIterator)."""
COVERED: Final = timedelta(minutes=2)
"""How long before a scan's beginning records are read: clocks differ, and times of records are rounded."""
LATE_SIBLING: Final = timedelta(hours=1)
"""How long a shard that was read to its end stays known beside its children: one more may appear."""
MADE_WITH: Final = timedelta(minutes=5)
"""A stream that is not younger than its table by more was made with it."""
MOST_KEPT: Final = 2_000
MOST_KEPT_BYTES: Final = 200_000
MOST_ITERATOR_BYTES: Final = 100_000
"""Half and a quarter of an item; the positions of 500 shards take the rest. An iterator may have 2 KB."""


class Malformed(ValueError):
    """The row is no checkpoint that this package wrote."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where the reading of a shard goes on."""

    at: datetime
    """No record that is not read yet is older; at the shard's end, none of its children's."""
    after: str | None = None
    """The sequence number of the last record that was read; None: the shard's oldest record is next."""
    iterator: str | None = None
    since: datetime | None = None
    """When an iterator was kept behind `after`; it may have been dropped since, for lack of room."""
    ended: bool = False
    """Whether the shard is closed, and was read to its end."""
    doubted: bool = False
    """Whether empty pages were taken for the tip, and records came behind them; until the tip is met."""

    def iterator_at(self, now: datetime) -> str | None:
        """Return the iterator that can be used still."""
        fresh = self.since is not None and now - self.since < ITERATOR_AGE
        return self.iterator if fresh else None

    def lost_iterator(self, now: datetime) -> bool:
        """Return whether empty pages may have been passed that must be passed again."""
        return self.since is not None and self.iterator_at(now) is None


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan that lists every open token, since records may be missing."""

    began: datetime
    cursor: str = ""
    """The key of the last row that was read; empty at the beginning."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the stream is read. Written under the condition that `version` is the one that was read."""

    stream: str
    """Its ARN; empty where no stream is read any more, and the scan is the last one."""
    read: datetime
    """When this was written."""
    version: int = 0
    shards: Mapping[str, Position] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    scan: Scan | None = None
    """What is left of a gap's scan; None: there is no gap."""
    covered: datetime | None = None
    """Records from before are passed unread: a scan began after that."""

    @property
    def read_up_to(self) -> datetime:
        """The time up to which the slowest shard is read; in a gap at most when its scan began."""
        times = [position.at for position in self.shards.values() if not position.ended]
        return min([*times, *([] if self.scan is None else [self.scan.began])], default=self.read)

    def to_item(self, row: str) -> Item:
        """Return the row *row*, without iterators beyond `MOST_ITERATOR_BYTES`: they can be asked for."""
        room, shards = MOST_ITERATOR_BYTES, dict[str, Any]()
        for shard, position in self.shards.items():
            room -= len(position.iterator or "")
            shards[shard] = {"M": _written(position, with_iterator=room >= 0)}
        item: Item = {
            TOKEN: {"S": row},
            "version": {"N": str(self.version)},
            "stream": {"S": self.stream},
            "read": {"S": stamp(self.read)},
            "upTo": {"S": stamp(self.read_up_to)},
            "shards": {"M": shards},
            "kept": {"L": [{"S": token} for token in self.kept]},
        }
        if self.scan is not None:
            item |= {"scan": {"S": self.scan.cursor}, "began": {"S": stamp(self.scan.began)}}
        return item if self.covered is None else item | {"covered": {"S": stamp(self.covered)}}

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Checkpoint:
        """Read what `to_item` wrote. Raises `Malformed`."""
        try:
            began = item["began"]["S"] if "scan" in item else None
            return cls(
                stream=item["stream"]["S"],
                read=parse_stamp(item["read"]["S"]),
                version=int(item["version"]["N"]),
                shards={shard: _position(each["M"]) for shard, each in item["shards"]["M"].items()},
                kept=tuple(each["S"] for each in item["kept"]["L"]),
                scan=None if began is None else Scan(parse_stamp(began), item["scan"]["S"]),
                covered=parse_stamp(item["covered"]["S"]) if "covered" in item else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Malformed from None


def version_of(item: Mapping[str, Any]) -> int | None:
    """Return the version of a checkpoint's row, also of one that can't be read; None: there is no number."""
    try:
        return int(item["version"]["N"])
    except (KeyError, TypeError, ValueError):
        return None


def _written(position: Position, *, with_iterator: bool) -> Item:
    texts = {"at": stamp(position.at)}
    if position.after is not None:
        texts["after"] = position.after
    if position.since is not None:
        texts["since"] = stamp(position.since)
    if position.iterator is not None and with_iterator:
        texts["iterator"] = position.iterator
    written: Item = {name: {"S": text} for name, text in texts.items()}
    marks = {"ended": position.ended, "doubted": position.doubted}
    return written | {name: {"BOOL": True} for name, is_so in marks.items() if is_so}


def _position(item: Item) -> Position:
    return Position(
        at=parse_stamp(item["at"]["S"]),
        after=item["after"]["S"] if "after" in item else None,
        iterator=item["iterator"]["S"] if "iterator" in item else None,
        since=parse_stamp(item["since"]["S"]) if "since" in item else None,
        ended="ended" in item,
        doubted="doubted" in item,
    )


# ---------------------------------------------------------------- shards


@dataclass(frozen=True, slots=True)
class Stream:
    """A table's stream, as DescribeTable and DescribeStream have it."""

    arn: str
    shards: Mapping[str, str | None]
    """The parent of each shard."""


def is_fresh(table: Mapping[str, Any], made: datetime, now: datetime) -> bool:
    """
    Return whether *table*, as DescribeTable has it, is as new as its stream, which was made then.

    It is scanned all the same, which takes a moment: its ItemCount may be hours old.
    """
    if "RestoreSummary" in table or table.get("ItemCount", 0):
        return False
    created: datetime = table["CreationDateTime"]
    return made - created < MADE_WITH and now - made < OLDEST


def ancestors(shard: str, parents: Mapping[str, str | None]) -> Iterable[str]:
    """Yield the parent of *shard*, its parent, and so on, as far as they are known."""
    parent = parents.get(shard)
    while parent is not None:
        yield parent
        parent = parents.get(parent)


def gap_in(checkpoint: Checkpoint | None, stream: Stream, now: datetime) -> str | None:
    """Return why records may be missing that *checkpoint* has not read; None: none are."""
    if checkpoint is None:
        return "there is no checkpoint"
    if checkpoint.stream != stream.arn:
        return "the checkpoint is of another stream"
    known = checkpoint.shards
    done = {ancestor for shard in known for ancestor in ancestors(shard, stream.shards)}
    for shard in by_age(known):
        if shard not in stream.shards:
            return f"shard {shard} is gone, and was not read to its end"
        if now - known[shard].at > OLDEST:
            return f"shard {shard} was read up to {stamp(known[shard].at)} only"
    for shard in stream.shards:
        if shard in known or shard in done:
            continue
        read = next((known[each] for each in ancestors(shard, stream.shards) if each in known), None)
        if read is None:
            return f"shard {shard} is new, and has no parent that was read"
        if now - read.at > OLDEST:
            return f"shard {shard} is new, and its parent was read up to {stamp(read.at)} only"
    return None


def begun_anew(stream: Stream, now: datetime) -> Checkpoint:
    """Return the checkpoint at the beginning of a gap: every shard from its oldest record, and a scan."""
    shards = {shard: Position(now) for shard in stream.shards}
    return Checkpoint(stream.arn, now, shards=shards, scan=Scan(now), covered=now - COVERED)


def with_children(shards: Mapping[str, Position], stream: Stream) -> dict[str, Position]:
    """
    Return *shards* with the children of those that have ended, and without what is done.

    A child's records are all younger than its parent's, so it has its parent's time.
    """
    found = dict(shards)
    for shard, parent in stream.shards.items():
        if shard not in found and parent is not None and parent in found and found[parent].ended:
            found[shard] = Position(found[parent].at)
    youngest = max((position.at for position in found.values()), default=None)
    parents = {stream.shards[shard] for shard in found if shard in stream.shards}
    for shard, position in list(found.items()):
        is_late = youngest is not None and youngest - position.at > LATE_SIBLING
        if position.ended and (shard not in stream.shards or (shard in parents and is_late)):
            del found[shard]
    return found


def by_age(shards: Mapping[str, Position]) -> list[str]:
    """Return the shards that are to be read, the one that is behind most first."""
    return sorted((shard for shard in shards if not shards[shard].ended), key=lambda shard: shards[shard].at)


# ---------------------------------------------------------------- records


class StreamRecord(NamedTuple):
    """One record of a stream: a row was written."""

    token: str
    event: str
    """INSERT, MODIFY or REMOVE."""
    number: str
    at: datetime


def old_enough(page: Sequence[StreamRecord], now: datetime) -> Sequence[StreamRecord]:
    """Return the records of *page* before the first that is too young to be read."""
    for place, record in enumerate(page):
        if now - record.at < YOUNG:
            return page[:place]
    return page


def inserted(page: Sequence[StreamRecord], covered: datetime | None) -> dict[str, int]:
    """
    Return the tokens whose last event in *page* is their first acquisition, each with that record's place.

    Every later write of a token that leaves it open lists it. What is no token's is left out, as is what a
    scan has seen.
    """
    last = {record.token: place for place, record in enumerate(page)}
    return {
        token: place
        for token, place in last.items()
        if page[place].event == "INSERT"
        and not is_auxiliary(token)
        and (covered is None or page[place].at >= covered)
    }


# ---------------------------------------------------------------- rows


class Fate(Enum):
    """What becomes of a token that a first acquisition was read of."""

    DROP = "drop"
    """It has ended, or is listed."""
    LIST = "list"
    KEEP = "keep"


def fate_of(record: Record, now: datetime, *, is_listed: bool) -> Fate:
    """Return what is due for *record*: what has lapsed, or has a long lease, is listed; the rest is kept."""
    if is_listed or record.state is not State.IN_PROGRESS:
        return Fate.DROP
    if record.lapsed(now) or record.expected_completion - now > LONG:
        return Fate.LIST
    return Fate.KEEP


class Kept(NamedTuple):
    """The keys that are kept now, and where the reading of a page must stop; None: nowhere."""

    tokens: tuple[str, ...]
    stop: int | None


def kept_with(
    kept: Sequence[str], alive: Mapping[str, int], unanswered: Collection[str], places: Mapping[str, int]
) -> Kept:
    """
    Return *kept* with those of *alive* for which there is room, in the order of their places in the page.

    The page is read up to the first that has no room, or was *unanswered*: nobody knows what became of it.
    """
    stop = min((places[token] for token in unanswered), default=None)
    tokens, has = list(kept), set(kept)
    size = sum(map(_size, tokens))
    for token, place in sorted(alive.items(), key=lambda each: each[1]):
        if stop is not None and place >= stop:
            break
        if token in has:
            continue
        size += _size(token)
        if len(tokens) >= MOST_KEPT or size > MOST_KEPT_BYTES:
            return Kept(tuple(tokens), place)
        tokens.append(token)
    return Kept(tuple(tokens), stop)


def _size(token: str) -> int:
    return len(token.encode()) + 1


# ---------------------------------------------------------------- positions


def read_to(position: Position, page: Sequence[StreamRecord], stop: int) -> Position:
    """Return *position* after the first *stop* records of *page*, which has more."""
    if not stop:
        return replace(position, at=page[0].at)
    return Position(page[stop].at, page[stop - 1].number)


def read_past(position: Position, page: Sequence[StreamRecord], iterator: str, now: datetime) -> Position:
    """Return *position* after all of *page*, which an *iterator* follows: more may be there already."""
    if not page:
        return replace(position, iterator=iterator, since=now)
    return Position(page[-1].at, page[-1].number, iterator, now)


def disproved(checkpoint: Checkpoint, position: Position, page: Sequence[StreamRecord]) -> bool:
    """Return whether *page*, which follows *position*, is from before: empty pages were taken for the tip."""
    covered = checkpoint.covered
    if covered is not None and position.at <= covered:
        return False
    return any(position.at - record.at > YOUNG for record in page if not is_auxiliary(record.token))


def at_end(position: Position, page: Sequence[StreamRecord]) -> Position:
    """Return *position* at the end of its shard, behind *page*."""
    if not page:
        return Position(position.at, position.after, ended=True)
    return Position(page[-1].at, page[-1].number, ended=True)


def moved(checkpoint: Checkpoint, shard: str, position: Position) -> Checkpoint:
    """Return *checkpoint* with *position*; what a scan has seen makes no position old."""
    if checkpoint.covered is not None and position.at < checkpoint.covered:
        position = replace(position, at=checkpoint.covered)
    return replace(checkpoint, shards={**checkpoint.shards, shard: position})
