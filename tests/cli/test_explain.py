"""`lambda-once explain`: over the sample functions and their events."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lambda_once.testing import sqs_event
from lambda_once_tools.cli import explain as command
from lambda_once_tools.cli.app import app
from tests.kit.recorded import FILES
from tests.sources.samples import http

ROOT = Path(__file__).parents[2]
PAYMENTS = "examples.orders.payments:charge"


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is that of the examples; the environment names no function and no table."""
    monkeypatch.chdir(ROOT)
    for name in ("AWS_LAMBDA_FUNCTION_NAME", "POWERTOOLS_SERVICE_NAME", "LAMBDA_ONCE_TABLE"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str, stdin: str | None = None) -> Result:
    """Call the command."""
    return CliRunner().invoke(app, ["explain", *arguments], input=stdin)


def path(file: str) -> str:
    """Return where *file* is, seen from the working directory."""
    return str(FILES[file.removesuffix(".json")].relative_to(ROOT))


def explained(handler: str, *files: str, code: int) -> dict[str, Any]:
    """Return the explanation of sample events, as JSON."""
    ran = run("--handler", handler, *map(path, files), "--output", "json")
    assert ran.exit_code == code, ran.output
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def complaint(*arguments: str, stdin: str | None = None) -> str:
    """The one line that is said of bad input, on standard error, with exit code 2."""
    ran = run(*arguments, stdin=stdin)
    assert (ran.exit_code, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("lambda-once: ")
    return line


def test_one_event() -> None:
    """Everything that makes the token, under the names of the row."""
    (event,) = explained(PAYMENTS, "sqs-payment.json", code=0)["events"]
    (unit,) = event["units"]
    assert event["file"] == "events/sqs-payment.json"
    assert (unit["key"], unit["keyFrom"]) == ("pay_12345", 'key="paymentId"')
    assert json.loads(unit["hashed"])["amount"] == 4990
    assert {name: part["standing"] for name, part in unit["parts"].items()} == {
        "@origin": "compared",
        "@attributes": "compared",
        "content": "compared",
    }
    assert unit["lockToken"] == "service_undefined/examples.orders.payments.charge/pay_12345"
    assert unit["fingerprint"].startswith("1.")


def test_a_redelivery_is_the_same() -> None:
    """One token: the second is a duplicate."""
    (found,) = explained(PAYMENTS, "sqs-payment.json", "sqs-payment-redelivery.json", code=0)["comparisons"]
    assert found == {"verdict": "same", "differences": []}


def test_an_amendment_is_not() -> None:
    """The same token with another payload; the field that differs is shown."""
    (found,) = explained(PAYMENTS, "sqs-payment.json", "sqs-payment-amended.json", code=1)["comparisons"]
    assert found["verdict"] == "same token, other payload"
    assert found["differences"] == [{"name": "amount", "first": "4990", "second": "5990", "counts": True}]


@pytest.mark.parametrize(
    ("handler", "first", "second", "verdict"),
    [
        ("api:create_order", "http-api-order.json", "http-api-order-retry.json", "same"),
        (
            "api:create_order",
            "http-api-order.json",
            "http-api-order-same-key-other-body.json",
            "same token, other payload",
        ),
        ("api:pay_order", "http-api-pay-5.json", "http-api-pay-5-retry.json", "same"),
        ("api:pay_order", "http-api-pay-5.json", "http-api-pay-6.json", "not the same"),
        ("invoices:issue", "eventbridge-order-paid.json", "eventbridge-order-paid-resent.json", "same"),
        ("notifications:notify", "sns-notice.json", "sns-notice-republished.json", "same"),
        ("fulfilment:ship", "sqs-order.json", "sqs-order-redelivery.json", "same"),
    ],
)
def test_the_sample_functions(handler: str, first: str, second: str, verdict: str) -> None:
    """Each face of the sample application can be explained, a route by its function."""
    found = explained(f"examples.orders.{handler}", first, second, code=0 if verdict == "same" else 1)
    assert [each["verdict"] for each in found["comparisons"]] == [verdict]


def test_what_would_be_refused() -> None:
    """A unit without a key says what would be raised; the exit code says that all is not well."""
    found = explained("examples.orders.api:pay_order", "http-api-pay-without-key.json", code=1)
    (unit,) = found["events"][0]["units"]
    assert unit["problem"].startswith("KeyMissing: ")
    assert unit["lockToken"] is None


def test_a_batch_with_a_bad_record() -> None:
    """The good records are explained beside the bad one."""
    found = explained("examples.orders.fulfilment:ship", "sqs-batch-malformed.json", code=1)
    units = found["events"][0]["units"]
    assert any(unit["problem"] for unit in units)
    assert any(unit["lockToken"] for unit in units)


def test_a_person_reads_it() -> None:
    """As a table: a heading for each event, one line for each fact, and the verdict at the end."""
    ran = run("--handler", PAYMENTS, "events/sqs-payment.json", "events/sqs-payment-amended.json")
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert lines[0] == "events/sqs-payment.json"
    assert "source Amazon SQS, standard queue, handled by once.sqs" in lines
    assert 'key "pay_12345", by key="paymentId"' in lines
    assert "origin 123456789012/orders-payments; compared" in lines
    assert "content compared" in lines
    assert lines[-3:] == [
        "verdict",
        "the same token, another payload: the second would raise KeyReused",
        "amount 4990 → 5990",
    ]
    assert "--function-name" in ran.stderr


def test_the_token_as_it_is_in_lambda() -> None:
    """Function name and service are given, or taken from the environment, and put back afterwards."""
    named = ("--function-name", "orders-payments", "--service", "orders", "--output", "json")
    ran = run("--handler", PAYMENTS, "events/sqs-payment.json", *named)
    (unit,) = json.loads(ran.stdout)["events"][0]["units"]
    assert unit["lockToken"] == "orders/orders-payments.examples.orders.payments.charge/pay_12345"
    assert ran.stderr == ""
    assert "service_undefined" in run("--handler", PAYMENTS, "events/sqs-payment.json").stdout


INVOICE = (
    'import lambda_once\nonce = lambda_once.Once(store=lambda_once.MemoryStore(), service="shop")\n'
    '@once.event(name="invoice", key="orderId")\ndef issue(event): ...\n'
    '@once.function(name="charge", key="order_id")\ndef charge(order_id): ...\n'
)
"""A module whose functions may serve tenants."""


@pytest.fixture
def invoice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with that module and an event."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tenants_invoice.py").write_text(INVOICE, encoding="utf-8")
    (tmp_path / "event.json").write_text('{"orderId": 5}', encoding="utf-8")
    (tmp_path / "call.json").write_text('{"args": [5]}', encoding="utf-8")
    yield tmp_path
    sys.modules.pop("tenants_invoice", None)


