"""What duplicates of a stored error get: an instance of the first error's class wherever that can be."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lambda_once import STORE, KeyMissing, OnceError, RetryLater, StoredError
from lambda_once.errors import stored_error
from tests.decorators.rig import Rig, in_memory


class CardError(Exception):
    """What a provider says of cards."""


class CardDeclined(CardError):
    """A class made of nothing but its message."""


class RarelyNamed(Exception):
    """Only class of its name below Exception, whatever else is loaded."""


class Composes(Exception):
    """A class whose constructor makes its message."""

    def __init__(self, message: str) -> None:
        super().__init__(f"card {message} declined")


class ComposesTwice(Composes):
    """A class that inherits a constructor."""


class Speaks(Exception):
    """A class whose text is not its message."""

    def __str__(self) -> str:
        return "something else"


class Reduces(Exception):
    """A class with a pickled form of its own."""

    def __reduce__(self) -> Any:
        return Reduces, ()


class News(Exception):
    """A class that is not made as others are."""

    def __new__(cls, *_: object) -> Any:
        return super().__new__(cls)


class Registered(Exception):
    """A class that its subclasses are made known to."""

    known: list[type] = []  # noqa: RUF012

    def __init_subclass__(cls) -> None:
        cls.known.append(cls)


class WithProperties(Exception):
    """A class whose properties have the names of ours."""

    @property
    def token(self) -> str:
        return "theirs"

    state = property(lambda _: "theirs")


class WithSlots(Exception):
    """A class with a layout of its own."""

    __slots__ = ("code",)


class Twin(CardError):
    """One of two classes of one name."""


OTHER_TWIN = type("Twin", (CardError,), {})

MADE: list[type[Exception]] = [CardDeclined, CardError, WithProperties, WithSlots]
BUILT_IN: list[type[Exception]] = [
    *(ValueError, KeyError, LookupError, RuntimeError, NotImplementedError, OSError, TimeoutError),
    *(ConnectionError, ImportError, AttributeError, NameError, SyntaxError, ZeroDivisionError, Exception),
    *(EOFError, MemoryError, UnicodeError, UserWarning),
]
AS_LANDED: list[type[BaseException]] = [
    *(Composes, ComposesTwice, Speaks, Reduces, News, Registered, Twin),
    *(StopIteration, StopAsyncIteration, ExceptionGroup, UnicodeDecodeError, SystemExit, KeyboardInterrupt),
    *(KeyMissing, RetryLater, OnceError),
]


@pytest.mark.parametrize("kind", MADE + BUILT_IN)
def test_a_class_made_of_a_message_is_raised_again(kind: type[Exception]) -> None:
    """The error is one of the first one's class and of ours, with the stored text and what we know."""
    error = stored_error(kind.__name__, "the text", {kind: STORE}, token="t", state="complete")
    assert isinstance(error, kind)
    assert isinstance(error, StoredError)
    assert (type(error).__name__, str(error), error.kind) == (kind.__name__, "the text", kind.__name__)
    assert (error.token, error.state, error.original) == ("t", "complete", kind)
    with pytest.raises(kind) as caught:
        raise error
    assert caught.value is error


class Full(Exception):
    """A disk is full."""


FULL_AS_WELL = type("Full", (Full,), {})


def test_a_subclass_of_the_same_name_is_no_other_kind() -> None:
    """As numpy's of MemoryError: whichever was raised, it was an instance of the base."""
    error = stored_error("Full", "the text", {Full: STORE})
    assert isinstance(error, Full)
    assert not isinstance(error, FULL_AS_WELL)
    assert error.original is Full


@pytest.mark.parametrize("kind", AS_LANDED)
def test_every_other_class_is_a_stored_error_of_its_name(kind: type[Exception]) -> None:
    """A class with a constructor or text of its own is not made: what its handlers read would be missing."""
    before = list(Registered.known)
    error = stored_error(kind.__name__, "the text", {kind: STORE, CardError: STORE}, token="t")
    assert isinstance(error, StoredError)
    assert error.original is None
    assert (type(error).__name__, str(error), error.token) == (kind.__name__, "the text", "t")
    assert not isinstance(error, Composes | Speaks | Reduces | News | Registered | CardError)
    assert Registered.known == before


def test_a_subclass_of_what_the_mapping_names_is_found() -> None:
    """{CardError: STORE} is the usual mapping: the class of the stored name below it is raised."""
    assert isinstance(stored_error("CardDeclined", "", {CardError: STORE}), CardDeclined)
    assert isinstance(stored_error("RarelyNamed", "", {Exception: STORE}), RarelyNamed)
    # What was made for the last duplicate bears the same name, and is no second class of it.
    assert isinstance(stored_error("CardDeclined", "", {CardError: STORE}), CardDeclined)


@pytest.mark.parametrize("named", [{}, {ValueError: STORE}, {OnceError: STORE}])
def test_what_the_mapping_does_not_name_is_not_looked_for(named: Any) -> None:
    """Any class may bear the name of a stored kind: only those of the mapping can have been meant."""
    assert not isinstance(stored_error("CardDeclined", "", named), CardDeclined)


def test_a_class_whose_layout_does_not_fit_is_as_landed() -> None:
    """Where Python cannot make a class of both, the error is a StoredError."""

    class Meta(type):
        """Goes with no other metaclass of its kind."""

        def __new__(mcs, name: str, bases: Any, namespace: Any) -> Any:
            if len(bases) > 1:
                raise TypeError
            return super().__new__(mcs, name, bases, namespace)

    class Foreign(Exception, metaclass=Meta):
        """A class of that metaclass."""

    error = stored_error("Foreign", "text", {Foreign: STORE})
    assert (error.original, str(error)) == (None, "text")


def test_it_is_pickled_by_kind_and_message() -> None:
    """Another process may not have the class: there the error is a StoredError of that name."""
    copy = pickle.loads(pickle.dumps(stored_error("CardDeclined", "no money", {CardError: STORE}, token="t")))
    assert isinstance(copy, StoredError)
    assert (type(copy).__name__, str(copy), copy.kind, copy.token) == (
        "CardDeclined",
        "no money",
        "CardDeclined",
        "t",
    )


@in_memory
@pytest.mark.parametrize("named", [CardDeclined, CardError])
def test_a_callers_except_clause_treats_duplicates_alike(rig: Rig, named: type[Exception]) -> None:
    """`except CardDeclined` around a protected function catches the first error and the stored one."""
    runs: list[int] = []

    @rig.once.function(on_error={named: STORE})
    def charge(order: int) -> None:
        runs.append(order)
        raise CardDeclined("no money")

    def answer() -> str:
        try:
            charge(5)
        except CardDeclined as error:
            return str(error)
        return "charged"

    assert [answer(), answer(), answer()] == ["no money"] * 3
    assert runs == [5]


@in_memory
def test_protected_work_around_it_goes_by_its_own_mapping(rig: Rig) -> None:
    """The replayed error is stored by the function around it as the first one would be."""

    @rig.once.function(on_error={CardError: STORE})
    def charge(order: int) -> None:
        raise CardDeclined("no money")

    @rig.once.function(on_error={CardDeclined: STORE})
    def place(order: int, note: str) -> None:
        charge(order)

    for note in ("a", "b", "b"):
        with pytest.raises(CardDeclined, match="no money"):
            place(5, note)
