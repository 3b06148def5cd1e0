from __future__ import annotations

import base64
import gzip
import json
import math
import re
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lambda_once.core import expressions
from lambda_once.core.canonical import canonical, digest
from lambda_once.core.keys import (
    compile_expression,
    downstream,
    is_nothing,
    select,
    select_from,
    token,
)
from lambda_once.errors import KeyMissing, Misconfigured


class Count(Enum):
    FIVE = 5


ORDER: dict[str, object] = {
    "id": 12,
    "zero": 0,
    "no": False,
    "null": None,
    "empty": "",
    "tenant": "acme",
    "none": {},
    "lines": [{"sku": "a", "n": 1}, {"sku": "b"}],
    "mixed": [None, "a"],
    "body": json.dumps({"id": "x"}),
    "bad": "{secret",
    "deep": "[" * 200_000,
    "zipped": base64.b64encode(gzip.compress(b'{"id": 5}')).decode(),
}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("id", 12),
        ("zero", 0),
        ("no", False),
        ("[id, tenant]", [12, "acme"]),
        ("[zero, no]", [0, False]),
        ("{a: id, b: tenant}", {"a": 12, "b": "acme"}),
        ("lines[*].sku", ["a", "b"]),
        ("lines[*].[sku]", [["a"], ["b"]]),
        ("[null, id] | [?@] | [0]", 12),
        ("[null, id][1]", 12),
        ("lines[0:1].sku", ["a"]),
        ("not_null(null, id)", 12),
        ("null.[id] || id", 12),
        ("join('/', [tenant, to_string(id)])", "acme/12"),
        ("powertools_json(body).id", "x"),
        ("powertools_json(powertools_base64_gzip(zipped)).id", 5),
        ("powertools_json(id)", 12),
        ("powertools_json(lines)[0].sku", "a"),
        # hides what is missing: the result has no null
        ("to_string([id, absent])", "[12,null]"),
        ("join('-', [tenant, empty])", "acme-"),
        ("[id, absent][]", [12]),
        ("lines[*].n", [1]),
        ("absent || id", 12),
    ],
)
def test_an_expression_selects_the_key(expression: str, found: object) -> None:
    """What the expression finds is the key; 0 and False are found, and a filtered null is no missing part."""
    assert select(expression, ORDER) == found


@pytest.mark.parametrize(
    "expression",
    ["absent", "null", "empty", "none", "lines[?n == `9`]", "a.b.c", "id.x", "lines[*].absent.[sku]"],
)
def test_nothing_is_no_key(expression: str) -> None:
    """None, empty strings, objects and lists raise KeyMissing with the expression and advice."""
    with pytest.raises(KeyMissing, match=re.escape(repr(expression)) + ".*send it"):
        select(expression, ORDER)


@pytest.mark.parametrize(
    "expression",
    [
        "[id, absent]",
        "[id, empty]",
        "[id, none]",
        "{a: id, b: absent}",
        "@ | [id, absent]",
        "lines[*].[sku, n]",
        "lines[].{sku: sku, n: n}",
        "lines[?sku].[sku, n]",
        "{a: id, b: none}",
        'lines[0].[sku, absent || `""`]',
        "[id, [tenant, absent]]",
        "[id, {a: absent}]",
        "[id, absent] || tenant",
        "id && [id, absent]",
        "map(&[sku, n], lines)",
        "{a: {b: id}, c: null.[x]}",
    ],
)
def test_a_part_that_is_missing_is_no_key(expression: str) -> None:
    """A multi-select with a part missing raises KeyMissing; a null does at any depth."""
    with pytest.raises(KeyMissing, match="a part of the key is missing"):
        select(expression, ORDER)


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("powertools_json(bad)", "JSONDecodeError"),
        ("powertools_json(deep)", "RecursionError"),
        ("powertools_base64(bad)", "Error"),
        ("powertools_base64_gzip(body)", "Error"),
        ("join('-', [id])", "JMESPathTypeError"),
        ("abs(bad)", "JMESPathTypeError"),
        ("abs()", "ArityError"),
        ("sort(mixed)", "JMESPathTypeError"),
    ],
)
def test_failures_of_an_expression_are_missing_keys(expression: str, error: str) -> None:
    """Whatever JMESPath or its functions raise is KeyMissing, and repeats nothing of the payload."""
    with pytest.raises(KeyMissing, match=rf"{re.escape(repr(expression))} failed .* with {error} ") as raised:
        select(expression, ORDER)
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("a.[", "position"),
        ("a..b", "position 2"),
        ("", "JMESPath"),
        ("a b", "position"),
        ("nope(id)", r"nope\(\)"),
    ],
)
def test_a_wrong_expression_is_refused_when_it_is_compiled(expression: str, problem: str) -> None:
    """Syntax errors, with their position, and unknown functions are Misconfigured at once."""
    with pytest.raises(Misconfigured, match=problem) as raised:
        compile_expression(expression)
    assert repr(expression) in str(raised.value)


