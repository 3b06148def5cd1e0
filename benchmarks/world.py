"""Where a run takes place: the environment of a function, the endpoint, and the conditions."""

from __future__ import annotations

import gc
import os
import platform
import sys
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_LAMBDA_FUNCTION_NAME": "orders",
    "POWERTOOLS_SERVICE_NAME": "orders",
    "POWERTOOLS_METRICS_NAMESPACE": "shop",
    "LAMBDA_ONCE_TABLE": "tokens",
    "IDEMPOTENCY_TABLE": "idempotency",
}
KEPT = ("HOME", "LANG", "PATH", "PYTHONPATH", "TMPDIR", "VIRTUAL_ENV")
"""Variables of the shell that a run needs. Others, such as a proxy, would decline crt's client."""
ENDPOINT = "AWS_ENDPOINT_URL_DYNAMODB"


@contextmanager
def function_environment() -> Iterator[None]:
    """Run the block in a function's environment, without the shell's variables and without output."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update({name: before[name] for name in KEPT if name in before} | ENVIRONMENT)
    leave_out_of_collections()
    try:
        with redirect_stdout(_nowhere()):
            yield
    finally:
        gc.unfreeze()
        os.environ.clear()
        os.environ.update(before)


def leave_out_of_collections() -> None:
    """Leave what is there by now out of the collections between two rounds, until the environment ends."""
    gc.collect()
    gc.freeze()


@cache
def _nowhere() -> TextIO:
    """Return one file for the whole process: a Powertools Logger keeps the output it first met."""
    return Path(os.devnull).open("w", encoding="utf-8")


@contextmanager
def variables(**given: str) -> Iterator[None]:
    """Set the environment variables *given* in the block."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def reaching(endpoint: str) -> AbstractContextManager[None]:
    """Let clients that are made in the block, and what they send later, go to *endpoint*."""
    return variables(**{ENDPOINT: endpoint})


@contextmanager
def engine() -> Iterator[str]:
    """Give the endpoint that DYNAMODB_ENDPOINT names, else start dynoxide."""
    from tests.kit.dynoxide import EngineAbsent, EngineFailed, given_or_running

    try:
        with given_or_running() as endpoint:
            yield endpoint
    except (EngineAbsent, EngineFailed) as error:
        raise SystemExit(str(error)) from None


def conditions() -> dict[str, str]:
    """Return what the figures depend on beside the code."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{os.cpu_count()} × {_processor()}, {platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "aws-lambda-powertools": version("aws-lambda-powertools"),
        "boto3, botocore": f"{version('boto3')}, {version('botocore')}",
        "lambda-once": version("lambda-once"),
        "table": "a stand-in on loopback",
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or sys.platform
