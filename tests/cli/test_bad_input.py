from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from botocore.exceptions import ClientError, UnauthorizedSSOTokenError
from click.testing import CliRunner

from lambda_once.dynamodb.retry import TRIES
from lambda_once.stores.transport import TokenTransport
from lambda_once_tools.cli import search
from lambda_once_tools.cli.app import app
from tests.cli.shop import Shop, complaint, lines, on_engine, on_strict
from tests.kit import strangers
from tests.kit.ports import free_port

SURE = ("--because", "x", "--by", "ann", "--yes")
READERS = [["list"], ["find", "12345"], ["show", "orders/charge/1"], ["watch", "--count", "1"]]
BY_COMMAND = pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A shop on the strict engine."""
    with on_strict(monkeypatch) as found:
        yield found


@BY_COMMAND
def test_no_table_is_named(command: list[str]) -> None:
    """The option and the variable are."""
    message = complaint(CliRunner().invoke(app, command))
    assert message == "lambda-once: no token table: pass --table NAME, or set LAMBDA_ONCE_TABLE"


@BY_COMMAND
def test_no_region_is_set(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The option is named."""
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    message = complaint(CliRunner().invoke(app, [*command, "--table", "tokens"]))
    assert "region" in message
    assert "--region" in message
    assert ".:" not in message


@BY_COMMAND
def test_no_profile_of_that_name(command: list[str]) -> None:
    """It is named."""
    message = complaint(CliRunner().invoke(app, [*command, "--table", "tokens", "--profile", "missing"]))
    assert "missing" in message


@BY_COMMAND
def test_no_credentials(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Said to a person at a terminal."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    message = complaint(CliRunner().invoke(app, [*command, "--table", "tokens"]))
    assert message == (
        "lambda-once: no AWS credentials: pass --profile, or configure them as for the AWS CLI"
    )


@BY_COMMAND
def test_no_such_table(shop: Shop, command: list[str]) -> None:
    """Its name and the region are what to look at."""
    message = complaint(shop.run(*command, "--table", "other"))
    assert "table 'other' does not exist in region eu-central-1 (https://dynamodb.eu-central-1" in message


@pytest.mark.engine
@BY_COMMAND
def test_no_such_table_on_an_engine(
    command: list[str], monkeypatch: pytest.MonkeyPatch, engine_endpoint: str
) -> None:
    """The same."""
    with on_engine(monkeypatch, engine_endpoint) as shop:
        message = complaint(shop.run(*command, "--table", "other-table"))
        assert f"table 'other-table' does not exist in region eu-central-1 ({engine_endpoint})" in message


def _table_of_another_key(client: Any) -> None:
    client.create_table(
        TableName="theirs",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["list"], "its partition key must be lockToken (S), with no sort key"),
        (["show", "orders/charge/1"], "its partition key must be lockToken (S), with no sort key"),
        (["watch", "--count", "1"], "its partition key must be lockToken (S), with no sort key"),
    ],
)
def test_a_table_of_another_key(shop: Shop, command: list[str], advice: str) -> None:
    """What it must have is said."""
    _table_of_another_key(shop.client)
    assert advice in complaint(shop.run(*command, "--table", "theirs"))


@pytest.mark.engine
@pytest.mark.parametrize("command", [["list"], ["show", "a/b/c"]], ids=lambda command: command[0])
def test_a_table_of_another_key_on_an_engine(
    command: list[str], monkeypatch: pytest.MonkeyPatch, engine_endpoint: str
) -> None:
    """The engine's own refusals say the same."""
    with on_engine(monkeypatch, engine_endpoint) as shop:
        name = f"{shop.name}-theirs"
        shop.client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )
        try:
            assert "must have the keys" in (message := complaint(shop.run(*command, "--table", name))) or (
                "its partition key must be lockToken" in message
            )
        finally:
            shop.client.delete_table(TableName=name)


def test_rows_of_another_key_are_not_searched(shop: Shop) -> None:
    """A row without a lockToken is no row of ours: nothing is found, and nothing breaks."""
    _table_of_another_key(shop.client)
    shop.client.put_item(TableName="theirs", Item={"id": {"S": "12345"}})
    assert shop.run("find", "12345", "--table", "theirs").exit_code == 1
    assert shop.run("find", "12345", "--ignore-case", "--table", "theirs").exit_code == 1


