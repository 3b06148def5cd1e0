"""One attribute with a timestamp of its own, as examples/patterns/attribute.py sets it, on an engine."""

from __future__ import annotations

import ast
from contextlib import suppress
from itertools import permutations
from typing import TYPE_CHECKING, Any

from lambda_once.patterns.ratchet import Ratchet
from lambda_once.testing import FakeClock
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.patterns.conftest import Ground

CHANGES = (("price", 249, 5), ("price", 259, 5), ("price", 9, 4), ("stock", 7, 3))
TIE = " OR (#at = :at AND #name <= :value)"


def recipe(ground: Ground, table: str, *, but: str = "") -> Callable[..., None]:
    """Return the example's function for *table*, its condition without *but*."""
    text = (ROOT / "examples" / "patterns" / "attribute.py").read_text(encoding="utf-8")
    (function,) = (each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef))
    source = ast.unparse(function)
    assert but in source
    names: dict[str, Any] = {"client": ground.client, "suppress": suppress}
    exec(source.replace("'offers'", repr(table)).replace("'offer'", "'pk'").replace(but, ""), names)
    found: Callable[..., None] = names["set_newest"]
    return found


def ends(ground: Ground, *, but: str = "") -> set[tuple[tuple[str, str], ...]]:
    """Return the items that the permutations of `CHANGES` end in."""
    table = ground.table()
    set_newest = recipe(ground, table, but=but)
    for n, order in enumerate(permutations(CHANGES)):
        for change in (*order, order[0]):
            set_newest(f"offer {n}", *change)
    items = ground.client.scan(TableName=table, ConsistentRead=True)["Items"]
    assert len(items) == 24
    return {tuple(sorted((name, each["N"]) for name, each in item.items() if name != "pk")) for item in items}


def test_every_order_of_updates_ends_in_one_item(ground: Ground) -> None:
    """Two values of one time, an older one, another attribute, and a repetition."""
    assert ends(ground) == {(("price", "259"), ("priceAt", "5"), ("stock", "7"), ("stockAt", "3"))}


def test_without_the_rule_for_one_time_the_order_decides(ground: Ground) -> None:
    """Negative twin: the first of two values of one time stays."""
    assert len(ends(ground, but=TIE)) == 2


def test_a_put_of_the_item_makes_an_older_update_new(ground: Ground) -> None:
    """Why a ratchet must not write that item: put and update end differently in two orders."""
    table, found = ground.table(), []
    ratchet, set_newest = Ratchet(table, ground.client, clock=FakeClock(), ahead=None), recipe(ground, table)
    for n, updates in enumerate(((7, 5), (5, 7))):
        set_newest(f"offer {n}", "stock", updates[0], updates[0])
        ratchet.put({"pk": f"offer {n}", "title": "desk"}, 1)
        set_newest(f"offer {n}", "stock", updates[1], updates[1])
        found.append((ratchet.get({"pk": f"offer {n}"}) or {}).get("stock"))
    assert found == [5, 7]
