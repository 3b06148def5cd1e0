"""Private parts of other libraries: one file uses them, each is as it was seen, and nothing depends on it."""

from __future__ import annotations

import ast
import asyncio
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler import api_gateway as sync_frames
from aws_lambda_powertools.event_handler.api_gateway import Router
from aws_lambda_powertools.event_handler.middlewares import async_utils as async_frames
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig
from botocore.model import ServiceModel
from botocore.validate import ParamValidator, ValidationErrors
from pydantic import TypeAdapter

from lambda_once.integrations import private
from lambda_once.testing import api_event, lambda_context

ROOT = Path(__file__).parents[2]
SOURCES = {
    path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
    for folder in (ROOT / "src", ROOT / "tools" / "src")
    for path in folder.rglob("*.py")
}
HOME: Final = "lambda_once/integrations/private.py"

DOCUMENTED = {"_asdict", "_fields", "_make", "_replace", "_value_"}
"""Public in spite of their names: of named tuples (collections), and of members of an Enum (enum)."""
OF_OUR_OWN = {"lambda_once/testing/assertions.py": {"_runtime"}, "lambda_once/testing/stores.py": {"_using"}}
"""What one file of ours uses of another's class, `Once`."""
USED = {
    *("_SpecialForm", "_errors", "_put_record", "_type"),
    *("_dynamic_routes", "_routes", "_routes_with_middleware", "_serializer", "_static_routes"),
}
"""Names in `integrations/private.py`, which also has the frames of chains, and ``context["_route"]``."""

# ------------------------------------------------------------------ the rule

_BY_NAME = {"attrgetter", "delattr", "getattr", "hasattr", "methodcaller", "setattr"}
_PATH = re.compile(r"[A-Za-z]\w*(?:\.\w+)+")


def _is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__") and name != "_"


def _defined(tree: ast.AST) -> set[str]:
    """Return the private names that *tree* defines: in the module, in its classes, and on ``self``."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found.add(name)
            case _:
                pass
    return {name for name in found if _is_private(name)}


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what *tree* imports, and the name that it is bound to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, each.asname or each.name.split(".")[0]) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((f"{node.module}.{each.name}", each.asname or each.name) for each in node.names)


def _is_theirs(dotted: str) -> bool:
    return not dotted.startswith(("lambda_once.", "lambda_once_tools."))


def private_uses(source: str, ours: set[str], file: str = "") -> set[str]:
    """
    Return the private names of others that *source* uses.

    A name with one underscore is private. It is another's unless this source defines it, or, on ``self``,
    ``cls`` and ``super()``, one of *ours*. It may be an attribute, a text that names one, an import, or in a
    dotted path in a text. What is set on something imported counts, whatever its name.
    """
    tree = ast.parse(source)
    own = _defined(tree) | DOCUMENTED | OF_OUR_OWN.get(file, set())
    imported = list(_imported(tree))
    theirs = {bound for dotted, bound in imported if _is_theirs(dotted)}
    found = {
        part
        for dotted, _ in imported
        if _is_theirs(dotted)
        for part in dotted.split(".")
        if _is_private(part)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(
                value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")), attr=name
            ):
                found |= {name} - own - ours
            case ast.Attribute(attr=name):
                found |= {name} - own
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=args) if (
                called in _BY_NAME
            ):
                found |= {str(each.value) for each in args if isinstance(each, ast.Constant)} - own
            case ast.Constant(value=str(text)) if _PATH.fullmatch(text):
                found |= {part for part in text.split(".") if _is_private(part)}
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in theirs:
                found.add(f"_{ast.unparse(node)}")
    return {name for name in found if _is_private(name)}


OURS = set[str]().union(*(_defined(ast.parse(source)) for source in SOURCES.values()))


def test_one_file_alone_uses_what_is_private() -> None:
    """Of all of src and tools."""
    found = {file: private_uses(source, OURS, file) for file, source in SOURCES.items()}
    assert found.pop(HOME) == USED
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "client._emitter",
        "self.client._emitter",
        "client._emitter.x = 1",
        "class A(Theirs):\n    def f(self):\n        self._theirs()",
        "class A(Theirs):\n    def f(self):\n        super()._theirs()",
        "getattr(client, '_emitter', None)",
        "operator.attrgetter('_emitter')",
        "setattr(client, '_emitter', 1)",
        "from typing import _SpecialForm",
        "from pydantic._internal import _typing_extra",
        "import pydantic._internal",
        "def f():\n    from pydantic._internal import x",
        "NAMES = {'pydantic.networks._BaseUrl': 1}",
        "import_module('pydantic._internal')",
        "import botocore\nbotocore.session.get_session = f",
        "from botocore import session\nsession.get_session = f",
    ],
)
def test_a_use_is_seen(source: str) -> None:
    """On any object, by name, as an import, in a path; and so is what is set on a library's module."""
    assert private_uses(source, {"_ours"}) != set()


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def f(self):\n        self._x = 1\n    def g(self, other):\n        return other._x",
        "class A(Ours):\n    def f(self):\n        self._ours()\n        super()._ours()",
        "row._replace(a=1)._asdict()",
        "from lambda_once._once import Once\nOnce.x = 1",
        "x.__dict__, getattr(x, '__wrapped__', None)",
        "def _f(): ...\nimport m\nm.f(_f)",
        "PATTERN = '_rank', 'a sentence. _It has_ two', '1._x'",
        "import m\nx = m.f()\nx.y = 1",
    ],
)
def test_what_is_ours_or_public_is_none(source: str) -> None:
    """A class's own names, also of another object of it; those of named tuples; double underscores."""
    assert private_uses(source, {"_ours"}) == set()


