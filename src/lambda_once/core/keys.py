"""What makes two deliveries the same work: the selected key, and its token."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from lambda_once.core.canonical import NotCanonical, digest
from lambda_once.core.fields import names_in
from lambda_once.core.numbers import Digits
from lambda_once.errors import KeyMissing, Misconfigured, OnceError

Selector = str | Callable[..., object] | None
"""Selects a key or a scope: a JMESPath expression, a callable, or None."""

SERVICE_VARIABLE: Final = "POWERTOOLS_SERVICE_NAME"
NO_SERVICE: Final = "service_undefined"
"""The default service, as in Powertools."""

PART_LIMIT = 255
"""Bytes of a readable part: four parts and three slashes stay under 1,024 bytes."""

MOST_DIGITS = 255
"""Digits of the longest number that is a readable part."""
_TOO_LONG = 10**MOST_DIGITS

_UNSEEN: Final = object()
"""The payload where a callable selects from its arguments."""

_MAY_BE_EMPTY: Final = (str, dict, list, tuple, bytes, set, frozenset, Mapping)

_DIGEST = re.compile(r"[0-9a-f]{64}")


# -- selecting


@lru_cache(maxsize=512)
def compile_expression(expression: str, what: str = "key") -> Callable[[object], object]:
    """
    Return a search of a plain payload (`plain`) by the JMESPath *expression*, with Powertools' functions.

    The search raises KeyMissing, whatever goes wrong: a wrong type for a function, text that is not JSON, a
    missing part of a multi-select; messages call what it selects *what*. Raises Misconfigured at once for an
    expression that cannot be parsed, with the position, and for an unknown function.
    """
    from lambda_once.core.expressions import PartMissing, parsed  # jmespath costs a cold start

    search = parsed(expression)

    def run(payload: object) -> object:
        try:
            return search(payload)
        except PartMissing:
            raise _missing(f"a part of the {what}", f"the expression {expression!r}", payload) from None
        except Exception as error:  # noqa: BLE001  # JMESPath on foreign data: any failure selects nothing
            # Not chained: JMESPath's messages repeat the payload.
            raise KeyMissing(
                f"the {what} is missing: the expression {expression!r} failed on this payload with "
                f"{type(error).__name__} ({names_in(payload)}); correct the expression or the payload"
            ) from None

    return run


@lru_cache(maxsize=128)
def labels_of(expression: str) -> tuple[str, ...]:
    """Return names for the parts of the result of *expression* (`expressions.labels`)."""
    from lambda_once.core.expressions import labels  # as above

    return labels(expression)


def select(expression: str, payload: object, what: str = "key", *, may_have_nulls: bool = False) -> object:
    """
    Return what *expression* selects of *payload*, a plain value (`plain`).

    0 and False are values. Raises KeyMissing if it selects nothing (None, "", {} or []), wholly or in part: a
    part of a multi-select, or, unless it *may_have_nulls*, a null anywhere in the result. The message names
    the payload's fields and quotes no value. Raises Misconfigured as `compile_expression` does.
    """
    found = compile_expression(expression, what)(payload)
    if is_nothing(found):
        raise _missing(f"the {what}", f"the expression {expression!r}", payload)
    if not may_have_nulls and has_null(found):
        raise _missing(f"a part of the {what}", f"the expression {expression!r}", payload)
    return found


def select_from(
    function: Callable[..., object], args: Iterable[Any], kwargs: Mapping[str, Any], what: str = "key"
) -> object:
    """
    Return the key that *function* returns for *args* and *kwargs*.

    Raises KeyMissing if that is nothing, wholly or in a part of a tuple, list or mapping. *function* may
    raise an `OnceError`, such as KeyMissing; any other exception is the developer's mistake: Misconfigured.
    """
    name = f"the callable {getattr(function, '__qualname__', type(function).__qualname__)}"
    try:
        found = function(*args, **kwargs)
    except OnceError:
        raise
    except Exception as error:
        raise Misconfigured(
            f"{name} of {what}= raised {type(error).__name__}: fix it, or raise KeyMissing in it if the "
            "payload is at fault"
        ) from error
    if not is_whole(found):
        raise _missing(f"the {what}, or a part of it,", name)
    return found


def is_nothing(value: object) -> bool:
    """Return whether *value* is None, or an empty string, list, tuple, mapping or set."""
    return value is None or (isinstance(value, _MAY_BE_EMPTY) and len(value) == 0)


def is_whole(value: object) -> bool:
    """Return whether neither *value* nor a part of it, as a list, tuple or mapping, is nothing."""
    if is_nothing(value):
        return False
    if isinstance(value, Mapping):
        return all(map(is_whole, value.values()))
    return not isinstance(value, list | tuple) or all(map(is_whole, value))


def has_null(found: object) -> bool:
    """Return whether there is a null anywhere in *found*, a plain value."""
    pending = [found]
    while pending:
        each = pending.pop()
        if each is None:
            return True
        if isinstance(each, Mapping):
            pending.extend(each.values())
        elif isinstance(each, list | tuple):
            pending.extend(each)
    return False


def _missing(what: str, selector: str, payload: object = _UNSEEN) -> KeyMissing:
    seen = "" if payload is _UNSEEN else f" ({names_in(payload)})"
    return KeyMissing(
        f"{what} is missing: {selector} selects nothing{seen}; "
        f"send it with every delivery, or select a value that is always present"
    )


# -- writing


def token(service: str, name: str, scope: object | None, key: object) -> str:
    """
    Return the lock token ``service/name/[scope/]key``, at most 1,024 bytes of ASCII.

    Different parts make different tokens, except that a number that equals an integer (5, 5.0,
    Decimal("5.00"), no boolean) is the text of its digits, and a scope of one string that string. Each part
    is percent-encoded. A string of at most PART_LIMIT encoded bytes is readable, and so is a scope of
    several, joined by ":"; anything else, and what looks like a digest, is its digest. Raises KeyMissing for
    an empty key or scope and for one without canonical form, Misconfigured for an empty service or name.
    """
    owner = _owner(service, name)
    return f"{owner}/{_key(key)}" if scope is None else f"{owner}/{_scope(scope)}/{_key(key)}"


def downstream(token: str, label: str) -> str:
    """Return an idempotency key for a downstream system: 64 hex, the same for every attempt of *token*."""
    return digest(["downstream", token, label])


@lru_cache(maxsize=64)  # few, and the same in all tokens of a batch
def _owner(service: str, name: str) -> str:
    if service == "" or name == "":
        raise Misconfigured("a token needs a service and a name: neither may be empty")
    return f"{_part(service)}/{_part(name)}"


def _key(key: object) -> str:
    if is_nothing(key):
        raise KeyMissing(
            "the key is empty: send one with every delivery, or select a value that is always present"
        )
    return _part(key)


def _scope(scope: object) -> str:
    if not is_whole(scope):
        raise KeyMissing("the scope is empty, or a part of it: select a value that every delivery has")
    if not isinstance(scope, list | tuple):
        return _part(scope)
    if not all(isinstance(part, str) for part in scope):
        return _part(scope)
    if len(scope) == 1:
        return _part(scope[0])
    joined = ":".join(map(_encoded, scope))
    return joined if len(joined) <= PART_LIMIT else _part(scope)


def _part(value: object) -> str:
    """Return *value* readable or digested. Raises KeyMissing where it has no canonical form."""
    text = value if isinstance(value, str) else _whole_digits(value)
    if text is not None:
        readable = _encoded(text)
        if len(readable) <= PART_LIMIT and not _DIGEST.fullmatch(readable):
            return readable
    try:
        return digest(value)
    except NotCanonical as error:
        raise KeyMissing(f"the key is not JSON-serialisable: {error}") from None


def _whole_digits(value: object) -> str | None:
    """
    Return the digits of a number that equals an integer of at most MOST_DIGITS digits; None for all else.

    A boolean is no number. A float counts by its shortest text, and -0.0 is 0.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int):
        return str(int(value)) if abs(value) < _TOO_LONG else None
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    if not exact.is_finite():
        return None
    digits = Digits.of(exact)
    if not digits.significant:
        return "0"
    if digits.exponent < 0 or len(digits.significant) + digits.exponent > MOST_DIGITS:
        return None
    return f"{digits.sign}{digits.significant}{'0' * digits.exponent}"


def _encoded(value: str) -> str:
    return quote(value, safe="", errors="surrogatepass")
