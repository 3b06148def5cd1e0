"""`alb_user` verifies the user of a load balancer, and nobody else gets that user's responses."""

from __future__ import annotations

import builtins
import json
import socket
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from lambda_once import CallerUnverified, Misconfigured
from lambda_once.core.clock import SystemClock
from lambda_once.dynamodb import client
from lambda_once.integrations import alb as subject
from lambda_once.integrations.alb import KEPT, LARGEST_KEY, LONGEST, MOST_FETCHES, MOST_KEYS, alb_user
from lambda_once.sources.unit import MalformedRequest
from tests.decorators.rig import Rig
from tests.decorators.test_callers import handled, is_replay, problem, routed
from tests.kit.load_balancer import ARN, IN_TIME, KID, KeyServer, LoadBalancer, encoded
from tests.kit.tls import Authority
from tests.sources.samples import Json, alb

OTHER = f"{ARN[:-1]}9"
KEYS = "https://keys.example"


@pytest.fixture
def rig() -> Rig:
    """No store can change what is tested here."""
    return Rig()


@pytest.fixture
def balancer() -> LoadBalancer:
    """The load balancer of ARN."""
    return LoadBalancer()


@pytest.fixture
def server(balancer: LoadBalancer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyServer]:
    """Its key server, whose authority is trusted."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.bundle))
    server = KeyServer(balancer, authority.server("localhost"))
    yield server
    server.close()


class Shop:
    """A handler behind the load balancer."""

    def __init__(self, rig: Rig, address: str, **options: Any) -> None:
        self.rig = rig
        self.ran = 0
        self.user = alb_user(signer=ARN, keys=address)

        @rig.once.api_gateway(name="pay", caller=self.user, **options)
        def handler(_event: Json, _context: object) -> Json:
            self.ran += 1
            return {"statusCode": 201, "body": f"order {self.ran}"}

        self.handler = handler

    def ask(self, data: str | None, key: str = "1", *, seconds: float = 30) -> Any:
        """Send a request with *data* in the header; None: without it."""
        event = alb(idempotency_key=key)
        if data is not None:
            event["headers"]["x-amzn-oidc-data"] = data
        return self.handler(event, self.rig.context(f"request-{self.ran}", seconds))


@pytest.fixture
def shop(rig: Rig, server: KeyServer) -> Shop:
    """A handler whose keys come from *server*."""
    return Shop(rig, server.address)


def refused(shop: Shop, data: str | None, why: str) -> None:
    """Assert that *data* gets 400 under a key whose response is Alice's, and that nothing ran."""
    before = shop.ran
    answer = shop.ask(data)
    assert problem(answer) == (400, "urn:lambda-once:bad-request")
    assert json.loads(answer["body"])["detail"] == f"Nothing was done. The header x-amzn-oidc-data {why}."
    assert shop.ran == before


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
def test_a_route_verifies_too(rig: Rig, server: KeyServer, balancer: LoadBalancer, *, route: bool) -> None:
    """`once.route` and `once.api_gateway` refuse alike, also where the keys cannot be had."""
    user = alb_user(signer=ARN, keys=server.address)
    ask = (routed if route else handled)(rig, {"caller": user})
    server.answers.append((500, b""))
    data = balancer.data()
    answers = [ask(alb(x_amzn_oidc_data=each, idempotency_key="1")) for each in (data, data, data, data[:-8])]
    assert [answer["statusCode"] for answer in answers] == [503, 200, 200, 400]
    assert [is_replay(answer) for answer in answers] == [False, False, True, False]
    assert answers[0]["headers"]["Retry-After"] == "1"


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("sub", ["a", "al", "ali"])
def test_padding_does_not_matter(shop: Shop, balancer: LoadBalancer, sub: str, *, padded: bool) -> None:
    """Load balancers pad base64, RFC 7515 does not; PyJWT 2.14 and 2.15.0 read the latter alone."""
    claims = {"sub": sub}
    assert shop.ask(balancer.data(claims=claims, padded=padded))["statusCode"] == 201


def test_padding_is_signed(shop: Shop, balancer: LoadBalancer) -> None:
    """It is a part of the text that the signature is over."""
    data = balancer.data()
    assert "=." in data
    refused(shop, data.replace("=", ""), "has a wrong signature")


