"""
Which fields differ between two payloads of one key, when all that is left of the first is a few bytes.

Beside the fingerprint a row keeps, for each of the payload's top-level fields, a checksum of its name and
one of its canonical text. A later payload is compared with these to *name* what differs. Nothing is decided
by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from itertools import islice
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from lambda_once.core.canonical import MARK, VERSION, NotCanonical, written
from lambda_once.core.forms import NEVER_WRAPS, WRITTEN_OUT, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST = 32
"""Fields that a row keeps the checksums of, 4 bytes each: those whose names have the smallest."""
NAMED = 5
"""Fields that a message names."""
LONGEST_NAME = 64

_ENTRY = 4
# A checksum and no hash: no 16 bits keep a secret, whatever makes them, and this takes a tenth of the time.
_SIXTEEN_BITS = 0xFFFF
_KINDS = {type(None): "null", str: "text", list: "a list"}
_LONG_WHOLE = 10**WRITTEN_OUT
_CONSTANTS = {True: "true", False: "false", None: "null"}


class Printed(NamedTuple):
    """What a fingerprint is made from: its canonical text, and that of each field by name."""

    text: str
    fields: tuple[tuple[str, str], ...]

    @property
    def fingerprint(self) -> str:
        """The same as `canonical.fingerprint` gives."""
        return f"{VERSION}.{sha256(self.text.encode('utf-8', 'surrogatepass')).hexdigest()}"


class Fields(NamedTuple):
    """The fields of one payload: checksum of the name, checksum of the text, the name; sorted."""

    entries: tuple[tuple[int, int, str], ...]

    @property
    def stored(self) -> bytes:
        """What the row keeps: at most 128 bytes, no name and no value."""
        kept = self.entries[:MOST]
        return b"".join([(name << 16 | text).to_bytes(_ENTRY, "big") for name, text, _ in kept])


class Difference(NamedTuple):
    """Where a later payload differs from the one that a row keeps the checksums of."""

    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    missing: int = 0
    """How many fields only the first one has: their names are known to nobody."""

    @property
    def named(self) -> tuple[str, ...]:
        """The names of the fields, at most NAMED, each cut to LONGEST_NAME characters, all printable."""
        return tuple(map(printable, (self.changed + self.new)[:NAMED]))

    def __str__(self) -> str:
        """Say it in one sentence without a full stop; nothing where no difference can be told."""
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

    There are none where it is no object, or one whose names do not stand in that text as they are.

    *assembled*: a face has put *whole* together, around *payload*. Then the fields of its parts count, as
    ``part.field``, and those of *payload* under their own names, as ``ignore=`` would have them. Raises
    NotCanonical as `canonical` does.
    """
    writer = _Writer(payload)
    try:
        text = writer.text(whole, 2 if assembled else 1)
    except RecursionError:
        raise NotCanonical("a value that contains itself or is nested too deeply is not canonical") from None
    except (ValueError, OverflowError) as error:
        raise NotCanonical(f"a number or a time is out of range: {type(error).__name__}") from None
    return Printed(text, tuple(writer.fields))


def selected(whole: object, labels: Sequence[str]) -> Printed:
    """
    Return what `printed` does for *whole*, which an expression has selected.

    Where that is no object its parts have no names of their own and get *labels*: a list as long as these one
    each, all else the labels together.
    """
    found = printed(whole)
    if found.fields:
        return found
    if len(labels) > 1 and isinstance(whole, list) and len(whole) == len(labels):
        return found._replace(fields=tuple(zip(labels, (printed(part).text for part in whole), strict=True)))
    return found._replace(fields=((", ".join(labels), found.text),))


def fields_of(printed: Printed, token: str) -> Fields | None:
    """Return what a row of *token* keeps, and names can be told by later; None where there are no fields."""
    if not printed.fields:
        return None
    # By token: equal values do not look equal in two rows.
    salt = crc32(token.encode())
    entries = [(_checksum(name, salt), _checksum(text, salt), name) for name, text in printed.fields]
    return Fields(tuple(sorted(entries)))


def difference(stored: bytes | None, later: Fields | None) -> Difference:
    """Return where *later* differs from the payload of which a row, of the same token, keeps *stored*."""
    if stored is None or later is None:
        return Difference()
    kept = [
        (int.from_bytes(stored[at : at + 2], "big"), int.from_bytes(stored[at + 2 : at + 4], "big"))
        for at in range(0, len(stored) - _ENTRY + 1, _ENTRY)
    ]
    names, whole = {name for name, _ in kept}, set(kept)
    # A full row tells nothing of names beyond its last one.
    end = kept[-1][0] if len(kept) >= MOST else _SIXTEEN_BITS
    found = {name for name, _, _ in later.entries}
    return Difference(
        changed=tuple(
            sorted(name for n, text, name in later.entries if n in names and (n, text) not in whole)
        ),
        new=tuple(sorted(name for n, _, name in later.entries if n not in names and n <= end)),
        missing=sum(name not in found for name, _ in kept),
    )


def printable(name: str) -> str:
    """Return *name* as a message may bear it: one short line."""
    shown = [
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in name[:LONGEST_NAME]
    ]
    return "".join(shown)[:LONGEST_NAME] or '""'


def names_in(payload: object) -> str:
    """Name the top-level fields of *payload*, as a message may: at most NAMED names, and no value."""
    if not isinstance(payload, Mapping):
        return f"it has no fields: it is {_KINDS.get(type(payload), 'not an object')}"
    names = [printable(str(name)) for name in islice(payload, NAMED)]
    more = len(payload) - len(names)
    told = ", ".join(names) or "none"
    return f"its fields: {told}, {more} more" if more else f"its fields: {told}"


def _checksum(text: str, salt: int) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"), salt) & _SIXTEEN_BITS


class _Writer:
    """Writes the canonical text of a value, and notes the fields that it meets on the way."""

    __slots__ = ("_payload", "fields")

    def __init__(self, payload: object) -> None:
        self._payload = payload
        self.fields: list[tuple[str, str]] = []

    def text(self, value: object, levels: int, label: str | None = None, prefix: str = "") -> str:
        """Return the text of *value*: fields are those *levels* down, under *prefix*; else itself is one."""
        kind = type(value)
        if kind is str:
            text = encode_basestring(value)  # type: ignore[arg-type]  # a str
        elif kind is int and -_LONG_WHOLE < value < _LONG_WHOLE:
            text = repr(value)
        elif kind is bool or value is None:
            text = _CONSTANTS[value]  # type: ignore[index]  # one of these
        elif levels and kind is dict and _is_plain(value):  # type: ignore[arg-type]  # a dict
            return self._object(value, levels - 1, prefix)  # type: ignore[arg-type]  # a dict
        elif levels and kind not in NEVER_WRAPS and (inner := opened(value)) is not value:
            return self.text(inner, levels, label, prefix)
        else:
            text = written(value)
        if label is not None:
            self.fields.append((label, text))
        return text

    def _object(self, value: dict[str, object], levels: int, prefix: str) -> str:
        texts = []
        for name in sorted(value):
            each = value[name]
            label = prefix + name
            inside = "" if each is self._payload else f"{label}."
            texts.append(f"{encode_basestring(name)}:{self.text(each, levels, label, inside)}")
        return f"{{{','.join(texts)}}}"


def _is_plain(names: Iterable[object]) -> bool:
    """Tell whether all *names* stand in the canonical form as they are."""
    return all(type(name) is str and not name.startswith(MARK) for name in names)
