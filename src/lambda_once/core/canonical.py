"""
The canonical form: equal values have the same text. Keys and fingerprints are hashes of it.

JSON values are written as JSON, with names sorted, no white space, and numbers by their exact digits. Other
values are *tagged*: written as an object whose only name begins with U+0000. A name that already begins with
U+0000 gets another one, so a tagged form never equals a plain value. Different values have different texts,
with one exception: numbers, booleans and None as names count as the text that JSON writes for them.

Equal numbers have the same text: 5, 5.0, 5e0 and Decimal("5.00") are `5`. A whole number that ends in ZEROS
zeros or more has an exponent, so the form is never much longer than the input.

The same traversal (`converted`) makes the *plain form* of a value, for JMESPath and for results. Dataclasses
and models count by what they hold (`objects`); a result is what they print.

A key needs the form of its whole payload. A fingerprint does not: in `comparable`, null stands for each part
without a form. That takes a second walk, which tries each part alone. We are not happy with two, but every
call makes the first one, so it has to be fast.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from lambda_once.core.objects import (
    ROOT,
    ContainsItself,
    Fields,
    Note,
    Noted,
    Path,
    Raised,
    Walk,
    content_of,
    is_form,
    kind_of,
    value_of,
)

VERSION = "1"
"""The version of the canonical form. Fingerprints of different versions never match."""

MARK = "\0"
"""The first character of the name in a tagged form."""
_DECIMAL = f"{MARK}decimal"
_WRITTEN_MARK = '"\\u0000'

Leaf = Callable[[object, Path], object]
"""Converts a value that is not JSON."""
Names = Callable[[Mapping[Any, object]], Mapping[Any, object]]
"""Converts the names of a mapping."""

_MAPPINGS = (dict, Mapping)  # isinstance of a dict is quick, of an abstract class slow
_LISTS = (list, tuple, deque)
_SETS = (set, frozenset)
_NUMBERS = frozenset({int, float, Decimal})
NEVER_WRAPS = frozenset({dict, list, tuple, *_NUMBERS})
"""Types that `unwrapped` returns unchanged."""
_CONTAINERS = (*_MAPPINGS, *_LISTS, *_SETS)
_TOO_DEEP: Final = "a value that contains itself or is nested too deeply"
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
Types whose form is their text, each with its tag; by public name, so that their modules are not imported.

A value can only be of a type whose module is loaded.
"""


class NotCanonical(TypeError):
    """A value or a part of it has no canonical form. The message has the path, never the value."""

    tried = False
    """Whether the serialiser of the closest field around the value wrote nothing better."""


class NoForm(NotCanonical):
    """Its type has none, or its code raises: a matter of the program, not of what was sent."""

    @classmethod
    def of(cls, value: object, path: Path) -> NoForm:
        where = ".".join(map(str, path)) or "the value itself"
        return cls(f"{where}: {kind_of(value)} has no canonical form")


def canonical(value: object, noted: Noted | None = None) -> bytes:
    """
    Return the canonical JSON of *value*. Adds to *noted* as `written` does.

    The order of names and white space do not matter; 1, 1.0, 1e0 and Decimal("1.00") are equal. Tuples become
    lists, dataclasses and pydantic models objects of what they hold, Powertools' data classes their raw
    event, members of an Enum their value, and numpy's scalars numbers. A Decimal that no float represents,
    datetimes (aware ones by instant), dates, times, timedeltas, UUIDs, URLs, IP addresses and networks,
    paths, bytes and sets are tagged, so they never equal a string or a list. Raises NotCanonical for any
    other type (`NoForm`), for cycles and for values nested too deeply.
    """
    try:
        return written(value, noted).encode("utf-8", "surrogatepass")
    except RecursionError:
        raise NotCanonical(f"{_TOO_DEEP} is not canonical") from None
    except Exception as error:  # noqa: BLE001  (a property of the user's may raise anything)
        raise _not_canonical(error)  # noqa: B904  (it has its cause)


def _not_canonical(error: Exception) -> NotCanonical:
    """Return *error*, raised for a value, as NotCanonical."""
    if isinstance(error, NotCanonical):
        return error
    if isinstance(error, ContainsItself):
        return NotCanonical(f"{_TOO_DEEP} is not canonical")
    if isinstance(error, ValueError | OverflowError):
        problem = NotCanonical(f"a number or a time is out of range: {type(error).__name__}")
        problem.__suppress_context__ = True
        return problem
    problem = NoForm(f"a part of it raised {type(error).__name__}")
    problem.__cause__ = error
    return problem


