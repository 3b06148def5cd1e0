"""
Many tokens in one call, by PartiQL batches: two round trips for a batch of ten, not twenty.

A batch is not a transaction: each statement succeeds or fails by itself. DynamoDB API reference,
BatchExecuteStatement: at most 25 statements; the same item twice fails the whole call; reads and writes
cannot be mixed. The response may lack the row that refused a statement, so the row is read.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from lambda_once.core.lifecycle import Record
from lambda_once.core.writes import Acquire, Unclaimed, Write, made_by
from lambda_once.dynamodb.errors import DENIED as NOT_PERMITTED
from lambda_once.dynamodb.errors import Caught, code_of, is_denied, is_foreign
from lambda_once.dynamodb.retry import ARN, MOST_KEYS, Tries
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.stores import requests
from lambda_once.stores.contract import (
    AcquireAnswer,
    Refused,
    Unanswered,
    Won,
    WriteAnswer,
    Written,
)
from lambda_once.stores.row import record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lambda_once.core.clock import Deadline
    from lambda_once.core.variables import Listing
    from lambda_once.stores.requests import Arguments
    from lambda_once.stores.transport import TokenTransport

MOST_STATEMENTS = 25
"""Most statements in one BatchExecuteStatement (API reference)."""
DUPLICATE = "DuplicateItem"
REFUSED = "ConditionalCheckFailed"
CONFLICT = "TransactionConflict"
DENIED = "AccessDenied"
INVALID = "ValidationException"
FOREIGN = "NotDynamoDB"
"""The whole batch was answered by something that isn't DynamoDB."""
_AGAIN = frozenset(
    {
        CONFLICT,
        "InternalServerError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "ThrottlingError",
    }
)

Outcome = str | None | Unanswered | Misconfigured
"""The outcome of one statement: None for success, a str for DynamoDB's error code."""
Reading = Record | None | Unanswered | Misconfigured
"""What reading the row that refused a statement gave; None if there is no row."""


_WITHOUT_BATCHES: WeakSet[Any] = WeakSet()
"""Clients whose endpoint answers batches by something that isn't DynamoDB; several stores may share one."""


def partiql_is_reliable() -> bool:
    """Return whether the conditions of PartiQL statements are enforced here."""
    # moto 5.2.5 overwrites existing rows by INSERT, and lets failing UPDATEs succeed: a process that has
    # loaded it uses single writes.
    return "moto" not in sys.modules


