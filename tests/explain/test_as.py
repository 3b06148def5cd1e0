"""`explain --as`: who gets the response of an HTTP event, predicted and as it really happens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from click.testing import CliRunner, Result

from lambda_once import Once
from lambda_once.cli.app import app
from lambda_once.core.lifecycle import Course
from lambda_once.core.writes import acquired_row
from lambda_once.explain import disclosure as predictions
from lambda_once.explain.disclosure import disclosure, replies
from lambda_once.explain.senders import Altered, Sender, sent_by
from lambda_once.integrations.event_handler import Route
from lambda_once.sources.api_gateway import header_values
from lambda_once.sources.caller import Origin, caller_of
from lambda_once.sources.problems import Problem
from tests.explain.recorded import (
    BEARER,
    GOLDEN,
    RECORDED,
    SIGNED,
    Till,
    by_rest,
    happens,
    identifier_of,
    keyed,
    plain,
    predicted,
    table,
)
from tests.sources.samples import Json, http
from tests.sources.test_caller import ALICE, ARN, basic, jwt, with_certificate

USER = "requestContext.authorizer.lambda.userId"


def test_the_table() -> None:
    """Who gets what of each recorded event; `python -m tests.explain.recorded` writes it anew."""
    assert GOLDEN.read_text(encoding="utf-8") == table()


def _raising(event: Json) -> str:
    return str(event["headers"]["x-user"])


OPTIONS: dict[str, dict[str, Any]] = {
    "by default": {},
    "caller=False": {"caller": False},
    "a declared context": {"caller": USER},
    "a declared principal": {"caller": "requestContext.authorizer.principalId"},
    "a declared key": {"caller": "requestContext.identity.apiKeyId"},
    "a declared cookie": {"caller": "cookies.session"},
    "a callable": {"caller": lambda event: event["headers"].get("authorization")},
    "a callable that raises": {"caller": _raising},
    "hold": {"on_lapse": "hold"},
    "no key is refused": {"without_key": "reject"},
    "no key is not protected": {"without_key": "run"},
    "another method": {"methods": {"PUT"}},
    "key=": {"key": "orderId"},
    "a key that is not stable": {"key": lambda event: event["requestContext"].get("requestId")},
    "no fingerprint": {"fingerprint": False},
    "nobody is refused": {"unscoped": "refuse"},
    "a tenant of Cognito": {"scope": 'requestContext.authorizer.claims."custom:tenant"'},
    "a tenant": {"scope": "requestContext.authorizer.lambda.tenant"},
    "a key without a canonical form": {"key": lambda _: object()},
    "a problem of one's own": {"problem": lambda problem: problem},
}


def _differences(options: Mapping[str, Any], names: Mapping[str, Json]) -> list[str]:
    """Where what happens is not what was predicted."""
    till = Till(plain(**options))
    identifier = identifier_of(till)
    found = []
    for name, event in names.items():
        expected, real = predicted(identifier, event), happens(till, event)
        found += [
            f"{name}, {who.value}: {expected[who]}, {real[who]}"
            for who in Sender
            if expected[who] != real[who]
        ]
    return found


@pytest.mark.parametrize("form", [keyed, deepcopy], ids=["key", "no key"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_what_is_predicted_happens(options: dict[str, Any], form: Callable[[Json], Json]) -> None:
    """Every cell, by the real decorator: it ran, it got the same body, or the status."""
    assert _differences(options, {name: form(event) for name, event in RECORDED.items()}) == []


LIES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "everyone gets it": lambda patch: patch.setattr(predictions, "decide", lambda *_: Course.REPLAY),
    "everyone runs": lambda patch: patch.setattr(predictions, "decide", lambda *_: Course.RUN),
    "credentials are not compared": lambda patch: patch.setattr(
        predictions, "acquired_row", lambda _, write: _without_caller(write)
    ),
    "all have the first caller's credentials": lambda patch: patch.setattr(
        predictions, "sent_by", lambda sender, event, _: Altered(sender.value, event)
    ),
    "another status": lambda patch: patch.setattr(predictions, "problem_of", lambda *_: Problem(409, "", "")),
}


def _without_caller(write: Any) -> Any:
    return acquired_row(None, write)._replace(caller=None)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_lie_is_found(monkeypatch: pytest.MonkeyPatch, lie: Callable[[pytest.MonkeyPatch], None]) -> None:
    """The test above fails where the prediction is made by another rule than the engine's."""
    lie(monkeypatch)
    assert _differences({}, {name: keyed(event) for name, event in RECORDED.items()})


