"""
Whether a duplicate would get what was returned (guarantee 14).

A result and what its stored text loads as are walked side by side, each part once, and not by the user's
``==``: a class may call two things equal that are not. The class of the value decides most. The annotation
says three things: whether a type is declared there at all, which arm of a union it is, and whether another
container may stand for it.

Where no type is declared, duplicates are promised JSON's form. That it differs is worth a line in the log and
no more, so it is looked for when the token is written.

What we are not happy with: pydantic knows the schema, and yet this walks annotations a second time. Its
serialiser's own warnings miss an arm of a union, and warn of what replays well.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from inspect import isabstract
from numbers import Number
from types import MemberDescriptorType, NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from lambda_once.core.canonical import comparable
from lambda_once.core.fields import printable
from lambda_once.core.lazy import Shape, bare, check_count, shape_of
from lambda_once.core.results import NotSerialisable

_UNTYPED: Final = (Any, object)
_UNKNOWN: Final = "unknown"
"""In place of an annotation: something is declared, and only an equal value of the same class will do."""
_UNIONS: Final = (Union, UnionType)
_JSON: Final = frozenset({str, int, float, bool, NoneType, dict, list, tuple})
_OF_CONTAINERS: Final = ("builtins", "collections", "collections.abc", "typing")
"""Modules whose containers, declared without arguments, may have anything in them."""
_CONTAINERS: Final = frozenset({dict, list, tuple, set, frozenset})
_BETWEEN_LOOKS: Final = 1_000
"""Parts after which the walk looks at the deadline."""
_BYTES: Final = (bytes, bytearray, memoryview)

_Trail = tuple[Any, object] | None
"""The way to a part: the trail of what contains it, and its name or index there."""
_Part = tuple[Any, Any, Any, _Trail]
"""A part of a result: its annotation, what was returned, what is loaded, and where."""


class Difference(NamedTuple):
    """The first part of a result that would come back different."""

    path: str
    """Such as ``lines.0.paid``; empty for the whole result."""
    returned: str
    """The type of what was returned there."""
    loaded: str
    """The type of what a duplicate would get."""

    @property
    def at(self) -> str:
        """Where, and what became of what."""
        changed = "its content" if self.returned == self.loaded else f"{self.returned} to {self.loaded}"
        return f"{self.path or 'the result'}: {changed}"


def difference(
    annotation: object,
    returned: object,
    loaded: object,
    is_late: Callable[[], bool] = bool,
    *,
    untyped: bool = False,
) -> Difference | None:
    """
    Return where *loaded* is not what was *returned*, of the type *annotation*; None if nowhere.

    What has the same class and equal fields, down to the leaves, is the same. For a plain type an equal value
    will do, such as 5.0 for 5; for an abstract one a list, tuple, set or dict of equal items. NaN equals NaN,
    a Decimal has digits, a datetime an offset and a fold. Private attributes are not compared, and parts
    without a type aren't either; *untyped*: only these are. A comparison that raises is a difference.

    Raises NotSerialisable if there are too many parts, and once *is_late*.
    """
    if type(returned) in _JSON and _is_equal_json(returned, loaded):
        return None
    parts: list[_Part] = [(annotation, returned, loaded, None)]
    count = 0
    while parts:
        declared, one, other, trail = parts.pop()
        count += 1
        if count % _BETWEEN_LOOKS == 0 and is_late():
            raise NotSerialisable("the result could not be compared in time with what duplicates would get")
        if one is other or (type(one) is type(other) and _is_same_leaf(one, other)):
            continue
        is_untyped, inner = False, None
        try:
            declared = _arm(declared, one)
            is_untyped = declared is Any or declared is object
            inner = _inner(declared, one, other, trail) if untyped or not is_untyped else ()
        except Exception:  # noqa: BLE001  (a property or ``==`` of the user's may raise anything)
            inner = None
        if inner is None:
            if is_untyped is untyped:
                return _found(one, other, trail)
        elif inner:
            inner = inner if untyped else [part for part in inner if part[0] is not Any]
            check_count(count + len(parts) + len(inner))
            parts += reversed(inner)
    return None


def _is_equal_json(returned: Any, loaded: Any) -> bool:
    """Whether both are the same JSON, with the same types at every level. At C speed; 2: no references."""
    try:
        return marshal.dumps(returned, 2) == marshal.dumps(loaded, 2)
    except ValueError:  # another type, a subclass, or nested too deeply
        return False


def _found(returned: object, loaded: object, trail: _Trail) -> Difference:
    path: list[str] = []
    while trail is not None:
        trail, step = trail
        path.append(printable(str(step)))
    kinds = (f"{type(each).__module__}.{type(each).__qualname__}" for each in (returned, loaded))
    one, other = (kind.removeprefix("builtins.") for kind in kinds)
    return Difference(".".join(reversed(path)), one, other)


def _inner(annotation: Any, returned: Any, loaded: Any, trail: _Trail) -> list[_Part] | None:
    """Return the parts of a part, none of a leaf; None if it differs already by its class or its content."""
    kinds: tuple[Any, Any] = type(returned), type(loaded)
    of_returned, shape = map(shape_of, kinds)
    if Shape.FIELDS in (shape, of_returned):
        is_same_class = _class_of_fields(returned) is _class_of_fields(loaded)
        return _inner_of_fields(returned, loaded, trail) if is_same_class else None
    if not _may_become(annotation, returned, loaded):
        return None
    if shape is Shape.NONE:
        return [] if _is_same(returned, loaded) else _inner_of_object(returned, loaded, trail)
    if len(returned) != len(loaded):
        return None
    if shape is Shape.MAPPING:
        return _inner_of_mapping(annotation, returned, loaded, trail)
    if Shape.SET in (shape, of_returned):
        returned, loaded = _by_text(returned), _by_text(loaded)
    items = _arguments_of_row(annotation, returned)
    return [
        (item, one, other, (trail, index))
        for index, (item, one, other) in enumerate(zip(items, returned, loaded, strict=True))
    ]


# -- classes


def _arm(annotation: Any, value: object) -> object:
    """
    Return *annotation* without aliases; of a union the arm of *value*'s class, else one that may be.

    One that says nothing of the parts comes last, as they may be of a class that another one declares.
    """
    if type(annotation) is type:
        return annotation
    annotation = bare(annotation)
    while get_origin(annotation) in _UNIONS:
        arms = sorted((bare(arm) for arm in get_args(annotation)), key=_is_untyped)
        fitting = [arm for arm in arms if _class_of(arm) is type(value)]
        annotation = next(iter(fitting or [arm for arm in arms if _fits(arm, value)]), _UNKNOWN)
    return annotation


def _is_untyped(annotation: object) -> bool:
    """Whether *annotation* declares no type, neither of a value nor of what it contains."""
    return annotation in _CONTAINERS or any(each in _UNTYPED for each in (annotation, *get_args(annotation)))


def _class_of(annotation: Any) -> Any:
    """Return the class that *annotation* names, a dict's for a TypedDict; None if it names none."""
    kind = NoneType if annotation is None else get_origin(annotation) or annotation
    if not isinstance(kind, type) or kind in _UNTYPED:
        return None
    return dict if is_typed_dict(kind) else kind


