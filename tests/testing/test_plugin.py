from __future__ import annotations

import subprocess
import sys

import pytest

from lambda_once import MemoryStore, Once
from lambda_once.decorators.runtime import Runtime
from lambda_once.testing import FakeClock, lambda_context, using
from lambda_once.testing.stores import overridden

pytest_plugins = ["pytester"]

CONFTEST = 'pytest_plugins = ["lambda_once.testing.plugin"]\n'
SHOP = """
from lambda_once import Once, MemoryStore

once = Once(table="a-table-that-there-is-not", service="shop")
own = Once(store=MemoryStore(), service="own")
charged = []


@once.sqs(key="orderId", name="charge")
def charge(record):
    charged.append(record.json_body["orderId"])


@own.function(key="what", name="do")
def do(what):
    return what
"""


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes started here load the plugin that they name: the others take half of their time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, **files: str) -> pytest.RunResult:
    """Run pytest in a process of its own, where every warning is an error."""
    pytester.makeconftest(files.pop("conftest", CONFTEST))
    pytester.makepyfile(**files)
    return pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider")


def test_the_fixtures_stand_in_for_the_world(pytester: pytest.Pytester) -> None:
    """A module-level Once, one of the test's own, names and contexts; nothing leaks into the next test."""
    tests = """
    from datetime import timedelta

    from aws_lambda_powertools.utilities.typing import LambdaContext

    import shop
    from lambda_once import Once
    from lambda_once.testing import assert_completed, assert_no_token, assert_ran_once, sqs_event

    kept = []


    def made(target):
        kept.append(shop.once.event(name="deliver")(lambda event: target))


    def test_first(once_store, fake_clock, lambda_context):
        made("mail")
        event = sqs_event({"orderId": 5}, {"orderId": 6})
        began = fake_clock.now()
        for _ in range(2):
            assert shop.charge(event, lambda_context()) == {"batchItemFailures": []}
        assert shop.charged == [5, 6]
        assert_ran_once(once_store, 5)
        assert assert_completed(shop.once, 5).created == began
        assert Once(service="made here").run("n", "k", lambda: 7) == 7
        assert_completed(once_store, "k", result=7)


    def test_next(once_store, fake_clock, lambda_context):
        assert_no_token(once_store)
        made("erp")
        shop.charge(sqs_event({"orderId": 5}), lambda_context)
        assert shop.charged == [5, 6, 5]
        fake_clock.advance(14 * 24 * 3600)
        shop.charge(sqs_event({"orderId": 5}), lambda_context)
        assert shop.charged == [5, 6, 5, 5]


    def test_a_store_of_its_own_stays(once_store, fake_clock):
        assert shop.do("k") == "k"
        assert_no_token(once_store)
        assert assert_completed(shop.own, "k").created == fake_clock.now()


    def test_contexts(lambda_context):
        assert isinstance(lambda_context, LambdaContext)
        assert lambda_context.aws_request_id != lambda_context().aws_request_id
        assert lambda_context(request_id="r", remaining_ms=5).get_remaining_time_in_millis() == 5
        assert lambda_context("charge", "r-1").function_name == "charge"


    def test_blue(once_store, lambda_context):
        shop.charge(sqs_event({"orderId": 5}), lambda_context(tenant_id="blue"))
        assert [*once_store.acquisitions] == ["shop/charge/blue/5"]


    def test_green(once_store, lambda_context):
        shop.charge(sqs_event({"orderId": 5}), lambda_context(tenant_id="green"))
        assert [*once_store.acquisitions] == ["shop/charge/green/5"]
    """
    run(pytester, shop=SHOP, test_shop=tests).assert_outcomes(passed=6)


def test_without_the_fixtures_nothing_is_replaced(pytester: pytest.Pytester) -> None:
    """A test that asks for none works on the table that the module names."""
    tests = """
    import pytest
    import shop
    from lambda_once import Misconfigured, Once


    def test_before(once_store):
        assert shop.once._runtime.engine.store is once_store


    def test_after():
        assert shop.once._runtime.engine.store.table == "a-table-that-there-is-not"
        with pytest.raises(Misconfigured, match="no token table"):
            Once().run("n", "k", lambda: 5)
    """
    run(pytester, shop=SHOP, test_shop=tests).assert_outcomes(passed=2)


def test_a_failed_assertion_shows_the_story_and_not_its_insides(pytester: pytest.Pytester) -> None:
    """The report ends in the test's own line, with the token's story under it."""
    tests = """
    import shop
    from lambda_once.testing import assert_held, sqs_event


    def test_it(once_store, fake_clock, lambda_context):
        shop.charge(sqs_event({"orderId": "5"}), lambda_context)
        assert_held(once_store, "5")
    """
    result = run(pytester, shop=SHOP, test_shop=tests)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       assert_held(once_store, ?5?)",
            "E       AssertionError: it is not held",
            "E       token shop/charge/5 is complete",
            "E         2026-11-20T10:12:00.000Z  acquired by orders/*lease until 2026-11-20T10:12:32.000Z",
            "E         2026-11-20T10:12:00.000Z  completed, by attempt *",
            "test_shop.py:*: AssertionError",
        ]
    )
    result.stdout.no_fnmatch_line("*assertions.py*")


def test_a_conftest_further_down_imports_the_fixtures(pytester: pytest.Pytester) -> None:
    """As the sample's does."""
    conftest = "from lambda_once.testing.plugin import fake_clock, lambda_context, once_store\n"
    tests = "def test_it(once_store, fake_clock, lambda_context):\n    assert once_store.records == {}\n"
    run(pytester, conftest=conftest, test_it=tests).assert_outcomes(passed=1)


def test_the_package_is_no_plugin_by_itself() -> None:
    """No entry point loads it into runs that did not ask, and the kit needs no pytest."""
    program = (
        "import sys, lambda_once.testing\n"
        "from importlib.metadata import distribution\n"
        "assert not [e for e in distribution('lambda-once').entry_points if e.group == 'pytest11']\n"
        "assert not {'pytest', 'boto3', 'pydantic', 'lambda_once.stores.store'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_stages_are_laid_over_each_other() -> None:
    """Store and clock in any order; what a Once was given for itself wins; each goes with its block."""
    theirs, mine, clock, other = MemoryStore(), MemoryStore(), FakeClock(), FakeClock()
    once = Once(service="shop")
    with overridden(store=theirs), overridden(clock=clock):
        once.run("n", "1", lambda: None)
        with using(once, mine, other):
            other.advance(60)
            once.run("n", "2", lambda: None)
        once.run("n", "3", lambda: None)
    assert [row.created for row in theirs.records.values()] == [clock.now()] * 2
    assert [row.created for row in mine.records.values()] == [other.now()]
    assert Runtime.overrides is None


def test_what_an_environment_remembers_ends_with_its_stage() -> None:
    """An outcome of one test is no duplicate of the next, cache or not."""
    once, ran = Once(service="shop", cache=10), list[str]()

    @once.event(key="id")
    def handler(event: dict[str, str]) -> None:
        ran.append(event["id"])

    for _ in range(2):
        with overridden(store=MemoryStore()):
            handler({"id": "k"}, lambda_context())
            handler({"id": "k"}, lambda_context())
    assert ran == ["k", "k"]