@pytest.mark.parametrize("multi", [True, False])
def test_one_value_twice_is_one(rig: Rig, server: KeyServer, balancer: LoadBalancer, *, multi: bool) -> None:
    """In any form of the event."""
    user, data = alb_user(signer=ARN, keys=server.address), balancer.data()
    event = alb(multi=multi, x_amzn_oidc_data=f"{data},{data}")
    with rig.once.invocation(rig.context()):
        assert user(event) == {"iss": "https://id.example", "sub": "alice"}


def test_the_names_are_those_of_the_claims(rig: Rig, server: KeyServer, balancer: LoadBalancer) -> None:
    """Where they have an issuer, it counts; the header's otherwise."""
    user = alb_user(signer=ARN, keys=server.address)
    data = balancer.data(claims={"sub": "alice", "iss": "https://own.example"})
    with rig.once.invocation(rig.context()):
        assert user(alb(x_amzn_oidc_data=data))["iss"] == "https://own.example"


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


FORGED: list[tuple[str, Callable[[LoadBalancer], str | None], str]] = [
    ("no header", lambda _: None, "is missing"),
    ("empty", lambda _: "", "is missing"),
    ("no JWT", lambda _: "garbage", "is not a JWT of a load balancer"),
    ("four parts", lambda own: f"{own.data()}.x", "is not a JWT of a load balancer"),
    ("no base64", lambda own: f"!{own.data()}", "is not a JWT of a load balancer"),
    ("not ASCII", lambda own: f"é{own.data()}", "is not a JWT of a load balancer"),
    ("claims no text", lambda own: own.data().replace(".", ".\ud800", 1), "is not a JWT of a load balancer"),
    ("too long", lambda own: own.data("a" * LONGEST), "is not a JWT of a load balancer"),
    ("deep", lambda own: f"{encoded(b'[' * 9000)}.{own.data()[-8:]}.x", "is not a JWT of a load balancer"),
    (
        "header a list",
        lambda own: f"{encoded(b'[]')}.e30.{own.data()[-8:]}",
        "is not a JWT of a load balancer",
    ),
    (
        "header not UTF-8",
        lambda _: f"{encoded(bytes([34, 255, 34]))}.e30.x",
        "is not a JWT of a load balancer",
    ),
    ("alg none", lambda own: with_header(own.data(), alg="none"), "is not a JWT of a load balancer"),
    ("alg HS256", lambda own: with_header(own.data(), alg="HS256"), "is not a JWT of a load balancer"),
    ("alg ES384", lambda own: own.data(alg="ES384"), "is not a JWT of a load balancer"),
    ("no alg", lambda own: own.data(alg=None), "is not a JWT of a load balancer"),
    ("crit", lambda own: own.data(crit=["b64"], b64=False), "is not a JWT of a load balancer"),
    ("no kid", lambda own: own.data(kid=None), "is not a JWT of a load balancer"),
    ("kid a number", lambda own: own.data(kid=5), "is not a JWT of a load balancer"),
    ("kid a path", lambda own: own.data(kid="../evil"), "is not a JWT of a load balancer"),
    ("kid and a line", lambda own: own.data(kid=f"{KID}\n"), "is not a JWT of a load balancer"),
    ("kid and a query", lambda own: own.data(kid=f"{KID}?a=b"), "is not a JWT of a load balancer"),
    ("no signer", lambda own: own.data(signer=None), "was signed by another load balancer"),
    ("another signer", lambda own: own.data(signer=OTHER), "was signed by another load balancer"),
    ("another says ours", lambda _: LoadBalancer().data(), "has a wrong signature"),
    (
        "signer changed",
        lambda _: with_header(LoadBalancer(OTHER).data(), signer=ARN),
        "has a wrong signature",
    ),
    ("claims changed", lambda own: with_claims(own.data("bob"), b'{"sub":"alice"}'), "has a wrong signature"),
    ("claims of another", lambda own: swapped(own.data("bob"), own.data("alice")), "has a wrong signature"),
    ("no signature", lambda own: f"{own.data().rpartition('.')[0]}.", "has a wrong signature"),
    ("short signature", lambda own: own.data()[:-8], "has a wrong signature"),
    ("zeros", lambda own: f"{own.data().rpartition('.')[0]}.{encoded(bytes(64))}", "has a wrong signature"),
    ("unknown key", lambda own: own.data(kid=str(UUID(int=9))), "was signed with an unknown key"),
    ("expired", lambda own: own.data(exp=IN_TIME - 120), "has expired"),
    ("no exp", lambda own: own.data(exp=None), "has expired"),
    ("exp a text", lambda own: own.data(exp=str(IN_TIME)), "has expired"),
    ("exp true", lambda own: own.data(exp=True), "has expired"),
    ("exp NaN", lambda own: own.data(exp=float("nan")), "has expired"),
    ("claims expired", lambda own: own.data(claims={"sub": "alice", "exp": 5}), "has expired"),
    ("claims' exp null", lambda own: own.data(claims={"sub": "alice", "exp": None}), "has expired"),
    ("no sub", lambda own: own.data(claims={"email": "a"}), "names no user"),
    ("empty sub", lambda own: own.data(""), "names no user"),
    ("sub a list", lambda own: own.data(["alice"]), "names no user"),
    ("no iss", lambda own: own.data(iss=None), "names no user"),
    ("claims a list", lambda own: own.data(claims=["alice"]), "is not a JWT of a load balancer"),
]


