"""Lambda's runtime, as far as it writes what a handler returns: awslambdaric's own marshaller."""

from __future__ import annotations

import re
from typing import Any, Final

from awslambdaric.lambda_runtime_exception import FaultException
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller

from lambda_once.core.written import Answer

SURROGATES: Final = re.compile(r"\\ud[89ab]..\\ud[c-f]..")
"""Two that JSON reads as one character, in a repr: the runtime writes them, and can't post them as UTF-8."""


def marshalled(value: Any) -> tuple[Any, str]:
    """Return what the runtime posts of *value*, and its content type. Raises FaultException."""
    posted: tuple[Any, str] = LambdaMarshaller().marshal_response(value)
    return posted


def disagreement(value: Any, answer: Answer) -> str | None:
    """Return how *answer*, made of *value*, is not what the runtime writes; None if it is."""
    again = marshalled(answer.loaded)
    try:
        wanted = marshalled(value)
    except FaultException:
        return f"the runtime refuses {value!r}" if answer.is_written else None
    if not answer.is_written:
        return None if SURROGATES.search(repr(value)) else f"the runtime writes {value!r}"
    return None if again == wanted else f"the runtime writes {wanted} of {value!r}, and then {again}"
