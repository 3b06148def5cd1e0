"""Default names: what `run` may be given, which factories need ``name=``, and which names are shared."""

# ruff: noqa: ARG002, ARG003, ARG004, ARG005, D103  (samples: what they are called is the test)

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import pytest
from aws_lambda_powertools import Tracer

from lambda_once import Misconfigured, Once
from lambda_once.observability.events import Event
from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import batch, sqs_record

pytestmark = in_memory
Function = Callable[..., Any]
HERE = sys.modules[__name__]


def charge(order: str = "o-1", *, note: str = "") -> str:
    return f"charged {order}{note}"


async def later(order: str) -> str:
    return f"charged {order}"


@functools.lru_cache
def cached(order: str) -> str:
    return f"cached {order}"


@functools.singledispatch
def dispatched(order: str) -> str:
    return f"dispatched {order}"


@Tracer(disabled=True).capture_method
def traced(order: str) -> str:
    return f"traced {order}"


class Gateway:
    """A provider of one kind, of which a shop has several."""

    sent: list[tuple[str, str]]

    def __init__(self, kind: str = "mail") -> None:
        self.kind = kind
        self.sent = []

    def send(self, order: str) -> str:
        self.sent.append((self.kind, order))
        return self.kind

    def __call__(self, order: str) -> str:
        return self.send(order)

    @classmethod
    def of_class(cls, order: str) -> str:
        return f"{cls.__name__} {order}"

    @staticmethod
    def static(order: str) -> str:
        return f"static {order}"


class Sms(Gateway):
    """Inherits all of it."""


NAMED: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "a function": (charge, ("o-1",)),
    "an async one": (later, ("o-1",)),
    "a cached one": (cached, ("o-1",)),
    "singledispatch": (dispatched, ("o-1",)),
    "a traced one": (traced, ("o-1",)),
    "a classmethod": (Gateway.of_class, ("o-1",)),
    "a staticmethod": (Gateway.static, ("o-1",)),
    "a staticmethod of a base": (Sms.static, ("o-1",)),
    "a method of the class": (Gateway.send, (Gateway(), "o-1")),
    "a class": (Gateway, ("o-1",)),
    "a builtin": (len, ("o-1",)),
    "a C function": (importlib.import_module("math").sqrt, (4,)),
}


@pytest.mark.parametrize(("function", "args"), NAMED.values(), ids=NAMED)
def test_run_takes_what_its_name_leads_back_to(rig: Rig, function: Function, args: tuple[Any, ...]) -> None:
    """Whatever wraps it: the name of the token is that of one function."""
    result = rig.once.run_as("any", "k", function, *args)
    if function is later:
        asyncio.run(result)
    elif function is not Gateway:
        assert rig.once.run("k", function, *args) == rig.once.run("k", function, *args)


def test_run_takes_a_nested_def_without_cells(rig: Rig) -> None:
    """It is the same function whenever it is executed."""

    def work(order: str) -> str:
        return order

    assert rig.once.run("k", work, "o-1") == "o-1"
    assert rig.row().token == (
        "shop/tests.decorators.test_names.test_run_takes_a_nested_def_without_cells.%3Clocals%3E.work/k"
    )


def _nested(order: str) -> Function:
    def work() -> str:
        return order

    return work


def _with_default(gateway: Gateway) -> Function:
    def work(order: str, gateway: Gateway = gateway) -> str:
        return gateway.send(order)

    return work


def _named_only_default(gateway: Gateway) -> Function:
    def work(order: str, *, gateway: Gateway = gateway) -> str:
        return gateway.send(order)

    return work


def _underscore() -> Function:
    def _(order: str) -> str:
        return order

    return _


