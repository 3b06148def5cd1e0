"""examples/kms_seal.py, against moto's KMS: what is refused, what is tried again, what opens."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from moto import mock_aws

from lambda_once import MemoryStore, Once, ResultUnavailable, RetryLater
from lambda_once.core.results import SEALED, Inline
from tests.docs.pages import ROOT, blocks
from tests.kit.tables import CREDENTIALS, REGION

PAGE = ROOT / "docs" / "sealing.md"
RECIPE = ROOT / "examples" / "kms_seal.py"


class Kms:
    """A client of KMS that notes its calls and may fail."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.asked: list[str] = []
        self.contexts: list[dict[str, str]] = []
        self.fails: Exception | None = None

    def _ask(self, name: str, **parameters: Any) -> Any:
        self.asked.append(name)
        self.contexts.append(parameters["EncryptionContext"])
        if self.fails is not None:
            raise self.fails
        return getattr(self.client, name)(**parameters)

    def generate_data_key(self, **parameters: Any) -> Any:
        return self._ask("generate_data_key", **parameters)

    def decrypt(self, **parameters: Any) -> Any:
        return self._ask("decrypt", **parameters)


@dataclass
class Shop:
    """Environments of one function, each with its own seal, on one table, KMS and clock."""

    page: ModuleType
    kms: Kms
    key: str
    store: MemoryStore = field(default_factory=MemoryStore)
    ran: list[str] = field(default_factory=list)

    def environment(
        self, key: str | None = None, service: str = "shop", **options: Any
    ) -> Callable[[str], str]:
        """Return the function of a new environment, under *key*."""
        seal = self.page.KmsSeal(self.kms, key or self.key, service=service, **options)
        once = Once(store=self.store, service="shop", seal=(seal.encrypt, seal.decrypt), seal_required=True)

        @once.function(key="order", name="charge")
        def charge(order: str) -> str:
            self.ran.append(order)
            return f"receipt of {order}"

        return charge

    def new_key(self) -> str:
        arn: str = self.kms.client.create_key()["KeyMetadata"]["Arn"]
        return arn


@pytest.fixture
def now() -> list[float]:
    """The time of the recipe, in seconds."""
    return [1_800_000_000.0]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, now: list[float]) -> Iterator[Shop]:
    """A shop whose key is in moto's KMS."""
    page = ModuleType("kms_seal")
    exec(compile(RECIPE.read_text(encoding="utf-8"), str(RECIPE), "exec"), page.__dict__)
    monkeypatch.setattr(page, "time", type("Clock", (), {"time": staticmethod(lambda: now[0])}))
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        kms = Kms(boto3.client("kms", region_name=REGION))
        yield Shop(page, kms, kms.client.create_key()["KeyMetadata"]["Arn"])


def refusal(code: str, status: int = 400) -> ClientError:
    """Return what botocore raises for an answer of KMS."""
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "Decrypt")


def test_environments_open_what_others_sealed(shop: Shop) -> None:
    """One request for the data key of each, and one to open another's; the work runs once."""
    first, second = shop.environment(), shop.environment()
    assert [first("1"), first("2"), first("1"), second("1"), second("2")] == [
        *("receipt of 1", "receipt of 2", "receipt of 1", "receipt of 1", "receipt of 2")
    ]
    assert shop.ran == ["1", "2"]
    assert shop.kms.asked == ["generate_data_key", "generate_data_key", "decrypt"]


def test_kms_and_its_trail_get_no_token(shop: Shop) -> None:
    """CloudTrail has the encryption context: it is the service alone."""
    shop.environment()("1")
    shop.environment()("1")
    assert shop.kms.contexts == [{"service": "shop"}] * 3


def test_another_key_opens_nothing(shop: Shop) -> None:
    """KMS would: its answer names the key, which is compared. Nothing runs again."""
    shop.environment(shop.new_key())("1")
    with pytest.raises(ResultUnavailable, match="cannot be opened"):
        shop.environment()("1")
    assert shop.ran == ["1"]


def test_twin_that_trusts_each_key(shop: Shop) -> None:
    """What anybody sealed under a key of his own opens where the role may use it."""
    theirs = shop.new_key()
    shop.environment(theirs)("1")
    assert shop.environment(old_keys=(theirs,))("1") == "receipt of 1"


def test_another_service_opens_nothing(shop: Shop) -> None:
    """Its encryption context is another, though the key is the same."""
    shop.environment(service="billing")("1")
    with pytest.raises(ResultUnavailable, match="cannot be opened"):
        shop.environment()("1")


def test_another_token_opens_nothing(shop: Shop) -> None:
    """The token is associated data: AES-GCM itself refuses what was moved."""
    function = shop.environment()
    function("1")
    function("2")
    one, two = (shop.store.records[f"shop/charge/{order}"] for order in "12")
    shop.store.records[one.token] = one._replace(stored=two.stored)
    with pytest.raises(ResultUnavailable, match="InvalidTag"):
        function("1")


