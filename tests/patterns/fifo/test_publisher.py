"""Publishing: in order within a group, nothing twice within the window, nothing dropped in silence."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import boto3
import pytest
from botocore.exceptions import NoCredentialsError
from moto import mock_aws

from lambda_once.dynamodb.retry import TRIES
from lambda_once.errors import Misconfigured, RetryLater
from lambda_once.patterns.fifo import Failed, Publisher, Sent, Unanswered, Unsent
from lambda_once.patterns.fifo import messages as messages_module
from lambda_once.patterns.fifo.results import Result
from lambda_once.testing import FakeClock
from tests.patterns.fifo.queues import QUEUE, TOPIC, WINDOW_SECONDS, Entry, Fate, Fifo, Whole

REGION = "eu-central-1"


def receipts(*groups: str) -> list[dict[str, object]]:
    """Return a receipt for each of *groups*, numbered."""
    return [{"id": number, "group": group} for number, group in enumerate(groups)]


def publisher(client: Fifo, clock: FakeClock, target: str = TOPIC, **options: Any) -> Publisher:
    """Return a publisher of receipts by their numbers."""
    return Publisher(target, client, key="id", group="group", service="orders", clock=clock, **options)


def arrived(fifo: Fifo) -> list[int]:
    """Return the numbers of the receipts that were delivered, in their order."""
    return [json.loads(entry.body)["id"] for entry in fifo.delivered]


def kinds(results: tuple[Result, ...]) -> list[str]:
    """Return the names of the results."""
    return [type(result).__name__ for result in results]


def fates(of: dict[int, list[Fate]]) -> Callable[[Entry], Fate]:
    """Deal the fates of each receipt in turn, then let it be taken."""
    waiting = {number: iter(each) for number, each in of.items()}
    return lambda entry: next(waiting.get(json.loads(entry.body)["id"], iter(())), Fate.TAKEN)


@pytest.mark.parametrize("target", [TOPIC, QUEUE])
def test_messages_are_sent_in_batches(target: str) -> None:
    """Twelve groups, two requests, and the result of each in its place."""
    clock = FakeClock()
    fifo = Fifo(clock)
    results = publisher(fifo, clock, target).publish_all(receipts(*"abcdefghijkl"))
    assert kinds(results) == ["Sent"] * 12
    assert arrived(fifo) == [*range(12)]
    assert len(fifo.requests) == 2
    assert [result.group for result in results] == [*"abcdefghijkl"]
    assert clock.slept == []


def test_one_message_is_sent() -> None:
    """The result has its group and id."""
    clock = FakeClock()
    sent = publisher(Fifo(clock), clock).publish({"id": 5, "group": "a"})
    made = publisher(Fifo(clock), clock).format.prepared({"id": 5, "group": "a"})
    assert sent == Sent("a", made.deduplication_id, "m-0", f"{1:020}")


def test_publishing_again_delivers_nothing_again_within_the_window() -> None:
    """Within five minutes the id is remembered; after them it is delivered again, for the key to catch."""
    clock = FakeClock()
    fifo = Fifo(clock)
    out = publisher(fifo, clock)
    out.publish_all(receipts("a", "a"))
    clock.advance(WINDOW_SECONDS - 1)
    assert kinds(out.publish_all(receipts("a", "a"))) == ["Sent", "Sent"]
    assert arrived(fifo) == [0, 1]
    clock.advance(1)
    out.publish_all(receipts("a", "a"))
    assert arrived(fifo) == [0, 1, 0, 1]


def test_nothing_is_sent_of_nothing() -> None:
    """No messages, no request."""
    clock = FakeClock()
    fifo = Fifo(clock)
    assert publisher(fifo, clock).publish_all([]) == ()
    assert fifo.requests == []


def test_what_the_service_failed_is_tried_again_before_the_rest_of_its_group() -> None:
    """Other groups go on meanwhile; each message arrives once, and no group out of order."""
    clock = FakeClock()
    fifo = Fifo(clock, fates({0: [Fate.LATER, Fate.SLOWER], 3: [Fate.UNMENTIONED]}))
    results = publisher(fifo, clock).publish_all(receipts("a", "a", "b", "c", "b", "c"))
    assert kinds(results) == ["Sent"] * 6
    assert sorted(arrived(fifo)) == [*range(6)]
    assert arrived(fifo).index(0) < arrived(fifo).index(1)
    assert arrived(fifo).index(2) < arrived(fifo).index(4)
    assert arrived(fifo).index(3) < arrived(fifo).index(5)
    assert len(clock.slept) == 2


def test_what_the_sender_got_wrong_is_not_tried_again() -> None:
    """It is reported with its code; the rest of its group stays unsent, the other groups go."""
    clock = FakeClock()
    fifo = Fifo(clock, fates({1: [Fate.NEVER]}))
    results = publisher(fifo, clock).publish_all(receipts("a", "a", "a", "b", "a"))
    assert kinds(results) == ["Sent", "Failed", "Unsent", "Sent", "Unsent"]
    assert isinstance(results[1], Failed)
    assert results[1].code == "InvalidMessageContents"
    assert [result.behind for result in results if isinstance(result, Unsent)] == [1, 1]
    assert arrived(fifo) == [0, 3]
    assert clock.slept == []


def test_a_message_that_is_never_answered_holds_its_group() -> None:
    """After six tries it is given up, unknown whether taken; nothing overtakes it."""
    clock = FakeClock()
    fifo = Fifo(clock, fates({0: [Fate.LATER] * TRIES}))
    results = publisher(fifo, clock).publish_all(receipts("a", "a", "b", "b"))
    assert kinds(results) == ["Unanswered", "Unsent", "Sent", "Sent"]
    assert isinstance(results[0], Unanswered)
    assert results[0].code == "InternalError"
    assert arrived(fifo) == [2, 3]


def test_publishing_the_rest_again_ends_well() -> None:
    """What was not sent is published again, by the same ids: each arrives once, in order."""
    clock = FakeClock()
    fifo = Fifo(clock, fates({1: [Fate.UNMENTIONED] * TRIES}))
    out, given = publisher(fifo, clock), receipts(*"aaaa")
    results = out.publish_all(given)
    assert kinds(results) == ["Sent", "Unanswered", "Unsent", "Unsent"]
    rest = [message for message, result in zip(given, results, strict=True) if not isinstance(result, Sent)]
    assert kinds(out.publish_all(rest)) == ["Sent"] * 3
    assert arrived(fifo) == [0, 1, 2, 3]


@pytest.mark.parametrize("trouble", [Whole.ANSWER_LOST, Whole.REQUEST_LOST, Whole.THROTTLED])
def test_a_request_in_trouble_is_sent_again(trouble: Whole) -> None:
    """Under the same ids: whether it was done or not, every message arrives once."""
    clock = FakeClock()
    fifo = Fifo(clock, whole=iter([trouble, trouble]))
    assert kinds(publisher(fifo, clock).publish_all(receipts("a", "b", "a"))) == ["Sent"] * 3
    assert sorted(arrived(fifo)) == [0, 1, 2]
    assert len(clock.slept) == 2


def test_all_tries_lie_well_within_the_window() -> None:
    """Six tries, their pauses, and six seconds to connect and to wait for each: a fifth of five minutes."""
    clock = FakeClock()
    fifo = Fifo(clock, fates({0: [Fate.LATER] * TRIES}))
    publisher(fifo, clock).publish_all(receipts("a"))
    assert sum(clock.slept) + TRIES * (1 + 5) < WINDOW_SECONDS / 5


def test_a_denied_request_refuses_its_messages() -> None:
    """Each is sent once more, by itself, and its result has the reason."""
    clock = FakeClock()
    fifo = Fifo(clock, whole=iter([Whole.DENIED] * 3))
    results = publisher(fifo, clock).publish_all(receipts("a", "b", "a"))
    assert kinds(results) == ["Failed", "Failed", "Unsent"]
    assert isinstance(results[0], Failed)
    assert results[0].code == "AuthorizationError"
    assert len(fifo.requests) == 3
    assert clock.slept == []


def test_a_client_that_cannot_send_refuses() -> None:
    """Without credentials no try is better than another."""

    class Bare:
        def publish_batch(self, **_: Any) -> Any:
            raise NoCredentialsError

    clock = FakeClock()
    out = Publisher(TOPIC, Bare(), key="id", group="group", clock=clock)
    (result,) = out.publish_all(receipts("a"))
    assert isinstance(result, Failed)
    assert result.code == "NoCredentialsError"
    assert clock.slept == []


@pytest.mark.parametrize(
    ("fate", "error", "says"),
    [
        (Fate.NEVER, Misconfigured, "receipts.fifo refused .*InvalidMessageContents"),
        (Fate.LATER, RetryLater, "no answer from receipts.fifo"),
    ],
)
def test_one_message_that_is_not_sent_raises(fate: Fate, error: type[Exception], says: str) -> None:
    """It raises, and the error says whether to publish again."""
    clock = FakeClock()
    with pytest.raises(error, match=says):
        publisher(Fifo(clock, lambda _: fate), clock).publish({"id": 5, "group": "a"})


def test_a_bad_message_fails_alone() -> None:
    """Without a key it fails with the rest of its group, without a group alone; all others are sent."""
    clock = FakeClock()
    fifo = Fifo(clock)
    given: list[object] = [
        {"id": 0, "group": "a"},
        {"group": "a"},  # no key
        {"id": 2, "group": "a"},
        {"id": 3},  # no group
        {"id": 4, "group": "b", "text": "\ufffe"},
        {"id": 5, "group": "c"},
        {"id": 5, "group": "c", "amended": True},
    ]
    results = publisher(fifo, clock).publish_all(given)
    assert kinds(results) == ["Sent", "Failed", "Unsent", "Failed", "Failed", "Sent", "Failed"]
    codes = [result.code for result in results if isinstance(result, Failed)]
    assert codes == ["KeyMissing", "KeyMissing", "Misconfigured", "KeyReused"]
    assert (results[1].group, getattr(results[2], "behind", None), results[3].group) == ("a", 1, "")
    assert arrived(fifo) == [0, 5]


def test_sent_past_a_bad_one_order_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: a message that follows a bad one of its group is sent before it."""

    def failed(backlog: messages_module.Backlog, position: int) -> list[int]:
        backlog.sent(position)
        return []

    monkeypatch.setattr(messages_module.Backlog, "failed", failed)
    clock = FakeClock()
    fifo = Fifo(clock)
    publisher(fifo, clock).publish_all([{"group": "a"}, {"id": 2, "group": "a"}])
    assert arrived(fifo) == [2]


