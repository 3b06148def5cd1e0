"""
Whether a duplicate would get what was returned (guarantee 14).

A result is compared with what its stored text loads as, by the declared type and not by the user's ``==``: a
class may call two things equal that are not. Where no type is declared, duplicates are promised JSON's form
of it; that it differs is worth a line in the log, and no more.

What we are not happy with: pydantic knows the schema, and yet this walks annotations a second time. Its
serialiser's own warnings miss an arm of a union, and warn of what replays well.
"""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from numbers import Number
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    NewType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from lambda_once.core.fields import printable
from lambda_once.core.objects import Path

_UNTYPED: Final = (Any, object)
_UNIONS: Final = (Union, UnionType)
_SCALARS: Final = frozenset({str, int, float, bool, bytes, Decimal, datetime, date, time, timedelta})
"""Equal ones of one class are the same under any annotation; datetimes if their fold is equal, too."""
_JSON: Final = frozenset({str, int, float, bool, type(None), dict, list, tuple})
_TEXTS: Final = (str, bytes, bytearray, memoryview)


class Declared(Enum):
    """Stands for a type that is declared and not known here."""

    SOMEHOW = "somehow"


class Drained(Enum):
    """The result has an iterator, which storing it has exhausted: the first caller gets the loaded value."""

    DRAINED = "drained"


class Difference(NamedTuple):
    """The first part of a result that would come back different."""

    path: str
    """Such as ``lines.0.paid``; empty for the whole result."""
    returned: str
    """The type of what was returned there."""
    loaded: str
    """The type of what a duplicate would get."""
    typed: bool
    """Whether a type is declared there; if not, it is JSON's form."""

    @property
    def at(self) -> str:
        """Where, and what became of what."""
        changed = "its content" if self.returned == self.loaded else f"{self.returned} to {self.loaded}"
        return f"{self.path or 'the result'}: {changed}"


def difference(annotation: object, returned: object, loaded: object) -> Difference | Drained | None:
    """
    Return where *loaded* is not what was *returned* under *annotation*; None if nowhere.

    Not a difference where a type is declared: a subclass of a plain type, or a number of equal value (int for
    float), NaN, an equal instant, another container, a private attribute. A comparison that raises is one.
    """
    if type(returned) in _JSON and _is_equal_json(returned, loaded):
        return None
    try:
        _compare(annotation, returned, loaded, ())
    except _Different as different:
        return different.found
    except _HasIterator:
        return Drained.DRAINED
    except Exception:  # noqa: BLE001  (a property or ``==`` of the user's may raise anything)
        return _found(returned, loaded, (), typed=annotation not in _UNTYPED)
    return None


class _Different(Exception):
    def __init__(self, found: Difference) -> None:
        self.found = found


class _HasIterator(Exception):
    pass


def _is_equal_json(returned: Any, loaded: Any) -> bool:
    """Whether both are the same JSON, with the same types at every level. At C speed; 2: no references."""
    try:
        return marshal.dumps(returned, 2) == marshal.dumps(loaded, 2)
    except ValueError:  # another type, a subclass, or nested too deeply
        return False


def _found(returned: object, loaded: object, path: Path, *, typed: bool) -> Difference:
    kinds = (f"{type(each).__module__}.{type(each).__qualname__}" for each in (returned, loaded))
    one, other = (kind.removeprefix("builtins.") for kind in kinds)
    return Difference(".".join(printable(str(step)) for step in path), one, other, typed)


def _compare(annotation: object, returned: Any, loaded: Any, path: Path) -> None:
    """Raise _Different where they differ."""
    if _is_equal_scalar(returned, loaded):
        return
    if isinstance(returned, Iterator):
        raise _HasIterator
    annotation = _bare(annotation)
    if annotation in _UNTYPED:
        _compare_untyped(returned, loaded, path)
    elif not _is_class(annotation) and get_origin(annotation) in _UNIONS:
        _compare_by_arm(get_args(annotation), returned, loaded, path)
    elif _has_fields(loaded) or _has_fields(returned):
        _compare_fields(returned, loaded, path)
    elif not _are_alike_containers(annotation, returned, loaded, path) and not _is_same(returned, loaded):
        raise _Different(_found(returned, loaded, path, typed=True))


