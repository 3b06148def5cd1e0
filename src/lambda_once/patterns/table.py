"""A pattern's table: its key attributes, and its names for the attributes that the pattern writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Self

from lambda_once.dynamodb import Item, Values, typed_item
from lambda_once.errors import Misconfigured

KEY_LIMITS: Final = (2_048, 1_024)
"""Bytes of a partition key and of a sort key (DynamoDB developer guide, "Quotas")."""
KeyValue = str | bytes | int | Decimal

LONGEST_NAME: Final = 255
"""Bytes of an attribute's name in an expression (DynamoDB developer guide, "Quotas")."""


@dataclass(frozen=True, slots=True)
class PatternTable:
    """A table as one pattern uses it."""

    name: str
    key: tuple[str, ...]
    own: Mapping[str, str]
    """The names of the pattern's own attributes in this table, by their default names."""
    taken: frozenset[str]
    """The names of the key and of the pattern's own attributes."""

    @classmethod
    def of(cls, name: str, key: object, own: Mapping[str, str], renames: Sequence[str] = ()) -> Self:
        """Return the table. *renames* are the names that ``names=`` may change. Raises `Misconfigured`."""
        if not name:
            raise Misconfigured(f"table {name!r}: give the name of a table")
        keys = key_names(key)
        check_different([*keys, *own.values()], renames)
        return cls(name, keys, own, frozenset((*keys, *own.values())))

    def key_of(self, values: Mapping[str, object]) -> Values:
        """Return the key attributes of *values*. Raises `Misconfigured` if one is missing or invalid."""
        if not isinstance(values, Mapping):
            raise Misconfigured(f"give a mapping of attributes, not a {type(values).__name__}")
        for name in self.key:
            if name not in values:
                raise Misconfigured(f"key attribute {name!r} is missing: the key is {', '.join(self.key)}")
        return checked_key({name: values[name] for name in self.key})

    def just_key(self, values: Mapping[str, object]) -> Values:
        """Return *values* as a key. Raises `Misconfigured` also for attributes that are not in the key."""
        key = self.key_of(values)
        if extra := sorted(map(str, values.keys() - key.keys())):
            raise Misconfigured(f"{', '.join(extra)}: not in the key, which is {', '.join(self.key)}")
        return key

    def key_item(self, values: Mapping[str, object]) -> Item:
        """Return `just_key` as an item."""
        return typed_item(self.just_key(values))

    def named(self, own: Item) -> Item:
        """Return the pattern's own attributes with their names in this table."""
        return {self.own[usual]: each for usual, each in own.items()}

    def own_of(self, item: Mapping[str, Any]) -> Item:
        """Return the pattern's own attributes of *item* by their default names."""
        return {usual: item[name] for usual, name in self.own.items() if name in item}


def key_names(key: object) -> tuple[str, ...]:
    """Return the names of the key attributes. Raises `Misconfigured`."""
    names = (key,) if isinstance(key, str) else key
    if (
        not isinstance(names, tuple | list)
        or len(names) not in (1, 2)
        or not all(isinstance(name, str) and 1 <= len(_encoded(name)) <= LONGEST_NAME for name in names)
        or len({*names}) != len(names)
    ):
        raise Misconfigured(f"key={key!r}: name one or two attributes that differ, partition key first")
    return tuple(names)


def checked_key(key: Mapping[str, object]) -> Values:
    """Return *key*, partition key first. Raises `Misconfigured` for a value that cannot be a key."""
    for (name, value), limit in zip(key.items(), KEY_LIMITS, strict=False):
        wanted = "give text, bytes or a number that is not empty"
        if isinstance(value, bool) or not isinstance(value, str | bytes | int | Decimal):
            raise Misconfigured(f"key attribute {name!r} is a {type(value).__name__}: {wanted}")
        size = 1 if isinstance(value, int | Decimal) else len(_encoded(value))
        if size == 0:
            raise Misconfigured(f"key attribute {name!r} is empty: {wanted}")
        if size > limit:
            raise Misconfigured(
                f"key attribute {name!r} has {size} bytes, and DynamoDB takes {limit}: use a digest as key"
            )
    return dict(key)


def own_names(given: object, own: Sequence[str]) -> dict[str, str]:
    """Return the name in the table of each of *own*, a pattern's attributes; *given* is ``names=``."""
    if not isinstance(given, Mapping | None):
        raise Misconfigured(f"names={given!r}: give a mapping of {', '.join(own)}")
    wanted = {} if given is None else given
    if strange := [each for each in wanted if each not in own]:
        raise Misconfigured(f"names: the pattern writes no {strange[0]!r}, but {', '.join(own)}")
    names = {each: wanted.get(each, each) for each in own}
    check_different(names.values(), own)
    return names


def check_different(names: Iterable[object], renames: Sequence[str]) -> None:
    """Raise `Misconfigured` if one of *names* is used twice or is not text."""
    used: set[str] = set()
    for name in names:
        if not isinstance(name, str) or name == "" or name in used:
            message = f"attribute {name!r}: names are text and must differ, the key's too"
            if renames:
                message += f"; names= gives other names to {', '.join(renames)}"
            raise Misconfigured(message)
        used.add(name)


def _encoded(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
