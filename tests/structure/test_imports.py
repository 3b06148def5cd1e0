"""Imports point one way, between parts and files; what costs a cold start is imported at first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from lambda_once import dynamodb
from tests.decorators.sources_table import RECORD_DECORATORS

ROOT = Path(__file__).parents[2]
SOURCE, TOOLS = ROOT / "src", ROOT / "tools" / "src"
PACKAGES = (SOURCE / "lambda_once", TOOLS / "lambda_once_tools")
MODULES = sorted(module for package in PACKAGES for module in package.rglob("*.py"))

REACHES = {
    "errors": set[str](),
    "core": {"errors"},
    "policies": {"core", "errors"},
    "settings": {"core", "engine", "errors", "policies"},  # of engine a type alone
    "dynamodb": {"core", "errors"},
    "stores": {"core", "dynamodb", "errors"},
    "patterns": {"core", "dynamodb", "errors", "observability"},
    "observability": {"core", "settings"},  # of settings a type alone
    "engine": {"core", "dynamodb", "errors", "observability", "policies", "settings", "stores"},
    "decorators": {
        "core",
        "dynamodb",
        "engine",
        "errors",
        "observability",
        "settings",
        "stores",
    },
    "sources": {
        "core",
        "decorators",
        "dynamodb",
        "engine",
        "errors",
        "observability",
        "policies",
        "settings",
    },
    "operations": {"core", "dynamodb", "errors", "observability", "policies", "stores"},
    "explain": {"core", "decorators", "errors", "sources"},
    "search": {"core", "errors", "operations", "stores"},
    "check": {"core", "errors", "sources", "stores"},
    "cli": {
        "check",
        "core",
        "dynamodb",
        "errors",
        "explain",
        "integrations",
        "operations",
        "patterns",
        "search",
        "stores",
    },
}
"""What each part may import of the others. What is in ON_TOP may import everything of `lambda_once`."""
LEAF = "lambda_once.integrations.private"
"""Every part may import it, for it imports the standard library alone."""
OF_TOOLS = {"check", "cli", "explain", "search"}
"""The parts of `lambda_once_tools`."""
SHARED = {
    "lambda_once.decorators.identify.Identification",
    "lambda_once.decorators.identify.Identifier",
    "lambda_once.integrations.event_handler.Route",
    "lambda_once.integrations.private.routes_of",
    "lambda_once.sources.caller.Caller",
    "lambda_once.sources.caller.Origin",
    "lambda_once.sources.envelopes",
    "lambda_once.sources.envelopes.TooDeep",
    "lambda_once.sources.envelopes.parse",
    "lambda_once.sources.event",
    "lambda_once.sources.function.FunctionIdentifier",
    "lambda_once.sources.headers.KEY_HEADER",
    "lambda_once.sources.http",
    "lambda_once.sources.http.HttpIdentifier",
    "lambda_once.sources.records.Records",
    "lambda_once.sources.source.Source",
    "lambda_once.sources.source.source_of",
}
"""What the tools may import beside core, dynamodb, stores, operations and patterns."""

ON_TOP = {"__init__", "_once", "_signatures", "integrations", "testing"}
ONLY_AT_FIRST_USE = ("aws_xray_sdk", "boto3", "botocore", "moto", "pydantic")
MAY_IMPORT_BOTO3 = {"dynamodb", "operations", "patterns", "stores", "testing"} | OF_TOOLS


def _part(module: Path) -> str:
    return _in_package(module).parts[0].removesuffix(".py")


def _in_package(module: Path) -> Path:
    return next(module.relative_to(each) for each in PACKAGES if module.is_relative_to(each))


def _dotted(module: Path) -> Path:
    return next(module.relative_to(each.parent) for each in PACKAGES if module.is_relative_to(each))


PARTS = {_part(module) for module in MODULES}


def _statements(node: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """
    Yield the statements under *node*: an import is one, and no expression has one inside.

    *types*: also those for type checkers alone.
    """
    for child in ast.iter_child_nodes(node):
        is_of_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not isinstance(child, ast.expr) and (types or not is_of_types):
            yield child
            yield from _statements(child, types=types)


@cache
def _imports(source: str, package: tuple[str, ...], *, types: bool = True) -> frozenset[str]:
    """Return the dotted names that *source* imports, relative ones and those of *types* included."""
    found = set[str]()
    for node in _statements(ast.parse(source), types=types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def _imports_of(module: Path, *, types: bool = True) -> frozenset[str]:
    package = _dotted(module).parent.parts
    return _imports(module.read_text(encoding="utf-8"), package, types=types)


def _parts_of(names: frozenset[str]) -> set[str]:
    """Return the parts of this package that *names* lie in; a bare `lambda_once` counts as its `__init__`."""
    ours = [name.split(".") for name in names if name.split(".")[0] in ("lambda_once", "lambda_once_tools")]
    parts = {name[1] if len(name) > 1 else "__init__" for name in ours}
    return {part if part in PARTS else "__init__" for part in parts}


def _above_the_leaf(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if not f"{name}.".startswith(f"{LEAF}."))


def _wrong_way(part: str, names: frozenset[str]) -> set[str]:
    """Return the parts that *names* lie in and that a module of *part* may not import."""
    return set() if part in ON_TOP else _parts_of(_above_the_leaf(names)) - REACHES[part] - {part}


def _boto3_in(names: frozenset[str]) -> set[str]:
    """Return which of boto3 and botocore *names* lie in."""
    return {name.split(".")[0] for name in names} & {"boto3", "botocore"}


def test_imports_point_one_way() -> None:
    """A module imports of this package only its own part and those below it, and REACHES has no other."""
    assert PARTS - ON_TOP - REACHES.keys() == set(), "new parts: say in REACHES what they may import"
    found = {module: _wrong_way(_part(module), _imports_of(module)) for module in MODULES}
    assert {str(_in_package(module)): parts for module, parts in found.items() if parts} == {}
    unused = {part: set(may) for part, may in REACHES.items()}
    for module in MODULES:
        unused.get(_part(module), set()).difference_update(_parts_of(_above_the_leaf(_imports_of(module))))
    assert {part: parts for part, parts in unused.items() if parts} == {}


def test_patterns_know_no_token() -> None:
    """From dynamodb they import its public names, all of them; from core what has no token."""
    names = {name for module in MODULES if _part(module) == "patterns" for name in _imports_of(module)}
    of_dynamodb = {name for name in names if name.startswith("lambda_once.dynamodb")}
    assert of_dynamodb == {f"lambda_once.dynamodb.{name}" for name in dynamodb.__all__}
    of_core = {name.split(".")[2] for name in names if name.startswith("lambda_once.core.")}
    assert of_core == {*("canonical", "checks", "clock", "context", "fields", "keys", "threads", "variables")}


def test_the_leaf_imports_nothing() -> None:
    """But the standard library: so it is below every part."""
    source = (SOURCE / f"{LEAF.replace('.', '/')}.py").read_text(encoding="utf-8")
    names = {name.split(".")[0] for name in _imports(source, ("lambda_once", "integrations"))}
    assert names - sys.stdlib_module_names == set()


def test_only_the_leaf_is_below() -> None:
    """Another file of the folder, or the folder itself, is not."""
    for statement, wrong in {
        f"from {LEAF} import mistakes": set(),
        "from lambda_once.integrations import private": set(),
        f"import {LEAF}": set(),
        "from lambda_once.integrations import durable": {"integrations"},
        "from lambda_once.integrations.privates import x": {"integrations"},
        "import lambda_once.integrations": {"integrations"},
    }.items():
        assert _wrong_way("core", _imports(statement, ())) == wrong, statement


def test_decorators_need_no_integration() -> None:
    """They recognise durable executions, which they refuse, by a file of their own."""
    decorators = [module for module in MODULES if _part(module) in ("decorators", "sources")]
    names = {name for module in decorators for name in _imports_of(module)}
    assert {name for name in names if name.startswith("lambda_once.integrations")} == set()


def test_the_runtime_imports_none_of_the_tools() -> None:
    """A function's wheel has none of them."""
    runtime = [module for module in MODULES if _part(module) not in OF_TOOLS]
    found = {module for module in runtime for name in _imports_of(module) if _is_of_tools(name)}
    assert found == set()


