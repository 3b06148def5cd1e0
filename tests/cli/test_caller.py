"""The ARN that STS names for who decides: one short try, and never an error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import boto3
import click
import pytest
from click.testing import CliRunner
from moto import mock_aws

from lambda_once.core.clock import SystemClock
from lambda_once_tools.cli import caller
from lambda_once_tools.cli.app import app
from lambda_once_tools.cli.caller import caller_arn
from lambda_once_tools.cli.options import Access, with_table
from tests.cli.shop import Shop, on_strict, open_shop
from tests.kit.ports import free_port

__all__ = ["open_shop"]

REGION = "eu-central-1"
ANNA = "arn:aws:sts::123456789012:assumed-role/operators/anna"
ANSWER = (
    '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
    f"<Arn>{ANNA}</Arn><UserId>AROA:anna</UserId><Account>123456789012</Account>"
    "</GetCallerIdentityResult></GetCallerIdentityResponse>"
)
DENIED = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"


@contextmanager
def sts(monkeypatch: pytest.MonkeyPatch, status: int, text: str) -> Iterator[list[str]]:
    """Answer on a loopback port as STS would; yield the bodies of the requests."""
    asked: list[str] = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield asked
        server.shutdown()
        serving.join()


def test_sts_names_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request, without a retry."""
    with sts(monkeypatch, 200, ANSWER) as asked:
        assert caller_arn(None, REGION, None) == ANNA
    assert asked == ["Action=GetCallerIdentity&Version=2011-06-15"]


@mock_aws
def test_the_session_of_the_command_is_used() -> None:
    """Its credentials, not those of the environment."""
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": REGION}
    role = "arn:aws:iam::123456789012:role/operators"
    assumed = boto3.client("sts", **keys).assume_role(RoleArn=role, RoleSessionName="bert")["Credentials"]
    session = boto3.Session(
        assumed["AccessKeyId"], assumed["SecretAccessKey"], assumed["SessionToken"], region_name=REGION
    )
    assert caller_arn(None, None, None, session) == "arn:aws:sts::123456789012:assumed-role/operators/bert"


def test_nothing_is_asked_with_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The credentials for dynoxide are anybody's."""
    with sts(monkeypatch, 200, ANSWER) as asked:
        assert caller_arn(None, REGION, "http://127.0.0.1:8000") is None
    assert asked == []


@pytest.mark.parametrize(("status", "text"), [(403, DENIED), (500, ""), (503, "busy"), (200, "no XML")])
def test_whatever_else_is_answered_the_caller_is_unverified(
    monkeypatch: pytest.MonkeyPatch, status: int, text: str
) -> None:
    """A refusal is no error, and is not tried again."""
    with sts(monkeypatch, status, text) as asked:
        assert caller_arn(None, REGION, None) is None
    assert len(asked) == 1


def test_without_credentials_region_profile_or_sts_the_caller_is_unverified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is missing is no error."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{free_port()}")
    assert caller_arn(None, REGION, None) is None
    assert caller_arn("nobody", REGION, None) is None
    assert caller_arn(None, "no such region", None) is None
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    assert caller_arn(None, REGION, None) is None


def test_a_silent_sts_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command goes on after `TRY` seconds, whatever the request does."""
    monkeypatch.setattr(caller, "TRY", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        clock = SystemClock()
        began = clock.now()
        assert caller_arn(None, REGION, None) is None
        assert (clock.now() - began).total_seconds() < 1
    for thread in threading.enumerate():
        if thread.name == "lambda-once-caller":
            thread.join()


@mock_aws
def test_a_command_has_the_caller_of_its_session_unless_an_endpoint_is_given() -> None:
    """`Access.caller` asks when it is called, and not before."""
    seen: list[Access] = []

    @click.command()
    @with_table
    def command(access: Access) -> None:
        seen.append(access)

    for more in ([], ["--endpoint-url", "http://127.0.0.1:8000"]):
        CliRunner().invoke(command, ["--table", "t", "--region", REGION, *more], catch_exceptions=False)
    verified, unverified = (access.caller() for access in seen)
    assert verified is not None
    assert verified.startswith("arn:aws:sts::123456789012:")
    assert unverified is None


DECISIONS = {
    "resolve": ["resolve", "shop/charge/1", "--done"],
    "redrive": ["redrive"],
    "forget": ["forget", "shop/charge/1"],
}
WHY = ("--because", "seen", "--by", "ann", "--yes")


@pytest.mark.parametrize("command", DECISIONS.values(), ids=DECISIONS.keys())
def test_a_decision_through_an_endpoint_is_reported_as_unverified(shop: Shop, command: list[str]) -> None:
    """As an operator has one who reaches the table by PrivateLink: once, and how it is verified."""
    shop.hold("shop/charge/1")
    ran = shop.run(*command, *WHY, AWS_ENDPOINT_URL_DYNAMODB=shop.client.meta.endpoint_url)
    assert ran.exit_code == 0
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("your identity")]
    assert line == (
        "your identity is unverified: --endpoint-url or AWS_ENDPOINT_URL_DYNAMODB is set. To have it "
        "verified, set endpoint_url for dynamodb in a services section of ~/.aws/config instead"
    )


def test_an_endpoint_of_the_aws_configuration_is_verified(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It reaches the same table, and STS names who decides: no line."""
    shop.hold("shop/charge/1")
    config = tmp_path / "config"
    config.write_text(
        f"[default]\nservices = private\n[services private]\n"
        f"dynamodb =\n  endpoint_url = {shop.client.meta.endpoint_url}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    with sts(monkeypatch, 200, ANSWER):
        ran = CliRunner(env={"LAMBDA_ONCE_TABLE": shop.name}).invoke(app, [*DECISIONS["resolve"], *WHY])
    assert (ran.exit_code, "unverified" in ran.stderr, f"ann ({ANNA})" in ran.output) == (0, False, True)


def test_without_an_answer_of_sts_the_decision_is_reported_as_unverified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is written all the same."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{free_port()}")
    with on_strict(monkeypatch) as shop:
        shop.hold("shop/charge/1")
        ran = shop.run(*DECISIONS["resolve"], *WHY)
    assert ran.exit_code == 0
    assert "your identity is unverified: AWS STS did not answer within 2 s" in ran.stderr