@pytest.mark.parametrize(
    "trouble",
    [
        refusal("ThrottlingException"),
        refusal("KMSInternalException", 500),
        refusal("DependencyTimeoutException", 503),
        refusal("KeyUnavailableException", 500),
        EndpointConnectionError(endpoint_url="https://kms"),
        ReadTimeoutError(endpoint_url="https://kms"),
    ],
    ids=["throttled", "internal", "timeout", "unavailable", "unreachable", "silent"],
)
def test_a_duplicate_comes_back_while_kms_does_not_answer(shop: Shop, trouble: Exception) -> None:
    """The result is neither lost nor unavailable: it is there later."""
    shop.environment()("1")
    other = shop.environment()
    shop.kms.fails = trouble
    with pytest.raises(RetryLater, match="retry later"):
        other("1")
    shop.kms.fails = None
    assert other("1") == "receipt of 1"
    assert shop.ran == ["1"]


def test_a_duplicate_comes_back_while_kms_cannot_be_reached(shop: Shop) -> None:
    """By botocore's own errors: nothing listens there."""
    shop.environment()("1")
    other = shop.environment()
    client = shop.kms.client
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"http://127.0.0.1:{server.getsockname()[1]}"
    limits = Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})
    shop.kms.client = boto3.client("kms", region_name=REGION, endpoint_url=closed, config=limits)
    with pytest.raises(RetryLater, match="KMS did not answer"):
        other("1")
    shop.kms.client = client
    assert other("1") == "receipt of 1"


@pytest.mark.parametrize("code", ["AccessDeniedException", "DisabledException", "InvalidCiphertextException"])
def test_a_key_that_may_not_be_used_is_no_retry(shop: Shop, code: str) -> None:
    """Nor is it for ever: the result is there once the key may be used again."""
    shop.environment()("1")
    other = shop.environment()
    shop.kms.fails = refusal(code)
    with pytest.raises(ResultUnavailable, match="cannot be opened"):
        other("1")
    shop.kms.fails = None
    assert other("1") == "receipt of 1"


def test_bytes_that_are_no_seal_ask_for_nothing_again(shop: Shop) -> None:
    """Too short for a data key: unavailable, not a retry for ever."""
    function = shop.environment()
    function("1")
    (row,) = shop.store.records.values()
    for planted in (b"", b"\0\0", b"\0\5abc", b"\xff\xff" + b"a" * 60):
        shop.store.records[row.token] = row._replace(stored=Inline(SEALED + planted))
        with pytest.raises(ResultUnavailable, match="cannot be opened"):
            function("1")
    assert shop.ran == ["1"]


def test_nothing_runs_where_there_is_no_first_data_key(shop: Shop) -> None:
    """It is asked for while the module is imported: Lambda starts the environment again."""
    shop.kms.fails = refusal("ThrottlingException")
    with pytest.raises(ClientError):
        shop.environment()
    assert shop.ran == []


def test_an_old_data_key_goes_on_in_an_outage(shop: Shop, now: list[float]) -> None:
    """After an hour a new one is asked for until KMS answers; results are sealed all the same."""
    function = shop.environment()
    now[0] += shop.page.HOUR
    shop.kms.fails = refusal("ThrottlingException")
    assert [function("1"), function("1"), function("2")] == ["receipt of 1", "receipt of 1", "receipt of 2"]
    assert shop.kms.asked.count("generate_data_key") == 2
    shop.kms.fails = None
    now[0] += 60
    function("3")
    assert shop.kms.asked.count("generate_data_key") == 3
    assert [function("1"), function("3")] == ["receipt of 1", "receipt of 3"]
    assert shop.ran == ["1", "2", "3"]


def test_after_a_rotation_old_rows_open(shop: Shop) -> None:
    """Under a new key, while the old one is given too; without it they are unavailable."""
    shop.environment()("1")
    new = shop.new_key()
    assert shop.environment(new, old_keys=(shop.key,))("1") == "receipt of 1"
    shop.environment(new, old_keys=(shop.key,))("2")
    assert shop.environment(new)("2") == "receipt of 2"
    with pytest.raises(ResultUnavailable):
        shop.environment(new)("1")


def test_the_policy_has_what_the_recipe_asks_for(shop: Shop) -> None:
    """Each action, under the condition of its encryption context."""
    (text,) = (block.text for block in blocks(PAGE) if block.language == "json")
    statement = json.loads(text)
    shop.environment()("1")
    shop.environment()("1")
    actions = {"generate_data_key": "kms:GenerateDataKey", "decrypt": "kms:Decrypt"}
    assert {actions[name] for name in shop.kms.asked} == set(statement["Action"])
    condition = {f"kms:EncryptionContext:{name}": value for name, value in shop.kms.contexts[0].items()}
    assert statement["Condition"] == {"StringEquals": condition}
