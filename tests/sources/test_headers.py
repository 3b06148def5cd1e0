from __future__ import annotations

import pytest

from lambda_once.core.unit import BadRequest
from lambda_once.errors import KeyMissing
from lambda_once.sources.headers import header_key
from lambda_once.sources.http import request_of
from tests.sources import samples


def _key(*values: str, name: str = "Idempotency-Key") -> str | None:
    return header_key(request_of(samples.rest(headers={name: list(values)})).headers)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        ('"8e03978e-40d5-43e8-bc93-6894a57f9324"', "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        ("  \tk\t ", "k"),
        ('" k "', "k"),
        (r'"a\"b\\c"', r'a"b\c'),
        ('a"b', 'a"b'),
        (r"a\"b", r"a\"b"),
        ("a, b", "a, b"),
        ("a" * 255, "a" * 255),
        ('"' + r"\"" * 255 + '"', '"' * 255),
        ("0", "0"),
    ],
)
def test_plain_and_quoted_keys_are_read(value: str, key: str) -> None:
    """A key may be plain or a quoted string of RFC 9651: both mean the same."""
    assert _key(value) == key


@pytest.mark.parametrize(
    "parameters",
    [
        ";v=1",
        ";v",
        "; v=1;  w=-12.345",
        ";v=?1;*a._-*b=:YQ==:;t=*tok/en:x!",
        ';s="a;\\"b"',
        ";d=@1659578233",
        ';u=%"f%c3%bc"',
        ";v=1;v=2",
        ";i=" + "9" * 15 + ";c=" + "9" * 12 + ".999",
    ],
)
def test_parameters_of_a_quoted_key_are_ignored(parameters: str) -> None:
    """An Item of RFC 9651 may have them; a retry that has others is the same."""
    assert _key(f'"k;1"{parameters}') == _key('"k;1"') == "k;1"
    assert _key(f"k{parameters}") == f"k{parameters}"  # a plain value is what it is


@pytest.mark.parametrize(
    "parameters",
    [
        ";",
        ";;v",
        " ;v",
        ";v =1",
        ";v= 1",
        ";v=",
        ";V=1",
        ";1=1",
        ";v=1 w",
        ";v=1.",
        ";v=1.2345",
        ";v=" + "9" * 16,
        ';v="a',
        ";v=?2",
        ";v=:a",
        ";v=@1.5",
        ';u=%"%C3"',
        ";v=(1 2)",
        "v=1",
        ",",
        '"',
    ],
)
def test_malformed_parameters_are_refused(parameters: str) -> None:
    """Parameters that RFC 9651 does not allow make the key malformed, as a missing quote does."""
    with pytest.raises(BadRequest, match="not a quoted string of RFC 9651"):
        _key(f'"k"{parameters}')


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
def test_the_name_has_no_case(name: str) -> None:
    """The header is found in any case."""
    assert _key("k", name=name) == "k"


@pytest.mark.parametrize(
    "event",
    [
        samples.http(headers={"idempotency-key": "k"}),
        samples.alb(idempotency_key="k"),
        samples.alb(multi=True, Idempotency_Key="k"),
    ],
)
def test_every_kind_of_request_may_bear_a_key(event: samples.Json) -> None:
    """The header is found in v2 and load balancer events too."""
    assert header_key(request_of(event).headers) == "k"


def test_no_header_is_no_key() -> None:
    """A request without the header has no key, and that is no error."""
    assert header_key(request_of(samples.rest()).headers) is None
    assert header_key(request_of(samples.http()).headers) is None


@pytest.mark.parametrize(
    "value",
    [
        *("", "   ", '""', '"  "', '"";v=1', ",", " , "),
        *("undefined", "null", "UNDEFINED", "Null", " null\t", "undefined, undefined", "null,"),
        *('"undefined"', '"null"', '" null "', '"Undefined";v=1', '"null, undefined"'),
    ],
)
def test_no_value_is_no_key(value: str) -> None:
    """A client whose key is missing or empty has sent none, however it writes that."""
    assert _key(value) is None
    assert _key(value, "k") == _key("k", value) == "k"


@pytest.mark.parametrize("value", ["undefined-1", "nullable", "none", "NaN", "0", "false", "null k"])
def test_what_only_looks_like_no_value_is_a_key(value: str) -> None:
    """JavaScript's texts for no value are whole values."""
    assert _key(value) == value


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("a" * 256, "has 256 characters; at most 255 are allowed"),
        ('"' + "a" * 256 + '"', "has 256 characters"),
        ("a" * 1_000_000, "has 1000000 characters"),
        ("secret\x00", "not printable ASCII"),
        ("secret\nx", "not printable ASCII"),
        ("secret\x7f", "not printable ASCII"),
        ("sécret", "not printable ASCII"),
        ("\ud800", "not printable ASCII"),
        ('"secret', "not a quoted string"),
        ('"sec"ret"', "not a quoted string"),
        (r'"sec\ret"', "not a quoted string"),
        (r'"secret\"', "not a quoted string"),
        ('"', "not a quoted string"),
        ('"secret", "other"', "not a quoted string"),
    ],
)
def test_a_malformed_key_is_refused(value: str, what: str) -> None:
    """A key that cannot be used says what is wrong, shortly, and never repeats what was sent."""
    with pytest.raises(BadRequest, match=what) as raised:
        _key(value)
    assert isinstance(raised.value, KeyMissing)
    assert "Idempotency-Key" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert len(str(raised.value)) < 100


def test_two_different_keys_are_refused() -> None:
    """A request with two keys has none."""
    with pytest.raises(BadRequest, match="different values"):
        _key("a", "b")


def test_the_same_key_twice_is_one() -> None:
    """Plain and quoted, the same key is no contradiction."""
    assert _key("a", '"a"') == "a"


def test_names_that_differ_in_case_are_one_header() -> None:
    """Two spellings of the header with two values are two values of one header."""
    headers = {"Idempotency-Key": ["a"], "idempotency-key": ["b"]}
    with pytest.raises(BadRequest, match="different values"):
        header_key(request_of(samples.rest(headers=headers)).headers)
    with pytest.raises(BadRequest, match="different values"):
        header_key(request_of(samples.rest(headers=headers) | {"multiValueHeaders": None}).headers)
