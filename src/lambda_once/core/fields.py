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
"""Hex digits of what is compared apart: it tells two queues of one function apart, and protects nothing."""
# A checksum, not a hash: 16 bits protect nothing either way, and a checksum takes a tenth of the time.
_SIXTEEN_BITS = 0xFFFF
_KINDS = {type(None): "null", str: "text", list: "a list"}


class Printed(NamedTuple):
    """
    The canonical text of a payload, which the fingerprint hashes, and how its fields are named.

    The fields are read from the text: most payloads never need them, and the work may have changed the value.
    """

    text: str
    parts: bool = False
    """Whether a decorator built it of parts, whose fields are the fields."""
    payload: str | None = None
    """The part that is the payload, whose fields are named by themselves, as in ``ignore=``."""
    labels: tuple[str, ...] = ()
    """Names for what an expression selected, if that has none."""
    not_compared: tuple[tuple[str, str], ...] = ()
    """`not_compared` of what was met."""
    beside: tuple[tuple[str, str], ...] = ()
    """Name and canonical text of what's compared apart (`identity.ORIGIN`, `identity.ATTRIBUTES`)."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint: that of the text, as `canonical.fingerprint` returns it, and what's beside it."""
        content = f"{VERSION}.{_hash(self.text)}"
        if not self.beside:
            return content
        return apart(content, {name: _hash(text)[:_DIGITS] for name, text in self.beside})

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The name and the text of each field; none if it is no object, or nested too deeply to be read."""
        found: list[tuple[str, str]] = []
        try:
            if _is_object(self.text, 0):
                self._read(0, "", found, levels=2 if self.parts else 1)
            elif len(self.labels) > 1:
                found += zip(self.labels, _elements(self.text), strict=True)
            elif self.labels:
                found.append((self.labels[0], self.text))
            for name, text in self.beside:
                if _is_object(text, 0):
                    named: list[tuple[str, str]] = []
                    self._read(0, "", named, levels=1, text=text)
                    found += [(f"{name}.{each}", form) for each, form in named if not is_secret(each)]
                elif not (name == ATTRIBUTES and _has_secret(text)):
                    found.append((name, text))
        except RecursionError:
            return []
        return found

    def _read(
        self, at: int, prefix: str, found: list[tuple[str, str]], levels: int, text: str | None = None
    ) -> int:
        """Add the fields of the object at *at* of *text* to *found*; return where it ends."""
        text = self.text if text is None else text
        at += 1
        while text[at] != "}":
            name, colon = _scan(text, at + (text[at] == ","))
            start = colon + 1
            if levels > 1 and _is_object(text, start):
                inside = "" if name == self.payload else f"{name}."
                at = self._read(start, inside, found, levels - 1)
            else:
                _, at = _scan(text, start)
                found.append((prefix + name, text[start:at]))
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
    Return the canonical text of *whole*. What has no canonical form counts as null, or not at all.

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
    Return what of *noted* isn't compared: its path, as in ``ignore=``, why, and as what it counts.

    *part*: the name of the payload in what was walked. MOST_FIELDS at most.
    """
    found: dict[str, str] = {}
    for path, kind, counts in noted:
        if len(labels) > 1 and path and isinstance(path[0], int) and path[0] < len(labels):
            path = (labels[path[0]], *path[1:])  # noqa: PLW2901  (as an expression selected it)
        own = path[1:] if part is not None and path[:1] == (part,) else path
        names = ".".join(printable(str(name)) for name in own if not isinstance(name, int))
        counted = "it counts as null" if counts else "its field has exclude=True and doesn't count"
        found.setdefault(names, f"{kind} has no canonical form; {counted}")
    return tuple(islice(found.items(), MOST_FIELDS))


def selected(whole: object, labels: Sequence[str]) -> Printed:
    """
    Return `printed` of *whole*, the result of an expression.

    If it has no fields, *labels* name its parts: one by one for a list of that length, else all together.
    """
    one_by_one = isinstance(whole, list) and len(whole) == len(labels) > 1
    found = printed(whole, labels=labels if one_by_one else (", ".join(labels),))
    content = whole.values() if isinstance(whole, dict) else whole if isinstance(whole, list) else [whole]
    if all(part is None for part in content):
        reason = "fingerprint= selects nothing from this payload; it counts as null"
        found = found._replace(not_compared=((labels[0], reason),))
    return found


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
    kept = sorted([(_checksum(name, salt), text) for name, text in fields])[:MOST_FIELDS]
    return b"".join([(name << 16 | _checksum(text, salt)).to_bytes(_ENTRY, "big") for name, text in kept])


