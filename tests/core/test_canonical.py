from __future__ import annotations

import json
import tracemalloc
from collections import UserDict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction
from functools import cache
from hashlib import sha256
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from aws_lambda_powertools.utilities.data_classes import EventBridgeEvent
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, HttpUrl, PostgresDsn, networks
from pydantic_core import Url

from lambda_once.core.canonical import (
    _ENCODER,
    MOST_PARTS,
    NoForm,
    NotCanonical,
    _encoding,
    _tag_of,
    canonical,
    comparable,
    digest,
    fingerprint,
    plain,
    readable,
)
from lambda_once.core.fields import printed, without
from lambda_once.core.keys import token
from lambda_once.core.objects import Noted
from lambda_once.sources.envelopes import parse

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SOME_UUID = UUID("12345678-1234-5678-1234-567812345678")


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal


@dataclass(frozen=True)
class Order:
    id: int
    lines: tuple[Line, ...]


class OrderModel(BaseModel):
    id: int
    placed: datetime


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "hidden"


class Whole(int):
    __slots__ = ()

    def __repr__(self) -> str:
        return "hidden"


class Colour(Enum):
    RED = "red"


class Size(StrEnum):
    LARGE = "large"


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.builds(lambda digits, zeros: digits * 10**zeros, st.integers(-(10**18), 10**18), st.integers(0, 320))
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=5)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
    | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))]))
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.binary(max_size=4)
)
names = st.text(st.characters(), max_size=3) | st.sampled_from(["\0", "\0uuid", "\0\0set"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


def meaning(value: Any) -> object:
    """Give a hashable value that is equal for two values exactly when they mean the same."""
    if value is None or isinstance(value, bool):
        return "constant", value
    if isinstance(value, int | float | Decimal):
        return "number", Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if isinstance(value, list):
        return "list", tuple(map(meaning, value))
    if isinstance(value, dict):
        return "object", frozenset((name, meaning(each)) for name, each in value.items())
    return type(value).__name__, value


@given(values, values)
def test_one_text_is_one_meaning(one: object, other: object) -> None:
    """Two values have one canonical form exactly when they mean the same."""
    assert (canonical(one) == canonical(other)) == (meaning(one) == meaning(other))


@given(st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=4))
def test_a_value_never_equals_the_json_that_spells_it(value: object) -> None:
    """What a tagged form is written as, given as plain data, has another canonical form."""
    form = json.loads(canonical(value))
    assert (canonical(form) == canonical(value)) == (meaning(form) == meaning(value))


@given(st.dictionaries(names, st.integers() | st.floats(allow_nan=False, allow_infinity=False)))
def test_the_order_of_names_does_not_matter(payload: dict[str, float]) -> None:
    """A dict and its reverse have one canonical form, and so has its indented text."""
    assert canonical(dict(reversed(payload.items()))) == canonical(payload)
    assert canonical(json.loads(json.dumps(payload, indent=3))) == canonical(payload)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        ([1e0, {"a": 1}], [1, {"a": 1.0}]),
        (0, -0.0),
        (10**16, 1e16),
        ({"a": [10**300]}, {"a": [1e300]}),
        (10**22, 1e22),
        (10**25, 1e25),
        (-(10**30), -1e30),
        ([1e308, 1e20], [10**308, 10**20]),
        (Decimal("1E+400"), 10**400),
        (Decimal("1234567890123456789E+290"), 1234567890123456789 * 10**290),
        ({10**300}, {Decimal("1E+300")}),
        ({Decimal("1E+300"): 1, "a": 2}, {10**300: 1, "a": 2}),
        (Decimal("1.00"), 1),
        (Decimal("1E+3"), 1000),
        (Decimal("0.1"), 0.1),
        (Decimal("0.00"), 0),
        ((1, (2,)), [1, [2]]),
        (NOON, NOON.astimezone(timezone(timedelta(hours=5)))),
        (Line("x", Decimal("1.5")), {"price": 1.5, "sku": "x"}),
        (Order(1, (Line("x", Decimal(2)),)), {"id": 1, "lines": [{"sku": "x", "price": 2}]}),
        (OrderModel(id=1, placed=NOON), {"id": 1, "placed": NOON}),
        (Colour.RED, "red"),
        ([Size.LARGE, Decimal("NaN")], ["large", float("nan")]),
        ({Colour.RED: 1}, {"red": 1}),
        ([Text("x"), Whole(3)], ["x", 3]),
        ([Text("x"), Whole(3), NOON], ["x", 3, NOON]),
        ({1, 2, 3}, frozenset([3, 2, 1])),
        ({2: 1.0, 10: 2}, {10: 2.0, 2: 1}),
        ({2: Decimal(1), 10: 2}, {10: 2, 2: 1}),
        (EventBridgeEvent({"id": "7"}), {"id": "7"}),
        (bytearray(b"x"), b"x"),
    ],
)
def test_equal_content_is_equal(one: object, other: object) -> None:
    """Values that differ only in how Python holds them have one canonical form."""
    assert canonical(one) == canonical(other)
    assert canonical({"in": [one]}) == canonical({"in": [other]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (None, "null"),
        ("1.0", "1"),
        ("x,1.0,y", "x,1,y"),
        (["e+", 1.0], ["e+", 1.5]),
        (Decimal("0.1000000000000000055"), Decimal("0.1")),
        (Decimal("12345678901234567890.01"), Decimal("12345678901234567890.02")),
        (Decimal("1e-400"), 0),
        (Decimal("1e5000"), Decimal("1e5001")),
        (10**30, 10**30 + 1),
        (10**30, str(10**30)),
        ([1e30, "1e+30"], ["1e+30", 1e30]),
        (10**400, 10**401),
        (Decimal("1E+400"), {"\0decimal": "1e400"}),
        ([Decimal("1E+400"), {"\0decimal": "1e400"}], [{"\0decimal": "1e400"}, Decimal("1E+400")]),
        ({"1" + "0" * 30: 1}, {"1e+30": 1}),
        (Decimal("1.5"), "1.5"),
        (NOON, NOON.isoformat()),
        (NOON, NOON.replace(tzinfo=None)),
        (date(2026, 1, 1), "2026-01-01"),
        (time(1, 2), "01:02:00"),
        (timedelta(seconds=1), 1),
        (SOME_UUID, str(SOME_UUID)),
        (b"x", "x"),
        ({1, 2}, [1, 2]),
        ({1: "a", "1": "b"}, {1: "b", "1": "a"}),
        ({SOME_UUID: 1}, {str(SOME_UUID): 1}),
        ({"\0uuid": SOME_UUID.hex}, SOME_UUID),
        ({"a": {"\0uuid": SOME_UUID.hex}, "b": SOME_UUID}, {"a": SOME_UUID, "b": {"\0uuid": SOME_UUID.hex}}),
        ("\ud83d\ude00", "\U0001f600"),
    ],
)
def test_unequal_content_is_unequal(one: object, other: object) -> None:
    """Values that mean different things never have one canonical form."""
    assert canonical(one) != canonical(other)
    assert canonical({"in": [one]}) != canonical({"in": [other]})


