"""
Which client sends the requests, how it is made, and when it is made again.

There are two, both AWS' own. boto3's client is the default. The other sends through AWS' Common Runtime
(`crt`), and is opt-in: where anything is set that only botocore understands, or a library is loaded that
patches botocore to trace or to fake requests, boto3's client sends them.
"""

from __future__ import annotations

import math
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

from lambda_once.core.variables import CRT, client_word
from lambda_once.errors import Misconfigured
from lambda_once.integrations.private import converts_attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

CONNECT, ANSWER = 1.0, 3.0
"""Seconds that our own client waits for a connection, and for a response."""
WORKERS = 10
"""Concurrent requests of one batch; botocore's connection pool has as many connections."""

_MATTER: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_PROFILE",
)
"""Variables that a client is made from."""

VARIABLE: Final = "LAMBDA_ONCE_CLIENT"

STANDARD_REGION: Final = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-\d+")
"""Regions whose endpoints end in amazonaws.com (botocore's partitions.json, partition "aws")."""

_NOT_UNDERSTOOD: Final = (
    "AWS_DEFAULT_PROFILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_LAMBDA_EXEC_WRAPPER",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL")
"""The variables of an endpoint; the first that is set counts."""
_SWITCHES: Final = ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT")
_FILES: Final = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
_PATCH_BOTOCORE: Final = (
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
)
"""Libraries that see requests, or answer them, only where botocore sends them."""


def made_client(name: str | None, declined_by: Callable[[str], object] | None) -> Any:
    """
    Make the client that *name* or the environment asks for.

    *declined_by* is called with the reason if that is crt's and boto3's is made. Raises `Misconfigured` if
    crt's is asked for and awscrt is not installed; of boto3's as `new_client`.
    """
    if client_named(name, os.environ) == CRT:
        reason = declined(os.environ, sys.modules)
        if reason is None:
            return crt_client()
        if declined_by is not None:
            declined_by(f"boto3's client is used instead of crt's: {reason}")
    return own_client()


def surroundings(name: str | None) -> tuple[object, ...]:
    """Return what the client *name* is made for; of the secrets only a hash, which is never shown."""
    variables = hash(tuple(os.environ.get(variable) for variable in _MATTER))
    # A library that patches botocore patches the classes, and so a client of botocore's that there is.
    patched = of_modules(sys.modules) if client_named(name, os.environ) == CRT else None
    return os.getpid(), variables, patched, getattr(sys.modules.get("boto3"), "DEFAULT_SESSION", None)


def client_named(given: str | None, environ: Mapping[str, str]) -> str:
    """
    Return CRT if ``Once(client=)`` or LAMBDA_ONCE_CLIENT has it; an empty str: boto3's client.

    Raises `Misconfigured` for a word that names no client.
    """
    if given is not None:
        return client_word("client", given)
    return client_word(VARIABLE, environ.get(VARIABLE, ""))


def declined(environ: Mapping[str, str], modules: Container[str]) -> str | None:
    """Return why crt's client may not be used here, as a clause for a log line; None: it may."""
    return of_environment(environ) or of_modules(modules)


def of_environment(environ: Mapping[str, str]) -> str | None:
    """Return what *environ* has, or lacks, that only botocore understands; None: nothing."""
    names = (
        *(name for name in _NOT_UNDERSTOOD if environ.get(name)),
        *(name for name in _PROXIES if environ.get(name) or environ.get(name.lower())),
        *(name for name in _SWITCHES if environ.get(name, "").lower() == "true"),
    )
    if names:
        return f"{names[0]} is set"
    if environ.get("AWS_ACCOUNT_ID_ENDPOINT_MODE", "").lower() == "required":
        return "AWS_ACCOUNT_ID_ENDPOINT_MODE is required"
    for name, usual in _FILES.items():
        named = environ.get(name)
        if named != os.devnull and Path(named or usual).expanduser().is_file():
            return f"there is a configuration file, {named or usual}"
    region = environ.get("AWS_DEFAULT_REGION", "")
    if not region:
        return "AWS_DEFAULT_REGION is not set"
    given = endpoint_given(environ)
    if given is None:
        is_standard = STANDARD_REGION.fullmatch(region) is not None
        return None if is_standard else f"region {region} is not in the standard partition"
    return None if _is_plain(given) else "the endpoint is not a plain URL"


def _is_plain(url: str) -> bool:
    """Return whether *url* has a scheme of HTTP, a host and perhaps a port, and nothing else."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:  # brackets or a port that are none
        return False
    more = parts.path.strip("/") or parts.query or parts.username
    return parts.scheme in ("http", "https") and bool(host) and not more


def of_modules(modules: Container[str]) -> str | None:
    """Return which of *modules* must see requests through botocore; None: none does."""
    return next((f"{name} is loaded" for name in _PATCH_BOTOCORE if name in modules), None)


def endpoint_given(environ: Mapping[str, str]) -> str | None:
    """Return the endpoint that the environment names; None: AWS' own."""
    return next(filter(None, map(environ.get, ENDPOINTS)), None)


def unmakeable(error: ValueError, environ: Mapping[str, str]) -> str:
    """Return why botocore makes no client, for a person; not the endpoint, which may have a password."""
    if not str(error).startswith("Invalid endpoint"):
        return f"no client for DynamoDB can be made: {error}"
    name = next((name for name in ENDPOINTS if environ.get(name)), "the endpoint")
    return f"{name} is no URL of an endpoint: give one such as http://localhost:8000, or unset it"


def endpoint_url(environ: Mapping[str, str]) -> str:
    """Return DynamoDB's URL for *environ*, which `of_environment` has not declined."""
    return endpoint_given(environ) or f"https://dynamodb.{environ['AWS_DEFAULT_REGION']}.amazonaws.com"


# ---------------------------------------------------------------- made here, or given


def crt_client() -> Any:
    """Make crt's client for the environment, with the limits of `new_client`. Raises `Misconfigured`."""
    try:
        from lambda_once.dynamodb.crt import CrtClient
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "awscrt":
            raise
        raise Misconfigured("client=crt needs awscrt: pip install 'lambda-once[crt]'") from error
    region = os.environ["AWS_DEFAULT_REGION"]
    url = endpoint_url(os.environ)
    return CrtClient(url, region, connect=CONNECT, answer=ANSWER, connections=WORKERS)


def new_client() -> Any:
    """
    Return boto3's low-level client for an invocation.

    If the program has loaded boto3, it is what ``boto3.client`` makes, of the default session. If not, boto3
    is not loaded for it, which a cold start would pay for. Raises botocore's NoRegionError without a region.
    """
    return _made("dynamodb")


def own_client() -> Any:
    """Return what `new_client` does, checked (`guarded`), and with its bodies written and read at once."""
    return guarded(new_client(), is_own=True)


def new_streams_client(region: str | None, endpoint: str | None) -> Any:
    """
    Return boto3's client for DynamoDB Streams, with the limits of `new_client`; None: botocore's own choice.

    Without botocore's validation: engines have shard ids that are shorter than AWS'.
    """
    return _made("dynamodbstreams", region_name=region, endpoint_url=endpoint)


def _made(service: str, **where: Any) -> Any:
    """Return a client with time limits for an invocation, not botocore's minute; it saves processor time."""
    import platform

    import botocore.session
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT,
        read_timeout=ANSWER,
        retries={"total_max_attempts": 1},  # `Transport.call` retries: it knows the deadline
        parameter_validation=False,
        tcp_keepalive=True,
        max_pool_connections=WORKERS,
        # A constant: botocore before 1.44.8 built its own twice a request, a quarter of a request's CPU.
        user_agent=f"lambda-once Botocore/{botocore.__version__} Python/{platform.python_version()}",
    )
    boto3 = sys.modules.get("boto3")
    if boto3 is not None:
        return boto3.client(service, config=config, **where)
    return botocore.session.get_session().create_client(service, config=config, **where)


