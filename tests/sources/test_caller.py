"""Who a request comes from: each row of the rules, and what may never come out of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lambda_once.core.identity import Presented
from lambda_once.core.unit import MalformedRequest
from lambda_once.errors import Misconfigured
from lambda_once.sources.caller import LONGEST_JWT, Caller, Origin, caller_of, cookies_of, given
from lambda_once.sources.http import request_of
from tests.sources.samples import Json, alb, base64_of, http, rest

ARN = "arn:aws:sts::123456789012:assumed-role/shop/session"
URL = "abc123.lambda-url.eu-central-1.on.aws"


def jwt(claims: object, header: object = None, signature: str = "c2ln") -> str:
    """A JWT as an issuer writes it: base64url without padding."""
    parts = ({"alg": "RS256"} if header is None else header, claims)
    texts = (json.dumps(part).encode() for part in parts)
    encoded = (base64_of(text).rstrip("=").replace("+", "-").replace("/", "_") for text in texts)
    return ".".join([*encoded, signature])


ALICE = {"iss": "https://id.example", "sub": "alice"}
BOB = {"iss": "https://id.example", "sub": "bob"}


def basic(user: str, password: str) -> str:
    """The credential of RFC 7617."""
    return base64_of(f"{user}:{password}".encode())


def oidc(sub: str = "alice", exp: int = 1, signer: str = "arn:alb/1") -> str:
    """What a load balancer makes of a login: padded, signed anew for each request."""
    parts = (
        {"alg": "ES256", "signer": signer, "iss": "https://id.example", "exp": exp},
        {"sub": sub, "exp": exp},
    )
    return ".".join([*(base64_of(json.dumps(part).encode()) for part in parts), f"sig{exp}=="])


def sent(authorization: str | None = None, **headers: str) -> Json:
    """A request through an HTTP API without an authorizer."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return http(headers=named if authorization is None else {"authorization": authorization, **named})


def of(event: Json, *, hashed: bool = False) -> Caller:
    """Who sent *event*."""
    return caller_of(event, request_of(event).headers, hashed=hashed)


def rest_by(
    authorizer: object = None, headers: dict[str, list[str]] | None = None, **identity: object
) -> Json:
    """A request through a REST API."""
    event = rest(headers=headers)
    event["requestContext"] |= {"authorizer": authorizer}
    event["requestContext"]["identity"] |= identity
    return event


BEARER = {"authorization": f"Bearer {jwt(ALICE)}"}


JWT, IAM, LAMBDA = Origin.JWT_AUTHORIZER, Origin.IAM, Origin.LAMBDA_AUTHORIZER
CERTIFICATE, CLAIMS = Origin.CERTIFICATE, Origin.CLAIMS
HTTP_CERTIFICATE = {"clientCert": {"issuerDN": "CN=ca", "subjectDN": "CN=shop", "serialNumber": "1"}}


def with_certificate(event: Json, serial: str = "1") -> Json:
    """The same request, over mutual TLS at an HTTP API."""
    certificate = HTTP_CERTIFICATE["clientCert"] | {"serialNumber": serial}
    event["requestContext"] |= {"authentication": {"clientCert": certificate}}
    return event


# ------------------------------------------------------------------ rule 1

