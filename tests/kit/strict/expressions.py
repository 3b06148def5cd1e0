"""Reads DynamoDB's condition and update expressions, and the parts they share with PartiQL, into trees."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from tests.kit.strict.trees import (
    BeginsWith,
    Between,
    Compare,
    Condition,
    Contains,
    Every,
    Exists,
    IfNotExists,
    Invalid,
    Literal,
    Name,
    Negated,
    Operand,
    Size,
    Some,
    Sum,
    Typed,
    Update,
    Value,
)

_TOKENS = re.compile(
    r"""\s*(?:(?P<token>[#:][A-Za-z0-9_]+|"[^"]*"|'[^']*'|<=|>=|<>|[A-Za-z_][A-Za-z0-9_]*|[-=<>()+,?{}:])|$)""",
)
_COMPARATORS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class Reader:
    """Goes through a text token by token; whatever it does not expect is `Invalid`."""

    text: str
    literals: bool = False
    """Whether texts may be in quotes, as in PartiQL."""
    tokens: list[str] = field(init=False)
    at: int = 0
    marks: int = 0
    """How many ``?`` were read."""
    names: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.tokens = []
        position = 0
        while position < len(self.text.rstrip()):
            found = _TOKENS.match(self.text, position)
            if found is None or found["token"] is None:
                raise Invalid(f"syntax error at {self.text[position:]!r}")
            self.tokens.append(found["token"])
            position = found.end()

    def peek(self, ahead: int = 0) -> str:
        """Return a token that is to come; nothing at the end."""
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        if not token:
            raise Invalid("the expression ends too early")
        self.at += 1
        return token

    def sees(self, *words: str) -> bool:
        """Tell whether the next tokens are *words*, in any case."""
        return all(self.peek(n).upper() == word for n, word in enumerate(words))

    def takes(self, *words: str) -> bool:
        """Go past *words* where they come next."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def needs(self, *words: str) -> None:
        if not self.takes(*words):
            raise Invalid(f"{' '.join(words)} was expected at {self.peek()!r}")

    def ends(self) -> None:
        if self.peek():
            raise Invalid(f"{self.peek()!r} was not expected")

    # ---------------------------------------------------------------- operands

    def name(self) -> Name:
        token = self.next()
        if not (token[0] in '#"' or _WORD.fullmatch(token)):
            raise Invalid(f"{token!r} is no attribute")
        self.names.add(token)
        return Name(token)

    def operand(self) -> Operand:
        token = self.peek()
        if token == "?":
            self.next()
            self.marks += 1
            return Value(f"?{self.marks - 1}")
        if self.literals and token.startswith("'"):
            return Literal(self.next()[1:-1])
        if token.startswith(":"):
            self.values.add(self.next())
            return Value(token)
        if token == "if_not_exists" and self.peek(1) == "(":
            self.at += 2
            name = self.name()
            self.needs(",")
            default = self.operand()
            self.needs(")")
            return IfNotExists(name, default)
        if token == "size" and self.peek(1) == "(":
            self.at += 2
            name = self.name()
            self.needs(")")
            return Size(name)
        return self.name()

    def sum(self) -> Operand:
        left = self.operand()
        if self.peek() in ("+", "-"):
            return Sum(left, self.next(), self.operand())
        return left

    # ---------------------------------------------------------------- conditions

    def condition(self) -> Condition:
        parts = [self._every()]
        while self.takes("OR"):
            parts.append(self._every())
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _every(self) -> Condition:
        parts = [self._single()]
        while self.takes("AND"):
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _single(self) -> Condition:
        if self.takes("NOT"):
            return Negated(self._single())
        if self.takes("("):
            redundant = self.peek() == "(" and self._closes_at(self.at) == self._closes_at(self.at - 1) - 1
            if redundant:
                raise Invalid("the expression has redundant parentheses")
            inner = self.condition()
            self.needs(")")
            return inner
        if self.peek(1) == "(" and self.peek() != "size":
            return self._function(self.next())
        left = self.operand()
        if isinstance(left, Name) and self.takes("IS"):
            wanted = self.takes("NOT")
            self.needs("MISSING")
            return Exists(left, wanted)
        by = self.next()
        if by.upper() == "BETWEEN":
            lowest = self.operand()
            self.needs("AND")
            return Between(left, lowest, self.operand())
        if by not in _COMPARATORS:
            raise Invalid(f"{by!r} is no comparator")
        return Compare(left, by, self.operand())

    def _closes_at(self, opening: int) -> int:
        depth = 0
        for position in range(opening, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.tokens[position], 0)
            if depth == 0:
                return position
        raise Invalid("a parenthesis is not closed")

    def _function(self, name: str) -> Condition:
        self.needs("(")
        found: Condition
        if name in ("attribute_exists", "attribute_not_exists"):
            found = Exists(self.name(), name == "attribute_exists")
        elif name == "attribute_type":
            typed = self.name()
            self.needs(",")
            found = Typed(typed, self.operand())
        elif name == "begins_with":
            left = self.operand()
            self.needs(",")
            found = BeginsWith(left, self.operand())
        elif name == "contains":
            whole = self.operand()
            self.needs(",")
            found = Contains(whole, self.operand())
        else:
            raise Invalid(f"there is no function {name}")
        self.needs(")")
        return found

    # ---------------------------------------------------------------- updates

    def update(self) -> Update:
        sets: list[tuple[Name, Operand]] = []
        removes: list[Name] = []
        adds: list[tuple[Name, Value]] = []
        clauses: dict[str, Callable[[], None]] = {
            "SET": lambda: sets.append(self.assignment()),
            "REMOVE": lambda: removes.append(self.name()),
            "ADD": lambda: adds.append(self.addition()),
        }
        while self.peek():
            clause = self.next().upper()
            if clause not in clauses:
                raise Invalid(f"{clause} was not expected")
            self._listed(clauses.pop(clause))
        if len(clauses) == len(("SET", "REMOVE", "ADD")):
            raise Invalid("the expression can not be empty")
        return Update(tuple(sets), tuple(removes), tuple(adds))

    def addition(self) -> tuple[Name, Value]:
        name, amount = self.name(), self.operand()
        if not isinstance(amount, Value):
            raise Invalid("ADD takes a value")
        return name, amount

    def assignment(self) -> tuple[Name, Operand]:
        name = self.name()
        self.needs("=")
        return name, self.sum()

    def _listed(self, read: Callable[[], None]) -> None:
        read()
        while self.takes(","):
            read()


@lru_cache(maxsize=256)
def read_projection(text: str) -> Read:
    """Read a list of attributes. Raises `Invalid`."""
    reader = Reader(text)
    listed = [reader.name()]
    while reader.takes(","):
        listed.append(reader.name())
    reader.ends()
    return Read(names=frozenset(reader.names), listed=tuple(listed))


@dataclass(frozen=True, slots=True)
class Read:
    """A text that was read, and the placeholders that it uses."""

    condition: Condition | None = None
    update: Update | None = None
    names: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    listed: tuple[Name, ...] = ()
    """The attributes of a projection."""


@lru_cache(maxsize=4096)
def read_condition(text: str) -> Read:
    """Read a condition expression. Raises `Invalid`."""
    reader = Reader(text)
    tree = reader.condition()
    reader.ends()
    return Read(condition=tree, names=frozenset(reader.names), values=frozenset(reader.values))


@lru_cache(maxsize=4096)
def read_update(text: str) -> Read:
    """Read an update expression. Raises `Invalid`."""
    reader = Reader(text)
    tree = reader.update()
    return Read(update=tree, names=frozenset(reader.names), values=frozenset(reader.values))