def is_typed_dict(kind: object) -> bool:
    """Whether *kind* is a TypedDict, of `typing` or of `typing_extensions`."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__total__")


def _fits(annotation: object, value: object) -> bool:
    """Whether *value* is of the class of *annotation*; of what is unknown everything is."""
    kind = _class_of(annotation)
    try:
        return kind is None or isinstance(value, (kind, int) if kind is float else kind)  # PEP 484
    except TypeError:  # a protocol that is not runtime-checkable
        return True


def _may_become(annotation: object, returned: object, loaded: object) -> bool:
    """Whether *loaded* may be what *returned* comes back as, by their classes and the declared one."""
    if type(returned) is type(loaded):
        return True
    kind = _class_of(annotation)
    if kind is None or not _fits(annotation, loaded):
        return False
    if isabstract(kind) or any(base.__name__ == "Protocol" for base in kind.__bases__):
        is_mapping = isinstance(returned, Mapping)
        return type(loaded) in _CONTAINERS and is_mapping is (type(loaded) is dict)
    return isinstance(returned, type(loaded)) or any(
        isinstance(returned, kinds) and isinstance(loaded, kinds) for kinds in (Number, _BYTES)
    )


# -- objects


def _class_of_fields(value: object) -> object:
    """Return the class of *value*; of a generic model, whatever its parameters, the generic class."""
    generic = getattr(type(value), "__pydantic_generic_metadata__", None) or {}
    return generic.get("origin") or type(value)


def _inner_of_fields(returned: Any, loaded: Any, trail: _Trail) -> list[_Part]:
    kind: Any = type(loaded)
    if hasattr(kind, "__dataclass_fields__"):
        names = [field.name for field in fields(kind)]
        hints = _hints(kind, names)
    else:
        names = list(kind.__pydantic_fields__)
        hints = {name: field.annotation for name, field in kind.__pydantic_fields__.items()}
    parts: list[_Part] = [
        (hints[name], getattr(returned, name), getattr(loaded, name), (trail, name)) for name in names
    ]
    if _keeps_extra(kind):
        parts.append((_UNKNOWN, _extra_of(returned, names), _extra_of(loaded, names), trail))
    return parts


@lru_cache(maxsize=256)
def _keeps_extra(kind: Any) -> bool:
    """Whether what *kind*, a model or a dataclass, doesn't declare is kept in its objects."""
    config = "__pydantic_config__" if hasattr(kind, "__dataclass_fields__") else "model_config"
    return getattr(kind, config, {}).get("extra") == "allow"


def _extra_of(value: Any, names: Sequence[str]) -> Mapping[str, object]:
    """Return what *value* has beside the fields *names*; a dataclass of pydantic has it as attributes."""
    if not hasattr(value, "__dataclass_fields__"):
        return value.__pydantic_extra__ or {}
    held = {name: part for name, part in vars(value).items() if name not in names}
    return {name: held[name] for name in held if name[:1] != "_" and not hasattr(type(value), name)}