VERIFIED: list[tuple[str, Json, list[Origin]]] = [
    ("HTTP API, JWT", http(authorizer={"jwt": {"claims": ALICE}}), [JWT]),
    ("HTTP API, JWT of a machine", http(authorizer={"jwt": {"claims": {"client_id": "app"}}}), [JWT]),
    ("HTTP API, IAM", http(authorizer={"iam": {"userArn": ARN, "cognitoIdentity": None}}), [IAM]),
    ("HTTP API, identity pool", http(authorizer={"iam": {"cognitoIdentity": {"identityId": "c"}}}), [IAM]),
    ("Function URL, IAM", http(domain=URL, authorizer={"iam": {"userArn": ARN}}), [IAM]),
    ("REST API, Cognito", rest_by({"claims": ALICE}), [JWT]),
    ("REST API, IAM", rest_by(userArn=ARN), [IAM]),
    ("REST API, a user of IAM", rest_by(userArn="arn:aws:iam::123456789012:user/a"), [IAM]),
    ("REST API, identity pool", rest_by(cognitoIdentityId="eu-central-1:c"), [IAM]),
    (
        "REST API, IAM and an API key",
        rest_by(userArn=ARN, apiKeyId="k1"),
        [Origin.API_KEY_ID, IAM],
    ),
    (
        "JWT authorizer: the header it came from counts once",
        http(headers=BEARER, authorizer={"jwt": {"claims": ALICE}}),
        [JWT],
    ),
    (
        "JWT authorizer and an API key",
        http(headers={"x-api-key": "k"}, authorizer={"jwt": {"claims": ALICE}}),
        [JWT],
    ),
    (
        "Lambda authorizer and a JWT",
        http(headers=BEARER, authorizer={"lambda": {"principalId": "api"}}),
        [LAMBDA, CLAIMS],
    ),
    (
        "certificate and JWT authorizer",
        with_certificate(http(authorizer={"jwt": {"claims": ALICE}})),
        [CERTIFICATE, JWT],
    ),
]


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize(
    ("event", "origins"), [row[1:] for row in VERIFIED], ids=[row[0] for row in VERIFIED]
)
def test_what_the_gateway_verified_joins(event: Json, origins: list[Origin], *, hashed: bool) -> None:
    """Rule 1: the principal joins the token and nothing is compared: a refreshed token changes nothing."""
    caller = of(event, hashed=hashed)
    assert [name.origin for name in caller.names] == origins == list(caller.origins)
    of_session = ARN in json.dumps(event) and not hashed
    assert (caller.presented is not None) is of_session
    assert not caller.is_unscoped


def test_a_role_joins_and_its_session_is_compared_under_a_key() -> None:
    """Who retries in another session of the role gets neither the response nor a second run."""
    first, second = (of(rest_by(userArn=ARN + each), hashed=False) for each in ("", "-2"))
    assert first.who.joins == second.who.joins
    assert isinstance(first.presented, Presented)
    assert isinstance(second.presented, Presented)
    assert first.presented.credential != second.presented.credential
    assert len({of(rest_by(userArn=ARN + each), hashed=True).who.joins for each in ("", "-2")}) == 2


PRINCIPALS: list[Json] = [
    http(authorizer={"lambda": {"principalId": "api"}}),
    rest_by({"principalId": "api"}),
]
BESIDE: list[tuple[dict[str, str], list[Origin]]] = [
    ({"authorization": "Bearer opaque"}, []),
    ({"authorization": "opaque"}, []),
    ({"authorization": f"Basic {basic('alice', 'a')}"}, [Origin.BASIC]),
    ({"authorization": "Bearer opaque", "x-api-key": "k"}, []),
    ({"x-api-key": "k"}, []),
    ({"authorization": "Bearer", "x-api-key": "k-2"}, []),
]
WITHOUT: list[dict[str, str]] = [
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "bearer  "},
    {"authorization": "Bearer undefined"},
    {"authorization": "Basic"},
    {"authorization": "Bearer NULL"},
    {"x-api-key": ""},
    {"x-api-key": "undefined"},
    {"cookie": "a=b"},
]


