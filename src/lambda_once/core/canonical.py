"""
The canonical form: equal values have the same text. Keys and fingerprints are hashes of it.

JSON values are written as JSON, with names sorted, no white space, and numbers by their exact digits. Other
values are *tagged*: written as an object whose only name begins with U+0000. A name that already begins with
U+0000 gets another one, so a tagged form never equals a plain value. Different values have different texts,
with one exception: numbers, booleans and None as names count as the text that JSON writes for them.

Equal numbers have the same text: 5, 5.0, 5e0 and Decimal("5.00") are `5`. A whole number that ends in ZEROS
zeros or more has an exponent, so the form is never much longer than the input.

The same traversal (`converted`) makes the *plain form* of a value, for JMESPath and for results.

A key needs the form of its whole payload. A fingerprint does not: in `comparable`, null stands for each part
without a form. That takes a second walk, which tries each part alone. We are not happy with two, but the
first one is on the path of every call.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

VERSION = "1"
"""The version of the canonical form. Fingerprints of different versions never match."""

MARK = "\0"
"""The first character of the name in a tagged form."""
_DECIMAL = f"{MARK}decimal"
_WRITTEN_MARK = '"\\u0000'

Path = tuple[object, ...]
"""Names and indexes, from a value to a part of it."""
Leaf = Callable[[object, Path], object]
"""Converts a value that is not JSON."""
Names = Callable[[Mapping[Any, object]], Mapping[Any, object]]
"""Converts the names of a mapping."""

_MAPPINGS = (dict, Mapping)  # isinstance of a dict is quick, of an abstract class slow
_LISTS = (list, tuple, deque)
_NUMBERS = frozenset({int, float, Decimal})
NEVER_WRAPS = frozenset({dict, list, tuple, *_NUMBERS})
"""Types that `unwrapped` returns unchanged."""
_NUMPY_NUMBERS: Final = "biuf"
_TAGS: Final = {
    "uuid.UUID": "uuid",
    "ipaddress.IPv4Address": "ip",
    "ipaddress.IPv6Address": "ip",
    "ipaddress.IPv4Interface": "interface",
    "ipaddress.IPv6Interface": "interface",
    "ipaddress.IPv4Network": "network",
    "ipaddress.IPv6Network": "network",
    "pathlib.PurePosixPath": "path",
    "pydantic.networks.AnyUrl": "url",  # the base of all URLs with one host
    "pydantic.networks.MongoDsn": "url",
    "pydantic.networks.NatsDsn": "url",
    "pydantic.networks.PostgresDsn": "url",
    "pydantic_core.MultiHostUrl": "url",
    "pydantic_core.Url": "url",
}
"""
Types whose form is their text, each with its tag. By public name: their modules are not imported for it.

If a value is of one of them, its module is loaded.
"""


class NotCanonical(TypeError):
    """A value or a part of it has no canonical form. The message has the path, never the value."""


class NoForm(NotCanonical):
    """Its type has none, or its code raises: a matter of the program, not of what was sent."""

    @classmethod
    def of(cls, value: object, path: Path) -> NoForm:
        where = ".".join(map(str, path)) or "the value itself"
        return cls(f"{where}: {kind_of(value)} has no canonical form")


class Raised:
    """Stands for a field that cannot be read, as its property or serialiser raised *error*."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def kind_of(value: object) -> str:
    """Return the type of *value* for messages, such as ``a decimal.Decimal``."""
    if isinstance(value, Raised):
        return f"what raises {type(value.error).__name__}"
    return f"a {type(value).__module__}.{type(value).__qualname__}"


