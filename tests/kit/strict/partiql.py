"""The two PartiQL statements that are sent: an INSERT of one item, and a conditional UPDATE of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.kit.strict.expressions import Reader
from tests.kit.strict.items import normal
from tests.kit.strict.tables import RESERVED, Key, Refusal, Table, check_condition, check_update, updated
from tests.kit.strict.trees import (
    Attribute,
    Bound,
    Compare,
    Condition,
    Every,
    Invalid,
    Item,
    Name,
    Operand,
    Update,
    Value,
    holds,
)


@dataclass(frozen=True, slots=True)
class Insert:
    """A new item; an existing one refuses it."""

    table: Table
    key: Key
    item: Item


@dataclass(frozen=True, slots=True)
class Change:
    """An update of one item that is there, where *condition* holds."""

    table: Table
    key: Key
    update: Update
    condition: Condition
    bound: Bound


@dataclass(frozen=True, slots=True)
class Text:
    """A statement as it was read: an INSERT has *update*'s sets alone, an UPDATE a condition, too."""

    table: str
    update: Update
    condition: Condition | None
    marks: int
    names: frozenset[str]


def prepared(statement: Mapping[str, Any], tables: Mapping[str, Table]) -> Insert | Change:
    """Return what *statement* does. Raises `Invalid` for what is refused without a look at the item."""
    text = read_statement(statement["Statement"])
    given = statement.get("Parameters", [])
    if len(given) != text.marks:
        raise Invalid("number of parameters in request and statement don't match")
    if text.table not in tables:
        raise Invalid("resource not found")
    table = tables[text.table]
    bound = Bound({}, {f"?{n}": normal(value) for n, value in enumerate(given)})
    if text.condition is None:
        values = {bound.name(name): _given(operand, bound) for name, operand in text.update.sets}
        if len(values) < len(text.update.sets):
            raise Invalid("an attribute is there twice")
        item = table.checked(values)
        return Insert(table, table.key_of(item), item)
    check_update(table, text.update, bound)
    check_condition(text.condition, bound)
    return Change(table, _key(text.condition, table, bound), text.update, text.condition, bound)


def written(statement: Insert | Change, before: Item | None) -> Item:
    """Return the item after *statement*. Raises `Refusal`."""
    if isinstance(statement, Insert):
        if before is not None:
            raise Refusal
        return statement.item
    if before is None or not holds(statement.condition, before, statement.bound):
        raise Refusal
    return updated(statement.table, statement.key, before, statement.update, statement.bound)


@lru_cache(maxsize=4096)
def read_statement(text: str) -> Text:
    """Read an INSERT or an UPDATE. Raises `Invalid`."""
    reader = Reader(text, literals=True)
    if reader.takes("INSERT", "INTO"):
        table, update, condition = _table(reader), _inserted(reader), None
    else:
        reader.needs("UPDATE")
        table, update = _table(reader), _changed(reader)
        reader.needs("WHERE")
        condition = reader.condition()
    reader.ends()
    if reader.values or any(name.lower() in RESERVED or name.startswith("#") for name in reader.names):
        raise Invalid("the statement has a reserved word, or a placeholder of another language")
    return Text(table, update, condition, reader.marks, frozenset(reader.names))


def _table(reader: Reader) -> str:
    return reader.next().strip('"')


def _inserted(reader: Reader) -> Update:
    reader.needs("VALUE")
    reader.needs("{")
    sets: list[tuple[Name, Operand]] = []
    while not sets or reader.takes(","):
        name = reader.next()
        if not name.startswith("'"):
            raise Invalid(f"{name} is no attribute name in quotes")
        reader.needs(":")
        sets.append((Name(f'"{name[1:-1]}"'), reader.operand()))
    reader.needs("}")
    return Update(tuple(sets))


def _changed(reader: Reader) -> Update:
    sets: list[tuple[Name, Operand]] = []
    removes: list[Name] = []
    while True:
        if reader.takes("SET"):
            sets.append(reader.assignment())
            while reader.takes(","):
                sets.append(reader.assignment())
        elif reader.takes("REMOVE"):
            removes.append(reader.name())
        elif sets or removes:
            return Update(tuple(sets), tuple(removes))
        else:
            raise Invalid("an UPDATE changes something")


def _key(condition: Condition, table: Table, bound: Bound) -> Key:
    parts = condition.parts if isinstance(condition, Every) else (condition,)
    found: Item = {}
    for part in parts:
        match part:
            case Compare(Name() as name, "=", right) if bound.name(name) in table.keys:
                found.setdefault(bound.name(name), _given(right, bound))
    if len(found) < len(table.keys):
        raise Invalid("where clause does not contain a mandatory equality on all key attributes")
    return table.key_of(found)


def _given(operand: Operand, bound: Bound) -> Attribute:
    if not isinstance(operand, Value):
        raise Invalid("a parameter was expected")
    return bound.values[operand.place]
