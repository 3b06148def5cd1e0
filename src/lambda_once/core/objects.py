"""
What an object holds: the fields of dataclasses and of pydantic's models, and which of them count.

A model counts by the values of its own fields, of the class that it is, and not as it prints: a serialiser
may drop what differs, ``exclude=True`` leaves fields out, and where a base class is declared, its fields are
all that is printed of a subclass. Private attributes and computed fields don't count, and neither does an
excluded field that its default_factory filled, such as the time of parsing.

Where a union of classes is declared, for a field or a parameter, the class counts: an order that was created
and one that was deleted may have equal fields. It doesn't where a field tells the classes apart, so a model
of one equals the dict.

A value without a form counts as its serialiser writes it. We find out by converting it first, so such a field
is walked twice; what contains it isn't, unless it is written by a function of its own.

pydantic isn't imported: its models bring what is read here, by names that its reference documents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping
from dataclasses import fields
from enum import Enum
from functools import lru_cache, partial
from operator import attrgetter, methodcaller
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

CLASS: Final = "@class"
"""The name under which the class of an object counts, beside its fields."""
ROOT: Final = "root"
"""The only field of a root model."""

_NUMPY_NUMBERS: Final = "biuf"
_SHORT: Final = 2**63
"""A shorter integer has one form."""
_ABSENT: Final = object()
"""The form of a field that doesn't count."""
_UNIONS: Final = (Union, UnionType)
_SERIALISERS: Final = {"PlainSerializer", "WrapSerializer"}


Path = tuple[object, ...]
"""Names and indexes, from a value to a part of it."""


class Note(NamedTuple):
    """A part without a canonical form."""

    path: Path
    kind: str
    counts: bool = True
    """Whether it counts, as null. An excluded field doesn't."""


Noted = list[Note]
"""The parts without a form that a walk met."""


class ContainsItself(Exception):
    """An object contains itself."""


class Raised:
    """Stands for a field that cannot be read, as its property or serialiser raised *error*."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def kind_of(value: object) -> str:
    """Return the type of *value* for messages, such as ``a decimal.Decimal``."""
    if isinstance(value, Raised):
        return f"what raises {type(value.error).__name__}"
    return f"a {type(value).__module__}.{type(value).__qualname__}"


class Field(NamedTuple):
    """What its class declares of a field."""

    name: str
    excluded: bool = False
    """Whether it is never printed. It doesn't count if it has no canonical form."""
    is_made: bool = False
    """Whether a default_factory fills it, and nobody sees with what: it counts only if it was given."""
    classes: tuple[type, ...] = ()
    """Classes whose objects only the class tells apart."""
    has_serialiser: bool = False
    """Whether it is written by a function of its own."""
    is_open: bool = False
    """Whether its type has a type variable: the classes of a union around the object count here, too."""


UNDECLARED: Final = Field("")
"""What is known of an extra field."""


class Schema(NamedTuple):
    """What a class declares of its objects."""

    fields: Mapping[str, Field]
    """By their labels, the names under which they count: aliases where the class prints these."""
    computed: Mapping[str, str] = {}
    """The names of the computed fields, by their labels."""
    is_model: bool = False
    is_root: bool = False
    """Whether its only field counts in its place."""
    has_serialiser: bool = False
    """Whether it is written by a function of its own."""
    is_plain: bool = False
    """Whether its fields all count, under their names."""


