"""examples/kms_seal.py, to copy, against moto's KMS: what opens, what is refused, what is tried again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from moto import mock_aws

from examples import kms_seal
from lambda_once import MemoryStore, Once, ResultUnavailable, RetryLater
from tests.docs.pages import ROOT, blocks
from tests.kit.tables import CREDENTIALS, REGION

PAGE = ROOT / "docs" / "sealing.md"


@dataclass
class Kms:
    """A client of KMS that notes its calls and may fail."""

    client: Any
    asked: list[str] = field(default_factory=list)
    contexts: list[dict[str, str]] = field(default_factory=list)
    fails: Exception | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(**parameters: Any) -> Any:
            self.asked.append(name)
            self.contexts.append(parameters["EncryptionContext"])
            if self.fails is not None:
                raise self.fails
            return getattr(self.client, name)(**parameters)

        return ask

    def new_key(self) -> str:
        arn: str = self.client.create_key()["KeyMetadata"]["Arn"]
        return arn


@dataclass
class Shop:
    """Environments of one function, each with its own seal, on one table and KMS."""

    kms: Kms
    key: str
    store: MemoryStore = field(default_factory=MemoryStore)
    ran: list[str] = field(default_factory=list)

    def environment(
        self, key: str | None = None, service: str = "shop", **options: Any
    ) -> Callable[[str], str]:
        """Return the function of a new environment, under *key*."""
        seal = kms_seal.KmsSeal(self.kms, key or self.key, service=service, **options)
        once = Once(store=self.store, service="shop", seal=(seal.encrypt, seal.decrypt), seal_required=True)

        @once.function(key="order", name="charge")
        def charge(order: str) -> str:
            self.ran.append(order)
            return f"receipt of {order}"

        return charge


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the recipe, in seconds."""
    seconds = [1_800_000_000.0]
    monkeypatch.setattr(kms_seal, "time", SimpleNamespace(time=lambda: seconds[0]))
    return seconds


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop whose key is in moto's KMS."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        kms = Kms(boto3.client("kms", region_name=REGION))
        yield Shop(kms, kms.new_key())


def refusal(code: str, status: int = 400) -> ClientError:
    """Return what botocore raises for an answer of KMS."""
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "Decrypt")


def test_environments_open_what_others_sealed(shop: Shop) -> None:
    """By the two actions that the page's policy allows, under its context; the work runs once."""
    (text,) = (block.text for block in blocks(PAGE) if block.language == "json")
    statement = json.loads(text)
    first, second = shop.environment(), shop.environment()
    assert [each(order) for order in "12" for each in (first, second)] == [
        *["receipt of 1"] * 2,
        *["receipt of 2"] * 2,
    ]
    assert shop.ran == ["1", "2"]
    assert shop.kms.asked == ["generate_data_key", "generate_data_key", "decrypt"]
    assert statement["Action"] == ["kms:GenerateDataKey", "kms:Decrypt"]
    condition = {f"kms:EncryptionContext:{name}": value for name, value in shop.kms.contexts[0].items()}
    assert statement["Condition"] == {"StringEquals": condition}


def test_another_key_service_or_token_opens_nothing(shop: Shop) -> None:
    """KMS would open the first: its answer names the key, which is compared. Nothing runs again."""
    shop.environment(shop.kms.new_key())("1")
    shop.environment(service="billing")("2")
    function = shop.environment()
    function("3")
    function("4")
    three, four = (shop.store.records[f"shop/charge/{order}"] for order in "34")
    shop.store.records[three.token] = three._replace(stored=four.stored)
    for order in "123":
        with pytest.raises(ResultUnavailable, match="cannot be opened"):
            function(order)
    assert shop.ran == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (refusal("ThrottlingException"), RetryLater),
        (refusal("KeyUnavailableException", 500), RetryLater),
        (EndpointConnectionError(endpoint_url="https://kms"), RetryLater),
        (ReadTimeoutError(endpoint_url="https://kms"), RetryLater),
        (refusal("DisabledException"), ResultUnavailable),
    ],
    ids=["throttled", "unavailable", "unreachable", "silent", "disabled"],
)
def test_a_result_is_there_once_kms_answers_again(
    shop: Shop, trouble: Exception, error: type[Exception]
) -> None:
    """A duplicate comes back while KMS does not answer; a key that may not be used is no retry."""
    shop.environment()("1")
    other = shop.environment()
    shop.kms.fails = trouble
    with pytest.raises(error):
        other("1")
    shop.kms.fails = None
    assert other("1") == "receipt of 1"
    assert shop.ran == ["1"]


def test_in_an_outage_an_old_data_key_goes_on(shop: Shop, now: list[float]) -> None:
    """It is kept until KMS answers; a new environment, without one, runs nothing."""
    function = shop.environment()
    now[0] += kms_seal.HOUR
    shop.kms.fails = refusal("ThrottlingException")
    assert [function("1"), function("1")] == ["receipt of 1", "receipt of 1"]
    with pytest.raises(ClientError):
        shop.environment()
    shop.kms.fails = None
    now[0] += 60
    assert [function("2"), function("1")] == ["receipt of 2", "receipt of 1"]
    assert shop.kms.asked.count("generate_data_key") == 4
    assert shop.ran == ["1", "2"]


def test_after_a_rotation_old_rows_open(shop: Shop) -> None:
    """Under a new key, while the old one is given too."""
    shop.environment()("1")
    new = shop.kms.new_key()
    assert shop.environment(new, old_keys=(shop.key,))("1") == "receipt of 1"
    with pytest.raises(ResultUnavailable):
        shop.environment(new)("1")
