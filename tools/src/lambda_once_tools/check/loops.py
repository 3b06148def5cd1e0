"""
``Fn::ForEach``, unrolled where the template and its parameters say over what.

Pure. CloudFormation user guide, "Fn::ForEach": each value stands in for ``${Name}``, ``&{Name}`` (its letters
and digits alone) and a Ref of the name, in what a loop makes and in the names of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lambda_once_tools.check.deployment import CannotCheck, Loop
from lambda_once_tools.check.intrinsics import MARK_OF_PARAMETER, SSM, Scope, computed, is_known

LOOP: Final = "Fn::ForEach::"
SECTIONS: Final = ("Conditions", "Outputs", "Resources")
"""Where loops may stand, with the properties of resources (the same page)."""
MOST_MADE: Final = 200_000
"""Values that the loops of a template may make; CloudFormation takes 500 resources (its quotas)."""
MOST_TEXT: Final = 20_000_000
"""Characters of them; CloudFormation takes a template of 1 MB (its quotas)."""

_WORDS: Final = re.compile(r"([$&])\{(\w+)\}", re.ASCII)


def unrolled(
    template: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Loop, ...]]:
    """
    Return *template* without the loops that *values* of its parameters decide, and the loops that stay.

    Loops that only make outputs are not among these. Raises `CannotCheck`.
    """
    unrolling = _Unrolling(Scope(template, values))
    made = {**template}
    for name in SECTIONS:
        if isinstance(template.get(name), Mapping):
            unrolling.waiting = []
            made[name] = unrolling.filled(template[name], {})
            if name != "Outputs":
                unrolling.left += unrolling.waiting
    return made, tuple(dict.fromkeys(unrolling.left))


class _Unrolling:
    """The walk over one template: what loops have made so far, and which could not be unrolled."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.made = self.text = 0
        self.waiting: list[Loop] = []
        self.left: list[Loop] = []

    def filled(self, value: Any, names: Mapping[str, str]) -> Any:
        """Return *value* with the values of *names*, and without the loops in it."""
        if names:
            self._count()
        match value:
            case {"Ref": str(name)} if len(value) == 1 and name in names:
                return names[name]
            case Mapping():
                return dict(self._members(value, names))
            case list():
                return [self.filled(each, names) for each in value]
            case str():
                return self._replaced(value, names)
            case _:
                return value

    def _members(self, value: Mapping[Any, Any], names: Mapping[str, str]) -> Iterator[tuple[Any, Any]]:
        for key, inner in value.items():
            if isinstance(key, str) and key.startswith(LOOP):
                yield from self._turns(self._replaced(key, names), inner, names)
            else:
                yield self._replaced(key, names) if isinstance(key, str) else key, self.filled(inner, names)

    def _turns(self, key: str, loop: Any, names: Mapping[str, str]) -> Iterator[tuple[Any, Any]]:
        """Yield what the turns of a loop make; the loop itself if it is not known what they are."""
        match loop:
            case [str(name), over, Mapping() as body] if (
                turns := self._over(self.filled(over, names))
            ) is not None:
                for each in turns:
                    self._count()
                    yield from self._members(body, {**names, name: each})
            case _:
                self.waiting.append(Loop(key, tuple(dict.fromkeys(_without_value(loop, self.scope)))))
                yield key, loop

    def _over(self, given: Any) -> Sequence[str] | None:
        found = computed(given, self.scope)
        if not isinstance(found, list) or not all(isinstance(each, str | int | float) for each in found):
            return None
        texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in found]
        return texts if all(map(is_known, texts)) else None

    def _count(self, text: int = 0) -> None:
        self.made += 1
        self.text += text
        if self.made > MOST_MADE or self.text > MOST_TEXT:
            raise CannotCheck(
                f"its loops make more than {MOST_MADE} values, or {MOST_TEXT} characters; CloudFormation "
                "takes no such template"
            )

    def _replaced(self, text: str, names: Mapping[str, str]) -> str:
        if not names:
            return text
        self._count(len(text) + sum(len(names.get(each[2], "")) for each in _WORDS.finditer(text)))

        def value(found: re.Match[str]) -> str:
            given = names.get(found[2])
            if given is None:
                return found[0]
            return given if found[1] == "$" else re.sub(r"[^0-9A-Za-z]", "", given)

        return _WORDS.sub(value, text)


def _without_value(loop: Any, scope: Scope) -> Iterator[str]:
    """Yield the parameters, perhaps of the stack above, that a loop goes over and that have no value."""
    of_ssm = {
        name
        for name, each in scope.section("Parameters").items()
        if isinstance(each, Mapping) and str(each.get("Type")).startswith(SSM)
    }
    waiting = [loop[1]] if isinstance(loop, list) and len(loop) > 1 else []
    while waiting:
        each = waiting.pop()
        texts = computed(each, scope)
        for text in texts if isinstance(texts, list) else [texts]:
            if isinstance(text, str):
                yield from (name for name in MARK_OF_PARAMETER.findall(text) if name not in of_ssm)
        if isinstance(each, Mapping | list):
            waiting += each.values() if isinstance(each, Mapping) else each
