"""Rows that this package did not write: `Misconfigured` names the token and the attribute."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.errors import Misconfigured
from lambda_once.stores.row import indexed, listed, part_of, record_of

AT = {"S": "2026-11-20T10:12:00.000Z"}
DECISION = {
    "kind": "person",
    "by": "ann",
    "because": "x",
    "before": "error",
    "how": "done",
    "attempt": "a1",
    "caller": "arn:aws:iam::123456789012:user/ann",
}
ROW: dict[str, Any] = {
    "lockToken": {"S": "orders/charge/7"},
    "lockedBy": {"S": "orders/r-1"},
    "attempt": {"S": "a1"},
    "fence": {"N": "1"},
    "created": AT,
    "expectedCompletion": AT,
    "actualCompletion": AT,
    "delivery": {"S": "m-1"},
    "fingerprint": {"S": "1.f"},
    "fields": {"S": "00016162"},
    "caller": {"S": "a1.c"},
    "trace": {"S": "00-5b-6c-01"},
    "ttl": {"N": "1796379120"},
    "result": {"S": "7"},
    "write": {"S": "w-1"},
    "error": {"M": {"kind": {"S": "ValueError"}, "message": {"S": "no"}}},
    "decisions": {
        "L": [
            {
                "M": {
                    **{name: {"S": text} for name, text in DECISION.items()},
                    "at": AT,
                    "times": {"N": "1"},
                }
            }
        ]
    },
}
OPTIONAL = (
    "actualCompletion",
    "delivery",
    "fingerprint",
    "fields",
    "caller",
    "trace",
    "ttl",
    "result",
    "write",
    "error",
)
WRONG: dict[str, Any] = {
    "a set": {"SS": ["a"]},
    "a map": {"M": {"x": {"S": "y"}}},
    "a boolean": {"BOOL": True},
    "nothing": {"NULL": True},
    "a list": {"L": []},
    "an empty map": {},
}


def _is_named(attribute: str, row: dict[str, Any]) -> None:
    with pytest.raises(
        Misconfigured, match=f"orders/charge/7 .*: {attribute} is missing or malformed"
    ) as raised:
        record_of(row)
    assert raised.value.token == "orders/charge/7"


def test_a_sound_row_is_read() -> None:
    """The row that the others are made of has nothing wrong with it."""
    assert record_of(ROW).token == "orders/charge/7"


@pytest.mark.parametrize("attribute", [name for name in ROW if name != "lockToken"])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_an_attribute_of_another_type(attribute: str, wrong: dict[str, Any]) -> None:
    """For each attribute, and each wrong value."""
    legal = {"error": "a map", "decisions": "a list"}.get(attribute)
    if legal is None or wrong != WRONG[legal]:
        _is_named(attribute, ROW | {attribute: wrong})
    _is_named(attribute, ROW | {attribute: {"M": {"kind": {"S": "x"}, "by": {"N": "1"}}}})


@pytest.mark.parametrize("name", [*DECISION, "at", "times"])
def test_a_decision_with_another_type(name: str) -> None:
    """Each attribute of an entry."""
    entry = ROW["decisions"]["L"][0]["M"] | {name: {"BOOL": True}}
    _is_named("decisions", ROW | {"decisions": {"L": [{"M": entry}]}})


@pytest.mark.parametrize(
    ("attribute", "wrong"),
    [
        ("fence", {"N": "1.5"}),
        ("ttl", {"N": "1E+3"}),
        ("created", {"S": "yesterday"}),
        ("status", {"S": "done"}),
        ("result", {"N": "7"}),
        ("write", {"S": ""}),
        ("caller", {"S": ""}),
        ("caller", {"S": "a1"}),
        ("caller", {"S": ".c"}),
        ("caller", {"S": "a1."}),
    ],
)
def test_an_attribute_of_another_form(attribute: str, wrong: dict[str, Any]) -> None:
    """The right type, with a value in it that the library never writes."""
    _is_named(attribute, ROW | {attribute: wrong})


@pytest.mark.parametrize("count", ["0", "-1", "41", "1000000000", "x"])
def test_a_number_of_parts_that_no_result_has(count: str) -> None:
    """Parts are not asked for by the million because a row says so."""
    _is_named(
        "parts", {name: each for name, each in ROW.items() if name != "result"} | {"parts": {"N": count}}
    )


def test_a_row_without_a_name() -> None:
    """Where even the token is malformed, its absence is said."""
    with pytest.raises(Misconfigured, match=r"token None .*: lockToken is missing"):
        record_of(ROW | {"lockToken": {"N": "1"}})


@pytest.mark.parametrize("attribute", ["attempt", "lockedBy", "created", "expectedCompletion", "listed"])
def test_an_entry_of_the_index(attribute: str) -> None:
    """It names the attribute that the index lacks, or that is not ours."""
    entry = {name: each for name, each in ROW.items() if name not in OPTIONAL} | {
        "listed": {"S": listed(State.IN_PROGRESS, "orders/charge/7")}
    }
    assert indexed(entry).record.state is State.IN_PROGRESS
    with pytest.raises(Misconfigured, match=f"orders/charge/7: {attribute} is missing or malformed"):
        indexed(entry | {attribute: {"BOOL": True}})
    for wrong in ("inProgress", "inProgress_x", "inProgress_8", "progress_1"):
        with pytest.raises(Misconfigured, match="listed is missing or malformed"):
            indexed(entry | {"listed": {"S": wrong}})


def test_a_part() -> None:
    """A part that holds no bytes is not taken for one."""
    key = {"lockToken": {"S": "orders/charge/7#a1#0"}}
    assert part_of(key | {"data": {"B": b"x"}}) == b"x"
    for wrong in (key, key | {"data": {"S": "x"}}, key | {"data": {"B": None}}):
        with pytest.raises(
            Misconfigured, match=r"part orders/charge/7#a1#0 of a result .* data is malformed"
        ):
            part_of(wrong)