short = st.decimals(-(10**25) + 1, 10**25 - 1, allow_nan=False).filter(
    lambda number: len(number.as_tuple().digits) <= 25
)


def as_it_always_was(value: Decimal) -> bytes:
    """Give the canonical form of a number as the first version of it did."""
    if value == value.to_integral_value():
        return str(int(value)).encode()
    if Decimal(repr(float(value))) == value:
        return repr(float(value)).encode()
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    significant = text.rstrip("0")
    form = f"{'-' * sign}{significant}e{exponent + len(text) - len(significant)}"
    return b'{"\\u0000decimal":"' + form.encode() + b'"}'


@given(short)
@example(Decimal("-6.70000000000e24"))
@example(Decimal("0.1000000000000000055"))
@example(Decimal("5e-324"))
@example(Decimal(10**25 - 1))
@example(Decimal(-(67 * 10**23)))
@example(Decimal(123456789 * 10**9))
def test_numbers_of_25_digits_are_written_as_ever(value: Decimal) -> None:
    """Keys and fingerprints of decimal numbers are pinned across releases, in a list or alone."""
    form = as_it_always_was(value)
    assert canonical(value) == form
    assert canonical([value, 1e20, 1e308, "x"]) == b"[" + form + b',100000000000000000000,1e+308,"x"]'
    assert canonical([parse(str(value).lower())]) == b"[" + form + b"]"


