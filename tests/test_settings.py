"""Options that cannot be meant are refused when they are given, each with a clear word."""

from __future__ import annotations

import pydoc
import re
from datetime import timedelta
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import pytest

from lambda_once import Misconfigured, Once
from lambda_once.core.variables import Listing
from lambda_once.settings import Where, signature_of_options
from tests import signatures, surface
from tests.decorators.rig import Rig
from tests.decorators.sources_table import RECORD_DECORATORS
from tests.kit import tables
from tests.sources.samples import rest

FACES = (*surface.DECORATORS, "route")


async def coroutine_function(_: object) -> object:
    """Where a plain callable is wanted, this is none."""
    return _


EVERYWHERE: list[tuple[dict[str, Any], str]] = [
    ({"keep": 60}, "timedelta"),
    ({"keep": timedelta(0)}, "positive timedelta"),
    ({"lease": timedelta(seconds=-1)}, "positive timedelta"),
    ({"on_in_progress": "poll"}, "conflict, wait or a positive timedelta"),
    ({"on_in_progress": 30}, "conflict, wait or a positive timedelta"),
    ({"on_in_progress": timedelta(0)}, "conflict, wait or a positive timedelta"),
    ({"on_lapse": "retry"}, "take_over"),
    ({"on_error": "hold"}, "RELEASE, STORE, HOLD"),
    ({"on_error": ValueError}, "RELEASE, STORE, HOLD"),
    ({"on_error": None}, "RELEASE, STORE, HOLD"),
    ({"on_error": coroutine_function}, "RELEASE, STORE, HOLD"),
    ({"on_error": {ValueError: "store"}}, "RELEASE, STORE, HOLD"),
    ({"on_error": {"ValueError": None}}, "RELEASE, STORE, HOLD"),
    ({"cache": -1}, "0 or more"),
    ({"cache": 0.5}, "whole number"),
]
PER_DECORATOR: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "non-empty"),
    ({"key": 5}, "JMESPath expression or a callable"),
    ({"key": "order["}, "order\\["),
    ({"key": "no_such(order)"}, "no_such"),
    ({"scope": 5}, "JMESPath expression or a callable"),
    ({"scope": "a b"}, "position 2"),
    ({"fingerprint": True}, "False for none"),
    ({"fingerprint": "a b"}, "position 2"),
    ({"ignore": "sentDate"}, "list of dotted paths"),
    ({"ignore": (5,)}, "list of dotted paths"),
    ({"kee": timedelta(1)}, "unknown option kee"),
]
OF_API: list[tuple[dict[str, Any], str]] = [
    ({"methods": "POST"}, "a set or a list"),
    ({"store_status": 402}, "a set or a list"),
    ({"without_key": "ignore"}, "hash, reject, run"),
    ({"unscoped": "allow"}, "warn, refuse"),
    ({"problem": "sorry"}, "callable"),
    ({"on_replay": "sorry"}, "callable"),
    ({"concurrency": 2}, "unknown option concurrency"),
]


def refused(face: Any, options: dict[str, Any], words: str) -> None:
    """Check that *face* refuses *options* at once, in *words*."""
    with pytest.raises(Misconfigured, match=words):
        face(**options)


@pytest.mark.parametrize(("options", "words"), EVERYWHERE)
def test_policies_are_checked(options: dict[str, Any], words: str) -> None:
    """`Once` and every decorator refuse a policy that cannot be meant."""
    once = Once(table="tokens")
    refused(Once, options, words)
    for face in FACES:
        refused(getattr(once, face), options, words)


@pytest.mark.parametrize(("options", "words"), PER_DECORATOR)
def test_keying_is_checked(options: dict[str, Any], words: str) -> None:
    """Every decorator refuses a key, scope, fingerprint or name that cannot be meant; so does `Once` all."""
    once = Once(table="tokens")
    for face in FACES:
        refused(getattr(once, face), options, words)
    refused(Once, options, "unknown option")


@pytest.mark.parametrize(("options", "words"), OF_API)
def test_api_options_are_checked(options: dict[str, Any], words: str) -> None:
    """The HTTP decorators refuse what would leave requests unprotected without a word."""
    once = Once(table="tokens")
    for face in (once.api_gateway, once.route):
        refused(face, options, words)


OF_STREAMS: list[tuple[dict[str, Any], str]] = [
    ({"concurrency": 0}, "1 or more"),
    ({"report_failures": "yes"}, "True or False"),
    ({"on_give_up": "park"}, "give a callable"),
    ({"on_give_up": lambda record: record}, "two arguments, the record and the error"),
    ({"on_give_up": coroutine_function}, "would not be awaited"),
    ({"raise_on_entire_batch_failure": False}, "unknown option raise_on_entire_batch_failure"),
    ({"returns": int}, "unknown option returns"),
]


@pytest.mark.parametrize(("options", "words"), OF_STREAMS)
def test_options_of_streams_are_checked(options: dict[str, Any], words: str) -> None:
    """What would let a record pass that is not parked, or stop a shard at its first bad one."""
    once = Once(table="tokens")
    for face in (once.kinesis, once.dynamodb_stream):
        refused(face, options, words)