def with_headers(event: Json, headers: dict[str, str]) -> Json:
    """*event* with *headers* in addition, in the form of its payload."""
    several = {name: [text] for name, text in headers.items()}
    multi = event.get("multiValueHeaders")
    more = {} if multi is None else {"multiValueHeaders": {**multi, **several}}
    return {**event, "headers": {**event["headers"], **headers}, **more}


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize("event", PRINCIPALS)
@pytest.mark.parametrize(("headers", "joins"), BESIDE)
def test_a_credential_beside_a_principal_is_compared(
    event: Json, headers: dict[str, str], joins: list[Origin], *, hashed: bool
) -> None:
    """A principal may be a constant: an opaque or Basic credential, or an API key, is presented again."""
    caller = of(with_headers(event, headers), hashed=hashed)
    assert [name.origin for name in caller.names] == [LAMBDA, *joins]
    assert caller.presented is not None
    assert caller.presented.credential == of(http(headers=headers)).presented.credential  # type: ignore[union-attr]
    assert re.search(r'caller="requestContext.authorizer(.lambda)?.principalId"', str(caller.advice))
    assert caller.warning is None


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize("event", PRINCIPALS)
def test_no_credential_beside_a_principal_is_compared_too(event: Json, *, hashed: bool) -> None:
    """In whatever form it is left out: it is none of the credentials, and the same each time."""
    found = {of(with_headers(event, headers), hashed=hashed) for headers in WITHOUT}
    assert len(found) == 1
    (caller,) = found
    assert caller.origins == (LAMBDA,)
    assert [name.origin for name in caller.names] == [LAMBDA]
    assert caller.presented is not None
    assert caller.presented.proof
    assert caller.presented.credential is not None
    assert all(of(http(headers=headers)).presented != caller.presented for headers, _ in BESIDE)
    assert not caller.is_unscoped


def test_an_api_key_that_the_gateway_has_checked_joins_beside_a_principal() -> None:
    """Its id does, so the key may be rotated."""
    one, rotated, other = (
        of(rest_by({"principalId": "api"}, headers={"x-api-key": [key]}, apiKeyId=key_id))
        for key, key_id in (("k", "i-1"), ("k-2", "i-1"), ("k", "i-2"))
    )
    assert one == rotated
    assert one.origins == (Origin.API_KEY_ID, LAMBDA)
    assert one.who.joins != other.who.joins


# ------------------------------------------------------------------ a Lambda authorizer that names no user

UNNAMED: list[tuple[str, Json, str]] = [
    ("REST, constant", rest_by({"principalId": "user"}), 'its context has nothing. .* caller="{}.userId"'),
    ("REST, AWS' blueprint", rest_by({"principalId": "user|a1b2c3d4"}), 'caller="{}.userId"'),
    ("REST, me", rest_by({"principalId": "me", "integrationLatency": 3}), "its context has nothing"),
    ("REST, empty", rest_by({"principalId": "", "sub": "a"}), 'its context has sub. .* caller="{}.sub"'),
    ("REST, a number", rest_by({"principalId": 5, "a": "1", "user": "2"}), 'a, user. .* caller="{}.user"'),
    ("REST, no claims", rest_by({"claims": "text", "tenant": "acme"}), 'claims, tenant. .*"{}.claims"'),
    ("HTTP", http(authorizer={"lambda": {"tenant": "t", "userId": "u"}}), 'caller="{}.lambda.userId"'),
    ("HTTP, no user", http(authorizer={"lambda": {"tenant": "acme"}}), 'caller="{}.lambda.tenant"'),
    ("HTTP, quoted", http(authorizer={"lambda": {"x-user": "u"}}), """caller='{}.lambda."x-user"'"""),
    ("HTTP, constant", http(authorizer={"lambda": {"principalId": "user"}}), "its context has nothing"),
    ("HTTP, no context", http(authorizer={"lambda": None}), 'return .* as userId, .*"{}.lambda.userId"'),
    ("HTTP, long", http(authorizer={"lambda": {"u" * 500: "u"}}), 'caller="{}.lambda.userId"'),
    ("HTTP, many", http(authorizer={"lambda": {f"n{n}": 1 for n in range(50)}}), r"n0, .*, n9\. Pass"),
]
SIGNED = "AWS4-HMAC-SHA256 Credential=a"


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize(
    "headers", [{}, {"x-api-key": "k"}, {"cookie": "a=b"}, {"authorization": SIGNED}], ids=str
)
@pytest.mark.parametrize(("event", "advice"), [row[1:] for row in UNNAMED], ids=[row[0] for row in UNNAMED])
def test_nothing_proves_whom_an_authorizer_does_not_name(
    event: Json, advice: str, headers: dict[str, str], *, hashed: bool
) -> None:
    """It verified somebody by what we do not know: no duplicate is replayed, and the log has the line."""
    caller = of(with_headers(event, headers), hashed=hashed)
    assert caller.is_unproven
    assert str(caller.advice) in str(caller.warning)
    assert re.search(advice.replace("{}", "requestContext.authorizer"), str(caller.advice))
    joins = {"x-api-key": [Origin.API_KEY], "cookie": [Origin.COOKIES]}.get(next(iter(headers), ""), [])
    assert list(caller.origins) == joins
    assert [name.origin for name in caller.names] == (joins if hashed else [])