@pytest.mark.parametrize(
    ("function", "file", "token"),
    [("issue", "event.json", "shop/invoice/blue/5"), ("charge", "call.json", "shop/charge/blue/5")],
)
def test_the_tenant_of_the_context_is_explained(invoice: Path, function: str, file: str, token: str) -> None:
    """A line of its own, and the token has it; without --context there is neither."""
    (invoice / "context.json").write_text('{"tenant_id": "blue"}', encoding="utf-8")
    ran = run("--handler", f"tenants_invoice:{function}", file, "--context", "context.json")
    assert ran.exit_code == 0, ran.output
    assert "tenant       blue, by the context; in the token" in ran.stdout
    assert token in ran.stdout
    ran = run("--handler", f"tenants_invoice:{function}", file)
    assert ("tenant" in ran.stdout, token.replace("blue/", "") in ran.stdout) == (False, True)
    both = run(
        "--handler",
        f"tenants_invoice:{function}",
        file,
        file,
        "--context",
        "-",
        "--output",
        "json",
        stdin='{"tenant_id": "blue"}',
    )
    found = json.loads(both.stdout)
    assert [unit["tenant"] for event in found["events"] for unit in event["units"]] == ["blue", "blue"]
    assert found["comparisons"] == [{"verdict": "same", "differences": []}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"tenant": "blue"}',
            "context.json has tenant: it may have only tenant_id, identity, client_context",
        ),
        ('{"b": 1, "a": 1}', "context.json has a, b: it may have only"),
        ('["blue"]', "context.json is not an object: it may have tenant_id"),
        ('{"tenant_id": 5}', "tenant_id in context.json is no text"),
        (
            '{"identity": "eu:1"}',
            "identity in context.json is not an object: it may have cognito_identity_id",
        ),
        (
            '{"identity": {"id": "1"}}',
            "identity in context.json has id: it may have only cognito_identity_id",
        ),
        ('{"client_context": {"custom": 5}}', "custom in client_context in context.json is no object"),
        ("{", "context.json, line 1, column 2: not JSON"),
    ],
)
def test_a_bad_context(invoice: Path, content: str, message: str) -> None:
    """A name that Lambda's context has not, or of which nothing counts, is named."""
    (invoice / "context.json").write_text(content, encoding="utf-8")
    found = complaint("--handler", "tenants_invoice:issue", "event.json", "--context", "context.json")
    assert message in found


