"""The client that is made, and where crt's is declined."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import boto3
import pytest

from lambda_once.dynamodb.client import client_named, declined, endpoint_url, new_client
from lambda_once.dynamodb.transport import Transport
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
    "no credentials in the environment": {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
    "SnapStart": {
        "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9001/2021-08-23/credentials",
    },
    "Mexico": {"AWS_DEFAULT_REGION": "mx-central-1"},
}
DECLINED: dict[str, tuple[dict[str, str], str]] = {
    "a password in the URL": (
        {"AWS_ENDPOINT_URL": "http://ann:geheim@host"},
        "the endpoint is not a plain URL",
    ),
    "a profile": ({"AWS_PROFILE": "work"}, "AWS_PROFILE is set"),
    "a role": ({"AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}, "AWS_ROLE_ARN is set"),
    "a wrapper": ({"AWS_LAMBDA_EXEC_WRAPPER": "/opt/otel"}, "AWS_LAMBDA_EXEC_WRAPPER is set"),
    "a proxy": ({"https_proxy": "http://proxy:3128"}, "HTTPS_PROXY is set"),
    "a proxy for http": ({"HTTP_PROXY": "http://proxy:3128"}, "HTTP_PROXY is set"),
    "FIPS": ({"AWS_USE_FIPS_ENDPOINT": "TRUE"}, "AWS_USE_FIPS_ENDPOINT is set"),
    "dual stack": ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "AWS_USE_DUALSTACK_ENDPOINT is set"),
    "account endpoints": (
        {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "required"},
        "AWS_ACCOUNT_ID_ENDPOINT_MODE is required",
    ),
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
TRACERS = [
    "aws_xray_sdk",
    "ddtrace",
    "elasticapm",
    "lumigo_tracer",
    "moto",
    "newrelic",
    "opentelemetry.instrumentation.botocore",
    "opentelemetry.instrumentation.urllib3",
    "sentry_sdk",
    "vcr",
]


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_is_used(name: str) -> None:
    """Credentials of any kind, and a region or an endpoint."""
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
    [(None, "", ""), (None, "crt", "crt"), ("crt", "", "crt"), ("", "crt", "")],
)
def test_who_asks_for_it(given: str | None, variable: str, client: str) -> None:
    """`Once(client=)` goes before LAMBDA_ONCE_CLIENT; without either it is boto3's client."""
    assert client_named(given, {"LAMBDA_ONCE_CLIENT": variable}) == client


@pytest.mark.parametrize(
    ("given", "variable", "source"),
    [
        ("boto3", "crt", "client=boto3"),
        ("lean", "", "client=lean"),
        (None, "botocore", "LAMBDA_ONCE_CLIENT=botocore"),
        (None, "CRT", "LAMBDA_ONCE_CLIENT=CRT"),
    ],
)
def test_an_unknown_word(given: str | None, variable: str, source: str) -> None:
    """The message says where it was found."""
    with pytest.raises(Misconfigured, match=f"^{source} is unknown: use crt, or pass a boto3 client$"):
        client_named(given, {"LAMBDA_ONCE_CLIENT": variable})


# ---------------------------------------------------------------- boto3's default session


@pytest.fixture
def sessionless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No default session is set up; afterwards the one there was is back."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


@pytest.mark.usefixtures("sessionless")
def test_the_client_is_of_the_default_session() -> None:
    """Its region, its credentials and what is registered there count, as for every other client."""
    called: list[str] = []
    boto3.setup_default_session(
        region_name="eu-west-1", aws_access_key_id="theirs", aws_secret_access_key="secret"
    )
    boto3.DEFAULT_SESSION.events.register(
        "before-sign.dynamodb", lambda event_name, **_: called.append(event_name)
    )
    client = new_client()
    client.generate_presigned_url("list_tables")
    assert client.meta.region_name == "eu-west-1"
    assert client._get_credentials().access_key == "theirs"
    assert called == ["before-sign.dynamodb.ListTables"]


@pytest.mark.usefixtures("sessionless")
def test_without_boto3_it_is_botocores(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 is not loaded for it, and the client is the same."""
    monkeypatch.delitem(sys.modules, "boto3")
    client = new_client()
    assert "boto3" not in sys.modules
    assert client.meta.region_name == os.environ["AWS_DEFAULT_REGION"]


def test_how_it_sends() -> None:
    """Once, with limits that fit an invocation; requests that we write are not validated."""
    client = new_client()
    config = client.meta.config
    assert (config.connect_timeout, config.read_timeout, config.retries["total_max_attempts"]) == (1, 3, 1)
    assert (config.tcp_keepalive, config.max_pool_connections) == (True, 10)
    assert config.user_agent.startswith("lambda-once Botocore/")
    assert client.generate_presigned_url("get_item", Params={})


@pytest.mark.parametrize(
    ("region", "url", "given"),
    [
        ("eu-central-1", None, False),
        ("cn-north-1", None, False),
        ("eu-central-1", "https://dynamodb.eu-central-1.amazonaws.com:443", False),
        ("eu-central-1", "https://vpce-1-a.dynamodb.eu-central-1.vpce.amazonaws.com", False),
        ("eu-central-1", "http://dynamodb.eu-central-1.amazonaws.com:80", False),
        ("eu-central-1", "https://DynamoDB.EU-Central-1.amazonaws.com", False),
        ("eu-central-1", "https://123456789012.ddb.eu-central-1.amazonaws.com", False),
        ("eu-central-1", "http://127.0.0.1:8000", True),
        ("eu-central-1", "http://[::1]", True),
        ("eu-central-1", "https://[::1]:443/path", True),
        ("eu-central-1", "http://dynamodb.eu-central-1.localhost.localstack.cloud:4566", True),
        ("localhost", "http://localhost:8000", True),
        ("localhost", "http://localhost", True),
        ("local", "http://dynamodb.local:8000", True),
    ],
    ids=[
        "AWS'",
        "AWS' in China",
        "AWS' with its port",
        "of a VPC",
        "AWS' with the port of HTTP",
        "AWS' in capitals",
        "of an account",
        "loopback",
        "loopback of IPv6",
        "loopback of IPv6 with a path",
        "a name like AWS'",
        "a region called localhost",
        "the same without a port",
        "a region called local",
    ],
)
def test_whose_endpoint_it_is(region: str, url: str | None, given: bool) -> None:
    """AWS' have the region's name within, and no port of their own; developers call regions as they like."""
    client = boto3.client("dynamodb", region, endpoint_url=url)
    assert Transport(client).is_given is given