def difference(stored: bytes | None, later: Printed | None, token: str) -> Difference:
    """Return how *later* differs from the payload whose checksums are *stored* in the row of *token*."""
    fields = [] if later is None else later.fields
    if stored is None or not fields:
        return Difference()
    salt = crc32(token.encode())
    entries = [(_checksum(name, salt), _checksum(text, salt), name) for name, text in fields]
    kept = [
        (int.from_bytes(stored[at : at + 2], "big"), int.from_bytes(stored[at + 2 : at + 4], "big"))
        for at in range(0, len(stored) - _ENTRY + 1, _ENTRY)
    ]
    names, whole = {name for name, _ in kept}, set(kept)
    # A full row has no checksums of names after its last one.
    end = kept[-1][0] if len(kept) >= MOST_FIELDS else _SIXTEEN_BITS
    found = {name for name, _, _ in entries}
    return Difference(
        changed=tuple(sorted(name for n, text, name in entries if n in names and (n, text) not in whole)),
        new=tuple(sorted(name for n, _, name in entries if n not in names and n <= end)),
        missing=sum(name not in found for name, _ in kept),
    )


def printable(name: str) -> str:
    """Return *name* as one short line, for a message."""
    shown = [
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in name[:LONGEST_NAME]
    ]
    return "".join(shown)[:LONGEST_NAME] or '""'


def names_in(payload: object) -> str:
    """Return a text for a message: the names of at most MOST_NAMED top-level fields of *payload*."""
    if not isinstance(payload, Mapping):
        return f"it sees {_KINDS.get(type(payload), 'a value')}: the payload is not a JSON object"
    names = [printable(str(name)) for name in islice(payload, MOST_NAMED)]
    more = len(payload) - len(names)
    listed = ", ".join(names) or "none"
    return f"it sees the fields: {listed}, {more} more" if more else f"it sees the fields: {listed}"


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return which of *names* was probably meant by *name*; None if none is like it."""
    import difflib  # for messages only

    return next(iter(difflib.get_close_matches(name, [*names], n=1)), None)


def _checksum(text: str, salt: int) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"), salt) & _SIXTEEN_BITS


# Numbers stay text: what they mean does not matter here, and Python refuses to read the longest. `raw_decode`
# is this scanner within two more calls, some twenty times a payload.
_scan: Final[Callable[[str, int], tuple[Any, int]]] = JSONDecoder(parse_int=str, parse_float=str).scan_once  # type: ignore[attr-defined]


def _has_secret(headers: str) -> bool:
    """Whether *headers*, the text of names and values in pairs, have one that `identity.is_secret`."""
    return any(is_secret(str(name)) for name, _ in json.loads(headers))


def _is_object(text: str, at: int) -> bool:
    """Whether a plain object begins at *at* in *text*. A tag's name, and an escaped one, are the first."""
    return text[at] == "{" and not text.startswith('{"\\u0000', at)


def _elements(text: str) -> list[str]:
    """Return the text of each element of *text*, canonical; none unless it is a list."""
    found: list[str] = []
    at = 1
    while text[0] == "[" and text[at] != "]":
        start = at + (text[at] == ",")
        _, at = _scan(text, start)
        found.append(text[start:at])
    return found


# -- leaving out

_Branches = dict[str, "_Branches"]


def without(payload: object, ignore: Sequence[str]) -> object:
    """
    Return *payload* without the dotted paths in *ignore*, which apply to each element of a list.

    Missing paths are skipped. *payload* is not changed; its other branches are shared, not copied.
    """
    return _pruned(payload, _branches(tuple(ignore))) if ignore else payload


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


def _pruned(value: object, branches: _Branches) -> object:
    content = content_of(value)
    if isinstance(content, Fields):
        return value if content.has_none_of(branches) else _pruned_object(content, branches)
    if isinstance(content, Mapping):
        return _pruned_items(content, branches) if any(name in content for name in branches) else content
    if isinstance(content, list | tuple | deque):
        return [_pruned(each, branches) for each in content]
    return content


def _pruned_items(items: Mapping[Any, Any], branches: _Branches) -> dict[Any, object]:
    kept = ((name, each, branches.get(name)) for name, each in items.items())
    return {
        name: each if branch is None else _pruned(each, branch) for name, each, branch in kept if branch != {}
    }


def _pruned_object(fields: Fields, branches: _Branches) -> Fields:
    if fields.schema.is_root:
        branches = {ROOT: branches}
    left_out = (name for name, branch in branches.items() if branch == {})
    return fields.holding(_pruned_items(fields.held, branches), left_out)