fractions = st.builds(
    lambda sign, digits, zeros, exponent: f"{sign}{digits}{'0' * zeros}e{exponent}",
    st.sampled_from(["", "-"]),
    st.integers(1, 19).flatmap(lambda count: st.integers(10 ** (count - 1), 10**count - 1)),
    st.integers(0, 3),
    st.integers(-345, -20) | st.integers(-345, -300),
)
"""Fractions of about the digits of a float, as JSON may write them; a third of them subnormal."""


@given(fractions | st.floats(-1, 1).filter(lambda number: number % 1 != 0).map(repr))
@example("5e-324")
@example("50e-325")
@example("1e-301")
@example("3e-324")
@example("2.2250738585072011e-308")
@example("0.12345678901234567")
@example("0.12345678901234568")
def test_fractions_are_written_as_exact_decimals_are_compared(text: str) -> None:
    """A float is its shortest digits alone, and no two numbers have one form."""
    (read,) = parsed if isinstance(parsed := parse(f"[{text}]"), list) else (None,)
    value = Decimal(text)
    if read is None:
        assert float(text) == 0
        return
    assert canonical(read) == canonical(value) == as_it_always_was(value)
    assert isinstance(read, float) == (Decimal(repr(float(text))) == value)


@given(st.integers(-(10**25), 10**25), st.integers(0, 60))
@example(1, 24)
@example(1, 25)
@example(-12345678901234567, 24)
@example(12345678901234567, 25)
@example(123456789012345678, 25)
@example(10**25 - 1, 0)
@example(-67, 23)
def test_numbers_of_any_length_are_equal_in_every_type(digits: int, zeros: int) -> None:
    """An int, a Decimal of either notation, a number of JSON text and a float with these digits are equal."""
    whole, short = digits * 10**zeros, Decimal(f"{digits}e{zeros}")
    same: list[object] = [whole, Decimal(whole), short, parse(str(whole)), parse(f"{digits}e{zeros}")]
    if Decimal(repr(float(short))) == short:
        same.append(float(short))
    assert {canonical(each) for each in same} == {canonical(whole)}
    assert {canonical(["x", each]) for each in same} == {canonical(["x", whole])}
    assert {printed({"n": each}) for each in same} == {printed({"n": whole})}


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (10**24, b"1000000000000000000000000"),
        (1e40, b"1e+40"),
        (12345678901234567 * 10**24, b"12345678901234567000000000000000000000000"),
        (1.2345678901234566e40, b"12345678901234566000000000000000000000000"),
        (10**25, b"1e+25"),
        (-1.5e300, b"-1.5e+300"),
        (10**50 + 10**24, b"1" + b"0" * 25 + b"1" + b"0" * 24),
        (12345678901234567 * 10**25, b"1.2345678901234567e+41"),
        (123456789012345678 * 10**25, b'{"\\u0000decimal":"123456789012345678e25"}'),
    ],
)
def test_numbers_with_many_zeros_have_an_exponent(value: float, form: bytes) -> None:
    """A whole number that ends in 25 zeros or more is written by digits and exponent."""
    assert canonical(value) == form


