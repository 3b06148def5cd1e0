"""
The fields of a payload: which of them differ, for the message of `KeyReused`, and which ``ignore=`` removes.

Besides the fingerprint, a row has checksums of the name and the canonical text of each top-level field of its
payload. Comparing a later payload with them gives the *names* of the fields that differ. They decide nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from json.encoder import encode_basestring
from typing import NamedTuple
from zlib import crc32

from lambda_once.core.canonical import (
    LARGE,
    MARK,
    NEVER_WRAPS,
    VERSION,
    Path,
    comparable,
    unwrapped,
    written,
)

MOST_FIELDS = 32
"""Most fields whose checksums a row has, 4 bytes each: those with the smallest checksums of names."""
MOST_NAMED = 5
"""Most field names in a message."""
LONGEST_NAME = 64

ATTRIBUTES = "@attributes"
"""What names of a message's attributes begin with: ``@attributes.sentAt``. No JMESPath does."""

_ENTRY = 4
# A checksum, not a hash: 16 bits protect nothing either way, and a checksum takes a tenth of the time.
_SIXTEEN_BITS = 0xFFFF
_KINDS = {type(None): "null", str: "text", list: "a list"}
_CONSTANTS = {True: "true", False: "false", None: "null"}


class Printed(NamedTuple):
    """The canonical text of a payload, for its fingerprint, and that of each field, by name."""

    text: str
    fields: tuple[tuple[str, str], ...]
    not_compared: tuple[tuple[str, str], ...] = ()
    """Parts that count as null: their paths, as in ``ignore=``, and why."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint, as `canonical.fingerprint` returns it."""
        return f"{VERSION}.{sha256(self.text.encode('utf-8', 'surrogatepass')).hexdigest()}"


class Fields(NamedTuple):
    """The fields of one payload, sorted: checksum of the name, checksum of the text, name."""

    entries: tuple[tuple[int, int, str], ...]
    stored: bytes
    """Their checksums as the row stores them: at most 128 bytes, without names and values."""


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


def printed(whole: object, payload: object = None, *, assembled: bool = False) -> Printed:
    """
    Return the canonical text of *whole*, and of each of its fields.

    There are no fields unless *whole* is an object whose names need no escaping. *assembled*: a decorator
    built *whole* around *payload*. Its fields are then those of its parts, named ``part.field``, and those of
    *payload* under their own names, as in ``ignore=``. What has no canonical form counts as null.
    """
    writer = _Writer(payload)
    text = writer.text(whole, 2 if assembled else 1)
    return Printed(text, tuple(writer.fields), tuple(writer.not_compared.items()))


def selected(whole: object, labels: Sequence[str]) -> Printed:
    """
    Return `printed` of *whole*, the result of an expression.

    If it has no fields, *labels* name its parts: one by one for a list of that length, else all together.
    """
    found = printed(whole)
    content = whole.values() if isinstance(whole, dict) else whole if isinstance(whole, list) else [whole]
    if all(part is None for part in content):
        found = found._replace(not_compared=((labels[0], "fingerprint= selects nothing from this payload"),))
    if found.fields:
        return found
    if not (len(labels) > 1 and isinstance(whole, list) and len(whole) == len(labels)):
        return found._replace(fields=((", ".join(labels), found.text),))
    parts = [*zip(labels, map(printed, whole), strict=True)]
    odd = [
        (f"{label}.{path}".removesuffix("."), why) for label, part in parts for path, why in part.not_compared
    ]
    return found._replace(
        fields=tuple((label, part.text) for label, part in parts),
        not_compared=tuple(odd) or found.not_compared,
    )


def fields_of(printed: Printed, token: str) -> Fields | None:
    """Return the checksums for a row of *token*; None if there are no fields."""
    if not printed.fields:
        return None
    # Salted by token, so that equal values have different checksums in different rows.
    salt = crc32(token.encode())
    entries = sorted([(_checksum(name, salt), _checksum(text, salt), name) for name, text in printed.fields])
    stored = b"".join(
        [(name << 16 | text).to_bytes(_ENTRY, "big") for name, text, _ in entries[:MOST_FIELDS]]
    )
    return Fields(tuple(entries), stored)