@pytest.mark.parametrize("text", ["Bearer opaque", f"Bearer {jwt(ALICE)}", f"Basic {basic('alice', 'a')}"])
@pytest.mark.parametrize("authorizer", [{"principalId": "user"}, {"lambda": {"tenant": "acme"}}])
def test_with_authorization_it_is_as_without_an_authorizer(text: str, authorizer: Json) -> None:
    """Rule 3: the credential is compared, and its name joins."""
    found = [
        of(event | {"headers": {"authorization": text}}) for event in (http(authorizer=authorizer), http())
    ]
    assert found[0].names == found[1].names
    assert all(each.presented and each.presented.proof for each in found)
    assert len({each.presented.credential for each in found if each.presented}) == 1
    assert "other credentials: the Lambda authorizer names no user" in str(found[0].advice)


@pytest.mark.parametrize(
    "authorizer",
    [
        None,
        {},
        {"claims": None, "scopes": None},
        {"claims": {"email": "a@b.example"}, "principalId": None},
        {"jwt": {"claims": {}, "scopes": None}},
        {"iam": {"accessKey": "a"}},
    ],
)
def test_other_authorizers_are_no_lambda_authorizer(authorizer: object) -> None:
    """What API Gateway writes where none ran, or where one of its own did."""
    event = http()
    event["requestContext"]["authorizer"] = authorizer
    assert of(event) == Caller((), (), Presented(None))


@pytest.mark.parametrize(
    "event",
    [
        rest(headers={"x-amzn-oidc-identity": ["forged"]}),
        rest(headers={"x-amzn-oidc-data": [jwt(ALICE)]}),
        rest(headers={"x-amzn-mtls-clientcert-subject": ["CN=forged"]}),
        alb(x_amzn_oidc_identity="alice"),
        alb(multi=True, x_amzn_oidc_identity="alice"),
    ],
)
@pytest.mark.parametrize("hashed", [True, False])
def test_an_unverified_value_is_no_principal(event: Json, *, hashed: bool) -> None:
    """Empty principals, contexts without one, and headers that any client may send name no caller."""
    assert of(event, hashed=hashed) == Caller((), (), Presented(None))
    assert of(event).is_unscoped


# ------------------------------------------------------------------ client certificates

MTLS: dict[str, Any] = {"x_amzn_mtls_clientcert_issuer": "CN=ca", "x_amzn_mtls_clientcert_subject": "CN=shop"}
CERTIFIED: list[tuple[str, Json]] = [
    ("HTTP API", with_certificate(http())),
    ("REST API", rest_by(clientCert=HTTP_CERTIFICATE["clientCert"])),
    ("load balancer", alb(**MTLS)),
    ("load balancer, multi-value", alb(multi=True, **MTLS)),
]


@pytest.mark.parametrize("event", [row[1] for row in CERTIFIED], ids=[row[0] for row in CERTIFIED])
def test_a_certificate_joins_and_names_an_application(event: Json) -> None:
    """Issuer and subject, the same from every gateway; rule 2 tells the users behind it apart, or nothing."""
    caller = of(event)
    assert caller.who.joins == of(CERTIFIED[0][1]).who.joins
    assert caller.is_unscoped
    assert caller.presented == Presented(None)


def test_rule_2_applies_beside_a_certificate() -> None:
    """Two users of one application are two callers, and each credential is compared."""
    alice, bob = (
        of(with_certificate(http(headers={"authorization": f"Bearer {jwt(who)}"}))) for who in (ALICE, BOB)
    )
    assert alice.origins == (CERTIFICATE, CLAIMS)
    assert alice.who.joins != bob.who.joins
    assert None not in (alice.presented, bob.presented)
    assert not alice.is_unscoped


# ------------------------------------------------------------------ API keys that API Gateway has checked


