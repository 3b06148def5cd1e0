"""
Many tokens in one call, by PartiQL batches: two round trips for a batch of ten, not twenty.

A batch is no transaction: each statement succeeds or fails by itself. What the code rests on (DynamoDB API
reference, BatchExecuteStatement): at most 25 statements; the same item twice refuses the whole call; reads
and writes do not mix; the row that refused a statement cannot be relied on to come with the refusal.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lambda_once.core.record import Record
from lambda_once.core.writes import Acquire, Finish, Unclaimed, acquired_by, made_by
from lambda_once.dynamodb.errors import Caught, code_of, is_denied
from lambda_once.dynamodb.paging import MOST_KEYS
from lambda_once.dynamodb.retry import TRIES, back_off
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.stores import statements
from lambda_once.stores.contract import Acquired, Finished, Refused, Rejected, Unanswered, Won, Written
from lambda_once.stores.requests import first_fence
from lambda_once.stores.rows import record_of, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lambda_once.core.clock import Deadline
    from lambda_once.stores.statements import Statement
    from lambda_once.stores.transport import TokenTransport

DUPLICATE = "DuplicateItem"
REFUSED = "ConditionalCheckFailed"
CONFLICT = "TransactionConflict"
DENIED = "AccessDenied"
INVALID = "ValidationException"
_AGAIN = frozenset(
    {
        CONFLICT,
        "InternalServerError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "ThrottlingError",
    }
)

Outcome = str | None | Unanswered | Rejected
"""Of one statement: None is success, a str DynamoDB's code for its refusal."""
Standing = Record | None | Unanswered | Rejected
"""What stands under a token that refused a statement."""


