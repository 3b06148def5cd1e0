"""
Anything at all, at every door: only documented exceptions come out.

`make fuzz N=100000` goes as far as one likes; the ordinary tests go a few steps.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lambda_once import MemoryStore, Once
from lambda_once.core.canonical import NotCanonical, canonical, plain
from lambda_once.core.fields import printed
from lambda_once.core.identity import NOTHING
from lambda_once.core.keys import token
from lambda_once.core.results import Corrupt, NotSerialisable, pack, unpack, unpack_chunks
from lambda_once.errors import KeyMissing, Misconfigured, OnceError
from lambda_once.sources import event, http
from lambda_once.sources.envelopes import TooDeep, open_body, parse
from lambda_once.sources.headers import header_key
from lambda_once.sources.source import Source, record_source
from lambda_once.stores.row import indexed, part_of, record_of
from lambda_once.testing import lambda_context, pipes_event
from tests.decorators.sources_table import PIPED, RECORD_DECORATORS, SOURCES
from tests.sources import samples, services
from tests.stores.test_malformed import ROW

fuzz = settings(
    max_examples=int(os.environ.get("FUZZ", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.builds(lambda digits, zeros: digits * 10**zeros, st.integers(-(10**20), 10**20), st.integers(0, 400))
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["", "\0", "\ud800", "NaN", "1e999999999", "aws:sqs", "aws:ses", "true"])
)
json_like = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
hashable = (
    leaves
    | st.decimals().filter(lambda number: not number.is_snan())  # it has no hash
    | st.datetimes()
    | st.uuids()
    | st.binary(max_size=4)
    | st.timedeltas()
    | st.tuples(st.integers(), st.text(max_size=2))
)
anything = st.recursive(
    hashable | st.builds(object) | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.frozensets(hashable, max_size=3)
    ),
    max_leaves=10,
)
text = st.text(st.characters(), max_size=40) | st.sampled_from(
    ["1e308", "[" * 5_000, "9" * 5_000, "1e-400", "-0", "0.1" + "0" * 400 + "1", '"\\ud800"', "-", "1e", "{}"]
)
texts = text | json_like.map(json.dumps) | st.floats().map(repr)

EVENTS: list[Any] = [
    samples.batch(samples.sqs_record({"orderId": 5})),
    samples.batch(samples.fifo_record("x")),
    samples.sns_event("m"),
    samples.eventbridge({"orderId": 5}),
    samples.batch(samples.s3_record()),
    samples.rest(),
    samples.http(),
    samples.alb(),
    samples.alb(multi=True),
    *(event for event, _ in samples.FOREIGN.values()),
    *(row.build({"orderId": 5}) for row in SOURCES),
    *(row.dead_letter(row.build({"orderId": 5})) for row in SOURCES if row.dead is not None),
    *(pipes_event(row.build({"orderId": 5})) for row in PIPED),
    *services.KEYED.values(),
    *services.ASKING.values(),
    *services.REFUSED.values(),
]


def _ways(value: object, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Give the way to every part of *value*."""
    parts = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    return [way, *(found for name, each in parts for found in _ways(each, (*way, name)))]


def _put(value: Any, way: tuple[Any, ...], part: object) -> Any:
    """Give *value* with *part* where *way* leads."""
    if not way:
        return part
    copied = dict(value) if isinstance(value, Mapping) else list(value)
    copied[way[0]] = _put(value[way[0]], way[1:], part)
    return copied


@st.composite
def altered(draw: st.DrawFn, originals: list[Any], parts: st.SearchStrategy[Any] = json_like) -> Any:
    """Give one of *originals* in which up to three parts are something else."""
    found = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(1, 3))):
        found = _put(found, draw(st.sampled_from(_ways(found))), draw(parts | texts))
    return found


@fuzz
@given(anything)
def test_canonical_forms(value: object) -> None:
    """Any value has one canonical form, or NotCanonical; a plain form, or NotCanonical."""
    with suppress(NotCanonical):
        assert canonical(value) == canonical(value) == printed(value).text.encode("utf-8", "surrogatepass")
    with suppress(NotCanonical):
        plain(value)


