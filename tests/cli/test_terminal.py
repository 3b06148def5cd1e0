"""What each command prints of rows with hostile text, on terminals of each width and kind, and in a pipe."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from lambda_once.core.lifecycle import Failure
from lambda_once.core.results import Inline
from lambda_once.core.writes import Complete, Hold, Release
from lambda_once_tools.cli import app as cli
from lambda_once_tools.cli import render
from lambda_once_tools.cli.app import app
from tests.cli.shop import REQUEST, Shop, on_strict

HOSTILE = "\x1b]0;own\x07\x1b[2J\x9b31m\u202e\u2066\u2028\n\r\x00\x7f\ud800 [red]é"
"""A title, a cleared screen, C1, bidi overrides, line breaks, half a character, and markup of rich's."""
DELIVERY = "059f36b4-87a3-44ab-83d2-661975830a7d"
TOKEN = "orders/charge/acme/order-000000000000000000000000000000000001"
LATE = "orders/ship/acme/late-00000000000000000000000000000000000002"
DONE = "orders/charge/acme/done-00000000000000000000000000000000000003"
TWINS = ("orders/charge/acme-000000000000000000000000/twin", "orders/ship/acme-000000000000000000000000/twin")
WHOLE = (TOKEN, LATE, DONE, *TWINS)
EVIL = f"orders/charge/evil{HOSTILE[:-8]}"
"""A token that we would not write; a key has no half characters."""
EVENT = Path(__file__).parents[2] / "events" / "sqs-payment.json"
HANDLER = "examples.orders.payments:charge"


class Mode(NamedTuple):
    """Where a command prints."""

    terminal: bool
    coloured: bool = False
    encoding: str = "utf-8"
    environment: Mapping[str, str] = MappingProxyType({})


COLOURS = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
MODES = {
    "terminal": Mode(terminal=True, coloured=True, environment=COLOURS),
    "NO_COLOR": Mode(terminal=True, environment=COLOURS | {"NO_COLOR": "1"}),
    "dumb": Mode(terminal=True, environment={"TERM": "dumb"}),
    "C": Mode(terminal=True, coloured=True, encoding="ascii", environment=COLOURS | {"LC_ALL": "C"}),
    "pipe": Mode(terminal=False, environment=COLOURS),
}


class Screen(io.TextIOWrapper):
    """A standard stream that keeps what it gets."""

    def __init__(self, mode: Mode, errors: str = "strict") -> None:
        self.kept = io.BytesIO()
        super().__init__(self.kept, encoding=mode.encoding, errors=errors, newline="", write_through=True)
        self._mode = mode

    def isatty(self) -> bool:
        return self._mode.terminal

    def text(self) -> str:
        return self.kept.getvalue().decode("utf-8")


class Printed(NamedTuple):
    """What one command printed."""

    out: str
    err: str
    code: int

    @property
    def both(self) -> str:
        return self.out + self.err


Run = Callable[..., Printed]


@pytest.fixture(name="shop")
def open_shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop on the strict engine."""
    with on_strict(monkeypatch) as shop:
        yield shop


@pytest.fixture(name="run")
def on_screen(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs a command on a screen, as the installed program does."""
    monkeypatch.setattr(cli, "discard_output", lambda: None)
    monkeypatch.chdir(EVENT.parents[1])

    def run(mode: Mode, columns: int, *arguments: str) -> Printed:
        with monkeypatch.context() as patch:
            for name in ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "LC_ALL", "TTY_COMPATIBLE"):
                patch.delenv(name, raising=False)
            given = {"COLUMNS": str(columns), "LAMBDA_ONCE_TABLE": shop.name} | {**mode.environment}
            for name, value in given.items():
                patch.setenv(name, value)
            out, err = Screen(mode), Screen(mode, "backslashreplace")
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as ended:
                app(list(arguments), prog_name="lambda-once")
            return Printed(out.text(), err.text(), int(ended.value.code or 0))

    return run


def _prepare(shop: Shop) -> None:
    """Write rows whose every field is hostile: some by ourselves, some by whoever may write to the table."""
    locked_by, failure = f"pay{HOSTILE}ments/{REQUEST}", Failure(f"Error{HOSTILE}", f"no answer {HOSTILE}")
    shop.begin(LATE, lease=30, locked_by=locked_by, delivery=DELIVERY)
    shop.clock.advance(90_000)
    shop.begin(TOKEN, mortal=False, locked_by=locked_by, delivery=f"{DELIVERY}{HOSTILE}")
    shop.end(TOKEN, Hold(failure))
    shop.decide(TOKEN, Hold(failure), by=f"ann{HOSTILE}", because=f"because {HOSTILE}")
    shop.begin(DONE, locked_by=locked_by)
    shop.end(DONE, Complete(Inline(json.dumps({"a": HOSTILE}, ensure_ascii=False).replace("\ud800", ""))))
    for twin in TWINS:
        shop.hold(twin, locked_by=locked_by)
    row = shop.client.get_item(TableName=shop.name, Key={"lockToken": {"S": TOKEN}})["Item"]
    shop.put(row | {"lockToken": {"S": EVIL}, "trace": {"S": HOSTILE}})
    shop.put(
        {name: row[name] for name in ("status", "expectedCompletion")} | {"lockToken": {"S": EVIL + "2"}}
    )
    shop.decide(shop.hold("orders/charge/given-back"), Release(failure), because=f"because {HOSTILE}")