# ------------------------------------------------------------------ as it was seen


@pytest.fixture
def changed() -> None:
    """Have the next change warn, as in a new process."""
    private._changed.cache_clear()


def _mistakes(**parameters: Any) -> ValidationErrors:
    model = {
        "metadata": {},
        "operations": {"Do": {"input": {"shape": "In"}}},
        "shapes": {
            "In": {"type": "structure", "members": {"Name": {"shape": "Text"}}, "required": ["Name"]},
            "Text": {"type": "string"},
        },
    }
    shape = ServiceModel(model, "service").operation_model("Do").input_shape
    return ParamValidator().validate(parameters, shape)


def test_mistakes_are_those_of_botocore() -> None:
    """Each has a reason, a place and details, by the names that our messages are made of."""
    found = private.mistakes(_mistakes(Name=5, Other=6))
    assert found is not None
    unknown, kind = sorted(found, reverse=True)
    assert kind.reason == "invalid type"
    assert kind.place == ".Name"
    assert (kind.details["param"], kind.details["valid_types"]) == (5, ["<class 'str'>"])
    assert (unknown.reason, unknown.place) == ("unknown field", "")
    assert (unknown.details["unknown_param"], unknown.details["valid_names"]) == ("Other", ["Name"])
    found = private.mistakes(_mistakes())
    assert found is not None
    (missing,) = found
    assert (missing.reason, missing.place) == ("missing required field", "")
    assert missing.details["required_name"] == "Name"
    assert private.mistakes(_mistakes(Name="a")) == []


def test_the_type_of_an_adapter() -> None:
    """It is the one that was given, not what pydantic makes of it."""
    given = list[int]
    assert private.adapted_type(TypeAdapter(given)) is given


def _shop(app: Any, is_async: bool, *middlewares: Any) -> Any:
    def pay(order_id: str) -> dict[str, str]:
        return {"order": order_id}

    async def pay_async(order_id: str) -> dict[str, str]:
        return pay(order_id)

    route = pay_async if is_async else pay
    app.post("/orders/<order_id>", middlewares=list(middlewares))(route)
    return route


def _resolved(app: Any, is_async: bool) -> Any:
    event = api_event(method="POST", path="/orders/5")
    if is_async:
        return asyncio.run(app.resolve_async(event, lambda_context()))
    return app.resolve(event, lambda_context())


@pytest.mark.parametrize("is_async", [False, True])
def test_a_chain_and_its_route(is_async: bool) -> None:
    """Its parts are the middlewares behind, Powertools' adapter and the function; a new one runs like it."""
    seen: list[Any] = []

    def spy(app: Any, chain: Any) -> Any:
        seen.append((private.taken_apart(chain, is_async=is_async), private.route_path(app)))
        seen.append(private.is_of_resolve(chain))
        parts = seen[0][0]
        return parts.around(parts.adapter, parts.function)(app)

    async def spy_async(app: Any, chain: Any) -> Any:
        return await spy(app, chain)

    def behind(app: Any, chain: Any) -> Any:
        return chain(app)

    app = APIGatewayHttpResolver()
    function = _shop(app, is_async, spy_async if is_async else spy, behind)
    assert _resolved(app, is_async)["statusCode"] == 200
    (parts, path), is_synchronous = seen
    assert parts.middlewares == [behind]
    assert parts.function is function
    assert path == "/orders/{order_id}"
    assert is_synchronous is not is_async
    with pytest.raises(ValueError):  # noqa: PT011  (it has no text)
        private.taken_apart(parts.around(parts.adapter, parts.function), is_async=not is_async)
    with pytest.raises(ValueError):  # noqa: PT011  (it has no text)
        private.taken_apart(function, is_async=is_async)