def test_large_messages_share_no_request() -> None:
    """Two of 150 KB are two requests to a topic, and one where its limit was raised."""
    clock = FakeClock()
    large = [{"id": n, "group": str(n), "x": "x" * 150_000} for n in range(2)]
    default, raised = Fifo(clock), Fifo(clock)
    publisher(default, clock).publish_all(large)
    publisher(raised, clock, largest=1_048_576).publish_all(large)
    assert (len(default.requests), len(raised.requests)) == (2, 1)


# -- at random


def _dealt(seed: int, sound: float) -> tuple[Callable[[Entry], Fate], Iterator[Whole]]:
    """
    Deal fates of entries and of requests at random, a share of *sound* of them good.

    What is refused for good is so at every try: some receipts are, by their numbers.
    """
    dice = random.Random(seed)
    never = {number for number in range(40) if dice.random() > 0.95}
    troubles = [Whole.ANSWER_LOST, Whole.REQUEST_LOST, Whole.THROTTLED]

    def requests() -> Iterator[Whole]:
        while True:
            yield Whole.SOUND if dice.random() < sound else dice.choice(troubles)

    def fate(entry: Entry) -> Fate:
        if json.loads(entry.body)["id"] in never:
            return Fate.NEVER
        return Fate.TAKEN if dice.random() < sound else dice.choice([Fate.LATER, Fate.UNMENTIONED])

    return fate, requests()


