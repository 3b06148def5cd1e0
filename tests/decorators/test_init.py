"""In Lambda the client is made when the handler is imported, elsewhere at first use. Nothing is sent."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from lambda_once import MemoryStore, Once
from lambda_once.decorators.runtime import Start, start_of
from lambda_once.errors import Misconfigured
from lambda_once.testing import lambda_context

LAMBDA = {"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand"}
SNAPSHOT = LAMBDA | {"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}

STARTS: dict[str, tuple[dict[str, str], set[str], Start]] = {
    "Lambda": (LAMBDA, set(), Start.INIT),
    "provisioned": (
        LAMBDA | {"AWS_LAMBDA_INITIALIZATION_TYPE": "provisioned-concurrency"},
        set(),
        Start.INIT,
    ),
    "SnapStart": (SNAPSHOT, set(), Start.SNAPSHOT),
    "a laptop": ({}, set(), Start.ELSEWHERE),
    "under moto": (LAMBDA, {"moto"}, Start.ELSEWHERE),
    "under pytest": (SNAPSHOT, {"pytest"}, Start.ELSEWHERE),
}


@pytest.mark.parametrize("name", STARTS)
def test_where_it_starts(name: str) -> None:
    """By the environment and the loaded modules alone."""
    environ, modules, start = STARTS[name]
    assert start_of(environ, modules) is start


PROGRAM = """
import gc, os, socket, sys
def connect(*_): raise AssertionError("something was sent")
socket.socket.connect = connect
random = []
urandom = os.urandom
os.urandom = lambda n: random.append(n) or urandom(n)
from lambda_once import Once
before = len(random)
{making}
held = gc.get_objects()
names = {{type(each).__name__ for each in held}}
def parts(each):
    yield from each.values() if isinstance(each, dict) else each if isinstance(each, (list, tuple)) else ()
    yield from getattr(each, "__dict__", {{}}).values()
def secrets():
    secret = "-".join(["a", "secret"])
    return [each for each in held if any(type(part) is str and part == secret for part in parts(each))]
print("client", any(name in names for name in ("DynamoDB", "LeanClient")))
print("store", "lambda_once.stores.transport" in sys.modules)
print("random", len(random) - before)
print("secrets", len(secrets()))
"""


def started(making: str, environ: dict[str, str]) -> dict[str, str]:
    """Run *making* in a process of its own, and return what it holds then."""
    surroundings = {
        name: value
        for name, value in os.environ.items()
        if "proxy" not in name.lower() and not name.endswith("CA_BUNDLE")
    }
    variables = surroundings | {"AWS_SECRET_ACCESS_KEY": "a-secret", "LAMBDA_ONCE_TABLE": "tokens"} | environ
    program = [sys.executable, "-c", PROGRAM.format(making=making)]
    ran = subprocess.run(program, check=True, capture_output=True, text=True, env=variables)
    return dict(line.split(" ", 1) for line in ran.stdout.splitlines())


@pytest.mark.slow
def test_in_lambda_the_client_is_there() -> None:
    """No request is sent for it."""
    found = started("once = Once()", LAMBDA)
    assert (found["client"], found["store"]) == ("True", "True")


LAZY: dict[str, tuple[str, dict[str, str]]] = {
    "elsewhere": ("once = Once()", {}),
    "moto": ("import moto; once = Once()", LAMBDA),
    "disabled": ("once = Once()", LAMBDA | {"LAMBDA_ONCE_DISABLED": "true"}),
    "a store": ("from lambda_once import MemoryStore; once = Once(store=MemoryStore())", LAMBDA),
    "a snapshot": ("once = Once()", SNAPSHOT),
    "a wrong switch": ("once = Once()", LAMBDA | {"LAMBDA_ONCE_DISABLED": "perhaps"}),
    "no table": ("once = Once()", LAMBDA | {"LAMBDA_ONCE_TABLE": ""}),
    "no region": ("once = Once()", LAMBDA | {"AWS_DEFAULT_REGION": ""}),
    "no such client": ("once = Once()", LAMBDA | {"LAMBDA_ONCE_CLIENT": "fast"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAZY)
def test_elsewhere_it_is_not(name: str) -> None:
    """An import never fails: what is wrong is said at first use."""
    assert started(*LAZY[name])["client"] == "False"


@pytest.mark.slow
def test_a_snapshot_holds_no_secret_no_random_id_and_no_client() -> None:
    """Many environments start from it."""
    found = started("once = Once()\nonce.sqs(key='id')(print)", SNAPSHOT)
    assert (found["client"], found["random"], found["secrets"]) == ("False", "0", "0")


@pytest.mark.slow
def test_twin_of_the_snapshot() -> None:
    """What the test above looks for is found where a client is made."""
    found = started(
        "once = Once(); store = once._runtime._new_store(); store.transport.prepare(); os.urandom(1)",
        SNAPSHOT,
    )
    assert (found["client"], found["random"] != "0", found["secrets"] != "0") == ("True", True, True)


def test_after_the_restore_the_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Lambda's runtime hook, where the library for it is installed."""
    hooks: list[Callable[[], None]] = []
    library = ModuleType("snapshot_restore_py")
    library.register_after_restore = hooks.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "snapshot_restore_py", library)
    _in(monkeypatch, SNAPSHOT)
    once = Once(table="tokens")
    store = once._runtime._prepared
    assert store is not None
    assert store.transport._client is None
    (hook,) = hooks
    hook()
    assert store.transport._client is not None
    assert once._runtime._real_store() is store


def test_a_failure_after_the_restore_does_not_break_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda would discard the environment; first use raises it."""
    hooks: list[Callable[[], None]] = []
    library = ModuleType("snapshot_restore_py")
    library.register_after_restore = hooks.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "snapshot_restore_py", library)
    _in(monkeypatch, SNAPSHOT | {"LAMBDA_ONCE_CLIENT": "fast"})
    once = Once(table="tokens")
    (hook,) = hooks
    hook()
    assert once._runtime._prepared is not None


def test_a_failure_is_raised_at_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler's module was imported all the same."""
    _in(monkeypatch, LAMBDA | {"LAMBDA_ONCE_CLIENT": "fast"})
    once = Once(table="tokens")
    handler = once.function(key="id", name="work")(lambda id: id)  # noqa: A006  (the name that the key selects)
    with once.invocation(lambda_context()), pytest.raises(Misconfigured, match="LAMBDA_ONCE_CLIENT=fast"):
        handler(1)


def test_another_table_at_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names the table when the first unit comes."""
    _in(monkeypatch, LAMBDA)
    once = Once(table=None)
    monkeypatch.setenv("LAMBDA_ONCE_TABLE", "tokens")
    assert getattr(once._runtime._real_store(), "table", None) == "tokens"
    gc.collect()


def test_a_store_of_ones_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is prepared beside it."""
    _in(monkeypatch, LAMBDA)
    store = MemoryStore()
    once = Once(store=store)
    assert once._runtime._prepared is None
    assert once._runtime._real_store() is store


def _in(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    """Let this process be an environment of Lambda's, though pytest runs in it."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    seen = {name: module for name, module in sys.modules.items() if name not in ("moto", "pytest")}
    monkeypatch.setattr("lambda_once.decorators.runtime.start_of", lambda env, _modules: start_of(env, seen))