def _client() -> Any:
    return boto3.client("dynamodb", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")


NAMELESS: dict[str, tuple[Callable[[], Any], str]] = {
    "a lambda": (lambda: lambda order: order, "after a lambda"),
    "a partial": (lambda: functools.partial(charge, note="secret"), "after a partial object"),
    "a wrapped partial": (
        lambda: functools.update_wrapper(functools.partial(charge, note="secret"), charge),
        "tests.decorators.test_names",
    ),
    "a bound method": (lambda: Gateway().send, "the bound method Gateway.send"),
    "an inherited classmethod": (lambda: Sms.of_class, "the bound method Sms.of_class"),
    "a callable object": (Gateway, "after a Gateway object"),
    "a C method": (lambda: [].append, "the bound method list.append"),
    "a client's method": (lambda: _client().get_item, "the bound method DynamoDB.get_item"),
    "a closure": (lambda: _nested("o-1"), "_nested.<locals>.work, a function with captured values"),
    "a default": (lambda: _with_default(Gateway()), "_with_default.<locals>.work, a function with captured"),
    "a named default": (lambda: _named_only_default(Gateway()), "_named_only_default.<locals>.work"),
    "an underscore": (_underscore, "_underscore.<locals>._"),
    "what is wrapped": (lambda: inspect.unwrap(traced), "traced"),
    "nothing to call": (lambda: "charge", "got a str in place of the function"),
}


@pytest.mark.parametrize("kind", NAMELESS)
def test_run_refuses_what_has_no_name_of_its_own(rig: Rig, kind: str) -> None:
    """Before anything is acquired; the message names run_as, and has no argument in it."""
    make, words = NAMELESS[kind]
    with pytest.raises(Misconfigured, match="run_as") as raised:
        rig.once.run("k", make(), "o-1")
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)
    assert (rig.store.acquisitions, rig.rows()) == (0, [])


