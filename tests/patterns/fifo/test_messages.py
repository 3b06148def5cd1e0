"""What is made of a message before it is sent, and in which order messages may go."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once import Once
from lambda_once.core import keys
from lambda_once.core.canonical import digest, plain
from lambda_once.errors import KeyMissing, Misconfigured, OnceError
from lambda_once.patterns.fifo import messages
from lambda_once.patterns.fifo.channels import Channel
from lambda_once.patterns.fifo.messages import BATCH, Backlog, Message, MessageFormat, group_id
from lambda_once.patterns.fifo.publisher import Publisher
from lambda_once.testing import MemoryStore, lambda_context, sqs_event
from tests.patterns.fifo.queues import QUEUE, TOPIC

RECEIPT = {"receiptId": "r-5", "customer": "cust_7", "amount": Decimal("49.90")}
ALLOWED = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
"""What a group id and a deduplication id may be (API references, PublishBatch and SendMessageBatch)."""


def rules(target: str = TOPIC, **options: object) -> MessageFormat:
    """Return the rules of a publisher of receipts."""
    defaults: dict[str, object] = {"key": "receiptId", "group": "customer", "service": "orders"}
    return Publisher(target, object(), **{**defaults, **options}).format  # type: ignore[arg-type]


def message(group: str = "g", body: str = "b", identity: str = "i") -> Message:
    """Return a message that is ready to be sent."""
    return Message(body, group, identity, {}, len(body))


# -- requests


def test_requests_are_values() -> None:
    """The same entries for a topic and for a queue, under the names that each has for them."""
    ready = Message("{}", "cust_7", "d1", {"kind": {"DataType": "String", "StringValue": "paid"}}, 2)
    entry = {
        "Id": "0",
        "MessageGroupId": "cust_7",
        "MessageDeduplicationId": "d1",
        "MessageAttributes": {"kind": {"DataType": "String", "StringValue": "paid"}},
    }
    assert Channel(TOPIC).request([ready]) == {
        "TopicArn": TOPIC,
        "PublishBatchRequestEntries": [{**entry, "Message": "{}"}],
    }
    assert Channel(QUEUE).request([ready]) == {"QueueUrl": QUEUE, "Entries": [{**entry, "MessageBody": "{}"}]}


def test_the_id_is_the_digest_of_the_token() -> None:
    """Service, name, scope and key as in a lock token, so an operator finds one from the other."""
    made = rules(name="receipts", scope="customer")
    token = keys.token("orders", "receipts", "cust_7", "r-5")
    assert made.token(RECEIPT) == token == "orders/receipts/cust_7/r-5"
    assert made.prepared(RECEIPT).deduplication_id == digest(token)


def test_the_id_is_the_one_that_a_protected_handler_has() -> None:
    """A handler of the same service, name, key and scope takes the token whose digest the id is."""
    once, tokens = Once(store=MemoryStore(), service="orders"), list[str]()

    @once.sqs(name="receipts", key="receiptId", scope="attributes.MessageGroupId")
    def handler(_: object) -> None:
        tokens.append(once.current().token)

    made = rules(name="receipts", scope="customer")
    handler(sqs_event(json.loads(made.prepared(RECEIPT).body), fifo_groups="cust_7"), lambda_context())
    assert tokens == [made.token(RECEIPT)]


@pytest.mark.parametrize("text", [False, True])
def test_a_message_without_key_is_its_own_key(*, text: bool) -> None:
    """Whether it is given as a value or as the text of one."""
    given_message = json.dumps({"a": 1, "b": [2]}) if text else {"b": [2], "a": 1}
    made = rules(name="receipts", key=None, group="'all'")
    assert made.token(given_message) == made.token({"a": 1, "b": [2]}) != made.token({"a": 1, "b": [3]})


def test_the_name_is_that_of_the_target_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the service is that of the function, under Powertools' variable."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop")
    assert rules(service=None).token(RECEIPT) == "shop/receipts.fifo/r-5"
    assert rules(QUEUE, service=None, name="mine").token(RECEIPT) == "shop/mine/r-5"
    monkeypatch.delenv("POWERTOOLS_SERVICE_NAME")
    assert rules(service=None).token(RECEIPT) == "service_undefined/receipts.fifo/r-5"


@pytest.mark.parametrize("number", [5, 5.0, Decimal(5), Decimal("5.00"), Decimal("5E0")])
@pytest.mark.parametrize("select", ["id", lambda message: message["id"]])
def test_whole_numbers_of_all_types_are_one_key_and_one_group(number: object, select: object) -> None:
    """What a stream or a table returns has the id of what came as JSON."""
    made = rules(key=select, group=select, with_content=True)
    one, other = (made.prepared({"id": each, "n": each}) for each in (5, number))
    assert (one.deduplication_id, one.group) == (other.deduplication_id, other.group)


def test_callables_get_the_message() -> None:
    """Key, scope, group and attributes may be made by a function of what was published."""
    made = rules(
        key=lambda receipt: receipt["receiptId"],
        scope=lambda receipt: receipt["customer"],
        group=lambda receipt: receipt["customer"].upper(),
        attributes=lambda receipt: {
            "who": receipt["customer"],
            "amount": receipt["amount"],
            "raw": b"x",
        },
    )
    ready = made.prepared(RECEIPT)
    assert made.token(RECEIPT) == "orders/receipts.fifo/cust_7/r-5"
    assert ready.group == "CUST_7"
    assert ready.attributes == {
        "who": {"DataType": "String", "StringValue": "cust_7"},
        "amount": {"DataType": "Number", "StringValue": "49.90"},
        "raw": {"DataType": "Binary", "BinaryValue": b"x"},
    }


@pytest.mark.parametrize(
    "amount", ["49.90", "12345678901234567.89", "0.1", "1E+400", "-7.000000000000000000001", "0E-10", "100"]
)
def test_a_decimal_is_a_number_of_the_same_value(amount: str) -> None:
    """However long: also in a set, a list, a mapping, and beside text that looks like one."""
    given, text = Decimal(amount), '"12345678901234567.89"'
    read = json.loads(
        rules().prepared({**RECEIPT, "amount": given, "all": [{given}, {"x": given}], "text": text}).body,
        parse_float=Decimal,
    )
    assert read["text"] == text
    for each in (read["amount"], read["all"][0][0], read["all"][1]["x"]):
        assert isinstance(each, int | Decimal)
        assert each == given


def test_without_its_digits_a_decimal_becomes_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: as JSON is written otherwise, the receiver gets a number or text, by the value."""
    monkeypatch.setattr(messages, "_writable", plain)
    body = rules().prepared({**RECEIPT, "amount": Decimal("12345678901234567.89")}).body
    assert json.loads(body)["amount"] == "12345678901234567.89"


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_decimal_changes_on_its_way(amount: Decimal) -> None:
    """Whatever its digits and its exponent."""
    body = rules().prepared({**RECEIPT, "amount": amount}).body
    assert json.loads(body, parse_float=Decimal, parse_int=Decimal)["amount"] == amount