def test_a_message_says_what_is_missing() -> None:
    """A scope that is missing is called a scope."""
    with pytest.raises(KeyMissing, match=r"^the scope is missing"):
        select("absent", {}, "scope")


EMPTY: list[object] = [None, "", (), [], {}]
PARTS: list[object] = [("a", None), ["a", ""], ("a", {}), ["a", []]]
CONTENT: list[object] = [{"a": None}, ("a", {"b": None}), ["a", ("b", None)], ("a", [None]), ("a", 0, False)]


@pytest.mark.parametrize("found", [0, False, "x", (0, False), ["a", ["b"]], {"a": 1}, 1.5, *CONTENT])
def test_a_callable_makes_the_key(found: object) -> None:
    """What it returns, 0 and False included; nulls in a mapping, or inside an element, are content."""
    assert select_from(lambda record, *, more: (record, more)[1], ["r"], {"more": found}) == found


def test_a_callable_may_have_any_parameter() -> None:
    """Arguments may bear the names that the selection itself uses."""
    assert select_from(lambda function, what: (function, what), (), {"function": 1, "what": 2}) == (1, 2)


PART = r"^a part of the key is missing: the callable .*order_id selects nothing for \[1\]; "
WHOLE = r"^the key is missing: the callable .*order_id selects nothing; "


@pytest.mark.parametrize(
    ("found", "says"),
    [*((nothing, WHOLE) for nothing in EMPTY), *((parts, PART) for parts in PARTS)],
)
def test_a_callable_that_finds_nothing_has_no_key(found: object, says: str) -> None:
    """Nothing, or an element that is nothing, is KeyMissing, which names the callable and the element."""

    def order_id(_record: object) -> object:
        return found

    with pytest.raises(KeyMissing, match=says):
        select_from(order_id, [{}], {})


@pytest.mark.parametrize(
    "error", [KeyError("id"), AttributeError(), TypeError(), ValueError(), RuntimeError()]
)
def test_a_callable_that_raises_is_misconfigured(error: Exception) -> None:
    """Whatever the developer's callable raises is Misconfigured from it, and no fault of the payload."""

    def order_id(_record: object) -> object:
        raise error

    with pytest.raises(Misconfigured, match=rf"order_id of scope= raised {type(error).__name__}") as raised:
        select_from(order_id, [{}], {}, "scope")
    assert raised.value.__cause__ is error
    with pytest.raises(Misconfigured, match="raised TypeError"):
        select_from(order_id, [], {})


def test_a_callable_may_refuse_a_payload() -> None:
    """An OnceError of the callable's own passes: KeyMissing blames the sender on purpose."""
    refusal = KeyMissing("an order has an id")

    def order_id(_record: object) -> object:
        raise refusal

    with pytest.raises(KeyMissing) as raised:
        select_from(order_id, [{}], {})
    assert raised.value is refusal


