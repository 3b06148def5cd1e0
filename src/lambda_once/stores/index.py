"""
The sparse index ``byStatus``: tokens in progress, held, or released by a decision, by ``listed``.

A reader asks each partition of a state (`partitions`), eight in number. In stream mode the index has what the
watchdog, or a later write than the first acquisition, has listed.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.clock import Deadline, stamp
from lambda_once.dynamodb.retry import pages
from lambda_once.errors import Misconfigured
from lambda_once.stores.row import INDEX, PARTITIONS, TOKEN, Entry, Item, indexed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from lambda_once.core.lifecycle import State
    from lambda_once.stores.transport import TokenTransport

MILLISECOND: Final = timedelta(milliseconds=1)
"""The unit of the times in the index."""


class IndexPage(NamedTuple):
    """Entries of one partition, earliest lease first; *cursor* is where the next page begins, if any."""

    entries: tuple[Entry, ...]
    malformed: tuple[Misconfigured, ...]
    """Entries that cannot be read; each message names the token and the attribute."""
    cursor: Item | None


def partitions(state: State) -> tuple[str, ...]:
    """Return all values of ``listed`` for *state*."""
    return tuple(f"{state.value}_{number}" for number in range(PARTITIONS))


class StatusIndex:
    """Reads the index. It is eventually consistent: read the row before you act on an entry."""

    def __init__(self, transport: TokenTransport) -> None:
        self._transport = transport

    def unfinished(
        self, state: State, deadline: Deadline, before: datetime | None, malformed: list[Misconfigured]
    ) -> Iterator[Entry]:
        """
        List the tokens in *state*, earliest lease first; with *before*, only leases that ended before it.

        Entries that cannot be read are added to *malformed*: one row of another program must not hide all
        others.
        """

        def first(partition: str) -> IndexPage:
            return self.page(partition, deadline, before)

        pages = self._transport.each(partitions(state), first)
        entries = [
            self._all_of(partition, page, deadline, before, malformed)
            for partition, page in zip(partitions(state), pages, strict=True)
            if page.entries or page.malformed
        ]
        yield from merge(*entries, key=lambda entry: entry.record.expected_completion)

    def count(
        self,
        wanted: Sequence[str],
        deadline: Deadline,
        before: datetime | None = None,
        since: datetime | None = None,
    ) -> dict[str, int]:
        """
        Count the tokens in the partitions *wanted*; partitions without tokens are left out.

        Only leases that end before *before*, and not before *since*, are counted.
        """
        return self.count_some(wanted, deadline, before, since)[0]

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
        """
        Count as `count`, in *most* pages of *limit* tokens a partition; return whether more may follow.

        Tokens in *besides* aren't counted.
        """
        what = {"ProjectionExpression": TOKEN} if besides else {"Select": "COUNT"}

        def of(partition: str) -> tuple[int, bool]:
            request = _query(self._transport.table, partition, before, since) | what
            request |= {} if limit is None else {"Limit": limit}
            number, more = 0, False
            for page in islice(pages(ask, "query", request), most):
                also = sum(item[TOKEN]["S"] in besides for item in page["Items"]) if besides else 0
                number, more = number + page["Count"] - also, "LastEvaluatedKey" in page
            return number, more

        ask = partial(self._transport.asked, deadline=deadline, token=None)
        counts = list(zip(wanted, self._transport.each(wanted, of), strict=True))
        found = {partition: count for partition, (count, _) in counts if count}
        return found, any(more for _, (_, more) in counts)

    def page(
        self,
        partition: str,
        deadline: Deadline,
        before: datetime | None = None,
        cursor: Item | None = None,
        limit: int | None = None,
    ) -> IndexPage:
        """Return the entries of *partition* after *cursor*, at most *limit* or 1 MB of them."""
        request = _query(self._transport.table, partition, before)
        request |= {} if cursor is None else {"ExclusiveStartKey": cursor}
        request |= {} if limit is None else {"Limit": limit}
        answer = self._transport.asked("query", request, deadline, None)
        return index_page(answer["Items"], answer.get("LastEvaluatedKey"))

    def _all_of(
        self,
        partition: str,
        page: IndexPage,
        deadline: Deadline,
        before: datetime | None,
        malformed: list[Misconfigured],
    ) -> Iterator[Entry]:
        malformed += page.malformed
        yield from page.entries
        while page.cursor is not None:
            page = self.page(partition, deadline, before, page.cursor)
            malformed += page.malformed
            yield from page.entries


def index_page(items: Iterable[Item], cursor: Item | None) -> IndexPage:
    """Return *items*, as the index has them, as a page."""
    entries, malformed = list[Entry](), list[Misconfigured]()
    for item in items:
        try:
            entries.append(indexed(item))
        except Misconfigured as unreadable:
            # Without its traceback, which refers to the item: there may be one for each entry.
            malformed.append(Misconfigured(str(unreadable), token=unreadable.token))
    return IndexPage(tuple(entries), tuple(malformed), cursor)


def _query(
    table: str, partition: str, before: datetime | None, since: datetime | None = None
) -> dict[str, Any]:
    conditions, values = ["listed = :listed"], {":listed": {"S": partition}}
    if since is not None and before is not None:  # one condition of a sort key is all that a query may have
        conditions.append("expectedCompletion BETWEEN :since AND :before")
        values |= {":since": {"S": stamp(since)}, ":before": {"S": stamp(before - MILLISECOND)}}
    elif before is not None:
        conditions.append("expectedCompletion < :before")
        values[":before"] = {"S": stamp(before)}
    elif since is not None:
        conditions.append("expectedCompletion >= :since")
        values[":since"] = {"S": stamp(since)}
    return {
        "TableName": table,
        "IndexName": INDEX,
        "KeyConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeValues": values,
    }
