"""Each guarantee without a guard: the scenario that shows it must fail."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.core.clock import epoch_seconds
from lambda_once.core.results import Inline, NotSerialisable
from lambda_once.core.writes import Extend, Hold, Release, Write
from lambda_once.engine import attempt, engine, finish, lapsed
from lambda_once.engine.finish import Finisher
from lambda_once.observability.reporter import Reporter
from lambda_once.operations import decisions as operations_decisions
from lambda_once.stores import requests
from lambda_once.stores.contract import Unanswered
from lambda_once.stores.store import DynamoDBStore
from tests.guarantees import test_decisions as decisions
from tests.guarantees import test_guarantee_1 as one
from tests.guarantees import test_guarantee_2 as two
from tests.guarantees import test_guarantee_3 as three
from tests.guarantees import test_guarantee_4 as four
from tests.guarantees import test_guarantee_5 as five
from tests.guarantees import test_guarantee_6 as six
from tests.guarantees import test_guarantee_7 as seven
from tests.guarantees import test_guarantee_8 as eight
from tests.guarantees.machines import Scenario, breaks
from tests.simulation.guards import (
    Patch,
    both,
    hopeful,
    keeping_the_old_ttl,
    made_by_content,
    made_by_id_alone,
    made_by_id_and_state,
    never,
    part_key_by_attempt,
    part_key_by_token,
    parts_after_the_row,
    placing,
    recognising,
    ttl_after_with,
    unrecognised,
    whenever,
    with_seen_id,
    with_ttl_under_hold,
    with_ttl_within_the_lease,
    without,
)

IN_PROGRESS = "begins_with(#status, :in_progress)"


def a_bare_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a release be written in any state, and remove the completion."""
    right = requests.finish

    def bare(table: str, write: Write) -> dict[str, Any]:
        arguments = right(table, write)
        if isinstance(write.change, Release):
            arguments["UpdateExpression"] += ", #actualCompletion"
            arguments["ExpressionAttributeNames"]["#actualCompletion"] = "actualCompletion"
        return arguments

    without(requests, "OURS", IN_PROGRESS)(monkeypatch)
    monkeypatch.setattr(requests, "finish", bare)


def storing(change: Callable[[Any, Any], Any]) -> Patch:
    """Let *change* alter each value and its stored result."""
    right = finish.stored_result
    return placing(
        finish, "stored_result", lambda codec, value, *others: change(value, right(codec, value, *others))
    )


