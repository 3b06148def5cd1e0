from __future__ import annotations

import json
import re

import pytest
from botocore.exceptions import EndpointConnectionError
from rich.console import Console

from lambda_once.core.writes import Release
from lambda_once.stores.transport import TokenTransport
from lambda_once_tools.cli import lists
from lambda_once_tools.cli.scans import UNLISTED
from tests.cli.shop import Shop, lines, on_strict, open_shop

__all__ = ["open_shop"]


def test_each_round_is_a_line(shop: Shop) -> None:
    """Of what is in progress, overdue, held and released, and how late the oldest is; time passes between."""
    shop.begin("orders/charge/1", lease=30)
    shop.begin("orders/charge/2", lease=33)
    shop.clock.advance(25)
    ran = shop.run("watch", "--count", "3", "--interval", "4")
    assert ran.stdout.splitlines() == [
        "2026-11-20T10:12:25.000Z  2 in progress, 0 overdue, 0 held, 0 released by a decision",
        "2026-11-20T10:12:29.000Z  2 in progress, 0 overdue, 0 held, 0 released by a decision",
        (
            "2026-11-20T10:12:33.000Z  1 (-1) in progress, 1 (+1) overdue, the oldest by 3 s, "
            "0 held, 0 released by a decision"
        ),
    ]
    assert shop.clock.slept == [4, 4]
    assert ran.exit_code == 1


def test_nothing_overdue_or_held_exits_with_0(shop: Shop) -> None:
    """Exit code 0."""
    shop.begin("orders/charge/1")
    assert shop.run("watch", "--count", "1").exit_code == 0
    shop.hold("orders/charge/2")
    assert shop.run("watch", "--count", "1").exit_code == 1


def test_rounds_as_json(shop: Shop) -> None:
    """One object a round."""
    shop.decide(shop.hold("orders/charge/3"), Release(), because="nothing was charged")
    shop.hold("orders/charge/2")
    shop.begin("orders/charge/1", lease=1)
    shop.clock.advance(10)
    ran = shop.run("watch", "--count", "2", "--output", "jsonl")
    assert lines(ran)[0] == {
        "at": "2026-11-20T10:12:12.000Z",
        "inProgress": 0,
        "overdue": 1,
        "held": 1,
        "releasedByDecision": 1,
        "oldestOverdueSeconds": 9,
    }
    assert len(lines(ran)) == 2
    assert json.loads(shop.run("watch", "--count", "1", "--output", "json").stdout)["held"] == 1


def test_ctrl_c_is_the_way_to_end(shop: Shop) -> None:
    """Exit code 0, whatever is stuck."""
    shop.hold("orders/charge/1")

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    shop.clock.while_asleep(str, interrupt)
    ran = shop.run("watch")
    assert ran.exit_code == 0
    assert len(ran.stdout.splitlines()) == 2


def test_a_round_without_an_answer_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, and the next one counts."""
    with on_strict(monkeypatch) as shop:
        call = TokenTransport.call

        def out(self: TokenTransport, *args: object) -> object:
            if shop.clock.slept == [5]:
                raise EndpointConnectionError(endpoint_url="http://nowhere")
            return call(self, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(TokenTransport, "call", out)
        ran = shop.run("watch", "--count", "3")
        assert len(ran.stdout.splitlines()) == 2
        lacks, silent = ran.stderr.splitlines()
        assert lacks == UNLISTED
        assert silent.startswith("2026-11-20T10:12:05.000Z  no response: ")


def test_a_terminal_shows_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn again in its place."""
    with on_strict(monkeypatch) as shop:
        shop.hold("orders/charge/1")
        terminal = Console(force_terminal=True, width=100, record=True)
        monkeypatch.setattr(lists, "console", lambda **_: terminal)
        assert shop.run("watch", "--count", "2").exit_code == 1
        text = terminal.export_text()
        assert re.search(r"^held +1 *$", text, re.MULTILINE)
        assert "10:12:06" in text