def _route(**options: Any) -> Callable[[Once, Callable[[], Json]], Callable[..., Any]]:
    """A route of an Event Handler, whose identifier the handler bears as a decorated one does."""

    def decorated(once: Once, answer: Callable[[], Json]) -> Callable[..., Any]:
        resolver = APIGatewayHttpResolver()
        middleware: Any = once.route(name="order", **options)

        @resolver.post("/orders/<id>/pay", middlewares=[middleware])
        def pay(id: str) -> Response[str]:  # noqa: A002  (the name in the path)
            found = answer()
            return Response(found["statusCode"], "application/json", found["body"])

        def handler(event: Json, context: Any) -> Any:
            return resolver.resolve(event, context)

        route = middleware.__self__
        assert isinstance(route, Route)
        handler.__once__ = route.identifier  # type: ignore[attr-defined]
        return handler

    return decorated


@pytest.mark.parametrize(
    "options", [{}, {"caller": False}, {"caller": USER}, {"without_key": "reject"}], ids=str
)
def test_it_happens_to_a_route_too(options: dict[str, Any]) -> None:
    """The same, by `once.route` in an Event Handler of HTTP APIs."""
    till = Till(_route(**options))
    identifier = identifier_of(till)
    for name in (
        "HTTP API, JWT authorizer",
        "Lambda authorizer, nameless",
        "HTTP API, Basic",
        "HTTP API, nothing",
    ):
        event = keyed(RECORDED[name])
        assert predicted(identifier, event) == happens(till, event)


# ------------------------------------------------------------------ any mixture of credentials

AUTHORIZATIONS = (None, BEARER, "Bearer opaque", f"Basic {basic('alice', 'secret')}", SIGNED)
VERIFIED: tuple[Json | None, ...] = (
    None,
    {"jwt": {"claims": ALICE}},
    {"iam": {"userArn": ARN}},
    {"lambda": {"principalId": "u-1"}},
    {"lambda": {"userId": "u-1"}},
    {"principalId": "user"},
)
BESIDE = (None, "x-api-key", "apiKeyId", "cookie", "clientCert")


def _mixed(authorization: str | None, authorizer: Json | None, beside: tuple[str | None, ...]) -> Json:
    """A request through a REST API with some of all credentials."""
    headers = {"Authorization": authorization, "x-api-key": "k-1", "cookie": "session=a"}
    wanted = {"Authorization", *beside}
    event = by_rest(authorizer, {name: text for name, text in headers.items() if text and name in wanted})
    if "apiKeyId" in beside:
        event["requestContext"]["identity"] |= {"apiKey": "k-1", "apiKeyId": "id-1"}
    return with_certificate(event) if "clientCert" in beside else event


MIXED = [
    _mixed(authorization, authorizer, beside)
    for authorization, authorizer, beside in product(AUTHORIZATIONS, VERIFIED, combinations(BESIDE, 2))
]


@pytest.mark.parametrize("form", [keyed, deepcopy], ids=["key", "no key"])
def test_what_is_predicted_of_a_mixture_happens(form: Callable[[Json], Json]) -> None:
    """Whatever credentials come together, by the real decorator: every third mixture."""
    assert _differences({}, {str(n): form(event) for n, event in enumerate(MIXED[::3])}) == []


@pytest.mark.parametrize("form", [keyed, deepcopy], ids=["key", "no key"])
def test_whoever_is_named_shares_nothing(form: Callable[[Json], Json]) -> None:
    """
    Where a user's name or credential is in the request, no other user and no forger gets the response.

    The exception is documented: users for whom a Lambda authorizer returns one principal, and who send no
    Authorization.
    """
    identifier, shared = identifier_of(Till(plain())), 0
    for event in map(form, MIXED):
        caller = caller_of(event, header_values(event), hashed=True)
        found = predicted(identifier, event)
        to = {who for who in Sender if found[who] == "response" and not who.is_first_caller}
        if caller.is_unscoped:
            shared += bool(to)
        elif to:
            assert to == {Sender.SAME_NAME}
            assert Origin.LAMBDA_AUTHORIZER in caller.origins
            assert not {Origin.CLAIMS, Origin.BASIC, Origin.AUTHORIZATION} & {*caller.origins}
    assert shared > 0, "the test would pass for a prediction that nobody shares anything"


# ------------------------------------------------------------------ the senders


