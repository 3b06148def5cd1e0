from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import KeyReused, MemoryStore, Once
from lambda_once.errors import Misconfigured
from lambda_once.sources.event import is_asynchronous, read
from lambda_once.sources.services import SERVICES, service_of
from lambda_once.testing import lambda_context
from tests.sources import samples
from tests.sources.services import ARN, ASKING, ASYNCHRONOUS, KEYED, REFUSED, VOLATILE

ALL: dict[str, Any] = {**KEYED, **ASKING, **REFUSED}


def changed(event: Any, way: tuple[str, ...]) -> Any:
    """Give *event* with another value where *way* leads."""
    found = copy.deepcopy(event)
    place = found
    *rest, last = way
    for name in rest:
        place = place[int(name) if isinstance(place, list) else name]
    place[last] = "changed"
    return found


def protected(**options: Any) -> tuple[Callable[[Any], object], list[object]]:
    """Give a handler of `once.event`, and the events that it has processed on."""
    seen: list[object] = []

    @Once(store=MemoryStore(), service="shop").event(name="work", **options)
    def handler(event: Any) -> int:
        seen.append(event)
        return len(seen)

    return lambda event: handler(event, lambda_context()), seen


@pytest.mark.parametrize("name", KEYED)
def test_an_event_with_an_identity_runs_once(name: str) -> None:
    """Another delivery of it, whatever else changed, is a duplicate and not a reused key."""
    for way in VOLATILE[name]:
        handler, seen = protected()
        assert handler(KEYED[name]) == handler(changed(KEYED[name], way)) == 1
        assert seen == [KEYED[name]]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("cloudformation", ("RequestId",)),
        ("cloudformation", ("StackId",)),
        ("codepipeline", ("CodePipeline.job", "id")),
        ("ses", ("Records", "0", "ses", "mail", "messageId")),
        ("secrets manager", ("Step",)),
        ("secrets manager", ("ClientRequestToken",)),
        ("secrets manager", ("SecretId",)),
    ],
)
def test_another_identity_is_other_work(name: str, way: tuple[str, ...]) -> None:
    """Each part of the identity counts."""
    handler, _ = protected()
    assert handler(KEYED[name]) == 1
    assert handler(changed(KEYED[name], way)) == 2


def mail(
    subject: str, id_: str = "1", recipients: tuple[str, ...] = ("a@example.com", "b@example.com")
) -> Any:
    """Give the event of a mail that one rule has matched for *recipients*."""
    event = copy.deepcopy(KEYED["ses"])
    ses = event["Records"][0]["ses"]
    headers = {"from": ["ann@example.com"], "subject": subject, "date": id_, "messageId": f"<{id_}>"}
    ses["mail"] |= {"messageId": id_, "commonHeaders": headers}
    ses["receipt"]["recipients"] = [*recipients]
    return event


def test_a_mail_that_is_sent_again_under_one_key_is_the_same() -> None:
    """Its ids and date are its place, as an offset is; recipients and subject say what it is."""
    sender = "Records[0].ses.mail.commonHeaders.from"
    handler, seen = protected(key=sender)
    again = mail("order 5", "2", ("b@example.com", "a@example.com"))
    assert [handler(each) for each in (mail("order 5"), mail("order 5"), again)] == [1, 1, 1]
    for other in (mail("order 5", recipients=("c@example.com",)), mail("order 6")):
        with pytest.raises(KeyReused):
            handler(other)
    assert len(seen) == 1


def test_a_header_of_a_mail_may_be_ignored() -> None:
    """As any field of the event."""
    handler, _ = protected(key=lambda _: 5, ignore=("Records.ses.mail.commonHeaders.subject",))
    assert [handler(mail(subject)) for subject in ("order 5", "Fwd: order 5")] == [1, 1]


def test_two_mails_in_one_event_are_one_piece_of_work() -> None:
    """SES sends one; should it ever send two, both count."""
    (mail,) = KEYED["ses"]["Records"]
    other = changed(mail, ("ses", "mail", "messageId"))
    handler, _ = protected()
    assert [handler({"Records": each}) for each in ([mail], [mail, other], [other, mail])] == [1, 2, 3]


@pytest.mark.parametrize("name", ASKING)
def test_an_event_without_an_identity_needs_a_key(name: str) -> None:
    """Without one nothing runs, and the message asks for it; with one it is protected."""
    handler, seen = protected()
    with pytest.raises(Misconfigured, match=r"no id that .* Nothing ran. Pass once\.event a key="):
        handler(ASKING[name])
    assert seen == []
    handler, seen = protected(key=lambda _event: "mine")
    assert handler(ASKING[name]) == handler(ASKING[name]) == 1


def test_the_second_try_of_an_appsync_client_is_a_duplicate() -> None:
    """Headers and claims of the second request are no part of its fingerprint."""
    handler, _ = protected(key="arguments.id")
    again = changed(
        changed(ASKING["appsync"], ("request", "headers", "x-amzn-trace-id")), ("identity", "claims")
    )
    assert handler(ASKING["appsync"]) == handler(again) == 1


@pytest.mark.parametrize("name", REFUSED)
def test_a_service_whose_answer_must_not_be_replayed_is_refused(name: str) -> None:
    """No key helps; the effect inside can be protected."""
    for options in ({}, {"key": lambda _event: "mine"}):
        handler, seen = protected(**options)
        with pytest.raises(Misconfigured, match=r"Nothing ran\. .*with any key\. Protect .* with once\.run"):
            handler(REFUSED[name])
        assert seen == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_function_is_no_way_around(name: str) -> None:
    """once.function refuses these events, too, unless key= and fingerprint= say what identifies them."""
    once = Once(store=MemoryStore(), service="shop")
    ways: list[Any] = [{}, {"key": lambda _event: "mine"}]
    for n, options in enumerate(ways):
        work: Any = once.function(name=f"work {n}", **options)(_never)
        with pytest.raises(Misconfigured, match=r"once\.function received an event of .*Nothing ran"):
            work(REFUSED[name])