NULLS = [[None], [None, "a"], [[None, None]], {"a": None}, {"a": [{"b": None}]}]


@pytest.mark.parametrize("found", NULLS)
@pytest.mark.parametrize(
    "expression", ["k", "x.k", "x | k", "l[1]", "@.k", "k || x", "absent || k", "x && k"]
)
def test_nulls_in_what_an_expression_takes_are_content(expression: str, found: object) -> None:
    """What comes out of the payload as it is may hold nulls: other contents are other keys."""
    assert select(expression, {"k": found, "x": {"k": found}, "l": [1, found]}) == found
    assert token("s", "n", None, found) != token("s", "n", None, {"a": 1})
    assert token("s", "n", found, "k") != token("s", "n", {"a": 1}, "k")


@pytest.mark.parametrize("found", NULLS)
@pytest.mark.parametrize("what", ["key", "scope"])
@pytest.mark.parametrize(
    "expression",
    [
        "[k]",
        "{k: k}",
        "[k, id] | [0]",
        "to_array(k)",
        "reverse([id, k])",
        "merge({id: id}, {k: k})",
        "powertools_json(text)",
        "[[k], [k]][]",
    ],
)
def test_nulls_in_what_an_expression_builds_are_no_key(expression: str, found: object, what: str) -> None:
    """What an expression builds is a missing part where it holds a null, at any depth."""
    payload = {"id": 1, "k": found, "text": json.dumps(found)}
    with pytest.raises(KeyMissing, match=f"a part of the {what} is missing"):
        select(expression, payload, what)


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("[id, order]", "order.lines[1].coupon"),
        ("{i: id, o: order}", "o.lines[1].coupon"),
        ("[id, order.lines]", "order.lines[1].coupon"),
        ("merge({i: id}, order)", "lines[1].coupon"),
        ("[id, absent]", "absent"),
        ("[id, to_array(absent)]", "[1][0]"),
        ("{i: id, a: x.absent}", "a"),
        ("[id, order.lines[0].absent]", "[1]"),
        ("order.[lines[0], x.y]", "x.y"),
        ("@ | [id, absent]", "absent"),
        ("[absent, id, missing]", "absent"),
        ("[id, order.lines[2:]]", "[1]"),
        ("order.lines[*].[coupon]", "[1][0]"),
    ],
)
def test_a_message_names_the_part_that_is_null(expression: str, part: str) -> None:
    """It is named by its path, or by what the expression calls it."""
    payload = {"id": 1, "order": {"lines": [{"coupon": "secret"}, {"coupon": None}]}}
    with pytest.raises(KeyMissing) as raised:
        select(expression, payload)
    assert f"selects nothing for {part} (it sees the fields: id, order)" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("k", {"a": None}),
        ("[k, absent]", [{"a": None}, None]),
        ("{t: absent}", {"t": None}),
        ("absent", None),
        ("empty", ""),
    ],
)
def test_a_fingerprint_may_be_null(expression: str, found: object) -> None:
    """What is only compared may be null, wholly or in part."""
    payload = {"k": {"a": None}, "empty": ""}
    assert select(expression, payload, "fingerprint", may_be_null=True) == found


