from __future__ import annotations

import re
from pathlib import Path

import pytest

from model.check import MODEL, VIOLATED, Configuration, Result, as_table, configurations, steps_of
from tests.docs.pages import ROOT

ROWS = (MODEL / "Rows.tla").read_text(encoding="utf-8")
README = (MODEL / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "tests" / "guarantees" / "README.md").read_text(encoding="utf-8")
_NAME = re.compile(r'^ {4}"(\w+)"', re.MULTILINE)
_ROW_OF_PAGE = re.compile(r"^\| `([A-Z]\w+)` \| ((?:`[a-z_]+`(?:, )?)+) \|$", re.MULTILINE)
_ROW_OF_README = re.compile(r"^\| `([a-z_]+)` \| .+ \| `(\w+)` \|$", re.MULTILINE)

GUARDS = set(_NAME.findall(ROWS.split("Guards ==")[1].split("}")[0]))
SPARES = set(_NAME.findall(ROWS.split("Spares ==")[1].split("}")[0]))
INVARIANTS = set(
    re.findall(r"^(\w+) ==", (MODEL / "Guarantees.tla").read_text(encoding="utf-8"), re.MULTILINE)
)
WITHOUT_A_GUARD_OF_THEIR_NAME = {"seen", "limit_skew"}
VARIANTS, ALL_SPARES, TWINS = (configurations([kind]) for kind in ("variants", "spares", "twins"))

VIOLATION = """\
Error: Invariant OneHolder is violated.
Error: The behavior up to this point is:
State 1: <Initial predicate>
/\\ now = 0
/\\ pc = (p1 :> "idle" @@
  p2 :> "idle")

State 2: <Tick line 296, col 5 to line 299, col 90 of module Tokens>
/\\ now = 1
/\\ pc = (p1 :> "idle" @@
  p2 :> "idle")

13 states generated, 7 distinct states found, 1 states left on queue.
Finished in 01min 05s at (2026-01-01 00:00:00)
"""


def test_every_guard_has_a_twin_that_drops_it_alone() -> None:
    """The file is named for the guard, and drops nothing else."""
    twins = {twin.path.stem: twin.dropped for twin in TWINS}
    assert {guard: twins.get(guard) for guard in GUARDS} == {guard: [guard] for guard in GUARDS}
    assert set(twins) - GUARDS == WITHOUT_A_GUARD_OF_THEIR_NAME


def test_every_spare_condition_is_dropped_alone() -> None:
    """And what is spare is no guard."""
    assert {spare.path.stem: spare.dropped for spare in ALL_SPARES} == {name: [name] for name in SPARES}
    assert not GUARDS & SPARES


@pytest.mark.parametrize("configuration", [*VARIANTS, *ALL_SPARES], ids=lambda found: str(found.name))
def test_what_must_hold_is_checked_whole(configuration: Configuration) -> None:
    """Variants and spares check every invariant that there is, each once."""
    assert sorted(configuration.invariants) == sorted(INVARIANTS)


def test_variants_drop_nothing() -> None:
    """A variant without a guard would be a twin."""
    assert [variant.name for variant in VARIANTS if variant.dropped] == []
    assert len(VARIANTS) > 5


def test_a_twin_is_its_variant_but_for_the_guard() -> None:
    """Its constants are those of the variant that it names, so that the guard alone makes the difference."""
    strangers = []
    for twin in TWINS:
        text = twin.path.read_text(encoding="utf-8")
        named = re.match(r"\\\* Variant (\w+) with", text)
        assert named is not None, twin.name
        variant = (MODEL / "variants" / f"{named[1]}.cfg").read_text(encoding="utf-8")
        if _differing(text) != _differing(variant) and twin.path.stem != "limit_skew":
            strangers.append(twin.name)
    assert strangers == []


def _differing(text: str) -> list[str]:
    """Return the constants of *text* but for the guards that it drops."""
    constants = text.partition("CONSTANTS")[2].partition("INVARIANTS")[0]
    return [line for line in constants.splitlines() if "Dropped" not in line]


def test_the_guarantees_name_every_invariant_and_every_guard() -> None:
    """Beside each invariant are the twins that break it, and all of them."""
    named: dict[str, set[str]] = {}
    for invariant, guards in _ROW_OF_PAGE.findall(PAGE):
        named.setdefault(invariant, set()).update(re.findall(r"`(\w+)`", guards))
    found: dict[str, set[str]] = {}
    for twin in TWINS:
        if twin.dropped:
            (invariant,) = twin.invariants
            found.setdefault(invariant, set()).add(twin.path.stem)
    assert named == found
    assert set(named) == INVARIANTS


def test_each_guarantee_names_its_invariant() -> None:
    """Every section has the table but seven: of one caller and name, and no deadline, result, log, asker."""
    sections = re.split(r"^## (?=\d+\. )", PAGE, flags=re.MULTILINE)[1:]
    without = {section.partition(".")[0] for section in sections if not _ROW_OF_PAGE.search(section)}
    assert {"9"} <= without <= {"9", "11", "12", "13", "14", "15", "16"}


def test_the_readme_has_every_guard_and_what_breaks() -> None:
    """Its table is what the twins are configured for."""
    expected = {guard: [invariant] for guard, invariant in _ROW_OF_README.findall(README)}
    assert expected == {twin.path.stem: twin.invariants for twin in TWINS if twin.path.stem in GUARDS}


def test_the_readme_has_every_variant() -> None:
    """With what happens in it."""
    assert [variant.name for variant in VARIANTS if f"| `{variant.path.stem}` |" not in README] == []


def _result(kind: str, name: str, status: int, output: str) -> Result:
    return Result(Configuration(MODEL / kind / f"{name}.cfg"), status, output)


@pytest.mark.parametrize(
    ("kind", "name", "status", "output", "wanted"),
    [
        ("variants", "take_over", 0, "", True),
        ("variants", "take_over", VIOLATED, VIOLATION, False),
        ("variants", "take_over", 75, "", False),
        ("twins", "lapsed", VIOLATED, VIOLATION, True),
        ("twins", "lapsed", 0, "", False),
        ("twins", "lapsed", 75, VIOLATION, False),
        ("twins", "ghost", VIOLATED, VIOLATION, False),
    ],
)
def test_a_result_is_wanted_or_not(kind: str, name: str, status: int, output: str, *, wanted: bool) -> None:
    """A twin must break its own invariant, everything else none; a crash of TLC is neither."""
    assert _result(kind, name, status, output).as_wanted is wanted


def test_the_output_of_tlc_is_read() -> None:
    """The invariant, the states, the time and the steps."""
    result = _result("twins", "lapsed", VIOLATED, VIOLATION)
    assert (result.violated, result.states, result.seconds, result.steps) == ("OneHolder", 7, 65, 1)
    assert as_table([result]).row_count == 1


def test_a_counterexample_shows_what_changed() -> None:
    """The first step has all variables, each on one line; the others only what is new in them."""
    first, second = steps_of(VIOLATION)
    assert first == ("Initial", {"now": "0", "pc": '(p1 :> "idle" @@ p2 :> "idle")'})
    assert second == ("Tick", {"now": "1"})


def test_the_checker_finds_the_configurations() -> None:
    """Each file lies in one of the folders that it knows."""
    known = {configuration.path for configuration in configurations()}
    assert known == set(Path(MODEL).rglob("*.cfg"))