def test_the_id_of_an_api_key_joins_and_names_an_application() -> None:
    """As a certificate does, beside each rule; a rotated key with the id is the same application."""
    one, other = (rest_by(headers={"x-api-key": ["k1"]}, apiKeyId=each) for each in ("i1", "i2"))
    rotated = rest_by(headers={"x-api-key": ["k2"]}, apiKeyId="i1")
    assert of(one) == of(rotated)
    assert of(one).who.joins != of(other).who.joins
    assert of(one).origins == (Origin.API_KEY_ID,)
    assert of(one).presented == Presented(None)
    assert of(one).is_unscoped
    alice = of(
        rest_by(headers={"x-api-key": ["k1"], "authorization": ["Bearer a"]}, apiKeyId="i1"), hashed=True
    )
    assert alice.origins == (Origin.API_KEY_ID, Origin.AUTHORIZATION)
    assert not alice.is_unscoped


@pytest.mark.parametrize("key_id", [None, "", 5])
def test_without_its_id_an_api_key_is_compared(key_id: object) -> None:
    """API Gateway knows it, or it is a text that anybody may send."""
    found = of(rest_by(headers={"x-api-key": ["k1"]}, apiKeyId=key_id))
    assert found.origins == (Origin.API_KEY,)
    assert found.presented not in (None, Presented(None))


# ------------------------------------------------------------------ rule 3

LONG = jwt(ALICE | {"groups": "g" * LONGEST_JWT})
NAMED: list[tuple[str, str, Origin]] = [
    ("JWT", f"Bearer {jwt(ALICE)}", CLAIMS),
    ("JWT, scheme in another case", f"bEARER {jwt(ALICE)}", CLAIMS),
    ("JWT under DPoP", f"DPoP {jwt(ALICE)}", CLAIMS),
    ("JWT under a scheme of one's own", f"Token {jwt(ALICE)}", CLAIMS),
    ("JWT without a scheme", jwt(ALICE), CLAIMS),
    ("JWT that is not signed", f"Bearer {jwt(ALICE, {'alg': 'none'}, '')}", CLAIMS),
    ("JWT with client_id", f"Bearer {jwt({'iss': 'i', 'client_id': 'app'})}", CLAIMS),
    ("JWT with azp", f"Bearer {jwt({'iss': 'i', 'azp': 'app'})}", CLAIMS),
    ("JWT without iss", f"Bearer {jwt({'sub': 'alice'})}", CLAIMS),
    ("Basic", f"Basic {basic('alice', 'secret')}", Origin.BASIC),
    ("Basic in another case", f"BASIC {basic('alice', 'secret')}", Origin.BASIC),
]
OPAQUE: list[tuple[str, str]] = [
    ("Bearer", "Bearer 2YotnFZFEjr1zCsicMWpAA"),
    ("a scheme of one's own", 'Token token="abc", option="1"'),
    ("no scheme", "2YotnFZFEjr1zCsicMWpAA"),
    ("JWE", "Bearer a.b.c.d.e"),
    ("JWT without a name", f"Bearer {jwt({'iss': 'i'})}"),
    ("JWT with names that are no text", f"Bearer {jwt({'sub': 5, 'client_id': None, 'azp': ''})}"),
    ("JWT of a list", f"Bearer {jwt(['alice'])}"),
    ("JWT with a broken header", f"Bearer {jwt(ALICE, ['alg'])}"),
    ("JWT over 8 KB", f"Bearer {LONG}"),
    ("three parts that are no base64", "Bearer a!.b!.c"),
    ("three parts that are no JSON", f"Bearer {base64_of(b'abc')}.{base64_of(b'def')}.x"),
    ("three parts that are no UTF-8", f"Bearer {base64_of(bytes([255]))}.{base64_of(bytes([255]))}.x"),
    ("nested 4,000 deep", f"Bearer {jwt({}).split('.')[0]}.{base64_of(b'[' * 4000)}.x"),
    ("Basic without a colon", f"Basic {base64_of(b'alice')}"),
    ("Basic without a user", f"Basic {basic('', 'secret')}"),
    ("Basic that is no base64", "Basic !!!"),
]


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize(("text", "origin"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
def test_the_stable_name_of_a_credential_joins(text: str, origin: Origin, *, hashed: bool) -> None:
    """Rule 2: the name joins the token under every kind of key, and the whole credential is compared."""
    caller = of(sent(text), hashed=hashed)
    assert [name.origin for name in caller.names] == [origin]
    assert caller.presented is not None
    assert caller.presented.credential is not None
    assert not caller.is_unscoped


@pytest.mark.parametrize("text", [row[1] for row in OPAQUE], ids=[row[0] for row in OPAQUE])
def test_an_opaque_credential_joins_a_hashed_key_alone(text: str) -> None:
    """Under an Idempotency-Key it is compared; where the request is hashed it joins as well."""
    keyed, hashed = of(sent(text)), of(sent(text), hashed=True)
    assert keyed.names == ()
    assert [name.origin for name in hashed.names] == [Origin.AUTHORIZATION]
    assert keyed.presented == hashed.presented != Presented(None)
    assert not keyed.is_unscoped


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *(
            [f"Bearer {jwt({'iss': 'i', name: 'alice', 'exp': exp})}" for exp in (1, 2)]
            for name in ("sub", "client_id", "azp")
        ),
        [f"Basic {basic('alice', word)}" for word in ("one", "two")],
    ],
    ids=["sub", "client_id", "azp", "another password"],
)
def test_a_refreshed_token_has_the_name_and_is_another_credential(first: str, second: str) -> None:
    """It chooses the same token; what it unlocks there is decided by the whole credential."""
    callers = [of(sent(text), hashed=True) for text in (first, second)]
    assert callers[0].who.joins == callers[1].who.joins
    assert callers[0].presented != callers[1].presented


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ALICE, BOB),
        (ALICE, ALICE | {"iss": "https://evil.example"}),
        ({"iss": "i", "sub": "app"}, {"iss": "i", "client_id": "app"}),
        ({"iss": "i", "client_id": "app"}, {"iss": "i", "azp": "app"}),
    ],
)
def test_names_of_two_kinds_are_two_callers(one: object, other: object) -> None:
    """Issuer, claim and value together are the name."""
    assert of(sent(f"Bearer {jwt(one)}")).who.joins != of(sent(f"Bearer {jwt(other)}")).who.joins