@pytest.mark.parametrize("content", ["{}", '{"tenant_id": null, "identity": null}', '{"tenant_id": ""}'])
def test_a_context_without_tenant_changes_nothing(invoice: Path, content: str) -> None:
    """As that of a function without tenant isolation."""
    (invoice / "context.json").write_text(content, encoding="utf-8")
    ran = run("--handler", "tenants_invoice:issue", "event.json", "--context", "context.json")
    assert (ran.exit_code, "shop/invoice/5" in ran.stdout) == (0, True)


def test_a_callable_gets_the_context(invoice: Path) -> None:
    """As from Lambda: a key, a scope and a caller that ask for it, of an event, a record and a request."""
    (invoice / "tenants_invoice.py").write_text(
        "import lambda_once\nfrom lambda_once.testing import sqs_event\n"
        'once = lambda_once.Once(store=lambda_once.MemoryStore(), service="shop")\n'
        "def run(given, context): return context.client_context.custom['run']\n"
        '@once.event(name="job", key=run, scope=run, caller=run)\ndef job(event): ...\n'
        '@once.sqs(name="queued", key=run)\ndef queued(record): ...\n'
        '@once.api_gateway(name="asked", key=run, scope=run, caller=run)\ndef asked(event): ...\n',
        encoding="utf-8",
    )
    files = {"event.json": {"a": 1}, "batch.json": sqs_event("a"), "request.json": http()}
    for name, event in files.items():
        (invoice / name).write_text(json.dumps(event), encoding="utf-8")
    (invoice / "context.json").write_text('{"client_context": {"custom": {"run": "7"}}}', encoding="utf-8")
    for function, file in zip(("job", "queued", "asked"), files, strict=True):
        ran = run("--handler", f"tenants_invoice:{function}", file, "--context", "context.json")
        assert ran.exit_code == 0, ran.output
        assert "the callable run" in ran.stdout
        assert '"7", by key=' in ran.stdout
    ran = run("--handler", "tenants_invoice:queued", "batch.json")
    assert (ran.exit_code, "run of key= raised AttributeError" in ran.stdout) == (1, True)


def test_long_texts_are_cut(tmp_path: Path) -> None:
    """What is hashed is shown to 2 KB, and whole with --full."""
    event = json.loads((ROOT / "events/sqs-payment.json").read_text())
    event["Records"][0]["body"] = json.dumps({"paymentId": "p", "note": "n" * 5000})
    (tmp_path / "long.json").write_text(json.dumps(event))
    arguments = ("--handler", PAYMENTS, str(tmp_path / "long.json"), "--output", "jsonl")
    cut, full = (json.loads(run(*arguments, *more).stdout) for more in ((), ("--full",)))
    assert "--full shows all" in cut["events"][0]["units"][0]["hashed"]
    assert len(cut["events"][0]["units"][0]["hashed"]) < 2200
    assert len(full["events"][0]["units"][0]["hashed"]) > 5000


def test_standard_input() -> None:
    """- is standard input; a byte order mark is no matter."""
    text = (ROOT / "events/sqs-payment.json").read_text()
    ran = run("--handler", PAYMENTS, "-", stdin="\ufeff" + text)
    assert ran.exit_code == 0
    assert "pay_12345" in ran.stdout


def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> None:
    """Write a module to a working directory of its own; it is forgotten again after the test."""
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})


SHOP = """
from lambda_once import Once
from aws_lambda_powertools.event_handler.api_gateway import Router

once = Once(service="shop")
router = Router()

@once.function(key="order", name="charge")
def charge(order, amount=0): ...

class Till:
    @once.function(key="order", name="ring")
    def ring(self, order): ...

@router.post("/orders", middlewares=[once.route(name="create")])
def create(): ...

def protection(name):
    return [once.route(name=name)]

protect = once.route(name="shared")
several = [protect]

@router.post("/orders/made",
    middlewares=protection(
        name="made",
    ),
)
def made(): ...

@router.post("/orders/shared", middlewares=[protect])
def shared(): ...

@router.put("/orders/listed", middlewares=several)
@router.post("/orders/listed", middlewares=several)
def listed(): ...

@router.post("/orders/later", middlewares=[once.route(name="later", async_resolver=True)])
async def later(): ...

@router.get("/orders")
def look(): ...

def bare(event, context): ...
"""


