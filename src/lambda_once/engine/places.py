"""
Where in the code tokens without ``name=`` were used, in one invocation.

`Once.begin` names a token after the function that calls it, so two blocks of one function with one key are
one token, and the work of the second would never run. That shows where the second block gets an outcome that
another block made, or was given, for the same record of the same invocation. A retry finds a released token,
and a loop comes back to the same place.
"""

from __future__ import annotations

from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from types import CodeType, FrameType


class Place(NamedTuple):
    """A call in the source, or a function."""

    code: CodeType
    position: tuple[int | None, ...]
    """
    Lines and columns of the call in its source, not its offset in the bytecode: the compiler writes a
    ``finally`` more than once.
    """
    record: str | None = None
    """The outermost attempt around it: that of a record or an event, and new at each delivery."""

    def __str__(self) -> str:
        return f"{PurePath(self.code.co_filename).name}:{self.position[0]}"


Places: TypeAlias = dict[tuple[str | None, str], Place]
"""
By the record, and by the attempt that made an outcome.

Attempt ids are never used twice: a token that was released or has expired since is another one.
"""


def place_of_call(frame: FrameType) -> Place:
    """Return where *frame* is calling."""
    code = frame.f_code
    instruction = frame.f_lasti // 2  # code units of two bytes
    return Place(code, next(islice(code.co_positions(), instruction, None), (frame.f_lineno,)))


def place_of_def(code: CodeType | None) -> Place | None:
    """Return the place of a function of *code*, the same whoever calls it."""
    return None if code is None else Place(code, (code.co_firstlineno,))


def note(known: Places, place: Place, attempt: str) -> None:
    """Note in *known* that *place* has made, or was given, the outcome of *attempt*."""
    known[place.record, attempt] = place


def check(known: Places, place: Place, attempt: str, token: str) -> None:
    """Check that *place* may get the outcome of *attempt*. Raises `Misconfigured` for another place's."""
    other = known.get((place.record, attempt))
    if other is None or other == place:
        return
    message = (
        f"token {token} has the outcome of the work at {other}; the work at {place} has the same "
        "default name and key, and would never run: give each a name, by name= or once.run_as"
    )
    raise Misconfigured(message, token=token)
