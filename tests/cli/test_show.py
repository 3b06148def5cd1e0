from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import Result

from lambda_once.core.clock import Deadline
from lambda_once.core.codec import JSON
from lambda_once.core.keys import token as token_of
from lambda_once.core.lifecycle import Failure
from lambda_once.core.results import Seal, Unavailable, pack
from lambda_once.core.writes import Complete, Hold, Release
from lambda_once.stores.requests import part_keys
from lambda_once.stores.transport import TokenTransport
from lambda_once_tools.cli import options
from tests.cli.shop import REQUEST, TIMED_OUT, Shop, complaint, open_shop
from tests.kit import tables

__all__ = ["open_shop"]

TOKEN = "orders/charge/order_12345"
LARGE = '"' + "".join(hex(n * n * n) for n in range(120_000)) + '"'


def _shown(shop: Shop, *args: str, code: int = 0) -> Any:
    ran = shop.run("show", "--output", "json", *args)
    assert ran.exit_code == code, ran.output
    return json.loads(ran.stdout)


def test_show_complete(shop: Shop) -> None:
    """Who had it, for which delivery, when it was done, until when it is replayed; never the result."""
    shop.complete(TOKEN, '{"secret": 5}', delivery="message-1")
    ran = shop.run("show", TOKEN)
    assert ran.exit_code == 0
    head, outlook, _, *rest = _lines(ran)
    assert (head, outlook) == (f"complete {TOKEN}", "done: a duplicate gets the stored result")
    assert rest[:3] == [
        f"10:12:00 acquired by payments/{REQUEST}: attempt a1, fence {_fence(shop)}, for delivery message-1",
        "10:12:01 complete after 1 s; its result is JSON of 13 bytes in the row",
        "2026-12-04 10:12:01 replayed until then",
    ]
    assert "secret" not in ran.output
    assert ran.stderr == ""


def test_a_sealed_token_shows_no_content(shop: Shop) -> None:
    """Only a function with the key can open it: the command has none."""
    seal = Seal(lambda data, _: data, lambda sealed, _: sealed, TOKEN)
    shop.begin(TOKEN)
    shop.end(TOKEN, Complete(pack('{"secret": 5}', seal)))
    assert _shown(shop, TOKEN)["result"]["kind"] == "sealed"
    assert "its result is sealed in 60 bytes in the row" in shop.run("show", TOKEN).stdout
    ran = shop.run("show", TOKEN, "--result")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == "no result: it is sealed: only a function with its seal= can open it\n"


def test_what_a_decision_gave_is_named(shop: Shop) -> None:
    """`seal_required=True` does not refuse it, though nobody sealed it; each decision has its line, too."""
    given = "given or accepted by a decision"
    shop.hold(TOKEN)
    shop.run("resolve", TOKEN, "--done", "--by", "ann", "--because", "seen at the bank", "--yes")
    shown = shop.run("show", TOKEN).stdout
    assert f"complete; its result is null, {given}" in shown
    assert "ann (identity unverified) resolved it as done" in shown
    shop.run("resolve", TOKEN, "--failed", "--force", "--by", "ann", "--because", "no", "--yes")
    ran = shop.run("resolve", TOKEN, "--keep", "9d", "--by", "ann", "--because", "later", "--dry-run")
    assert f"the error Failed, {given}" in ran.output
    shop.complete("orders/charge/6", '"paid"')
    assert given not in shop.run("show", "orders/charge/6").stdout


def test_what_a_decision_kept_sealed_is_not_named(shop: Shop) -> None:
    """A seal is opened, and needs no decision."""
    seal = Seal(lambda data, _: data, lambda sealed, _: sealed, TOKEN)
    shop.begin(TOKEN)
    shop.end(TOKEN, Complete(pack("5", seal)))
    shop.run("resolve", TOKEN, "--done", "--force", "--by", "ann", "--because", "kept", "--yes")
    shown = shop.run("show", TOKEN).stdout
    assert "ann (identity unverified) resolved it as done" in shown
    assert "given or accepted" not in shown


