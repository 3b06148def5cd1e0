"""examples/load_balancer.py verifies the user of a load balancer: nobody else gets that user's responses."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from examples.load_balancer import SIGNER
from tests.decorators.http_doors import handled, routed
from tests.decorators.rig import Rig
from tests.decorators.test_callers import is_replay, problem
from tests.docs.pages import ROOT
from tests.kit.load_balancer import IN_TIME, KID, KeyServer, LoadBalancer, encoded
from tests.sources.samples import Json, alb

RECIPE = ROOT / "examples" / "load_balancer.py"
OTHER = f"{SIGNER[:-1]}9"


@pytest.fixture
def rig() -> Rig:
    """No store can change what is tested here."""
    return Rig()


@pytest.fixture
def balancer() -> LoadBalancer:
    """The load balancer of SIGNER."""
    return LoadBalancer()


@pytest.fixture
def server(balancer: LoadBalancer) -> Iterator[KeyServer]:
    """What has its keys."""
    server = KeyServer(balancer)
    yield server
    server.close()


class Shop:
    """A handler behind the load balancer, whose keys *server* has; its recipe is *without* a check."""

    def __init__(self, rig: Rig, server: KeyServer, without: str = "") -> None:
        self.rig = rig
        self.ran = 0
        text = RECIPE.read_text(encoding="utf-8")
        assert not without or text.count(without) == 1
        recipe: Any = ModuleType("load_balancer")
        exec(compile(text.replace(without, ""), str(RECIPE), "exec"), recipe.__dict__)
        recipe.KEYS = server.address
        recipe.time = SimpleNamespace(time=lambda: rig.clock.now().timestamp())
        self.user: Callable[[Json], Any] = recipe.load_balancer_user

        @rig.once.api_gateway(name="pay", caller=self.user)
        def handler(_event: Json, _context: object) -> Json:
            self.ran += 1
            return {"statusCode": 201, "body": f"order {self.ran}"}

        self.handler = handler

    def ask(self, data: str | None) -> Any:
        """Send a request with *data* in the header, and always the same key; None: without the header."""
        event = alb(idempotency_key="1")
        if data is not None:
            event["headers"]["x-amzn-oidc-data"] = data
        return self.handler(event, self.rig.context(f"request-{self.ran}"))


@pytest.fixture
def shop(rig: Rig, server: KeyServer) -> Shop:
    """A handler with the recipe as it is."""
    return Shop(rig, server)


def refused(shop: Shop, data: str | None) -> None:
    """Assert that *data* gets 400 under a key whose response is Alice's, and that nothing ran."""
    before = shop.ran
    assert problem(shop.ask(data)) == (400, "urn:lambda-once:caller-missing")
    assert shop.ran == before


def test_the_recipe_is_short() -> None:
    """It is read before it is copied."""
    assert len(RECIPE.read_text(encoding="utf-8").splitlines()) <= 50


# ------------------------------------------------------------------ who gets what


def test_each_user_gets_their_own_response(shop: Shop, balancer: LoadBalancer) -> None:
    """Under one key; a duplicate is signed anew, and its claims may change, but for iss and sub."""
    first = shop.ask(balancer.data("alice"))
    assert (first["statusCode"], first["body"]) == (201, "order 1")
    assert shop.ask(balancer.data("bob"))["body"] == "order 2"
    for again in (
        balancer.data("alice", exp=IN_TIME + 9),
        balancer.data(claims={"sub": "alice", "email": "new@shop.example"}),
    ):
        answer = shop.ask(again)
        assert answer["body"] == "order 1"
        assert is_replay(answer)
    assert shop.ask(balancer.data("alice", iss="https://other.example"))["body"] == "order 3"