def _hostile_event(folder: Path) -> str:
    """Write an event whose names, texts and ids are hostile; return its path."""
    event = json.loads(EVENT.read_text())
    record = event["Records"][0]
    record["messageId"] += HOSTILE
    body = json.loads(record["body"]) | {f"name{HOSTILE}": 1, "note": HOSTILE, "paymentId": f"p{HOSTILE}"}
    record["body"] = json.dumps(body)
    path = folder / "hostile.json"
    path.write_text(json.dumps(event))
    return str(path)


def _hostile_request(folder: Path) -> str:
    """Write an HTTP event whose credentials, and the names that an authorizer gave, are hostile."""
    event = json.loads((EVENT.parent / "http-api-order.json").read_text())
    hostile = HOSTILE[:-8]
    event["headers"] |= {"authorization": f"Bearer {hostile}", f"x-{hostile}": "1", "x-api-key": HOSTILE}
    event["cookies"] = [f"a{hostile}={HOSTILE}"]
    event["requestContext"]["authorizer"] = {"lambda": {f"user{HOSTILE}": HOSTILE, "principalId": "user"}}
    path = folder / "request.json"
    path.write_text(json.dumps(event))
    return str(path)


def _given(command: str, folder: Path) -> list[str]:
    """Return the arguments of *command*, the events written."""
    files = {"{hostile}": _hostile_event(folder), "{request}": _hostile_request(folder)}
    return [files.get(each, each) for each in COMMANDS[command]]


WHY = ("--because", f"why {HOSTILE}".replace("\x00", ""))
EXPLAIN = ("explain", "--handler", HANDLER, "--function-name", "f")
COMMANDS: dict[str, tuple[str, ...]] = {
    "list": ("list",),
    "list held": ("list", "--held", "--overdue"),
    "list released": ("list", "--released"),
    "list by function": ("list", "--by-function"),
    "list malformed": ("list", "--held", "--name", "none"),
    "check": ("check", "--template", HOSTILE[:-8].replace("\x00", "")),
    "find": ("find", "0000"),
    "find nothing": ("find", HOSTILE),
    "find delivery": ("find", "--delivery", DELIVERY),
    "find no delivery": ("find", "--delivery", HOSTILE),
    "show held": ("show", TOKEN),
    "show overdue": ("show", LATE),
    "show complete": ("show", DONE),
    "show result": ("show", DONE, "--result"),
    "show twins": ("show", "twin"),
    "show nothing": ("show", f"none{HOSTILE}"),
    "show hostile token": ("show", EVIL),
    "resolve dry": ("resolve", TOKEN, "--done", "--dry-run", *WHY),
    "resolve": ("resolve", TOKEN, "--not-done", "--yes", "--by", "bert", *WHY),
    "resolve refused": ("resolve", DONE, "--not-done", "--yes", "--attempt", HOSTILE, *WHY),
    "redrive dry": ("redrive", "--dry-run", "--also-decided", *WHY),
    "redrive": ("redrive", "--yes", *WHY),
    "forget": ("forget", DONE, "--yes", *WHY),
    "watch": ("watch", "--count", "1"),
    "explain": (*EXPLAIN, "{hostile}"),
    "explain two": (*EXPLAIN, str(EVENT), "{hostile}"),
    "explain a request": ("explain", "--handler", "examples.orders.api:create_order", "{request}"),
    "explain no file": (*EXPLAIN, HOSTILE[:-8].replace("\x00", "")),
    "unknown option": ("list", f"--{HOSTILE}"),
    "unknown command": (HOSTILE,),
    "help": ("show", "--help"),
}
LIVE = re.compile(r"\x1b\[(\?25[lh]|2K|1?A)|\r")
"""What rich.live sends to a terminal: the cursor hidden, shown, and moved up; a line erased."""
SGR = re.compile(r"\x1b\[([0-9;]*)m")
QUERY = re.compile(
    r"fields @timestamp, @message \| filter (?:@message like|token =) .+? \| sort @timestamp \| limit 1000"
)


