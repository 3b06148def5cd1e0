"""What callable keys and scopes of `once.function` get, and which arguments are its payload."""

# ruff: noqa: ARG002, ARG005, D103  (signatures are what is tested here)

from __future__ import annotations

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from lambda_once import KeyMissing, KeyReused, Misconfigured
from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import batch, sqs_record

pytestmark = in_memory


class Order(dict[str, Any]):
    @property
    def number(self) -> object:
        return self["id"]


ORDER = Order(id=7, tenant="acme")


def handle(order: Any, lambda_context: Any = None, *, note: str = "n") -> str:
    return "done"


def open_ended(order: Any, /, **more: Any) -> str:
    return "done"


class Shop:
    def buy(self, order: Any, tenant: str = "acme") -> str:
        return "done"


def seen_by(rig: Rig, function: Callable[..., Any], key: Any) -> Callable[..., str]:
    """Return a call of *function* under *key*, which returns the key in its token."""
    work = rig.once.function(key=key, fingerprint=False, name="work")(function)

    def call(*args: Any, **kwargs: Any) -> str:
        work(*args, **kwargs)
        return str(rig.row().token.rpartition("/")[2])

    return call


@pytest.mark.parametrize(
    "key",
    [
        lambda o: o["id"],
        lambda record, prefix="": f"{prefix}{record['id']}",
        lambda o, /: o["id"],
        lambda *, o: o["id"],
        lambda o=None: o["id"],
        operator.itemgetter("id"),
        operator.attrgetter("number"),
        lambda order: order["id"],
        lambda note, order: order["id"],
        lambda order, /, note="x": order["id"],
        lambda order, **others: order["id"] + (len(others) - 2),
        lambda order, unknown=0: order["id"] + unknown,
        lambda *args, **kwargs: args[0]["id"],
        lambda order, *rest, note: order["id"],
    ],
)
@pytest.mark.parametrize("by_name", [False, True])
def test_a_callable_gets_what_it_takes(rig: Rig, key: Any, by_name: bool) -> None:
    """One parameter gets the first argument, several what they name, however the call passes them."""
    call = seen_by(rig, handle, key)
    context = rig.context()
    found = call(order=ORDER, lambda_context=context) if by_name else call(ORDER, context)
    assert found == "7"


def test_a_parameter_that_names_an_argument_gets_that_one(rig: Rig) -> None:
    """A single parameter called as another argument is not the first one: it could be another tenant's."""
    assert seen_by(rig, Shop.buy, lambda tenant: tenant)(Shop(), ORDER, "zenith") == "zenith"


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (lambda o: o["id"], "7"),
        (lambda self: type(self).__name__, "Shop"),
        (lambda self, order: f"{type(self).__name__}-{order['id']}", "Shop-7"),
        (lambda self, *rest: len(rest), "2"),
    ],
)
def test_the_first_argument_of_a_method_is_behind_the_object(rig: Rig, key: Any, found: str) -> None:
    """A callable that wants the object names it, self or cls."""
    assert seen_by(rig, Shop.buy, key)(Shop(), ORDER) == found


@pytest.mark.parametrize(
    "key",
    [
        lambda: 1,
        lambda a=1, b=2: 1,
        lambda record, context: 1,
        lambda order, absent: 1,
        lambda order, *, absent: 1,
        lambda order, note: 1,
    ],
)
@pytest.mark.parametrize("option", ["key", "scope"])
def test_a_callable_that_needs_what_there_is_not_is_refused(rig: Rig, key: Any, option: str) -> None:
    """It is `Misconfigured` when decorated, by the names of the arguments that there are."""

    def work(order: Any, tenant: str) -> None: ...

    with pytest.raises(
        Misconfigured, match=rf"{option}=.* must accept the arguments of .*: .*order, tenant$"
    ):
        rig.once.function(**{option: key})(work)


