"""
Where in the code tokens without ``name=`` were used, in one invocation.

`Once.begin` names a token after the calling function, so two blocks of one function with the same key share a
token, and the work of the second never runs. This is detected when a block gets the outcome of another block
for the same record of the same invocation. Retries and loops are not affected: a retry finds a released
token, and a loop returns to the same place.
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
    Lines and columns of the call in the source. The bytecode offset would not do: the compiler emits the code
    of a ``finally`` more than once.
    """
    record: str | None = None
    """The id of the outermost attempt around it (of a record or event); new with each delivery."""

    def __str__(self) -> str:
        return f"{PurePath(self.code.co_filename).name}:{self.position[0]}"


Places: TypeAlias = dict[tuple[str | None, str], Place]
"""
The place by record and by the attempt that produced an outcome.

Attempt ids are unique, so a token that was released or expired and acquired again is not confused with this.
"""


def place_of_call(frame: FrameType) -> Place:
    """Return the place of the call that *frame* is executing."""
    code = frame.f_code
    instruction = frame.f_lasti // 2  # code units of two bytes
    return Place(code, next(islice(code.co_positions(), instruction, None), (frame.f_lineno,)))


def place_of_def(code: CodeType | None) -> Place | None:
    """Return the place of the function with *code*, independent of its caller."""
    return None if code is None else Place(code, (code.co_firstlineno,))


def note(known: Places, place: Place, attempt: str) -> None:
    """Record in *known* that *place* produced or received the outcome of *attempt*."""
    known[place.record, attempt] = place


def check(known: Places, place: Place, attempt: str, token: str) -> None:
    """Raise `Misconfigured` if the outcome of *attempt* belongs to another place than *place*."""
    other = known.get((place.record, attempt))
    if other is None or other == place:
        return
    message = (
        f"token {token} has the outcome of the work at {other}; the work at {place} has the same "
        "default name and key, and would never run: give each a name, by name= or once.run_as"
    )
    raise Misconfigured(message, token=token)