class Batches:
    """
    Acquires and finishes many tokens together. An answer of None asks for a single write instead.

    *told* hears, once, that the role may not use PartiQL; single writes do the same then.
    """

    def __init__(self, transport: TokenTransport, shards: int, told: Callable[[str], object]) -> None:
        self._transport = transport
        self._shards = shards
        self._told = told
        self._denied = False
        self._lock = threading.Lock()

    @property
    def usable(self) -> bool:
        return not self._denied and statements.are_reliable()

    def acquire(self, wishes: Sequence[Acquire], deadline: Deadline) -> list[Acquired | None]:
        """Acquire each token that has no row, and tell of the others who has them."""
        new = [wish for wish in wishes if isinstance(wish.take, Unclaimed) and not wish.known]
        inserts = [statements.insert(self._transport.table, wish, self._shards) for wish in new]
        likely = [wish.token for wish in new if wish.likely]
        # What is redelivered has a row, most likely: it is read in the same round trip that asks for none.
        read = self._transport.meanwhile(lambda: self._standing(likely, deadline)) if likely else dict
        outcomes = dict(zip((wish.token for wish in new), self._executed(inserts, deadline), strict=True))
        standing = read()
        lost = [token for token, outcome in outcomes.items() if outcome in (DUPLICATE, CONFLICT)]
        standing |= self._standing([token for token in lost if standing.get(token) is None], deadline)
        return [
            _acquired(wish, outcomes[wish.token], standing.get(wish.token))
            if wish.token in outcomes
            else None
            for wish in wishes
        ]

    def finish(self, writes: Sequence[Finish], deadline: Deadline) -> list[Finished | None]:
        """Write each end of an attempt, and tell of what was refused whether it was our own."""
        plain = [write for write in writes if statements.can_update(write)]
        updates = [statements.update(self._transport.table, write, self._shards) for write in plain]
        outcomes = dict(zip((write.token for write in plain), self._executed(updates, deadline), strict=True))
        refused = [token for token, outcome in outcomes.items() if outcome in (REFUSED, CONFLICT)]
        standing = self._standing(refused, deadline)
        return [
            _finished(write, outcomes[write.token], standing.get(write.token))
            if write.token in outcomes
            else None
            for write in writes
        ]

    # ---------------------------------------------------------------- the calls

    def _executed(self, batch: Sequence[Statement], deadline: Deadline) -> list[Outcome]:
        parts = [batch[start : start + statements.MOST] for start in range(0, len(batch), statements.MOST)]
        outcomes = self._transport.each(parts, lambda part: self._executed_part(part, deadline))
        return [outcome for part in outcomes for outcome in part]

    def _executed_part(self, batch: Sequence[Statement], deadline: Deadline) -> list[Outcome]:
        """Execute *batch*; what was throttled or conflicted is sent again by itself, the rest is not."""
        outcomes: list[Outcome] = [Unanswered("not sent")] * len(batch)
        open_ = list(range(len(batch)))
        conflicts: set[int] = set()
        for tries in range(1, TRIES + 1):
            for n, outcome in zip(open_, self._sent([batch[n] for n in open_], deadline), strict=True):
                outcomes[n] = outcome
                if outcome == CONFLICT:
                    conflicts.add(n)
            open_ = [n for n in open_ if outcomes[n] in _AGAIN]
            if not open_ or deadline.one_try or deadline.passed() or tries == TRIES:
                break
            back_off(deadline, tries)
        return [_meant(outcome, conflicted=n in conflicts) for n, outcome in enumerate(outcomes)]

    def _sent(self, batch: Sequence[Statement], deadline: Deadline) -> Sequence[Outcome]:
        try:
            answer = self._transport.call("batch_execute_statement", {"Statements": list(batch)}, deadline)
        except Caught as error:
            if is_denied(error):
                self._deny(code_of(error))
                return [DENIED] * len(batch)
            if code_of(error) == INVALID:
                return [INVALID] * len(batch)  # single writes say of which it is true, and why
            return [self._transport.failed(error, "BatchExecuteStatement", None)] * len(batch)
        codes = [response.get("Error", {}).get("Code") for response in answer["Responses"]]
        if DENIED in codes:
            self._deny(DENIED)
        return codes

    def _deny(self, code: str) -> None:
        with self._lock:
            first, self._denied = not self._denied, True
        if first:
            self._told(
                f"PartiQL is denied ({code}); using single writes: allow PartiQLInsert and PartiQLUpdate"
            )

    def _standing(self, tokens: Sequence[str], deadline: Deadline) -> dict[str, Standing]:
        """Return what stands under each of *tokens*, by one consistent read."""
        standing: dict[str, Standing] = {}
        for start in range(0, len(tokens), MOST_KEYS):
            part = tokens[start : start + MOST_KEYS]
            try:
                rows = self._transport.items([{"lockToken": text(token)} for token in part], deadline, None)
            except StoreUnavailable as unavailable:
                standing |= dict.fromkeys(part, Unanswered(str(unavailable), refused=True))
            except Misconfigured as wrong:
                standing |= dict.fromkeys(part, Rejected(wrong))
            else:
                standing |= {token: _record(rows.get(token)) for token in part}
        return standing


def _record(item: object) -> Standing:
    try:
        return None if item is None else record_of(item)  # type: ignore[arg-type]
    except Misconfigured as wrong:
        return Rejected(wrong)


def _meant(last: Outcome, *, conflicted: bool) -> Outcome:
    """Return what a statement's *last* try means: silence after a conflict is no outage (guarantee 7)."""
    if not isinstance(last, Unanswered) and last not in _AGAIN:
        return last
    if conflicted:
        return CONFLICT
    return last if isinstance(last, Unanswered) else Unanswered(str(last))


def _acquired(wish: Acquire, outcome: Outcome, standing: Standing) -> Acquired | None:
    if outcome is None:
        return Won(first_fence(wish), took_over=False)
    if isinstance(outcome, Unanswered | Rejected):
        return outcome
    if outcome not in (DUPLICATE, CONFLICT) or standing is None:
        return None  # a single write says exactly what is wrong, or finds the row gone
    if isinstance(standing, Unanswered | Rejected):
        return standing
    if acquired_by(standing, wish):
        return Won.before(standing)
    return Refused(standing)


def _finished(write: Finish, outcome: Outcome, standing: Standing) -> Finished | None:
    if outcome is None:
        return Written()
    if isinstance(outcome, Unanswered | Rejected):
        return outcome
    if outcome not in (REFUSED, CONFLICT):
        return None
    if isinstance(standing, Unanswered | Rejected):
        return standing
    if made_by(standing, write):
        return Written()
    return Unanswered(CONFLICT) if outcome == CONFLICT else Refused(standing)