def swapped(data: str, claims: str) -> str:
    """*data* with the claims of another JWT of the same load balancer."""
    head, _, signature = data.split(".")
    return f"{head}.{claims.split('.')[1]}.{signature}"


def both(own: LoadBalancer) -> str:
    """Alice's and Mallory's, both signed."""
    return f"{own.data('alice')},{own.data('mallory')}"


@pytest.mark.parametrize(("forge", "why"), [row[1:] for row in FORGED], ids=[row[0] for row in FORGED])
def test_a_forged_header_gets_400(
    shop: Shop, balancer: LoadBalancer, forge: Callable[[LoadBalancer], str | None], why: str
) -> None:
    """Never the response, under the very key and name; and no handler runs."""
    assert shop.ask(balancer.data("alice"))["statusCode"] == 201
    refused(shop, forge(balancer), why)
    assert is_replay(shop.ask(balancer.data("alice")))


TWINS: list[tuple[str, str, Any, Callable[[LoadBalancer], str]]] = [
    (
        "of the signature",
        "_Keys.have_signed",
        lambda *_: True,
        lambda own: with_claims(own.data("bob"), b'{"sub":"alice"}'),
    ),
    ("of the time", "_check_time", lambda *_: None, lambda own: own.data("alice", exp=1)),
    ("of two values", "oidc_data", lambda values: values["x-amzn-oidc-data"][0].split(",")[0], both),
]


@pytest.mark.parametrize(
    ("guard", "twin", "forge"), [row[1:] for row in TWINS], ids=[row[0] for row in TWINS]
)
def test_twin_without_a_check_of_the_load_balancer(
    shop: Shop,
    balancer: LoadBalancer,
    monkeypatch: pytest.MonkeyPatch,
    guard: str,
    twin: Any,
    forge: Callable[[LoadBalancer], str],
) -> None:
    """It returns Alice's response to a header that is refused otherwise."""
    shop.ask(balancer.data("alice"))
    assert shop.ask(forge(balancer))["statusCode"] == 400
    monkeypatch.setattr(f"lambda_once.integrations.alb.{guard}", twin)
    assert is_replay(shop.ask(forge(balancer)))


def test_twin_that_takes_any_signer(rig: Rig, server: KeyServer, balancer: LoadBalancer) -> None:
    """The keys are the region's: another load balancer of it, anyone's, has valid signatures."""
    shop = Shop(rig, server.address)
    shop.ask(balancer.data("alice"))
    forged = balancer.data("alice", signer=OTHER)
    assert shop.ask(forged)["statusCode"] == 400
    shop.user._signer = OTHER  # type: ignore[attr-defined]
    assert is_replay(shop.ask(forged))


@pytest.mark.parametrize("order", [1, -1])
def test_two_values_get_400(shop: Shop, balancer: LoadBalancer, order: int) -> None:
    """Both verified: handlers differ in which of them they read."""
    shop.ask(balancer.data("alice"))
    refused(shop, ",".join(both(balancer).split(",")[::order]), "was sent with different values: send one")