class Fields:
    """
    The fields of an object that count, but for what ``ignore=`` leaves out: values by labels.

    Excluded fields are in it, too; their values may have no form.
    """

    __slots__ = ("_whole", "classes", "held", "left_out", "owner", "schema")

    def __init__(
        self, owner: Any, schema: Schema, held: dict[str, Any], classes: tuple[type, ...] = ()
    ) -> None:
        self.owner, self.schema, self.held = owner, schema, held
        self.classes = classes
        """Those of a union that the object was taken out of (`by_alias`)."""
        self._whole = held
        self.left_out: frozenset[str] = frozenset()
        """Labels of what ``ignore=`` leaves out."""

    def __getitem__(self, label: str) -> object:
        return self.held[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)

    def get(self, label: str, default: object = None) -> Any:
        """Return the value of *label*, or *default*."""
        return self.held.get(label, default)

    def keys(self) -> KeysView[str]:
        """Return the labels."""
        return self.held.keys()

    def items(self) -> ItemsView[str, Any]:
        """Return the labels and values."""
        return self.held.items()

    def declared(self, label: str) -> Field:
        """Return what is declared of a field."""
        return self.schema.fields.get(label, UNDECLARED)

    def has_none_of(self, labels: Iterable[str]) -> bool:
        """Whether none of *labels* names what counts, or what expressions see."""
        places = (self.held, self.schema.computed, (CLASS,))
        return not self.schema.is_root and not any(label in place for label in labels for place in places)

    def holding(self, held: dict[str, Any], left_out: Iterable[str]) -> Fields:
        """Return these fields with the values *held*, where those of the labels *left_out* are missing."""
        copy = Fields(self.owner, self.schema, held, self.classes)
        copy._whole, copy.left_out = self._whole, self.left_out.union(left_out)
        return copy

    def class_among(self, classes: tuple[type, ...]) -> str | None:
        """Return the name of the object's class if it counts, as only the class tells *classes* apart."""
        if not isinstance(self.owner, classes) or CLASS in self.left_out:
            return None
        kind = type(self.owner)
        is_taken = any(each.__name__ == kind.__name__ for each in classes if each is not kind)
        return f"{kind.__module__}.{kind.__qualname__}" if is_taken else kind.__name__

    def serialised(self, label: str) -> object:
        """
        Return what the serialiser of a field, its type or its model writes.

        The value itself if there is none, if it raises, or if ``ignore=`` leaves out a part of the value.
        """
        value, serialiser = self.held[label], getattr(type(self.owner), "__pydantic_serializer__", None)
        if serialiser is None or value is not self._whole[label]:
            return value
        is_whole = self.schema.has_serialiser or self.schema.is_root
        name = self.declared(label).name or label
        included = None if is_whole else {name}
        try:
            dump = serialiser.to_python(self.owner, include=included, by_alias=False, warnings=False)
        except Exception:  # noqa: BLE001  (a serialiser of the user's may raise anything)
            return value
        if isinstance(dump, Mapping) and name in dump and not self.schema.is_root:
            return dump[name]
        return dump if is_whole and not self.left_out else value

    def printed(self) -> object:
        """Return the object as it prints, but for what is left out. Raises what its code raises."""
        return self.owner.model_dump() if self.schema.is_model and self.held is self._whole else self.held


Mapping.register(Fields)  # by inheritance, each check for its type would be slow


def fields_of(owner: Any, schema: Schema) -> Fields:
    """Return the fields of *owner*, of the class of *schema*. In place of one that raises is a `Raised`."""
    if schema.is_model:
        return Fields(owner, schema, _values(owner, schema))
    try:
        return Fields(owner, schema, {label: getattr(owner, label) for label in schema.fields})
    except Exception:  # noqa: BLE001  (a property of the user's may raise anything)
        return Fields(owner, schema, {label: value_of(owner, label) for label in schema.fields})