def _is_of_tools(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] == "lambda_once_tools"


def test_an_import_of_the_tools_is_seen() -> None:
    """One in a function, too."""
    assert any(map(_is_of_tools, _imports("def f():\n    from lambda_once_tools import cli\n", ())))


def test_the_tools_share_few_names_of_the_engine() -> None:
    """Of what is neither core, stores, dynamodb, operations nor patterns only these: no more, no fewer."""
    free = {"core", "dynamodb", "errors", "operations", "patterns", "stores"} | OF_TOOLS
    names = {name for module in MODULES if _part(module) in OF_TOOLS for name in _imports_of(module)}
    assert {name for name in names if _parts_of(frozenset({name})) - free} == SHARED


def test_the_suite_of_stores_can_be_copied() -> None:
    """It needs pytest and a few parts of lambda_once, not the tests around it or the tools."""
    suite = (ROOT / "tests" / "stores" / "suite").glob("*.py")
    names = frozenset().union(*(_imports(file.read_text(encoding="utf-8"), ("suite",)) for file in suite))
    packages = {name.split(".")[0] for name in names} - sys.stdlib_module_names
    assert packages == {"lambda_once", "pytest", "suite"}
    assert _parts_of(names) == {"__init__", "core", "errors", "operations", "stores", "testing"}