def test_a_header_is_of_no_use_once_it_has_expired(rig: Rig, shop: Shop, balancer: LoadBalancer) -> None:
    """Until then it is its user's, whoever sends it."""
    stolen = balancer.data("alice")
    shop.ask(stolen)
    rig.clock.advance(119)
    assert is_replay(shop.ask(stolen))
    rig.clock.advance(1)
    refused(shop, stolen, "has expired")


def test_what_is_forged_plainly_makes_nothing_fetch(
    rig: Rig, server: KeyServer, balancer: LoadBalancer
) -> None:
    """No request goes out for a header that its own text refutes."""
    shop = Shop(rig, server.address)
    for data in (balancer.data(signer=OTHER), balancer.data(exp=1), balancer.data(kid="x"), "a.b.c"):
        assert shop.ask(data)["statusCode"] == 400
    assert server.asked == []


def test_the_log_has_the_reason_and_nothing_of_the_header(
    rig: Rig, shop: Shop, balancer: LoadBalancer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither names nor signatures."""
    data = with_claims(balancer.data("alice"), b'{"sub":"mallory"}')
    answer = shop.ask(data)
    shown = capsys.readouterr().out + repr(rig.reported) + repr(answer) + repr(shop.user)
    assert "has a wrong signature" in shown
    assert not any(part in shown for part in ("mallory", *data.split(".")))


# ------------------------------------------------------------------ keys


def test_a_key_is_fetched_once_a_day(rig: Rig, shop: Shop, server: KeyServer, balancer: LoadBalancer) -> None:
    """So that a withdrawn one is not trusted for the life of an environment."""
    shop.ask(balancer.data())
    shop.ask(balancer.data("bob"))
    assert server.asked == [f"/keys/{KID}"]
    rig.clock.advance(KEPT.total_seconds())
    late = IN_TIME + int(KEPT.total_seconds())
    data = balancer.data(exp=late, claims={"sub": "alice"})
    balancer.keys.clear()
    refused(shop, data, "was signed with an unknown key")
    assert server.asked == [f"/keys/{KID}"] * 2


LONG = 4_000_000_000
"""A time that the machine's clock does not reach either."""


def test_first_requests_at_once_fetch_one_key(server: KeyServer, balancer: LoadBalancer) -> None:
    """More of them than a minute has requests: an environment may serve many invocations."""
    user = alb_user(signer=ARN, keys=server.address)
    many = 3 * MOST_FETCHES
    together = Barrier(many)

    def first(n: int) -> str:
        event = alb(x_amzn_oidc_data=balancer.data(exp=LONG, claims={"sub": f"user {n}"}))
        together.wait()
        return user(event)["sub"]

    with ThreadPoolExecutor(many) as pool:
        assert [*pool.map(first, range(many))] == [f"user {n}" for n in range(many)]
    assert server.asked == [f"/keys/{KID}"]


def test_a_forked_process_awaits_no_thread_of_its_parent(server: KeyServer, balancer: LoadBalancer) -> None:
    """Threads are not forked: what was under way would never be answered, nor a lock given back."""
    user: Any = alb_user(signer=ARN, keys=server.address)
    user._keys._asking[KID] = Future()
    user._keys._lock.acquire()
    assert user._keys in client._OF_THIS_PROCESS
    user._keys._forget()  # what each of them does in a forked process
    assert user(alb(x_amzn_oidc_data=balancer.data(exp=LONG, claims={"sub": "alice"})))["sub"] == "alice"


def test_a_new_key_is_fetched(shop: Shop, server: KeyServer, balancer: LoadBalancer) -> None:
    """And the old one is still good: load balancers change keys one after the other."""
    old = balancer.data("alice")
    shop.ask(old)
    balancer.rotate(str(UUID(int=2)))
    assert is_replay(shop.ask(balancer.data("alice")))
    assert is_replay(shop.ask(old))
    assert len(server.asked) == 2


def test_unknown_keys_cannot_make_it_fetch_without_limit(
    rig: Rig, shop: Shop, server: KeyServer, balancer: LoadBalancer
) -> None:
    """Beyond the limit they get 503, whoever has a known key his response, and a minute later all goes on."""
    shop.ask(balancer.data("alice"))
    forged = [with_header(balancer.data("alice"), kid=str(UUID(int=n))) for n in range(100, 200)]
    statuses = [shop.ask(data)["statusCode"] for data in forged]
    assert statuses == [400] * (MOST_FETCHES - 1) + [503] * (101 - MOST_FETCHES)
    assert len(server.asked) == MOST_FETCHES
    assert is_replay(shop.ask(balancer.data("alice")))
    rig.clock.advance(60)
    balancer.rotate(str(UUID(int=2)))
    assert is_replay(shop.ask(balancer.data("alice")))


def test_few_keys_are_remembered(rig: Rig, shop: Shop, server: KeyServer, balancer: LoadBalancer) -> None:
    """The last ones."""
    for n in range(MOST_KEYS + 1):
        balancer.rotate(str(UUID(int=n + 1)))
        shop.ask(balancer.data(exp=IN_TIME + 9_000, claims={"sub": "alice"}))
        rig.clock.advance(30)
    assert len(server.asked) == MOST_KEYS + 1
    balancer.keys[KID] = balancer.keys.pop(KID)
    shop.ask(balancer.data(exp=IN_TIME + 9_000, claims={"sub": "alice"}))
    assert len(server.asked) == MOST_KEYS + 2


def test_keys_of_others_push_out_none_of_ours(
    rig: Rig, shop: Shop, server: KeyServer, balancer: LoadBalancer
) -> None:
    """The server has the keys of all load balancers of the region: what they have not signed is forged."""
    shop.ask(balancer.data(claims={"sub": "alice"}, exp=LONG))
    forged = LoadBalancer().data(claims={"sub": "alice"}, exp=LONG)
    for n in range(100, 100 + MOST_KEYS):
        balancer.rotate(str(UUID(int=n)))  # in truth that of another load balancer
        refused(shop, with_header(forged, kid=str(UUID(int=n))), "has a wrong signature")
        rig.clock.advance(30)
    balancer.keys[KID] = balancer.keys.pop(KID)
    server.asked.clear()
    assert is_replay(shop.ask(balancer.data(claims={"sub": "alice"}, exp=LONG)))
    assert server.asked == []


def unverified(shop: Shop, data: str, reason: str, **options: Any) -> None:
    """Assert that *data* gets 503 with Retry-After, by *reason* in the log, and that nothing ran."""
    answer = shop.ask(data, **options)
    assert problem(answer) == (503, "urn:lambda-once:caller-unverified")
    assert int(answer["headers"]["Retry-After"]) >= 1
    assert shop.ran == 0
    assert shop.rig.events() == ["once.refused"]
    assert reason in str(shop.rig.reported[-1].reason)


def other_curve() -> bytes:
    """A key of P-384 in PEM."""
    return (
        ec.generate_private_key(ec.SECP384R1())
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((500, b""), "status 500"),
        ((503, b"down"), "status 503"),
        ((429, b"slow down"), "status 429"),
        ((302, b""), "status 302"),
        ((200, b"a" * 9 * LARGEST_KEY), f"{LARGEST_KEY + 1} bytes"),
        ((200, b""), "no public key of P-256"),
        ((200, b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), "no public key of P-256"),
        ((200, other_curve()), "no public key of P-256"),
    ],
)
def test_a_server_without_a_key_is_retried(
    shop: Shop, server: KeyServer, balancer: LoadBalancer, answer: tuple[int, bytes], reason: str
) -> None:
    """503 with Retry-After, no invocation error; the next request asks again."""
    server.answers.append(answer)
    unverified(shop, balancer.data(), reason)
    assert shop.ask(balancer.data())["statusCode"] == 201