@pytest.mark.parametrize("route", [True, False])
@pytest.mark.parametrize("multi", [True, False])
def test_routes_and_both_forms_of_event_are_alike(
    rig: Rig, shop: Shop, balancer: LoadBalancer, *, multi: bool, route: bool
) -> None:
    """`once.route` and `once.api_gateway`, with `headers` or `multiValueHeaders`."""
    ask = (routed if route else handled)(rig, {"caller": shop.user})
    data = balancer.data()
    answers = [
        ask(alb(multi=multi, x_amzn_oidc_data=each, idempotency_key="1")) for each in (data, data, data[:-8])
    ]
    assert [answer["statusCode"] for answer in answers] == [200, 200, 400]


def test_a_new_key_is_fetched(shop: Shop, server: KeyServer, balancer: LoadBalancer) -> None:
    """And each key once; the old one is still good: load balancers change keys one after the other."""
    old = balancer.data("alice")
    shop.ask(old)
    balancer.rotate(str(UUID(int=2)))
    assert is_replay(shop.ask(balancer.data("alice")))
    assert is_replay(shop.ask(old))
    assert server.asked == [f"/keys/{KID}", f"/keys/{UUID(int=2)}"]


# ------------------------------------------------------------------ forged


def with_header(data: str, **changes: Any) -> str:
    """*data* with another header under the old signature."""
    head, claims, signature = data.split(".")
    changed = {**json.loads(urlsafe_b64decode(head)), **changes}
    return ".".join((encoded(json.dumps(changed).encode()), claims, signature))


def with_claims(data: str, text: bytes) -> str:
    """*data* with other claims under the old signature."""
    head, _, signature = data.split(".")
    return f"{head}.{encoded(text)}.{signature}"


def signed_by(own: LoadBalancer, kid: str, curve: ec.EllipticCurve | None = None) -> str:
    """Alice's, by another key that the server shows under *kid*."""
    own.rotate(kid, curve)
    return own.data()


FORGED: list[tuple[str, Callable[[LoadBalancer], str | None]]] = [
    ("no header", lambda _: None),
    ("empty", lambda _: ""),
    ("no JWT", lambda _: "garbage"),
    ("four parts", lambda own: f"{own.data()}.x"),
    ("no base64", lambda own: f"!{own.data()}"),
    ("not ASCII", lambda own: f"é{own.data()}"),
    ("claims no text", lambda own: own.data().replace(".", ".\ud800", 1)),
    ("deep", lambda own: f"{encoded(b'[' * 9000)}.{own.data()[-8:]}.x"),
    ("header a list", lambda own: f"{encoded(b'[]')}.e30=.{own.data()[-8:]}"),
    ("header not UTF-8", lambda _: f"{encoded(bytes([34, 255, 34]))}.e30=.eA=="),
    ("two values", lambda own: f"{own.data('alice')},{own.data('mallory')}"),
    ("alg none", lambda own: with_header(own.data(), alg="none")),
    ("alg HS256", lambda own: with_header(own.data(), alg="HS256")),
    ("alg ES384", lambda own: own.data(alg="ES384")),
    ("no alg", lambda own: own.data(alg=None)),
    ("another curve", lambda own: signed_by(own, str(UUID(int=2)), ec.SECP256K1())),
    ("no kid", lambda own: own.data(kid=None)),
    ("kid a number", lambda own: own.data(kid=5)),
    ("kid a path", lambda own: signed_by(own, "../stranger/key")),
    ("kid and a line", lambda own: own.data(kid=f"{KID}\n")),
    ("kid and a query", lambda own: own.data(kid=f"{KID}?a=b")),
    ("no signer", lambda own: own.data(signer=None)),
    ("another signer", lambda own: own.data(signer=OTHER)),
    ("another says ours", lambda _: LoadBalancer().data()),
    ("signer changed", lambda own: with_header(own.data(signer=OTHER), signer=SIGNER)),
    ("claims changed", lambda own: with_claims(own.data("bob"), b'{"sub":"alice"}')),
    ("no signature", lambda own: f"{own.data().rpartition('.')[0]}."),
    ("short signature", lambda own: own.data()[:-8]),
    ("zeros", lambda own: f"{own.data().rpartition('.')[0]}.{encoded(bytes(64))}"),
    ("expired", lambda own: own.data(exp=IN_TIME - 120)),
    ("no exp", lambda own: own.data(exp=None)),
    ("exp a text", lambda own: own.data(exp=str(IN_TIME))),
    ("exp true", lambda own: own.data(exp=True)),
    ("exp NaN", lambda own: own.data(exp=float("nan"))),
    ("no sub", lambda own: own.data(claims={"email": "a"})),
    ("empty sub", lambda own: own.data("")),
    ("no iss", lambda own: own.data(iss=None)),
    ("claims a list", lambda own: own.data(claims=["alice"])),
]