def test_beside_such_a_decimal_everything_is_written_as_ever() -> None:
    """Names that are no text, sets, nesting; and what is not JSON is refused there, too."""
    long = Decimal("12345678901234567.89")
    value = {1: [{"a": (1, long)}], None: {long}, 1.5: "ü", "deep": {"at": date(2026, 11, 20)}}
    body = rules(key=lambda _: "k", group=lambda _: "g").prepared(value).body
    assert body == (
        '{"1":[{"a":[1,12345678901234567.89]}],"null":[12345678901234567.89],'
        '"1.5":"ü","deep":{"at":"2026-11-20"}}'
    )
    with pytest.raises(Misconfigured, match="is not JSON-serialisable: TypeError"):
        rules(key=lambda _: "k", group=lambda _: "g").prepared({"a": long, "b": object()})


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity", "sNaN"])
def test_what_is_no_number_is_refused(bad: str) -> None:
    """JSON has none of them."""
    with pytest.raises(Misconfigured, match="is not JSON-serialisable"):
        rules().prepared({**RECEIPT, "amount": Decimal(bad)})


def test_a_message_that_contains_itself_is_refused() -> None:
    """By a message of its own; nothing of it is sent."""
    cycle: dict[str, object] = {**RECEIPT}
    cycle["again"] = cycle
    with pytest.raises(Misconfigured, match="is not JSON-serialisable"):
        rules().prepared(cycle)


@pytest.mark.parametrize("character", ["\ufffe", "\uffff", "\x00", "\x0b"])
def test_characters_that_no_message_may_have_are_refused(character: str) -> None:
    """Before anything is sent: SQS would refuse the message, and hold up its group."""
    with pytest.raises(Misconfigured, match=f"U\\+{ord(character):04X}"):
        rules(key=None, group=lambda _: "g").prepared(f"a{character}b")
    with pytest.raises(Misconfigured, match=f"attribute 'kind' has the character U\\+{ord(character):04X}"):
        rules(attributes={"kind": character}).prepared(RECEIPT)


@pytest.mark.parametrize(
    "character", ["\t", "\n", "\r", " ", "\ud7ff", "\ue000", "\ufffd", "\U00010000", "ü"]
)
def test_all_other_characters_are_sent(character: str) -> None:
    """Those at the edges of what may be, and what JSON escapes."""
    assert rules(key=None, group=lambda _: "g").prepared(f"a{character}b").body == f"a{character}b"
    assert (
        json.loads(rules().prepared({**RECEIPT, "text": "\x00" + character}).body)["text"]
        == "\x00" + character
    )


