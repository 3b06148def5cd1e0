"""
Which client sends the requests: botocore's, or the lean one where everything is known.

The lean client is opt-in. It takes static credentials from the environment, a region of the standard
partition or an explicit endpoint, and nothing else: where anything is set that only botocore understands, or
a library is loaded that patches botocore to trace or to fake requests, botocore's client sends them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lambda_once.dynamodb.sigv4 import Credentials
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

VARIABLE: Final = "LAMBDA_ONCE_CLIENT"
LEAN, BOTOCORE = "lean", "botocore"

STANDARD_REGION: Final = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-\d+")
"""Regions whose endpoints end in amazonaws.com (botocore's partitions.json, partition "aws")."""

_NOT_UNDERSTOOD: Final = (
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_PROFILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_LAMBDA_EXEC_WRAPPER",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "REQUESTS_CA_BUNDLE",
)
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SWITCHES: Final = ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT")
_FILES: Final = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
_PATCH_BOTOCORE: Final = (
    "aws_xray_sdk",
    "ddtrace",
    "moto",
    "opentelemetry.instrumentation.botocore",
    "sentry_sdk",
)
"""Libraries that see requests only where botocore sends them."""


def wants_lean(given: Any, environ: Mapping[str, str]) -> bool:
    """
    Return whether the lean client is asked for, by ``Once(client="lean")`` or LAMBDA_ONCE_CLIENT.

    Raises `Misconfigured` for a word that names no client.
    """
    source = "client=" if isinstance(given, str) else f"{VARIABLE}="
    word = given if isinstance(given, str) else environ.get(VARIABLE, "") if given is None else ""
    if word not in ("", LEAN, BOTOCORE):
        raise Misconfigured(f"{source}{word} is unknown: use {LEAN} or {BOTOCORE}, or pass a boto3 client")
    return word == LEAN


def declined(environ: Mapping[str, str], modules: Container[str]) -> str | None:
    """Return why the lean client may not be used here, as a clause for a log line; None: it may."""
    return of_environment(environ) or of_modules(modules)


def of_environment(environ: Mapping[str, str]) -> str | None:
    """Return what *environ* has, or lacks, that only botocore understands; None: nothing."""
    if Credentials.of(environ) is None:
        return "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, or not usable"
    for name in _NOT_UNDERSTOOD:
        if environ.get(name):
            return f"{name} is set"
    for name in _PROXIES:
        if environ.get(name) or environ.get(name.lower()):
            return f"{name} is set"
    for name in _SWITCHES:
        if environ.get(name, "").lower() == "true":
            return f"{name} is set"
    if environ.get("AWS_ACCOUNT_ID_ENDPOINT_MODE", "").lower() == "required":
        return "AWS_ACCOUNT_ID_ENDPOINT_MODE is required"
    if environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
        return "credentials change under SnapStart"
    return _of_files(environ) or _of_endpoint(environ)


def _of_files(environ: Mapping[str, str]) -> str | None:
    for name, usual in _FILES.items():
        named = environ.get(name)
        if named != os.devnull and Path(named or usual).expanduser().is_file():
            return f"there is a configuration file, {named or usual}"
    return None


def _of_endpoint(environ: Mapping[str, str]) -> str | None:
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
    for name in _PATCH_BOTOCORE:
        if name in modules:
            return f"{name} is loaded"
    return None


def endpoint_given(environ: Mapping[str, str]) -> str | None:
    """Return the endpoint that the environment names; None: AWS' own."""
    return environ.get("AWS_ENDPOINT_URL_DYNAMODB") or environ.get("AWS_ENDPOINT_URL") or None


def endpoint_url(environ: Mapping[str, str]) -> str:
    """Return DynamoDB's URL for *environ*, which `of_environment` has not declined."""
    return endpoint_given(environ) or f"https://dynamodb.{environ['AWS_DEFAULT_REGION']}.amazonaws.com"