def canonical(value: object) -> bytes:
    """
    Return the canonical JSON of *value*.

    The order of names and white space do not matter; 1, 1.0, 1e0 and Decimal("1.00") are equal. Tuples become
    lists, dataclasses and pydantic models objects, Powertools' data classes their raw event, members of an
    Enum their value, and numpy's scalars numbers. A Decimal that no float represents, datetimes (aware ones
    by instant), dates, times, timedeltas, UUIDs, URLs, IP addresses and networks, paths, bytes and sets are
    tagged, so they never equal a string or a list. Raises NotCanonical for any other type (`NoForm`), for
    cycles and for values nested too deeply.
    """
    try:
        return written(value).encode("utf-8", "surrogatepass")
    except NotCanonical:
        raise
    except RecursionError:
        raise NotCanonical("a value that contains itself or is nested too deeply is not canonical") from None
    except (ValueError, OverflowError) as error:
        raise NotCanonical(f"a number or a time is out of range: {type(error).__name__}") from None
    except Exception as error:
        raise NoForm(f"a part of it raised {type(error).__name__}") from error


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical form in hex, 64 characters. Raises NotCanonical."""
    return sha256(canonical(value)).hexdigest()


def fingerprint(value: object) -> str:
    """Return ``1.`` (the version of the canonical form) and the digest in hex. Raises NotCanonical."""
    return f"{VERSION}.{digest(value)}"


# -- the walk


def unwrapped(value: object) -> object:
    """
    Return the content of *value*, one layer deep; *value* itself if it is not a wrapper. Raises nothing.

    That of a dataclass or pydantic model is a dict of its fields, of Powertools' data classes the raw event,
    of an Enum member its value, of a numpy scalar a number. pydantic is recognised by ``model_dump``, without
    an import. In place of what raises there is a `Raised`; the other fields are there.
    """
    try:
        return _content(value)
    except Exception as error:  # noqa: BLE001  (a property or serialiser of the user's may raise anything)
        return _readable_fields(value, error)


def _content(value: Any) -> object:
    kind = type(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump()
    if hasattr(kind, "raw_event"):
        return value.raw_event
    if kind.__module__ == "numpy" and getattr(value, "ndim", 1) == 0 and value.dtype.kind in _NUMPY_NUMBERS:
        number = value.item()
        return value if type(number) is kind else number  # a long double is its own item
    return value


def _readable_fields(value: Any, error: Exception) -> object:
    """Return the fields of *value* one by one, as *error* was raised for all of them."""
    kind = type(value)
    declared = (
        [each.name for each in fields(value)] if is_dataclass(value) else getattr(kind, "model_fields", ())
    )
    names = [*declared, *getattr(kind, "model_computed_fields", ())]
    found = {name: _field(value, name) for name in names}
    if not any(isinstance(each, Raised) for each in found.values()):
        found["model_dump"] = Raised(error)  # a serialiser of the model's own: these may be other fields
    return found if names else Raised(error)


def _field(value: object, name: str) -> object:
    try:
        return getattr(value, name)
    except Exception as error:  # noqa: BLE001  (as above)
        return Raised(error)


def converted(value: object, leaf: Leaf, names: Names, path: Path = ()) -> object:
    """
    Return *value* as dicts, lists, strings, integers below LARGE, booleans and None.

    *leaf* converts all else, such as larger integers.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None or (kind is int and abs(value) < LARGE):  # type: ignore[arg-type]  # an int
        return value
    if kind in _NUMBERS:
        return leaf(value, path)
    inner = value if kind in NEVER_WRAPS else unwrapped(value)
    if inner is not value:
        return converted(inner, leaf, names, path)
    if isinstance(value, _MAPPINGS):
        return {name: converted(each, leaf, names, (*path, name)) for name, each in names(value).items()}
    if isinstance(value, _LISTS):
        return [converted(each, leaf, names, (*path, index)) for index, each in enumerate(value)]
    if isinstance(value, str):
        return str.__str__(value)
    return leaf(value, path)


# -- the canonical form


def written(value: object) -> str:
    """Return the canonical text. Raises one of UNWRITABLE if there is none."""
    # The C encoder alone writes most values: few have a number or a name that needs another form.
    try:
        text = _ENCODER.encode(value)
    except (TypeError, InvalidOperation):  # another type; names that cannot be sorted, or compared
        return _walked(value)
    return text if _is_canonical(text) else _walked(value)


def _is_canonical(text: str) -> bool:
    """Return whether *text*, from the encoder, is canonical. A string that looks like a number costs time."""
    return not (
        _WRITTEN_MARK in text
        or _WRITTEN_ZEROS in text
        or (".0" in text and _WHOLE.search(text))
        or _WHOLE_EXPONENT.search(text)
    )


def _walked(value: object, path: Path = ()) -> str:
    return _ENCODER.encode(converted(value, _canonical_leaf, _canonical_names, path))