def _ordered(numbers: list[int], given: list[dict[str, object]]) -> bool:
    """Tell whether no receipt arrived before an earlier one of its group."""
    groups = {receipt["group"] for receipt in given}
    by_group = [[n for n in numbers if given[n]["group"] == group] for group in groups]
    return all(one < other for of_group in by_group for one, other in pairwise(of_group))


def _publish(seed: int, sound: float = 0.7) -> tuple[Fifo, list[dict[str, object]], tuple[Result, ...]]:
    dice = random.Random(seed)
    clock = FakeClock()
    fifo = Fifo(clock, *_dealt(seed, sound))
    given = receipts(*(dice.choice("abcdef") for _ in range(40)))
    return fifo, given, publisher(fifo, clock, dice.choice([TOPIC, QUEUE])).publish_all(given)


@pytest.mark.parametrize("sound", [0.4, 0.7])
@pytest.mark.parametrize("seed", range(100))
def test_order_and_results_hold_whatever_fails(seed: int, sound: float) -> None:
    """
    Nothing arrives twice or out of its group's order; what is `Sent` arrived, what is `Unsent` did not.

    In each group sent messages precede failed ones, and those precede unsent ones.
    """
    fifo, given, results = _publish(seed, sound)
    numbers = arrived(fifo)
    assert len(set(numbers)) == len(numbers)
    assert _ordered(numbers, given)
    for number, result in enumerate(results):
        if not isinstance(result, Unanswered):
            assert (number in numbers) is isinstance(result, Sent)
    ranks = {Sent: 0, Failed: 1, Unanswered: 1, Unsent: 2}
    for group in "abcdef":
        of_group = [
            ranks[type(result)]
            for result, receipt in zip(results, given, strict=True)
            if receipt["group"] == group
        ]
        assert of_group == sorted(of_group)
        assert of_group.count(1) <= 1


