"""The watchdog on a table without TTL: what it deletes, and what it never does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from lambda_once.core.clock import epoch_seconds
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.operations import sweep
from lambda_once.operations.table import SWEEP_ROW, WATCHDOG_ROW
from lambda_once.testing import lambda_context
from tests.operations.watch import CHARGE, Post

HOUR = 3600


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def post(request: pytest.FixtureRequest) -> Post:
    """Each in turn."""
    found: Post = request.getfixturevalue(request.param)
    return found


def put(post: Post, key: str, over_for: float | None, **attributes: Any) -> None:
    """Write a row whose ttl was over *over_for* seconds ago; None: it has none."""
    ttl = None if over_for is None else epoch_seconds(post.clock.now() - timedelta(seconds=over_for))
    row = {"lockToken": {"S": key}, **attributes} | ({} if ttl is None else {"ttl": {"N": str(ttl)}})
    post.client.put_item(TableName=post.name, Item=row)


def left(post: Post) -> set[str]:
    """Return the keys of all rows that are there."""
    return {row["lockToken"]["S"] for row in post.client.scan(TableName=post.name)["Items"]}


def test_what_is_over_for_an_hour_is_deleted_parts_too(post: Post) -> None:
    """Finished rows and part rows; never what is unfinished or held, has no ttl, or was over just now."""
    put(post, "orders/charge/over", HOUR + 1)
    put(post, "orders/charge/over#a1#0", HOUR + 1)
    put(post, "orders/charge/just-over", HOUR - 1)
    put(post, "orders/charge/alive", -HOUR)
    put(post, "orders/charge/for-ever", None)
    put(post, WATCHDOG_ROW, None, place={"S": "{}"})
    put(post, "orders/charge/unfinished", 30 * 24 * HOUR, **_listed("inProgress"))
    put(post, "orders/charge/held", 30 * 24 * HOUR, **_listed("error_3"))
    before = left(post)
    assert post.run(sweep=True)["swept"] == 2
    assert before - left(post) == {"orders/charge/over", "orders/charge/over#a1#0"}
    assert post.run(sweep=True)["swept"] == 0


def _listed(status: str) -> dict[str, Any]:
    return {
        "status": {"S": status},
        "expectedCompletion": {"S": "2026-11-20T10:00:00.000Z"},
        "created": {"S": "2026-11-20T09:59:00.000Z"},
        "lockedBy": {"S": "orders/r1"},
        "attempt": {"S": "a1"},
        "fence": {"N": "1"},
    }


AGAIN: list[tuple[float, dict[str, Any]]] = [(-HOUR, {}), (2 * HOUR, _listed("inProgress"))]


@pytest.mark.parametrize(("over_for", "attributes"), AGAIN, ids=["another ttl", "a status"])
def test_what_was_acquired_again_meanwhile_stays(
    post: Post, over_for: float, attributes: dict[str, Any]
) -> None:
    """The key came back between the reading and the deleting."""
    token = CHARGE.format("a")
    put(post, token, 2 * HOUR)
    with post.meanwhile("DeleteItem", lambda: put(post, token, over_for, **attributes)):
        assert post.run(sweep=True)["swept"] == 0
    assert left(post) == {token}


def test_a_bounded_sweep_goes_on_where_the_last_one_stopped(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, run by run, until the whole table was read; then it begins anew."""
    monkeypatch.setattr(sweep, "ROWS", 2)
    monkeypatch.setattr(sweep.sweep_expired, "__defaults__", (2,))
    for n in range(10):
        put(post, CHARGE.format(n), 2 * HOUR)
    swept = [post.run(sweep=True)["swept"] for _ in range(4)]
    assert sum(swept) == 10
    assert max(swept) <= 4
    assert left(post) <= {SWEEP_ROW}
    assert post.sent["Scan"] <= 8


def test_a_table_with_ttl_is_left_to_dynamodb(strict: Post) -> None:
    """It is asked once an environment."""
    put(strict, CHARGE.format("over"), 2 * HOUR)
    handler = strict.watchdog(sweep=None)
    assert [handler({}, None)["swept"] for _ in range(3)] == [0, 0, 0]
    assert (strict.sent["DescribeTimeToLive"], strict.sent["Scan"]) == (1, 0)


@pytest.mark.engine
def test_a_table_without_ttl_is_swept(engine: Post) -> None:
    """Without an option."""
    put(engine, CHARGE.format("over"), 2 * HOUR)
    handler = engine.watchdog(sweep=None)
    assert [handler({}, None)["swept"] for _ in range(3)] == [1, 0, 0]
    assert engine.sent["DescribeTimeToLive"] == 1


def test_no_time_no_sweep(strict: Post) -> None:
    """The last five seconds are kept free of it."""
    put(strict, CHARGE.format("over"), 2 * HOUR)
    assert strict.run(lambda_context(remaining_ms=5_000), sweep=True)["swept"] == 0
    assert strict.sent["Scan"] == 0


@pytest.mark.parametrize("operation", ["DescribeTimeToLive", "Scan", "DeleteItem"])
def test_a_missing_permission_is_named(strict: Post, operation: str) -> None:
    """What was found overdue was counted and resolved by then."""
    put(strict, CHARGE.format("over"), 2 * HOUR)
    error = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, operation)
    sweep = None if operation == "DescribeTimeToLive" else True
    with strict.failing(operation, error), pytest.raises(Misconfigured, match=operation):
        strict.run(sweep=sweep)


def test_a_delete_without_an_answer_is_tried_again_by_the_next_run(strict: Post) -> None:
    """The run fails; what it had deleted is gone, and no page is skipped."""
    for n in range(3):
        put(strict, CHARGE.format(n), 2 * HOUR)
    with (
        strict.failing("DeleteItem", ReadTimeoutError(endpoint_url="x")),
        pytest.raises(StoreUnavailable, match="the next sweep continues"),
    ):
        strict.run(sweep=True)
    assert strict.run(sweep=True)["swept"] == 3