def test_boto3_has_its_places() -> None:
    """Only dynamodb, stores, patterns, operations, tools and the kit for tests know boto3 and botocore."""
    elsewhere = [module for module in MODULES if _part(module) not in MAY_IMPORT_BOTO3]
    found = {module: _boto3_in(_imports_of(module)) for module in elsewhere}
    assert {str(_in_package(module)): names for module, names in found.items() if names} == {}


def test_all_ways_of_importing_are_seen() -> None:
    """Relative imports, imports in functions and imports for type checkers count like any other."""
    source = (
        "def f():\n    from ..stores import memory\n    from botocore import config\n"
        "if TYPE_CHECKING:\n    import lambda_once.engine.batch\n"
    )
    names = _imports(source, ("lambda_once", "core"))
    assert _wrong_way("core", names) == {"stores", "engine"}
    assert _boto3_in(names) == {"botocore"}


# ------------------------------------------------------------------ the graph of files


def _files() -> dict[str, Path]:
    """Return the files of the project by the dotted names that they are imported by."""
    found = {path: _dotted(path) for path in MODULES}
    for tree in ("benchmarks", "examples", "tests"):
        paths = (path.relative_to(ROOT) for path in sorted((ROOT / tree).rglob("*.py")))
        found |= {ROOT / path: path for path in paths if ".aws-sam" not in path.parts}
    return {".".join(name.with_suffix("").parts): path for path, name in found.items()}


def _graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """
    Return for each of *sources*, which are Python by dotted name, which of them it imports.

    A package's `__init__` is a file like any other; it counts as imported by one that asks for something of
    the package that is no module, not by one that imports a module of the package.
    """
    graph = {}
    for name, source in sources.items():
        wanted = _imports(source, tuple(name.split(".")[:-1]))
        graph[name] = {file for each in wanted if (file := _file_of(each, sources)) is not None} - {name}
    return graph


def _file_of(name: str | None, sources: Mapping[str, str]) -> str | None:
    """Return the file that an import of *name* reads, a module or what a module holds; None: none of ours."""
    while name:
        for file in (name, f"{name}.__init__"):
            if file in sources:
                return file
        name = name.rpartition(".")[0]
    return None