def digest(value: object, noted: Noted | None = None) -> str:
    """
    Return the SHA-256 of the canonical form in hex, 64 characters. Raises NotCanonical.

    Adds to *noted* as `written` does.
    """
    return sha256(canonical(value, noted)).hexdigest()


def fingerprint(value: object) -> str:
    """Return ``1.`` (the version of the canonical form) and the digest in hex. Raises NotCanonical."""
    return f"{VERSION}.{digest(value)}"


# -- the walk


def unwrapped(value: object) -> object:
    """Return `content_of` of *value*; of a root model of a number, the number."""
    content = content_of(value)
    if type(content) is not Fields or not content.schema.is_root:
        return content
    root = unwrapped(content.held.get(ROOT))
    return root if type(root) in _NUMBERS else content


def converted(value: object, leaf: Leaf, names: Names, path: Path = ()) -> object:
    """
    Return *value* as dicts, lists, strings, integers below LARGE, booleans and None.

    *leaf* converts everything else, such as larger integers, and `Fields`.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None or (kind is int and abs(value) < LARGE):  # type: ignore[arg-type]  # an int
        return value
    if kind in _NUMBERS:
        return leaf(value, path)
    if kind not in NEVER_WRAPS:
        inner = content_of(value)
        if type(inner) is Fields:
            return leaf(inner, path)
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


def written(value: object, noted: Noted | None = None) -> str:
    """
    Return the canonical text. Raises if there is none.

    Adds to *noted* the excluded fields of models that do not count, as their values have no form.
    """
    # The C encoder alone writes most values: few have a number or a name that needs another form.
    try:
        text = _encoded(value)
    except (TypeError, InvalidOperation):  # another type; names that cannot be sorted, or compared
        return _Strict(noted).text(value, ())
    return text if _is_canonical(text) else _Strict(noted).text(value, ())


def _is_canonical(text: str) -> bool:
    """Return whether *text*, from the encoder, is canonical. A string that looks like a number costs time."""
    return not (
        _WRITTEN_MARK in text
        or _WRITTEN_ZEROS in text
        or (".0" in text and _WHOLE.search(text))
        or _WHOLE_EXPONENT.search(text)
    )


class _Strict(Walk):
    """Converts to the canonical form. Raises where a part has none."""

    def text(self, value: object, path: Path) -> str:
        """Return the text of *value*, which is at *path*."""
        return _ENCODER.encode(converted(value, self.leaf, _canonical_names, path))

    def leaf(self, value: object, path: Path) -> object:
        """Return the form of *value*, of no type that JSON has."""
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
                return {f"{MARK}set": sorted(self.text(each, path) for each in value)}
            case Fields():
                return self._object(value, path)
            case _:
                return _tagged_form(value, path)

    def _escape(self, form: dict[str, object]) -> Mapping[Any, object]:
        return _canonical_names(form)

    def _try_form(self, value: object, path: Path) -> tuple[object, NotCanonical | None]:
        try:
            return converted(value, self.leaf, _canonical_names, path), None
        except RecursionError:
            raise
        except Exception as error:  # noqa: BLE001  (a property of the user's may raise anything)
            return None, _not_canonical(error)

    def _keep_or_raise(self, form: object, problem: NotCanonical) -> object:  # noqa: ARG002  (as `Walk` has it)
        raise problem


def _tagged_form(value: object, path: Path) -> object:
    tagged = _tagged(value)
    if tagged is None:
        raise NoForm.of(value, path)
    return {f"{MARK}{tagged[0]}": tagged[1]}


def _tagged(value: Any) -> tuple[str, str] | None:
    """Return the tag of *value* and its text; None if its type has none."""
    kind: Any = type(value)
    tag = _tag_of(kind)
    return None if tag is None else (tag[0], tag[1](value))


@lru_cache(maxsize=256)
def _tag_of(kind: Any) -> tuple[str, Callable[[object], str]] | None:
    tags = {_type_named(name): tag for name, tag in _TAGS.items()}
    base = next((each for each in kind.__mro__ if each in tags), None)
    return None if base is None else (tags[base], base.__str__)  # a subclass may mask its text


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
    renamed = {_canonical_name(name): value for name, value in mapping.items()}
    if len(renamed) < len(mapping):
        raise NotCanonical("two names of one mapping are the same in canonical form")
    return renamed


def _leaf_of_name(value: object, path: Path) -> object:
    return _Strict().leaf(value, path)


def _canonical_name(name: object) -> str:
    form = converted(name, _leaf_of_name, _canonical_names)
    if isinstance(form, str):
        return MARK + form if form.startswith(MARK) else form
    return MARK + _ENCODER.encode(form)


# -- the form of what a fingerprint compares

DEEPEST: Final = 64
"""Levels of a value that `comparable` and `readable` look at if the whole has no form."""
MOST_PARTS: Final = 100_000
"""Containers that they look at: objects that refer to each other can be reached on very many paths."""


def comparable(value: object, noted: Noted) -> str:
    """
    Return the canonical text of *value*, with null for each part without a form.

    Such a part is of a type without a form, raises, contains itself, is nested too deeply or out of range.
    A name without a form counts as null, too. Puts all of them into *noted*. Raises nothing.
    """
    noted.clear()
    try:
        return _ENCODER.encode(_Comparable(noted).form(value, ()))
    except Exception:  # noqa: BLE001  (the stack has no room for the walk)
        noted[:] = [Note((), kind_of(value))]
        return "null"


class _Formless:
    """Parts without a form."""

    def __init__(self) -> None:
        self.tried = False
        """Whether serialisers wrote nothing better for all of them (`NotCanonical.tried`)."""
        self.noted: Noted = []


class _Tolerant(Walk):
    """Converts to the plain form; a part that has none stays unchanged."""

    def __init__(self, noted: Noted | None = None) -> None:
        super().__init__(noted)
        self._within: set[int] = set()
        self._left = MOST_PARTS
        self._formless: _Formless | None = None
        """Those of the closest field's value, so far."""

    def form(self, value: object, path: Path) -> object:
        """Return the form of *value*, which is at *path*."""
        if is_form(value):
            return value
        owner = value.owner if type(value) is Fields else value
        if id(owner) in self._within or len(path) > DEEPEST:
            return self._replace(
                owner, path, f"{kind_of(owner)} that contains itself or is nested too deeply"
            )
        self._within.add(id(owner))
        try:
            if type(value) in _NUMBERS:
                return self._leaf(value, path)
            inner = content_of(value)
            is_open = inner is value or type(inner) is Fields
            return self._form(inner, path) if is_open else self.form(inner, path)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001  (a value of the user's may raise anything)
            return self._replace(owner, path, kind_of(owner))
        finally:
            self._within.discard(id(owner))

    def _form(self, value: object, path: Path) -> object:
        if isinstance(value, _CONTAINERS):
            self._left -= 1
            if self._left < 0:
                return self._replace(value, path, f"{kind_of(value)} behind {MOST_PARTS} others")
            if isinstance(value, Fields):
                return self._object(value, path)
            if isinstance(value, _MAPPINGS):
                return self._mapping(value, path)
            if isinstance(value, _LISTS):
                return [self.form(each, (*path, index)) for index, each in enumerate(value)]
            return self._set([self.form(each, path) for each in value])
        return self._leaf(value, path)

    def _replace(self, value: object, _path: Path, _kind: str) -> object:
        self._formless = _Formless()
        return value

    def _mapping(self, mapping: Mapping[Any, object], path: Path) -> object:
        return {name: self.form(each, (*path, name)) for name, each in _plain_names(mapping).items()}

    def _set(self, forms: list[object]) -> object:
        return _sorted(forms)

    def _leaf(self, value: object, path: Path) -> object:
        form = converted(value, _readable_leaf, _plain_names, path)
        has_none = form is value and not isinstance(value, str | int | float | None)
        return self._replace(value, path, kind_of(value)) if has_none else form

    def _escape(self, form: dict[str, object]) -> Mapping[Any, object]:
        return form

    def _try_form(self, value: object, path: Path) -> tuple[object, _Formless | None]:
        outer, self._formless = self._formless, None
        noted = len(self._noted)
        form = self.form(value, path)
        problem, self._formless = self._formless, outer
        if problem is not None:
            problem.noted = self._noted[noted:]
        return form, problem

    def _keep_or_raise(self, form: object, problem: _Formless) -> object:
        self._noted += problem.noted
        problem.tried = problem.tried and (self._formless is None or self._formless.tried)
        self._formless = problem
        return form


class _Comparable(_Tolerant):
    """Converts to the canonical form; a part that has none is null, and noted."""

    def __init__(self, noted: Noted) -> None:
        super().__init__(noted)
        self._strict = _Strict()

    def _replace(self, _value: object, path: Path, kind: str) -> None:
        self._formless = _Formless()
        self._noted.append(Note(path, kind))

    def _mapping(self, mapping: Mapping[Any, object], path: Path) -> object:
        try:
            renamed = _canonical_names(mapping)
        except Exception:  # noqa: BLE001  (as in `form`)
            by_name: dict[str, list[object]] = {}
            for name, value in mapping.items():
                place = (*path, name if isinstance(name, str) else kind_of(name))
                by_name.setdefault(self._name(name, place), []).append(self.form(value, place))
            alone = {name: forms[0] for name, forms in by_name.items() if len(forms) == 1}
            return {name: sorted(forms, key=_ENCODER.encode) for name, forms in by_name.items()} | alone
        return {name: self.form(value, (*path, name)) for name, value in renamed.items()}

    def _name(self, name: object, place: Path) -> str:
        try:
            return _canonical_name(name)
        except Exception:  # noqa: BLE001  (as in `form`)
            self._replace(name, place, f"the name, {kind_of(name)},")
            return f"{MARK}null"

    def _set(self, forms: list[object]) -> object:
        return {f"{MARK}set": sorted(map(_ENCODER.encode, forms))}

    def _leaf(self, value: object, path: Path) -> object:
        return converted(value, self._strict.leaf, _canonical_names, path)

    def _escape(self, form: dict[str, object]) -> Mapping[Any, object]:
        return _canonical_names(form)


# -- the plain form


def plain(value: object, *kept: type) -> object:
    """
    Return *value* in JSON types, for JMESPath and for results; what is of the types *kept* stays.

    A Decimal becomes a number, or its digits as text if no float has exactly these; dates and times become
    ISO 8601, a timedelta its seconds, UUIDs, URLs, IP addresses and paths text, bytes base64, and a set a
    sorted list. Values without such a form are left unchanged. Raises NotCanonical if the value contains
    itself or is nested too deeply, and what a property of it raises. As a name, a Decimal is always text.
    """

    def leaf(part: object, path: Path) -> object:
        return part if isinstance(part, kept) else _plain_leaf(part, path, leaf, names)

    def names(mapping: Mapping[Any, object]) -> Mapping[Any, object]:
        if any(isinstance(name, Decimal) for name in mapping):
            mapping = {
                str(name) if isinstance(name, Decimal) else name: each for name, each in mapping.items()
            }
        return _plain_names(mapping)

    try:
        return converted(value, leaf, names) if kept else converted(value, _plain_leaf, _plain_names)
    except RecursionError:
        raise NotCanonical(f"{_TOO_DEEP} has no plain form") from None


def readable(value: object) -> object:
    """
    Return the plain form of *value* as expressions see it.

    An aware datetime is the text of its instant, in UTC: a key is the same in every zone. What contains
    itself, is nested too deeply or raises stays unchanged.
    """
    try:
        return converted(value, _readable_leaf, _plain_names)
    except Exception:  # noqa: BLE001  (arguments of any kind)
        return _Readable().form(value, ())


class _Readable(_Tolerant):
    """Converts to the plain form with computed fields, which an expression may select."""

    def _object(self, fields: Fields, path: Path) -> Any:
        form = super()._object(fields, path)
        for label, name in fields.schema.computed.items():
            if label not in fields.left_out:
                form[label], _ = self._try_form(value_of(fields.owner, name), (*path, label))
        return form


def _readable_leaf(value: object, path: Path) -> object:
    match value:
        case datetime() if value.utcoffset() is not None:
            return value.astimezone(UTC).isoformat()
        case Fields():
            return _Readable().form(value, path)
        case Raised():
            return value
        case _:
            return _plain_leaf(value, path, _readable_leaf)


def _sorted(forms: list[object]) -> list[object]:
    """Return *forms*, the plain forms of a set's items, in the order of their texts."""
    return sorted(forms, key=lambda form: json.dumps(form, sort_keys=True, default=repr))


def _plain_leaf(value: object, path: Path, leaf: Leaf | None = None, names: Names | None = None) -> object:
    """Return the plain form of *value*; *leaf* is that of its parts, by default this one."""
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
            return _sorted(
                [converted(each, leaf or _plain_leaf, names or _plain_names, path) for each in value]
            )
        case Fields():
            return converted(value.printed(), leaf or _plain_leaf, names or _plain_names, path)
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

# What `repr` writes for a float that the canonical form writes out.
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
    number = float(text)
    return number if is_shortest(text, number) else None


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


def _encoding(encoder: json.JSONEncoder) -> Callable[[object], str]:
    """Return `encode` of *encoder*, which makes an encoder in C for each value: this one is made once."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)  # CPython's own, undocumented
    if make is None:
        return encoder.encode
    quoted, sort_keys, skipkeys, allow_nan = json.encoder.encode_basestring, True, False, True
    chunks = make(None, encoder.default, quoted, None, ":", ",", sort_keys, skipkeys, allow_nan)
    return lambda value: "".join(chunks(value, 0))


_encoded: Final = _encoding(_ENCODER)


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