def _is_equal_scalar(returned: Any, loaded: Any) -> bool:
    """Whether both are one object, or equal ones of one of `_SCALARS`: most values end here."""
    if returned is loaded:
        return True
    kind = type(returned)
    if kind is not type(loaded) or kind not in _SCALARS or returned != loaded:
        return False
    return kind is not datetime or bool(returned.fold == loaded.fold)


def _bare(annotation: Any) -> object:
    """Return *annotation* without aliases and metadata."""
    while not _is_class(annotation):
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        elif isinstance(annotation, TypeVar | str):
            return Declared.SOMEHOW
        else:
            break
    return annotation


def _is_class(annotation: object) -> bool:
    """Whether *annotation* is a class itself, which `isinstance` says of ``list[int]``, too."""
    return issubclass(type(annotation), type)


def _compare_by_arm(arms: Sequence[object], returned: object, loaded: object, path: Path) -> None:
    """Compare by the arms of a union that *returned* is an instance of; by any if it is of none."""
    fitting = [arm for arm in arms if _is_instance(returned, arm)]
    first: _Different | None = None
    for arm in [arm for arm in fitting if _is_instance(loaded, arm)] if fitting else arms:
        try:
            _compare(arm, returned, loaded, path)
        except _Different as different:
            first = first or different
        else:
            return
    raise first or _Different(_found(returned, loaded, path, typed=True))


def _is_instance(value: object, arm: object) -> bool:
    """Whether *value* is of the class of *arm*; of unknown arms everything is."""
    arm = _bare(arm)
    kind = get_origin(arm) or arm
    if kind is None:
        return value is None
    return isinstance(value, kind) if isinstance(kind, type) else True


# -- objects


def _compare_fields(returned: Any, loaded: Any, path: Path) -> None:
    if type(returned) is not type(loaded) and _class_of(returned) is not _class_of(loaded):
        raise _Different(_found(returned, loaded, path, typed=True))
    for name, hint in _fields_of(type(loaded)).items():
        one, other = getattr(returned, name), getattr(loaded, name)
        if not _is_equal_scalar(one, other):
            _compare(hint, one, other, (*path, name))
    extra, back = getattr(returned, "model_extra", None), getattr(loaded, "model_extra", None)
    if extra or back:
        _compare(Declared.SOMEHOW, extra or {}, back or {}, path)


def _has_fields(value: object) -> bool:
    """Whether *value* is a dataclass, or a model of pydantic."""
    return hasattr(type(value), "__dataclass_fields__") or hasattr(type(value), "__pydantic_fields__")


def _class_of(value: object) -> object:
    """Return the class of *value*; of a generic model, whatever its parameters, the generic class."""
    generic = getattr(type(value), "__pydantic_generic_metadata__", None) or {}
    return generic.get("origin") or type(value)


def _fields_of(kind: Any) -> dict[str, object]:
    """Return the annotations of the fields of *kind*, by their names."""
    if not hasattr(kind, "__dataclass_fields__"):
        return {name: field.annotation for name, field in kind.__pydantic_fields__.items()}
    try:
        return _hints_of_dataclass(kind)
    except Exception:  # noqa: BLE001  (one name that cannot be resolved makes all fail)
        return dict.fromkeys((field.name for field in dataclasses.fields(kind)), Declared.SOMEHOW)


@lru_cache(maxsize=256)  # to resolve names costs more than all else here; what raises is tried again
def _hints_of_dataclass(kind: Any) -> dict[str, object]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints.get(field.name, Declared.SOMEHOW) for field in dataclasses.fields(kind)}


# -- containers


def _are_alike_containers(annotation: Any, returned: Any, loaded: Any, path: Path) -> bool:
    """Compare both as containers, and return whether they are some. A declared type may allow another one."""
    if isinstance(returned, Mapping) and isinstance(loaded, Mapping):
        key, value = _arguments(annotation, 2)
        _check_lengths(returned, loaded, path)
        for (one, content), (other, back) in zip(returned.items(), loaded.items(), strict=True):
            _compare(key, one, other, (*path, one))
            _compare(value, content, back, (*path, one))
    elif isinstance(returned, AbstractSet) and isinstance(loaded, AbstractSet):
        (item,) = _arguments(annotation, 1)
        _check_lengths(returned, loaded, path)
        for one in returned:
            if not any(_is_alike(item, one, other) for other in ({one} & loaded or loaded)):
                raise _Different(_found(returned, loaded, path, typed=item not in _UNTYPED))
    elif _is_row(returned) and _is_row(loaded):
        _check_lengths(returned, loaded, path)
        items = _arguments_of_row(annotation, type(loaded), len(returned))
        for index, (item, one, other) in enumerate(zip(items, returned, loaded, strict=True)):
            _compare(item, one, other, (*path, index))
    else:
        return False
    return True


