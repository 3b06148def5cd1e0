"""Names: what may share one, what is refused when it is decorated, and what needs ``name=``."""

# ruff: noqa: ARG002, ARG003, ARG005, D103  (samples: what they are called is the test)

from __future__ import annotations

import functools
import importlib
import importlib.util
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from aws_lambda_powertools import Tracer

from lambda_once import MemoryStore, Misconfigured, Once
from lambda_once.observability.events import Event
from lambda_once.testing import sqs_event, using
from tests.decorators.rig import Rig, in_memory
from tests.decorators.sources_table import RECORD_DECORATORS

pytestmark = in_memory
Function = Callable[..., Any]
DECORATORS = [*RECORD_DECORATORS, "event", "api_gateway", "function"]


def ship(record: Any) -> str:
    return "shipped"


def bill(record: Any) -> str:
    return "billed"


@Tracer(disabled=True).capture_method
def traced(record: Any) -> str:
    return "traced"


class Gateway:
    """A provider, of which a shop has several."""

    def send(self, record: Any) -> str:
        return type(self).__name__

    @Tracer(disabled=True).capture_method
    def traced(self, record: Any) -> str:
        return type(self).__name__

    def __call__(self, record: Any) -> str:
        return type(self).__name__

    @classmethod
    def of_class(cls, record: Any) -> str:
        return cls.__name__


class Sms(Gateway):
    """Inherits all of it."""


# ------------------------------------------------------------------ other work is refused


@pytest.mark.parametrize("decorator", DECORATORS)
def test_two_functions_of_one_name_are_refused(rig: Rig, decorator: str) -> None:
    """When decorated, under each decorator; the message names both, where they are, and the way out."""
    decorate = getattr(rig.once, decorator)(name="orders")
    kept = decorate(ship)
    with pytest.raises(Misconfigured) as raised:
        decorate(bill)
    for words in (f"{__name__}.ship ({__file__}:", f"{__name__}.bill ({__file__}:", "'orders'", "name="):
        assert words in str(raised.value)
    assert "traceback" not in str(raised.value)
    assert kept.__wrapped__ is ship
    assert rig.new().sqs(name="orders")(bill) is not None  # each Once has its own names


def _made(target: object) -> Function:
    def deliver(record: Any) -> object:
        return target

    return deliver


def _partial(target: str) -> Function:
    return functools.update_wrapper(partial(_sent, target=target), _sent)


def _sent(record: Any, target: str) -> str:
    return target