def guarded(client: Any, *, is_own: bool = False) -> Any:
    """Return *client*, which raises for a response that is broken, or not DynamoDB's. *is_own*: made here."""
    from lambda_once.dynamodb.errors import only_dynamodb

    return only_dynamodb(client, is_own=is_own)


def longest_try(client: Any) -> float:
    """
    Return how many seconds a request of *client* may take by its own limits.

    For a client that retries by itself, as botocore's do by default, there is no limit.
    boto3's limits hold for each address and each read, and for no look-up. Guarantee 11 does not cover what
    lasts longer: in a thread, requests would be hidden from tracers, which look at the caller's.
    """
    config = getattr(getattr(client, "meta", None), "config", None)
    if config is None:  # crt's, or a test's double
        return CONNECT + ANSWER
    retries = getattr(config, "retries", None) or {}
    if retries.get("total_max_attempts") != 1:
        return math.inf
    limits = (config.connect_timeout, config.read_timeout)
    return sum(math.inf if limit is None else float(limit) for limit in limits)  # None: no limit


def low_level(client: Any) -> Any:
    """Return *client*. Raises `Misconfigured` for a boto3 resource or Table, and the client of either."""
    resources = sys.modules.get("boto3.resources.base")  # loaded if there is one
    if resources is not None and isinstance(client, resources.ServiceResource):
        raise Misconfigured(
            f"client= is a boto3 resource ({type(client).__name__}): give a low-level client, boto3.client(…)"
        )
    events = getattr(getattr(client, "meta", None), "events", None)
    if events is not None and converts_attributes(events):  # it takes the attributes {"S": "x"} for maps
        raise Misconfigured(
            "client= is the client of a boto3 resource, which converts attributes itself: give a client of"
            " its own, boto3.client('dynamodb')"
        )
    return client


# ---------------------------------------------------------------- forks


class Forgets(Protocol):
    """Has connections or threads, which a forked process must not use: they are its parent's."""

    def _forget(self) -> None:
        """Begin anew in a forked process; close nothing, and wait for no lock."""
        ...


_OF_THIS_PROCESS: WeakSet[Forgets] = WeakSet()


def forget_in_child(owner: Forgets) -> None:
    """Have *owner* forget in each process that is forked while it lives."""
    _OF_THIS_PROCESS.add(owner)


def _forget_all() -> None:
    for owner in list(_OF_THIS_PROCESS):
        owner._forget()  # noqa: SLF001  (no method for users)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forget_all)