def test_the_routes_of_a_handler_and_a_router() -> None:
    """Static and dynamic ones, each with its middlewares; a route of a Router that has none, too."""

    def before(app: Any, chain: Any) -> Any:
        return chain(app)

    for kind in (APIGatewayHttpResolver, Router):
        app: Any = kind()
        dynamic = _shop(app, False, before)
        static = app.get("/orders")(dict)
        found = {function: list(middlewares) for function, middlewares in private.routes_of(app)}
        assert found == {dynamic: [before], static: []}


def test_a_record_is_put_by_the_given_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Powertools calls the copy's method by its name, and the layer's own is at hand for it."""
    put: list[Any] = []

    def own(_: object, data_record: Any) -> None:
        put.append(data_record)

    monkeypatch.setattr(DynamoDBPersistenceLayer, "_put_record", own)
    layer = DynamoDBPersistenceLayer(table_name="t", boto3_client=object())
    layer.configure(IdempotencyConfig(use_local_cache=False), "f")

    def write(its_own: Callable[..., None], data_record: Any) -> None:
        put.append("ours")
        its_own(data_record=data_record)

    private.with_put_record(layer, write).save_inprogress(data={"a": 1}, remaining_time_in_millis=9)
    layer.save_inprogress(data={"a": 2}, remaining_time_in_millis=9)
    assert put[0] == "ours"
    assert [record.status for record in put[1:]] == ["INPROGRESS", "INPROGRESS"]


# ------------------------------------------------------------------ without it


def warned(library: str) -> Any:
    """Expect the warning that names *library*."""
    return pytest.warns(RuntimeWarning, match=f" of the installed {library}: .*Pin an older {library}$")


def _silent(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


@pytest.mark.parametrize("errors", ["absent", [("reason", "place")], 5])
def test_mistakes_that_cannot_be_read(changed: None, errors: Any) -> None:
    """None, whatever has changed about them; the second time in silence."""

    class Others:
        """A report of another version."""

    found: Any = Others()
    if errors != "absent":
        found._errors = errors
    with warned("botocore"):
        assert private.mistakes(found) is None
    assert _silent(lambda: private.mistakes(found)) is None


def test_a_resource_without_its_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client counts as a plain one."""
    events = boto3.resource("dynamodb", "eu-central-1").meta.client.meta.events
    assert private.converts_attributes(events)
    monkeypatch.setattr(private, "_CONVERTS", "gone")
    assert not private.converts_attributes(events)


def test_an_adapter_without_its_type(changed: None) -> None:
    """It stands for itself."""
    adapter = object()
    with warned("pydantic"):
        assert private.adapted_type(adapter) is adapter


class _Frame:
    """A frame of another version."""

    def __init__(self, middleware: Any, following: Any) -> None:
        self.chain = middleware, following


@pytest.mark.parametrize(
    "frame", [None, _Frame, lambda: None], ids=["gone", "other attributes", "other arguments"]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_chains_that_cannot_be_read(
    changed: None, monkeypatch: pytest.MonkeyPatch, is_async: bool, frame: Any
) -> None:
    """They have no parts; whether one is of app.resolve is asked of the event loop."""
    home = async_frames if is_async else sync_frames
    monkeypatch.setattr(home, "AsyncMiddlewareFrame" if is_async else "MiddlewareFrame", frame)

    async def asked() -> bool:
        return private.is_of_resolve(len)

    with warned("Powertools"):
        assert private.taken_apart(len, is_async=is_async) is None
    if not is_async:
        assert (private.is_of_resolve(len), asyncio.run(asked())) == (True, False)


@pytest.mark.parametrize("route", [None, object(), Response(200)])
def test_a_route_without_a_path(route: Any) -> None:
    """It has none."""
    app: Any = APIGatewayHttpResolver()
    app.append_context(_route=route)
    assert private.route_path(app) is None
    app.clear_context()
    assert private.route_path(app) is None


def test_a_handler_without_its_serialiser() -> None:
    """None is known."""
    app = APIGatewayHttpResolver(serializer=repr)
    assert private.serialiser_of(app) is repr
    del app._serializer
    assert private.serialiser_of(app) is None


@pytest.mark.parametrize("lacks", ["_static_routes", "_dynamic_routes"])
def test_routes_that_cannot_be_listed(changed: None, lacks: str) -> None:
    """There are none."""
    app = APIGatewayHttpResolver()
    delattr(app, lacks)
    with warned("Powertools"):
        assert list(private.routes_of(app)) == []


def test_a_layer_without_the_method(changed: None) -> None:
    """It is used as it is."""
    layer = object()
    with warned("Powertools"):
        assert private.with_put_record(layer, print) is layer