@BY_COMMAND
def test_endpoint_without_a_server(shop: Shop, command: list[str]) -> None:
    """It is tried a few times, by the shop's clock, and said in the operator's words."""
    message = complaint(shop.run(*command, "--endpoint-url", f"http://127.0.0.1:{free_port()}"))
    assert message == (
        "lambda-once: the table did not respond (EndpointConnectionError): "
        "check --endpoint-url and --region, or retry"
    )
    assert len(shop.clock.slept) == TRIES - 1  # of one request, not of a hundred


SENTENCE = (
    "User: arn:aws:sts::1:assumed-role/dev/ann is not authorized to perform: dynamodb:X on resource: arn:t"
)


def _failing(
    monkeypatch: pytest.MonkeyPatch, code: str, message: str = SENTENCE, *, after: int = 0, of: str = ""
) -> None:
    """Let DynamoDB refuse requests, all or those of one operation, after so many."""
    call, seen = TokenTransport.call, iter(range(10_000))

    def refused(self: TokenTransport, operation: str, *rest: object) -> object:
        if of in ("", operation) and next(seen) >= after:
            response = {"Error": {"Code": code, "Message": message}}
            raise ClientError(response, operation)
        return call(self, operation, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(TokenTransport, "call", refused)


WRITERS = [
    ["resolve", "orders/charge/1", "--not-done", "--because", "x", "--yes"],
    ["redrive", "--because", "x", "--yes"],
    ["forget", "orders/charge/1", "--because", "x", "--yes"],
]
ALL = pytest.mark.parametrize("command", READERS + WRITERS, ids=lambda command: command[0])


@ALL
@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException", "RequestExpired"])
def test_expired_credentials(
    shop: Shop, command: list[str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a permission nor an endpoint is what is wrong."""
    _failing(monkeypatch, code, "The security token included in the request is expired")
    assert complaint(shop.run(*command)) == (
        f"lambda-once: credentials have expired: log in again ({code}: The security token included in the "
        "request is expired)"
    )


@pytest.mark.parametrize(("token", "advice"), [("t", "log in again"), (None, "check --profile")])
def test_unknown_credentials(
    shop: Shop, token: str | None, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those with a session token have expired, whatever DynamoDB calls it; others are wrong."""
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    _failing(monkeypatch, "UnrecognizedClientException", "The security token … is invalid")
    environment = {} if token is None else {"AWS_SESSION_TOKEN": token}
    assert advice in complaint(shop.run("list", **environment))


def test_an_expired_login(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of IAM Identity Center, which botocore finds before any request."""

    def expired(*_: object) -> None:
        raise UnauthorizedSSOTokenError

    monkeypatch.setattr(TokenTransport, "call", expired)
    assert "credentials have expired: log in again" in complaint(shop.run("list"))


@ALL
def test_a_denial_has_the_sentence_of_aws(
    shop: Shop, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With principal and resource, where a wrong profile shows; escaped, on one line."""
    _failing(monkeypatch, "AccessDeniedException", f"{SENTENCE}\x1b[2J\nno more")
    ran = shop.run(*command)
    message = ran.stderr.splitlines()[-1]
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "is not allowed (AccessDeniedException): check --profile, or grant your role" in message
    assert message.endswith(f"{SENTENCE}\\x1b[2J no more")


def test_a_denied_write_has_the_sentence_of_aws(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row was read and shown; nothing is written."""
    shop.hold("orders/charge/1")
    _failing(monkeypatch, "AccessDeniedException", of="update_item")
    ran = shop.run(*WRITERS[0])
    assert ran.exit_code == 2
    assert ran.stderr.splitlines()[-1].endswith(SENTENCE)
    assert "UpdateItem on table 'tokens' is not allowed" in ran.stderr


def test_a_denial_in_the_middle_of_a_scan(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, and exit code 2, after what was found before."""
    shop.hold("orders/charge/12345")
    _failing(monkeypatch, "AccessDeniedException", after=3, of="scan")
    ran = shop.run("find", "12345", "--output", "jsonl")
    assert ran.exit_code == 2
    assert "Scan on table 'tokens' is not allowed" in ran.stderr.splitlines()[-1]


@ALL
def test_throttling(shop: Shop, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the endpoint nor the region is what is wrong."""
    _failing(monkeypatch, "ProvisionedThroughputExceededException")
    assert complaint(shop.run(*command)) == (
        "lambda-once: the table is throttled (ProvisionedThroughputExceededException): retry"
    )


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("command", [["list"], ["find", "12345"]], ids=lambda command: command[0])
def test_shared_options_precede_or_follow_the_command(
    shop: Shop, command: list[str], before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are the same; one of the command line counts more than a variable."""
    monkeypatch.setenv("LAMBDA_ONCE_OUTPUT", "table")
    shop.hold("orders/charge/12345")
    given = ["--table", shop.name, "--output", "jsonl", "--region", "eu-central-1"]
    args = [*given, *command] if before else [*command, *given]
    ran = shop.run(*args, LAMBDA_ONCE_TABLE="other")
    assert [row["lockToken"] for row in lines(ran)] == ["orders/charge/12345"]


def test_the_option_after_the_command_counts(shop: Shop) -> None:
    """Where both are given."""
    shop.hold("orders/charge/12345")
    assert shop.run("--table", "other", "list", "--table", shop.name).exit_code == 1
    assert "'other' does not exist" in complaint(shop.run("--table", shop.name, "list", "--table", "other"))


@BY_COMMAND
def test_an_endpoint_that_is_no_dynamodb(shop: Shop, command: list[str]) -> None:
    """Its page is not quoted."""
    with strangers.page(200, "text/html", b"<html>It works!</html>") as address:
        message = complaint(shop.run(*command, "--endpoint-url", address))
    assert "answered by something that is not DynamoDB" in message
    assert "<html>" not in message


@pytest.mark.parametrize(
    ("args", "about"),
    [
        (["list", "--older-than", "soon"], "'soon' is not a duration: use 90s, 15m, 2h, 14d or 1w"),
        (["list", "--older-than", "-5m"], "'-5m' is not a duration"),
        (["list", "--limit", "0"], "--limit"),
        (["list", "--limit", "ten"], "--limit"),
        (["list", "--output", "xml"], "--output"),
        (["list", "--everything"], "--everything"),
        (["list", "more"], "more"),
        (["list", "--endpoint-url", "localhost"], "localhost"),
        (["list", "--table", "no such name"], "no such name"),
        (["find", ""], "TEXT is empty"),
        (["find", "x", "--segments", "65"], "--segments"),
        (["show"], "TOKEN"),
        (["show", ""], "TOKEN is empty"),
        (["show", "1", "--name", "charge"], "--name requires --service"),
        (["show", "1", "--scope", "acme"], "--scope requires"),
        (["show", "", "--service", "orders", "--name", "charge"], "TOKEN is empty"),
        (["show", "1", "--service", "", "--name", "charge"], "service"),
        (["show", "1", "--retention", "-1"], "--retention"),
        (["watch", "--interval", "0"], "--interval"),
        (["watch", "--count", "x"], "--count"),
        (["shwo"], "shwo"),
    ],
)
def test_bad_arguments_are_one_line(shop: Shop, args: list[str], about: str) -> None:
    """Which option, what is wrong with it, and exit code 2."""
    assert about in complaint(shop.run(*args))


@pytest.mark.skipif(
    not hasattr(click.exceptions, "NoSuchCommand"), reason="earlier versions of click suggest options only"
)
def test_what_is_misspelt_is_suggested(shop: Shop) -> None:
    """Commands as options."""
    assert "No such command 'shwo'. Did you mean 'show'?" in complaint(shop.run("shwo"))
    assert "Did you mean '--by-function'?" in complaint(shop.run("list", "--by-funktion"))


def test_a_row_of_another_program_is_named(shop: Shop) -> None:
    """Which one, and what to do."""
    shop.put({"lockToken": {"S": "their/own/row"}})
    assert "the row of token their/own/row was not written by lambda-once: attempt is missing" in complaint(
        shop.run("show", "their/own/row")
    )


def test_without_a_command_the_help_is_shown() -> None:
    """With all commands, and exit code 2."""
    ran = CliRunner().invoke(app, [])
    assert ran.exit_code == 2
    assert "Commands:" in ran.output


def test_a_closed_pipe_prints_no_traceback(shop: Shop) -> None:
    """As `head` does: no traceback, and nothing said by Python when it ends."""
    program = "from lambda_once_tools.cli.app import app\napp(['--help'], prog_name='lambda-once')\n"
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert ran.stderr == ""
    assert ran.returncode in (0, 1)


PROGRAM = """
import sys
from lambda_once_tools.cli.app import app
from lambda_once.testing import create_table
from lambda_once.core.lifecycle import State
from lambda_once.stores.row import listed
from tests.kit import descriptions, tables
from tests.kit.strict.mounted import mounted
descriptions.read_once()
with mounted():
    client = tables.client()
    create_table(client, "tokens")
    at = {"S": "2026-11-20T10:12:00.000Z"}
    row = {"attempt": {"S": "a"}, "fence": {"N": "1"}, "lockedBy": {"S": "f/r"}, "status": {"S": "error"},
           "created": at, "expectedCompletion": at}
    for n in range(3):
        token = f"orders/charge/{n}"
        its = {"lockToken": {"S": token}, "listed": {"S": listed(State.HELD, token)}}
        client.put_item(TableName="tokens", Item=its | row)
    app(sys.argv[1:], prog_name="lambda-once")
"""


def _run(stdout: Any, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *args, "--table", "tokens"]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_a_broken_pipe_has_an_exit_code_of_its_own(form: str) -> None:
    """Neither "not found" nor "something is stuck": the code that a shell gives a broken pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    ran = _run(writing, "list", "--output", form)
    os.close(writing)
    assert (ran.returncode, "Traceback" in ran.stderr, "Exception" in ran.stderr) == (141, False, False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_a_full_disk_is_one_line(form: str) -> None:
    """Exit code 2, and no traceback."""
    with Path("/dev/full").open("w") as full:
        ran = _run(full, "list", "--output", form)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1] == "lambda-once: cannot write the output: No space left on device"
    assert "Traceback" not in ran.stderr


def test_the_shell_completes_commands() -> None:
    """As docs/cli.md says how to switch it on."""
    environment = os.environ | {
        "_LAMBDA_ONCE_COMPLETE": "bash_complete",
        "COMP_WORDS": "lambda-once re",
        "COMP_CWORD": "1",
    }
    program = "from lambda_once_tools.cli import main\nmain()\n"
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert {line.partition(",")[2] for line in ran.stdout.splitlines()} == {"resolve", "redrive"}


ABSENT = {
    "show": ["show", "nope"],
    "show of a token": ["show", "orders/charge/nope"],
    "show of a function": ["show", "--service", "orders", "--name", "charge", "nope"],
    "find": ["find", "nope"],
    "resolve": ["resolve", "orders/charge/nope", "--done", *SURE],
    "forget": ["forget", "orders/charge/nope", *SURE],
}


@pytest.mark.parametrize("command", ABSENT.values(), ids=ABSENT.keys())
def test_a_token_that_is_not_there_is_exit_code_1(shop: Shop, command: list[str]) -> None:
    """A script can tell it from a wrong table, where it cannot know: exit code 2."""
    shop.complete("orders/charge/1")
    assert shop.run(*command).exit_code == 1
    assert shop.run(*command, "--table", "no-such-table").exit_code == 2


def test_a_search_that_was_cut_cannot_tell(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the table may have it: exit code 2."""
    shop.complete("orders/charge/1")
    monkeypatch.setattr(search, "PAGES_OF_SHOW", 3)
    for command in (["find", "nope", "--segments", "4", "--max-pages", "3"], ["show", "nope"]):
        ran = shop.run(*command)
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert "not read to its end" in ran.stderr
