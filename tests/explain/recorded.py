"""HTTP events as each kind of gateway sends them for each kind of credential, and who gets what of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from lambda_once import MemoryStore, Misconfigured, Once
from lambda_once.decorators.http import HttpIdentifier
from lambda_once.explain.disclosure import Gets, Reply, replies
from lambda_once.explain.explanation import identifier_of as explained
from lambda_once.explain.senders import Sender, sent_by
from lambda_once.testing import FakeClock, lambda_context
from tests.sources.samples import Json, alb, http, lattice, lattice_v2, rest
from tests.sources.test_caller import ALICE, ARN, URL, basic, jwt, oidc, with_certificate

GOLDEN = Path(__file__).parents[1] / "golden" / "explain_as.txt"
KEY = "idempotency-key"
BEARER = f"Bearer {jwt(ALICE | {'exp': 1795169520})}"
SIGNED = "AWS4-HMAC-SHA256 Credential=AKIA/20261120/execute-api/aws4_request, Signature=c0ffee"
LATTICE_IDENTITY = f"Principal={ARN}; SessionName=session; Type=AWS_IAM"


def by_rest(authorizer: object = None, headers: Mapping[str, str] | None = None, **identity: object) -> Json:
    """A request through a REST API."""
    event = rest(headers={name: [text] for name, text in (headers or {}).items()})
    event["requestContext"]["identity"] |= identity
    if authorizer is not None:
        event["requestContext"]["authorizer"] = authorizer
    return event


RECORDED: dict[str, Json] = {
    "HTTP API, JWT authorizer": http(
        headers={"authorization": BEARER},
        authorizer={"jwt": {"claims": ALICE | {"exp": "1795169520"}, "scopes": None}},
    ),
    "REST API, Cognito": by_rest(
        {"claims": ALICE | {"email": "a@b.example", "custom:tenant": "acme"}}, {"Authorization": BEARER}
    ),
    "REST API, IAM": by_rest(headers={"Authorization": SIGNED}, userArn=ARN, caller="AROA:s", accessKey="A"),
    "REST API, API key": by_rest(headers={"x-api-key": "k-1"}, apiKey="k-1", apiKeyId="id-1"),
    "HTTP API, x-api-key alone": http(headers={"x-api-key": "k-1"}),
    "Lambda authorizer, named": http(
        headers={"authorization": "Bearer opaque"}, authorizer={"lambda": {"principalId": "u-1"}}
    ),
    "Lambda authorizer, constant": by_rest({"principalId": "user"}, {"Authorization": "Bearer opaque"}),
    "Lambda authorizer, no header": by_rest({"principalId": "u-1", "integrationLatency": 5}),
    "Lambda authorizer, nameless": http(
        headers={"cookie": "session=a"}, authorizer={"lambda": {"userId": "u-1", "tenant": "acme"}}
    ),
    "Function URL, IAM": http(
        domain=URL, authorizer={"iam": {"userArn": ARN, "userId": "AROA:s", "cognitoIdentity": None}}
    ),
    "ALB, OIDC": alb(x_amzn_oidc_data=oidc(), x_amzn_oidc_identity="alice", x_amzn_oidc_accesstoken="t"),
    "ALB, certificate": alb(
        multi=True, x_amzn_mtls_clientcert_issuer="CN=ca", x_amzn_mtls_clientcert_subject="CN=shop"
    ),
    "VPC Lattice 1, IAM": lattice(headers={"x-amzn-lattice-identity": LATTICE_IDENTITY}),
    "VPC Lattice 2, IAM": lattice_v2(type="AWS_IAM", principal=ARN, sessionName="session"),
    "HTTP API, certificate": with_certificate(http()),
    "HTTP API, JWT not verified": http(headers={"authorization": BEARER}),
    "HTTP API, opaque bearer": http(headers={"authorization": "Bearer opaque"}),
    "HTTP API, Basic": http(headers={"authorization": f"Basic {basic('alice', 'secret')}"}),
    "HTTP API, cookies": http(cookies=["session=a", "theme=dark"]),
    "HTTP API, nothing": http(),
}
"""Each event without a key."""


def keyed(event: Json) -> Json:
    """The same event under an Idempotency-Key."""
    event = deepcopy(event)
    for place in ("headers", "multiValueHeaders"):
        if place in event:
            several = place != "headers" or any(isinstance(each, list) for each in event[place].values())
            event[place][KEY] = ["1"] if several else "1"
    return event


class Till:
    """A real handler, whose answers are numbered."""

    def __init__(self, decorated: Callable[[Once, Callable[[], Json]], Callable[..., Any]]) -> None:
        self.ran = 0
        self.store = MemoryStore()
        once = Once(store=self.store, service="shop")
        once._runtime.clock = FakeClock()
        self.handler = decorated(once, self._answer)

    def _answer(self) -> Json:
        self.ran += 1
        return {"statusCode": 201, "body": f'"order {self.ran}"'}

    def ask(self, event: Json) -> str:
        """Send *event* in an invocation of its own: what it comes to, in the words of the table."""
        ran = self.ran
        try:
            answer = self.handler(event, lambda_context("orders", f"request-{ran}"))
        except Misconfigured:
            return "fails"
        if self.ran > ran:
            return "runs"
        headers = answer.get("headers") or answer.get("multiValueHeaders")
        if "Idempotent-Replayed" not in headers:
            return str(answer["statusCode"])
        assert answer["body"] == f'"order {ran}"'
        return "response"


def plain(**options: Any) -> Callable[[Once, Callable[[], Json]], Callable[..., Any]]:
    """`once.api_gateway` with *options* around the handler."""

    def decorated(once: Once, answer: Callable[[], Json]) -> Callable[..., Any]:
        @once.api_gateway(name="order", **options)
        def handler(_event: Json) -> Json:
            return answer()

        return handler

    return decorated


def identifier_of(till: Till) -> HttpIdentifier:
    """What `explain` finds at the handler."""
    found = explained(till.handler)
    assert isinstance(found, HttpIdentifier)
    return found


def in_words(reply: Reply) -> str:
    """A prediction in the words of the table."""
    match reply.gets:
        case Gets.REFUSED:
            assert reply.problem is not None
            return str(reply.problem.status)
        case Gets.NOTHING:
            return "-"
        case _:
            return {Gets.RUNS: "runs", Gets.RESPONSE: "response", Gets.FAILS: "fails"}[reply.gets]


def predicted(identifier: HttpIdentifier, event: Json) -> dict[Sender, str]:
    """What each sender gets by `explain`."""
    return {each.sender: in_words(each) for each in replies(identifier, event, Sender)}


def happens(till: Till, event: Json) -> dict[Sender, str]:
    """What each sender gets in reality, each after a first request in an empty table."""
    selector, found = identifier_of(till).caller_selector, dict[Sender, str]()
    for sender in Sender:
        sent = sent_by(sender, event, selector).event
        till.store.records.clear()
        till.ask(deepcopy(event))
        found[sender] = "-" if sent is None else till.ask(sent)
    return found


def table() -> str:
    """Who gets what of each event: under a key / without one, where that makes a difference."""
    identifier = identifier_of(Till(plain()))
    rows = [["", *(sender.value for sender in Sender)]]
    for name, event in RECORDED.items():
        under, without = (predicted(identifier, each) for each in (keyed(event), event))
        pairs = zip(under.values(), without.values(), strict=True)
        rows.append([name, *(one if one == other else f"{one} / {other}" for one, other in pairs)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (zip(row, widths, strict=True) for row in rows)
    return "".join(f"{'  '.join(f'{cell:{width}}' for cell, width in line).rstrip()}\n" for line in lines)


if __name__ == "__main__":
    GOLDEN.write_text(table(), encoding="utf-8")
    print(table())  # noqa: T201
