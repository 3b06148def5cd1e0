"""
Find tokens: by name, by key, or by text in their keys and scopes, which reads the whole table.

A scan also stands in for the index of unfinished tokens.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote

from lambda_once.core.canonical import NotCanonical, digest
from lambda_once.core.clock import stamp
from lambda_once.core.codec import as_json
from lambda_once.core.keys import is_nothing, tenant_part
from lambda_once.core.keys import token as token_of
from lambda_once.core.lifecycle import State
from lambda_once.core.results import Inline, Parts, unpack, unpack_chunks
from lambda_once.errors import Misconfigured
from lambda_once.operations.listing import readable, unfinished
from lambda_once.operations.table import was_denied
from lambda_once.operations.tokens import UNFINISHED, TokenName, is_auxiliary, parts_of
from lambda_once.stores.index import IndexPage, StatusIndex, index_page
from lambda_once.stores.requests import part_keys
from lambda_once.stores.row import INDEXED, LISTED, TOKEN, Entry, Item, indexed, listed
from lambda_once.stores.transport import projection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from lambda_once.core.clock import Deadline
    from lambda_once.core.lifecycle import Record
    from lambda_once.operations.table import TokenTable

BYTES_PER_READ_UNIT = 8_192
"""Half a read unit for 4 KB, eventually consistent (DynamoDB developer guide, capacity consumption)."""
PAGE_BYTES = 1_048_576
"""What one Scan request reads at most, before its filter (DynamoDB: 1 MB)."""
READ_PRICE: Final = 0.125
"""Dollars for a million read units, on demand, us-east-1 (https://aws.amazon.com/dynamodb/pricing/on-demand/)."""
SEGMENTS: Final = 8
"""Segments of a scan."""
LONG = 3_600.0
"""Seconds that a scan of the whole table may take."""
MOST_SIMILAR = 5
MOST_NAMES = 1_000
"""Functions, with their scopes, under whose names a key is looked up before the whole table is read."""

_READ = (*LISTED, "error")


# -- one token, and its result


def by_token(table: TokenTable, token: str, tenant: str | None = None) -> Record | None:
    """Return the row of *token*; None if it does not exist, is no token, or isn't *tenant*'s."""
    name = parts_of(token)
    if name is None or not (tenant is None or name.is_of_tenant(tenant)):
        return None
    return table.read(token)


def by_parts(
    table: TokenTable, service: str, name: str, scope: str | None, key: str, tenant: str | None = None
) -> Record | None:
    """
    Return the row of the key *key*: as text, or else as the number or JSON value that it spells.

    Raises `Misconfigured` and `KeyMissing` if the parts make no token.
    """
    prefix = token_of(service, name, scope, key, tenant).rpartition("/")[0]
    malformed: list[Misconfigured] = []
    found = _rows(table, [prefix], key, malformed)
    if malformed and not found:
        raise malformed[0]
    return found[0] if found else None


class Lookup(NamedTuple):
    """What was found without reading the whole table."""

    records: tuple[Record, ...]
    """Rows with exactly this key."""
    similar: tuple[str, ...]
    """A few unfinished tokens whose key contains it."""
    malformed: tuple[Misconfigured, ...]
    """Rows with this key that cannot be read."""
    names: tuple[str, ...]
    """Where it was looked up: the beginnings of tokens."""


def by_known_names(
    table: TokenTable, key: str, names: Iterable[str], now: datetime, tenant: str | None = None
) -> Lookup:
    """
    Look the key *key* up under *names*, and, if there is the index, under the name of every unfinished token.

    A name is the beginning of a token: ``service/name``, and tenant and scope if it has them. With *tenant*
    it is looked up among the tokens of that one alone. Raises `Misconfigured`, `StoreUnavailable`, and
    `KeyMissing` if *key* cannot be a key.
    """
    prefixes = dict.fromkeys(name if tenant is None else _of_tenant(name, tenant) for name in names)
    similar = list[str]()
    keys, unread = keys_of(key), list[Misconfigured]()
    listed = (entry.record.token for entry in unfinished(table, UNFINISHED, now, unread))
    for token in chain(listed, (each.token for each in unread if each.token is not None)):
        parts = parts_of(token)
        if parts is None:
            continue
        name = token.rpartition("/")[0]
        if tenant is not None and not parts.is_of_tenant(tenant):
            name = _of_tenant("/".join(token.split("/")[:2]), tenant)
        elif parts.key not in keys and key in parts.key and len(similar) < MOST_SIMILAR:
            similar.append(token)
        if parts.key in keys or len(prefixes) < MOST_NAMES:
            prefixes[name] = None
    malformed: list[Misconfigured] = []
    rows = _rows(table, prefixes, key, malformed)
    return Lookup(rows, tuple(similar), tuple(malformed), tuple(prefixes))


def _of_tenant(name: str, tenant: str) -> str:
    """Return *name*, the beginning of a token, for *tenant*. A third part of another text is a scope."""
    service, function, *rest = name.split("/")
    own = tenant_part(tenant)
    return "/".join((service, function, own, *(() if rest == [own] else rest[-1:])))


def names_from(setting: str) -> tuple[str, ...]:
    """Return the comma-separated names of *setting*. Raises `Misconfigured` if one cannot begin a token."""
    names = tuple(name.strip() for name in setting.split(",") if name.strip())
    for name in names:
        if parts_of(f"{name}/key") is None or not all(name.split("/")):
            raise Misconfigured(f"LAMBDA_ONCE_NAMES has {name!r}: use service/name, separated by commas")
    return names


def _rows(
    table: TokenTable, prefixes: Iterable[str], key: str, malformed: list[Misconfigured]
) -> tuple[Record, ...]:
    """
    Return the rows of *key* under *prefixes*, in their order; text comes before other forms of the key.

    *malformed* gets those that cannot be read.
    """
    forms = [_encoded(form) for form in sorted(keys_of(key), key=lambda form: (form != key, form))]
    tokens = [f"{prefix}/{form}" for prefix in prefixes for form in forms]
    rows = table.rows(tokens)
    found = (readable(rows[token], malformed, table.record) for token in tokens if token in rows)
    return tuple(record for record in found if record is not None)


def parts_present(table: TokenTable, record: Record) -> int | None:
    """Return how many parts of a large result exist; None if the result has no parts."""
    if not isinstance(record.stored, Parts):
        return None
    keys = part_keys(record, record.stored.count)
    return len(table.transport.items(keys, table.deadline(), record.token, only=(TOKEN,)))


def parts_are_missing(record: Record, present: int | None) -> bool:
    """Whether a result in parts lacks some; *present* is that of `parts_present`."""
    return isinstance(record.stored, Parts) and present != record.stored.count


def result_text(table: TokenTable, record: Record) -> str | None:
    """Return the JSON of a stored result, for people; None if a part is missing. Raises `Corrupt`."""
    if isinstance(record.stored, Parts):
        chunks = table.store.chunks(record, table.deadline())
        return None if chunks is None else as_json(unpack_chunks(chunks))
    return as_json(unpack(record.stored.data if isinstance(record.stored, Inline) else None))


# -- what to look for


class Pattern(NamedTuple):
    """What to look for in keys and scopes."""

    text: str
    ignore_case: bool = False
    digests: frozenset[str] = frozenset()
    """How a key that is exactly this text, or the JSON value that it spells, is stored if it was hashed."""
    keys: frozenset[str] | None = None
    """Whole keys; None: every key and scope that contains the text."""
    delivery: str | None = None
    """In place of keys and scopes: the delivery, or Lambda's request, for which it was acquired last."""
    tenant: str | None = None
    """Only tokens whose third part this is; None: all."""

    def matches(self, name: TokenName) -> bool:
        if self.tenant is not None and not name.is_of_tenant(self.tenant):
            return False
        if self.delivery is not None:
            return True  # `is_delivered` has filtered the rows
        if self.keys is not None:
            return name.key in self.keys
        if name.key in self.digests:
            return True
        places = (name.key, name.scope or "", name.tenant or "")
        if self.ignore_case:
            return any(self.text.casefold() in place.casefold() for place in places)
        return any(self.text in place for place in places)

    def is_delivered(self, item: Item) -> bool:
        """Whether the row *item* was acquired for `delivery`, if that is what to look for."""
        if self.delivery is None or item.get("delivery", {}).get("S") == self.delivery:
            return True
        request = item.get("lockedBy", {}).get("S", "").partition("/")[2]
        return bool(request == self.delivery)

    @property
    def encoded(self) -> tuple[str, ...]:
        """What matching tokens contain, percent-encoded as they are stored."""
        if self.keys is not None:
            return tuple(f"/{_encoded(key)}" for key in sorted(self.keys))
        return (_encoded(self.text), *sorted(self.digests))


def containing(typed: str, *, ignore_case: bool = False) -> Pattern:
    return Pattern(typed, ignore_case, digests=frozenset(map(digest, _values(typed))))


def exactly(typed: str) -> Pattern:
    """Return the pattern of the key *typed*: text, a number or JSON."""
    return Pattern(typed, keys=keys_of(typed))


def delivered_as(delivery: str) -> Pattern:
    """Return the pattern of *delivery*: the id of a message, an event or a request."""
    return Pattern(delivery, delivery=delivery)


def keys_of(typed: str) -> frozenset[str]:
    """
    Return the keys that *typed* may have in a token, decoded.

    As text, and as the number or JSON value that it spells; what is hashed in a token is a SHA-256. Raises
    `KeyMissing` if it cannot be a key.
    """
    parts = (token_of("service", "name", None, value).rpartition("/")[2] for value in _values(typed))
    return frozenset(map(unquote, parts))


def _values(typed: str) -> list[object]:
    """Return *typed*, and the value that it spells if that is JSON that can be a key."""
    try:
        value = json.loads(typed, parse_float=Decimal)
        digest(value)
    except (ValueError, ArithmeticError, NotCanonical, RecursionError):
        return [typed]
    return [typed] if is_nothing(value) else [typed, value]


def _encoded(part: str) -> str:
    """Return *part* as it is stored in a token."""
    return quote(part, safe="", errors="surrogatepass")


# -- the whole table


class TableSize(NamedTuple):
    """The size of a table by DescribeTable, which DynamoDB updates about every six hours."""

    rows: int
    size: int

    def units(self, segments: int) -> int:
        """
        Return the read units of a Scan of the whole table, at most.

        The last page of each segment, also of an empty one, is rounded up to half a unit.
        """
        return ceil(self.size / BYTES_PER_READ_UNIT + segments / 2)

    def dollars(self, segments: int) -> float:
        """Return what that costs, by `READ_PRICE`."""
        return self.units(segments) * READ_PRICE / 1_000_000

    @property
    def pages(self) -> int:
        return -(-self.size // PAGE_BYTES)


class Scanned(NamedTuple):
    """What one page of each segment returned."""

    records: tuple[Record, ...]
    malformed: tuple[Misconfigured, ...]
    """Rows with a matching key that cannot be read."""
    pages: int
    units: float
    complete: bool
    """Whether the whole table has been read."""


def table_size(table: TokenTable) -> TableSize | None:
    """Return the size of the table; None if DescribeTable is denied. Raises as `TokenTransport.asked`."""
    try:
        described = table.transport.asked("describe_table", {"TableName": table.name}, table.deadline(), None)
    except Misconfigured as wrong:
        if was_denied(wrong):
            return None
        raise
    found = described["Table"]
    return TableSize(found["ItemCount"], found["TableSizeBytes"])


def scan_request(table: str, pattern: Pattern) -> dict[str, Any]:
    """Return the Scan for *pattern*. A filter cannot ignore case, so then there is none."""
    request: dict[str, Any] = {
        "TableName": table,
        "ReturnConsumedCapacity": "TOTAL",
        **projection(_READ),
    }
    if pattern.delivery is not None:
        return request | {
            "FilterExpression": "#delivery = :delivery OR contains(#lockedBy, :request)",
            "ExpressionAttributeValues": {
                ":delivery": {"S": pattern.delivery},
                ":request": {"S": f"/{pattern.delivery}"},
            },
        }
    if pattern.ignore_case:
        return request
    values = {f":wanted{number}": {"S": each} for number, each in enumerate(pattern.encoded)}
    return request | {
        "FilterExpression": " OR ".join(f"contains(#{TOKEN}, {name})" for name in values),
        "ExpressionAttributeValues": values,
    }


def scan(table: TokenTable, pattern: Pattern, most_pages: int, segments: int = SEGMENTS) -> Iterator[Scanned]:
    """
    Read one page of every segment at once, again and again, until all or *most_pages* are read.

    Raises `StoreUnavailable` and `Misconfigured`.
    """
    request = scan_request(table.name, pattern)
    for pages, complete in _pages(table, request, most_pages, segments):
        yield _scanned(pages, pattern, complete=complete)


def _pages(
    table: TokenTable, request: Mapping[str, Any], most_pages: int, segments: int
) -> Iterator[tuple[list[Any], bool]]:
    """Yield one page of every segment, and whether these were the last."""
    deadline = table.deadline(LONG)
    starts: dict[int, Item | None] = dict.fromkeys(range(segments))

    def page(segment: int) -> Any:
        start = starts[segment]
        place = {} if start is None else {"ExclusiveStartKey": start}
        asked = {**request, "Segment": segment, "TotalSegments": segments, **place}
        return table.transport.asked("scan", asked, deadline, None)

    while starts and most_pages > 0:
        asked = list(starts)[:most_pages]
        pages = table.transport.each(asked, page)
        most_pages -= len(pages)
        for segment, answer in zip(asked, pages, strict=True):
            del starts[segment]
            if "LastEvaluatedKey" in answer:
                starts[segment] = answer["LastEvaluatedKey"]
        yield pages, not starts


_STATES: Final = {state.value: state for state in State}
_RELEASED: Final = {"S": State.RELEASED.value}


_OPEN: Final = "attribute_exists(#status)"
_GIVEN_BACK: Final = "(attribute_not_exists(actualCompletion) AND attribute_exists(#attempt))"
"""What has neither ``status`` nor an outcome was released by its function (`row.record_of`)."""


class ScannedIndex(StatusIndex):
    """
    The status index, made by one scan of the whole table: a table may have none.

    Its entries are those of every unfinished token, listed or not, and with *released* also of those that
    their functions released, which no index has, until their ttl. They are kept in memory, as of the scan.
    """

    def __init__(self, table: TokenTable, segments: int = SEGMENTS, *, released: bool = False) -> None:
        """Read the whole table. Raises `StoreUnavailable` and `Misconfigured`."""
        super().__init__(table.transport)
        self.pages = 0
        self.units = 0.0
        rows: list[Item] = []
        wanted = f"({_OPEN} OR {_GIVEN_BACK})" if released else _OPEN
        request = {
            "TableName": table.name,
            "FilterExpression": wanted,
            "ReturnConsumedCapacity": "TOTAL",
            **projection((*("status" if name == "listed" else name for name in INDEXED), "ttl")),
        }
        for pages, _ in _pages(table, request, sys.maxsize, segments):
            self.pages += len(pages)
            self.units += sum(page.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0) for page in pages)
            rows += (item for page in pages for item in page["Items"])
        self.unreadable: list[Misconfigured] = []
        """An error for each row that cannot be read."""
        self._rows: dict[str, list[Item]] = {}
        self._ttls: dict[str, int] = {}
        now = table.now().timestamp()
        for row in sorted(rows, key=_lease_text):
            token: str = row[TOKEN]["S"]
            if is_auxiliary(token):
                continue
            state = _STATES.get(row.pop("status", _RELEASED).get("S", ""))
            ttl = _whole(row.pop("ttl", {}).get("N"))
            if state is State.RELEASED and ttl is not None:
                if ttl <= now:
                    continue  # counts as absent (`Record.expired`)
                self._ttls[token] = ttl
            partition = "" if state is None else listed(state, token)
            row["listed"] = {"S": partition}
            try:
                indexed(row)
            except Misconfigured as wrong:
                named = "status" if state is None else wrong.__cause__
                text = f"token {token}: {named} is missing or malformed: lambda-once show prints its row"
                self.unreadable.append(Misconfigured(text, token=token))
            else:
                self._rows.setdefault(partition, []).append(row)

    def page(
        self,
        partition: str,
        deadline: Deadline,
        before: datetime | None = None,
        cursor: Item | None = None,
        limit: int | None = None,
    ) -> IndexPage:
        """Return all entries of *partition* after *cursor*, at most *limit*: there is no next page."""
        del deadline, cursor
        page = index_page(self._of(partition, before, None)[:limit], None)
        # By its ttl what a function released differs from what a decision did.
        records = (entry.record._replace(ttl=self._ttls.get(entry.record.token)) for entry in page.entries)
        return page._replace(entries=tuple(map(Entry, records)))

    def count_some(
        self,
        wanted: Sequence[str],
        deadline: Deadline,
        before: datetime | None = None,
        since: datetime | None = None,
        most: int | None = None,
        limit: int | None = None,
        besides: AbstractSet[str] = frozenset(),
    ) -> tuple[dict[str, int], bool]:
        """Count all, whatever *most* and *limit* are: they have been read."""
        del deadline, most, limit
        counts = {
            partition: sum(row[TOKEN]["S"] not in besides for row in self._of(partition, before, since))
            for partition in wanted
        }
        return {partition: count for partition, count in counts.items() if count}, False

    def _of(self, partition: str, before: datetime | None, since: datetime | None) -> list[Item]:
        first, last = "" if since is None else stamp(since), None if before is None else stamp(before)
        rows = self._rows.get(partition, [])
        return [row for row in rows if first <= (ends := _lease_text(row)) and (last is None or ends < last)]


def _whole(number: str | None) -> int | None:
    """Return a stored whole number; None if there is none, or another one, which its row is read for."""
    try:
        return None if number is None else int(number)
    except ValueError:
        return None


def _lease_text(row: Item) -> str:
    ends: str = row.get("expectedCompletion", {}).get("S", "")
    return ends


def _scanned(pages: list[Any], pattern: Pattern, *, complete: bool) -> Scanned:
    malformed: list[Misconfigured] = []
    records: list[Record | None] = []
    for item in (item for page in pages for item in page["Items"]):
        parts = parts_of(item[TOKEN]["S"]) if TOKEN in item else None
        if parts is None or not pattern.matches(parts) or not pattern.is_delivered(item):
            continue
        records.append(readable(item, malformed))
    units = sum(page.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0) for page in pages)
    read = tuple(record for record in records if record is not None)
    return Scanned(read, tuple(malformed), len(pages), units, complete)