@pytest.mark.parametrize("forge", [row[1] for row in FORGED], ids=[row[0] for row in FORGED])
def test_a_forged_header_gets_400(
    shop: Shop, balancer: LoadBalancer, forge: Callable[[LoadBalancer], str | None]
) -> None:
    """Never the response, under the very key and name; and no handler runs."""
    alice = balancer.data("alice")
    assert shop.ask(alice)["statusCode"] == 201
    refused(shop, forge(balancer))
    assert is_replay(shop.ask(alice))


TWINS = [
    ("alg ES384", 'header["alg"] == "ES256" and '),
    ("another curve", ' or key.curve.name != "secp256r1"'),
    ("another signer", ' and header["signer"] == SIGNER'),
    ("expired", ' and header["exp"] > time.time()'),
    ("kid a path", ' or not UUID.fullmatch(header["kid"])'),
    ("claims changed", ".verify(pair, signed.encode(), ec.ECDSA(hashes.SHA256()))"),
]
"""The check that refuses each of these; the text of the recipe is whole without it."""


@pytest.mark.parametrize(("forged", "check"), TWINS, ids=[row[0] for row in TWINS])
def test_twin_without_a_check_of_the_load_balancer(
    rig: Rig, server: KeyServer, balancer: LoadBalancer, forged: str, check: str
) -> None:
    """It returns Alice's response to a header that is refused otherwise."""
    twin = Shop(rig, server, without=check)
    twin.ask(balancer.data("alice"))
    assert is_replay(twin.ask(dict(FORGED)[forged](balancer)))


def test_a_header_is_of_no_use_once_it_has_expired(rig: Rig, shop: Shop, balancer: LoadBalancer) -> None:
    """Until then it is its user's, whoever sends it."""
    stolen = balancer.data("alice")
    shop.ask(stolen)
    rig.clock.advance(119)
    assert is_replay(shop.ask(stolen))
    rig.clock.advance(1)
    refused(shop, stolen)


def test_a_header_that_its_text_refutes_fetches_nothing(
    shop: Shop, server: KeyServer, balancer: LoadBalancer
) -> None:
    """No request goes out for another signer, an expired header, or a kid that is no UUID."""
    for data in (balancer.data(signer=OTHER), balancer.data(exp=1), balancer.data(kid="../x"), "a.b.c"):
        refused(shop, data)
    assert server.asked == []


def test_without_its_key_a_header_is_retried(
    rig: Rig, shop: Shop, server: KeyServer, balancer: LoadBalancer
) -> None:
    """Neither refused nor believed; the next request asks again."""
    data, keys = balancer.data(), dict(balancer.keys)
    balancer.keys.clear()
    answer = shop.ask(data)
    assert problem(answer) == (409, "urn:lambda-once:retry-later")
    assert answer["headers"]["Retry-After"] == "1"
    assert (shop.ran, rig.events()) == (0, ["once.in_progress"])
    assert f"no public key {KID} of the load balancer: HTTP Error 403" in str(rig.reported[-1].reason)
    balancer.keys |= keys
    assert shop.ask(data)["statusCode"] == 201
    assert server.asked == [f"/keys/{KID}"] * 2