def test_no_server_is_retried(rig: Rig, balancer: LoadBalancer) -> None:
    """Nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    unverified(Shop(rig, f"https://localhost:{port}"), balancer.data(), "ConnectionRefusedError")


def test_a_stranger_is_no_key_server(
    rig: Rig, server: KeyServer, balancer: LoadBalancer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its certificate is checked, and so is its name."""
    wrong = Shop(rig, server.address.replace("localhost", "127.0.0.1"))
    unverified(wrong, balancer.data(), "SSLCertVerificationError")
    rig.reported.clear()
    monkeypatch.delenv("AWS_CA_BUNDLE")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    unverified(Shop(rig, server.address), balancer.data(), "SSLCertVerificationError")
    assert server.asked == []


@pytest.mark.parametrize(("answer", "seconds"), [(0.2, 30), (30, 0.5)])
def test_a_silent_server_is_not_awaited_long(
    rig: Rig, balancer: LoadBalancer, monkeypatch: pytest.MonkeyPatch, answer: float, seconds: float
) -> None:
    """Neither beyond `ANSWER`, nor into the last half second of the invocation."""
    monkeypatch.setattr(subject, "ANSWER", answer)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shop = Shop(rig, f"https://localhost:{silent.getsockname()[1]}")
        began = SystemClock().now()
        unverified(shop, balancer.data(), "TimeoutError", seconds=seconds)
        assert (SystemClock().now() - began).total_seconds() < 5