def _canonical_leaf(value: object, path: Path) -> object:
    match value:
        case int() | float():
            return _number_form(int(value) if isinstance(value, int) else float(value))
        case Decimal() if not value.is_snan():
            return _decimal_form(value)
        case datetime():
            instant = value if value.utcoffset() is None else value.astimezone(UTC)
            return {f"{MARK}datetime": instant.isoformat(timespec="microseconds")}
        case date():
            return {f"{MARK}date": value.isoformat()}
        case time():
            return {f"{MARK}time": value.isoformat(timespec="microseconds")}
        case timedelta():
            return {f"{MARK}timedelta": value // timedelta(microseconds=1)}
        case bytes() | bytearray() | memoryview():
            return {f"{MARK}bytes": bytes(value).hex()}
        case set() | frozenset():
            return {f"{MARK}set": sorted(_walked(each, path) for each in value)}
        case _:
            tagged = _tagged(value)
            if tagged is None:
                raise NoForm.of(value, path)
            return {f"{MARK}{tagged[0]}": tagged[1]}


def _tagged(value: Any) -> tuple[str, str] | None:
    """Return the tag of *value* and its text; None if its type has none."""
    kind: Any = type(value)
    found = _tag_of(kind)
    return None if found is None else (found[0], found[1](value))


@lru_cache(maxsize=256)
def _tag_of(kind: Any) -> tuple[str, Callable[[object], str]] | None:
    tagged = {_type_named(name): tag for name, tag in _TAGS.items()}
    base = next((each for each in kind.__mro__ if each in tagged), None)
    return None if base is None else (tagged[base], base.__str__)  # a subclass may mask its text


def _type_named(name: str) -> object:
    """Return the type of the public *name*; None if its module isn't loaded."""
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules.get(module), attribute, None)


def _canonical_names(mapping: Mapping[Any, object]) -> Mapping[Any, object]:
    """Escape names that begin with the mark; tag those that JSON cannot write, or cannot sort."""
    if {*map(type, mapping)} == {str} and min(mapping)[:1] > MARK:
        return mapping
    if all(isinstance(name, int | float) for name in mapping) or all(name is None for name in mapping):
        return mapping
    named = {_canonical_name(name): each for name, each in mapping.items()}
    if len(named) < len(mapping):
        raise NotCanonical("two names of one mapping are the same in canonical form")
    return named


def _canonical_name(name: object) -> str:
    form = converted(name, _canonical_leaf, _canonical_names)
    if isinstance(form, str):
        return MARK + form if form.startswith(MARK) else form
    return MARK + _ENCODER.encode(form)


# -- the form of what a fingerprint compares

DEEPEST: Final = 64
"""Levels of a value that `comparable` and `readable` look at where the whole has no form."""
MOST_PARTS: Final = 100_000
"""Containers that they look at: an object whose parts refer to each other has more ways than parts."""


def comparable(value: object, note: Callable[[Path, str], object]) -> str:
    """
    Return the canonical text of *value*, with null for each part without a form: *note* gets path and kind.

    Such a part is one of a type without a form, a property that raises, what contains itself, is nested too
    deeply or out of range. A name without a form counts as null, too. Raises nothing.
    """
    try:
        return _ENCODER.encode(_Comparable(note).form(value, ()))
    except Exception:  # noqa: BLE001  (the stack has no room for the walk)
        note((), kind_of(value))
        return "null"


