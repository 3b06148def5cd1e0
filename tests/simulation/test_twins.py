"""Every condition of every write, dropped in turn: the simulator finds what it is there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from lambda_once.core.clock import epoch_seconds
from lambda_once.core.writes import Complete, Extend, Hold
from lambda_once.dynamodb.transport import Transport
from lambda_once.engine import engine as acquiring
from lambda_once.engine import invocation
from lambda_once.engine.engine import Engine
from lambda_once.engine.finish import Finisher
from lambda_once.integrations import history, powertools_history
from lambda_once.integrations.powertools_history import Marks, PowertoolsRecord
from lambda_once.operations import decisions as operations_decisions
from lambda_once.stores import requests
from lambda_once.stores.store import DynamoDBStore
from tests.kit.strict import engine
from tests.simulation.guards import (
    Patch,
    added,
    asks_no_history,
    asks_nothing,
    awaited_by_the_client,
    both,
    consulted_at_any_time,
    deleting_any,
    hopeful,
    judging_nothing,
    keeping_the_old_ttl,
    looking_for_nothing,
    made_by_content,
    made_by_id_alone,
    made_by_id_and_state,
    never,
    overwriting_insert,
    part_key_by_attempt,
    part_key_by_token,
    parts_after_the_row,
    placing,
    read_before_the_loop,
    recognising,
    released_by_an_attempt,
    returning_its_own,
    ttl_after_with,
    unrecognised,
    whenever,
    with_any_status,
    with_request_ids,
    with_seen_id,
    with_ttl_under_hold,
    with_ttl_within_the_lease,
    without,
)
from tests.simulation.network import DEAF, FAIR, FOUL
from tests.simulation.play import play_out
from tests.simulation.scenario import Scenario, with_history, with_lanes, without_history
from tests.simulation.story import Counterexample

SEEDS = 60_000
"""From these the seeds are taken that a twin may need: those of scenarios in which its guard matters."""
PLAYED = 1_500
"""How many of them are played at most."""
AIMED = 60
"""How many schedules that are aimed at a guard are played with it."""


@dataclass(frozen=True)
class Twin:
    """The package without one guard, and what the simulator finds then."""

    drop: Patch
    finds: str
    where: Callable[[Scenario], bool] = lambda _scenario: True
    aim: Callable[[Scenario], Scenario] = lambda scenario: scenario
    """Makes the circumstances in which the guard matters where too few seeds have them."""


def take_over(found: Scenario) -> bool:
    """Every machine takes over."""
    return set(found.on_lapse) == {"take_over"}


def hold(found: Scenario) -> bool:
    """Every machine holds."""
    return set(found.on_lapse) == {"hold"}


def probe(found: Scenario) -> bool:
    """Every machine asks a probe."""
    return set(found.on_lapse) == {"probe"}


def deaf(found: Scenario) -> bool:
    """Transactions are written, and their answers are lost."""
    return found.transacts and found.weather is DEAF


def hurrying(found: Scenario) -> bool:
    """Work goes on beside its transaction, on a bad network."""
    return found.transacts and found.hurries and found.weather in (DEAF, FOUL)


def waking(found: Scenario) -> Scenario:
    """
    Short leases of one token are renewed by who has outlives_its_lease them, while others ask the probe.

    Few seeds stand for all of it: one in eighty for a probe and renewals of a short lease.
    """
    return replace(
        found,
        face="event",
        on_lapse=("probe",) * found.machines,
        lease=5_000,
        keep=1_000,
        remaining=15_000,
        tokens=1,
        deliveries=4,
        extends=True,
        amended=False,
        transacts=False,
        waits=False,
        outage=False,
        weather=replace(FAIR, late=150, slow=120, pause=60),
    )


def a_deploy(found: Scenario) -> bool:
    """The machines differ in their policy."""
    return len(set(found.on_lapse)) > 1


def four_at_once(found: Scenario) -> Scenario:
    """The work is async def."""
    return with_lanes(found, 4)


def blocked(found: Scenario) -> Scenario:
    """Records at once on one event loop, which some of them block, under short leases."""
    return replace(
        with_lanes(found, 4),
        face="sqs",
        on_lapse=("hold",) * found.machines,
        lease=5_000,
        keep=1_000,
        remaining=15_000,
        tokens=6,
        deliveries=8,
        weather=replace(FAIR, slow=120, pause=60),
    )


UNSET = "attribute_not_exists(#status)"
UNFINISHED = "attribute_not_exists(actualCompletion)"
IN_PROGRESS = "begins_with(#status, :in_progress)"
TWO_HOLD = "two hold one token"
OVERWRITTEN = "a stored outcome was overwritten"
LATE = "was changed by a late write"
TOO_LATE = "answered too late"

TWINS = {
    # acquisitions under take_over
    "an acquisition asks nothing": Twin(placing(requests, "_claim", asks_nothing), ""),
    "what is free may be in progress": Twin(
        without(requests, "FREE", UNSET), TWO_HOLD, lambda found: take_over(found) and not found.amended
    ),
    "what is free may be complete": Twin(without(requests, "FREE", UNFINISHED), OVERWRITTEN),
    "a ghost re-opens what it released": Twin(
        without(requests, "FREE", "attempt <> :a"), "re-opened what it had released", take_over
    ),
    "what has a ttl counts as expired": Twin(without(requests, "FREE", "#ttl <= :now_s"), OVERWRITTEN),
    "what has lapsed may be finished": Twin(without(requests, "LAPSED", IN_PROGRESS), OVERWRITTEN, take_over),
    "what lives is taken over": Twin(
        without(requests, "LAPSED", "expectedCompletion < :now"), TWO_HOLD, take_over
    ),
    "another payload takes over": Twin(
        without(requests, "SAME_PAYLOAD", "fingerprint = :f"),
        "another payload took the token over",
        lambda found: take_over(found) and found.amended,
    ),
    # what a decision released
    "what a decision released is not free": Twin(
        placing(requests, "FREE", requests.FREE.replace(requests.ENDED, UNSET)),
        "was lost",
        lambda found: take_over(found) and found.watched,
    ),
    "what a decision released is not acquired as seen": Twin(
        placing(requests, "RELEASED_AS_SEEN", requests.RELEASED_AS_SEEN.replace(requests.ENDED, UNSET)),
        "was lost",
        hold,
    ),
    "any status means a take-over": Twin(
        placing(requests, "won", with_any_status),
        "not in progress",
        lambda found: found.on_error == "hold",
    ),
    "what a decision released is not listed": Twin(
        placing(requests, "_released", released_by_an_attempt), "is not listed", hold
    ),
    # acquisitions under hold and probe
    "under hold what has a ttl counts as expired": Twin(
        without(requests, "EXPIRED", "#ttl <= :now_s"), OVERWRITTEN, hold
    ),
    "under hold what is in progress may expire": Twin(
        without(requests, "EXPIRED", UNSET), "", lambda found: a_deploy(found) and found.keep == 20
    ),
    "a released row is taken though it was not seen": Twin(
        without(requests, "RELEASED_AS_SEEN", "attempt = :seen"), "re-opened what it had released", hold
    ),
    "a released row is taken, whatever it is by now": Twin(
        placing(
            requests, "RELEASED_AS_SEEN", "attempt = :seen OR attribute_exists(#status) OR attempt <> :seen"
        ),
        "",
        hold,
    ),
    # (A lease belongs to one attempt, so either of the two alone still tells the attempts apart.)
    "a probe's answer is used for another attempt": Twin(
        placing(
            requests,
            "LAPSED_AS_SEEN",
            f"(attempt = :seen OR attempt <> lockToken OR expectedCompletion = :lease) AND {IN_PROGRESS}",
        ),
        "",
        probe,
    ),
    "a probe's answer is used for finished work": Twin(
        without(requests, "LAPSED_AS_SEEN", IN_PROGRESS), "", probe
    ),
    "a probe's answer is used for a renewed lease": Twin(
        without(requests, "LAPSED_AS_SEEN", "expectedCompletion = :lease"),
        TWO_HOLD,
        aim=waking,
    ),
    # what becomes of an attempt, by single writes
    "a late write counts": Twin(without(requests, "OURS", "attempt = :a"), ""),
    "a finished outcome is overwritten": Twin(without(requests, "OURS", IN_PROGRESS), LATE, deaf),
    "a lease is shortened": Twin(
        without(requests, "LONGER", "expectedCompletion < :new"),
        "a lease was shortened",
        lambda found: found.extends,
    ),
    # the same, by statements
    "a late statement counts": Twin(without(requests, "OURS_IN_PARTIQL", '"attempt" = ?'), ""),
    "a finished outcome is overwritten by a statement": Twin(
        without(requests, "OURS_IN_PARTIQL", 'begins_with("status", ?)'),
        LATE,
        lambda found: deaf(found) and found.face != "event",
    ),
    "an INSERT overwrites": Twin(placing(engine, "written", overwriting_insert), ""),
    # recognition
    "a lost response turns an attempt against itself": Twin(recognising(never), "fenced"),
    "the id alone is recognised": Twin(
        recognising(made_by_id_alone), "never had it", lambda found: deaf(found) and not found.hurries
    ),
    "the id alone is recognised beside a transaction": Twin(
        recognising(made_by_id_alone), "its items were not written", hurrying
    ),
    "id and state are recognised": Twin(recognising(made_by_id_and_state), "", hurrying),
    "content is recognised": Twin(
        both(recognising(made_by_content), whenever), "its items were not written", hurrying
    ),
    "a finish returns its own value": Twin(returning_its_own, "not what was stored", deaf),
    "a lost acquisition is not recognised": Twin(unrecognised, "is refused by itself"),
    "a try has its request's id": Twin(with_request_ids, ""),
    "an operator writes under the id that was found": Twin(
        placing(operations_decisions, "resolving", with_seen_id), ""
    ),
    # decisions (state and lease are belt and braces on a held row: no attempt writes under the id it has)
    "a decision on a held token hits a later attempt": Twin(
        placing(
            requests,
            "HELD_AS_SEEN",
            "(attempt = :seen OR attempt <> :seen OR expectedCompletion = :lease) "
            "AND begins_with(#status, :held)",
        ),
        "what had changed since it was read",
        lambda found: found.on_error == "hold",
    ),
    "a decision on a held token hits whatever is there": Twin(
        placing(
            requests,
            "HELD_AS_SEEN",
            "attempt = :seen OR expectedCompletion = :lease OR begins_with(#status, :held) "
            "OR attribute_exists(lockToken)",
        ),
        "what had changed since it was read",
        lambda found: found.on_error == "hold",
    ),
    # time
    "a lease has no margin": Twin(
        placing(acquiring, "LEASE_MARGIN", timedelta(0)),
        TWO_HOLD,
        lambda found: take_over(found) and found.lease is None,
    ),
    "work starts under any lease": Twin(placing(Engine, "may_start", lambda *_: True), "all but over"),
    # the end of an invocation
    "an answer is awaited beyond the end": Twin(placing(Transport, "_send", awaited_by_the_client), TOO_LATE),
    "async def, an answer is awaited beyond the end": Twin(
        placing(Transport, "_send", awaited_by_the_client), TOO_LATE, aim=four_at_once
    ),
    "an answer is awaited until the end": Twin(placing(invocation, "LAST_ANSWER", 0.0), TOO_LATE),
    "a blocked loop starts work under any lease": Twin(read_before_the_loop, "all but over", aim=blocked),
    # what expires
    "a row expires within its lease": Twin(with_ttl_within_the_lease, "before its lease", take_over),
    "a ttl stays behind its lease": Twin(
        ttl_after_with(Extend, lambda _change, _call, now: epoch_seconds(now)),
        "before its lease",
        lambda found: take_over(found) and found.extends,
    ),
    "under hold a row expires": Twin(with_ttl_under_hold, "would expire", hold),
    "a held row expires": Twin(
        ttl_after_with(Hold, lambda _change, _call, now: epoch_seconds(now) + 5), "would expire", hold
    ),
    "an acquisition keeps the old ttl": Twin(keeping_the_old_ttl, "would expire", hold),
    "what is called held expires": Twin(
        placing(Finisher, "pin", lambda *_: None), "the row will expire", a_deploy
    ),
    "fences begin at nothing": Twin(
        placing(requests, "epoch_milliseconds", lambda _at: 0),
        "a fence did not grow",
        lambda found: found.keep == 20,
    ),
    # parts of large results
    "parts come after their row": Twin(parts_after_the_row, "they are not there", lambda found: found.large),
    "parts are named by token": Twin(
        placing(requests, "part_key", part_key_by_token),
        "a part of a stored result was overwritten",
        lambda found: found.large and take_over(found),
    ),
    "parts are named by attempt": Twin(
        placing(requests, "part_key", part_key_by_attempt),
        "a part of a stored result was overwritten",
        lambda found: found.large and hurrying(found),
    ),
    "parts expire before their row": Twin(
        placing(requests, "PART_MARGIN", -60),
        "a part is gone",
        lambda found: found.large and found.keep == 120,
    ),
    # nothing runs unprotected
    "an outage is no reason not to run": Twin(
        placing(DynamoDBStore, "acquire", hopeful),
        "without a token",
        lambda found: found.outage and found.remaining == 15_000,
    ),
    # while a function moves from Powertools
    "the history is not asked": Twin(
        placing(PowertoolsRecord, "begin", asks_no_history), "", aim=with_history
    ),
    "an attempt does not know its own record": Twin(
        placing(powertools_history, "_is_of", never), "refused by its own record", aim=with_history
    ),
    "marks are added as numbers": Twin(
        placing(Marks, "put_on", added), "refused by its own record", aim=with_history
    ),
    "the old version hears of no result": Twin(
        placing(PowertoolsRecord, "succeed", lambda *_: None),
        "began again whose record was complete",
        aim=with_history,
    ),
    "a record's time is over before its lease": Twin(
        placing(powertools_history, "SOONER", timedelta(seconds=6)),
        "two versions are running",
        aim=with_history,
    ),
    "what has lapsed is overwritten unseen": Twin(
        looking_for_nothing, "work was done twice", aim=with_history
    ),
    "what has lapsed elsewhere is not judged": Twin(
        placing(history, "_judged", judging_nothing), "work was done twice", aim=with_history
    ),
    "any decision counts": Twin(
        placing(history, "_is_decided", lambda *_: True), "work was done twice", aim=with_history
    ),
    "a copy outlives its record": Twin(
        placing(history, "Complete", lambda result, **_: Complete(result)),
        "a copied outcome outlives",
        aim=with_history,
    ),
    "work starts though the history was slow": Twin(
        placing(Engine, "_consult", consulted_at_any_time), "all but over", aim=with_history
    ),
    "another's record is deleted": Twin(
        placing(PowertoolsRecord, "undo", deleting_any), "", aim=with_history
    ),
}


FOUND_BY = {
    "a ghost re-opens what it released": 41,
    "a released row is taken though it was not seen": 5095,
    "a released row is taken, whatever it is by now": 128,
    "a probe's answer is used for finished work": 2169,
    "a probe's answer is used for a renewed lease": 195,
    "a late write counts": 41,
    "a lease is shortened": 321,
    "a late statement counts": 48,
    "a finished outcome is overwritten by a statement": 7808,
    "a lost response turns an attempt against itself": 101,
    "the id alone is recognised": 3542,
    "the id alone is recognised beside a transaction": 5072,
    "id and state are recognised": 261,
    "a finish returns its own value": 10231,
    "a lost acquisition is not recognised": 27,
    "a try has its request's id": 1,
    "a decision on a held token hits a later attempt": 14774,
    "a lease has no margin": 980,
    "parts are named by attempt": 2122,
}
"""Seeds by which twins were found that take long to find; they are played first, and the search follows."""


def search(twin: Twin, *first: int) -> tuple[int, str | None, int | None]:
    """Play schedules until one breaks a promise; return how many it took, the story, and its seed."""
    played = 0
    for seed in (*first, *range(SEEDS)):
        if played == PLAYED:
            break
        found = twin.aim(without_history(seed))
        if twin.where(found):
            played += 1
            try:
                play_out(found)
            except Counterexample as broken:
                return played, str(broken), seed
    return played, None, None


@pytest.mark.parametrize("name", TWINS)
def test_a_dropped_guard_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this guard a schedule breaks a promise, and its story says which."""
    twin = TWINS[name]
    twin.drop(monkeypatch)
    played, story, _ = search(twin, *([FOUND_BY[name]] if name in FOUND_BY else []))
    assert story is not None, f"{played} schedules broke no promise"
    assert twin.finds in story.splitlines()[-1]


def test_with_its_guard_no_aimed_schedule_breaks_a_promise() -> None:
    """What is aimed at a guard finds it missing, and nothing else."""
    for seed in range(AIMED):
        play_out(waking(without_history(seed)))
        play_out(with_history(without_history(seed)))
        play_out(blocked(without_history(seed)))
