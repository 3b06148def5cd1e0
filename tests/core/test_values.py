"""Value classes do what frozen, slotted dataclasses do; each behaviour is asked of both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from pydantic import TypeAdapter

from lambda_once.core.record import Failure
from lambda_once.core.values import replace, value
from lambda_once.policies import Done

T = TypeVar("T")


@value
class Order:
    """What a customer wants."""

    id: str
    count: int
    note: str | None = None
    tags: tuple[str, ...] = ()

    LIMIT = 10
    """No field: it has no annotation."""
    CURRENCY: ClassVar[str] = "EUR"

    @property
    def many(self) -> bool:
        return self.count > self.LIMIT


@dataclasses.dataclass(frozen=True, slots=True)
class Twin:
    """The same, by the standard library."""

    id: str
    count: int
    note: str | None = None
    tags: tuple[str, ...] = ()

    LIMIT = 10
    CURRENCY: ClassVar[str] = "EUR"

    @property
    def many(self) -> bool:
        return self.count > self.LIMIT


@value
class Other:
    """Fields and names as those of Order, and yet another class."""

    id: str
    count: int
    note: str | None = None
    tags: tuple[str, ...] = ()


@value(kw_only=True)
class Options:
    """Given by name only."""

    keep: int = 1
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TwinOptions:
    """The same, by the standard library."""

    keep: int = 1
    name: str


@value
class Nothing:
    """A fact that needs no words."""


@value
class Positive:
    """Checks itself."""

    number: int

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError(self.number)


@value
class Box(Generic[T]):
    """Of any kind of content."""

    content: T


both = pytest.mark.parametrize("kind", [Order, Twin])
both_options = pytest.mark.parametrize("kind", [Options, TwinOptions])


# -- making one


@both
def test_fields_are_given_by_place_or_by_name(kind: Any) -> None:
    """Fields take arguments in their order or by name, and have their defaults otherwise."""
    made = kind("o-1", count=2, tags=("a",))
    assert (made.id, made.count, made.note, made.tags) == ("o-1", 2, None, ("a",))
    assert not made.many


@both
def test_wrong_arguments_are_refused_by_name(kind: Any) -> None:
    """What is missing, unknown or too much is a TypeError that names the class."""
    init = rf"^{kind.__name__}\.__init__\(\)"
    with pytest.raises(TypeError, match=rf"{init} missing 1 required .* argument: 'count'$"):
        kind("o-1")
    with pytest.raises(
        TypeError, match=rf"{init} got an unexpected keyword argument 'cuont'(\. Did you|$)"
    ):  # 3.13 adds a guess
        kind("o-1", cuont=1)
    with pytest.raises(TypeError, match=rf"{init} takes from 3 to 5 positional"):
        kind("o-1", 1, None, (), "more")


@both_options
def test_keyword_only_fields(kind: Any) -> None:
    """Keyword-only fields may stand in any order, take no argument by place, and match by name only."""
    assert kind(name="a").keep == 1
    assert kind.__match_args__ == ()
    with pytest.raises(TypeError, match=r"\.__init__\(\) takes 1 positional argument but 2 were given"):
        kind("a")


def test_a_value_without_fields() -> None:
    """A class without fields has one value."""
    assert Nothing() == Nothing()
    assert repr(Nothing()) == "Nothing()"
    with pytest.raises(TypeError):
        Nothing(1)  # type: ignore[call-arg]


def test_a_value_checks_itself() -> None:
    """``__post_init__`` is called once all fields are set."""
    assert Positive(1).number == 1
    with pytest.raises(ValueError, match="0"):
        Positive(0)


def test_a_generic_value() -> None:
    """A generic class stays one."""
    assert Box[int](1) == Box(1)


@both
def test_the_signature_is_that_of_the_fields(kind: Any) -> None:
    """Whoever asks for the signature sees the fields and the defaults."""
    assert [str(each).split(":")[0] for each in inspect.signature(kind).parameters.values()][:2] == [
        "id",
        "count",
    ]
    assert inspect.signature(kind).parameters["tags"].default == ()
    assert kind.__init__.__qualname__ == f"{kind.__name__}.__init__"
    assert kind.__init__.__module__ == __name__


def test_init_is_compiled_when_it_is_asked_for() -> None:
    """A class that is only imported has compiled nothing; ``__init__`` is a plain function afterwards."""

    @value
    class Fresh:
        field: int

    assert not inspect.isfunction(vars(Fresh)["__init__"])
    assert Fresh(1).field == 1
    assert inspect.isfunction(vars(Fresh)["__init__"])


def test_a_subclass_may_make_the_first_value() -> None:
    """What is made late is made for the class that has the fields, whichever class asks."""

    @value
    class Base:
        field: int

    class Derived(Base):
        pass

    assert Derived(1).field == 1
    assert Base(1) == Base(1)
    assert Base(1) != Derived(1)
    assert "__init__" not in vars(Derived)


# -- what a value is


@both
def test_equality_and_hash_are_by_content(kind: Any) -> None:
    """Values of equal fields are equal and hash alike; others differ."""
    assert kind("o-1", 1) == kind("o-1", 1)
    assert hash(kind("o-1", 1)) == hash(kind("o-1", 1))
    assert len({kind("o-1", 1), kind("o-1", 1), kind("o-1", 2)}) == 2
    assert kind("o-1", 1) != kind("o-1", 2)


def test_equality_never_crosses_types() -> None:
    """Another class with the same fields, or a tuple of them, is another value."""
    assert Order("o-1", 1) != Other("o-1", 1)  # type: ignore[comparison-overlap]
    assert Order("o-1", 1) != ("o-1", 1, None, ())  # type: ignore[comparison-overlap]
    assert Failure("A", "b") != Other("A", 1)  # type: ignore[comparison-overlap]


def test_a_value_of_unhashable_content_has_no_hash() -> None:
    """A list in a field makes the value unhashable, not the class."""
    assert isinstance(Box([1]), Hashable)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Box([1]))


@both
def test_a_value_shows_its_fields(kind: Any) -> None:
    """The repr is the call that makes the value."""
    assert repr(kind("o-1", 1)) == f"{kind.__name__}(id='o-1', count=1, note=None, tags=())"


def test_a_value_that_contains_itself_can_be_shown() -> None:
    """The repr of a value inside itself is cut short."""
    content: list[object] = []
    content.append(Box(content))
    assert repr(content[0]) == "Box(content=[...])"
    assert repr(content) == "[Box(content=[...])]"


@both
def test_a_value_is_frozen(kind: Any) -> None:
    """No field can be set or deleted, and the value stays as it was."""
    made = kind("o-1", 1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'count'"):
        made.count = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'count'"):
        del made.count
    assert made == kind("o-1", 1)
    assert not hasattr(made, "__dict__")


def test_a_value_class_inside_of_another_scope_keeps_its_whole_name() -> None:
    """The qualified name, which the repr shows, tells where the class was written."""

    @value
    class Local:
        field: int

    assert repr(Local(1)).endswith("whole_name.<locals>.Local(field=1)")


def test_a_value_gets_no_other_attribute() -> None:
    """What is no field cannot be set either (a slotted dataclass stumbles there: a TypeError of `super`)."""
    made: Any = Order("o-1", 1)
    with pytest.raises(AttributeError, match="cannot assign to field 'other'"):
        made.other = 2


@both
def test_a_value_keeps_what_its_class_says(kind: Any) -> None:
    """Docstring, module, name and plain attributes are those of the class as it was written."""
    assert (kind.__module__, kind.__qualname__) == (__name__, kind.__name__)
    assert kind.__doc__
    assert (kind.LIMIT, kind.CURRENCY) == (10, "EUR")
    assert kind.__slots__ == kind.__match_args__ == ("id", "count", "note", "tags")


@both
def test_a_value_matches_by_place(kind: Any) -> None:
    """A class pattern takes the fields by place or by name."""
    match kind("o-1", 3):
        case kind(id, count, tags=()):
            assert (id, count) == ("o-1", 3)
        case _:
            pytest.fail("no match")


@both
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_value_can_be_pickled(kind: Any, protocol: int) -> None:
    """A value comes back from pickle as it was."""
    made = kind("o-1", 3, tags=("a", "b"))
    assert pickle.loads(pickle.dumps(made, protocol)) == made


@both
def test_a_value_can_be_copied(kind: Any) -> None:
    """Copies are equal; a deep one copies the content."""
    made = kind("o-1", 3, tags=(["a"],))
    assert copy.copy(made) == copy.deepcopy(made) == made
    assert copy.deepcopy(made).tags[0] is not made.tags[0]


# -- what dataclasses can do with it


@pytest.mark.parametrize("changed", [dataclasses.replace, replace])
def test_replace_changes_a_copy(changed: Any) -> None:
    """Both ways to replace leave the value alone, and refuse a field that there is not."""
    made = Order("o-1", 1, "urgent")
    assert changed(made, count=2) == Order("o-1", 2, "urgent")
    assert made == Order("o-1", 1, "urgent")
    with pytest.raises(TypeError, match="unexpected keyword argument 'cuont'"):
        changed(made, cuont=2)


def test_replace_keeps_keyword_only_fields_and_checks() -> None:
    """Replacing goes by names, and a value that could not be made cannot be got so either."""
    assert replace(Options(name="a"), keep=2) == Options(keep=2, name="a")
    with pytest.raises(ValueError, match="0"):
        replace(Positive(1), number=0)


def test_copy_replace() -> None:
    """What `copy.replace` of Python 3.13 asks for is there."""
    assert Order("o-1", 1).__replace__(count=2) == Order("o-1", 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "twin"), [(Order, Twin), (Options, TwinOptions)])
def test_dataclasses_sees_the_same_fields(kind: Any, twin: Any) -> None:
    """A value class has the fields that the standard library would have made."""
    assert [(field.name, field.type, field.default, field.kw_only) for field in dataclasses.fields(kind)] == [
        (field.name, field.type, field.default, field.kw_only) for field in dataclasses.fields(twin)
    ]
    assert repr(kind.__dataclass_params__) == repr(twin.__dataclass_params__)
    assert dataclasses.is_dataclass(kind)


@both
def test_a_value_becomes_a_dict(kind: Any) -> None:
    """`asdict` opens a value, and values in it."""
    assert dataclasses.asdict(kind("o-1", 1, Box("now"))) == {
        "id": "o-1",
        "count": 1,
        "note": {"content": "now"},
        "tags": (),
    }


def test_a_dataclass_may_extend_a_value() -> None:
    """A frozen dataclass on top of a value class has the fields of both."""

    @dataclasses.dataclass(frozen=True)
    class Urgent(Box[str]):
        hours: int

    assert dataclasses.astuple(Urgent("o-1", 2)) == ("o-1", 2)


def test_pydantic_reads_a_value() -> None:
    """Pydantic validates a value class as a dataclass, and writes it."""
    adapter = TypeAdapter(Done[datetime])
    done = Done(datetime(2026, 11, 20, 10, 12, tzinfo=UTC))
    assert adapter.validate_json('{"result": "2026-11-20T10:12:00Z"}') == done
    assert adapter.dump_json(done) == b'{"result":"2026-11-20T10:12:00Z"}'


# -- what it refuses


def test_a_default_that_can_change_is_refused() -> None:
    """A default that all values would share must not change."""
    with pytest.raises(ValueError, match="field tags: a list is shared by all values and can change"):

        @value
        class Order:
            tags: list[str] = []  # noqa: RUF012  # the fault


def test_field_is_refused() -> None:
    """`dataclasses.field` would stand as the default itself."""
    with pytest.raises(TypeError, match=r"field tags: dataclasses\.field\(\) is not known here"):

        @value
        class Order:
            tags: frozenset[str] = dataclasses.field(default_factory=frozenset)  # the fault


def test_fields_of_another_value_are_refused() -> None:
    """A value class on top of another one would never set the other one's fields."""
    with pytest.raises(TypeError, match="Special: a value class takes no fields from another one"):

        @value
        class Special(Order):
            more: int = 0


# -- what it is for


_HANDLERS = """
import sys
from lambda_once import Once
once = Once(table="tokens")
once.sqs(lambda record: None, name="queue")
once.api_gateway(lambda event, context: None, name="api")
kinds = {each for name, module in sys.modules.items() if name.startswith("lambda_once")
         for each in vars(module).values() if isinstance(each, type)}
print(*sorted(kind.__qualname__ for kind in kinds
              if "__dataclass_fields__" in vars(kind) and "__value_fields__" not in vars(kind)))
"""


def _dataclasses_after(program: str) -> set[str]:
    """Return the dataclasses of this package that a new interpreter has loaded after *program*."""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_a_cold_start_makes_no_dataclass() -> None:
    """What a queue or an API function imports of this package holds values, and no dataclass."""
    assert _dataclasses_after(_HANDLERS) == set()


def test_a_dataclass_is_seen() -> None:
    """The check above would notice a dataclass in a module of this package."""
    extended = "import lambda_once, dataclasses\nlambda_once.Late = dataclasses.make_dataclass('Late', ['a'])"
    assert _dataclasses_after(extended + _HANDLERS) == {"Late"}