def test_text_is_sent_as_it_is_and_all_else_as_json() -> None:
    """Nothing is added to a text; a value is what JSON writes of it."""
    made = rules(key="id", group="'all'")
    assert made.prepared('{ "id": 5 }').body == '{ "id": 5 }'
    value = {"id": 5, "at": datetime(2026, 11, 20, tzinfo=UTC), "amount": Decimal("49.90"), "name": "Ö"}
    assert made.prepared(value).body == '{"id":5,"at":"2026-11-20T00:00:00+00:00","amount":49.9,"name":"Ö"}'
    assert rules(key=lambda text: text, group="'all'").prepared("plain").body == "plain"


def test_content_counts_where_it_is_to() -> None:
    """An amended message of one key has an id of its own; what is ignored makes none."""
    first, second = {**RECEIPT, "sentAt": 1}, {**RECEIPT, "sentAt": 2}
    amended = {**RECEIPT, "amount": 1, "sentAt": 1}
    by_key = rules()
    by_content = rules(with_content=True, ignore="sentAt")
    ids = [
        [made.prepared(each).deduplication_id for each in (first, second, amended)]
        for made in (by_key, by_content)
    ]
    assert len({*ids[0]}) == 1
    assert ids[1][0] == ids[1][1] != ids[1][2]


# -- groups


@pytest.mark.parametrize(
    ("given_group", "group"),
    [
        ("cust_7", "cust_7"),
        *((number, "7") for number in (7, 7.0, Decimal(7), Decimal("7.00"))),
        (10**200, digest(f"{10**200}")),
        ("cust 7", "cust%207"),
        ("100%", "100%25"),
        ("Ö", "%C3%96"),
        ("!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~", "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"),
        ("x" * 128, "x" * 128),
        ("x" * 129, digest("x" * 129)),
        ("a" * 64, digest("a" * 64)),
    ],
)
def test_groups_fit_what_a_queue_takes(given_group: object, group: str) -> None:
    """As they stand where they may, encoded or digested where they may not."""
    assert group_id(given_group) == group


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_groups_have_two_ids(first: str, second: str) -> None:
    """And each is one that SNS and SQS take."""
    assert (group_id(first) == group_id(second)) is (first == second)
    assert ALLOWED.fullmatch(group_id(first))


@given(st.text(min_size=1))
def test_ids_are_within_bounds_whatever_the_key(key: str) -> None:
    """64 hex digits, of 128 characters that may be."""
    made = rules().prepared({"receiptId": key, "customer": "c"})
    assert re.fullmatch(r"[0-9a-f]{64}", made.deduplication_id)


# -- bad input


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        ({"customer": "c"}, KeyMissing, "key is missing"),
        ({"receiptId": "r"}, KeyMissing, "group is missing"),
        ({"receiptId": "r", "customer": 1.5}, Misconfigured, "group is text or a whole number"),
        ({"receiptId": "r", "customer": True}, Misconfigured, "not a bool"),
        ({"receiptId": "r", "customer": Decimal("1.5")}, Misconfigured, "group is text or a whole number"),
        ("", Misconfigured, "empty"),
        ({"receiptId": "r", "customer": "c", "x": object()}, Misconfigured, "JSON"),
        ({"receiptId": "r", "customer": "c", "x": float("nan")}, Misconfigured, "JSON"),
        (
            {"receiptId": "r", "customer": "c", "x": "x" * 262_144},
            Misconfigured,
            "store the large part",
        ),
    ],
)
def test_a_bad_message_has_its_problem(bad: object, error: type[OnceError], says: str) -> None:
    """And the good ones have none. By itself it raises."""
    good, found = rules().all_prepared([RECEIPT, bad])
    assert good.problem is None
    assert found.problem is not None
    assert found.problem.code == error.__name__
    assert re.search(says, found.problem.reason)
    with pytest.raises(error, match=says):
        rules().prepared(bad)


def test_an_empty_group_is_none() -> None:
    """A callable may give what an expression would not."""
    with pytest.raises(KeyMissing, match="group is"):
        group_id("")


def test_an_empty_message_is_no_key() -> None:
    """Every empty one would be a duplicate of the first."""
    with pytest.raises(KeyMissing, match="empty payload is not a key"):
        rules(key=None, group="'all'").prepared({})


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({f"a{n}": 1 for n in range(11)}, "11 attributes.*10"),
        ({"": "x"}, "letters, digits"),
        ({"a b": "x"}, "letters, digits"),
        ({"a": ""}, "empty"),
        ({"a": True}, "is a bool"),
        ({"a": None}, "is a NoneType"),
    ],
)
def test_attributes_that_no_message_can_have_are_refused(attributes: object, says: str) -> None:
    """More than ten would be lost on their way, silently: SNS drops such a message."""
    with pytest.raises(Misconfigured, match=says):
        rules(attributes=attributes).prepared(RECEIPT)


