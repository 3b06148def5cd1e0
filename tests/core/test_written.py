"""
What is stored of a handler's answer, compared with what Lambda's runtime writes: awslambdaric's marshaller.

Each value is written by the marshaller as it is, and as it is read back from its stored text, in both modes
of escaping: up to Python 3.11 the runtime escapes what isn't ASCII.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, OrderedDict, UserDict, UserString, deque, namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

import pydantic
import pytest
from awslambdaric.lambda_runtime_exception import FaultException

from lambda_once.core import written
from lambda_once.core.codec import JSON
from lambda_once.core.results import NotSerialisable
from lambda_once.core.written import UNESCAPED, HandlerCodec, form_of, text_of
from tests.kit.runtime import marshalled

CODEC: Final = HandlerCodec()
ESCAPED, PLAIN = "AWS_Lambda_python3.11", "AWS_Lambda_python3.13"

modes = pytest.mark.parametrize("mode", [ESCAPED, PLAIN])

Price = namedtuple("Price", "total currency")  # noqa: PYI024  (as users write them)


class Line(NamedTuple):
    item: str
    number: int


class Level(IntEnum):
    LOW = 1


class Size(StrEnum):
    LARGE = "L"


class Colour(Enum):
    RED = "red"


class Row:
    """Such as SQLAlchemy's."""

    def _asdict(self) -> dict[str, Any]:
        return {"total": Decimal("19.90"), "raw": b"r"}


class Own(dict[str, int]):
    def _asdict(self) -> dict[str, int]:
        return {"own": 1}


class Refusing(list[int]):
    def _asdict(self) -> None:
        raise TypeError


class Rated(float):
    def __repr__(self) -> str:
        return "rated"


class Percent(float):
    def __float__(self) -> float:
        return 100 * super().__float__()


class Counted(int):
    def __repr__(self) -> str:
        return "counted"

    __str__ = __repr__


