"""The stacks as built, a dynoxide with its table, and the SAM CLI between them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from lambda_once.testing import create_table
from tests.kit.dynoxide import EngineAbsent, running_for_containers
from tests.kit.recorded import SHOP

from .image import ROOT, ImageAbsent, provide
from .sam import CREDENTIALS, REGION, Api, SamAbsent, Stack, build, wheel_of_this_tree

Row = dict[str, Any]
TABLE = "TokenTable"
"""Its logical id, which the SAM CLI gives functions as its name."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token table, as the engine has it."""

    client: Any

    def row(self, token: str) -> Row:
        """Return the row of *token*."""
        row: Row = self.client.get_item(
            TableName=TABLE, Key={"lockToken": {"S": token}}, ConsistentRead=True
        )["Item"]
        return row

    def all(self) -> list[Row]:
        """Return every row, parts of results included."""
        rows: list[Row] = self.client.scan(TableName=TABLE, ConsistentRead=True)["Items"]
        return rows


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """
    Dynoxide on a port of its own.

    Never the engine of DYNAMODB_ENDPOINT: the table's name is given by the SAM CLI, and somebody may have one
    of that name there.
    """
    with _skipped_if_absent(), running_for_containers() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def tokens(engine: str) -> Iterator[Tokens]:
    """The table of template.yaml, under the name that functions get to see."""
    session = boto3.Session(*CREDENTIALS.values(), region_name=REGION)
    client: Any = session.client("dynamodb", endpoint_url=engine)
    create_table(client, TABLE)
    stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    client.update_table(TableName=TABLE, StreamSpecification=stream)
    yield Tokens(client)
    client.close()


@pytest.fixture(scope="session")
def sample(engine: str, tokens: Tokens) -> Stack:
    """The sample stack, built for this machine, on that engine and table."""
    return _built(engine, ROOT, "sample")


@pytest.fixture(scope="session")
def shop(engine: str, tokens: Tokens) -> Stack:
    """The shop's stack, likewise."""
    return _built(engine, SHOP, "shop")


@pytest.fixture(scope="session")
def minimal(engine: str, tokens: Tokens) -> Stack:
    """examples/minimal with the wheel of this tree, on the same: its table has the same keys and name."""
    return _built(engine, ROOT / "examples" / "minimal", "minimal", by_wheel=True)


@pytest.fixture(scope="module")
def api(sample: Stack) -> Iterator[Api]:
    """The sample's HTTP API, served on a loopback port."""
    with sample.api() as served:
        yield served


def _built(engine: str, folder: Path, name: str, *, by_wheel: bool = False) -> Stack:
    """Build the stack in *folder*, which has a template and events; the shop takes the sample's, too."""
    events = [folder / "events", *([ROOT / "events"] if folder == SHOP else [])]
    with _skipped_if_absent():
        provide()
        endpoint = f"http://host.docker.internal:{urlsplit(engine).port}"
        built = build(folder, name, wheel_of_this_tree() if by_wheel else None)
        return Stack(folder, built, events, endpoint)


@contextmanager
def _skipped_if_absent() -> Iterator[None]:
    """Skip where something is not installed; under CI fail, as every missing engine does."""
    try:
        yield
    except (EngineAbsent, ImageAbsent, SamAbsent) as absent:
        if os.environ.get("CI"):
            pytest.fail(str(absent), pytrace=False)
        pytest.skip(str(absent))
