"""Leases are judged by DynamoDB's time: a clock that is wrong takes no living work for dead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from lambda_once.core.clock import Deadline
from lambda_once.dynamodb.retry import PATIENCE
from lambda_once.operations import times
from lambda_once.operations.table import TokenTable
from lambda_once.operations.times import CorrectedClock, date_of
from lambda_once.testing import FakeClock, create_table
from lambda_once_tools.cli import options
from tests.cli.shop import Shop, on_strict
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.operations.watch import Post

TOKEN = "orders/charge/12345"
FAST = timedelta(minutes=10)


def dated(at: datetime) -> dict[str, Any]:
    """An answer of that time."""
    return {"ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(at.astimezone(UTC), usegmt=True)}}}


def answers_by(client: Any, clock: FakeClock) -> None:
    """Let *client* answer with the time of *clock*, errors included."""
    client.meta.events.register(
        "after-call.dynamodb",
        lambda parsed, **_: (
            parsed["ResponseMetadata"]
            .setdefault("HTTPHeaders", {})
            .update(dated(clock.now())["ResponseMetadata"]["HTTPHeaders"])
        ),
    )


@pytest.fixture
def warnings() -> list[str]:
    """What the clock said."""
    return []


@pytest.mark.parametrize(
    ("seconds", "skew"),
    [(0, 0), (0.9, 0), (2, 0), (-2, 0), (2.9, 0), (3, 3), (-4, -3), (3_600, 3_600), (-3_600, -3_599)],
)
def test_a_clock_is_corrected_beyond_two_seconds(seconds: float, skew: float, warnings: list[str]) -> None:
    """A date has whole seconds: the correction is the least that it can be."""
    local = FakeClock()
    clock = CorrectedClock(local, warnings.append)
    clock.observe(dated(local.now() + timedelta(seconds=seconds)), local.now())
    assert clock.now() - local.now() == timedelta(seconds=skew)
    assert len(warnings) == bool(skew)
    if warnings:
        assert ("behind" if skew > 0 else "ahead of") in warnings[0]


def test_a_slow_response_corrects_nothing(warnings: list[str]) -> None:
    """Its date lies between the question and the answer."""
    local = FakeClock()
    clock = CorrectedClock(local, warnings.append)
    sent = local.now()
    local.advance(20)
    clock.observe(dated(sent), sent)
    clock.observe(dated(sent + timedelta(seconds=20)), sent)
    assert (clock.now(), warnings) == (local.now(), [])


def test_a_correction_warns_once_and_is_undone(warnings: list[str]) -> None:
    """Where the clock is set meanwhile, it is believed again."""
    local = FakeClock()
    clock = CorrectedClock(local, warnings.append)
    for late in (60, 60.4, 61):
        clock.observe(dated(local.now() + timedelta(seconds=late)), local.now())
    assert clock.skew == timedelta(seconds=60)
    clock.observe(dated(local.now()), local.now())
    assert clock.skew == timedelta(0)
    assert len(warnings) == 1


@pytest.mark.parametrize(
    "answer",
    [None, {}, {"ResponseMetadata": {}}, {"ResponseMetadata": {"HTTPHeaders": {"date": "soon"}}}],
)
def test_an_answer_without_a_date_changes_nothing(answer: Any) -> None:
    """The machine's clock is used."""
    local = FakeClock()
    clock = CorrectedClock(local)
    assert date_of(answer) is None
    clock.observe(answer, local.now())
    assert (clock.now(), clock.synchronised) == (local.now(), False)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop whose operator's clock is ten minutes fast, at a table that has the right time."""
    with on_strict(monkeypatch) as found:
        fast = FakeClock(found.clock.now() + FAST)
        answers_by(found.client, found.clock)
        monkeypatch.setattr(options, "clock", lambda: CorrectedClock(fast))
        monkeypatch.setattr(options, "client_for", lambda *_: found.client)
        yield found


@pytest.mark.parametrize("command", [["list"], ["show", TOKEN], ["watch", "--count", "1"]])
def test_a_fast_clock_lists_no_live_attempt_as_overdue(shop: Shop, command: list[str]) -> None:
    """It is said how far it is from DynamoDB's, and exit code 0 says that nothing is stuck."""
    shop.begin(TOKEN, lease=300)
    ran = shop.run(*command)
    assert ran.exit_code == 0, ran.output
    assert "the clock of this machine is 9 min 59 s ahead of DynamoDB's" in ran.stderr


def test_a_fast_clock_resolves_no_live_attempt(shop: Shop) -> None:
    """Without --force it is refused, and what a correct clock calls overdue is not."""
    shop.begin(TOKEN, lease=300)
    resolve = ("resolve", TOKEN, "--not-done", "--because", "x", "--yes")
    ran = shop.run(*resolve)
    assert ran.exit_code == 1
    assert "an attempt may be running" in ran.stderr
    shop.clock.advance(310)
    assert shop.run(*resolve).exit_code == 0


def test_twin_without_the_correction_live_work_is_resolved(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the correction the fast clock takes it for dead."""
    shop.begin(TOKEN, lease=300)
    monkeypatch.setattr(times, "TOLERATED", timedelta(days=1))
    assert shop.run("resolve", TOKEN, "--not-done", "--because", "x", "--yes").exit_code == 0


@mounted()
def test_the_watchdog_judges_by_dynamodbs_time() -> None:
    """A fast one releases nothing that lives, and says in its log how wrong it is."""
    client = tables.client()
    create_table(client, "tokens")
    post = Post(client, "tokens")
    answers_by(client, post.clock)
    post.acquire(TOKEN)
    fast = CorrectedClock(FakeClock(post.clock.now() + FAST))
    assert _watchdog(post, fast)["released"] == 0
    (line,) = post.log.of("once.clock_skew")
    assert "9 min 59 s ahead of DynamoDB's" in line["reason"]
    post.clock.advance(60)
    assert _watchdog(post, CorrectedClock(FakeClock(post.clock.now() + FAST)))["released"] == 1


def _watchdog(post: Post, clock: CorrectedClock) -> dict[str, Any]:
    from lambda_once.operations.watchdog import watchdog

    handler = watchdog(
        post.name, post.client, clock, actions={"charge": "release"}, sweep=False, logger=post.log
    )
    return handler({}, None)


@mounted()
def test_a_correction_shortens_no_deadline() -> None:
    """What bounds a request is the machine's own clock, which does not jump."""
    client, right = tables.client(), FakeClock()
    create_table(client, "tokens")
    answers_by(client, right)
    table = TokenTable("tokens", client, CorrectedClock(FakeClock(right.now() - FAST)))
    deadline: Deadline = table.deadline()
    assert table.now() == right.now()
    assert deadline.remaining() == PATIENCE


@pytest.mark.engine
def test_an_engine_sends_its_date(engine_endpoint: str) -> None:
    """Its answers have a date: a clock of another year is corrected by the first."""
    client = tables.client(engine_endpoint)
    clock = CorrectedClock(FakeClock(datetime(2020, 2, 29, tzinfo=UTC)))
    with tables.fresh(client) as name:
        assert TokenTable(name, client, clock).now().year > 2020
    client.close()
    assert clock.synchronised
