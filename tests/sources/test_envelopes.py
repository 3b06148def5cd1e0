from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.core.identity import NOTHING
from lambda_once.sources.envelopes import TooDeep, open_body, parse
from tests.sources import samples


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, true, null]}', {"a": [1, 2.5, True, None]}),
        ('  "text"\n', "text"),
        ("0", 0),
        ("null", None),
        ('"\\ud800"', "\ud800"),
        ("-0.0", 0),
        ("0e9999999999999999999999", 0),
        ("12345678901234567890", 12345678901234567890),
        ("0.30000000000000004", 0.30000000000000004),
        ("1.50000000000000000000", 1.5),
    ],
)
def test_json_is_parsed(text: str, value: object) -> None:
    """What is JSON is read as JSON."""
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "order 5", "{", '{"a": 1,}', "NaN", "[Infinity]", "-Infinity", "\ufeff{}", "\ud800", "a" * 10_000],
)
def test_what_is_no_json_stays_text(text: str) -> None:
    """What is no JSON is the text itself, NaN and the infinities included."""
    assert parse(text) is text


@pytest.mark.parametrize(
    "text",
    ["1e999", "-1e999", "[1e999999999999999999999999]", "1e-999", "0.1e-99999999999999999999", "9" * 5000],
)
def test_numbers_out_of_range_stay_text(text: str) -> None:
    """A number that no float can hold, or too long an integer, makes the whole text text."""
    assert parse(text) is text


@pytest.mark.parametrize(
    "text", ["12345678901234567.89", "0.1000000000000000055", "1.2345678901234567890123e-20"]
)
def test_digits_that_a_float_would_lose_are_kept(text: str) -> None:
    """A number that a float would round is a Decimal, so two amounts never become one."""
    assert parse(text) == Decimal(text)
    assert isinstance(parse(text), Decimal)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_comes_back(number: float) -> None:
    """What a float was written as is read as the same float."""
    assert parse(json.dumps([number])) == [number]


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=20))
def test_every_decimal_keeps_its_digits(number: Decimal) -> None:
    """No two decimals of any length are read as one number."""
    read = parse(f"{number:f}")
    assert isinstance(read, int | float | Decimal)
    assert Decimal(repr(read) if isinstance(read, float) else read) == number


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "[" * 200_000 + "]" * 200_000])
def test_deep_nesting_is_refused(text: str) -> None:
    """JSON nested beyond the recursion limit is refused by name, not taken for text."""
    with pytest.raises(TooDeep, match="nested too deeply"):
        parse(text)


# -- envelopes

S3 = samples.batch(samples.s3_record())


@pytest.mark.parametrize(
    ("inner", "payload"),
    [(samples.eventbridge({"orderId": 5}), {"orderId": 5}), (S3, S3), (samples.notification("deep"), "deep")],
)
def test_envelopes_are_opened_inside_a_notification(inner: object, payload: object) -> None:
    """What SNS carries for EventBridge, S3 or another topic is opened too."""
    text = json.dumps(samples.notification(json.dumps(inner)))
    assert open_body(text, NOTHING, NOTHING).content.payload == payload


def test_opening_is_bounded() -> None:
    """Notifications wrapped without end are opened a few deep, and the rest is payload."""
    text = "core"
    for _ in range(8):
        text = json.dumps(samples.notification(text))
    payload = open_body(text, NOTHING, NOTHING).content.payload
    assert isinstance(payload, dict)
    assert payload["Type"] == "Notification"


@pytest.mark.parametrize(
    "body",
    [
        {"Type": "Notification", "Message": "m"},
        {"Type": "Order", "MessageId": "1", "TopicArn": "t", "Message": "m"},
        {"source": "s", "detail-type": "t", "detail": {}},
        {"Records": []},
        {"Records": [{"eventSource": "aws:other"}]},
        {"Records": 5},
    ],
)
def test_what_only_resembles_an_envelope_stays_closed(body: object) -> None:
    """A body of the user's own that lacks what AWS always sends counts whole."""
    content = open_body(json.dumps(body), NOTHING, NOTHING).content
    assert content.payload == content.counted(content.payload) == body