def _of(sender: Sender, event: Json, **options: Any) -> Json:
    found = sent_by(sender, event, **options).event
    assert found is not None
    return found


@pytest.mark.parametrize("sender", Sender)
@pytest.mark.parametrize("name", RECORDED)
def test_only_credentials_are_altered(name: str, sender: Sender) -> None:
    """Method, path, query, body and the key stay, and the event that was given is not touched."""
    event = keyed(RECORDED[name])
    before = deepcopy(event)
    found = sent_by(sender, event).event
    assert event == before
    for part in ("body", "path", "rawPath", "raw_path", "httpMethod", "method", "queryStringParameters"):
        assert found is None or found.get(part) == before.get(part)
    text = json.dumps(found)
    assert found is None or "idempotency-key" in text


@pytest.mark.parametrize("name", RECORDED)
def test_nobody_has_no_credentials(name: str) -> None:
    """Neither what a client sends nor what the gateway writes of it is left."""
    text = json.dumps(_of(Sender.NOBODY, RECORDED[name]))
    for secret in ("alice", "opaque", "k-1", "session=a", "u-1", ARN, "CN=shop", "Signature="):
        assert secret not in text


@pytest.mark.parametrize("name", RECORDED)
def test_a_forger_has_nothing_that_only_the_gateway_writes(name: str) -> None:
    """He writes headers; the context of the request is the gateway's."""
    found = sent_by(Sender.FORGED, RECORDED[name]).event
    if found is not None:
        context = json.dumps(found.get("requestContext", {}))
        assert not any(secret in context for secret in ("alice", "u-1", ARN, "CN=shop"))
        assert "x-amzn-lattice-identity" not in json.dumps(found)


def test_a_verified_claim_of_another_user() -> None:
    """In the token and in what the gateway made of it; issuer and expiry stay."""
    event = _of(Sender.OTHER_USER, RECORDED["HTTP API, JWT authorizer"])
    assert event["requestContext"]["authorizer"]["jwt"]["claims"] == ALICE | {
        "sub": "alice-other",
        "exp": "1795169520",
    }
    assert (
        event["headers"]["authorization"] != RECORDED["HTTP API, JWT authorizer"]["headers"]["authorization"]
    )


@pytest.mark.parametrize("place", ["body", "headers", "authorizer"])
def test_an_event_may_be_nested_deeply(place: str) -> None:
    """As deeply as a file of JSON may be."""
    nested: Any = "x"
    for _ in range(900):
        nested = [nested]
    event = keyed(http(authorizer={"lambda": {}}))
    user = event["requestContext"]["authorizer"]["lambda"]
    user["userId"] = nested if place == "authorizer" else "u"
    event["headers"]["x-api-key"] = nested if place == "headers" else "k"
    event["body"] = nested if place == "body" else "{}"
    assert len([sent_by(sender, event) for sender in Sender]) == len(Sender)