def test_text_that_a_fingerprint_parses_must_be_there() -> None:
    """Null would make payloads equal that differ in it; a field that the text lacks is null all the same."""
    expression = "powertools_json(body).amount"
    assert select(expression, {"body": "{}"}, "fingerprint", may_be_null=True) is None
    with pytest.raises(KeyMissing, match="the fingerprint is missing"):
        select(expression, {"amount": 5}, "fingerprint", may_be_null=True)


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("order_id", "; did you mean orderId?)"),
        ("[orderId, lines.sku_]", "; did you mean lines.sku?)"),
        ("body.orderId", "; key= sees the parsed body: did you mean orderId?)"),
        ("powertools_json(body).orderId", "; key= sees the parsed body: did you mean orderId?)"),
        (
            "powertools_json(powertools_base64(data)).[orderId, lines.sku]",
            "; key= sees the parsed body: did you mean [orderId, lines.sku]?)",
        ),
        # nothing like it, nothing there either, or there and null
        ("tenant", "lines, none)"),
        ("body.order_id", "lines, none)"),
        ("lines.absent", "lines, none)"),
        ("none", "lines, none)"),
        ("order.id", "lines, none)"),
        ("[0]", "lines, none)"),
    ],
)
def test_a_message_says_what_was_meant(expression: str, hint: str) -> None:
    """Only what selects something is proposed."""
    with pytest.raises(KeyMissing) as raised:
        select(expression, {"orderId": "secret", "lines": {"sku": "secret"}, "none": None})
    assert f"{hint}; " in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_name_that_an_expression_would_quote_is_not_proposed() -> None:
    """Nor one that is cut in a message."""
    for name in ("order-id", "order_id" * 9, "orderI\u0130"):
        with pytest.raises(KeyMissing) as raised:
            select("order_id" if len(name) < 9 else name[:-1], {name: 1})
        assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ({"order": 1, "amount": "secret"}, "(it sees the fields: order, amount)"),
        ({f"f{n}": n for n in range(9)}, "(it sees the fields: f0, f1, f2, f3, f4, 4 more)"),
        ({"a\nb": 1}, "(it sees the fields: a\\nb)"),
        ({}, "(it sees the fields: none)"),
        (["secret"], "(it sees a list: the payload is not a JSON object)"),
        ("secret", "(it sees text: the payload is not a JSON object)"),
        (None, "(it sees null: the payload is not a JSON object)"),
        (5, "(it sees a value: the payload is not a JSON object)"),
    ],
)
def test_a_message_names_the_fields_of_the_payload(payload: object, named: str) -> None:
    """KeyMissing names what there is to select from, bounded and on one line, and no value."""
    for expression in ("absent", "[absent]", "powertools_base64(@)"):
        with pytest.raises(KeyMissing) as raised:
            select(expression, payload)
        assert named in str(raised.value)
        assert "secret" not in str(raised.value)
    long = {"x" * 100: 1}
    with pytest.raises(KeyMissing, match="fields: " + "x" * 64 + r"\)"):
        select("absent", long)


# -- tokens


def test_a_token_is_readable() -> None:
    """Short strings are readable, percent-encoded, between slashes."""
    assert token("orders", "create", None, "order_12345") == "orders/create/order_12345"
    assert token("orders", "create", "acme", "a/b c%") == "orders/create/acme/a%2Fb%20c%25"
    assert token("orders", "create", ("acme", "e:u"), "1") == "orders/create/acme:e%3Au/1"
    assert token("orders", "create", None, "1", "a/b") == "orders/create/a%2Fb/1"
    assert token("orders", "create", ("acme", "e:u"), "1", "t:1") == "orders/create/t%3A1/acme:e%3Au/1"


@pytest.mark.parametrize(
    ("key", "readable"),
    [
        (5, "5"),
        (5.0, "5"),
        (Decimal("5.00"), "5"),
        (Decimal("5E+2"), "500"),
        (0, "0"),
        (-0.0, "0"),
        (Decimal("-0.00"), "0"),
        (-7, "-7"),
        (-7.0, "-7"),
        (1e23, "1" + "0" * 23),
        (10**254, "1" + "0" * 254),
        (Decimal("1E+254"), "1" + "0" * 254),
        (Count.FIVE, "5"),
        (Count.FIVE.value, "5"),
    ],
)
def test_a_number_that_equals_an_integer_is_readable(key: object, readable: str) -> None:
    """However Python holds it, it is its digits: the same token as that text."""
    assert token("s", "n", None, key) == token("s", "n", None, readable) == f"s/n/{readable}"
    assert token("s", "n", key, "k") == f"s/n/{readable}/k"