def test_a_sealed_error_shows_its_kind(shop: Shop) -> None:
    """The message is not printed, in no form."""
    seal = Seal(lambda data, _: data, lambda sealed, _: sealed, TOKEN)
    shop.begin(TOKEN, mortal=False)
    shop.end(TOKEN, Hold(Failure.of(ValueError("secret"), seal)))
    ran = shop.run("show", TOKEN)
    assert "held for manual review: ValueError: (sealed)" in ran.stdout
    assert "secret" not in ran.output + str(_shown(shop, TOKEN, code=1))


def _lines(ran: Result) -> list[str]:
    """Return the lines of a table, without the blanks between its columns."""
    return [" ".join(line.split()) for line in ran.stdout.splitlines()]


def _fence(shop: Shop) -> int:
    return int(_shown(shop, TOKEN)["fence"])


def test_the_queries_name_the_request_and_the_token(shop: Shop) -> None:
    """As they are pasted into CloudWatch Logs Insights: whole, on one line each."""
    shop.complete(TOKEN)
    logs = _shown(shop, TOKEN)["logs"]
    assert (logs["request"]["function"], logs["request"]["logGroup"]) == ("payments", None)
    assert "Logs Insights on the log group of payments" in shop.run("show", TOKEN).stdout
    shown = shop.run("show", TOKEN, LAMBDA_ONCE_LOG_GROUP="orders-Logs-1X").stdout
    assert shown.count("Logs Insights on orders-Logs-1X") == 2
    assert f'filter @message like "{REQUEST}"' in logs["request"]["query"]
    assert f'filter token = "{TOKEN}"' in logs["token"]["query"]
    printed = [line.strip() for line in shop.run("show", TOKEN).stdout.splitlines()]
    assert {query["query"] for query in logs.values()} <= set(printed)


def test_show_overdue(shop: Shop) -> None:
    """Exit code 1; whether the next delivery runs depends on the row's ttl; the attempt is pinned."""
    shop.begin(TOKEN)
    shop.clock.advance(7_230)
    ran = shop.run("show", TOKEN)
    assert ran.exit_code == 1
    assert "overdue by 2 h; whether the work was done is unknown: the next delivery runs" in ran.stdout
    assert "10:12:30 lease expired, no outcome written" in _lines(ran)
    assert ran.stderr.splitlines() == [
        f"next: lambda-once resolve {TOKEN} --attempt a1 --done --because '…'",
        f"next: lambda-once resolve {TOKEN} --attempt a1 --not-done --because '…'",
    ]
    shop.begin("orders/charge/immortal", mortal=False)
    shop.clock.advance(60)
    assert "refused (Held), or calls the probe" in shop.run("show", "orders/charge/immortal").stdout


def test_show_held(shop: Shop) -> None:
    """The kind and the message of the error."""
    shop.hold(TOKEN)
    ran = shop.run("show", TOKEN)
    assert ran.exit_code == 1
    assert "held for manual review: PaymentTimeout: the bank did not answer" in ran.stdout
    shown = _shown(shop, TOKEN, code=1)
    assert shown["error"] == {"kind": "PaymentTimeout", "message": "the bank did not answer"}
    assert shown["status"] == "held"


def test_show_in_progress_and_released(shop: Shop) -> None:
    """Both are as they should be."""
    shop.begin(TOKEN)
    assert "in progress, 30 s left of its lease" in shop.run("show", TOKEN).stdout
    shop.release("orders/charge/back")
    ran = shop.run("show", "orders/charge/back")
    assert ran.exit_code == 0
    assert "released: ValueError: no such order" in ran.stdout
    assert "the next delivery runs" in ran.stdout


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (Complete(pack("5")), "resolved it as done"),
        (Release(), "released it as not done"),
        (Hold(TIMED_OUT), "decided to hold it"),
    ],
)
def test_a_decision_is_part_of_the_story(shop: Shop, change: Any, how: str) -> None:
    """By whom, when, and why; the attempt that had it is not confused with the decision."""
    shop.hold(TOKEN)
    shop.clock.advance(600)
    shop.decide(TOKEN, change)
    ran = shop.run("show", TOKEN)
    assert f"10:22:01 ann (identity unverified) {how} (it was held): seen at the bank" in _lines(ran)
    assert "attempt resolved" not in ran.stdout
    (decision,) = _shown(shop, TOKEN, code=ran.exit_code)["decisions"]
    assert decision.pop("decision") in ("done", "not-done", "hold")
    assert decision == {
        "kind": "person",
        "by": "ann",
        "caller": None,
        "because": "seen at the bank",
        "at": "2026-11-20T10:22:01.000Z",
        "before": "held",
        "attempt": "decided",
        "times": 1,
        "stands": True,
    }