def test_all_kinds_of_results_were_seen() -> None:
    """The runs above are not all of one kind: the statement means something."""
    found = {kind for seed in range(20) for kind in kinds(_publish(seed, sound=0.4)[2])}
    assert found == {"Sent", "Failed", "Unanswered", "Unsent"}


def test_twin_with_a_group_twice_in_one_request_order_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that carry several messages of a group, as they come, let one overtake another that failed."""
    monkeypatch.setattr(messages_module.Backlog, "__init__", _each_for_itself)
    monkeypatch.setattr(messages_module.Backlog, "sent", lambda *_: None)
    monkeypatch.setattr(messages_module.Backlog, "failed", lambda *_: [])
    assert not all(_ordered(arrived(fifo), given) for fifo, given, _ in map(_publish, range(5)))


def _each_for_itself(backlog: Any, messages: dict[int, Any]) -> None:
    backlog._messages = messages
    backlog._heads = [(0, position) for position in messages]


# -- moto


@pytest.fixture
def aws() -> Iterator[boto3.Session]:
    """An empty account in moto."""
    with mock_aws():
        yield boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION)


def received(client: Any, queue: str) -> list[dict[str, Any]]:
    """Receive all of *queue* and delete it, in the order in which it comes."""
    found: list[dict[str, Any]] = []
    while answer := client.receive_message(
        QueueUrl=queue,
        MaxNumberOfMessages=10,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
    ).get("Messages"):
        for message in answer:
            client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        found += answer
    return found


def test_a_queue_gets_what_was_published(aws: boto3.Session) -> None:
    """Group, id, attributes and body, through botocore and moto's queue."""
    sqs: Any = aws.client("sqs")
    queue = sqs.create_queue(QueueName="receipts.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    out = Publisher(queue, sqs, key="id", group="group", attributes={"kind": "paid"}, service="orders")
    results = out.publish_all([*receipts("a", "b c", "a"), receipts("a")[0]])
    assert kinds(results) == ["Sent"] * 4
    found = received(sqs, queue)
    assert [json.loads(message["Body"])["id"] for message in found] == [0, 1, 2]
    attributes = found[1]["Attributes"]
    assert (attributes["MessageGroupId"], attributes["MessageDeduplicationId"]) == (
        "b%20c",
        results[1].deduplication_id,
    )
    assert found[0]["MessageAttributes"]["kind"]["StringValue"] == "paid"


def test_a_topic_hands_it_to_its_queue(aws: boto3.Session) -> None:
    """Raw delivery keeps body, group and id: the queue sees what was published."""
    sqs: Any = aws.client("sqs")
    sns: Any = aws.client("sns")
    queue = sqs.create_queue(QueueName="receipts.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = sns.create_topic(Name="receipts.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    raw = {"RawMessageDelivery": "true"}
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=raw)
    out = Publisher(topic, sns, key="id", group="group", service="orders")
    results = out.publish_all(receipts("a", "b"))
    assert kinds(results) == ["Sent"] * 2
    (first, second) = received(sqs, queue)
    assert json.loads(first["Body"]) == {"id": 0, "group": "a"}
    assert second["Attributes"]["MessageDeduplicationId"] == results[1].deduplication_id


def test_one_message_does_not_have_the_others_refused(aws: boto3.Session) -> None:
    """A queue that takes less than it could refuses the whole request: each is then sent by itself."""
    sqs: Any = aws.client("sqs")
    small = {"FifoQueue": "true", "MaximumMessageSize": "1024"}
    queue = sqs.create_queue(QueueName="receipts.fifo", Attributes=small)["QueueUrl"]
    out = Publisher(queue, sqs, key="id", group="group", service="orders")
    large = {"id": 1, "group": "b", "x": "x" * 2000}
    results = out.publish_all([receipts("a")[0], large, {"id": 2, "group": "c"}])
    assert kinds(results) == ["Sent", "Failed", "Sent"]
    assert [json.loads(message["Body"])["id"] for message in received(sqs, queue)] == [0, 2]


def test_a_missing_topic_is_refused_by_its_name(aws: boto3.Session) -> None:
    """And said to be missing; the publisher connects by itself, to the topic's region."""
    del aws
    with pytest.raises(Misconfigured, match=r"receipts\.fifo refused a message: NotFound"):
        Publisher(TOPIC, key="id", group="group").publish({"id": 1, "group": "a"})