@pytest.mark.parametrize(
    "key",
    [
        True,
        False,
        1.5,
        Decimal("1.50"),
        math.inf,
        math.nan,
        10**255,
        1e300,
        Decimal("1E+999999999"),
        Decimal("NaN"),
        int("12" * 32),
        ["a", "b"],
        {"a": 1},
        "x" * 256,
        "é" * 43,
        "ab" * 32,
    ],
)
def test_what_is_neither_a_short_string_nor_a_short_integer_is_digested(key: object) -> None:
    """Other numbers, lists, objects, long strings and what looks like a digest become digests."""
    assert token("s", "n", None, key) == f"s/n/{digest(key)}"


def test_the_limit_of_readable_strings() -> None:
    """255 encoded bytes are readable; a scope of several strings beyond them is digested whole."""
    assert token("s", "n", None, "x" * 255) == "s/n/" + "x" * 255
    assert token("s", "n", ("x" * 200, "y" * 55), "k") == f"s/n/{digest(['x' * 200, 'y' * 55])}/k"
    assert token("s", "n", ("x", 1), "k") == f"s/n/{digest(['x', 1])}/k"
    assert token("s", "n", ["x"], "k") == token("s", "n", "x", "k")


@pytest.mark.parametrize("empty", [None, "", [], {}, ()])
def test_empty_parts_are_refused(empty: Any) -> None:
    """No key, an empty scope or part of one is KeyMissing; an empty service, name or tenant Misconfigured."""
    with pytest.raises(KeyMissing):
        token("s", "n", None, empty)
    with pytest.raises(KeyMissing):
        token("s", "n", ("a", empty), "k")
    if empty is not None:
        with pytest.raises(KeyMissing):
            token("s", "n", empty, "k")
    if empty == "":
        with pytest.raises(Misconfigured):
            token("", "n", None, "k")
        with pytest.raises(Misconfigured):
            token("s", "", None, "k")
        with pytest.raises(Misconfigured, match="the tenant is empty"):
            token("s", "n", None, "k", "")


def test_a_key_that_cannot_be_written_is_refused() -> None:
    """An object is never a key by its address. A type is the program's fault, a cycle the payload's."""
    with pytest.raises(Misconfigured, match=r"builtins\.object"):
        token("s", "n", None, object())
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(KeyMissing, match="contains itself"):
        token("s", "n", None, cycle)


strings = st.text(st.characters(), min_size=1, max_size=300) | st.sampled_from(
    ["a", "a:b", "a/b", "%3A", digest("a")]
)
keys = strings | st.integers() | st.lists(strings, min_size=1, max_size=3) | st.booleans()
scopes = st.none() | strings | st.lists(strings, min_size=1, max_size=3)
Found = tuple[str, str, object, object, str | None]
parts = st.tuples(strings, strings, scopes, keys, st.none() | strings)


def as_one(found: Found) -> bytes:
    """
    Give the list of parts as one text, a scope of one string as that string, an integer as its digits.

    A tenant alone is as a scope of that text.
    """
    service, name, scope, key, tenant = found
    alone = scope[0] if isinstance(scope, list) and len(scope) == 1 else scope
    between = [each for each in (tenant, alone) if each is not None]
    return canonical([service, name, between, str(key) if type(key) is int else key])


@given(parts, parts)
@example(("a", "b", None, "c", None), ("a", "b/c", None, "c", None))
@example(("a", "b", "c", "d", None), ("a", "b", None, "c/d", None))
@example(("a", "b", ["c", "d"], "e", None), ("a", "b", "c:d", "e", None))
@example(("a", "b", None, ["x"], None), ("a", "b", None, digest(["x"]), None))
@example(("a", "b", ["x" * 255, "y"], "k", None), ("a", "b", digest(["x" * 255, "y"]), "k", None))
@example(("a", "b", "d", "e", "c"), ("a", "b", None, "e", "c/d"))
@example(("a", "b", "d", "e", "c"), ("a", "b", ["c", "d"], "e", None))
@example(("a", "b", "d", "e", "c"), ("a", "b", "c", "e", "d"))
@example(("a", "b", None, "e", "x" * 256), ("a", "b", None, "e", digest("x" * 256)))
@example(("a", "b", "c", "d", None), ("a", "b", None, "d", "c"))
def test_no_two_lists_of_parts_make_one_token(one: Found, other: Found) -> None:
    """Two tokens are equal exactly when all their parts are."""
    assert (token(*one) == token(*other)) == (as_one(one) == as_one(other))