def _hints(kind: Any, names: Iterable[str]) -> Mapping[str, object]:
    """Return the annotations of *kind*, which has *names*; `_UNKNOWN` if one of them cannot be resolved."""
    try:
        return _resolved_hints(kind)
    except Exception:  # noqa: BLE001  (an annotation may be any expression)
        return dict.fromkeys(names, _UNKNOWN)


@lru_cache(maxsize=256)  # to resolve names costs more than all else here; what raises is tried again
def _resolved_hints(kind: Any) -> Mapping[str, object]:
    return get_type_hints(kind)


def _inner_of_object(returned: Any, loaded: Any, trail: _Trail) -> list[_Part] | None:
    """Return what two unequal leaves hold, unless their class says itself what is equal."""
    if hasattr(returned, "get_secret_value"):
        return [(_UNKNOWN, returned.get_secret_value(), loaded.get_secret_value(), trail)]
    if any("__eq__" in vars(kind) for kind in type(returned).__mro__[:-1]):
        return None
    return [(_UNKNOWN, _held(returned), _held(loaded), trail)]


def _held(value: Any) -> dict[str, object]:
    """Return the attributes of *value*, also those in slots. Raises TypeError if it is of neither."""
    slots = [
        name
        for kind in type(value).__mro__
        if "__slots__" in vars(kind)
        for name, member in vars(kind).items()
        if isinstance(member, MemberDescriptorType) and hasattr(value, name)
    ]
    own = vars(value) if hasattr(value, "__dict__") or not slots else {}
    return {**own, **{name: getattr(value, name) for name in slots}}


# -- containers


def _inner_of_mapping(annotation: Any, returned: Any, loaded: Any, trail: _Trail) -> list[_Part] | None:
    """Pair the values of equal names, and of others those of equal canonical text, with their names."""
    kind = get_origin(annotation) or annotation
    hints = _hints(kind, returned) if is_typed_dict(kind) else {}
    key, value = (str, _UNKNOWN) if hints else _arguments(annotation, 2)
    if all(type(name) is str for names in (returned, loaded) for name in names):
        if returned.keys() != loaded.keys():
            return None
        return [
            (hints.get(name, value), part, loaded[name], (trail, name)) for name, part in returned.items()
        ]
    names = zip(_by_text(returned), _by_text(loaded), strict=True)
    return [
        part
        for one, other in names
        for part in ((key, one, other, (trail, one)), (value, returned[one], loaded[other], (trail, one)))
    ]


def _by_text(items: Iterable[Any]) -> list[Any]:
    """Return the items of a set in the order of their canonical texts: equal ones are at one place then."""
    return sorted(items, key=lambda item: (comparable(item, []), type(item).__qualname__))


def _arguments(annotation: Any, count: int) -> tuple[object, ...]:
    """Return the *count* arguments of a container's *annotation*; Any for those of a bare ``dict``."""
    args = get_args(annotation)
    if len(args) == count:
        return args
    is_bare = annotation in _UNTYPED or getattr(annotation, "__module__", None) in _OF_CONTAINERS
    return (Any if is_bare and not args else _UNKNOWN,) * count


def _arguments_of_row(annotation: Any, row: Any) -> Sequence[object]:
    """Return the annotations of the items of *row*, a list, tuple, set or the like."""
    if hasattr(row, "_fields"):
        hints = _hints(type(row), row._fields)
        return [hints.get(name, Any) for name in row._fields]
    args = get_args(annotation)
    if args and args[-1] is Ellipsis:
        return args[:1] * len(row)
    if get_origin(annotation) is tuple and len(args) == len(row):
        return args
    return _arguments(annotation, 1) * len(row)


# -- leaves


def _is_same_leaf(returned: Any, loaded: Any) -> bool:
    """Whether two values of one class are the same leaf: most parts are."""
    kind = type(returned)
    if kind in _PLAIN and returned == loaded:
        return True
    return kind in _EXACT and _EXACT[kind](returned) == _EXACT[kind](loaded)


def _clock_of(value: Any) -> tuple[object, ...]:
    """Return what a datetime or time shows. An equal one may have another offset, or another fold."""
    return value.replace(tzinfo=None), value.utcoffset(), value.fold


_PLAIN: Final = frozenset({str, int, float, bool, bytes, date, timedelta})
"""Equal ones of one class are the same."""
_EXACT: Final[Mapping[Any, Callable[[Any], object]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__repr__,
    Decimal: Decimal.__str__,
    datetime: _clock_of,
    time: _clock_of,
}
"""What tells values apart, also equal ones and those of subclasses that compare by a rule of their own."""


def _is_same(returned: Any, loaded: Any) -> bool:
    """Whether two leaves, of one class or of related ones, are the same."""
    for kind, shown in _EXACT.items():
        if isinstance(returned, kind) and isinstance(loaded, kind):
            return bool(shown(returned) == shown(loaded))
    return bool(loaded == returned)  # in this order, as what was loaded is of no class of the user's