def test_outside_of_an_invocation_the_machines_clock_counts(
    server: KeyServer, balancer: LoadBalancer
) -> None:
    """A middleware may call it, too."""
    user = alb_user(signer=ARN, keys=server.address)
    assert user(alb(x_amzn_oidc_data=balancer.data(exp=4_000_000_000, claims={"sub": "alice"}))) == {
        "iss": "https://id.example",
        "sub": "alice",
    }
    with pytest.raises(MalformedRequest, match="has expired"):
        user(alb(x_amzn_oidc_data=balancer.data(exp=1_000_000_000)))
    server.answers.append((500, b""))
    with pytest.raises(CallerUnverified, match="no key of the load balancer"):
        alb_user(signer=ARN, keys=server.address)(
            alb(x_amzn_oidc_data=balancer.data(exp=4_000_000_000, claims={"sub": "alice"}))
        )


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("partition", "region", "address"),
    [
        ("aws", "eu-central-1", "https://public-keys.auth.elb.eu-central-1.amazonaws.com"),
        (
            "aws-us-gov",
            "us-gov-east-1",
            "https://s3-us-gov-east-1.amazonaws.com/aws-elb-public-keys-prod-us-gov-east-1",
        ),
    ],
)
def test_the_address_of_the_keys(partition: str, region: str, address: str) -> None:
    """Those of the ELB user guide; that they respond was not seen."""
    assert subject._address_of(partition, region) == address
    alb_user(signer=ARN.replace("aws:", f"{partition}:", 1).replace("eu-central-1", region))


def test_another_partition_needs_an_address() -> None:
    """AWS documents none, and a guess would ask a stranger for keys."""
    signer = ARN.replace("aws:", "aws-cn:", 1).replace("eu-central-1", "cn-north-1")
    with pytest.raises(Misconfigured, match="in partition aws-cn: pass keys="):
        alb_user(signer=signer)
    alb_user(signer=signer, keys=KEYS)


@pytest.mark.parametrize(
    "signer",
    [
        None,
        "",
        "arn:aws:elasticloadbalancing:…",
        f"{ARN}\n",
        ARN.replace("/app/", "/net/"),
        "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/orders/49e9d65c45c6791a",
        "arn:aws:iam::123456789012:role/admin",
        ARN.replace("eu-central-1", "evil.example/"),
    ],
)
def test_a_signer_is_a_load_balancer(signer: Any) -> None:
    """Seen when it is made, not at the first request."""
    with pytest.raises(Misconfigured, match="is not the ARN of an Application Load Balancer"):
        alb_user(signer=signer)


@pytest.mark.parametrize(
    "keys",
    ["", "http://keys.example", "keys.example", "https://", "https://a@b", "https://a/?b", "https://a\n", 5],
)
def test_an_address_is_encrypted(keys: Any) -> None:
    """Whoever could write to it would be every user."""
    with pytest.raises(Misconfigured, match="must be an https address"):
        alb_user(signer=ARN, keys=keys)


def test_without_pyjwt_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is made."""
    real: Any = builtins.__import__

    def lacking(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "jwt":
            raise ModuleNotFoundError("No module named 'jwt'", name="jwt")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(Misconfigured, match=r"pip install 'lambda-once\[alb\]'"):
        alb_user(signer=ARN)


def test_without_cryptography_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyJWT alone knows no ES256."""

    def unknown(_name: str) -> Any:
        raise NotImplementedError

    monkeypatch.setattr("jwt.get_algorithm_by_name", unknown)
    with pytest.raises(Misconfigured, match=r"pip install 'lambda-once\[alb\]'"):
        alb_user(signer=ARN)