def test_a_function_without_arguments_has_no_first_one(rig: Rig) -> None:
    """Nor has one of any number of arguments."""

    def alone() -> None: ...
    def many(*orders: Any) -> None: ...

    for function in (alone, many):
        with pytest.raises(Misconfigured, match="must accept the arguments"):
            rig.once.function(key=lambda order: order)(function)
    assert seen_by(rig, many, lambda orders: orders[1])(1, 2) == "2"


# -- **kwargs


@pytest.mark.parametrize(
    "key", ["tenant", "[tenant, order.id]", lambda order, tenant: tenant, lambda **named: named["tenant"]]
)
def test_keywords_of_any_name_are_arguments(rig: Rig, key: Any) -> None:
    """An expression or callable selects them by name; without them there is no key."""
    work = rig.once.function(key=key, name="work")(open_ended)
    assert work(ORDER, tenant="acme") == "done"
    with pytest.raises(KeyReused, match="note"):
        work(ORDER, tenant="acme", note="x")
    with pytest.raises((KeyMissing, Misconfigured)):
        work(ORDER)


def test_a_callable_misses_a_keyword_by_name(rig: Rig) -> None:
    """A call without it is KeyMissing: the sender's, not the developer's mistake."""
    work = rig.once.function(key=lambda order, tenant: tenant)(open_ended)
    with pytest.raises(KeyMissing, match="the call has no argument tenant"):
        work(ORDER)


def test_a_keyword_never_hides_a_positional_argument(rig: Rig) -> None:
    """``order`` by position and ``order`` among the keywords are two arguments."""
    runs: list[Any] = []

    @rig.once.function
    def work(order: Any, /, **more: Any) -> None:
        runs.append((order, more))

    work(1, order=2)
    work(3, order=2)
    work(1, more={"order": 2})
    assert runs == [(1, {"order": 2}), (3, {"order": 2}), (1, {"more": {"order": 2}})]


# -- the Lambda context


def test_a_record_handler_may_take_the_context(rig: Rig) -> None:
    """As Powertools documents it: by key, by callable and by content, a redelivery is a duplicate."""
    runs: list[str] = []

    def handler(record: Any, lambda_context: Any = None) -> None:
        runs.append(record.body)

    processor = BatchProcessor(event_type=EventType.SQS)
    ways: list[dict[str, Any]] = [{}, {"key": "record.id"}, {"key": lambda record: record.message_id}]
    for n, options in enumerate(ways):
        work = rig.once.function(name=f"work {n}", **options)(handler)
        for _ in range(2):
            answer = process_partial_response(
                batch(sqs_record({"id": 5})), record_handler=work, processor=processor, context=rig.context()
            )
            assert answer == {"batchItemFailures": []}
        assert len(runs) == n + 1


def test_a_context_is_no_payload(rig: Rig) -> None:
    """By its own attributes under any name; under a context's name None is one, too."""
    runs: list[Any] = []

    @rig.once.function
    def work(order: int, context: Any = None, other: Any = 0) -> None:
        runs.append(order)

    own = SimpleNamespace(aws_request_id="r", get_remaining_time_in_millis=lambda: 1)
    for context in (None, rig.context(), own, SimpleNamespace(aws_request_id="x")):
        work(1, context)
    assert runs == [1]
    work(1, None, rig.context())
    work(1, None, own)
    assert runs == [1, 1]


class AnyName:
    """Answers for every attribute, as boxes and mocks do."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        return lambda: name

    def model_dump(self, **_: object) -> dict[str, int]:
        return {"value": self.value}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"id": 1}, {"id": 2}),
        ({"aws_request_id": "a"}, {"aws_request_id": "b"}),
        ("a", "b"),
        (SimpleNamespace(id=1), SimpleNamespace(id=2)),
        (AnyName(1), AnyName(2)),
    ],
)
def test_an_argument_called_context_is_payload(rig: Rig, one: Any, other: Any) -> None:
    """A template's context counts: two of them are two pieces of work, or no key at all."""
    runs: list[Any] = []

    @rig.once.function
    def render(template: str, context: Any) -> None:
        runs.append(context)

    try:
        for each in (one, one, other):
            render("invoice", each)
    except Misconfigured:
        assert runs == []
    else:
        assert runs == [one, other]