def test_a_forged_claim_meets_no_verified_one() -> None:
    """A function behind two gateways: an unverified JWT never chooses the token of who was verified."""
    verified = of(http(authorizer={"jwt": {"claims": ALICE}}))
    forged = of(sent(f"Bearer {jwt(ALICE, {'alg': 'none'}, '')}"))
    by_lambda = of(http(authorizer={"lambda": {"principalId": "alice"}}))
    user = of(sent(f"Basic {basic('alice', 'x')}"))
    assert len({verified.who.joins, forged.who.joins, by_lambda.who.joins, user.who.joins}) == 4


@pytest.mark.parametrize(
    "scheme",
    [
        "AWS4-HMAC-SHA256",
        "aws4-ecdsa-p256-sha256",
        "OAuth",
        "Digest",
        "Hawk",
        "HMAC",
        "HMAC-SHA256",
        "Signature",
    ],
)
def test_a_signature_is_no_credential(scheme: str) -> None:
    """Each try is signed anew: the API key beside it counts, or nothing."""
    assert of(sent(f"{scheme} id=1, mac=abc"), hashed=True) == Caller((), (), Presented(None))
    assert of(sent(f"{scheme} id=1, mac=abc", x_api_key="k")).origins == (Origin.API_KEY,)


def test_an_api_key_is_compared_and_names_an_application() -> None:
    """It comes after Authorization; it joins hashed keys alone."""
    keyed, hashed = (of(sent(x_api_key="k-1"), hashed=each) for each in (False, True))
    assert keyed.names == ()
    assert [name.origin for name in hashed.names] == [Origin.API_KEY]
    assert keyed.is_unscoped
    assert keyed.presented not in (None, Presented(None), of(sent(x_api_key="k-2")).presented)
    assert of(sent("Bearer abc", x_api_key="k-1")).presented == of(sent("Bearer abc")).presented
    assert of(sent(x_api_key="")) == of(sent())