def test_a_lambda_of_the_module_has_no_name_either(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several of one module are called the same, whatever they are assigned to."""
    monkeypatch.setattr(HERE, "assigned", lambda: 5, raising=False)
    with pytest.raises(Misconfigured, match="after a lambda"):
        rig.once.run("k", HERE.assigned)


# ------------------------------------------------------------------ the cases in which work was lost


def test_two_methods_of_a_client_are_two_effects(rig: Rig) -> None:
    """They were one token, and the second was never called: all of boto3's have one qualified name."""
    called: list[str] = []
    client = _client()
    client.meta.events.register("before-call.dynamodb", lambda model, **_: called.append(model.name))
    client.meta.events.register("before-call.dynamodb", lambda **_: (SimpleNamespace(status_code=200), {}))
    where = {"TableName": "items", "Key": {"id": {"S": "o-1"}}}
    for function in (client.get_item, client.delete_item):
        with pytest.raises(Misconfigured, match="run_as"):
            rig.once.run("o-1", function, **where)
    assert called == []
    for _ in range(2):
        rig.once.run_as("read", "o-1", client.get_item, **where)
        rig.once.run_as("remove", "o-1", client.delete_item, **where)
    assert called == ["GetItem", "DeleteItem"]


def test_two_gateways_are_two_effects(rig: Rig) -> None:
    """The methods of two objects have one qualified name; in a handler, the records fail and stay."""
    mail, sms = Gateway("mail"), Gateway("sms")

    @rig.once.sqs(key="orderId", raise_on_entire_batch_failure=False)
    def notify(record: Any) -> None:
        for gateway in (mail, sms):
            rig.once.run(record.json_body["orderId"], gateway.send, record.json_body["orderId"])

    failed = notify(batch(sqs_record('{"orderId": "o-1"}')), rig.context())
    assert len(failed["batchItemFailures"]) == 1
    assert mail.sent == sms.sent == []
    for gateway in (mail, sms, mail, sms):
        rig.once.run_as(gateway.kind, "o-1", gateway.send, "o-1")
    assert mail.sent + sms.sent == [("mail", "o-1"), ("sms", "o-1")]


def test_inherited_classmethods_are_two_effects(rig: Rig) -> None:
    """That of the base is its own; that of the subclass is the base's."""
    assert rig.once.run("k", Gateway.of_class, "o-1") == "Gateway o-1"
    with pytest.raises(Misconfigured, match="run_as"):
        rig.once.run("k", Sms.of_class, "o-1")
    assert rig.once.run_as("sms", "k", Sms.of_class, "o-1") == "Sms o-1"


# ------------------------------------------------------------------ run_as


@pytest.mark.parametrize(
    "kind", [each for each in NAMELESS if each not in ("nothing to call", "a client's method")]
)
def test_run_as_takes_any_callable(rig: Rig, kind: str) -> None:
    """Under the name that it is given; a duplicate calls nothing."""
    function = NAMELESS[kind][0]()
    if kind != "a closure":
        function = functools.partial(function, "o-1")
    first = rig.once.run_as("send mail", "k", function)
    assert rig.once.run_as("send mail", "k", function) == first
    assert rig.row().token == "shop/send%20mail/k"


def test_run_as_takes_a_coroutine_function(rig: Rig) -> None:
    """And a partial of one."""
    sent: list[str] = []

    async def send(to: str) -> str:
        sent.append(to)
        return to

    async def twice(function: Any, *args: str) -> list[str]:
        return [await rig.once.run_as(f"to {len(args)}", "k", function, *args) for _ in range(2)]

    assert asyncio.run(twice(send, "ann")) == ["ann", "ann"]
    assert asyncio.run(twice(functools.partial(send, "bob"))) == ["bob", "bob"]
    assert sent == ["ann", "bob"]


def test_a_partials_result_has_the_type_of_its_function(rig: Rig) -> None:
    """The duplicate gets what the first caller got."""

    def price(order: str) -> tuple[str, Decimal]:
        return order, Decimal("4.90")

    function = functools.partial(price, "o-1")
    first, again = (rig.once.run_as("price", "k", function) for _ in range(2))
    assert first == again == ("o-1", Decimal("4.90"))


@pytest.mark.parametrize("name", ["", None, 5])
def test_run_as_needs_a_name(rig: Rig, name: Any) -> None:
    """A str that is not empty."""
    with pytest.raises(Misconfigured, match="non-empty str"):
        rig.once.run_as(name, "k", charge)
    assert rig.store.acquisitions == 0


def test_its_arguments_may_be_called_name_and_key(rig: Rig) -> None:
    """Those of run_as are positional."""

    def send(name: str, key: str) -> str:
        return name + key

    assert rig.once.run_as("mail", "k", send, name="a", key="b") == "ab"


# ------------------------------------------------------------------ reloads, notebooks, patches


def _imported(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (folder / "reloaded.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "reloaded", raising=False)
    return importlib.import_module("reloaded")


def test_a_reload_changes_nothing(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was imported before it still has its name; the decorators in it run again."""
    source = (
        "from lambda_once import MemoryStore, Once\nonce = Once(store=MemoryStore(), service='s')\n"
        "def charge(order):\n    return order\n@once.function\ndef pay(order, currency='EUR'):\n"
        "    return order\n"
    )
    module = _imported(tmp_path, source, monkeypatch)
    before = module.charge
    assert rig.once.run("k", before, 5) == 5
    importlib.reload(module)
    assert module.charge is not before
    assert [rig.once.run("k", each, 5) for each in (before, module.charge)] == [5, 5]
    assert module.pay(5) == 5
    assert len(rig.rows()) == 1


def test_another_function_of_that_name_is_no_reload(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last def of a name has it; the ones before it are refused."""
    source = "def _(o):\n    return 1\nfirst = _\ndef _(o):\n    return 2\nlast = _\n"
    module = _imported(tmp_path, source, monkeypatch)
    assert rig.once.run("k", module.last, 5) == 2
    with pytest.raises(Misconfigured, match="which reloaded has not under that name"):
        rig.once.run("k", module.first, 5)


def test_cells_of_a_notebook_are_executed_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions are those of `__main__`: the latest def of a name has it, and nothing is logged."""
    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    cells = (
        "class Mail:\n    pass\n",
        "def send(order):\n    return order\n",
        "@once.function(key='order')\ndef pay(order):\n    return order\n",
        """
def make(store):
    @once.function(key='order')
    def ship(order):
        return store and order
    return ship
ship = make(object())
""",
        "result = [once.run('k', send, 5), pay(5), ship(5)]\n",
    )
    vars(notebook)["once"] = rig.once
    for number, cell in enumerate(cells * 2):
        exec(compile(cell, f"<cell {number}>", "exec"), vars(notebook))
        vars(notebook)["result"] = vars(notebook).get("result")
    assert vars(notebook)["result"] == [5, 5, 5]
    assert Event.SHARED_NAME not in rig.events()


def test_a_function_that_a_test_patched(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake with the name of what it replaces is taken for it."""
    sent: list[str] = []
    real = charge

    @functools.wraps(real)
    def fake(order: str) -> str:
        sent.append(order)
        return "fake"

    monkeypatch.setattr(HERE, "charge", fake)
    assert rig.once.run("k", charge, "o-1") == "fake"
    assert sent == ["o-1"]
    assert rig.row().token == "shop/tests.decorators.test_names.charge/k"


# ------------------------------------------------------------------ factories


class Channel(Enum):
    MAIL = "mail"


VALUES = ["mail", "", 2, 2000, 1.5, True, Decimal(2), Channel.MAIL, ("mail", 2), ("a", ("b",))]


def in_cell(once: Once, value: object, **options: Any) -> Function:
    @once.function(**options)
    def deliver(order: str) -> object:
        return value

    return deliver


def in_default(once: Once, value: object, **options: Any) -> Function:
    @once.function(key="order", fingerprint=False, **options)
    def deliver(order: str, target: object = value) -> object:
        return target

    return deliver


def in_named_default(once: Once, value: object, **options: Any) -> Function:
    @once.function(key="order", fingerprint=False, **options)
    def deliver(order: str, *, target: object = value) -> object:
        return target

    return deliver


def in_wrapped(once: Once, value: object, **options: Any) -> Function:
    @once.function(**options)
    @Tracer(disabled=True).capture_method
    def deliver(order: str) -> object:
        return value

    return deliver


def in_partial(once: Once, value: object, **options: Any) -> Function:
    def deliver(order: str, target: object = None) -> object:
        return target

    made = functools.update_wrapper(functools.partial(deliver, target=value), deliver)
    return once.function(key="order", fingerprint=False, **options)(made)


def in_class(once: Once, value: object, **options: Any) -> Function:
    class Deliveries:
        @staticmethod
        @once.function(**options)
        def deliver(order: str) -> object:
            return value

    return Deliveries.deliver


FACTORIES: list[Callable[..., Function]] = [
    in_cell,
    in_default,
    in_named_default,
    in_wrapped,
    in_partial,
    in_class,
]


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_factory_over_values_needs_a_name(
    rig: Rig, factory: Callable[..., Function], value: object
) -> None:
    """Its functions have one name: the second did nothing. With name= there are as many as names."""
    with pytest.raises(Misconfigured, match=r"deliver is made by a function .* Pass name=, or pass"):
        factory(rig.once, value)
    factory(rig.once, value, name="first")("o-1")
    assert factory(rig.once, "erp", name="second")("o-1") == "erp"
    assert len(rig.rows()) == 2


DECORATORS = ["sqs", "sns", "kinesis", "dynamodb_stream", "kafka", "mq", "event", "api_gateway", "function"]


@pytest.mark.parametrize("decorator", DECORATORS)
def test_every_decorator_refuses_one(rig: Rig, decorator: str) -> None:
    """With options and without."""

    def make(target: str) -> Function:
        def deliver(record: Any) -> str:
            return target

        return deliver

    for decorate in (getattr(rig.once, decorator), getattr(rig.once, decorator)()):
        with pytest.raises(Misconfigured, match="Pass name="):
            decorate(make("mail"))
    getattr(rig.once, decorator)(name="mail")(make("mail"))


class Settings:
    """What a factory may capture: two of them cannot be told apart."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("not asked")

    def __bool__(self) -> bool:
        raise AssertionError("not asked")


@pytest.mark.parametrize("captured", [None, b"mail", (), [1], {"a": "b"}, Settings(), charge, (Settings(),)])
def test_objects_may_be_captured(rig: Rig, captured: object) -> None:
    """A client, a settings object, a list that a test collects in: what they say of the work is unknown."""
    assert in_cell(rig.once, captured, key="order") is not None
    assert in_default(rig.once, captured) is not None
    assert Event.SHARED_NAME not in rig.events()


def test_what_is_no_factory(rig: Rig) -> None:
    """Literals as defaults, cells that are empty or hold functions, a name that the factory has set."""

    @rig.once.function(key="order")
    def recursive(order: int, currency: str = "EUR", *, note: str = "x", times: int = 3) -> int:
        return order if order < 1 else recursive(order - 1)

    @rig.once.function(key="order")
    def numbered(order: int, *, a: int = -1, b: int = 0, c: int = 255, d: int = 256, e: bool = True) -> int:
        return order

    @rig.once.function(key="order", fingerprint=False)
    def mixed(order: int, to: list[str] = [], times: int = 3) -> int:  # noqa: B006  (an object among literals)
        return order

    class Base:
        @rig.once.function(key="order")
        def send(self, order: str, currency: str = "EUR") -> str:
            return f"{type(self).__name__} {super().__repr__()[:1]}"

    @rig.once.function
    @functools.lru_cache(maxsize=8)
    def memoised(order: int, currency: str = "EUR") -> int:
        return order

    def make(target: str) -> Function:
        def deliver(order: str) -> str:
            return target

        deliver.__qualname__ = f"deliver_{target}"
        return rig.once.function(deliver)

    assert (recursive(0), numbered(0), mixed(0)) == (0, 0, 0)
    assert Base().send("o-1") == "Base <"
    assert memoised(5) == 5
    assert [make(each)("o-1") for each in ("mail", "erp")] == ["mail", "erp"]


def test_options_of_another_decorator_are_no_values(rig: Rig) -> None:
    """What it keeps in its cells names no work of ours."""

    def retried(times: int) -> Callable[[Function], Function]:
        def decorate(function: Function) -> Function:
            @functools.wraps(function)
            def wrapper(*args: Any) -> Any:
                for _ in range(times):
                    with suppress(ValueError):
                        return function(*args)
                return None

            return wrapper

        return decorate

    @rig.once.function
    @retried(3)
    def deliver(order: str) -> str:
        return order

    assert deliver("o-1") == "o-1"


# ------------------------------------------------------------------ once.shared_name


def _logged(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [line for line in caplog.records if line.message == Event.SHARED_NAME]


def test_a_factory_over_objects_is_logged_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Its functions share a name, which may be intended: at ERROR, for the second one may do nothing."""
    gateways = [Gateway(each) for each in ("mail", "erp", "sms")]
    made = [in_cell(rig.once, gateways[n], key="order") for n in (0, 0)]
    assert _logged(caplog) == []
    made += [in_cell(rig.once, gateway, key="order") for gateway in gateways]
    (line,) = _logged(caplog)
    assert line.levelname == "ERROR"
    assert line.once_name == "tests.decorators.test_names.in_cell.<locals>.deliver"
    assert "pass name=" in line.reason
    in_default(rig.once, gateways[0])
    in_default(rig.once, gateways[1])
    assert len(_logged(caplog)) == 2
    in_cell(rig.new(), gateways[2], key="order")
    in_cell(rig.once, gateways[0], key="order", name="mail")
    assert len(_logged(caplog)) == 2


def test_bound_methods_and_lambdas_are_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Decorated in place, they share a name, too."""
    for gateway in (Gateway("mail"), Gateway("erp")):
        rig.once.function(key="order")(gateway.send)
    assert len(_logged(caplog)) == 1
    rig.once.function(key="order")(lambda order: [order])
    rig.once.function(key="order")(lambda order: (order, order))
    assert len(_logged(caplog)) == 2


def test_a_method_of_two_classes_is_logged_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """The second class gets the outcome of the first for an equal key."""

    class Base:
        @rig.once.function(key="order")
        def notify(self, order: str) -> str:
            return type(self).__name__

    class Mail(Base): ...

    class Text(Base): ...

    assert [Mail().notify("o-1"), Mail().notify("o-2")] == ["Mail", "Mail"]
    assert _logged(caplog) == []
    assert [Text().notify("o-1"), Base().notify("o-3")] == ["Mail", "Base"]
    (line,) = _logged(caplog)
    assert "Mail" in line.reason
    assert "Text" in line.reason
    assert "scope=" in line.reason


@pytest.mark.parametrize(
    "options", [{"name": "notify"}, {"scope": lambda self, order: type(self).__name__}], ids=["name", "scope"]
)
def test_a_method_that_says_what_is_meant_is_not_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    """With name= the classes share it on purpose; a callable scope= sees the object."""

    class Base:
        @rig.once.function(key="order", **options)
        def notify(self, order: str) -> str:
            return type(self).__name__

    class Mail(Base): ...

    class Text(Base): ...

    Mail().notify("o-1")
    Text().notify("o-1")
    assert _logged(caplog) == []


def test_a_classmethod_of_two_classes_is_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Its object is the class."""

    class Base:
        @classmethod
        @rig.once.function(key="order")
        def notify(cls, order: str) -> str:
            return cls.__name__

    class Mail(Base): ...

    assert [Base.notify("o-1"), Mail.notify("o-1")] == ["Base", "Base"]
    assert len(_logged(caplog)) == 1