class Named(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "named"


class Money(Decimal):
    def __str__(self) -> str:
        return "7.00"


class Short(Decimal):
    def __str__(self) -> str:
        return f"{self:.1e}"


@dataclass
class Order:
    price: Price
    raw: bytes
    total: Decimal


class Parcel(pydantic.BaseModel):
    id: UUID
    at: datetime
    order: Any


def nested(levels: int) -> Any:
    """Return lists in lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


SOME_UUID = UUID("12345678-1234-5678-1234-567812345678")
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

WRITTEN: dict[str, Any] = {
    "JSON": {"a": [1, 2.5, None, True, "é\u2028\x7f/<", "\ud800"], "b": {}, "c": []},
    "a str": "é",
    "bytes in it": {"receipt": b"r-1", b"name": ["é".encode()]},
    "named tuples": {"price": Price(1, "EUR"), "lines": [Line("tea", 2)]},
    "a named tuple": Price(Price(1, b"x"), (1, 2)),
    "_asdict": [Row(), Own(tea=1), Refusing([1])],
    "Decimals": [
        Decimal(each) for each in ("19.90", "1E+2", "0E-10", "-0", "5", "1E+1000000", "0.1", "-0.0")
    ],
    "other Decimals": [Decimal(each) for each in ("NaN", "-NaN", "sNaN", "Infinity", "-Infinity")],
    "a long Decimal": Decimal("9" * 5_000),
    "a Decimal": Decimal("19.90"),
    "subclasses": [
        Money(5),
        Rated(1.5),
        Percent(0.5),
        Counted(3),
        Named("q"),
        Level.LOW,
        Size.LARGE,
        Own.fromkeys("a", 1),
    ],
    "floats": [0.1, -0.0, 1e300, 1e16, 1e22, 5e-324, math.inf, -math.inf, math.nan],
    "integers": [2**70, -(10**4_000), 0],
    "names": {
        3: 1,
        1.5: 2,
        True: 3,
        None: 4,
        b"b": 5,
        Level.LOW + 1: 6,
        Size.LARGE: 7,
        Rated(2.5): 8,
        Percent(0.5): 9,
    },
    "other names": {math.nan: 1, math.inf: 2, -math.inf: 3, Counted(3): 4, Named("q"): 5, "": 6},
    "dicts": [OrderedDict(b=1, a=2), Counter("aab")],
    "what looks like our tags": [
        {"\0decimal": "x"},
        {"\0bytes": "eA=="},
        {"\0\0decimal": 1},
        {"\0python": {}},
    ],
    "a tag with a Decimal": {"\0decimal": Decimal("1.0")},
    "deep": nested(900),
    "deep and with bytes": [*nested(200), b"x"],
    "None": None,
    "a tuple": (1, (2,)),
}

REFUSED: dict[str, tuple[Any, str]] = {
    "a date": (date(2026, 11, 20), '"2026-11-20"'),
    "beside a named tuple": (
        {"on": date(2026, 11, 20), "price": Price(1, "EUR"), "raw": b"r"},
        '{"on": "2026-11-20", "price": {"total": 1, "currency": "EUR"}, "raw": "r"}',
    ),
    "a UUID, a member, a duration": (
        [SOME_UUID, Colour.RED, timedelta(seconds=90)],
        '["12345678-1234-5678-1234-567812345678", "red", 90.0]',
    ),
    "a dataclass": (
        Order(Price(Decimal("1.0"), "EUR"), b"r", Decimal("19.90")),
        '{"price": {"total": 1.0, "currency": "EUR"}, "raw": "r", "total": 19.90}',
    ),
    "a model": (
        Parcel(id=SOME_UUID, at=NOON, order=Decimal("19.90")),
        '{"id": "12345678-1234-5678-1234-567812345678", "at": "2026-11-20T12:00:00+00:00", "order": 19.90}',
    ),
    "sets": ([{3, 1}, frozenset({Decimal("1.50")})], "[[1, 3], [1.50]]"),
    "a deque, a mapping": ([deque([b"a"]), UserDict(a=b"b")], '[["a"], {"a": "b"}]'),
    "names": (
        {date(2026, 11, 20): 1, Decimal("1.5"): 2, (1, 2): 3},
        '{"2026-11-20": 1, "1.5": 2, "[1, 2]": 3}',
    ),
}


class _Raises:
    def _asdict(self) -> dict[str, Any]:
        raise KeyError


class _NoDict:
    def _asdict(self) -> Any:
        return UserDict(a=1)


def cyclic() -> Any:
    """Return a list that has itself as its item."""
    value: list[Any] = []
    value.append(value)
    return value


class Detached(Sequence[Any]):
    """Such as the rows of a session that is closed."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        raise RuntimeError


FORMLESS: dict[str, Callable[[], Any]] = {
    "an iterator": lambda: iter([1]),
    "one in it": lambda: {"rows": (each for each in (1, 2))},
    "bytes that are no UTF-8": lambda: {"body": b"\x89PNG"},
    "an object": object,
    "a range": lambda: range(3),
    "an _asdict that raises": _Raises,
    "an _asdict without a dict": _NoDict,
    "a class of named tuples": lambda: Price,
    "what contains itself": cyclic,
    "a long integer": lambda: 10**4_300,
    "what raises when it's read": Detached,
    "a part that raises when it's read": lambda: {"rows": Detached()},
    "what adds itself to lists": lambda: UserString("x"),
}


@pytest.fixture
def runtime(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime of one mode."""
    monkeypatch.setenv("AWS_EXECUTION_ENV", mode)


@modes
@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_read_back_is_written_as_the_first_was(name: str, mode: str) -> None:
    """It goes to the runtime untouched, and the body of a shorthand is the same text."""
    value = WRITTEN[name]
    answer = CODEC.answer(value)
    assert answer.is_written
    assert marshalled(answer.loaded) == marshalled(value)
    assert marshalled(CODEC.load(answer.text)) == marshalled(value)
    assert text_of(answer.loaded, escaped=mode not in UNESCAPED) == marshalled(value)[0]


@modes
@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_has_a_form(name: str) -> None:
    """The first caller gets what its duplicates get."""
    value, text = REFUSED[name]
    with pytest.raises(FaultException):
        marshalled(value)
    answer = CODEC.answer(value)
    assert not answer.is_written
    assert marshalled(answer.loaded)[0] == text


@pytest.mark.parametrize("name", FORMLESS)
def test_what_has_no_form_is_refused_by_both(name: str) -> None:
    """So it goes to the runtime as it is, and fails there as without us."""
    with pytest.raises(FaultException):
        marshalled(FORMLESS[name]())
    with pytest.raises(NotSerialisable):
        CODEC.answer(FORMLESS[name]())


@pytest.mark.parametrize("value", [{1: "a", "1": "b"}, [{None: 1, "null": 2}], {b"a": 1, "a": 2}])
def test_names_that_are_written_alike_are_not_stored(value: Any) -> None:
    """The runtime writes both; what is read back would have one of them."""
    assert marshalled(value)
    with pytest.raises(NotSerialisable, match="two names"):
        CODEC.answer(value)


@pytest.mark.parametrize(
    "text",
    ["4.50", "[0.00, -1.0E+2]", '{"id": 12345678901234567890.1234567890}', "1E+400", "5.0", "0.1", "NaN"],
)
def test_digits_that_a_person_wrote_are_written(text: str) -> None:
    """A result of ``lambda-once resolve``, such as ``show`` printed, is no float if that has other digits."""
    assert text_of(HandlerCodec().load(text), escaped=False) == text


@pytest.mark.parametrize("text", ["5e-7", "1E-4", "1e21", "100.0", "2.5"])
def test_a_number_that_a_float_holds_is_one(text: str) -> None:
    """Whatever its spelling."""
    loaded = HandlerCodec().load(text)
    assert (type(loaded), loaded) == (float, float(text))


def test_a_decimal_that_prints_another_number_is_not_stored() -> None:
    """The runtime writes what it prints, such as an e for the E; its digits would be read back."""
    assert marshalled([Short(100)])[0] == "[1.0e+2]"
    with pytest.raises(NotSerialisable, match="Short"):
        CODEC.answer([Short(100)])


@modes
@pytest.mark.usefixtures("runtime")
def test_two_surrogates_are_one_character_for_everyone(mode: str) -> None:
    """They are read back as one, and alone they are no UTF-8, which the runtime posts."""
    value = {"name": "\ud83d\ude00"}
    answer = CODEC.answer(value)
    assert not answer.is_written
    assert answer.loaded == CODEC.load(answer.text) == {"name": "\U0001f600"}
    assert mode == PLAIN or marshalled(answer.loaded) == marshalled(value)


@pytest.mark.parametrize("value", [b'{"a": 1}', b"", b"\x89PNG", bytes(300)])
def test_whole_bytes_come_back_as_bytes(value: bytes) -> None:
    """The runtime posts them as they are."""
    answer = CODEC.answer(value)
    assert answer.is_written
    assert marshalled(answer.loaded) == marshalled(value) == (value, "application/unknown")
    assert JSON.load(answer.text) == CODEC.load(CODEC.dump(value)) == value


def leaves(choice: random.Random) -> Iterator[Any]:
    """Yield values without parts, of all types that the runtime writes."""
    while True:
        number = choice.choice([choice.uniform(-1e3, 1e3), choice.random() * 10 ** choice.randint(-320, 300)])
        digits = "".join(choice.choices("0123456789", k=choice.randint(1, 40)))
        yield from choice.sample(
            [
                number,
                int(digits) * choice.choice([1, -1]),
                Decimal(digits).scaleb(choice.randint(-60, 60)),
                Decimal(repr(number)),
                "".join(choice.choices('aé\u20ac\U0001f600\0"\\\n\x7f\u2028', k=3)),
                choice.choice(["tea", ""]).encode(),
                choice.choice([None, True, False, math.nan, math.inf]),
                choice.choice([Price(1, "EUR"), Row(), Level.LOW, Size.LARGE, Money(1), Rated(0.5)]),
            ],
            8,
        )


def tree(choice: random.Random, leaf: Iterator[Any], levels: int) -> Any:
    """Return a value of up to *levels* levels."""
    if not levels or choice.random() < 0.2:
        return next(leaf)
    parts = [tree(choice, leaf, levels - 1) for _ in range(choice.randint(0, 4))]
    match choice.randint(0, 4):
        case 0:
            return parts
        case 1:
            return tuple(parts)
        case 2:
            return Price(parts, next(leaf))
        case _:
            names = [1, 2.5, True, None, "a", b"b", "é", "\0decimal", Level.LOW + 1, "\0"]
            return dict(zip(choice.sample(names, len(parts)), parts, strict=True))


@modes
@pytest.mark.usefixtures("runtime")
def test_a_thousand_answers(mode: str) -> None:
    """Of all types that the runtime writes, from one seed."""
    choice = random.Random(20_261_120)
    leaf = leaves(choice)
    for _ in range(1_000):
        value = tree(choice, leaf, 4)
        wanted, answer = marshalled(value), CODEC.answer(value)
        assert answer.is_written
        assert marshalled(answer.loaded) == wanted
        if not isinstance(value, bytes):
            assert text_of(answer.loaded, escaped=mode not in UNESCAPED) == wanted[0]


def test_the_modes_are_the_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of awslambdaric 4.2.2."""
    for minor in range(8, 17):
        mode = f"AWS_Lambda_python3.{minor}"
        monkeypatch.setenv("AWS_EXECUTION_ENV", mode)
        assert (marshalled("é")[0] == '"é"') is (mode in UNESCAPED)


def test_twin_of_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a named tuple a list, the runtime would write another text."""
    monkeypatch.setattr(written, "_as_dict", lambda _: None)
    value = WRITTEN["named tuples"]
    assert marshalled(form_of(value)[0]) != marshalled(value)


def test_json_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most answers are JSON: their text is made at C speed."""
    monkeypatch.setattr(written, "form_of", lambda _: pytest.fail("it was walked"))
    value = json.loads('{"statusCode": 200, "headers": {"a": "b"}, "body": "{}", "n": [1, 2.5, null]}')
    assert CODEC.answer(value).loaded == value