def test_a_decision_on_an_earlier_attempt_stays_in_the_story(shop: Shop) -> None:
    """But decides nothing any more."""
    shop.hold(TOKEN)
    shop.decide(TOKEN, Release())
    shop.clock.advance(60)
    shop.complete(TOKEN, "5", attempt="a2")
    ran = shop.run("show", TOKEN)
    assert "ann (identity unverified) released it" in ran.stdout
    assert "attempt a2" in ran.stdout


def test_parts_of_a_large_result_are_counted(shop: Shop) -> None:
    """All there: well; one missing: a warning, and exit code 1."""
    shop.complete(TOKEN, LARGE)
    shown = _shown(shop, TOKEN)["result"]
    parts = shown["parts"]
    assert shown == {"kind": "parts", "parts": parts, "there": parts}
    assert parts > 1
    assert f"{parts} of {parts} parts present" in shop.run("show", TOKEN).stdout
    record = shop.store.read(TOKEN, Deadline(shop.clock, shop.clock.now() + timedelta(seconds=20)))
    assert record is not None
    shop.client.delete_item(TableName=shop.name, Key=part_keys(record, parts)[1])
    ran = shop.run("show", TOKEN)
    assert ran.exit_code == 1
    assert f"{parts - 1} of {parts} parts present" in ran.stdout
    assert "WARNING: parts of its result are missing" in ran.stderr
    missing = shop.run("show", TOKEN, "--result")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr == "no result: parts of it are missing\n"


@pytest.mark.parametrize("text", ["0", "null", '""', "[]", '{"a":"' + "x" * 500 + '"}', LARGE])
def test_the_result_is_printed_when_it_is_asked_for(shop: Shop, text: str) -> None:
    """As the JSON that is stored, and nothing else: it can go to a file."""
    shop.complete(TOKEN, text)
    ran = shop.run("show", TOKEN, "--result")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, f"{text}\n", "")


def test_the_digits_of_a_decimal_are_printed(shop: Shop) -> None:
    """As a JSON number, however it is stored."""
    shop.complete(TOKEN, JSON.dump({"total": Decimal("4.50")}))
    assert shop.run("show", TOKEN, "--result").stdout == '{"total":4.50}\n'


@pytest.mark.parametrize("attribute", ["result", "parts", "caller", "write", "fence"])
@pytest.mark.parametrize("options", [(), ("--result",)])
def test_a_malformed_row_is_one_line(shop: Shop, attribute: str, options: tuple[str, ...]) -> None:
    """The token and the attribute are named; no traceback, and nothing of the row is printed."""
    shop.complete(TOKEN, "5")
    shop.client.update_item(
        TableName=shop.name,
        Key={"lockToken": {"S": TOKEN}},
        UpdateExpression="SET #attribute = :wrong REMOVE #result",
        ExpressionAttributeNames={
            "#attribute": attribute,
            "#result": "x" if attribute == "result" else "result",
        },
        ExpressionAttributeValues={":wrong": {"BOOL": True}},
    )
    message = complaint(shop.run("show", TOKEN, *options))
    assert message.startswith(
        f"lambda-once: the row of token {TOKEN} was not written by lambda-once: {attribute} is"
    )