def by_alias(value: object, classes: tuple[type, ...] = ()) -> object:
    """
    Return *value* with each model and dataclass in it as its `Fields`, under the names that they came by.

    A parser has made it of a record or event, in which these names are the source's. A root model is its
    root, unless its class counts. *classes*: those of the closest union around it. Raises RecursionError if
    it contains itself.
    """
    if isinstance(value, dict):
        return {name: by_alias(each, classes) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [by_alias(each, classes) for each in value]
    schema = None if isinstance(value, str | int) else schema_of(type(value), by_alias=True)  # type: ignore[arg-type]  # a type is hashable
    if schema is None:
        return value
    fields = fields_of(value, schema)
    held = {label: by_alias(each, fields.declared(label).classes) for label, each in fields.items()}
    is_bare = schema.is_root and not isinstance(value, classes)
    return held.get(ROOT) if is_bare else Fields(value, schema, held, classes)


def parameter_of(name: str, hint: object) -> Field:
    """Return what *hint*, its annotation, declares of the parameter *name*."""
    return _field(name, hint, None)


def arguments_of(named: dict[str, Any], parameters: Mapping[str, Field], rest: Field) -> Fields:
    """Return the arguments *named* as the fields of a call: *rest* declares those of no parameter."""
    return Fields(named, Schema({name: parameters.get(name, rest) for name in named}), named)


def value_of(owner: object, name: str) -> object:
    """Return the value of a field, or a `Raised`."""
    try:
        return getattr(owner, name)
    except Exception as error:  # noqa: BLE001  (as above)
        return Raised(error)


def _values(model: Any, schema: Schema) -> dict[str, Any]:
    """Return the values of *model*'s own fields and of its extra ones, by their labels."""
    values: dict[str, Any] = model.__dict__
    extra: dict[str, Any] = getattr(model, "__pydantic_extra__", None) or {}
    if schema.is_plain and values.keys() == schema.fields.keys() and not extra:
        return dict(values)
    fields_set: set[str] = getattr(model, "__pydantic_fields_set__", set())
    held = {
        label: values[field.name]
        for label, field in schema.fields.items()
        if field.name in values and not (field.excluded and _is_unset(field, values[field.name], fields_set))
    }
    for name in extra if held.keys().isdisjoint(extra) else sorted(extra):
        label = name
        while label in held:  # an alias leaves the name of its field to others
            label = f"@{label}"
        held[label] = extra[name]
    return held


def _is_unset(field: Field, value: object, fields_set: set[str]) -> bool:
    """Whether *value* of an excluded field doesn't count: None doesn't, as a value without a form doesn't."""
    return value is None or (field.is_made and field.name not in fields_set)


def content_of(value: object) -> object:
    """
    Return the content of *value*, one layer deep; *value* itself if it is not a wrapper. Raises nothing.

    That of a dataclass or pydantic model is its `Fields`, of Powertools' data classes the raw event, of an
    Enum member its value, of a numpy scalar a number. In place of what raises there is a `Raised`.
    """
    try:
        kind: Any = type(value)
        unwrap = _unwrapping(kind)
        return value if unwrap is None else unwrap(value)
    except Exception as error:  # noqa: BLE001  (a property or serialiser of the user's may raise anything)
        return Raised(error)


@lru_cache(maxsize=1_024)
def _unwrapping(kind: Any) -> Callable[[Any], object] | None:
    """Return what unwraps objects of the class *kind*; None if nothing does."""
    if issubclass(kind, Enum):
        return attrgetter("value")
    schema = schema_of(kind)
    if schema is not None:
        return partial(fields_of, schema=schema)
    if callable(getattr(kind, "model_dump", None)):
        return methodcaller("model_dump")
    if hasattr(kind, "raw_event"):
        return attrgetter("raw_event")
    return _number_of if kind.__module__ == "numpy" else None


def _number_of(value: Any) -> object:
    """Return a scalar of numpy as a number; what is none, unchanged."""
    if getattr(value, "ndim", 1) or value.dtype.kind not in _NUMPY_NUMBERS:
        return value
    number = value.item()
    return value if type(number) is type(value) else number  # a long double is its own item


# -- the walk


def is_form(value: object) -> bool:
    """Whether *value* is its own form, in each of them."""
    kind = type(value)
    return kind is str or kind is bool or value is None or (kind is int and abs(value) < _SHORT)  # type: ignore[arg-type]  # an int


class Walk(ABC):
    """Converts objects, and remembers what they are within."""

    def __init__(self, noted: Noted | None = None) -> None:
        self._noted: Noted = [] if noted is None else noted
        self._owners: set[int] = set()
        self._classes: tuple[type, ...] = ()
        """The classes that count here: those in a union of the closest field."""

    def _object(self, fields: Fields, path: Path) -> Any:
        """Return the form of the object of *fields*, with the name of its class where that counts."""
        if id(fields.owner) in self._owners:
            raise ContainsItself
        self._owners.add(id(fields.owner))
        outer = self._classes
        classes = (*outer, *fields.classes) if fields.classes else outer
        form: dict[str, object] = {}
        try:
            for label, value in fields.held.items():
                part = value if is_form(value) else self._field_form(fields, label, path, classes)
                if part is not _ABSENT:
                    form[label] = part
        finally:
            self._owners.discard(id(fields.owner))
            self._classes = outer
        class_name = fields.class_among(classes) if classes else None
        if class_name is not None:
            label = CLASS
            while label in form:
                label = f"@{label}"
            form[label] = class_name
        elif fields.schema.is_root:
            return form.get(ROOT)
        return self._escape(form)

    def _field_form(self, fields: Fields, label: str, path: Path, around: tuple[type, ...]) -> object:
        """
        Return the form of a field: of what its serialiser writes if its value has none.

        *around*: the classes that count where the object is.
        """
        field, value, noted = fields.declared(label), fields.held[label], len(self._noted)
        path = path if fields.schema.is_root else (*path, label)
        self._classes = (*field.classes, *around) if field.is_open else field.classes
        form, problem = self._try_form(value, path)
        if problem is None:
            return form
        del self._noted[noted:]
        if field.excluded:
            self._noted.append(Note(path, kind_of(value), counts=False))
            return _ABSENT
        if field.has_serialiser or not problem.tried:
            serialised = fields.serialised(label)
            if serialised is not value:
                other, failure = self._try_form(serialised, path)
                if failure is None:
                    return other
                del self._noted[noted:]
            problem.tried = True
        return self._keep_or_raise(form, problem)

    @abstractmethod
    def _escape(self, form: dict[str, object]) -> Mapping[Any, object]:
        """Return *form*, that of an object, with its labels escaped as the names of a mapping are."""

    @abstractmethod
    def _try_form(self, value: object, path: Path) -> tuple[object, Any]:
        """Return the form of *value*, and why a part of it has none; None if each part has one."""

    @abstractmethod
    def _keep_or_raise(self, form: object, problem: Any) -> object:
        """Return *form*, which lacks what *problem* has; or raise that."""


# -- what a class declares


@lru_cache(maxsize=1_024)
def schema_of(kind: Any, *, by_alias: bool = False) -> Schema | None:
    """
    Return what the class *kind* declares; None if it is neither a dataclass nor a model of pydantic.

    *by_alias*: its labels are the aliases, whether or not it prints these.
    """
    infos, is_model = getattr(kind, "__pydantic_fields__", None), not hasattr(kind, "__dataclass_fields__")
    if is_model and infos is None:
        return None
    infos = infos or {}
    hints = {name: info.annotation for name, info in infos.items()} if infos else _hints(kind)
    serialised, has_serialiser = _serialised_by_functions(kind)
    declared = {}
    of_bases = _united_in_bases(kind)
    for name in infos if is_model else [each.name for each in fields(kind)]:
        field = _field(name, hints.get(name), infos.get(name))
        field = field._replace(classes=(*field.classes, *of_bases)) if field.is_open else field
        by_function = has_serialiser or not serialised.isdisjoint({name, "*"})
        declared[name] = field._replace(has_serialiser=field.has_serialiser or by_function)
    if not is_model:
        return Schema(declared, has_serialiser=has_serialiser)
    labels = _labels(kind, {name: info.serialization_alias for name, info in infos.items()}, always=by_alias)
    is_root, computed = kind.__pydantic_root_model__, kind.__pydantic_computed_fields__
    aliases = {} if is_root else {name: info.alias for name, info in computed.items()}
    return Schema(
        {label: declared[name] for name, label in labels.items()},
        computed={label: name for name, label in _labels(kind, aliases).items()},
        is_model=True,
        is_root=is_root,
        has_serialiser=has_serialiser,
        is_plain=all(labels[name] == name and not field.excluded for name, field in declared.items()),
    )


def _united_in_bases(kind: Any) -> frozenset[type]:
    """Return the classes of unions that are arguments of *kind*'s generic bases."""
    bases = (base for each in kind.__mro__ for base in vars(each).get("__orig_bases__", ()))
    try:
        return frozenset().union(*(_inspect(base).united for base in bases))
    except Exception:  # noqa: BLE001  (a name that cannot be resolved)
        return frozenset()


def _serialised_by_functions(kind: Any) -> tuple[set[str], bool]:
    """Return the fields that functions of *kind* write, or ``*``, and whether one writes the whole."""
    decorators = getattr(kind, "__pydantic_decorators__", None)
    if decorators is None:
        return set(), False
    names = {name for each in decorators.field_serializers.values() for name in each.info.fields}
    return names, bool(decorators.model_serializers)


def _labels(kind: Any, aliases: Mapping[str, str | None], *, always: bool = False) -> dict[str, str]:
    """
    Return the labels of the fields: *aliases*, if *kind* prints them and all differ.

    *always*: also if it doesn't print them; of two that share an alias, the first one has it.
    """
    labels = {name: alias or name for name, alias in aliases.items()}
    if always:
        owners = {label: name for name, label in reversed(labels.items())}
        return {name: label if owners[label] == name else name for name, label in labels.items()}
    prints_aliases = kind.model_config.get("serialize_by_alias") and len({*labels.values()}) == len(labels)
    return labels if prints_aliases else {name: name for name in aliases}


def _field(name: str, hint: object, info: Any) -> Field:
    """Return what *hint*, its annotation, and *info*, of pydantic, declare of the field *name*."""
    try:
        inside = _inspect(hint, () if info is None else (info, *info.metadata))
    except Exception:  # noqa: BLE001  (a name that cannot be resolved)
        inside = _TypeContent()
    excluded = info is not None and info.exclude is True
    is_made = excluded and info.default_factory is not None
    return Field(name, excluded, is_made, tuple(inside.united), inside.has_serialiser, inside.is_open)


class _TypeContent(NamedTuple):
    """What is in a type."""

    classes: frozenset[type] = frozenset()
    """Dataclasses and models."""
    alternatives: int = 0
    """How many of them may be in one place, unless a field tells which."""
    united: frozenset[type] = frozenset()
    """Those that only the class tells apart."""
    has_serialiser: bool = False
    is_open: bool = False


def _inspect(hint: Any, metadata: tuple[object, ...] = (), within: tuple[object, ...] = ()) -> _TypeContent:
    """Return what is in *hint*, an annotation with *metadata*, itself *within* others."""
    if any(hint is each for each in within):
        return _TypeContent()
    origin = get_origin(hint)
    if origin is Annotated:
        return _inspect(get_args(hint)[0], (*metadata, *hint.__metadata__), within)
    parts = [_inspect(part, (), (*within, hint)) for part in _parts(hint)]
    classes: frozenset[type] = frozenset().union(*(part.classes for part in parts))
    united: frozenset[type] = frozenset().union(*(part.united for part in parts))
    alternatives = max((part.alternatives for part in parts), default=0)
    kind = hint if origin is None else origin
    if _is_of_objects(kind):
        classes, alternatives = classes | {kind}, 1
    elif any(isinstance(getattr(each, "discriminator", None), str) for each in metadata):
        alternatives = 1
    elif origin in _UNIONS or isinstance(hint, TypeVar):
        alternatives = sum(part.alternatives for part in parts)
        united = united if alternatives < 2 or len(classes) < 2 else classes  # noqa: PLR2004
    has_serialiser = any(type(each).__name__ in _SERIALISERS for each in metadata)
    return _TypeContent(
        classes,
        alternatives,
        united,
        has_serialiser or any(part.has_serialiser for part in parts),
        isinstance(hint, TypeVar) or any(part.is_open for part in parts),
    )


def _is_of_objects(kind: Any) -> bool:
    is_model = callable(getattr(kind, "model_dump", None))
    return isinstance(kind, type) and (is_model or hasattr(kind, "__dataclass_fields__"))


def _parts(hint: Any) -> Iterable[Any]:
    """Return the types that *hint* consists of: its arguments, an alias' type, the types of its items."""
    for name in ("__supertype__", "__value__"):  # a NewType, an alias
        if hasattr(hint, name):
            return (getattr(hint, name),)
    if isinstance(hint, TypeVar):
        return hint.__constraints__ or (hint.__bound__,)
    if isinstance(hint, type) and hasattr(hint, "__pydantic_generic_metadata__"):  # a class of its own
        arguments: Iterable[Any] = hint.__pydantic_generic_metadata__["args"]
        return arguments
    if isinstance(hint, type) and (hasattr(hint, "__total__") or hasattr(hint, "_fields")):
        return _hints(hint).values()
    return get_args(hint)


def _hints(kind: Any) -> Mapping[str, object]:
    """Return the annotations of a class; none if a name in one of them cannot be resolved."""
    try:
        return get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001  (an annotation may be any expression)
        return {}