def _cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the files of one cycle in *graph*, each imported by the next; none where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def test_no_file_imports_itself_by_way_of_others() -> None:
    """The import graph of all files of the project, imports for type checkers included, has no cycle."""
    graph = _graph({name: path.read_text(encoding="utf-8") for name, path in _files().items()})
    assert "lambda_once.core.keys" in graph["lambda_once.decorators.identify"]
    assert _cycle(graph) == []


def test_no_part_runs_on_one_above_it() -> None:
    """Without what is for type checkers alone, the graph of parts has no cycle, whatever REACHES permits."""
    graph: dict[str, set[str]] = {part: set() for part in PARTS}
    for module in MODULES:
        part = _part(module)
        graph[part] |= _parts_of(_above_the_leaf(_imports_of(module, types=False))) - {part}
    assert _cycle(graph) == []


def test_an_import_for_type_checkers_does_not_run() -> None:
    """One in a function does."""
    source = "if TYPE_CHECKING:\n    import lambda_once.engine\ndef f():\n    import lambda_once.sources\n"
    assert _imports(source, (), types=False) == {"lambda_once.sources"}


def test_a_cycle_is_seen() -> None:
    """Of three files, through a type checker's import, a function's, and a package's own `__init__`."""
    sources = {
        "p.__init__": "from p.a import A",
        "p.a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import B",
        "p.b": "def f():\n    from . import c",
        "p.c": "import os",
    }
    assert _graph(sources) == {"p.__init__": {"p.a"}, "p.a": {"p.b"}, "p.b": {"p.c"}, "p.c": set()}
    assert _cycle(_graph(sources)) == []
    for back in ("import p.a", "from p.a import A", "from .a import A", "from p import A"):
        assert {"p.a", "p.b", "p.c"} <= set(_cycle(_graph(sources | {"p.c": back})))


def _modules_after(statements: str) -> set[str]:
    """Return the modules that a new interpreter has loaded after *statements*."""
    program = f"import sys\n{statements}\nprint(*sys.modules)"
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE)})
    return set(ran.stdout.split())


def test_a_cold_start_loads_no_sdk() -> None:
    """Importing the package and making a Once loads neither boto3 nor pydantic nor the X-Ray SDK."""
    loaded = _modules_after("from lambda_once import Once\nOnce(table='tokens')")
    assert "lambda_once" in loaded
    assert not loaded & {*ONLY_AT_FIRST_USE, LEAF}


def test_tests_of_handlers_need_no_sdk() -> None:
    """`lambda_once.testing` is imported where boto3 and pytest are not installed."""
    without = "sys.modules.update(dict.fromkeys(('boto3', 'botocore', 'pytest')))"
    assert "lambda_once" in _modules_after(f"{without}\nimport lambda_once.testing")


def test_a_loaded_sdk_is_seen() -> None:
    """The check above would notice boto3."""
    assert {"boto3", "botocore"} <= _modules_after("import boto3")


_OF_ONE = {*RECORD_DECORATORS, "event", "http", "function", "block"}
"""The files of `sources` that are each of one source."""


@pytest.mark.parametrize(
    ("decorator", "loads"),
    [
        *((decorator, {decorator}) for decorator in RECORD_DECORATORS),
        ("event", {"event"}),
        ("api_gateway", {"http"}),
        ("function", {"function", "event"}),  # an argument may be an event
    ],
)
def test_a_decorator_loads_its_own_source_alone(decorator: str, loads: set[str]) -> None:
    """So that the cold start of a queue's function doesn't pay for HTTP."""
    program = f"from lambda_once import Once\n@Once(table='tokens').{decorator}\ndef f(a, b=1): pass"
    loaded = _modules_after(program)
    prefix = "lambda_once.sources."
    found = {name.removeprefix(prefix) for name in loaded if name.startswith(prefix)}
    assert found & _OF_ONE == loads
    if decorator in {"event", "api_gateway", "function"}:
        assert not loaded & {"lambda_once.engine.batch", "lambda_once.engine.pipeline"}