@pytest.mark.parametrize(("path", "token"), [("charge", "shop/charge/o-1"), ("Till.ring", "shop/ring/o-1")])
def test_a_function_is_given_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, token: str
) -> None:
    """The working directory is searched; a method is found in its class."""
    _module(tmp_path, monkeypatch, "explained_shop", SHOP)
    ran = run("--handler", f"explained_shop:{path}", "-", stdin='{"args": ["o-1"]}')
    assert ran.exit_code == 0
    assert token in ran.stdout


@pytest.mark.parametrize(
    ("function", "name"),
    [
        *(
            ("create", "create"),
            ("made", "made"),
            ("shared", "shared"),
            ("listed", "shared"),
            ("later", "later"),
        ),
        ("protect", "shared"),
    ],
)
def test_a_route_of_a_router(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, name: str
) -> None:
    """By its function, for the middleware in its decorator, made there or elsewhere; or by the middleware."""
    _module(tmp_path, monkeypatch, "explained_routes", SHOP)
    event = (ROOT / "events/http-api-order.json").read_text()
    ran = run("--handler", f"explained_routes:{function}", "-", stdin=event)
    assert ran.exit_code == 0
    assert f"shop/{name}/POST:%2Forders/8e03978e" in ran.stdout


def test_routes_that_powertools_does_not_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A route is found by its middleware alone, which is named."""
    _module(tmp_path, monkeypatch, "explained_unlisted", SHOP)
    monkeypatch.setattr(command, "routes_of", lambda _: ())
    event = (ROOT / "events/http-api-order.json").read_text()
    ran = run("--handler", "explained_unlisted:shared", "-", stdin=event)
    assert ran.exit_code == 2
    assert "protected are charge, protect" in ran.stderr
    assert "shop/shared/POST" in run("--handler", "explained_unlisted:protect", "-", stdin=event).stdout


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("charge", "'charge' is not the address of a function"),
        ("explained_bad:", "is not the address of a function"),
        ("explained_bad:nothing", "protected are charge, create, protect, made, shared, listed, later"),
        ("explained_bad:bare", "explained_bad:bare is not protected by lambda-once itself"),
        ("explained_bad:look", "explained_bad:look is not protected by lambda-once itself"),
        ("not_there.at_all:charge", "no module not_there.at_all in"),
    ],
)
def test_a_bad_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, message: str) -> None:
    """What is wrong with it, and which functions there are."""
    _module(tmp_path, monkeypatch, "explained_bad", SHOP)
    assert message in complaint("--handler", address, str(ROOT / "events/sqs-payment.json"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import os\nos.environ['NO_SUCH_TABLE']", "cannot be imported here: KeyError: 'NO_SUCH_TABLE'"),
        ("import no_such_library", "needs no_such_library, which is not installed here"),
        ("def broken(:", "cannot be imported here: SyntaxError"),
        ("x = 1", "nothing in that module is protected"),
    ],
)
def test_a_bad_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str) -> None:
    """A module that cannot be imported says why, without a traceback."""
    _module(tmp_path, monkeypatch, "explained_broken", source)
    assert message in complaint("--handler", "explained_broken:charge", str(ROOT / "events/sqs-payment.json"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"Records": [\n  {"body": }\n]}', "line 2, column 12: not JSON"),
        (b"", "line 1, column 1: not JSON"),
        (b"\xff\xfe", "is not UTF-8, at byte 0"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_file(tmp_path: Path, content: bytes, message: str) -> None:
    """What is wrong, and where: line and column; never the content."""
    file = tmp_path / "event.json"
    file.write_bytes(content)
    line = complaint("--handler", PAYMENTS, str(file))
    assert message in line
    assert str(file) in line


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """One line, with its name; a folder is none either."""
    assert "no.json cannot be read" in complaint("--handler", PAYMENTS, str(tmp_path / "no.json"))
    assert "cannot be read" in complaint("--handler", PAYMENTS, str(tmp_path))


@pytest.mark.parametrize(
    ("handler", "file", "message"),
    [
        (PAYMENTS, "http-api-order.json", "Use once.api_gateway"),
        (PAYMENTS, "direct.json", "once.sqs received"),
        ("examples.orders.api:create_order", "sqs-payment.json", "Use once.sqs"),
        ("examples.orders.invoices:issue", "sns-notice.json", "Use once.sns"),
    ],
)
def test_an_event_of_another_source(handler: str, file: str, message: str) -> None:
    """Which decorator it is for, in one line."""
    assert message in complaint("--handler", handler, path(file))
