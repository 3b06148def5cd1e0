"""The watchdog on the strict engine and on a real engine: what it counts, logs and resolves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from lambda_once.core.lifecycle import State
from lambda_once.core.results import TEXT_LIMIT, Inline, Unavailable
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.operations import listing
from lambda_once.operations import watchdog as module
from lambda_once.operations.listing import MOST_NAMED, place_from, place_text
from lambda_once.operations.table import WATCHDOG_ROW
from lambda_once.operations.watchdog_actions import Action
from lambda_once.policies import NOT_DONE, UNKNOWN, Done, Lapsed
from lambda_once.stores.row import listed
from lambda_once.testing import lambda_context
from tests.operations.watch import CHARGE, LEASE, Post, measured

NOTHING = {
    "overdue": 0,
    "newlyOverdue": 0,
    "oldestSeconds": 0,
    "held": 0,
    "inProgress": 0,
    "newlyReleased": 0,
    "releasedTokens": 0,
    "checked": 0,
    "released": 0,
    "completed": 0,
    "newlyHeld": 0,
    "refused": 0,
    "swept": 0,
    "truncated": False,
}
ZEROS = {
    "missingTasks": 0,
    "newlyOverdue": 0,
    "oldestOverdueSeconds": 0,
    "heldTokens": 0,
    "tokensInProgress": 0,
    "newlyReleased": 0,
    "releasedTokens": 0,
}
WHOLE = {"watchdogTruncated": 0}
"""The second document of a run: it looked at all that is overdue."""
EVENTS = Path(__file__).parents[2] / "events"
RELEASE: dict[str, Action] = {"charge": "release"}


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def post(request: pytest.FixtureRequest) -> Post:
    """Each in turn."""
    found: Post = request.getfixturevalue(request.param)
    return found


def documents(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Read what was measured and counted since the last time, a document each."""
    return measured(capsys.readouterr().out)


# ------------------------------------------------------------------ what it counts and logs