OTHERS: dict[str, tuple[Function, Function]] = {
    "a factory's": (_made("mail"), _made("erp")),
    "of one object": (_made(ship), _made(ship)),
    "methods of two objects": (Gateway().send, Gateway().send),
    "wrapped methods of two objects": (Gateway().traced, Gateway().traced),
    "classmethods": (Gateway.of_class, Sms.of_class),
    "a method, bound and not": (partial(Gateway.send, Gateway()), Gateway().send),
    "partials": (partial(_sent, target="mail"), partial(_sent, target="erp")),
    "wrapped partials": (_partial("mail"), _partial("erp")),
    "callable objects": (Gateway(), Gateway()),
    "lambdas": (lambda record: [record], lambda record: (record,)),
    "C functions": (abs, len),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_one_def_is_other_work_each_time(rig: Rig, kind: str) -> None:
    """A loop, a factory, the methods of two objects: one piece of code, and two effects."""
    one, other = OTHERS[kind]
    kept = [rig.once.function(name="deliver", key="@")(one)]
    with pytest.raises(Misconfigured, match="have one name, 'deliver'"):
        rig.once.function(name="deliver", key="@")(other)
    kept.append(rig.once.function(name="again", key="@")(other))


def test_default_names_are_names(rig: Rig) -> None:
    """In a loop, of a wrapper that keeps no name, and where an explicit name is a default one."""

    def careless(function: Function) -> Function:
        def wrapper(record: Any) -> Any:
            return function(record)

        return wrapper

    kept = [rig.once.sqs(careless(ship))]
    with pytest.raises(Misconfigured, match=r"careless\.<locals>\.wrapper"):
        rig.once.sqs(careless(bill))
    with pytest.raises(Misconfigured, match=r"use using\(\)"):  # noqa: PT012  (the second one raises)
        for _ in range(2):

            @rig.once.sqs
            def handler(record: Any) -> None: ...

            kept.append(handler)
    kept.append(rig.once.sqs(ship))
    with pytest.raises(Misconfigured, match=f"one name, '{__name__}.ship'"):
        rig.once.sqs(name=f"{__name__}.ship")(bill)


def test_only_what_is_alive_counts(rig: Rig) -> None:
    """A function that nothing can run any more has no name, also one that only garbage refers to."""
    for target in ("mail", "erp"):
        decorated: Any = rig.once.function(name="deliver")(_made(target))
        decorated.itself = decorated
        del decorated


def test_threads_that_decorate(rig: Rig) -> None:
    """Of many that take one name at a time, one gets it."""
    start = threading.Barrier(8)

    def decorate(n: int) -> Any:
        start.wait()
        try:
            return rig.once.sqs(name="orders")(_made(n))
        except Misconfigured:
            return None

    with ThreadPoolExecutor(8) as pool:
        assert sum(each is not None for each in pool.map(decorate, range(8))) == 1


# ------------------------------------------------------------------ the same work is not


def test_one_function_may_be_decorated_twice(rig: Rig) -> None:
    """Under two decorators, under wrappers of others, and a bound method of one object."""
    functions: list[Any] = [ship, traced, Gateway().send, Gateway.of_class, [].append]
    kept: list[Any] = []
    for n, function in enumerate(functions):
        kept.append(rig.once.event(name=f"{n}", key="@")(function))
        kept.append(rig.once.function(name=f"{n}", key="@")(function))
    kept.append(rig.once.event(name="work")(Tracer(disabled=True).capture_method(bill)))
    kept.append(rig.once.function(name="work")(bill))


SOURCE = """
from lambda_once import MemoryStore, Once
try:
    once
except NameError:
    from shared import once
@once.sqs
def ship(record):
    return VALUE
@once.sqs(name="orders")
def bill(record):
    return VALUE
@once.function(name=bill)
def bill_by_call(record):
    return VALUE
def make():
    @once.event
    def inner(event):
        return 1
    return inner
made = make()
class Gateway:
    @once.function(key="order")
    def send(self, order):
        return VALUE
    def work(self, order):
        return VALUE
sender = once.sqs(name="sender")(Gateway().work)
"""


@pytest.fixture
def module(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of several decorated functions of one `Once`, imported."""
    shared = ModuleType("shared")
    shared.once = rig.once  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shared", shared)
    (tmp_path / "app").mkdir()
    for path in (tmp_path / "stock.py", tmp_path / "app" / "stock.py"):
        path.write_text(SOURCE.replace("VALUE", "5"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module("stock")
    for name in ("stock", "app", "app.stock", "package.stock"):
        sys.modules.pop(name, None)


def test_a_reload_changes_nothing(module: ModuleType) -> None:
    """What was imported before it is alive, and still the same work."""
    before = dict(vars(module))
    assert importlib.reload(module).ship is not before["ship"]


def test_a_reload_with_changes_replaces(module: ModuleType) -> None:
    """The functions of the module have their names; what a function made only with the same code."""
    before = dict(vars(module))
    path = Path(str(module.__file__))
    path.write_text(path.read_text(encoding="utf-8").replace("return 5", "return 6, 7"), encoding="utf-8")
    assert importlib.reload(module).bill is not before["bill"]


def test_a_module_imported_anew_replaces(module: ModuleType) -> None:
    """What is in its place in sys.modules has its names, changed or not; the first one is alive."""
    for value in ("5", "6, 7"):
        del sys.modules["stock"]
        path = Path(str(module.__file__))
        path.write_text(SOURCE.replace("VALUE", value), encoding="utf-8")
        importlib.invalidate_caches()
        assert importlib.import_module("stock").bill is not module.bill
    with pytest.raises(Misconfigured, match=r"stock\.bill .* and stock\.bill .* have one name, 'orders'"):
        module.once.sqs(name="orders")(FunctionType(module.bill.__wrapped__.__code__, vars(module), "bill"))


def test_one_module_under_two_names(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``python -m`` and an import load it: both are alive, each with its own globals."""
    folder = Path(str(module.__file__)).parent
    names = ModuleType("package")
    names.__path__ = [str(folder)]
    monkeypatch.setitem(sys.modules, "package", names)
    for name in ("package.stock", "app.stock"):
        whose = rf"stock\.bill .* and {name}\.bill .* have one name, 'orders'"
        with pytest.raises(Misconfigured, match=f"{whose}.*name="):
            importlib.import_module(name)
    with pytest.raises(Misconfigured, match=r"'orders'.*load its file once"):
        exec(compile(SOURCE, str(module.__file__), "exec"), {"once": module.once, "__name__": "__main__"})


def _plugin(path: Path, name: str, **known: Any) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    plugin = importlib.util.module_from_spec(spec)
    vars(plugin).update(known)
    spec.loader.exec_module(plugin)
    return vars(plugin)


PLUGIN = """
@once.function(key="order", name="charge")
def charge(order):
    return f"{TENANT} charged {order}"
"""


@pytest.mark.parametrize("second", ["plugin_a", "plugin_b"])
def test_a_file_loaded_twice_is_other_work(rig: Rig, tmp_path: Path, second: str) -> None:
    """Each with the globals of its tenant, and both alive: the second one's work would never run."""
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN, encoding="utf-8")
    plugin = _plugin(path, "plugin_a", once=rig.once, TENANT="a")
    both = rf"plugin_a\.charge .* and {second}\.charge .* have one name, 'charge'.*name=.*load its file once"
    with pytest.raises(Misconfigured, match=both):
        _plugin(path, second, once=rig.once, TENANT="b")
    assert plugin["charge"]("o-1") == "a charged o-1"
    plugin.clear()
    assert _plugin(path, second, once=rig.once, TENANT="b")["charge"]("o-2") == "b charged o-2"


@pytest.mark.parametrize("value", ["TENANT", "[TENANT]"], ids=["one source", "changed"])
def test_one_source_in_two_dicts_is_other_work(rig: Rig, value: str) -> None:
    """Under one ``__name__``, and by the default name."""
    source = "@once.function(key='order')\ndef charge(order): return TENANT"
    kept = {"once": rig.once, "__name__": "plugins", "TENANT": "a"}
    exec(compile(source, "<plugin>", "exec"), kept)
    with pytest.raises(Misconfigured, match=r"'plugins\.charge'"):
        exec(compile(source.replace("TENANT", value), "<plugin>", "exec"), kept | {"TENANT": "b"})


def test_a_script_run_again(rig: Rig, tmp_path: Path) -> None:
    """By runpy, as Streamlit and others do: each run is the module of its name while it lasts."""
    path = tmp_path / "script.py"
    path.write_text(PLUGIN, encoding="utf-8")
    known = {"once": rig.once, "TENANT": "a"}
    kept = [runpy.run_path(str(path), known, "__main__") for _ in range(2)]
    assert len(kept) == 2


def test_cells_of_a_notebook_are_executed_again(rig: Rig) -> None:
    """As they were and changed: the latest def of a name has it."""
    notebook = {"once": rig.once, "__name__": "__main__"}
    cells = [SOURCE.replace("VALUE", value) for value in ("5", "5", "[6]", "7 * once")]
    kept: list[object] = []
    for number, cell in enumerate(cells):
        exec(compile(cell, f"<cell {number}>", "exec"), notebook)
        kept.append(dict(notebook))
    with pytest.raises(Misconfigured, match=r"__main__\.bill "):
        rig.once.sqs(name="orders")(ship)


def test_a_def_of_the_name_underscore_succeeds_nothing(rig: Rig) -> None:
    """Several of one module are called the same: with an explicit name, too, they are other work."""
    notebook: dict[str, Any] = {"once": rig.once, "__name__": "__main__"}
    cell = "@once.sqs(name='n')\ndef _(record): return VALUE\nkept = _\n"
    with pytest.raises(Misconfigured, match=r"__main__\._ "):
        exec(cell + cell.replace("VALUE", "[5]"), notebook)


# ------------------------------------------------------------------ shared on purpose


def test_a_function_shares_the_name_of_another(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name=: an explicit or a default one, which begins with that of the Lambda function."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders-prod")
    done: list[str] = []

    @rig.once.sqs(key="orderId")
    def by_queue(record: Any) -> None:
        done.append("queue")

    @rig.once.event(key="orderId", name=by_queue)
    def directly(event: Any) -> None:
        done.append("directly")

    @rig.once.function(key="orderId", name=Tracer(disabled=True).capture_method(directly), fingerprint=False)
    def by_call(**_: Any) -> None:
        done.append("call")

    by_queue(sqs_event({"orderId": "o-1"}), rig.context())
    directly({"orderId": "o-1"}, rig.context())
    by_call(orderId="o-1")
    with rig.once.begin("o-1", name=by_call) as attempt:
        assert attempt.replayed
    assert done == ["queue"]
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders-blue")
    directly({"orderId": "o-1"}, rig.context())
    assert done == ["queue", "directly"]


def test_names_that_a_route_and_requests_share(rig: Rig) -> None:
    """A route shares the name of a handler of requests, and may have that of another route."""
    handler = rig.once.api_gateway(name="pay")(ship)
    route, other = (rig.once.route(name=each) for each in (handler, "pay"))
    assert [each.__self__.identifier.name for each in (route, other)] == ["pay", "pay"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    [ship, lambda event: event, Gateway, Once(store=MemoryStore()).function(bill), 5, "", b"orders", ["a"]],
    ids=["undecorated", "a callable", "a class", "another Once's", "a number", "no text", "bytes", "a list"],
)
def test_what_is_no_name(rig: Rig, name: Any) -> None:
    """Neither a text nor a function that this Once has decorated: the message says what to pass."""
    doors: list[Callable[[], object]] = [
        lambda: rig.once.sqs(name=name),
        lambda: rig.once.route(name=name),
        lambda: rig.once.begin("k", name=name),
    ]
    for door in doors:
        with pytest.raises(Misconfigured, match=r"^name=.*(a|non-empty) text, or the decorated function"):
            door()


# ------------------------------------------------------------------ no default name


def _underscore() -> Function:
    def _(record: Any) -> Any:
        return record

    return _


NAMELESS: dict[str, tuple[Function, str]] = {
    "a lambda": (lambda record: record, "a lambda"),
    "a wrapped lambda": (Tracer(disabled=True).capture_method(lambda record: record), "a lambda"),
    "an underscore": (_underscore(), "a function called _"),
    "a partial": (partial(_sent, target="secret"), "a partial object"),
    "a wrapped partial": (_partial("secret"), "a partial object"),
    "a callable object": (Gateway(), "a Gateway object"),
}


@pytest.mark.parametrize("kind", NAMELESS)
def test_what_has_no_name_of_its_own(rig: Rig, kind: str) -> None:
    """It needs name=; the message has no argument in it."""
    function, words = NAMELESS[kind]
    for decorate in (rig.once.sqs, rig.once.event(), rig.once.function(key="@")):
        with pytest.raises(Misconfigured, match="pass name=") as raised:
            decorate(function)
        assert str(raised.value).startswith(words)
        assert "secret" not in str(raised.value)
    assert rig.once.sqs(name="work")(function) is not None


def test_run_takes_any_callable(rig: Rig) -> None:
    """Under the name that it is given; a duplicate calls nothing, and its arguments may be called name."""
    for kind, (function, _) in NAMELESS.items():
        if kind == "a wrapped partial":  # its signature is that of what it wraps
            continue
        assert rig.once.run(kind, "k", function, "o-1") == rig.once.run(kind, "k", function, "o-1")
    assert rig.once.run("send mail", "k", lambda name, key: name + key, name="a", key="b") == "ab"
    assert [row.token for row in rig.rows()][-1] == "shop/send%20mail/k"


@pytest.mark.parametrize(
    "given",
    [
        ("k", ship, "o-1"),
        (5, "charge", ship),
        ("", "k", ship),
        (None, "k", ship),
        ("charge", "k", "o-1"),
        ("k", ship, bill),
        (ship, "k", bill),
    ],
    ids=["key, function", "key, name", "no name", "None", "no function", "two functions", "a function first"],
)
def test_run_says_what_comes_first(rig: Rig, given: tuple[Any, ...]) -> None:
    """Another order is refused where it can be seen, and nothing is acquired."""
    with pytest.raises(Misconfigured, match=r'once.run\("charge", order_id, charge, card\); it got: \w+, '):
        rig.once.run(*given)
    assert rig.store.acquisitions == 0


# ------------------------------------------------------------------ tests of a user


SHOP = Once(store=MemoryStore(), service="shop")
MADE: list[Function] = []
"""What `deliver` has made, all of it alive."""


@pytest.fixture(scope="module", params=["mail", "erp"])
def deliver(request: pytest.FixtureRequest) -> Iterator[Function]:
    """A function made once for each parameter, under `using`."""
    with using(SHOP):
        MADE.append(SHOP.function(name="deliver", key="@")(_made(request.param)))
        yield MADE[-1]


def test_a_fixture_with_parameters(rig: Rig, deliver: Function) -> None:
    """Its functions have one name, each in its time."""
    assert deliver("o-1") in ("mail", "erp")


@pytest.mark.parametrize("in_a_block", [False, True])
def test_a_red_test_before_it(rig: Rig, in_a_block: bool) -> None:
    """Its traceback keeps its functions alive, and they their names: not under `using`."""

    def red() -> None:
        decorated = rig.once.sqs(name="orders")(_made("mail"))
        raise AssertionError(decorated)

    with pytest.raises(AssertionError) as traceback:  # noqa: PT012  (the block is the test before)
        if in_a_block:
            with using(rig.once):
                red()
        red()
    if not in_a_block:
        with pytest.raises(Misconfigured, match="an earlier test's traceback keeps it alive: use using"):
            rig.once.sqs(name="orders")(_made("erp"))
    for _ in range(2):
        with using(rig.once):
            kept = rig.once.sqs(name="orders")(_made("erp"))
            with pytest.raises(Misconfigured):
                rig.once.sqs(name="orders")(_made("crm"))
            del kept
    assert traceback.tb is not None


def test_using_begins_with_what_modules_have(rig: Rig) -> None:
    """And what is decorated in it is forgotten at its end, wherever it comes from, in any order of ends."""
    kept: list[Any] = [rig.once.sqs(name="orders")(ship)]
    first, second = using(rig.once), using(rig.new())
    with first:
        with pytest.raises(Misconfigured):
            rig.once.sqs(name="orders")(bill)
        kept.append(rig.once.sqs(name="bills")(bill))
        second.__enter__()
        with pytest.raises(Misconfigured):
            rig.once.sqs(name="bills")(ship)
    kept.append(rig.once.sqs(name="bills")(ship))
    second.__exit__(None, None, None)
    kept.append(rig.once.function(name=kept[1])(traced))
    with pytest.raises(Misconfigured):
        rig.once.sqs(name="orders")(bill)
    assert rig.once.sqs(name="bills")(bill) is not None


# ------------------------------------------------------------------ one method of two classes


def _logged(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [line for line in caplog.records if line.message == Event.SHARED_NAME]


def _two_classes(rig: Rig, **options: Any) -> tuple[Any, Any, Any]:
    """A class with a protected method, and two that inherit it."""

    class Base:
        @rig.once.function(key="order", **options)
        def notify(self, order: str) -> str:
            return type(self).__name__

    class Mail(Base): ...

    class Text(Base): ...

    return Base, Mail, Text


def test_a_method_of_two_classes_is_logged_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """The second class gets the outcome of the first for an equal key."""
    base, mail, text = _two_classes(rig)
    assert [mail().notify("o-1"), mail().notify("o-2")] == ["Mail", "Mail"]
    assert _logged(caplog) == []
    assert [text().notify("o-1"), base().notify("o-3")] == ["Mail", "Base"]
    (line,) = _logged(caplog)
    assert line.levelname == "ERROR"
    for words in ("Mail", "Text", "scope="):
        assert words in line.reason


@pytest.mark.parametrize(
    "options", [{"name": "notify"}, {"scope": lambda self, order: type(self).__name__}], ids=["name", "scope"]
)
def test_a_method_that_says_what_is_meant_is_not_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    """With name= the classes share it on purpose; a callable scope= sees the object."""
    _, mail, text = _two_classes(rig, **options)
    mail().notify("o-1")
    text().notify("o-1")
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
