"""The lean client is used only where everything is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lambda_once.dynamodb.client import client_named, declined, endpoint_url
from lambda_once.errors import Misconfigured

KNOWN = {
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_SESSION_TOKEN": "token",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    "AWS_CA_BUNDLE": "/some/bundle.pem",
    "REQUESTS_CA_BUNDLE": "/another/bundle.pem",
    "AWS_USE_FIPS_ENDPOINT": "false",
    "AWS_ACCOUNT_ID_ENDPOINT_MODE": "preferred",
}
LOCAL = {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:8000"}

ACCEPTED: dict[str, dict[str, str]] = {
    "Lambda": {},
    "an endpoint": LOCAL,
    "an endpoint in another partition": LOCAL | {"AWS_DEFAULT_REGION": "cn-north-1"},
    "an endpoint for all services": {"AWS_ENDPOINT_URL": "https://proxy.example:8443/"},
    "Mexico": {"AWS_DEFAULT_REGION": "mx-central-1"},
}
NO_CREDENTIALS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, or not usable"
DECLINED: dict[str, tuple[dict[str, str], str]] = {
    "no id": ({"AWS_ACCESS_KEY_ID": ""}, NO_CREDENTIALS),
    "no secret": ({"AWS_SECRET_ACCESS_KEY": ""}, NO_CREDENTIALS),
    "a token with a line break": ({"AWS_SESSION_TOKEN": "token\n"}, NO_CREDENTIALS),
    "a password in the URL": (
        {"AWS_ENDPOINT_URL": "http://ann:geheim@host"},
        "the endpoint is not a plain URL",
    ),
    "a profile": ({"AWS_PROFILE": "work"}, "AWS_PROFILE is set"),
    "a role": ({"AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}, "AWS_ROLE_ARN is set"),
    "a container": (
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/"},
        "AWS_CONTAINER_CREDENTIALS_FULL_URI is set",
    ),
    "a wrapper": ({"AWS_LAMBDA_EXEC_WRAPPER": "/opt/otel"}, "AWS_LAMBDA_EXEC_WRAPPER is set"),
    "a proxy": ({"https_proxy": "http://proxy:3128"}, "HTTPS_PROXY is set"),
    "a proxy for http": ({"HTTP_PROXY": "http://proxy:3128"}, "HTTP_PROXY is set"),
    "FIPS": ({"AWS_USE_FIPS_ENDPOINT": "TRUE"}, "AWS_USE_FIPS_ENDPOINT is set"),
    "dual stack": ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "AWS_USE_DUALSTACK_ENDPOINT is set"),
    "account endpoints": (
        {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "required"},
        "AWS_ACCOUNT_ID_ENDPOINT_MODE is required",
    ),
    "SnapStart": ({"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}, "credentials change under SnapStart"),
    "no region": ({"AWS_DEFAULT_REGION": ""}, "AWS_DEFAULT_REGION is not set"),
    "China": ({"AWS_DEFAULT_REGION": "cn-north-1"}, "region cn-north-1 is not in the standard partition"),
    "GovCloud": (
        {"AWS_DEFAULT_REGION": "us-gov-west-1"},
        "region us-gov-west-1 is not in the standard partition",
    ),
    "a sovereign cloud": (
        {"AWS_DEFAULT_REGION": "eusc-de-east-1"},
        "region eusc-de-east-1 is not in the standard partition",
    ),
    "a region with a host": (
        {"AWS_DEFAULT_REGION": "eu-central-1.evil.example/"},
        "region eu-central-1.evil.example/ is not in the standard partition",
    ),
    "a path": ({"AWS_ENDPOINT_URL": "http://host/dynamodb"}, "the endpoint is not a plain URL"),
    "a wrong port": ({"AWS_ENDPOINT_URL": "http://host:abc"}, "the endpoint is not a plain URL"),
    "no URL": ({"AWS_ENDPOINT_URL": "localhost:8000"}, "the endpoint is not a plain URL"),
    "ignored endpoints": (
        {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is set",
    ),
}
TRACERS = ["aws_xray_sdk", "ddtrace", "moto", "opentelemetry.instrumentation.botocore", "sentry_sdk"]


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_is_used(name: str) -> None:
    """Static credentials, and a region or an endpoint."""
    assert declined(KNOWN | ACCEPTED[name], {"boto3", "opentelemetry"}) is None


@pytest.mark.parametrize("name", DECLINED)
def test_it_is_not_used(name: str) -> None:
    """The reason names the variable, and no value that could be secret."""
    changed, reason = DECLINED[name]
    assert declined(KNOWN | changed, set()) == reason


@pytest.mark.parametrize("module", TRACERS)
def test_it_is_not_used_beside_what_patches_botocore(module: str) -> None:
    """Its requests would be missing from traces, or reach AWS from a test."""
    assert declined(KNOWN, {module}) == f"{module} is loaded"


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
def test_it_is_not_used_beside_a_configuration_file(variable: str, tmp_path: Path) -> None:
    """A file that is not there configures nothing."""
    file = tmp_path / "config"
    assert declined(KNOWN | {variable: str(file)}, set()) is None
    file.touch()
    assert declined(KNOWN | {variable: str(file)}, set()) == f"there is a configuration file, {file}"


def test_the_usual_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a variable, botocore reads the one in the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = {name: value for name, value in KNOWN.items() if name != "AWS_CONFIG_FILE"}
    assert declined(environ, set()) is None
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").touch()
    assert declined(environ, set()) == "there is a configuration file, ~/.aws/config"


def test_the_endpoint() -> None:
    """That of DynamoDB goes before that of all services; without either it is AWS' own."""
    every = {"AWS_ENDPOINT_URL": "http://all"}
    assert endpoint_url(KNOWN) == "https://dynamodb.eu-central-1.amazonaws.com"
    assert endpoint_url(KNOWN | every) == "http://all"
    assert endpoint_url(KNOWN | every | LOCAL) == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("given", "variable", "client"),
    [
        (None, "", ""),
        (None, "lean", "lean"),
        (None, "botocore", "botocore"),
        ("lean", "", "lean"),
        ("botocore", "lean", "botocore"),
    ],
)
def test_who_asks_for_it(given: str | None, variable: str, client: str) -> None:
    """`Once(client=)` goes before LAMBDA_ONCE_CLIENT; without either it is boto3's client."""
    assert client_named(given, {"LAMBDA_ONCE_CLIENT": variable}) == client


@pytest.mark.parametrize(("given", "variable"), [("boto3", "lean"), (None, "Lean")])
def test_an_unknown_word(given: str | None, variable: str) -> None:
    """The message says where it was found."""
    source = "client=boto3" if given else "LAMBDA_ONCE_CLIENT=Lean"
    with pytest.raises(Misconfigured, match=f"{source} is unknown: use lean or botocore"):
        client_named(given, {"LAMBDA_ONCE_CLIENT": variable})