def of_two_users(one: str, other: str, *, in_one: bool) -> Json:
    """A request through a load balancer with two users, in one header or in two."""
    event = alb(multi=True, x_amzn_oidc_data=f"{one}, {other}")
    if not in_one:
        event["multiValueHeaders"]["x-amzn-oidc-data"] = [one, other]
    return event


@pytest.mark.parametrize(
    ("event", "header"),
    [
        (rest(headers={"Authorization": ["Bearer a", "Bearer b"]}), "Authorization"),
        (rest(headers={"Authorization": ["Bearer a"], "authorization": ["Bearer b"]}), "Authorization"),
        (rest(headers={"Authorization": ["Bearer a", "Basic a"]}), "Authorization"),
        (sent("Bearer a, Bearer b"), "Authorization"),
        (sent("Bearer a,b"), "Authorization"),
        (
            http(headers={"authorization": "Bearer a,Bearer b"}, authorizer={"jwt": {"claims": ALICE}}),
            "Authorization",
        ),
        *(
            (of_two_users(one, oidc("mallory"), in_one=in_one), "x-amzn-oidc-data")
            for one in (oidc(), "garbage")
            for in_one in (True, False)
        ),
    ],
)
def test_two_credentials_are_refused(event: Json, header: str) -> None:
    """Handlers differ in which of two values they read; the message repeats neither."""
    with pytest.raises(
        MalformedRequest, match=f"^The header {header} was sent with different values: send one"
    ):
        of(event)


@pytest.mark.parametrize(
    "event",
    [
        rest(headers={"Authorization": ["Bearer a", "bearer  a"]}),
        rest(headers={"Authorization": ["Bearer a"], "AUTHORIZATION": ["Bearer a"]}),
        sent("Bearer a, Bearer a"),
        sent("  BEARER   a "),
        alb(Authorization="Bearer a"),
    ],
)
def test_one_credential_twice_is_one(event: Json) -> None:
    """Case of the scheme and spaces around it do not count, nor does the gateway."""
    assert of(event, hashed=True) == of(sent("Bearer a"), hashed=True)


@pytest.mark.parametrize(
    "empty",
    [
        "",
        " ",
        "Bearer ",
        "bearer",
        "Bearer , ",
        "Bearer ,Bearer ",
        "Bearer  Bearer",
        "Basic",
        "DPoP ",
        "Bearer null",
        "bearer undefined",
        "undefined",
        "Token null",
    ],
)
@pytest.mark.parametrize("hashed", [False, True])
def test_an_empty_header_is_none(empty: str, *, hashed: bool) -> None:
    """The scheme alone, or the text of a variable: all clients without a token would be one caller."""
    assert of(sent(empty), hashed=hashed) == of(sent(), hashed=hashed)
    assert of(sent(empty), hashed=hashed).is_nobody


# ------------------------------------------------------------------ rule 4

COOKIES: list[tuple[str, Json]] = [
    ("payload 2.0", http(cookies=["session=abc", "theme=dark"])),
    ("payload 1.0", rest(headers={"Cookie": ["session=abc; theme=dark"]})),
    ("load balancer", alb(cookie="theme=dark;session=abc")),
    ("two headers", rest(headers={"Cookie": ["session=abc", "theme=dark"]})),
    ("load balancer, its own", alb(cookie="theme=dark; session=abc; AWSALB=x; AWSALBTG=y")),
]


@pytest.mark.parametrize("event", [row[1] for row in COOKIES], ids=[row[0] for row in COOKIES])
def test_cookies_join_a_hashed_key(event: Json) -> None:
    """Rule 3: all of them, wherever the gateway puts them, in any order, without the load balancer's own."""
    keyed, hashed = of(event), of(event, hashed=True)
    assert hashed.who.joins == of(COOKIES[0][1], hashed=True).who.joins != ()
    assert keyed.who.joins == ()
    assert keyed.origins == hashed.origins == (Origin.COOKIES,)
    assert keyed.presented == hashed.presented == Presented(None)
    assert keyed.is_unscoped