class _Tolerant:
    """Converts to the plain form for expressions; a part that has none stays unchanged."""

    def __init__(self) -> None:
        self._within: set[int] = set()
        self._left = MOST_PARTS

    def form(self, value: object, path: Path) -> object:
        """Return the form of *value*, which is at *path*."""
        if id(value) in self._within or len(path) > DEEPEST:
            return self._odd(value, path, f"{kind_of(value)} that contains itself or is nested too deeply")
        self._within.add(id(value))
        try:
            inner = unwrapped(value)
            return self._form(value, path) if inner is value else self.form(inner, path)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001  (a value of the user's may raise anything)
            return self._odd(value, path, kind_of(value))
        finally:
            self._within.discard(id(value))

    def _form(self, value: object, path: Path) -> object:
        if isinstance(value, (*_MAPPINGS, *_LISTS, set, frozenset)):
            self._left -= 1
            if self._left < 0:
                return self._odd(value, path, f"{kind_of(value)} behind {MOST_PARTS} others")
        if isinstance(value, _MAPPINGS):
            return self._object(value, path)
        if isinstance(value, _LISTS):
            return [self.form(each, (*path, index)) for index, each in enumerate(value)]
        return self._leaf(value, path)

    def _odd(self, value: object, _path: Path, _kind: str) -> object:
        return value

    def _object(self, mapping: Mapping[Any, object], path: Path) -> object:
        return {name: self.form(each, (*path, name)) for name, each in _plain_names(mapping).items()}

    def _leaf(self, value: object, path: Path) -> object:
        return converted(value, _readable_leaf, _plain_names, path)


class _Comparable(_Tolerant):
    """Converts to the canonical form; a part that has none is null, and noted."""

    def __init__(self, note: Callable[[Path, str], object]) -> None:
        super().__init__()
        self._note = note

    def _odd(self, _value: object, path: Path, kind: str) -> None:
        self._note(path, kind)

    def _object(self, mapping: Mapping[Any, object], path: Path) -> object:
        try:
            named = _canonical_names(mapping)
        except Exception:  # noqa: BLE001  (as in `form`)
            found: dict[str, list[object]] = {}
            for name, each in mapping.items():
                place = (*path, name if isinstance(name, str) else kind_of(name))
                found.setdefault(self._name(name, place), []).append(self.form(each, place))
            alone = {text: forms[0] for text, forms in found.items() if len(forms) == 1}
            return {text: sorted(forms, key=_ENCODER.encode) for text, forms in found.items()} | alone
        return {name: self.form(each, (*path, name)) for name, each in named.items()}

    def _name(self, name: object, place: Path) -> str:
        try:
            return _canonical_name(name)
        except Exception:  # noqa: BLE001  (as in `form`)
            self._note(place, f"the name, {kind_of(name)},")
            return f"{MARK}null"

    def _leaf(self, value: object, path: Path) -> object:
        if isinstance(value, set | frozenset):
            return {f"{MARK}set": sorted(_ENCODER.encode(self.form(each, path)) for each in value)}
        return converted(value, _canonical_leaf, _canonical_names, path)


# -- the plain form


def plain(value: object, *kept: type) -> object:
    """
    Return *value* in JSON types, for JMESPath and for results; what is of the types *kept* stays.

    A Decimal becomes a number, or its digits as text if no float has exactly these; dates and times become
    ISO 8601, a timedelta its seconds, UUIDs, URLs, IP addresses and paths text, bytes base64, and a set a
    sorted list. Values without such a form are left unchanged. Raises NotCanonical if the value contains
    itself or is nested too deeply, and what a property of it raises.
    """
    try:
        if not kept:
            return converted(value, _plain_leaf, _plain_names)
        return converted(
            value,
            lambda part, path: part if isinstance(part, kept) else _plain_leaf(part, path),
            _plain_names,
        )
    except RecursionError:
        raise NotCanonical("a value that contains itself or is nested too deeply has no plain form") from None


def readable(value: object) -> object:
    """
    Return the plain form of *value* as expressions see it.

    An aware datetime is the text of its instant, in UTC: a key is the same in every zone. What contains
    itself, is nested too deeply or raises stays unchanged.
    """
    try:
        return converted(value, _readable_leaf, _plain_names)
    except Exception:  # noqa: BLE001  (arguments of any kind)
        return _Tolerant().form(value, ())


def _readable_leaf(value: object, path: Path) -> object:
    match value:
        case datetime() if value.utcoffset() is not None:
            return value.astimezone(UTC).isoformat()
        case set() | frozenset():
            return _sorted_forms(value, path, _readable_leaf)
        case Raised():
            return value
        case _:
            return _plain_leaf(value, path)


def _sorted_forms(values: set[object] | frozenset[object], path: Path, leaf: Leaf) -> object:
    forms = [converted(each, leaf, _plain_names, path) for each in values]
    return sorted(forms, key=lambda form: json.dumps(form, sort_keys=True, default=repr))


def _plain_leaf(value: object, path: Path) -> object:
    match value:
        case int():
            return int(value)
        case Decimal():
            exact = json_number(value)
            return str(value) if exact is None else exact
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return b64encode(value).decode()
        case set() | frozenset():
            return _sorted_forms(value, path, _plain_leaf)
        case Raised():
            raise value.error
        case _:
            tagged = _tagged(value)
            return value if tagged is None else tagged[1]


def _plain_names(mapping: Mapping[Any, object]) -> Mapping[Any, object]:
    """Return *mapping* with names in plain form; those that JSON can write stay."""
    if all(type(name) is str for name in mapping):
        return mapping
    return {
        name if name is None or type(name) in (str, int, float, bool) else _plain_name(name): each
        for name, each in mapping.items()
    }


def _plain_name(name: object) -> object:
    form = converted(name, _plain_leaf, _plain_names)
    return json.dumps(form, default=repr) if isinstance(form, list | dict) else form


# -- numbers

ZEROS = 25
"""A whole number that ends in this many zeros or more is not written out."""
LARGE: int = 10**ZEROS
"""The first such number."""
EXPANDED_DIGITS = 4_300
"""A longer Decimal is not written out either: Python parses at most this many digits (sys.int_info)."""
FLOAT_DIGITS = 17
"""Most significant digits that `repr(float)` writes (IEEE 754 binary64)."""
LONGEST_FLOAT_TEXT = 24
"""Length of the longest `repr` of a float: -2.2250738585072014e-308."""

# What `repr` writes for a float that is to be written out.
_WHOLE = re.compile(r"\.0(?:[,\]}]|$)")
_WHOLE_EXPONENT = re.compile(r"e\+(?:[1-3]\d|40)(?!\d)")
_ENDS_IN_ZEROS = 10.0 ** (FLOAT_DIGITS + ZEROS - 1)
"""Whole floats from here on end in ZEROS zeros."""
_WRITTEN_ZEROS = "0" * ZEROS


def json_number(value: Decimal) -> int | float | None:
    """
    Return the number that JSON writes with exactly the digits of *value*; None if there is none.

    A float counts by its `repr`: Decimal("0.1") is 0.1, and different Decimals are never the same float.
    """
    if not value.is_finite():
        return None if value.is_snan() else float(value)
    if not value:
        return 0
    if value == value.to_integral_value() and value.adjusted() < EXPANDED_DIGITS:
        digits, exponent = _scientific(value)
        if exponent < ZEROS:
            return int(f"{digits}{'0' * exponent}")
    text = str(value)
    found = float(text)
    return found if is_shortest(text, found) else None


def _scientific(value: Decimal) -> tuple[str, int]:
    """Return *value*, finite and not 0, as sign and digits without zeros at the end, and a power of ten."""
    mantissa, _, exponent = f"{value:e}".partition("e")  # the decimal context has no influence
    digits = mantissa.replace(".", "").rstrip("0")
    return digits, int(exponent) + 1 - len(digits.lstrip("-"))


def _decimal_form(value: Decimal) -> object:
    """Return *value* as a JSON number, or tagged. It must not be a signalling NaN."""
    exact = json_number(value)
    if exact is not None:
        return exact
    digits, exponent = _scientific(value)
    return {_DECIMAL: f"{digits}e{exponent}"}


@lru_cache(maxsize=1_024, typed=True)  # a body of a million such numbers repeats them
def _number_form(value: float) -> object:
    if isinstance(value, float):
        if not value.is_integer() or abs(value) >= _ENDS_IN_ZEROS:
            return value
        value = int(Decimal(repr(value)))
    return value if value % LARGE or not value else _decimal_form(Decimal(value))


def _exact(value: object) -> int | float:
    """Return *value*, a Decimal, as a number. Raises TypeError if there is none, and for any other type."""
    number = json_number(value) if isinstance(value, Decimal) else None
    if number is None:
        raise TypeError
    return number


# A cycle raises RecursionError; the encoder's own check for cycles would cost time.
_ENCODER = json.JSONEncoder(
    sort_keys=True, default=_exact, ensure_ascii=False, check_circular=False, separators=(",", ":")
)


def is_shortest(text: str, number: float) -> bool:
    """
    Return whether the `repr` of *number*, ``float(text)`` and not 0, has exactly the digits of *text*.

    A body may have millions of numbers, so this compares texts and creates no Decimals. Equal digits mean
    equal values, as rounding cannot change a value by a factor of ten.
    """
    if len(text) > LONGEST_FLOAT_TEXT and len(_digits(text)) > FLOAT_DIGITS:
        return False
    shortest = repr(number)
    if shortest == text:
        return True
    if "e" not in shortest and "." in text and text[-1] != "0" and "e" not in text and "E" not in text:
        return False  # a fraction has one text without exponent and trailing zeros
    return _digits(shortest) == _digits(text)


def _digits(text: str) -> str:
    """Return the digits of *text*, a decimal, without leading and trailing zeros."""
    mantissa = text if "e" not in text and "E" not in text else text.lower().partition("e")[0]
    return mantissa.strip("-0.").replace(".", "")