def test_where_there_is_no_result(shop: Shop) -> None:
    """Each reason is said, with exit code 1."""
    shop.hold("orders/charge/held")
    shop.begin("orders/charge/declined")
    shop.end("orders/charge/declined", Complete(None, TIMED_OUT))
    shop.begin("orders/charge/lost")
    shop.end("orders/charge/lost", Complete(Unavailable.UNAVAILABLE))
    shop.begin("orders/charge/busy")
    shop.begin("orders/charge/private")
    shop.end("orders/charge/private", Complete(Unavailable.WITHHELD))
    for key, why in {
        "held": "it is held",
        "private": "it was not stored: it sets a cookie or says no-store, and no user is named",
        "busy": "it is in progress",
        "declined": "an error is stored",
        "lost": "it could not be stored when the work was done",
    }.items():
        ran = shop.run("show", f"orders/charge/{key}", "--result")
        assert (ran.exit_code, ran.stdout, ran.stderr) == (1, "", f"no result: {why}\n")
    assert shop.run("show", "orders/charge/lost").exit_code == 1
    assert (
        "failed for good: a duplicate gets the stored error"
        in shop.run("show", "orders/charge/declined").stdout
    )


def test_a_key_of_a_function(shop: Shop) -> None:
    """By service, name and scope, with the service of Powertools' variable; numbers and long keys too."""
    long = "x" * 300
    for scope, key in (("acme", "a b/c"), (None, long), (None, 12345)):
        shop.complete(token_of("orders", "charge", scope, key))
    shown = _shown(shop, "--service", "orders", "--name", "charge", "--scope", "acme", "a b/c")
    assert shown["lockToken"] == "orders/charge/acme/a%20b%2Fc"
    ran = shop.run("show", "--name", "charge", long, POWERTOOLS_SERVICE_NAME="orders")
    assert ran.exit_code == 0
    ran = shop.run("show", "--name", "charge", "12345", POWERTOOLS_SERVICE_NAME="orders")
    assert ran.exit_code == 0


FORMS = {"text": "12345", "number": 12345, "JSON": [1, "a"], "with slashes": "order/create/6"}


@pytest.mark.parametrize("key", FORMS.values(), ids=FORMS.keys())
def test_a_finished_order_is_shown_by_its_key_alone(shop: Shop, key: object) -> None:
    """Nothing but the table is named: all of it is read, which is said, with what it costs."""
    shop.complete(token_of("orders", "charge", "acme", key), '{"secret":5}')
    shop.complete("orders/charge/acme/123456")
    typed = key if isinstance(key, str) else json.dumps(key)
    ran = shop.run("show", typed)
    assert ran.exit_code == 0
    assert "done: a duplicate gets the stored result" in ran.stdout
    before, after = ran.stderr.splitlines()
    assert before.startswith("reading the whole table: about 2 rows, ")
    assert after.startswith("read 8 pages for ")
    assert shop.run("show", typed, "--result").stdout == '{"secret":5}\n'


def test_a_whole_number_is_found_by_key_and_by_name(shop: Shop) -> None:
    """A whole number is readable in its token."""
    token = "orders/charge/12345"
    shop.complete(token)
    assert _shown(shop, "12345")["lockToken"] == token
    assert _shown(shop, "12345", "--names", "orders/charge")["lockToken"] == token
    assert _shown(shop, "--service", "orders", "--name", "charge", "12345")["lockToken"] == token


def _requests(shop: Shop) -> list[str]:
    sent: list[str] = []
    shop.client = tables.client(shop._endpoint)  # its own, so that no other requests are noted
    shop.client.meta.events.register("before-call.dynamodb", lambda model, **_: sent.append(model.name))
    return sent


