"""examples/load_balancer.py, to copy: a user gets their own response, and a forged header gets none."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError
from uuid import UUID

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from examples import load_balancer
from tests.decorators.rig import Rig
from tests.decorators.test_callers import is_replay, problem
from tests.sources.samples import Json, alb

KID = str(UUID(int=1))


def encoded(part: bytes) -> str:
    """Base64 as load balancers write it: with padding."""
    return urlsafe_b64encode(part).decode()


class Shop:
    """A handler behind a load balancer that signs; the recipe is shown the balancer's public keys."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.keys = {KID: ec.generate_private_key(ec.SECP256R1())}
        self.ran = 0

        @self.rig.once.api_gateway(name="pay", caller=load_balancer.load_balancer_user)
        def handler(_event: Json, _context: object) -> Json:
            self.ran += 1
            return {"statusCode": 201, "body": f"order {self.ran}"}

        self.handler = handler

    def show(self, address: str, timeout: float) -> BytesIO:
        """Answer the recipe's request for a key."""
        assert timeout
        key = self.keys.get(address.removeprefix(f"{load_balancer.KEYS}/"))
        if key is None:
            raise URLError("403")
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return BytesIO(key.public_key().public_bytes(serialization.Encoding.PEM, form))

    def data(self, sub: str = "alice", **header: Any) -> str:
        """Return the header of a request of *sub*, signed."""
        in_time = int(self.rig.clock.now().timestamp()) + 120
        whole = {"kid": KID, "alg": "ES256", "iss": "https://id.example", "signer": load_balancer.SIGNER}
        parts = ({**whole, "exp": in_time, **header}, {"sub": sub})
        text = ".".join(encoded(json.dumps(part).encode()) for part in parts)
        key = self.keys.get(header.get("kid", KID)) or ec.generate_private_key(ec.SECP256R1())
        pair = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{encoded(b''.join(number.to_bytes(32, 'big') for number in pair))}"

    def ask(self, data: str | None, *, multi: bool = False) -> Any:
        """Send a request with *data* in the header, and always the same key; None: without the header."""
        user = {} if data is None else {"x_amzn_oidc_data": data}
        event = alb(multi=multi, idempotency_key="1", **user)
        return self.handler(event, self.rig.context(f"request-{self.ran}"))


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The recipe as it is, with the shop's keys and clock."""
    shop = Shop()
    monkeypatch.setattr(load_balancer, "urlopen", shop.show)
    clock = SimpleNamespace(time=lambda: shop.rig.clock.now().timestamp())
    monkeypatch.setattr(load_balancer, "time", clock)
    load_balancer.public_key.cache_clear()
    return shop


@pytest.mark.parametrize("multi", [True, False])
def test_each_user_gets_their_own_response(shop: Shop, *, multi: bool) -> None:
    """Under one key, in both forms of event; a duplicate is signed anew."""
    answers = [shop.ask(shop.data(user), multi=multi) for user in ("alice", "bob", "alice")]
    assert [answer["body"] for answer in answers] == ["order 1", "order 2", "order 1"]


def with_claims(data: str, claims: bytes) -> str:
    """Return *data* with other claims under the old signature."""
    head, _, signature = data.split(".")
    return f"{head}.{encoded(claims)}.{signature}"


FORGED: dict[str, Callable[[Shop], str | None]] = {
    "no header": lambda _: None,
    "no JWT": lambda _: "garbage",
    "two values": lambda shop: f"{shop.data()},{shop.data('mallory')}",
    "alg none": lambda shop: shop.data(alg="none"),
    "another signer": lambda shop: shop.data(signer=f"{load_balancer.SIGNER[:-1]}9"),
    "another curve": lambda shop: shop.data(kid=str(UUID(int=2))),
    "kid a path": lambda shop: shop.data(kid="../stranger/key"),
    "claims changed": lambda shop: with_claims(shop.data("bob"), b'{"sub":"alice"}'),
    "no signature": lambda shop: f"{shop.data().rpartition('.')[0]}.",
    "expired": lambda shop: shop.data(exp=int(shop.rig.clock.now().timestamp())),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_header_gets_400(shop: Shop, forge: Callable[[Shop], str | None]) -> None:
    """Never the response, under the very key and name; and no handler runs."""
    shop.keys[str(UUID(int=2))] = ec.generate_private_key(ec.SECP256K1())
    assert shop.ask(shop.data())["statusCode"] == 201
    assert problem(shop.ask(forge(shop))) == (400, "urn:lambda-once:caller-missing")
    assert shop.ran == 1
    assert is_replay(shop.ask(shop.data()))


def test_without_its_key_a_header_is_retried(shop: Shop) -> None:
    """Neither refused nor believed; the next request asks again."""
    key = shop.keys.pop(KID)
    data = shop.data()
    assert problem(shop.ask(data)) == (409, "urn:lambda-once:retry-later")
    assert shop.ran == 0
    shop.keys[KID] = key
    assert shop.ask(shop.data())["statusCode"] == 201