@pytest.mark.parametrize("name", KEYED)
def test_a_function_knows_the_identity_of_an_event(name: str) -> None:
    """The same event as another delivery is the same call."""
    ran: list[object] = []
    work: Any = Once(store=MemoryStore(), service="shop").function(name="work")(ran.append)
    work(KEYED[name])
    for way in VOLATILE[name]:
        work(changed(KEYED[name], way))
    assert len(ran) == 1


NO_SOURCE = {"the end of a tumbling window", "lambda@edge"}
"""Events without records, or whose records do not name their source: once.sqs takes them for its own."""


@pytest.mark.parametrize("name", [name for name in ALL if name not in NO_SOURCE])
def test_another_decorator_names_the_service(name: str) -> None:
    """Never "a direct invocation"; and what to use for it."""
    once = Once(store=MemoryStore(), service="shop")
    service = service_of(ALL[name])
    assert service is not None
    for face in (once.sqs, once.sns, once.api_gateway):
        handler: Any = face(_never)
        with pytest.raises(Misconfigured, match="Nothing ran") as raised:
            handler(ALL[name], lambda_context())
        assert f"received an event of {service.name}. " in str(raised.value)
        advice = "once.run" if name in REFUSED else "with key=" if name in ASKING else "Use once.event for it"
        assert advice in str(raised.value)


@pytest.mark.parametrize("name", [*KEYED, *ASKING])
def test_asynchronous_services_are_known(name: str) -> None:
    """Lambda tries again by itself for these."""
    assert is_asynchronous(ALL[name]) == (name in ASYNCHRONOUS)


def test_every_row_of_the_table_has_an_event() -> None:
    """So that no shape is taken on trust."""
    assert {service_of(event) for event in ALL.values()} == set(SERVICES)


@pytest.mark.parametrize(
    "event",
    [
        {},
        [],
        [1],
        "text",
        None,
        {"Records": []},
        {"source": "shop", "detail-type": "t", "detail": {}},
        {"RequestType": "Create", "order": 5},
        {"Step": "one", "SecretId": 5},
        {"arguments": {"id": 1}},
        {"username": "alice", "serverId": "s-1"},
        {"username": "alice", "serverId": "web-7", "protocol": "https"},
        {"username": "alice", "protocol": "SFTP"},
        {"info": {"fieldName": "x"}},
        {"requestContext": {"connectionId": 5}},
        {"invocationId": "x", "records": []},
        {"invocationId": "x", "applicationArn": 5, "records": []},
        {"protocolData": {"mqtt": {}}},
        {"templateArn": ARN.format("ses", "template/welcome"), "parameters": {"name": "Ann"}},
        {"connection-id": "5"},
        {"eventType": "SyncTrigger"},
        {"Records": [{"cf": "text"}]},
        {"getObjectContext": "text"},
        {"fragment": {}, "requestId": "5"},
        {"InvocationId": "5", "Type": "Premium", "Application": "shop"},
        {"lifecycleStage": "trial", "executionId": "5"},
        {"widgetContext": {"id": 5}},
        {"EventType": "OrderPlaced"},
        {"@type": "Order", "identity": {"id": 5}},
        {"external_function": "f", "arguments": []},
        {"RequestType": "Create", "PhysicalResourceId": "5", "Data": {}},
        {"event": {"payload": "x"}},
        {"Name": "ContactFlowEvent", "Details": None},
        {"CodePipeline.job": None},
        {"awslogs": "x"},
    ],
)
def test_what_only_looks_alike_is_a_direct_invocation(event: object) -> None:
    """A name or two in common do not make it an event of a service."""
    assert service_of(event) is None
    (unit,) = read(event, "r-1")
    assert unit.what.content.flaw is None
    assert is_asynchronous(event)


def test_every_row_is_found_by_a_name_of_its_events() -> None:
    """Whatever is recognised has one, or the row would never be looked at."""
    for event in ALL.values():
        (given,) = event if isinstance(event, list) else [event]
        assert any(each.recognises(given) and not given.keys().isdisjoint(each.by) for each in SERVICES)


@pytest.mark.parametrize("options", [{}, {"key": "path"}])
def test_an_authorizer_of_an_http_api_is_called_that(options: Any) -> None:
    """Under payload format 1.0 it has the fields of AppSync's, too."""
    event = {
        "version": "1.0",
        "type": "REQUEST",
        "methodArn": ARN.format("execute-api", "abcdef123/test/GET/request"),
        "identitySource": "user1,123",
        "authorizationToken": "user1,123",
        "path": "/request",
        "httpMethod": "GET",
        "requestContext": {"apiId": "abcdef123", "httpMethod": "GET"},
    }
    with pytest.raises(Misconfigured, match=r"an event of a Lambda authorizer\. Nothing ran\. .*once\.run"):
        protected(**options)[0](event)


def test_no_event_with_a_decorator_is_taken_for_a_service() -> None:
    """The table never shadows a source of its own."""
    own: list[object] = [samples.sns_event("m"), samples.eventbridge({"a": 1}), samples.tick("1")]
    own += [samples.batch(samples.s3_record())]
    for event in own:
        if event is not own[0]:
            assert [unit.what.content.flaw for unit in read(event, "r-1")] == [None]


def _never(record: object) -> None:
    raise AssertionError(record)