def test_given_names_spare_the_scan(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one of --names has the key, the table is not read; where it was not looked is printed."""
    monkeypatch.setattr(options, "client_for", lambda *_: shop.client)
    shop.complete("orders/charge/12345")
    shop.begin("orders/ship/acme/778")
    sent = _requests(shop)
    ran = shop.run("show", "12345", LAMBDA_ONCE_NAMES="orders/refund, orders/charge")
    assert ran.exit_code == 0
    assert "orders/charge/12345" in ran.stdout
    assert ran.stderr == (
        "WARNING: only looked under orders/refund, orders/charge, orders/ship/acme; "
        "--scan searches all functions\n"
    )
    assert "Scan" not in sent
    shop.run("show", "12345")
    assert "Scan" in sent


@pytest.mark.parametrize("given", [[], ["--names", "orders/charge", "--scan"]])
def test_a_key_of_two_functions_is_found_twice(shop: Shop, given: list[str]) -> None:
    """One of them is known by other work that is unfinished; the other has only finished work."""
    shop.complete("orders/charge/12345")
    shop.complete("orders/ship/12345")
    shop.begin("orders/ship/1")
    ran = shop.run("show", "12345", "--output", "jsonl", *given)
    assert ran.exit_code == 2
    assert {json.loads(line)["lockToken"] for line in ran.stdout.splitlines()} == {
        "orders/charge/12345",
        "orders/ship/12345",
    }


def test_what_was_not_searched_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the table is too large, or may not be scanned: the row that is known is shown."""
    shop.complete("orders/charge/12345")
    shop.complete("orders/ship/12345")
    for n in range(8):
        shop.begin(f"orders/ship/{'abcdefgh'[n]}/1")
    shop.begin("orders/ship/1")
    _large(shop, monkeypatch)
    ran = shop.run("show", "12345")
    assert ran.exit_code == 0
    assert "orders/ship/12345" in ran.stdout
    (warning,) = ran.stderr.splitlines()
    assert warning.startswith("WARNING: only looked under orders/ship")
    assert " and 4 more: the table has about 9,000,000 rows" in warning
    assert warning.endswith("--scan searches all functions")
    assert shop.run("show", "12345", "--scan").exit_code == 2


def test_who_may_not_scan_is_shown_what_is_known(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was left out; where nothing is known, the denial is the answer."""
    shop.complete("orders/charge/12345")
    shop.complete("orders/ship/12345")
    shop.begin("orders/ship/1")
    call = TokenTransport.call

    def denied(self: TokenTransport, operation: str, *rest: object) -> Any:
        if operation == "scan":
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Scan")
        return call(self, operation, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(TokenTransport, "call", denied)
    ran = shop.run("show", "12345")
    assert (ran.exit_code, "orders/ship/12345" in ran.stdout) == (0, True)
    assert "only looked under orders/ship: dynamodb:Scan is denied" in ran.stderr
    assert shop.run("show", "777").exit_code == 2


def test_names_that_begin_no_token_are_bad_input(shop: Shop) -> None:
    """Said in one line."""
    for names in ("charge", "orders/charge/blue/acme/5", "orders/", "a#b/c"):
        assert "use service/name, separated by commas" in complaint(shop.run("show", "5", "--names", names))


def test_a_bare_key_of_something_unfinished_is_shown(shop: Shop) -> None:
    """One that is held or in progress."""
    shop.hold("orders/charge/12345")
    shop.begin("orders/charge/123456")
    assert _shown(shop, "12345", code=1)["lockToken"] == "orders/charge/12345"


@pytest.mark.parametrize("finished", [False, True])
def test_an_ambiguous_key_lists_the_candidates(shop: Shop, finished: bool) -> None:
    """Each with its state; exit code 2; a result cannot be asked for."""
    begin = shop.complete if finished else shop.begin
    begin("orders/charge/12345")
    begin("orders/refund/acme/12345")
    ran = shop.run("show", "12345", "--output", "json")
    assert ran.exit_code == 2
    assert sorted(row["lockToken"] for row in json.loads(ran.stdout)) == [
        "orders/charge/12345",
        "orders/refund/acme/12345",
    ]
    assert {row["status"] for row in json.loads(ran.stdout)} == {"complete" if finished else "inProgress"}
    assert "2 tokens have the key 12345; next: lambda-once show TOKEN" in ran.stderr
    refused = shop.run("show", "12345", "--result")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "2 tokens have the key 12345, pass one of them: " in refused.stderr


def _large(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let DynamoDB say that the table has 5 GB."""
    call = TokenTransport.call

    def answered(self: TokenTransport, operation: str, *rest: object) -> Any:
        answer = call(self, operation, *rest)  # type: ignore[arg-type]
        if operation == "describe_table":
            answer["Table"] |= {"TableSizeBytes": 5 * 1_024**3, "ItemCount": 9_000_000}
        return answer

    monkeypatch.setattr(TokenTransport, "call", answered)


def test_a_large_table_requires_scan(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 1 GB the line says what it would cost, and what would spare it."""
    _large(shop, monkeypatch)
    shop.complete("orders/charge/12345")
    message = complaint(shop.run("show", "12345"))
    assert "about 9,000,000 rows, 5.4 GB, 655,364 read units" in message
    assert "--scan" in message
    assert "LAMBDA_ONCE_NAMES" in message
    assert "orders/charge/12345" in shop.run("show", "12345", "--scan").stdout


def test_an_unknown_token_prints_advice(shop: Shop) -> None:
    """What is near among the unfinished, and how parts of a key are found."""
    ran = shop.run("show", "missing")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[-1] == (
        f"lambda-once: no token and no key missing in the table {shop.name}. It never arrived, it has "
        "expired (keep=), or its key is another one: a hash of the payload, or the key of an API's client. "
        "Under history=, the old version may have done it: once.outcome asks its records, too. "
        "To search for part of it: lambda-once find missing"
    )
    shop.begin("orders/charge/12345-b")
    assert "unfinished and similar: orders/charge/12345-b. It" in shop.run("show", "12345").stderr
    assert shop.run("show", "orders/charge/12345").stderr.endswith("lambda-once find 12345\n")
    message = complaint(shop.run("show", "--service", "orders", "--name", "refund", "a/b c%"), 1)
    assert "orders/refund has no key a/b c%" in message
    assert "lambda-once find 'a/b c%'" in message


def test_a_part_row_is_no_token(shop: Shop) -> None:
    """Nor is the cursor of the watchdog."""
    shop.complete(TOKEN, LARGE)
    shop.put({"lockToken": {"S": "lambda-once#watchdog"}})
    for beside in (f"{TOKEN}#a1#0", "lambda-once#watchdog"):
        ran = shop.run("show", beside)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert f"no token and no key {beside}" in ran.stderr


@pytest.mark.parametrize(
    ("token", "keep", "options", "warned"),
    [
        (TOKEN, timedelta(days=14), [], False),
        (TOKEN, timedelta(minutes=5), [], True),
        (TOKEN, timedelta(days=4), [], True),
        (TOKEN, timedelta(days=4), ["--retention", "4"], False),
        (TOKEN, timedelta(days=4), ["--retention", "0"], False),
        ("orders/api/POST:%2Fpay/k-1", timedelta(days=1), [], False),
    ],
)
def test_an_outcome_that_is_forgotten_too_soon(
    shop: Shop, token: str, keep: timedelta, options: list[str], warned: bool
) -> None:
    """Kept for less than queues keep a message, it may run again; an API has no queue."""
    shop.complete(token, keep=keep)
    ran = shop.run("show", token, *options)
    assert ran.exit_code == 0
    assert ran.stderr.startswith("WARNING: kept for only") is warned


def test_json_has_the_names_of_the_row(shop: Shop) -> None:
    """One object, on one line as jsonl."""
    shop.complete(TOKEN, delivery="message-1")
    shown = _shown(shop, TOKEN)
    assert shown.keys() >= {
        *(
            "lockToken",
            "service",
            "name",
            "tenant",
            "scope",
            "key",
            "status",
            "lockedBy",
            "attempt",
            "fence",
            "created",
        ),
        *("expectedCompletion", "actualCompletion", "delivery", "fingerprint", "trace", "ttl", "error"),
        *("decisions", "undo", "ageSeconds", "overdueSeconds", "result", "outlook", "story", "logs", "next"),
    }
    (line,) = shop.run("show", TOKEN, "--output", "jsonl").stdout.splitlines()
    assert json.loads(line) == shown
