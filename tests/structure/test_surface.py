"""The public surface is the one that is committed: a change of it says whether it breaks users."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once import Once, settings
from tests import surface

COMMITTED = surface.COMMITTED.read_text(encoding="utf-8").splitlines()
HOW = """
To keep it: put back what is gone, a name as an alias that warns, an event, field or metric beside the new one
(docs/versioning.md, deprecation).
To change it: `make surface`, and a line in CHANGELOG.md."""
WITH_ONE_PARAMETER = ["parameter lambda_once.f(a) at 1 required"]


def _complaint(committed: list[str], found: list[str]) -> str:
    breaking, new = surface.changes(committed, found)
    return "".join(
        (
            *("A major version (before 1.0 a minor one), under Changed or Removed:\n" if breaking else "",),
            *(f"  {line}\n" for line in breaking),
            *("A minor version, under Added:\n" if new else "",),
            *(f"  {line}\n" for line in new),
        )
    )


def test_the_surface_is_the_committed_one() -> None:
    """A name, an option, a default, an event, a metric, a command, a JSON name: a change is seen here."""
    complaint = _complaint(COMMITTED, surface.surface())
    assert not complaint, f"The public surface has changed.\n{complaint}{HOW}"


@pytest.mark.parametrize(
    ("found", "breaking", "new"),
    [
        (WITH_ONE_PARAMETER, [], []),
        ([], WITH_ONE_PARAMETER, []),
        (["parameter lambda_once.f(a) at 1"], [], ["parameter lambda_once.f(a) at 1"]),
        (
            [*WITH_ONE_PARAMETER, "parameter lambda_once.f(b) by keyword required"],
            ["parameter lambda_once.f(b) by keyword required"],
            [],
        ),
        (
            [*WITH_ONE_PARAMETER, "parameter lambda_once.f(b) by keyword"],
            [],
            ["parameter lambda_once.f(b) by keyword"],
        ),
        (
            [*WITH_ONE_PARAMETER, "name lambda_once.g", "parameter lambda_once.g(a) at 1 required"],
            [],
            ["name lambda_once.g", "parameter lambda_once.g(a) at 1 required"],
        ),
        (
            ["parameter lambda_once.f(a) at 2 required"],
            [*WITH_ONE_PARAMETER, "parameter lambda_once.f(a) at 2 required"],
            [],
        ),
    ],
    ids=["nothing", "gone", "optional now", "new and required", "new", "required of what is new", "moved"],
)
def test_what_breaks_is_distinguished_from_what_is_new(
    found: list[str], breaking: list[str], new: list[str]
) -> None:
    """Gone, moved, or required of what was there: these break callers."""
    assert surface.changes(WITH_ONE_PARAMETER, found) == (breaking, new)


def test_the_complaint_names_the_version_and_each_line() -> None:
    """What breaks comes first."""
    complaint = _complaint(["metric held counts once.held"], ["metric heldTokens counts once.held"])
    assert complaint == (
        "A major version (before 1.0 a minor one), under Changed or Removed:\n"
        "  metric held counts once.held\n"
        "A minor version, under Added:\n"
        "  metric heldTokens counts once.held\n"
    )


def test_a_new_option_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options are those that a decorator itself names."""
    before, real = surface.surface(), settings.options_of
    monkeypatch.setattr(
        settings,
        "options_of",
        lambda where: real(where) | ({"retries"} if where is settings.Where.QUEUE else frozenset()),
    )
    assert (
        _complaint(before, surface.surface())
        == "A minor version, under Added:\n  option once.sqs(retries=)\n"
    )


@pytest.mark.parametrize("name", surface.DECORATORS)
def test_a_decorator_names_its_options(name: str) -> None:
    """At least those of a key."""
    found = {line for line in surface.surface() if line.startswith(f"option once.{name}(")}
    assert {f"option once.{name}({option}=)" for option in ("key", "scope", "name", "keep")} <= found


def test_no_public_name_of_once_is_left_out() -> None:
    """What's no decorator has a signature that pins its options."""
    public: set[Any] = {name for name in dir(Once) if not name.startswith("_")}
    with_signatures = {"begin", "execution", "run", "route", "invocation", "current"} | {
        "outcome",
        "aoutcome",
    }
    assert public == {*surface.DECORATORS} | with_signatures
