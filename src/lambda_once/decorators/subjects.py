"""What a record handler gets: the record, or its payload as the model that ``model=`` names."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from lambda_once.errors import KeyMissing, Misconfigured

if TYPE_CHECKING:
    from lambda_once.sources.unit import Unit


class BadRecord(KeyMissing):
    """The record cannot be worked as it is; the rest of its batch can."""


class Subjects:
    """Turns units into what the function receives."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def of(self, unit: Unit) -> Unit:
        """
        Return *unit* with the subject that the function gets.

        Raises `BadRecord` where the payload does not fit the model; it names the fields, never their content.
        """
        if self._model is None:
            return unit
        adapter, invalid = self._adapter
        try:
            return unit._replace(argument=adapter.validate_python(unit.payload))
        except invalid as error:
            problems = error.errors(include_input=False, include_url=False, include_context=False)
            fields = ", ".join(
                f"{'.'.join(map(str, p['loc'])) or 'the payload'} ({p['type']})" for p in problems[:5]
            )
            raise BadRecord(
                f"the payload is not a valid {_name(self._model)}: {fields}; fix the producer"
            ) from None

    @cached_property
    def _adapter(self) -> tuple[Any, Any]:
        try:
            from pydantic import TypeAdapter, ValidationError
        except ImportError as error:
            raise Misconfigured("model= needs pydantic: install lambda-once[pydantic]") from error
        return TypeAdapter(self._model), ValidationError


def _name(model: Any) -> str:
    return getattr(model, "__name__", None) or str(model)
