"""What an exception does to its token, and what may be done about a lapsed one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lambda_once import HOLD, RELEASE, STORE, ErrorResponse, InProgress, Misconfigured
from lambda_once.core.lifecycle import OnLapse
from lambda_once.policies import OnError, Policy, can_hold, lapse_rule, policy_for

MAPPING: dict[type[BaseException], Policy] = {ValueError: STORE, TimeoutError: HOLD, Exception: RELEASE}


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("rule", list(OnLapse))
def test_one_policy_is_for_every_exception(policy: Policy, rule: OnLapse) -> None:
    """Of the work's own making."""
    assert policy_for(ValueError(), policy, rule) is policy


@pytest.mark.parametrize(
    ("error", "policy"),
    [
        (ValueError(), STORE),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "bad"), STORE),
        (TimeoutError(), HOLD),
        (OSError(), RELEASE),
        (KeyError(), RELEASE),
    ],
)
def test_a_mapping_is_asked_for_the_nearest_class(error: Exception, policy: Policy) -> None:
    """In the order of the error's own ancestry, not of the mapping."""
    assert policy_for(error, MAPPING, OnLapse.HOLD) is policy
    assert policy_for(error, dict(reversed(MAPPING.items())), OnLapse.HOLD) is policy


def test_what_a_mapping_does_not_name_is_released() -> None:
    """Nothing is known to have been done."""
    assert policy_for(KeyError(), {ValueError: STORE}, OnLapse.HOLD) is RELEASE


def test_a_callable_is_asked() -> None:
    """With the exception."""
    asked: list[BaseException] = []

    def on_error(error: BaseException) -> Policy:
        asked.append(error)
        return STORE

    error = ValueError()
    assert policy_for(error, on_error, OnLapse.TAKE_OVER) is STORE
    assert asked == [error]


@pytest.mark.parametrize("on_error", [STORE, HOLD, {Exception: HOLD}, lambda _: HOLD])
@pytest.mark.parametrize("error", [InProgress("later"), ErrorResponse(404, {}), ErrorResponse(499, {})])
def test_what_says_that_nothing_was_done_is_released(on_error: OnError, error: Exception) -> None:
    """RetryLater leaving the work, and an answer of 4xx."""
    assert policy_for(error, on_error, OnLapse.HOLD) is RELEASE


@pytest.mark.parametrize("policy", list(Policy))
def test_a_server_error_goes_by_policy(policy: Policy) -> None:
    """From 500 on."""
    assert policy_for(ErrorResponse(500, {}), policy, OnLapse.HOLD) is policy


@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("on_error", [STORE, RELEASE, {Exception: STORE}, lambda _: STORE])
def test_what_ends_the_process_says_nothing_about_the_work(error: BaseException, on_error: OnError) -> None:
    """It is held where lapsed work would be, and released elsewhere."""
    assert policy_for(error, on_error, OnLapse.TAKE_OVER) is RELEASE
    assert policy_for(error, on_error, OnLapse.HOLD) is HOLD
    assert policy_for(error, on_error, OnLapse.PROBE) is HOLD


def test_a_mapping_may_name_what_ends_the_process() -> None:
    """Then it goes by that."""
    assert policy_for(SystemExit(), {SystemExit: STORE}, OnLapse.HOLD) is STORE


@pytest.mark.parametrize(
    ("on_error", "can"),
    [(RELEASE, False), (STORE, False), (HOLD, True), (MAPPING, True), ({ValueError: STORE}, False)],
)
def test_what_can_hold(on_error: OnError, can: bool) -> None:
    """And by default lapsed work goes by it."""
    assert can_hold(on_error) is can
    assert lapse_rule(None, on_error) == (OnLapse.HOLD if can else OnLapse.TAKE_OVER, None)


def test_a_callable_can_hold() -> None:
    """It is unknown before it is asked."""
    assert can_hold(lambda _: RELEASE)
    assert lapse_rule(None, lambda _: RELEASE) == (OnLapse.HOLD, None)


@pytest.mark.parametrize("on_error", [RELEASE, STORE, HOLD, MAPPING])
def test_hold_and_a_probe_go_with_every_policy(on_error: OnError) -> None:
    """Whatever becomes of exceptions."""

    def probe(*_: Any) -> object:
        return None

    assert lapse_rule("hold", on_error) == (OnLapse.HOLD, None)
    assert lapse_rule(probe, on_error) == (OnLapse.PROBE, probe)


@pytest.mark.parametrize("on_error", [RELEASE, STORE, {ValueError: STORE}, lambda _: HOLD])
def test_take_over_by_word(on_error: OnError) -> None:
    """A callable is taken at its word, too."""
    assert lapse_rule("take_over", on_error) == (OnLapse.TAKE_OVER, None)


@pytest.mark.parametrize("on_error", [HOLD, MAPPING])
def test_hold_and_take_over_contradict_each_other(on_error: OnError) -> None:
    """A crash would run again what a person should look at."""
    with pytest.raises(Misconfigured, match="after a crash the work would run again"):
        lapse_rule("take_over", on_error)


def test_another_word_is_no_rule() -> None:
    """It is said which there are."""
    with pytest.raises(Misconfigured, match='give "take_over", "hold", or a probe'):
        lapse_rule("wait", RELEASE)  # type: ignore[arg-type]  # what a type checker would refuse