def _is_row(value: object) -> bool:
    """Whether *value* is a list, a tuple, a deque, or a set where JSON has made a list of it."""
    return isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, _TEXTS)


def _check_lengths(returned: Any, loaded: Any, path: Path) -> None:
    if len(returned) != len(loaded):
        raise _Different(_found(returned, loaded, path, typed=True))


def _is_alike(annotation: object, returned: object, loaded: object) -> bool:
    try:
        _compare(annotation, returned, loaded, ())
    except _Different:
        return False
    return True


def _arguments(annotation: Any, count: int) -> tuple[object, ...]:
    """
    Return the *count* arguments of a container's *annotation*; Any for those of a bare ``dict``.

    A TypedDict has none, either: its results are plain JSON, as pydantic reads none before Python 3.12.
    """
    args = get_args(annotation)
    if len(args) == count:
        return args
    return (Declared.SOMEHOW if annotation is Declared.SOMEHOW else Any,) * count


def _arguments_of_row(annotation: Any, kind: Any, count: int) -> Sequence[object]:
    """Return the annotations of the *count* items of a list or tuple of class *kind*."""
    if hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return [hints.get(name, Any) for name in kind._fields]
    args = get_args(annotation)
    if args and args[-1] is Ellipsis:
        return args[:1] * count
    if get_origin(annotation) is tuple and len(args) == count:
        return args
    return (args if len(args) == 1 else _arguments(annotation, 1)) * count


# -- single values


def _is_same(returned: Any, loaded: Any) -> bool:
    """Whether two single values of a declared type are the same."""
    match returned, loaded:
        case (Number(), Number()):
            return bool(returned == loaded) or (returned != returned and loaded != loaded)  # noqa: PLR0124  (NaN)
        case (str(), str()):
            return str.__eq__(returned, loaded)
        case (bytes() | bytearray() | memoryview(), bytes() | bytearray() | memoryview()):
            return bytes(returned) == bytes(loaded)
        case (datetime(tzinfo=None), datetime(tzinfo=None)):
            return returned == loaded
        case (datetime(), datetime()):
            # Never equal by == in the hour that summer time repeats (PEP 495).
            aware = returned.tzinfo is not None and loaded.tzinfo is not None
            return aware and returned.astimezone(UTC) == loaded.astimezone(UTC)
        case (date(), date()):
            return isinstance(returned, datetime) is isinstance(loaded, datetime) and returned == loaded
        case _:
            return type(returned) is type(loaded) and _is_same_object(returned, loaded)


def _is_same_object(returned: Any, loaded: Any) -> bool:
    if hasattr(returned, "get_secret_value"):
        return _is_alike(Declared.SOMEHOW, returned.get_secret_value(), loaded.get_secret_value())
    if bool(returned == loaded):
        return True
    has_own_equality = "__eq__" in {name for kind in type(returned).__mro__[:-1] for name in vars(kind)}
    return not has_own_equality and _is_alike(Declared.SOMEHOW, vars(returned), vars(loaded))


def _compare_untyped(returned: Any, loaded: Any, path: Path) -> None:
    """Compare with JSON's form, in which every type counts; an equal Decimal is one."""
    if isinstance(returned, Iterator):
        raise _HasIterator
    if type(returned) is not type(loaded):
        raise _Different(_found(returned, loaded, path, typed=False))
    if isinstance(returned, dict) and len(returned) == len(loaded):
        for (one, content), (other, back) in zip(returned.items(), loaded.items(), strict=True):
            _compare_untyped(one, other, (*path, one))
            _compare_untyped(content, back, (*path, one))
    elif isinstance(returned, list) and len(returned) == len(loaded):
        for index, (one, other) in enumerate(zip(returned, loaded, strict=True)):
            _compare_untyped(one, other, (*path, index))
    elif not _is_same(returned, loaded):
        raise _Different(_found(returned, loaded, path, typed=False))