@pytest.mark.parametrize("number", ["1e308", "1234567890123456789e290", "1" + "0" * 4_000, "9" * 4_000])
def test_a_number_grows_by_a_few_characters_at_most(number: str) -> None:
    """The canonical form of a body of long numbers is about as long as the body."""
    body = f"[{','.join([number] * 50)}]"
    assert len(canonical(parse(body))) <= len(body) + 50 * len('{"\\u0000decimal":""}')


def _hashed(body: object) -> tuple[str, int]:
    """Give the digest of *body*, and the most memory that it took."""
    tracemalloc.start()
    try:
        return digest(body), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@cache
def _memory_of_ordinary_numbers() -> int:
    """Return the most memory that a hash of as many numbers takes."""
    return _hashed([1.23] * 100_000)[1]


@pytest.mark.slow
@pytest.mark.parametrize("short", [1e24, 12e9, -9e23])
def test_a_hash_needs_little_more_room_for_short_numbers(short: float) -> None:
    """`1e24` is written with 25 digits: its hash takes a small multiple of the memory of ordinary numbers."""
    hashed, most = _hashed([short] * 100_000)
    assert hashed == sha256(canonical([short] * 100_000)).hexdigest()
    assert most < 6 * _memory_of_ordinary_numbers()


def test_text_that_looks_like_a_number_is_text() -> None:
    """Beside numbers that are written in another form, text and names stay as they are."""
    number, text = 1234567890123456 * 10**7, 'a\\"1.0,[1e+24]\\' + "0" * 30
    numbers = [float(number), text, 5.0, {"1.0,": -0.0}]
    assert canonical(numbers) == json.dumps([number, text, 5, {"1.0,": 0}], separators=(",", ":")).encode()
    many = [1e20 + 16384 * each for each in range(2_000)]
    assert (
        canonical(many)
        == json.dumps([*map(int, map(Decimal, map(repr, many)))], separators=(",", ":")).encode()
    )


class Masked(HttpUrl):
    """A URL that hides its text."""

    def __str__(self) -> str:
        return "***"


@pytest.mark.parametrize(
    ("value", "text", "tag"),
    [
        (HttpUrl("https://a.example/x"), "https://a.example/x", "url"),
        (Masked("https://a.example/x"), "https://a.example/x", "url"),
        (PostgresDsn("postgres://a:5432/db"), "postgres://a:5432/db", "url"),
        (Url("https://a.example/x"), "https://a.example/x", "url"),
        (ip_address("10.0.0.1"), "10.0.0.1", "ip"),
        (ip_address("::1"), "::1", "ip"),
        (ip_interface("10.0.0.1/32"), "10.0.0.1/32", "interface"),
        (ip_network("10.0.0.1/32"), "10.0.0.1/32", "network"),
        (PurePosixPath("/a/./b"), "/a/b", "path"),
        (Path("a"), "a", "path"),
        (SOME_UUID, str(SOME_UUID), "uuid"),
    ],
)
def test_what_counts_by_its_text_never_equals_it(value: object, text: str, tag: str) -> None:
    """URLs, addresses, networks and paths are tagged; expressions and results have the text."""
    assert (
        canonical({"a": [value]}) == json.dumps({"a": [{f"\0{tag}": text}]}, separators=(",", ":")).encode()
    )
    assert plain([value]) == readable([value]) == [text]
    assert canonical(value) != canonical(text)


def test_each_url_of_pydantic_is_known() -> None:
    """By its public name or that of a base: a new one that has neither is missing in the table."""
    public = {name for name in vars(networks) if name.endswith(("Url", "Dsn")) and name[0] != "_"}
    assert len(public) > 15
    assert {name for name in public if _tag_of(getattr(networks, name)) is None} == set()