class Batches:
    """
    Acquires and finishes many tokens together. An answer of None means that a single write is needed.

    *warn* is called once, with the reason, if the role may not use PartiQL or BatchGetItem, or the endpoint
    can't; single writes are used from then on.
    """

    def __init__(self, transport: TokenTransport, listing: Listing, warn: Callable[[str], object]) -> None:
        self._transport = transport
        self._listing = listing
        self._warn = warn
        self._stopped = False
        self._was_foreign = False
        """Whether the last batch was answered by something that isn't DynamoDB."""
        self._lock = threading.RLock()

    @property
    def usable(self) -> bool:
        # Developer guide, API operations supported by resource-based policies: no PartiQL across accounts.
        has_name = not self._transport.table.startswith(ARN)
        return has_name and not self._is_stopped() and partiql_is_reliable()

    def _is_stopped(self) -> bool:
        with suppress(TypeError):  # a test's double may have no hash
            return self._stopped or self._transport.client in _WITHOUT_BATCHES
        return False

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer | None]:
        """Acquire each token that has no row; for the others, answer with the row."""
        new = [each for each in acquisitions if isinstance(each.take, Unclaimed) and not each.known]
        inserts = [requests.insert(self._transport.table, each, self._listing) for each in new]
        likely = [each.token for each in new if each.likely]
        # A redelivered record most likely has a row: it is read while the statements are sent.
        read_rows = self._transport.meanwhile(lambda: self._rows(likely, deadline)) if likely else dict
        outcomes = dict(zip((each.token for each in new), self._execute(inserts, deadline), strict=True))
        rows = read_rows()
        refused = [token for token, outcome in outcomes.items() if outcome in (DUPLICATE, CONFLICT)]
        rows |= self._rows([token for token in refused if rows.get(token) is None], deadline)
        return [
            _acquire_answer(each, outcomes[each.token], rows.get(each.token))
            if each.token in outcomes
            else None
            for each in acquisitions
        ]

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer | None]:
        """Write each finish that a statement can express; refusals by our own write count as written."""
        plain = [write for write in writes if requests.can_update(write)]
        updates = [requests.update(self._transport.table, write) for write in plain]
        outcomes = dict(zip((write.token for write in plain), self._execute(updates, deadline), strict=True))
        refused = [token for token, outcome in outcomes.items() if outcome in (REFUSED, CONFLICT)]
        rows = self._rows(refused, deadline)
        return [
            _write_answer(write, outcomes[write.token], rows.get(write.token))
            if write.token in outcomes
            else None
            for write in writes
        ]

    def sent_singly(self, answers: Sequence[object]) -> None:
        """
        Send no more batches if DynamoDB answers single writes, but something else answered a batch.

        moto 5.2.5 as a server answers PartiQL with parameters by HTTP 500 and a page of HTML.
        """
        if self._was_foreign and any(not isinstance(it, Unanswered | Misconfigured) for it in answers):
            with suppress(TypeError):
                _WITHOUT_BATCHES.add(self._transport.client)
            self._stop("were answered by something that is not DynamoDB")

    # ---------------------------------------------------------------- the calls

    def _execute(self, statements: Sequence[Arguments], deadline: Deadline) -> list[Outcome]:
        starts = range(0, len(statements), MOST_STATEMENTS)
        batches = [statements[start : start + MOST_STATEMENTS] for start in starts]
        outcomes = self._transport.each(batches, lambda batch: self._execute_batch(batch, deadline))
        return [outcome for of_batch in outcomes for outcome in of_batch]

    def _execute_batch(self, batch: Sequence[Arguments], deadline: Deadline) -> list[Outcome]:
        """Execute *batch*; resend the statements that were throttled or that conflicted."""
        outcomes: list[Outcome] = [Unanswered("not sent")] * len(batch)
        left = list(range(len(batch)))
        conflicts: set[int] = set()
        tries = Tries(deadline)
        while left:
            began = deadline.clock.now()
            for n, outcome in zip(left, self._send([batch[n] for n in left], deadline), strict=True):
                outcomes[n] = outcome
                if outcome == CONFLICT:
                    conflicts.add(n)
            left = [n for n in left if outcomes[n] in _AGAIN]
            if left and not tries.again(began):
                break
        return [self._outcome(outcome, conflicted=n in conflicts) for n, outcome in enumerate(outcomes)]

    def _outcome(self, last: Outcome, *, conflicted: bool) -> Outcome:
        """
        Return the outcome of a statement, given that of its *last* try.

        If an earlier try conflicted, a lost response is a conflict, not an outage (guarantee 7).
        """
        if last is None or (isinstance(last, str) and last not in _AGAIN) or isinstance(last, Misconfigured):
            return last
        if conflicted:
            return CONFLICT
        if isinstance(last, Unanswered):
            return last
        return Unanswered(self._transport.outage(last, "BatchExecuteStatement"))

    def _send(self, batch: Sequence[Arguments], deadline: Deadline) -> Sequence[Outcome]:
        try:
            answer = self._transport.call("batch_execute_statement", {"Statements": list(batch)}, deadline)
        except Caught as error:
            if is_denied(error):
                if code_of(error) in NOT_PERMITTED:
                    self._stop_denied(code_of(error))
                else:
                    self._stop(f"are unknown to this engine ({code_of(error)})")
                return [DENIED] * len(batch)
            self._was_foreign = is_foreign(error) and self._transport.is_given
            if self._was_foreign:
                return [FOREIGN] * len(batch)
            if code_of(error) == INVALID:
                return [INVALID] * len(batch)  # single writes find out which, and why
            return [self._transport.failed(error, "BatchExecuteStatement", None)] * len(batch)
        self._was_foreign = False
        codes = [response.get("Error", {}).get("Code") for response in answer["Responses"]]
        if DENIED in codes:
            self._stop_denied(DENIED)
        return codes

    def _stop_denied(self, reason: str) -> None:
        self._stop(f"are denied ({reason}): allow PartiQLInsert, PartiQLUpdate and BatchGetItem")

    def _stop(self, reason: str) -> None:
        """Send no more batches, and warn once."""
        with self._lock:
            first, self._stopped = not self._stopped, True
        if first:
            self._warn(f"batches {reason}; using single writes")

    def _rows(self, tokens: Sequence[str], deadline: Deadline) -> dict[str, Reading]:
        """Return the rows of *tokens*, read consistently."""
        rows: dict[str, Reading] = {}
        for start in range(0, len(tokens), MOST_KEYS):
            part = tokens[start : start + MOST_KEYS]
            try:
                items = self._transport.items([{"lockToken": {"S": token}} for token in part], deadline, None)
            except StoreUnavailable as unavailable:
                rows |= dict.fromkeys(part, Unanswered(unavailable.reason or str(unavailable)))
            except Misconfigured as denial:
                self._stop_denied(str(denial))
                rows |= dict.fromkeys(part, denial)
            else:
                rows |= {token: _read(items.get(token)) for token in part}
        return rows


def _read(item: object) -> Reading:
    try:
        return None if item is None else record_of(item)  # type: ignore[arg-type]
    except Misconfigured as malformed:
        return malformed


def _acquire_answer(acquisition: Acquire, outcome: Outcome, row: Reading) -> AcquireAnswer | None:
    if outcome is None:
        return Won.first(acquisition)
    if isinstance(outcome, Unanswered | Misconfigured):
        return outcome
    if outcome not in (DUPLICATE, CONFLICT) or row is None or isinstance(row, Misconfigured):
        return None  # a single write finds out what is wrong, or that the row is gone
    if isinstance(row, Unanswered):
        return row
    if row.in_progress_by(acquisition.attempt_id):
        return Won.before(row)
    return Refused(row)


def _write_answer(write: Write, outcome: Outcome, row: Reading) -> WriteAnswer | None:
    if outcome is None:
        return Written.WRITTEN
    if isinstance(outcome, Unanswered | Misconfigured):
        return outcome
    if outcome not in (REFUSED, CONFLICT) or isinstance(row, Misconfigured):
        return None  # the refusal of a single write carries the row: no permission to read is needed
    if isinstance(row, Unanswered):
        return row
    if made_by(row, write):
        return Written.WRITTEN
    return Unanswered(CONFLICT) if outcome == CONFLICT else Refused(row)
