"""
The fields of a payload: which of them differ, for the message of `KeyReused`, and which ``ignore=`` removes.

Besides the fingerprint, a complete row has checksums of the name and the canonical text of each top-level
field of its payload. Comparing a later payload with them gives the *names* of the fields that differ. They
decide nothing.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from json import JSONDecoder
from typing import Any, Final, NamedTuple
from zlib import crc32

from lambda_once.core.canonical import VERSION, comparable, written
from lambda_once.core.identity import ATTRIBUTES, apart, is_secret
from lambda_once.core.objects import ROOT, Fields, Noted, content_of

MOST_FIELDS = 32
"""Most fields whose checksums a row has, 4 bytes each: those with the smallest checksums of names."""
MOST_NAMED = 5
"""Most field names in a message."""
LONGEST_NAME = 64

_ENTRY = 4
_DIGITS = 16
"""Hex digits of a part that's compared by itself: enough to distinguish two queues; it protects nothing."""
# A checksum, not a hash: 16 bits protect nothing either way, and a checksum takes a tenth of the time.
_SIXTEEN_BITS = 0xFFFF
_KINDS = {type(None): "null", str: "text", list: "a list"}


class Printed(NamedTuple):
    """
    The canonical text of a payload, which the fingerprint hashes, and how its fields are named.

    The fields are read from the text: most calls never need them, and the work may have changed the value.
    """

    text: str
    parts: bool = False
    """Whether a decorator built it of parts: its fields are then those of the parts."""
    payload: str | None = None
    """The part that is the payload, whose fields are named by themselves, as in ``ignore=``."""
    labels: tuple[str, ...] = ()
    """Names for what an expression selected, if that has none."""
    not_compared: tuple[tuple[str, str], ...] = ()
    """What the function `not_compared` returned for it."""
    beside: tuple[tuple[str, str], ...] = ()
    """Name and canonical text of parts that are compared by themselves (`identity.standing`)."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the text, as `canonical.fingerprint` returns it, and of the parts beside it."""
        content = f"{VERSION}.{_hash(self.text)}"
        if not self.beside:
            return content
        return apart(content, {name: _hash(text)[:_DIGITS] for name, text in self.beside})

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The name and the text of each field; none if it is no object, or nested too deeply to be read."""
        fields: list[tuple[str, str]] = []
        try:
            if _is_object(self.text, 0):
                self._read(0, "", fields, levels=2 if self.parts else 1)
            elif len(self.labels) > 1:
                fields += zip(self.labels, _elements(self.text), strict=True)
            elif self.labels:
                fields.append((self.labels[0], self.text))
            for name, text in self.beside:
                if _is_object(text, 0):
                    members: list[tuple[str, str]] = []
                    self._read(0, "", members, levels=1, text=text)
                    fields += [(f"{name}.{label}", form) for label, form in members if not is_secret(label)]
                elif not (name == ATTRIBUTES and _has_secret(text)):
                    fields.append((name, text))
        except RecursionError:
            return []
        return fields

    def _read(
        self, at: int, prefix: str, fields: list[tuple[str, str]], levels: int, text: str | None = None
    ) -> int:
        """Add the fields of the object at *at* of *text* to *fields*; return where it ends."""
        text = self.text if text is None else text
        at += 1
        while text[at] != "}":
            name, colon = _scan(text, at + (text[at] == ","))
            start = colon + 1
            if levels > 1 and _is_object(text, start):
                inside = "" if name == self.payload else f"{name}."
                at = self._read(start, inside, fields, levels - 1)
            else:
                _, at = _scan(text, start)
                fields.append((prefix + name, text[start:at]))
        return at + 1


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Difference(NamedTuple):
    """The fields in which a later payload differs from that of a row."""

    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    missing: int = 0
    """How many fields only the first payload has; their names are unknown."""

    @property
    def named(self) -> tuple[str, ...]:
        """The names of at most MOST_NAMED fields, printable, each cut to LONGEST_NAME characters."""
        return tuple(map(printable, (self.changed + self.new)[:MOST_NAMED]))

    def __str__(self) -> str:
        """Return the difference as text for a message; "" if none is known."""
        parts = []
        named = self.named
        changed, new = named[: len(self.changed)], named[len(self.changed) :]
        if changed:
            parts.append(f"different: {', '.join(changed)}")
        if new:
            parts.append(f"new: {', '.join(new)}")
        more = len(self.changed) + len(self.new) - len(named)
        if more:
            parts.append(f"{more} more")
        if self.missing:
            parts.append(f"missing: {self.missing}")
        return "; ".join(parts)


def printed(
    whole: object, payload: object = None, *, parts: bool = False, labels: Sequence[str] = ()
) -> Printed:
    """
    Return the canonical text of *whole*. A part without a canonical form counts as null, or not at all.

    *parts*: a decorator built *whole* around *payload*. Its fields are then those of its parts, named
    ``part.field``, and those of *payload* under their own names, as in ``ignore=``.
    """
    part = None
    if parts and isinstance(whole, dict):
        part = next((name for name, each in whole.items() if each is payload), None)
    noted: Noted = []
    try:
        text = written(whole, noted)
    except Exception:  # noqa: BLE001  (code of the user's may raise anything)
        text = comparable(whole, noted)
    return Printed(text, parts, part, tuple(labels), not_compared(noted, part, labels) if noted else ())


def not_compared(noted: Noted, part: str | None, labels: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """
    Return the path of each of *noted*, as in ``ignore=``, with the reason why it isn't compared.

    *part*: the name of the payload in the value that was walked. MOST_FIELDS at most.
    """
    reasons: dict[str, str] = {}
    for path, kind, counts in noted:
        steps = path[1:] if part is not None and path[:1] == (part,) else path
        if len(labels) > 1 and path and isinstance(path[0], int) and path[0] < len(labels):
            steps = (labels[path[0]], *path[1:])  # an element of a multi-select
        names = ".".join(printable(str(step)) for step in steps if not isinstance(step, int))
        counted = "it counts as null" if counts else "its field has exclude=True and doesn't count"
        reasons.setdefault(names, f"{kind} has no canonical form; {counted}")
    return tuple(islice(reasons.items(), MOST_FIELDS))


def selected(whole: object, labels: Sequence[str]) -> Printed:
    """
    Return `printed` of *whole*, the result of an expression.

    If it has no fields, *labels* name its parts: one by one for a list of that length, else all together.
    """
    one_by_one = isinstance(whole, list) and len(whole) == len(labels) > 1
    text = printed(whole, labels=labels if one_by_one else (", ".join(labels),))
    content = whole.values() if isinstance(whole, dict) else whole if isinstance(whole, list) else [whole]
    if all(part is None for part in content):
        reason = "fingerprint= selects nothing from this payload; it counts as null"
        return text._replace(not_compared=((labels[0], reason),))
    return text


def checksums(printed: Printed | None, token: str) -> bytes | None:
    """
    Return the checksums of the fields for a row of *token*: at most 128 bytes, without names and values.

    None if there are no fields.
    """
    fields = [] if printed is None else printed.fields
    if not fields:
        return None
    # Salted by token, so that equal values have different checksums in different rows.
    salt = crc32(token.encode())
    entries = sorted([(_checksum(name, salt), text) for name, text in fields])[:MOST_FIELDS]
    return b"".join([(name << 16 | _checksum(text, salt)).to_bytes(_ENTRY, "big") for name, text in entries])


def difference(stored: bytes | None, later: Printed | None, token: str) -> Difference:
    """Return how *later* differs from the payload whose checksums are *stored* in the row of *token*."""
    fields = [] if later is None else later.fields
    if stored is None or not fields:
        return Difference()
    salt = crc32(token.encode())
    checked = [(name, _checksum(name, salt), _checksum(text, salt)) for name, text in fields]
    entries = [
        (int.from_bytes(stored[at : at + 2], "big"), int.from_bytes(stored[at + 2 : at + 4], "big"))
        for at in range(0, len(stored) - _ENTRY + 1, _ENTRY)
    ]
    stored_names, pairs = {name for name, _ in entries}, set(entries)
    # A full row has no checksums of names after its last one.
    end = entries[-1][0] if len(entries) >= MOST_FIELDS else _SIXTEEN_BITS
    later_names = {n for _, n, _ in checked}
    return Difference(
        changed=tuple(sorted(name for name, n, m in checked if n in stored_names and (n, m) not in pairs)),
        new=tuple(sorted(name for name, n, _ in checked if n not in stored_names and n <= end)),
        missing=sum(n not in later_names for n, _ in entries),
    )


def printable(name: str) -> str:
    """Return *name* as one short line, for a message."""
    characters = [
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in name[:LONGEST_NAME]
    ]
    return "".join(characters)[:LONGEST_NAME] or '""'


def names_in(payload: object) -> str:
    """Return a text for a message: the names of at most MOST_NAMED top-level fields of *payload*."""
    if not isinstance(payload, Mapping):
        return f"it sees {_KINDS.get(type(payload), 'a value')}: the payload is not a JSON object"
    names = [printable(str(name)) for name in islice(payload, MOST_NAMED)]
    more = len(payload) - len(names)
    listed = ", ".join(names) or "none"
    return f"it sees the fields: {listed}, {more} more" if more else f"it sees the fields: {listed}"


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return which of *names* was probably meant by *name*; None if none is similar."""
    import difflib  # for messages only

    return next(iter(difflib.get_close_matches(name, [*names], n=1)), None)