def scalar(kind: str, item: object, ndim: int = 0) -> object:
    """Return what has numpy's shape of a scalar: data frames consist of them."""
    members = {"__module__": "numpy", "ndim": ndim, "dtype": SimpleNamespace(kind=kind)}
    made = type("number", (), members | {"item": lambda self: self if item is None else item})
    return made()


@pytest.mark.parametrize(
    ("value", "same"),
    [(scalar("i", 5), 5), (scalar("f", 0.5), 0.5), (scalar("b", True), True), (deque([1, 2]), [1, 2])],
)
def test_what_equals_a_json_value_counts_as_it(value: object, same: object) -> None:
    """Scalars of numpy, and a deque."""
    assert canonical({"a": value}) == canonical({"a": same})
    assert plain(value) == same
    assert token("s", "n", None, value) == token("s", "n", None, same)


@pytest.mark.parametrize(
    "value", [scalar("f", None), scalar("i", [1, 2], ndim=1), scalar("M", 5), PureWindowsPath("a")]
)
def test_what_has_no_one_value_has_no_form(value: object) -> None:
    """A long double is its own item, and a time of numpy a number of unknown units."""
    with pytest.raises(NoForm):
        canonical(value)


def test_code_that_raises_is_no_fault_of_the_payload() -> None:
    """A mapping that raises while it is read: `NoForm`, which a key answers with Misconfigured."""

    class Closed(UserDict[str, object]):
        def items(self) -> Any:
            raise ConnectionError

    with pytest.raises(NoForm, match="raised ConnectionError"):
        canonical(Closed(a=1))


def test_the_walk_is_bounded() -> None:
    """Objects that all refer to each other have more ways than a walk could take: the rest counts as null."""
    crowd: list[list[object]] = [[] for _ in range(30)]
    for each in crowd:
        each.extend(crowd)
    noted: Noted = []
    assert "null" in comparable(crowd, noted)
    assert f"a builtins.list behind {MOST_PARTS} others" in {note.kind for note in noted}
    assert readable({"a": crowd, "b": NOON})["b"] == NOON.isoformat()  # type: ignore[index]  # an object


def test_names_that_fall_together_are_refused() -> None:
    """A mapping in which two names have one canonical form raises: neither may be lost."""
    with pytest.raises(NotCanonical, match="two names"):
        canonical({Colour.RED: 1, "red": 2})


def test_names_that_do_not_compare_are_sorted() -> None:
    """A Decimal and a NaN as names of one mapping have a canonical form, whatever their order."""
    one = {Decimal(1): 0, float("nan"): 1}
    assert canonical(one) == canonical(dict(reversed(one.items())))
    assert printed(one).text == canonical(one).decode()


def test_digits_do_not_depend_on_the_decimal_context() -> None:
    """Trailing zeros do not count, and no digit is lost beyond the context's 28."""
    long = "0." + "123456789" * 5
    assert canonical(Decimal(long)) == canonical(Decimal(long + "00"))
    assert canonical(Decimal(long)) != canonical(Decimal(long + "1"))


@pytest.mark.parametrize("odd", [object(), Fraction(1, 2), 1j, Order, lambda: None])
def test_what_is_not_canonical_is_named_with_its_path(odd: object) -> None:
    """A value without canonical form raises, naming its type and the way to it."""
    with pytest.raises(NotCanonical, match=rf"^order\.lines\.1\.sku: a .*\.{type(odd).__qualname__} "):
        canonical({"order": {"lines": [{}, {"sku": odd}]}})
    with pytest.raises(NotCanonical, match=r"^the value itself"):
        canonical(odd)


def test_what_has_no_end_or_is_out_of_range_is_refused() -> None:
    """Cycles, depths, numbers too long to write, signalling NaNs and instants before year 1."""
    cycle: list[object] = []
    cycle.append(cycle)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (cycle, [SOME_UUID, cycle], deep):
        with pytest.raises(NotCanonical, match="itself"):
            canonical(value)
    with pytest.raises(NotCanonical, match="itself"):
        plain(cycle)
    before_year_1 = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))
    for wild in (10**5000, Decimal("sNaN"), before_year_1):
        with pytest.raises(NotCanonical):
            canonical(wild)