def test_the_size_counts_attributes() -> None:
    """Body, and names, types and values of attributes: what is at the limit passes, a byte more does not."""
    made = rules(key=lambda _: "k", group="'all'", attributes={"kind": "paid"}, largest=100)
    rest = 100 - len("kindStringpaid")
    assert made.prepared("ö" * (rest // 2)).size == 100
    with pytest.raises(Misconfigured, match="101 bytes"):
        made.prepared("ö" * (rest // 2) + "x")


def test_two_messages_of_one_key_must_not_differ() -> None:
    """The second would be taken as a duplicate, and never be delivered: "amended" must not vanish."""
    amended = {**RECEIPT, "amount": 1}
    problems = [each.problem for each in rules().all_prepared([RECEIPT, RECEIPT, amended])]
    assert problems[:2] == [None, None]
    assert problems[2] is not None
    assert problems[2].code == "KeyReused"
    assert re.search("messages 0 and 2 .*with_content", problems[2].reason)
    assert not any(each.problem for each in rules(with_content=True).all_prepared([RECEIPT, amended]))
    assert not any(each.problem for each in rules(ignore=["amount"]).all_prepared([RECEIPT, amended]))


@pytest.mark.parametrize(
    "target",
    [
        "arn:aws:sns:eu-central-1:123456789012:receipts",
        "arn:aws:sqs:eu-central-1:123456789012:receipts.fifo",
        "https://sqs.eu-central-1.amazonaws.com/123456789012/receipts",
        "receipts.fifo",
        "",
    ],
)
def test_only_fifo_targets_are_taken(target: str) -> None:
    """A standard topic or queue knows neither groups nor ids, and a queue is addressed by its URL."""
    with pytest.raises(Misconfigured, match=r"\.fifo"):
        Publisher(target, object(), group="'all'")


@pytest.mark.parametrize("option", ["key", "scope", "group"])
def test_an_expression_that_is_none_is_refused_at_once(option: str) -> None:
    """When the publisher is made, not when the first message comes."""
    with pytest.raises(Misconfigured, match="not a JMESPath expression"):
        rules(**{option: "a["})


@pytest.mark.parametrize("largest", [0, -1, 1_048_577])
def test_a_request_has_its_limits(largest: int) -> None:
    """One byte to one MiB."""
    with pytest.raises(Misconfigured, match="largest="):
        rules(largest=largest)


# -- order


def drained(messages: list[Message], most_bytes: int = 1000) -> list[list[int]]:
    """Return the positions of each request, all messages being taken."""
    backlog = Backlog(dict(enumerate(messages)))
    requests = []
    while taken := backlog.take(most_bytes):
        requests.append([position for position, _ in taken])
        for position, _ in taken:
            backlog.sent(position)
    return requests


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 60)), max_size=60))
def test_requests_keep_the_order_of_groups(sizes: list[tuple[str, int]]) -> None:
    """Each message goes once, none with or before an earlier one of its group, within a request's limits."""
    messages = [message(group, "x" * size) for group, size in sizes]
    requests = drained(messages, 100)
    assert sorted(position for request in requests for position in request) == [*range(len(messages))]
    for request in requests:
        assert len(request) <= BATCH
        assert sum(messages[position].size for position in request) <= 100
        assert max(Counter(messages[position].group for position in request).values()) == 1
    for group in "abcd":
        sent = [p for request in requests for p in request if messages[p].group == group]
        assert sent == sorted(sent)


def test_many_groups_make_few_requests() -> None:
    """Thirty messages of thirty groups are three requests; of one group they are thirty."""
    assert [len(request) for request in drained([message(f"g{n}") for n in range(30)])] == [10, 10, 10]
    assert [len(request) for request in drained([message("g")] * 30)] == [1] * 30


def _groups(positions: Iterable[int], messages: list[Message]) -> list[str]:
    return [messages[position].group for position in positions]


def test_what_failed_goes_first_and_alone_of_its_group() -> None:
    """Until it is done nothing behind it is sent; given up, the rest of its group is named and never goes."""
    messages = [message(group) for group in "aabbcc"]
    backlog = Backlog(dict(enumerate(messages)))
    assert backlog.take(1000) == [(0, 0), (2, 0), (4, 0)]
    backlog.sent(0)
    backlog.again(2, 1)
    assert backlog.failed(4) == [5]
    assert backlog.take(1000) == [(2, 1), (1, 0)]
    backlog.sent(2)
    backlog.sent(1)
    assert _groups((position for position, _ in backlog.take(1000)), messages) == ["b"]