def difference(stored: bytes | None, later: Fields | None) -> Difference:
    """Return how *later* differs from the payload whose checksums are *stored* in the same token's row."""
    if stored is None or later is None:
        return Difference()
    kept = [
        (int.from_bytes(stored[at : at + 2], "big"), int.from_bytes(stored[at + 2 : at + 4], "big"))
        for at in range(0, len(stored) - _ENTRY + 1, _ENTRY)
    ]
    names, whole = {name for name, _ in kept}, set(kept)
    # A full row has no checksums of names after its last one.
    end = kept[-1][0] if len(kept) >= MOST_FIELDS else _SIXTEEN_BITS
    found = {name for name, _, _ in later.entries}
    return Difference(
        changed=tuple(
            sorted(name for n, text, name in later.entries if n in names and (n, text) not in whole)
        ),
        new=tuple(sorted(name for n, _, name in later.entries if n not in names and n <= end)),
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


class _Writer:
    """Writes the canonical text of a value, and collects its fields."""

    __slots__ = ("_payload", "fields", "not_compared")

    def __init__(self, payload: object) -> None:
        self._payload = payload
        self.fields: list[tuple[str, str]] = []
        self.not_compared: dict[str, str] = {}

    def text(self, value: object, levels: int, label: str | None = None, prefix: str = "") -> str:
        """Return the text of *value*; collect its fields *levels* down, named under *prefix*, or itself."""
        kind = type(value)
        if kind is str:
            text = encode_basestring(value)  # type: ignore[arg-type]  # a str
        elif kind is int and abs(value) < LARGE:  # type: ignore[arg-type]  # an int
            text = repr(value)
        elif kind is bool or value is None:
            text = _CONSTANTS[value]  # type: ignore[index]  # one of these
        elif levels and kind is dict and _is_plain(value):  # type: ignore[arg-type]  # a dict
            return self._object(value, levels - 1, prefix)  # type: ignore[arg-type]  # a dict
        elif levels and kind not in NEVER_WRAPS and (inner := unwrapped(value)) is not value:
            return self.text(inner, levels, label, prefix)
        else:
            text = self._written(value, prefix)
        if label is not None:
            self.fields.append((label, text))
        return text

    def _written(self, value: object, prefix: str) -> str:
        """Return the canonical text of *value*, whose parts are named under *prefix*; note what has none."""

        def note(path: Path, kind: str) -> None:
            names = [printable(str(name)) for name in path if not isinstance(name, int)]
            if len(self.not_compared) < MOST_FIELDS:
                path_of_ignore = (prefix + ".".join(names)).removesuffix(".")
                self.not_compared.setdefault(path_of_ignore, f"{kind} has no canonical form")

        try:
            return written(value)
        except Exception:  # noqa: BLE001  (code of the user's may raise anything)
            return comparable(value, note)

    def _object(self, value: dict[str, object], levels: int, prefix: str) -> str:
        texts = []
        for name in sorted(value):
            each = value[name]
            label = prefix + name
            inside = "" if each is self._payload else f"{label}."
            texts.append(f"{encode_basestring(name)}:{self.text(each, levels, label, inside)}")
        return f"{{{','.join(texts)}}}"


def _is_plain(names: Iterable[object]) -> bool:
    """Return whether the canonical form leaves all *names* as they are, without escape or tag."""
    return all(type(name) is str and not name.startswith(MARK) for name in names)


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
    value = unwrapped(value)
    if isinstance(value, Mapping):
        if not any(name in value for name in branches):
            return value
        kept = ((name, each, branches.get(name)) for name, each in value.items())
        return {
            name: each if branch is None else _pruned(each, branch)
            for name, each, branch in kept
            if branch != {}
        }
    if isinstance(value, list | tuple | deque):
        return [_pruned(each, branches) for each in value]
    return value