def test_a_credential_comes_before_cookies() -> None:
    """Cookies that change between tries do not matter where something better names the caller."""
    first, second = (of(http(headers=BEARER, cookies=[f"csrf={n}"]), hashed=True) for n in (1, 2))
    assert first == second


def test_cookies_are_read_by_name() -> None:
    """What an expression selects from; the first of a name counts, as RFC 6265 servers read it."""
    event = http(cookies=["session=abc=", "session=other", "flag", "; ="])
    assert cookies_of(event, request_of(event).headers) == {"session": "abc=", "flag": ""}


# ------------------------------------------------------------------ load balancers, caller=, no caller


@pytest.mark.parametrize("multi", [True, False])
def test_the_load_balancers_name_joins_and_is_not_proven(*, multi: bool) -> None:
    """Rule 2: the name counts and not the text; user and signer tell callers apart."""
    first = of(alb(multi=multi, x_amzn_oidc_data=oidc()))
    assert first == of(alb(multi=multi, x_amzn_oidc_data=oidc(exp=2), authorization="Bearer refreshed"))
    assert first.origins == (Origin.LOAD_BALANCER,)
    others = [of(alb(multi=multi, x_amzn_oidc_data=data)) for data in (oidc("bob"), oidc(signer="arn:alb/2"))]
    assert len({each.who.joins for each in (first, *others)}) == 3
    assert first.is_unproven
    assert str(first.advice) in str(first.warning)
    assert "as caller=: docs/api.md has one" in str(first.advice)


def test_one_user_of_a_load_balancer_twice_is_one() -> None:
    """As with Authorization."""
    event = alb(multi=True, x_amzn_oidc_data=oidc())
    event["multiValueHeaders"]["x-amzn-oidc-data"] *= 2
    assert of(event) == of(alb(x_amzn_oidc_data=oidc()))


@pytest.mark.parametrize("data", ["", "garbage", "a.b.c", jwt({"iss": "i"})])
def test_data_without_a_name_is_not_used(data: str) -> None:
    """What the load balancer would not write is passed over."""
    assert of(alb(x_amzn_oidc_data=data)).origins == ()
    assert of(alb(x_amzn_oidc_data=data, authorization="Bearer a")).origins == (Origin.AUTHORIZATION,)


@pytest.mark.parametrize("found", ["alice", 5, ["acme", "alice"], {"sub": "alice"}])
def test_a_given_caller_joins_and_is_not_compared(found: object) -> None:
    """What caller= selects is the name, and all of it."""
    assert len(given(found).who.joins) == 1
    assert given(found).presented is None
    assert not given(found).is_unscoped
    assert given(found).who.joins != given("bob").who.joins


def test_a_given_caller_must_be_writable() -> None:
    """It joins the token, so it has a canonical form."""
    with pytest.raises(Misconfigured, match="caller= returned a value that is not JSON-serialisable"):
        given(object())


# ------------------------------------------------------------------ what never shows

SECRETS: list[Any] = [
    sent(f"Bearer {jwt(ALICE)}"),
    sent("Bearer opaque-alice"),
    sent(f"Basic {basic('alice', 'secret')}"),
    sent(x_api_key="key-of-alice"),
    http(cookies=["session=alice"]),
    http(authorizer={"lambda": {"principalId": "alice"}}),
    alb(x_amzn_oidc_data=oidc()),
    with_certificate(sent("Bearer opaque-alice")),
]


@pytest.mark.parametrize("event", SECRETS)
@pytest.mark.parametrize("hashed", [True, False])
def test_nothing_readable_joins_and_nothing_shows(event: Json, *, hashed: bool) -> None:
    """What joins is one SHA-256; texts of the values hold neither names nor credentials."""
    caller = of(event, hashed=hashed)
    assert len(caller.who.joins) <= 1
    assert all(len(part) == 64 and set(part) <= set("0123456789abcdef") for part in caller.who.joins)
    shown = f"{caller!r} {caller.presented!r} {caller}"
    for secret in ("alice", "secret", "session", "CN=", *BEARER["authorization"].split()[1:]):
        assert secret not in shown