@given(parts)
@example(("é" * 300, "x" * 300, ["y" * 255, "z"], "k" * 255, "t" * 255))
@example(("s" * 255, "n" * 255, "x" * 255, "k" * 255, "t" * 255))
@example(("\ud800", "\ud800" * 28, ["\udfff"], "x" * 255, "\ud800" * 256))
def test_a_token_is_short_and_plain(found: Found) -> None:
    """A token has at most 1,280 bytes, of unreserved characters, slashes, colons and percent signs."""
    assert re.fullmatch(r"[A-Za-z0-9._~%:/-]{1,1280}", token(*found))


def test_a_downstream_key_is_of_token_generation_and_label() -> None:
    """It is 64 hex, the same each time, and another for another token, generation or label."""
    key = downstream("s/n/k", "g", "charge")
    assert re.fullmatch(r"[0-9a-f]{64}", key)
    assert key == downstream("s/n/k", "g", "charge")
    others = [
        downstream("s/n/k", "g", "refund"),
        downstream("s/n/k", "h", "charge"),
        downstream("s/n/k", None, "charge"),
        downstream("s/n/k", None, "g"),
        downstream("s/n", "k/g", "charge"),
        downstream("s/n/x", "g", "charge"),
    ]
    assert len({key, *others}) == 7


@pytest.mark.parametrize(
    ("value", "nothing"), [(None, True), (b"", True), (frozenset(), True), (0, False), (0.0, False)]
)
def test_zero_is_something(value: object, nothing: bool) -> None:
    """Only None and empty text or collections are nothing."""
    assert is_nothing(value) is nothing


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("join(':', [tenant, user])", " in join(), where user is null "),
        ("join(':', [tenant, account.user, user])", " in join(), where account.user is null, user is null "),
        ("join(':', [tenant, count])", " in join(), where tenant is text, count is a number "),
        ("[tenant, join(':', [tenant, to_string(keys(user))])]", " in keys(), where user is null "),
        ("length(user)", " in length(), where user is null "),
        ("powertools_json(tenant).id", " in powertools_json(), where tenant is text "),
        ("sum(account)", " in sum(), where account is an object "),
        ("account | join('-', [name, user])", " in join(), where user is null "),
        ("lines[].join('-', [@])", " in join() "),
        ("starts_with(flag, 'a')", " in starts_with(), where flag is a boolean "),
        ("length(abs(lines))", " in abs(), where lines is an array "),
    ],
)
def test_an_expression_that_fails_names_its_part(expression: str, part: str) -> None:
    """The innermost function that fails, and what it got: paths and types, no values."""
    payload = {
        "tenant": "secret",
        "user": None,
        "count": 77,
        "account": {"name": "secret"},
        "lines": [1],
        "flag": True,
    }
    with pytest.raises(KeyMissing) as failed:
        select(expression, payload, "key")
    before = str(failed.value).partition(" (it sees")[0]
    assert re.search(rf"failed on this payload with \w+{re.escape(part.rstrip())}$", before)
    assert "secret" not in str(failed.value)
    assert "77" not in str(failed.value)


def test_one_that_succeeds_names_nothing() -> None:
    """Also where another one fails in it that is not reached."""
    assert select("user || join('-', [tenant])", {"user": 5, "tenant": None}, "key") == 5
    assert expressions.failing("join('-', [tenant])", {"tenant": "a"}) == ""