def test_zeros_are_measured_too(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """A table at rest is one document of zeros: an alarm on a missing watchdog needs it."""
    assert post.run() == NOTHING
    assert documents(capsys) == [ZEROS, WHOLE]
    assert post.log.lines == []


def test_ages_are_measured_in_seconds(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """The units of the metrics, under service and function as everywhere."""
    post.run(service="orders")
    written = [json.loads(line)["_aws"]["CloudWatchMetrics"] for line in capsys.readouterr().out.splitlines()]
    units = {metric["Name"]: metric["Unit"] for (directive,) in written for metric in directive["Metrics"]}
    assert units == dict.fromkeys(ZEROS | WHOLE, "Count") | {"oldestOverdueSeconds": "Seconds"}
    assert [directive["Dimensions"] for (directive,) in written] == [[["service", "function"]]] * 2


def test_what_is_overdue_is_counted_and_named(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """One warning a token, the earliest lease first, with all that an operator asks the log for."""
    started = post.clock.now()
    post.lapse("b", "a", after=3598)
    found = post.run()
    assert found == NOTHING | {"overdue": 2, "oldestSeconds": 3570, "checked": 2}
    assert documents(capsys) == [ZEROS | {"missingTasks": 2, "oldestOverdueSeconds": 3570}, WHOLE]
    assert post.examined() == ["b", "a"]
    assert post.log.lines[0] == {
        "message": "once.overdue",
        "level": "WARNING",
        "token": "orders/charge/b",
        "once_name": "charge",
        "attempt": "a1",
        "fence": post.row("b").fence,
        "locked_by": "orders/r1",
        "acquired": started.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "expected_completion": (started + LEASE).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "seconds": 3570,
    }
    assert post.states("a", "b") == [State.IN_PROGRESS] * 2


def test_a_lease_is_overdue_after_the_grace(post: Post) -> None:
    """A lease counts as over once it ended longer ago than the grace."""
    post.lapse("a", after=LEASE.total_seconds() + 9)  # a second went by while it began
    assert post.run() == NOTHING
    post.clock.advance(0.001)
    assert post.run()["overdue"] == 1
    assert post.run(grace=timedelta(minutes=1))["overdue"] == 0


def test_what_is_held_is_counted_and_not_named_again(post: Post) -> None:
    """Its own attempt said so once, loudly; a line every five minutes would tell nothing new."""
    post.hold(CHARGE.format("a"))
    assert post.run() == NOTHING | {"held": 1}
    assert post.log.lines == []


def test_leases_that_are_alive_are_in_progress(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """In every partition, and nothing else: neither what is lapsed, held, released or complete."""
    post.lapse("old")
    post.hold(CHARGE.format("held"))
    post.put_released("given back")
    post.acquire(CHARGE.format("done"))
    post.complete(CHARGE.format("done"))
    assert post.run()["inProgress"] == 0
    for key in range(5):
        post.acquire(CHARGE.format(key))
    capsys.readouterr()
    found = post.run()
    assert (found["inProgress"], found["overdue"], found["held"]) == (5, 1, 1)
    assert documents(capsys)[0]["tokensInProgress"] == 5
    assert post.log.of("once.count_truncated") == []
    post.clock.advance(LEASE.total_seconds())
    assert post.run()["inProgress"] == 5
    post.clock.advance(0.001)  # lapsed, and within the grace not yet overdue
    found = post.run()
    assert (found["inProgress"], found["overdue"]) == (0, 1)


def _alike(wanted: int) -> list[str]:
    """Return tokens of one partition, that of the first number."""
    first, *others = (CHARGE.format(number) for number in range(40 * wanted))
    of = listed(State.IN_PROGRESS, first)
    return [first, *(token for token in others if listed(State.IN_PROGRESS, token) == of)][:wanted]


def test_what_is_in_progress_is_counted_within_bounds(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some pages; that there is more is logged, and all that is overdue is counted still."""
    monkeypatch.setattr(listing, "MOST_PAGES", 3)
    post.page_by(2)
    alike = _alike(36)
    post.lapse(*alike[27:], token="{}")
    for key in alike[:5]:
        post.acquire(key)
    assert (post.run()["inProgress"], post.log.of("once.count_truncated")) == (5, [])
    for key in alike[5:7]:
        post.acquire(key)
    post.sent.clear()
    found = post.run()
    assert (found["inProgress"], found["overdue"]) == (6, 9)
    (line,) = post.log.of("once.count_truncated")
    assert line["level"] == "WARNING"
    assert "6 tokens or more are in progress" in line["reason"]
    before = post.sent["Query"]
    for key in alike[7:27]:
        post.acquire(key)
    post.sent.clear()
    assert post.run()["inProgress"] == 6
    assert post.sent["Query"] == before


def test_leases_that_ended_lately_are_new(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """Of what is overdue, for fifteen minutes, however often it is asked, and before it is released."""
    post.lapse("old", after=3600)
    post.lapse("new", after=LEASE.total_seconds() + 10)
    for _ in range(2):
        assert (found := post.run())["overdue"] == 2
        assert found["newlyOverdue"] == 1
    post.clock.advance(15 * 60 - 11)  # its lease ended 15 minutes ago, to the millisecond
    assert post.run()["newlyOverdue"] == 1
    post.clock.advance(0.001)
    capsys.readouterr()
    assert post.run(actions=RELEASE)["newlyOverdue"] == 0
    assert documents(capsys)[0]["missingTasks"] == 2


def test_released_and_not_run_since_is_counted(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """By the time of the decision: new from 5 to 20 minutes, left over after an hour."""
    for key in range(3):
        post.put_released(key)
    post.clock.advance(5 * 60)
    assert _released(post) == (0, 0)
    post.clock.advance(0.001)
    assert _released(post) == (3, 0)
    post.clock.advance(15 * 60 - 0.001)
    assert _released(post) == (3, 0)
    post.clock.advance(0.001)
    assert _released(post) == (0, 0)
    post.clock.advance(40 * 60 - 0.001)
    assert _released(post) == (0, 0)
    post.clock.advance(0.001)
    capsys.readouterr()
    assert _released(post) == (0, 3)
    assert documents(capsys) == [ZEROS | {"releasedTokens": 3}, WHOLE]
    post.acquire(CHARGE.format(0), "a2")
    assert _released(post) == (0, 2)


def test_what_the_watchdog_releases_is_not_forgotten(post: Post) -> None:
    """Where nobody delivers it again the work is not done, though nothing is overdue any more."""
    post.lapse("a", "b")
    assert post.run(actions=RELEASE) == NOTHING | {
        "overdue": 2,
        "oldestSeconds": 3572,
        "checked": 2,
        "released": 2,
    }
    post.clock.advance(5 * 60 + 1)
    assert _released(post) == (2, 0)
    post.acquire(CHARGE.format("a"), "a2")
    post.complete(CHARGE.format("a"), "a2")
    post.clock.advance(3_601)
    assert _released(post) == (0, 1)


def _released(post: Post) -> tuple[int, int]:
    found = post.run()
    assert (found["overdue"], found["held"]) == (0, 0)
    return found["newlyReleased"], found["releasedTokens"]


def test_what_the_index_lists_is_read_again(post: Post) -> None:
    """What was completed since the index was asked is neither named nor touched."""
    post.lapse("a", "b")
    with post.meanwhile("BatchGetItem", lambda: post.complete(CHARGE.format("a"))):
        found = post.run(actions=RELEASE)
    assert (found["checked"], found["released"]) == (2, 1)
    assert post.examined() == ["b"]
    assert post.states("a", "b") == [State.COMPLETE, State.RELEASED]


def test_a_token_that_is_listed_twice_is_examined_once(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease was extended while the pages were read: DynamoDB refuses a batch that names a row twice."""
    post.lapse("a", "b")
    listed = listing.walk
    monkeypatch.setattr(module, "walk", lambda *of: iter([*listed(*of), *listed(*of)]))
    found = post.run(actions=RELEASE)
    assert (found["released"], found["refused"]) == (2, 0)
    assert post.examined() == ["a", "b"]


def test_what_is_gone_is_passed_over(post: Post) -> None:
    """A row that was deleted since the index was read."""
    post.lapse("a")
    key = {"lockToken": {"S": CHARGE.format("a")}}
    with post.meanwhile("BatchGetItem", lambda: post.client.delete_item(TableName=post.name, Key=key)):
        assert post.run(actions=RELEASE)["released"] == 0


# ------------------------------------------------------------------ what it resolves


def test_only_named_functions_are_acted_on(post: Post) -> None:
    """Patterns are compared with service/name and with the name; case counts, and the first match decides."""
    post.lapse("a")
    for pattern in ("Charge", "charg", "shop/charge", "orders/charge/*"):
        assert post.run(actions={pattern: "release"})["released"] == 0
    assert post.run(actions={"orders/ch*": lambda _: UNKNOWN, "*": "release"})["newlyHeld"] == 1


def test_a_released_token_may_be_tried_again(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """The row says who released it and why, and the next delivery runs."""
    post.lapse("a")
    before = post.row("a")
    assert post.run(actions={"orders/char*": "release"})["released"] == 1
    row = post.row("a")
    assert (row.state, row.fence) == (State.RELEASED, before.fence + 1)
    assert row.attempt_id != before.attempt_id
    (decision,) = row.decisions
    assert (decision.by, decision.times) == ("watchdog", 1)
    (line,) = post.log.of("once.released")
    assert line["reason"] == decision.because
    assert documents(capsys)[1:] == [WHOLE | {"released": 1}]
    post.acquire(CHARGE.format("a"), "a2")


def test_what_lapses_again_and_again_is_held(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """After so many releases a person is called: work that dies at each try must not go on unseen."""
    for attempt in ("a1", "a2", "a3"):
        post.acquire(CHARGE.format("a"), attempt)
        post.clock.advance(3600)
        assert post.run(actions=RELEASE)["released"] == 1
    post.acquire(CHARGE.format("a"), "a4")
    post.clock.advance(3600)
    capsys.readouterr()
    assert post.run(actions={"charge": lambda _: NOT_DONE})["newlyHeld"] == 1
    assert documents(capsys)[1:] == [WHOLE | {"held": 1}]
    row = post.row("a")
    assert (row.state, row.ttl) == (State.HELD, None)
    assert [decision.times for decision in row.decisions] == [3, 1]
    assert (
        row.decisions[-1].because == "the watchdog has released it 3 times, and its lease has expired again"
    )
    assert post.run(actions=RELEASE) == NOTHING | {"held": 1}


def test_a_probe_gets_the_lapsed_attempt(post: Post) -> None:
    """It gets what a probe of on_lapse gets, without arguments, for the watchdog has none."""
    post.lapse("a")
    seen: list[Lapsed] = []
    row = post.row("a")

    def probe(lapsed: Lapsed) -> object:
        seen.append(lapsed)
        return UNKNOWN

    post.run(actions={"charge": probe})
    assert seen == [Lapsed.of(row)]
    assert (seen[0].attempt_id, seen[0].generation) == ("a1", "a1")


async def _done_later(_: Lapsed) -> object:
    return Done(None)


ANSWERS = [
    (lambda _: Done({"paid": True}), "completed", State.COMPLETE, Inline('{"paid":true}')),
    (lambda _: Done(object()), "completed", State.COMPLETE, Unavailable.UNAVAILABLE),
    (lambda _: Done("x" * TEXT_LIMIT), "completed", State.COMPLETE, Unavailable.UNAVAILABLE),
    (_done_later, "completed", State.COMPLETE, None),
    (lambda _: NOT_DONE, "released", State.RELEASED, None),
    (lambda _: UNKNOWN, "newlyHeld", State.HELD, None),
]


@pytest.mark.parametrize(("probe", "counted", "state", "stored"), ANSWERS)
def test_the_answer_of_a_probe_is_written(
    post: Post, probe: Any, counted: str, state: State, stored: object
) -> None:
    """Done completes with its result, as the engine stores it; not done gives back; unknown holds."""
    post.lapse("a")
    found = post.run(actions={"charge": probe})
    decided = {name: found[name] for name in ("completed", "released", "newlyHeld") if found[name]}
    assert decided == {counted: 1}
    row = post.row("a")
    assert (row.state, row.stored) == (state, stored)
    assert row.standing is not None


def _broken(_: Lapsed) -> object:
    raise ValueError("order 5 of a customer")


@pytest.mark.parametrize(("probe", "error"), [(_broken, "ValueError"), (lambda _: "yes", "str")])
def test_a_probe_that_fails_leaves_the_token(post: Post, probe: Any, error: str) -> None:
    """It raised, or answered what is no answer: nothing is known, and the next run asks again."""
    post.lapse("a", "b")
    before = post.row("a")
    found = post.run(actions={"charge": probe})
    assert found == NOTHING | {"overdue": 2, "oldestSeconds": found["oldestSeconds"], "checked": 2}
    assert post.row("a") == before
    (line, _) = post.log.of("once.probe_failed")
    assert line["error"] == error
    assert "customer" not in str(post.log.lines)


def test_concurrent_watchdogs_resolve_each_token_once(post: Post) -> None:
    """
    What both have read one of them writes; the other is refused, and a release counts once.

    The second one begins behind the token whose probe is being asked.
    """
    post.lapse(*range(12))
    other: list[dict[str, Any]] = []

    def slow(_: Lapsed) -> object:
        if not other:
            other.append(post.run(actions=RELEASE))
        return NOT_DONE

    found = post.run(actions={"charge": slow})
    assert (other[0]["released"], found["released"], found["refused"]) == (11, 1, 11)
    assert post.states(*range(12)) == [State.RELEASED] * 12
    assert [each.times for n in range(12) for each in post.row(n).decisions] == [1] * 12


@pytest.mark.engine
def test_two_watchdogs_in_the_same_second_share_the_work(engine: Post) -> None:
    """The second one begins while the first one writes: each token is released by one of them."""
    engine.lapse(*range(30))
    other: list[dict[str, Any]] = []
    with engine.meanwhile("UpdateItem", lambda: other.append(engine.run(actions=RELEASE))):
        found = engine.run(actions=RELEASE)
    assert other[0]["released"] + found["released"] == 30
    assert engine.states(*range(30)) == [State.RELEASED] * 30
    assert [each.times for n in range(30) for each in engine.row(n).decisions] == [1] * 30


def test_an_attempt_that_completes_meanwhile_wins(post: Post) -> None:
    """It completes between the reading and the writing: the refused write is counted and no more."""
    post.lapse("a", "b")

    def slow(lapsed: Lapsed) -> object:
        if lapsed.token.endswith("/a"):
            post.complete(lapsed.token)
        return NOT_DONE

    found = post.run(actions={"charge": slow})
    assert (found["released"], found["refused"]) == (1, 1)
    assert post.row("a").stored == Inline('"late"')


class Killed(BaseException):
    """Lambda ended the environment: nothing in it runs on."""


def _run_killed(post: Post, probe: Any, **options: Any) -> None:
    with pytest.raises(Killed):
        post.run(actions={"charge": probe, "ship": "release"}, **options)


def test_a_probe_that_never_returns_stops_no_other(post: Post) -> None:
    """The next run asks the others; the run after that begins anew."""
    post.lapse(*range(6))
    asked: list[str] = []

    def probe(lapsed: Lapsed) -> object:
        asked.append(lapsed.token[-1])
        if lapsed.token.endswith("0"):
            raise Killed
        return NOT_DONE

    _run_killed(post, probe)
    found = post.run(actions={"charge": probe})
    assert (found["released"], found["truncated"]) == (5, False)
    assert asked == ["0", "1", "2", "3", "4", "5"]
    assert post.states(*range(6)) == [State.IN_PROGRESS, *[State.RELEASED] * 5]
    _run_killed(post, probe)
    assert asked[-1] == "0"


def test_answers_before_a_probe_that_never_returns_are_kept(post: Post) -> None:
    """Each is written at once, and so are the releases of other functions, which wait for no probe."""
    ship = "orders/ship/{}"
    post.lapse(*range(3), after=0)
    post.lapse("x", token=ship, after=0)
    post.lapse(3, after=0)
    post.lapse("y", token=ship)

    def probe(lapsed: Lapsed) -> object:
        if lapsed.token.endswith("3"):
            raise Killed
        return NOT_DONE

    _run_killed(post, probe)
    assert post.states(*range(4)) == [*[State.RELEASED] * 3, State.IN_PROGRESS]
    assert [post.row(key, ship).state for key in "xy"] == [State.RELEASED] * 2


def test_releases_without_a_probe_are_written_in_pages(post: Post) -> None:
    """No place is saved for them: they take no time of their own."""
    post.lapse(*range(3))
    post.sent.clear()
    assert post.run(actions=RELEASE)["released"] == 3
    assert post.sent["UpdateItem"] == 3


# ------------------------------------------------------------------ where it goes on


def test_a_bounded_run_goes_on_where_the_last_one_stopped(post: Post) -> None:
    """All are examined over several runs, by whichever watchdog; then it begins anew."""
    post.lapse(*range(7))
    runs = [post.run(rows=3) for _ in range(4)]
    assert [(found["overdue"], found["checked"], found["truncated"]) for found in runs] == [
        (7, 3, True),
        (7, 3, True),
        (7, 1, False),
        (7, 3, True),
    ]
    assert post.examined() == ["0", "1", "2", "3", "4", "5", "6", "0", "1", "2"]


def test_equal_leases_in_many_partitions_are_each_examined_once(post: Post) -> None:
    """A batch shares its lease: the walk tells its tokens apart in every partition."""
    for n in range(23):
        post.acquire(CHARGE.format(n))
    post.clock.advance(3600)
    runs = [post.run(rows=5) for _ in range(5)]
    assert [found["truncated"] for found in runs] == [True] * 4 + [False]
    assert sorted(map(int, post.examined())) == list(range(23))


def test_a_place_that_is_gone_is_still_a_place(post: Post) -> None:
    """The last token that was checked has been resolved: the walk continues behind it."""
    post.lapse(*range(4))
    post.run(rows=2)
    for n in range(3):
        post.complete(CHARGE.format(n))
    assert post.run(rows=2) == NOTHING | {"overdue": 1, "oldestSeconds": 3571, "checked": 1}
    assert post.examined() == ["0", "1", "3"]


@pytest.mark.parametrize(
    "place",
    [
        None,
        "no JSON",
        "[]",
        '{"inProgress": 5}',
        '{"inProgress": ["", ""]}',
        '{"inProgress": ["2099-01-01T00:00:00.000Z", "orders/charge/a"]}',
        '{"inProgress_7": ["2020-01-01T00:00:00.000Z", "orders/charge/a"]}',
        '{"inProgress": ["2020-01-01T00:00:00.000Z", "never/a/token"]}',
    ],
)
def test_a_lost_or_stale_cursor_costs_the_order_only(post: Post, place: str | None) -> None:
    """Whatever the row says: no run fails of it, and all are examined."""
    post.lapse(*range(3))
    if place is not None:
        row = {"lockToken": {"S": WATCHDOG_ROW}, "place": {"S": place}}
        post.client.put_item(TableName=post.name, Item=row)
    assert post.run()["checked"] == 3
    assert post.examined() == ["0", "1", "2"]


def test_a_run_that_looks_at_all_writes_no_cursor(post: Post) -> None:
    """The usual run costs no write."""
    post.lapse("a")
    post.run()
    assert post.sent["UpdateItem"] == 1, "the acquisition"


def test_a_place_is_text_that_comes_back() -> None:
    """Tokens may have any character but a hash sign."""
    place = {"inProgress_1": ("2026-11-20T10:12:00.000Z", 'orders/"charge"/%C3%A4')}
    assert place_from(place_text(place)) == place


def test_a_run_stops_in_time(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """It begins nothing in its last five seconds, has counted by then, and the next run goes on there."""
    post.lapse(*range(4))

    def slow(_: Lapsed) -> object:
        post.clock.advance(10)
        return NOT_DONE

    found = post.run(lambda_context(remaining_ms=24_000), actions={"charge": slow})
    assert (found["checked"], found["released"], found["truncated"]) == (2, 2, True)
    assert post.run(lambda_context(remaining_ms=5_000))["checked"] == 0
    measured = documents(capsys)
    assert measured[0]["missingTasks"] == 4
    assert [measured[run]["watchdogTruncated"] for run in (1, 3)] == [1, 1]
    assert post.run()["checked"] == 2
    assert post.examined() == ["0", "1", "2", "3"]


# ------------------------------------------------------------------ what goes wrong


def test_a_run_without_answers_raises_and_leaves_all_consistent(
    post: Post, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the writes fail: the rest is written, counted and logged, and the next run continues."""
    post.lapse(*range(4))
    with (
        post.failing("UpdateItem", ReadTimeoutError(endpoint_url="x"), after=2),
        pytest.raises(StoreUnavailable, match="a later run re-checks it"),
    ):
        post.run(actions=RELEASE)
    assert sorted(state.value for state in post.states(*range(4))) == ["inProgress"] * 2 + ["released"] * 2
    assert documents(capsys) == [
        ZEROS | {"missingTasks": 4, "oldestOverdueSeconds": 3574},
        {"released": 2},
    ]
    assert post.run(actions=RELEASE)["released"] == 2


def _denied(operation: str) -> ClientError:
    return ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, operation)


@pytest.mark.parametrize("operation", ["Query", "GetItem", "BatchGetItem", "UpdateItem"])
def test_a_missing_permission_is_raised(post: Post, operation: str) -> None:
    """Whichever is missing: Lambda's Errors metric rings, and the message names it."""
    post.lapse("a")
    with post.failing(operation, _denied(operation)), pytest.raises(Misconfigured, match=operation):
        post.run(actions=RELEASE)
    assert post.states("a") == [State.IN_PROGRESS]


def test_a_row_that_cannot_be_read_does_not_stop_the_others(post: Post) -> None:
    """The others are checked and resolved; then the run fails with the name of the row."""
    post.lapse("a", "b", "c")
    key = {"lockToken": {"S": CHARGE.format("b")}}
    change: dict[str, Any] = {"UpdateExpression": "REMOVE fence"}
    post.client.update_item(TableName=post.name, Key=key, **change)
    with pytest.raises(Misconfigured, match="orders/charge/b"):
        post.run(actions=RELEASE)
    assert post.states("a", "c") == [State.RELEASED] * 2
    (line,) = post.log.of("once.malformed_row")
    assert (line["level"], line["token"]) == ("ERROR", "orders/charge/b")
    assert "fence is missing or malformed" in line["reason"]


def test_malformed_entries_of_the_index_hide_no_other(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    """Though their leases are the earliest: metrics first, then all others, then the run fails by name."""
    for n in range(MOST_NAMED + 1):
        entry = {
            "lockToken": f"legacy-{n}",
            "status": "inProgress",
            "listed": listed(State.IN_PROGRESS, f"legacy-{n}"),
            "expectedCompletion": f"2000-01-{n + 1:02}",
        }
        post.client.put_item(TableName=post.name, Item={name: {"S": text} for name, text in entry.items()})
    post.lapse("a", "b")
    message = rf"token legacy-\d+: attempt is missing.* and {MOST_NAMED} more: see the log events once.malf"
    with pytest.raises(Misconfigured, match=message):
        post.run(actions=RELEASE)
    assert post.states("a", "b") == [State.RELEASED] * 2
    assert len(post.log.of("once.malformed_row")) == MOST_NAMED
    assert documents(capsys) == [
        ZEROS | {"missingTasks": MOST_NAMED + 3, "oldestOverdueSeconds": 3572},
        WHOLE | {"released": 2},
    ]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"actions": {"charge": "hold"}}, "actions"),
        ({"times": -1}, "times"),
        ({"rows": 0}, "rows"),
    ],
)
def test_malformed_options_are_refused_at_once(options: dict[str, Any], named: str) -> None:
    """Before any run."""
    with pytest.raises(Misconfigured, match=named):
        module.watchdog(**options)


# ------------------------------------------------------------------ by the environment


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A new environment of Lambda's, whose module was just imported."""
    module._from_environment.cache_clear()
    yield monkeypatch
    module._from_environment.cache_clear()


def test_the_ready_made_handler_takes_its_options_from_the_environment(
    strict: Post, environment: pytest.MonkeyPatch
) -> None:
    """The table, what to release, how often, and how many rows; its client is its own."""
    strict.lapse("a", "b", "c")
    strict.lapse("d", token="orders/ship/{}")
    environment.setenv("LAMBDA_ONCE_TABLE", strict.name)
    environment.setenv("LAMBDA_ONCE_WATCHDOG_RELEASE", "orders/ch*, , other")
    environment.setenv("LAMBDA_ONCE_WATCHDOG_ROWS", " 3\n")
    environment.setenv("LAMBDA_ONCE_WATCHDOG_SWEEP", "No ")
    environment.setattr("lambda_once.operations.table.SystemClock", lambda: strict.clock)
    found = module.handler(json.loads((EVENTS / "watchdog.json").read_text()), lambda_context())
    assert (found["overdue"], found["released"], found["truncated"]) == (4, 3, True)
    assert strict.states("a", "b", "c") == [State.RELEASED] * 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LAMBDA_ONCE_TABLE", ""),
        ("LAMBDA_ONCE_WATCHDOG_TIMES", "often"),
        ("LAMBDA_ONCE_WATCHDOG_ROWS", "-5"),
        ("LAMBDA_ONCE_WATCHDOG_ROWS", "0"),
        ("LAMBDA_ONCE_WATCHDOG_ROWS", "1.5"),
        ("LAMBDA_ONCE_WATCHDOG_SWEEP", "maybe"),
        ("LAMBDA_ONCE_LISTING", "late"),
    ],
)
def test_malformed_settings_are_named(environment: pytest.MonkeyPatch, name: str, value: str) -> None:
    """At the first run, not when the module is imported."""
    environment.setenv("LAMBDA_ONCE_TABLE", "tokens")
    environment.setenv(name, value)
    with pytest.raises(Misconfigured, match=name):
        module.handler({}, None)


def test_nothing_is_requested_before_the_first_run() -> None:
    """A module with a watchdog can be imported where there is no table."""
    handler = module.watchdog(actions=RELEASE)
    with pytest.raises(Misconfigured, match="LAMBDA_ONCE_TABLE"):
        handler({}, None)
