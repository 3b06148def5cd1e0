"""What every test gets: an environment that reaches no account, and the engine for those that ask for it."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import find, settings, strategies

from lambda_once.core.clock import SystemClock
from lambda_once.core.written import Answer, HandlerCodec
from tests.kit import descriptions, tables
from tests.kit.dynoxide import EngineAbsent, EngineFailed, given_or_running
from tests.kit.equal import compared
from tests.kit.runtime import disagreement
from tests.kit.strict.mounted import batches_sent, mounted
from tests.operations.big_table import big_table

__all__ = ["big_table"]

descriptions.read_once()
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")

HARMLESS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": "testing",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
MEANT_FOR_FUNCTIONS = ("AWS_", "LAMBDA_ONCE_", "LAMBDA_", "POWERTOOLS_", "_X_AMZN_", "LOG_LEVEL", "_HANDLER")
"""Beginnings of the names that Lambda, Powertools, botocore and this package read."""


def pytest_configure() -> None:
    """Move the clock by DAYS_LATER days, if any (`make test-later`): no test may know today's date."""
    days = int(os.environ.get("DAYS_LATER", "0"))
    if days:
        import time_machine

        time_machine.travel(SystemClock().now() + timedelta(days)).start()


def pytest_collection_finish() -> None:
    """
    Leave what was imported out of garbage collections: they would walk through it hundreds of times.

    Hypothesis goes first: under CI it looks, once, for who holds its random generator, and a frozen holder is
    not found on Python 3.14, which tracks an empty dict, too.
    """
    find(strategies.none(), lambda _: True)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send no captured output of what passed from a worker: it costs more than many a test."""
    report = yield
    if report.passed and hasattr(item.config, "workerinput"):
        report.sections.clear()
    return report


@pytest.fixture(autouse=True)
def _harmless_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials are false ones, and no setting of this shell reaches a test."""
    for name in list(os.environ):
        if name.startswith(MEANT_FOR_FUNCTIONS):
            monkeypatch.delenv(name)
    for name, value in HARMLESS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def _written_as_by_the_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a handler of any test answers, Lambda's runtime writes the same of what is stored."""
    answer, found = HandlerCodec.answer, list[str]()

    def compared(codec: HandlerCodec, value: Any) -> Answer:
        written = answer(codec, value)
        problem = disagreement(value, written)
        if problem is not None:
            found.append(problem)
        return written

    monkeypatch.setattr(HandlerCodec, "answer", compared)
    yield
    assert found == []


@pytest.fixture(scope="session")
def engine_endpoint() -> Iterator[str]:
    """
    Give the endpoint of a DynamoDB engine: DYNAMODB_ENDPOINT, else dynoxide.

    Where there is neither, the test is skipped; under CI it fails, for a check
    that silently did not run is worse than one that fails.
    """
    try:
        with given_or_running() as endpoint:
            yield endpoint
    except EngineFailed as failed:
        pytest.fail(str(failed), pytrace=False)
    except EngineAbsent as absent:
        if os.environ.get("CI"):
            pytest.fail(str(absent), pytrace=False)
        pytest.skip(str(absent))


@pytest.fixture(scope="session")
def senders(engine_endpoint: str) -> Iterator[Mapping[str, Any]]:
    """Each client of `tables.CLIENTS`, on the engine: one for all tests that leave its events as they are."""
    made = {name: make(engine_endpoint) for name, make in tables.CLIENTS.items()}
    compared(made[tables.BOTO3])  # with what botocore would have written and read
    yield made
    for client in made.values():
        client.close()


@pytest.fixture
def partiql() -> Iterator[None]:
    """Let stores send batches although moto is loaded; for engines that have them."""
    with batches_sent():
        yield


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def endpoint(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """None for the strict engine, which is mounted, and the address of a real one; both take batches."""
    if request.param == "strict":
        with mounted():
            yield None
    else:
        address: str = request.getfixturevalue("engine_endpoint")
        with batches_sent():
            yield address