def test_a_fingerprint_carries_its_version() -> None:
    """A fingerprint is the version and the SHA-256 of the canonical text, and is pinned across releases."""
    assert canonical({"b": [1.0, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'.encode()
    assert fingerprint({}) == "1.44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert fingerprint({}) == f"1.{digest({})}"


def test_plain_is_what_json_can_write() -> None:
    """Every kind of value has its plain form, and a stranger is passed by."""
    stranger = object()
    value = {
        "order": Order(1, (Line("x", Decimal("1.50")),)),
        "long": Decimal("0.1000000000000000055"),
        "huge": [Decimal("1E+300"), Decimal("1E+24"), Decimal("1E+999999999"), 10**30],
        "whole": Whole(3),
        "at": [NOON, NOON.date(), time(1, 2)],
        "lasts": timedelta(minutes=1.5),
        "id": SOME_UUID,
        "raw": b"\xff",
        "set": {3, 1},
        "float": 2.0,
        "size": Size.LARGE,
        Colour.RED: stranger,
        (1, 2): True,
    }
    assert plain(value) == {
        "order": {"id": 1, "lines": [{"sku": "x", "price": 1.5}]},
        "long": "0.1000000000000000055",
        "huge": [1e300, 10**24, "1E+999999999", 10**30],
        "whole": 3,
        "at": ["2026-11-20T12:00:00+00:00", "2026-11-20", "01:02:00"],
        "lasts": 90.0,
        "id": str(SOME_UUID),
        "raw": "/w==",
        "set": [1, 3],
        "float": 2.0,
        "size": "large",
        "red": stranger,
        "[1, 2]": True,
    }


PAYLOAD = {
    "id": 1,
    "meta": {"retryCount": 3, "source": "web"},
    "lines": [{"sku": "a", "seen": 1}, {"sku": "b"}, 7],
}


@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        ((), PAYLOAD),
        (("absent", "id.deeper", "lines.absent"), PAYLOAD),
        (("id",), {"meta": PAYLOAD["meta"], "lines": PAYLOAD["lines"]}),
        (
            ("meta.retryCount", "lines.seen"),
            PAYLOAD | {"meta": {"source": "web"}, "lines": [{"sku": "a"}, {"sku": "b"}, 7]},
        ),
        (("meta", "meta.source"), {"id": 1, "lines": PAYLOAD["lines"]}),
        (("meta.source", "meta"), {"id": 1, "lines": PAYLOAD["lines"]}),
    ],
)
def test_ignored_paths_are_left_out(ignore: tuple[str, ...], left: object) -> None:
    """Dotted paths are left out, through lists into each element; the rest is the same object, no copy."""
    before = json.dumps(PAYLOAD)
    found = without(PAYLOAD, ignore)
    assert found == left
    assert json.dumps(PAYLOAD) == before
    touched = {path.partition(".")[0] for path in ignore}
    assert all(found[name] is PAYLOAD[name] for name in PAYLOAD.keys() - touched)  # type: ignore[index]


def test_ignoring_reaches_into_dataclasses() -> None:
    """A path leads into a dataclass as into a dict."""
    order = Order(1, (Line("x", Decimal(2)),))
    assert canonical(without({"order": order}, ["order.lines.price"])) == canonical(
        {"order": {"id": 1, "lines": [{"sku": "x"}]}}
    )


@pytest.mark.parametrize("value", [PAYLOAD, 'é"', 1.5, None, Decimal("0.1")])
def test_the_encoder_that_is_made_once_writes_as_encode_does(
    monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    """With what the interpreter has in C, and without it."""
    text = _ENCODER.encode(value)
    assert _encoding(_ENCODER)(value) == text
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    assert _encoding(_ENCODER)(value) == text