def no_completion_without_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a completion up whose parts are refused."""
    put = DynamoDBStore._put_parts

    def gives_up(store: DynamoDBStore, write: Write, deadline: Any) -> Any:
        ready = put(store, write, deadline)
        return ready if ready is write else Unanswered("its parts are denied")

    monkeypatch.setattr(DynamoDBStore, "_put_parts", gives_up)


def raising(*_: Any) -> None:
    """Raise what the serialiser raises."""
    raise NotSerialisable("a result of type object cannot be serialised")


def raising_at_the_end(details: Any) -> None:
    """Raise in a hook, after the work."""
    if details.event == "once.returned":
        raise RuntimeError


def unguarded(reporter: Any, details: Any) -> None:
    """Run hooks, and let them raise."""
    for hook in reporter._hooks:
        hook(details)


AT_ONCE = placing(requests, "acquire_new", lambda table, new, _: requests.acquire(table, new))
"""Send the statement that may take a row at once, as for a redelivery: its conditions are what is tried."""

TWINS: dict[str, tuple[Patch, *tuple[Scenario, ...]]] = {
    # 1. One attempt holds a token
    "without_the_lease_a_living_attempt_is_taken_over": (
        both(AT_ONCE, without(requests, "LAPSED", "expectedCompletion < :now")),
        one.test_a_living_attempt_is_not_taken_over,
    ),
    "without_the_margin_two_run": (
        placing(engine, "LEASE_MARGIN", timedelta(0)),
        one.test_clocks_may_differ_by_a_moment,
    ),
    "without_what_was_seen_both_probes_run": (
        without(requests, "LAPSED_AS_SEEN", "attempt = :seen", "expectedCompletion = :lease"),
        one.test_concurrent_probes_run_once,
    ),
    "with_a_shortened_lease_two_run": (
        without(requests, "LONGER", "expectedCompletion < :new"),
        one.test_a_lease_only_ever_lengthens,
    ),
    "with_a_ttl_within_the_lease_two_run": (
        with_ttl_within_the_lease,
        one.test_a_row_outlives_its_lease,
    ),
    "with_a_ttl_left_behind_two_run": (
        ttl_after_with(Extend, lambda _change, _call, now: epoch_seconds(now)),
        one.test_a_row_outlives_its_renewed_lease,
    ),
    # 2. A late attempt touches nothing
    "without_the_attempt_a_late_release_counts": (
        without(requests, "OURS", "attempt = :a"),
        two.test_a_late_exception_does_not_release_its_successors_token,
    ),
    "without_attempt_and_state_a_late_completion_counts": (
        without(requests, "OURS", "attempt = :a", IN_PROGRESS),
        two.test_a_late_completion_gets_its_successors_outcome,
    ),
    "without_the_state_a_late_release_frees_finished_work": (
        a_bare_release,
        two.test_a_finished_token_is_final,
    ),
    "with_parts_named_by_token_alone": (
        placing(requests, "part_key", part_key_by_token),
        two.test_late_parts_do_not_touch_the_successors,
    ),
    "with_the_row_written_before_its_parts": (
        parts_after_the_row,
        two.test_parts_are_written_before_the_row_is_flipped,
    ),
    "with_parts_that_expire_with_their_row": (
        placing(requests, "PART_MARGIN", 0),
        two.test_parts_outlive_their_row,
    ),
    "without_the_ghosts_guard": (
        both(AT_ONCE, without(requests, "FREE", "attempt <> :a")),
        two.test_a_released_token_is_not_reopened_by_a_ghost,
    ),
    "under_hold_a_ghost_is_held": (
        both(AT_ONCE, without(requests, "EXPIRED", "#ttl <= :now_s")),
        two.test_under_hold_a_ghost_holds_nothing,
    ),
    # 2 and 3, for decisions
    "with_the_attempts_own_id_in_a_decision": (
        both(placing(operations_decisions, "resolving", with_seen_id), recognising(made_by_id_and_state)),
        decisions.done_while_paused,
    ),
    "without_attempt_and_state_a_decision_is_overwritten": (
        without(requests, "OURS", "attempt = :a", IN_PROGRESS),
        *decisions.PAUSED,
    ),
    "without_recognition_a_decision_is_refused_by_itself": (
        recognising(never),
        decisions.test_a_lost_decision_is_ours,
    ),
    "without_the_attempt_a_decision_on_a_held_token_hits_the_next_one": (
        without(requests, "HELD_AS_SEEN", "attempt = :seen"),
        decisions.two_on_a_held_token,
    ),
    # (A fence belongs to one attempt, so either of the two alone still tells the attempts apart.)
    "without_attempt_and_fence_a_decision_on_a_finished_token_hits_the_next_one": (
        without(requests, "FINISHED_AS_SEEN", "attempt = :seen", "fence = :fence"),
        decisions.two_on_a_finished_token,
    ),
    "without_the_attempt_a_decision_on_a_released_token_hits_the_next_one": (
        without(requests, "RELEASED_WITH_LEASE", "attempt = :seen"),
        decisions.two_on_a_released_token,
    ),
    "without_the_state_a_decision_undoes_finished_work": (
        without(requests, "LAPSED_AS_SEEN", IN_PROGRESS),
        decisions.finished_meanwhile,
    ),
    "without_the_lease_a_decision_releases_a_living_attempt": (
        without(requests, "LAPSED_AS_SEEN", "expectedCompletion = :lease"),
        decisions.renewed_meanwhile,
    ),
    # 3. A lost response does no harm
    "without_recognition_an_acquisition_is_refused_by_itself": (
        unrecognised,
        three.test_a_lost_acquisition_is_ours,
    ),
    "without_recognition_an_attempt_is_fenced_by_itself": (
        recognising(never),
        three.test_a_lost_renewal_is_ours,
        three.test_a_lost_transaction_is_ours,
    ),
    "with_fractions_of_a_millisecond_an_extension_is_fenced_by_itself": (
        placing(attempt, "to_milliseconds", lambda at: at),
        three.test_a_lost_renewal_is_ours,
    ),
    "that_recognises_a_completion_by_state": (
        recognising(made_by_id_and_state),
        three.test_another_completion_of_the_attempt_is_not_ours,
        three.test_a_lost_transaction_is_the_outcome,
    ),
    "that_recognises_a_completion_by_content": (
        recognising(made_by_content),
        three.test_another_completion_of_the_attempt_is_not_ours,
    ),
    "with_parts_named_by_attempt_alone": (
        placing(requests, "part_key", part_key_by_attempt),
        three.test_a_lost_transaction_is_the_outcome,
    ),
    "that_recognises_by_the_id_alone": (
        recognising(made_by_id_alone),
        three.test_our_id_in_another_final_state_is_no_success,
    ),
    "with_the_attempts_own_id_in_a_probes_answer": (
        both(placing(lapsed, "resolving", with_seen_id), recognising(made_by_id_and_state)),
        three.test_an_attempt_that_resumes_after_a_decision_gets_it,
    ),
    # 4. Every duplicate gets the stored outcome
    "that_returns_the_value_as_it_was": (
        storing(lambda value, result: result._replace(value=value)),
        four.same_for_all({"set"}),
    ),
    "that_stores_no_falsy_result": (
        storing(lambda value, result: result if value else result._replace(stored=None)),
        *map(four.same_for_all, [0, {}, [], "", False]),
    ),
    "that_returns_its_own_value": (
        recognising(made_by_id_and_state),
        four.test_work_that_catches_a_lost_transaction_gets_the_stored_outcome,
    ),
    # 5. Work is never repeated for the sake of its result
    "that_keeps_large_results_in_the_row": (
        placing(finish, "pack", lambda text, _seal: Inline(text)),
        five.test_a_result_of_five_megabytes_is_replayed,
    ),
    "that_gives_up_a_completion_without_its_parts": (
        no_completion_without_parts,
        five.test_a_missing_permission_for_parts_repeats_no_work,
    ),
    "that_lets_the_serialiser_fail": (
        placing(Finisher, "prepare_return", raising),
        five.test_a_result_that_cannot_be_serialised_completes_its_token,
    ),
    "that_lets_a_hook_raise": (
        placing(Reporter, "_run_hooks", unguarded),
        five.observed(hooks=[raising_at_the_end]),
    ),
    # 6. What is held never expires
    "with_a_ttl_on_a_held_token": (
        ttl_after_with(Hold, lambda _change, _call, now: epoch_seconds(now) + 86_400),
        six.held,
    ),
    "with_a_ttl_under_hold": (with_ttl_under_hold, six.crashed_under_hold),
    "that_leaves_the_old_ttl_at_an_acquisition": (
        keeping_the_old_ttl,
        six.crashed_at_the_second_acquisition,
    ),
    "that_does_not_pin_a_held_token": (
        placing(Finisher, "pin", lambda *_: None),
        six.crashed_before_the_deploy,
        six.a_probe_cannot_tell,
    ),
    "with_the_request_id_for_an_attempt_id": (
        placing(engine, "new_attempt_id", lambda: "request-1"),
        six.test_a_retry_under_hold_is_another_attempt,
    ),
    # 7. Nothing runs unprotected
    "that_runs_without_an_answer": (
        placing(DynamoDBStore, "acquire", hopeful),
        seven.test_nothing_runs_while_the_table_is_out_of_reach,
        seven.test_a_refusal_is_no_outage,
    ),
    # 8. What transact reports is written
    "that_takes_an_equal_state_for_the_transaction": (
        both(whenever, recognising(made_by_id_and_state)),
        eight.test_a_transaction_says_what_was_written,
    ),
    "that_takes_equal_content_for_the_transaction": (
        both(whenever, recognising(made_by_content)),
        eight.test_a_transaction_says_what_was_written,
    ),
}
"""A guard to remove, and the scenarios that show what it is for."""


@pytest.mark.parametrize("twin", TWINS)
def test_twin(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its guard each scenario fails; with it, each is a test of its own."""
    drop, *scenarios = TWINS[twin]
    drop(monkeypatch)
    for scenario in scenarios:
        breaks(scenario)