def _check(printed: Printed, mode: Mode) -> None:
    """Check that nothing raw reaches the screen, colours only where they may, and that all is whole."""
    styles = [code for found in SGR.findall(printed.both) for code in found.split(";")]
    assert mode.terminal or not styles
    assert mode.coloured or not [code for code in styles if code[:1] in "349" and len(code) > 1], styles
    plain = SGR.sub("", printed.both)
    raw = {character for character in plain if not character.isprintable()} - {"\n"}
    assert not raw, (raw, plain)
    for whole in WHOLE:
        assert plain.count(whole[:18]) == sum(plain.count(each) for each in WHOLE if each[:18] == whole[:18])
    assert plain.count("fields @") == len(QUERY.findall(plain))
    assert "Traceback" not in plain


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", COMMANDS)
def test_whatever_is_printed_is_harmless_and_whole(
    shop: Shop, run: Run, tmp_path: Path, command: str, mode: str
) -> None:
    """No raw escape, no token broken, no query cropped, no colour but on a terminal that wants it."""
    _prepare(shop)
    arguments = _given(command, tmp_path)
    for columns in (40, 80, 100, 125):
        printed = run(MODES[mode], columns, *arguments)
        assert printed.both
        if command == "watch" and MODES[mode].terminal:
            printed = Printed(LIVE.sub("", printed.out), printed.err, printed.code)
        _check(printed, MODES[mode])


@pytest.mark.parametrize("form", ["json", "jsonl"])
@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_ascii(shop: Shop, run: Run, tmp_path: Path, command: str, form: str) -> None:
    """On a terminal, too; what is data is JSON, and has the text itself."""
    _prepare(shop)
    arguments = _given(command, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMBDA_ONCE_OUTPUT", form)
        printed = run(MODES["terminal"], 80, *arguments)
    _check(printed, MODES["terminal"])
    if command != "help":
        assert printed.out.isascii()
        texts = [printed.out] if form == "json" else printed.out.splitlines()
        for text in filter(None, texts):
            json.loads(text)


def test_what_is_printed_has_the_tokens(shop: Shop, run: Run) -> None:
    """The test above would pass for a command that prints nothing."""
    _prepare(shop)
    wide = MODES["terminal"]
    assert all(token in run(wide, 40, "list").out for token in (TOKEN, LATE, *TWINS))
    shown = run(wide, 40, "show", LATE)
    assert len(QUERY.findall(SGR.sub("", shown.out))) == 2
    assert SGR.search(shown.out)
    assert r"pay\x1b]0;own\x07\x1b[2J\x9b31m\u202e\u2066\u2028\n\r\x00\x7f" in SGR.sub("", shown.out)


@pytest.mark.parametrize("columns", [60, 80, 126, 200])
def test_a_list_has_what_was_asked_for(shop: Shop, run: Run, columns: int) -> None:
    """It has room, or a line of its own: times are not broken, either. The request only with --wide."""
    shop.begin(LATE)
    shop.hold("orders/refund/held-1")
    shop.clock.advance(90_000)
    printed = SGR.sub("", run(MODES["terminal"], columns, "list", "--held", "--overdue").out)
    whole = [LATE, "2026-11-20 10:12:00", "1 d 1 h", "overdue", "held"]
    assert all(any(each in line for line in printed.splitlines()) for each in whole), printed
    assert REQUEST not in printed
    assert "PaymentTimeout" in printed
    wide = SGR.sub("", run(MODES["terminal"], columns, "list", "--held", "--overdue", "--wide").out)
    whole += [f"payments/{REQUEST}", "2026-11-20 10:12:30"]
    assert all(any(each in line for line in wide.splitlines()) for each in whole), wide


def test_a_token_longer_than_the_terminal_is_one_line(shop: Shop, run: Run) -> None:
    """The terminal breaks it, so that it is copied whole."""
    token = "orders/charge/" + "k" * 200
    shop.hold(token)
    for command in (["list"], ["show", token]):
        printed = SGR.sub("", run(MODES["terminal"], 80, *command).out)
        assert f"held  {token}" in printed.splitlines()


def test_all_that_is_drawn_is_made_in_one_module() -> None:
    """No other module of the command line makes a text, a table or an echo of its own."""
    folder = Path(render.__file__).parent
    drawing = {"rich.text", "rich.table", "rich.padding", "rich.panel", "rich.columns", "rich.markup"}
    for path in folder.glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        assert path.name == "render.py" or not imported & drawing, path.name


def test_the_json_of_others_is_ascii() -> None:
    """Whatever text is stored in place of JSON; a carriage return is a blank of JSON."""
    assert render.ascii_json('["\x1b\x07\x7f\x9b\u202e\U0001f600",\r\n1]') == (
        '["\\u001b\\u0007\\u007f\\u009b\\u202e\\ud83d\\ude00",\n\n1]'
    )