def _checksum(text: str, salt: int) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"), salt) & _SIXTEEN_BITS


# Numbers stay text: their values don't matter here, and Python refuses to read the longest. `raw_decode` is
# this scanner with two more calls around it, some twenty times a payload.
_scan: Final[Callable[[str, int], tuple[Any, int]]] = JSONDecoder(parse_int=str, parse_float=str).scan_once  # type: ignore[attr-defined]


def _has_secret(headers: str) -> bool:
    """Whether *headers*, the text of names and values in pairs, have one that `identity.is_secret`."""
    return any(is_secret(str(name)) for name, _ in json.loads(headers))


def _is_object(text: str, at: int) -> bool:
    """Whether an object that is no tag begins at *at* in *text*. A name with the mark sorts first."""
    return text[at] == "{" and not text.startswith('{"\\u0000', at)


def _elements(text: str) -> list[str]:
    """Return the text of each element of *text*, canonical; none unless it is a list."""
    elements: list[str] = []
    at = 1
    while text[0] == "[" and text[at] != "]":
        start = at + (text[at] == ",")
        _, at = _scan(text, start)
        elements.append(text[start:at])
    return elements


# -- leaving out

_Branches = dict[str, "_Branches"]


def without(payload: object, ignore: Sequence[str]) -> object:
    """
    Return *payload* without the dotted paths in *ignore*, which apply to each element of a list.

    Missing paths are skipped. *payload* is not changed; its other branches are shared, not copied.
    """
    return _prune(payload, _branches(tuple(ignore))) if ignore else payload


@lru_cache(maxsize=256)
def _branches(paths: tuple[str, ...]) -> _Branches:
    """Return the paths as a tree; the end of a path is an empty branch."""
    tree: _Branches = {}
    for path in sorted(paths, key=len, reverse=True):
        branch = tree
        *way, last = path.split(".")
        for name in way:
            branch = branch.setdefault(name, {})
        branch[last] = {}
    return tree


def _prune(value: object, branches: _Branches) -> object:
    content = content_of(value)
    if isinstance(content, Fields):
        if content.has_none_of(branches):
            return value
        paths = {ROOT: branches} if content.schema.is_root else branches
        left_out = (name for name, branch in paths.items() if branch == {})
        return content.holding(_prune_items(content.held, paths), left_out)
    if isinstance(content, Mapping):
        return _prune_items(content, branches) if any(name in content for name in branches) else content
    if isinstance(content, list | tuple | deque):
        return [_prune(each, branches) for each in content]
    return content


def _prune_items(items: Mapping[Any, Any], branches: _Branches) -> dict[Any, object]:
    with_branches = ((name, value, branches.get(name)) for name, value in items.items())
    return {
        name: value if branch is None else _prune(value, branch)
        for name, value, branch in with_branches
        if branch != {}
    }