@pytest.mark.parametrize("file", signatures.FILES, ids=lambda file: str(file.name))
def test_parameters_are_those_of_the_table(file: Path) -> None:
    """Editors, type checkers and ``help`` show each option with its type and default: `make surface`."""
    source = file.read_text(encoding="utf-8")
    written = signatures.written(source)
    assert written == source, "options in settings.py have changed: run `make surface`"


@pytest.mark.parametrize(("row", "before", "after"), [("concurrency", 5, 0), ("invented", 0, 2)])
def test_an_option_that_comes_or_goes_is_written(
    monkeypatch: pytest.MonkeyPatch, row: str, before: int, after: int
) -> None:
    """Where it's accepted, nowhere else: as a parameter, and in the TypedDict."""
    invented = Parameter("invented", Parameter.KEYWORD_ONLY, default=None, annotation="str | None")

    def changed(where: Where) -> Signature:
        rows = [each for each in signature_of_options(where).parameters.values() if each.name != row]
        return Signature([*rows, invented] if where is Where.QUEUE and after else rows)

    source = signatures.FILES[0].read_text(encoding="utf-8")
    monkeypatch.setattr(signatures, "signature_of_options", changed)
    assert [text.count(f" {row}: ") for text in (source, signatures.written(source))] == [before, after]


@pytest.mark.parametrize("name", surface.DECORATORS)
def test_help_shows_each_option(name: str) -> None:
    """With its type and its default, as the table has them."""
    decorator = getattr(Once(table="tokens"), name)
    assert "keep: 'timedelta | None' = <as Once>" in pydoc.plain(pydoc.render_doc(decorator))


@pytest.mark.parametrize("concurrency", [0, -1, 1.5])
def test_concurrency_is_checked(concurrency: Any) -> None:
    """Records run at least one at a time."""
    refused(Once(table="tokens").sqs, {"concurrency": concurrency}, "1 or more")


def test_what_the_caller_changes_later_does_not_count() -> None:
    """Options are copied: a list or a mapping that is changed afterwards changes no decorator."""
    rig = Rig()
    methods = {"GET"}
    runs: list[int] = []

    @rig.once.api_gateway(methods=methods)
    def handler(event: dict[str, Any]) -> dict[str, Any]:
        runs.append(1)
        return {"statusCode": 200}

    methods.clear()
    for _ in range(2):
        handler(rest(httpMethod="GET"), rig.context())
    assert runs == [1]


def test_a_hook_is_plain() -> None:
    """A coroutine function would never be awaited."""
    hook: Any = coroutine_function
    with pytest.raises(Misconfigured, match="hook"):
        Once(table="tokens", hooks=[hook])


def test_no_table_is_named() -> None:
    """Without a table nothing runs, and the error names the three ways out."""
    once = Once()
    with pytest.raises(Misconfigured, match=re.escape("LAMBDA_ONCE_TABLE")):
        once.run("len", "k", len, [1])


@pytest.mark.parametrize("word", ["Stream", "later", "1"])
def test_another_listing_is_refused(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """As an argument at once; as a variable at first use, for nothing runs before."""
    with pytest.raises(Misconfigured, match=f"^listing={word} is unknown: use at_once or stream$"):
        Once(table="tokens", listing=word)  # type: ignore[arg-type]
    monkeypatch.setenv("LAMBDA_ONCE_LISTING", word)
    with pytest.raises(Misconfigured, match=f"^LAMBDA_ONCE_LISTING={word} is unknown"):
        Once(table="tokens").run("len", "k", len, [1])


@pytest.mark.parametrize("word", ["", 7, b"stream"])
def test_what_names_no_listing_is_refused(word: object) -> None:
    """None alone leaves it to the variable."""
    with pytest.raises(Misconfigured, match=r"^listing=.* is unknown: use at_once or stream$"):
        Once(table="tokens", listing=word)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "variable", "meant"),
    [
        (None, "", Listing.AT_ONCE),
        (None, "stream", Listing.STREAM),
        ("at_once", "stream", Listing.AT_ONCE),
        ("stream", "", Listing.STREAM),
    ],
)
def test_the_argument_goes_before_the_variable(
    monkeypatch: pytest.MonkeyPatch, argument: Any, variable: str, meant: Listing
) -> None:
    """By default a first acquisition is listed at once."""
    monkeypatch.setenv("LAMBDA_ONCE_LISTING", variable)
    store = Once(table="tokens", client=tables.client(), listing=argument)._runtime._new_store()
    assert store.listing is meant


def test_what_tells_no_parameters_is_refused() -> None:
    """A builtin without a signature cannot have its arguments counted."""
    with pytest.raises(Misconfigured, match="wrap it in a function"):
        Once(table="tokens").run("int", "k", int)


def test_the_table_may_be_named_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is requested when `Once` is made or a function is decorated."""
    once = Once()
    work = once.function(len)
    monkeypatch.setenv("LAMBDA_ONCE_TABLE", "tokens")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(Misconfigured, match="AWS_DEFAULT_REGION"):
        work([])


@pytest.mark.parametrize("function", [lambda: None, lambda *, record: record])
def test_a_handler_takes_something(function: Any) -> None:
    """A function without a positional argument cannot be given its record."""
    once = Once(table="tokens")
    for name in (*RECORD_DECORATORS, "event", "api_gateway"):
        with pytest.raises(Misconfigured, match="must accept the event"):
            getattr(once, name)(function)