@fuzz
@given(anything, anything, st.none() | texts)
def test_keys(key: object, scope: object, tenant: str | None) -> None:
    """Any key, scope and tenant make a token of at most 1,280 plain characters, or one of two errors."""
    with suppress(KeyMissing, Misconfigured):
        found = token("service", "name", scope, key, tenant)
        assert len(found) <= 1_280
        assert found.isascii()
        assert found.isprintable()


@fuzz
@given(texts)
def test_texts(given_text: str) -> None:
    """Any text is a payload that has a canonical form, unless it nests too deeply."""
    with suppress(TooDeep):
        assert canonical(parse(given_text))
        open_body(given_text, NOTHING, NOTHING)


@fuzz
@given(json_like)
def test_json_has_the_canonical_form_of_what_it_says(value: object) -> None:
    """What is sent as JSON, in any order and spacing, is one canonical form."""
    try:
        sent = json.dumps(value, allow_nan=False)
    except ValueError:
        return
    assert canonical(parse(sent)) == canonical(parse(json.dumps(value, indent=2)))


@fuzz
@given(altered(EVENTS) | json_like)
def test_events(given_event: Any) -> None:
    """An event of any shape is read, or refused as Misconfigured; a bad record is a unit, no exception."""
    readers: tuple[Callable[[Any], Any], ...] = (
        *(record_source(source).read for source in Source if source.fields),
        lambda one: event.read(one, "r-1"),
    )
    for read in readers:
        with suppress(Misconfigured):
            read(given_event)
    event.is_asynchronous(given_event)


@fuzz
@given(altered([samples.rest(), samples.http(), samples.alb(), samples.alb(multi=True)]), text)
def test_requests(given_event: Any, key: str) -> None:
    """A request of any shape is read, or refused; a key of the header is 1 to 255 printable characters."""
    with suppress(OnceError):
        samples.request_unit(given_event)
    for request in (
        samples.rest(headers={"Idempotency-Key": [key]}),
        samples.http(headers={"Idempotency-Key": key}),
    ):
        with suppress(OnceError):
            found = header_key(http.request_of(request).headers)
            assert found is None or (0 < len(found) <= 255 and found.isascii() and found.isprintable())


types = st.sampled_from(["S", "N", "B", "BOOL", "NULL", "M", "L", "SS"])
attributes = st.dictionaries(types, json_like | st.binary(max_size=5), max_size=2)


@fuzz
@given(altered([ROW, ROW | {"status": {"S": "inProgress"}, "parts": {"N": "3"}}], attributes))
def test_rows(item: Any) -> None:
    """A row in which any attribute is something else is read, or is Misconfigured."""
    if not isinstance(item, dict):
        return
    for read in (record_of, indexed, part_of):
        with suppress(Misconfigured):
            read(item)


@fuzz
@given(st.binary(max_size=60) | texts.map(lambda one: zlib.compress(one.encode("utf-8", "replace"))), texts)
def test_results(data: bytes, result: str) -> None:
    """Stored bytes are a text, or Corrupt; what is stored of a text comes back."""
    with suppress(Corrupt):
        assert isinstance(unpack(data), str)
    with suppress(Corrupt):
        assert isinstance(unpack_chunks([data[:3], data[3:]]), str)
    with suppress(NotSerialisable):
        pack(result)


@pytest.mark.filterwarnings("ignore")
@fuzz
@given(altered(EVENTS))
def test_handlers(given_event: Any) -> None:
    """A handler of any decorator answers an event of any shape, or raises an OnceError (SQS: of a batch)."""
    once = Once(store=MemoryStore(), service="shop")
    of_records = (getattr(once, decorator) for decorator in RECORD_DECORATORS)
    for face in (*of_records, once.kafka(report_failures=True), once.api_gateway, once.event):
        handler: Any = face(_work)
        with suppress(OnceError, BatchProcessingError):  # the second: all records of a batch failed
            handler(given_event, lambda_context())


def _work(given_event: object) -> None:
    del given_event
