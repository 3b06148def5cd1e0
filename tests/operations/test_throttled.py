"""A listing is two hundred queries: it ends well where half are throttled, and in time where all are."""

from __future__ import annotations

import threading
from collections import Counter
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import Result

from lambda_once.dynamodb.retry import PATIENCE, TRIES
from lambda_once.errors import StoreUnavailable
from lambda_once.stores.transport import TokenTransport
from lambda_once.testing import lambda_context
from tests.cli.shop import Shop, lines, on_strict
from tests.operations.watch import Post, measured

CODE = "ProvisionedThroughputExceededException"
HALF = 0.5
OFTEN = 0.75


class Throttle:
    """Refuses a part of all requests: of each by dice of its own, so in any order of threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, part: float) -> None:
        self.part = part
        self.tries: Counter[str] = Counter()
        self._dice: dict[str, Random] = {}
        self._lock = threading.Lock()
        send = TokenTransport._exchange

        def sent(transport: TokenTransport, operation: str, /, **arguments: Any) -> Any:
            if self._refuses(f"{operation} {arguments}"):
                raise ClientError({"Error": {"Code": CODE, "Message": "slow down"}}, operation)
            return send(transport, operation, **arguments)

        monkeypatch.setattr(TokenTransport, "_exchange", sent)

    def _refuses(self, request: str) -> bool:
        with self._lock:
            self.tries[request] += 1
            return self._dice.setdefault(request, Random(request)).random() < self.part


def _stuck(shop: Shop) -> None:
    for n in range(4):
        shop.begin(f"orders/charge/late-{n}")
    shop.hold("orders/charge/held")
    shop.clock.advance(3_600)


def _timeless(ran: Result) -> list[dict[str, Any]]:
    """Return the rows without their ages: tries take time."""
    return [{name: each for name, each in row.items() if not name.endswith("Seconds")} for row in lines(ran)]


@pytest.mark.parametrize("part", [0.3, OFTEN])
@pytest.mark.parametrize("options", [[], ["--held"], ["--consistent"], ["--limit", "2"]])
def test_a_list_ends_well(monkeypatch: pytest.MonkeyPatch, part: float, options: list[str]) -> None:
    """Every request is sent again until it is answered; nothing is missing."""
    with on_strict(monkeypatch) as shop:
        _stuck(shop)
        expected = _timeless(shop.run("list", "--output", "jsonl", *options))
        throttle = Throttle(monkeypatch, part)
        ran = shop.run("list", "--output", "jsonl", *options)
        assert (_timeless(ran), ran.exit_code) == (expected, 1)
        assert max(throttle.tries.values()) > TRIES or part != OFTEN


def test_a_list_that_is_not_patient_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with six tries a request, one of them is given up."""
    with on_strict(monkeypatch) as shop:
        _stuck(shop)
        monkeypatch.setattr(TokenTransport, "is_patient", property(lambda _: False, lambda *_: None))
        Throttle(monkeypatch, OFTEN)
        assert shop.run("list").exit_code == 2


def test_a_watchdog_measures_and_releases(
    strict: Post, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of a minute has the time, at a half."""
    strict.lapse(*range(30))
    throttle = Throttle(monkeypatch, HALF)
    found = strict.run(lambda_context(remaining_ms=60_000), actions={"charge": "release"})
    assert (found["overdue"], found["released"]) == (30, 30)
    assert max(throttle.tries.values()) > TRIES
    assert measured(capsys.readouterr().out)[0]["missingTasks"] == 30


def test_a_table_that_stays_throttled_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After half a minute, not the ten of a long list; the advice is to retry, not another endpoint."""
    with on_strict(monkeypatch) as shop:
        began = shop.clock.now()
        Throttle(monkeypatch, 1)
        ran = shop.run("list")
        assert PATIENCE - 2 < (shop.clock.now() - began).total_seconds() <= PATIENCE
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert ran.stderr == f"lambda-once: the table is throttled ({CODE}): retry\n"


def test_a_row_that_stays_unprocessed_is_throttled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """DynamoDB answers a batch whose keys it throttles without an error."""
    with on_strict(monkeypatch) as shop:
        shop.hold("orders/charge/held")
        shop.clock.advance(60)

        send = TokenTransport._exchange

        def unprocessed(transport: TokenTransport, operation: str, /, **arguments: Any) -> Any:
            if operation == "batch_get_item":
                return {"Responses": {}, "UnprocessedKeys": arguments["RequestItems"]}
            return send(transport, operation, **arguments)

        monkeypatch.setattr(TokenTransport, "_exchange", unprocessed)
        ran = shop.run("list", "--held")
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert ran.stderr == "lambda-once: the table is throttled (UnprocessedKeys): retry\n"


def test_a_watchdog_of_a_throttled_table_raises(strict: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """In half a minute, by the name of the cause."""
    strict.lapse("a")
    Throttle(monkeypatch, 1)
    with pytest.raises(StoreUnavailable, match=CODE):
        strict.run(lambda_context(remaining_ms=600_000))
