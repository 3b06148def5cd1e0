"""LAMBDA_ONCE_* variables have one meaning, whoever reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lambda_once_tools
from lambda_once.core import variables
from lambda_once.core.variables import (
    OF_FUNCTIONS,
    OF_OTHERS,
    OF_WATCHDOG,
    Listing,
    boolean,
    configured_listing,
    whole,
)
from lambda_once.errors import Misconfigured

SOURCES = (Path(variables.__file__).parents[1], Path(lambda_once_tools.__file__).parent)
NAME = "LAMBDA_ONCE_WATCHDOG_SWEEP"
ROWS = "LAMBDA_ONCE_WATCHDOG_ROWS"


@pytest.mark.parametrize(
    ("value", "meaning"),
    [("", None), (" \n", None)]
    + [(each, True) for each in ("true", "True", "yes", "on", "1", "true ", "\tYES\n")]
    + [(each, False) for each in ("false", "No", "off", "0", " f ")],
)
def test_words_in_any_case_and_with_blanks(value: str, meaning: bool | None) -> None:
    """An empty value is none, as one of blanks."""
    assert boolean(NAME, value) is meaning


@pytest.mark.parametrize(("value", "number"), [("", None), (" ", None), ("7", 7), (" 7\n", 7), ("007", 7)])
def test_whole_numbers(value: str, number: int | None) -> None:
    """Zero is a number where it is allowed."""
    assert whole(ROWS, value) == number
    assert whole("LAMBDA_ONCE_WATCHDOG_TIMES", "0") == 0


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x", "7 8", "٣", "9" * 10, "9" * 5_000])
def test_an_impossible_number_is_named_with_its_bounds(value: str) -> None:
    """The message has the variable, its value and what to write."""
    with pytest.raises(Misconfigured, match=f"^{ROWS} is .*: give a whole number, 1 to 999999999$"):
        whole(ROWS, value)


def test_an_impossible_word_is_named() -> None:
    """Every time: a refusal is not remembered as a value."""
    for _ in range(2):
        with pytest.raises(Misconfigured, match=f"^{NAME} is 'ture': set it to true or false, or unset it$"):
            boolean(NAME, "ture ")


def test_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable, which a template's parameter may set, is none; another word is refused."""
    monkeypatch.delenv("LAMBDA_ONCE_LISTING", raising=False)
    assert configured_listing() is None
    for given, meant in {"": None, " ": None, " stream ": Listing.STREAM, "at_once": Listing.AT_ONCE}.items():
        monkeypatch.setenv("LAMBDA_ONCE_LISTING", given)
        assert configured_listing() is meant
    for wrong in ("Stream", "at once", "true"):
        monkeypatch.setenv("LAMBDA_ONCE_LISTING", wrong)
        with pytest.raises(
            Misconfigured, match=f"^LAMBDA_ONCE_LISTING={wrong} is unknown: use at_once or stream$"
        ):
            configured_listing()


def test_every_variable_that_is_read_is_known() -> None:
    """What the package reads has a parser here, and nothing else has one."""
    known = {*OF_FUNCTIONS, *OF_WATCHDOG, *OF_OTHERS}
    texts = [path.read_text(encoding="utf-8") for each in SOURCES for path in each.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"\bLAMBDA_ONCE_[A-Z_]*[A-Z]\b", text)}
    composed = {f"LAMBDA_ONCE_DOCUMENTS_{each}" for each in ("KEY", "SORT", "PREFIX")}
    assert named | composed == known