ODD: list[Json] = [
    {"headers": [1]},
    {"headers": {"Authorization": 5, "cookie": None}},
    {"multiValueHeaders": {"Authorization": [5, None, "Bearer x"], "x-api-key": "k"}},
    {"cookies": {"a": 1}},
    {"cookies": [5, "a=b"]},
    {"requestContext": {"http": {"method": "POST"}, "identity": [1], "authorizer": 5}},
    {"requestContext": {"http": {"method": "POST"}, "authorizer": {"jwt": {"claims": [1]}, "lambda": [1]}}},
    {"requestContext": {"http": {"method": "POST"}, "authorizer": {"claims": {"sub": 5, "a": {}}}}},
    {"requestContext": {"http": {"method": "POST"}, "authorizer": {"lambda": {"user": True, "a": 1.5}}}},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_an_odd_event_is_answered_as_in_reality(odd: Json) -> None:
    """Whatever stands where a credential should be."""
    event = keyed(http()) | odd
    till = Till(plain())
    identifier = identifier_of(till)
    assert predicted(identifier, event) == happens(till, event)


def test_a_forged_header_has_a_place() -> None:
    """Also in an event that has none."""
    event = http(authorizer={"jwt": {"claims": ALICE}})
    found = _of(Sender.FORGED, {**event, "headers": None})
    assert found["headers"]["authorization"].startswith("Bearer ")


def test_a_refreshed_token_names_the_same_user() -> None:
    """Token and claims are later; the name stays."""
    event = _of(Sender.REFRESHED, RECORDED["HTTP API, JWT authorizer"])
    assert event["requestContext"]["authorizer"]["jwt"]["claims"] == ALICE | {"exp": "1795173120"}
    assert event["headers"]["authorization"].startswith("Bearer ")


@pytest.mark.parametrize(
    ("event", "sender", "why"),
    [
        (http(), Sender.OTHER_KEY, "the event has no API key"),
        (http(), Sender.OTHER_COOKIES, "the event has no cookies"),
        (http(), Sender.REFRESHED, "no token that expires"),
        (http(), Sender.FORGED, "no name that a header could claim"),
        (RECORDED["HTTP API, opaque bearer"], Sender.SAME_NAME, "opaque"),
        (RECORDED["ALB, OIDC"], Sender.SAME_NAME, "signs a name anew"),
        (
            http(headers={"x-api-key": "k"}, authorizer={"jwt": {"claims": ALICE}}),
            Sender.OTHER_KEY,
            "would be the same",
        ),
        (http(headers={"authorization": "a"}, cookies=["a=b"]), Sender.OTHER_COOKIES, "would be the same"),
        (http(headers={"authorization": "Bearer a, Bearer b"}), Sender.FORGED, "no name"),
        ({**http(), "headers": None}, Sender.FORGED, "no name"),
    ],
)
def test_what_is_not_applicable_says_why(event: Json, sender: Sender, why: str) -> None:
    """An alteration that changes nothing is none."""
    found = sent_by(sender, event)
    assert found.event is None
    assert why in found.who


@pytest.mark.parametrize(
    "text",
    ["", "Basic !!!", f"Basic {basic('', '')}", "Bearer a.b.c", f"Bearer {jwt(['alice'])}", "Bearer ..", " "],
)
@pytest.mark.parametrize("sender", Sender)
def test_a_malformed_credential_is_altered_all_the_same(text: str, sender: Sender) -> None:
    """As the real decorator reads it."""
    event = keyed(http(headers={"authorization": text}))
    till = Till(plain())
    identifier = identifier_of(till)
    assert predicted(identifier, event)[sender] == happens(till, event)[sender]


# ------------------------------------------------------------------ the finding


def _found(event: Json, *senders: Sender, **options: Any) -> Any:
    identifier = identifier_of(Till(plain(**options)))
    return disclosure(identifier, event, replies(identifier, event, senders or Sender))


@pytest.mark.parametrize(
    ("event", "options", "to", "line"),
    [
        (http(), {}, ["nobody"], 'unscoped="refuse"'),
        (RECORDED["HTTP API, nothing"], {}, ["nobody"], "an authorizer or caller="),
        (keyed(RECORDED["HTTP API, cookies"]), {}, ["nobody", "other-cookies"], 'caller="cookies.session"'),
        (RECORDED["REST API, API key"], {}, ["same-name"], 'caller="requestContext.identity.apiKeyId"'),
        (RECORDED["HTTP API, x-api-key alone"], {}, ["same-name"], """caller='headers."x-api-key"'"""),
        (RECORDED["HTTP API, certificate"], {}, ["same-name"], "a function of the event"),
        (RECORDED["ALB, certificate"], {}, ["same-name", "forged"], "a certificate names an application"),
        (
            RECORDED["Lambda authorizer, no header"],
            {},
            ["same-name"],
            'caller="requestContext.authorizer.principalId"',
        ),
        (
            http(authorizer={"lambda": {"userId": "u", "tenant": "t"}}),
            {"caller": "requestContext.authorizer.lambda.tenant"},
            ["other-user"],
            "select the id of the user",
        ),
        (http(headers={"x-user": "u"}), {"caller": 'headers."x-user"'}, ["forged"], "any client can send"),
        (
            RECORDED["REST API, Cognito"],
            {},
            ["other-tenant"],
            """scope='requestContext.authorizer.claims."custom:tenant"'""",
        ),
    ],
)
def test_a_disclosure_has_the_line_to_write(
    event: Json, options: dict[str, Any], to: list[str], line: str
) -> None:
    """To whom, and what to do about it."""
    found = _found(event, **options)
    assert [sender.value for sender in found.to] == to
    assert line in found.advice
    assert not found.declared


@pytest.mark.parametrize(
    ("event", "options"),
    [
        (keyed(RECORDED["HTTP API, cookies"]), {"caller": "cookies.session"}),
        (http(), {"unscoped": "refuse"}),
        (keyed(RECORDED["HTTP API, cookies"]), {"unscoped": "refuse"}),
        (RECORDED["REST API, Cognito"], {"scope": 'requestContext.authorizer.claims."custom:tenant"'}),
        (RECORDED["REST API, API key"], {"caller": "requestContext.identity.apiKeyId"}),
        (
            RECORDED["Lambda authorizer, no header"],
            {"caller": "requestContext.authorizer.principalId"},
        ),
    ],
)
def test_the_line_cures_it(event: Json, options: dict[str, Any]) -> None:
    """What the advice says, written: nobody else gets the response; the first caller does, if it is named."""
    assert _found(event) is not None
    assert _found(event, **options) is None
    expected = "400" if "unscoped" in options else "response"
    assert predicted(identifier_of(Till(plain(**options))), event)[Sender.SAME] == expected


def test_a_refusal_has_its_problem() -> None:
    """Status and type are those of the answer: a caller is missing, or it is another one."""
    identifier = identifier_of(Till(plain(unscoped="refuse")))
    event = keyed(RECORDED["HTTP API, opaque bearer"])
    found = replies(identifier, event, [Sender.NOBODY, Sender.OTHER_USER])
    assert [each.problem and (each.problem.status, each.problem.type) for each in found] == [
        (400, "urn:lambda-once:caller-missing"),
        (422, "urn:lambda-once:other-credentials"),
    ]


def test_a_declaration_is_named() -> None:
    """caller=False says that all callers are one: everybody gets it, and that is no finding."""
    found = _found(keyed(RECORDED["HTTP API, Basic"]), caller=False)
    assert found.declared
    assert "caller=False" in found.advice
    assert set(found.to) == {Sender.NOBODY, Sender.SAME_NAME, Sender.OTHER_USER, Sender.FORGED}


def test_only_those_who_were_asked_for() -> None:
    """A finding is about the senders that were given."""
    event = RECORDED["HTTP API, nothing"]
    assert _found(event, Sender.SAME, Sender.OTHER_USER) is None
    assert _found(event, Sender.NOBODY).to == (Sender.NOBODY,)


# ------------------------------------------------------------------ the command

MODULE = """
from lambda_once import Once
from aws_lambda_powertools.event_handler.api_gateway import Router

once = Once(service="shop")
router = Router()

@once.api_gateway(name="order")
def order(event, context):
    raise SystemExit("it ran")

@once.api_gateway(name="open", caller=False)
def shared(event, context): ...

@once.api_gateway(name="strict", unscoped="refuse")
def refusing(event, context): ...

@once.sqs
def queue(record): ...

@router.post("/orders", middlewares=[once.route(name="route")])
def create(): ...
"""


@pytest.fixture(name="run")
def at_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return what runs the command in the folder of the module, on an event."""
    import sys

    (tmp_path / "replayed.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})

    def run(function: str, event: Json, *arguments: str) -> Result:
        given = ("explain", "--handler", f"replayed:{function}", "-", *arguments)
        return CliRunner().invoke(app, given, input=json.dumps(event))

    return run


Run = Callable[..., Result]


def test_a_person_reads_who_gets_it(run: Run) -> None:
    """A row for each sender, and the sentence; the exit code says that somebody else gets it."""
    ran = run("order", keyed(RECORDED["REST API, API key"]), "--as", "all")
    assert ran.exit_code == 1
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert "same gets the response the first caller again" in lines
    assert "other-key runs somebody with another API key" in lines
    assert "other-cookies not applicable the event has no cookies" in lines
    assert lines[-1].startswith("Others get the response (same-name): an API key names an application")


@pytest.mark.parametrize("function", ["order", "create"])
def test_a_handler_and_a_route(run: Run, function: str) -> None:
    """Neither runs; nobody but the first caller gets the response, and the exit code is 0."""
    ran = run(function, keyed(RECORDED["HTTP API, JWT not verified"]), "--as", "all")
    assert ran.exit_code == 0, ran.output
    assert "422 other-credentials" in ran.stdout
    assert "Nobody but the first caller gets the response. A retry of the first caller does" in ran.stdout
    assert "either (refreshed)." in ran.stdout


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ("HTTP API, nothing", "nothing names the caller; no credential is compared"),
        ("HTTP API, JWT authorizer", "iss and sub; its SHA-256 joins the token"),
        ("HTTP API, JWT not verified", "joins the token; a duplicate must present the same credential"),
    ],
)
def test_what_is_compared_is_said(run: Run, recorded: str, said: str) -> None:
    """Without a credential nothing is; what joins the token is not said twice."""
    ran = run("order", keyed(RECORDED[recorded]))
    assert said in " ".join(ran.stdout.split())


@pytest.mark.parametrize(
    ("function", "change", "said", "code"),
    [
        ("refusing", {}, "The request itself is refused: there is no response to get.", 1),
        ("order", {"method": "GET"}, "The request runs unprotected: no response is stored.", 0),
        ("order", {"authorizer": {"lambda": {"userId": "a"}}}, "Nobody gets the response, not even", 0),
    ],
)
def test_where_there_is_no_response(run: Run, function: str, change: Json, said: str, code: int) -> None:
    """It is not said that the first caller gets one."""
    event = keyed(RECORDED["HTTP API, nothing"])
    context = event["requestContext"]
    if "method" in change:
        context["http"]["method"] = change["method"]
    else:
        context.update(change)
    ran = run(function, event, "--as", "all")
    assert said in ran.stdout
    assert "but the first caller" not in ran.stdout
    assert ran.exit_code == code


def test_declared_is_no_finding(run: Run) -> None:
    """caller=False: it is printed that it was declared, and the exit code is 0."""
    ran = run("shared", RECORDED["HTTP API, nothing"], "--as", "nobody")
    assert ran.exit_code == 0
    assert "as declared (nobody): caller=False" in ran.stdout


def test_the_page_shows_what_is_printed(run: Run) -> None:
    """The table of docs/cli.md, line by line; the command is not wrapped in a pipe."""
    page = (GOLDEN.parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = page.split("### Who else gets a response")[1].split("```text\n")[1].split("```")[0]
    ran = run("order", keyed(RECORDED["REST API, API key"]), "--as", "all")
    assert ran.stdout.endswith(f"\n\n{shown}")
    assert [sender for sender in Sender if f"\n{sender.value} " not in shown] == []


def test_as_json(run: Run) -> None:
    """The same for a program; only the senders that were asked for, each once."""
    given = ("--as", "forged", "--as", "nobody", "--as", "forged", "--output", "json")
    ran = run("order", keyed(RECORDED["HTTP API, JWT not verified"]), *given)
    assert ran.exit_code == 0
    found = json.loads(ran.stdout)
    assert found["disclosure"] is None
    forged, nobody = found["as"]
    assert forged == {
        "sender": "forged",
        "firstCaller": False,
        "gets": "refused",
        "who": "a forged Bearer JWT with the first caller's name",
        "status": 422,
        "type": "urn:lambda-once:other-credentials",
        "error": None,
    }
    assert (nobody["sender"], nobody["gets"]) == ("nobody", "runs")
    leaks = json.loads(run("order", RECORDED["HTTP API, nothing"], "--as", "all", "--output", "json").stdout)
    assert leaks["disclosure"]["to"] == ["nobody"]
    assert "as" not in json.loads(run("order", RECORDED["HTTP API, nothing"], "--output", "json").stdout)


def test_no_credential_is_printed(run: Run) -> None:
    """Neither the first caller's nor one that was made of it."""
    for event in RECORDED.values():
        for output in ("table", "json"):
            printed = run("order", keyed(event), "--as", "all", "--output", output).output
            for secret in ("alice", "opaque-other", "k-1", "session=a", "u-1", ARN, "CN=shop", "c0ffee"):
                assert secret not in printed


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("queue", ["--as", "all"], "once.sqs received an event of API Gateway"),
        ("order", ["--as", "all", "other.json"], "--as replays one event: leave EVENT2.json out"),
        ("order", ["--as", "mallory"], "'mallory' is not one of 'all', 'same', 'refreshed', 'nobody'"),
    ],
)
def test_a_mistake_is_one_line(run: Run, function: str, arguments: list[str], message: str) -> None:
    """With exit code 2, and nothing on standard output."""
    ran = run(function, RECORDED["HTTP API, nothing"], *arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert message in line


def test_another_source_has_no_senders(run: Run) -> None:
    """Its events have no credentials."""
    from lambda_once.testing import sqs_event

    ran = run("queue", sqs_event({"orderId": 5}), "--as", "all")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "--as is for HTTP events" in ran.stderr


def test_a_prediction_has_no_effect() -> None:
    """Nothing is stored and nothing runs, whatever the event."""
    till = Till(plain())
    for event in RECORDED.values():
        replies(identifier_of(till), event, Sender)
    assert (till.ran, till.store.records) == (0, {})
