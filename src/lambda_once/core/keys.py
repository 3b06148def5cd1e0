"""
Select the key, which makes two deliveries the same work, and build its token.

A token is ``service/name/tenant/scope/key``, readable where it can be, so that an operator finds an order
by its number; a long part, or one that is no text, becomes a digest. A key is never guessed: one that is
empty, or has an empty part, is `KeyMissing`, for two strangers would share an outcome.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from lambda_once.core.canonical import NEVER_WRAPS, NoForm, NotCanonical, digest, unwrapped
from lambda_once.core.fields import names_in, printable
from lambda_once.core.objects import Noted
from lambda_once.errors import KeyMissing, Misconfigured, OnceError

Selector = str | Callable[..., object] | None
"""How to select a key or a scope: a JMESPath expression, a callable, or None."""

SERVICE_VARIABLE: Final = "POWERTOOLS_SERVICE_NAME"
NO_SERVICE: Final = "service_undefined"
"""The default service, as in Powertools."""

PART_LIMIT = 255
"""
Most bytes of a readable part: five parts and four slashes stay under 1,280 bytes.

DynamoDB takes a partition key of 2,048; a part of a large result adds the attempt and its number to a token.
"""

MOST_DIGITS = 255
"""Most digits of a number that is a readable part."""
_TOO_LONG = 10**MOST_DIGITS

PAYLOAD: Final = "payload"
"""The name of the payload in a key that is its hash."""

_UNSEEN: Final = object()
"""Stands for the payload if a callable selects from its arguments."""

_MAY_BE_EMPTY: Final = (str, dict, list, tuple, bytes, set, frozenset, Mapping)

_DIGEST = re.compile(r"[0-9a-f]{64}")
_UNRESERVED = re.compile(r"[A-Za-z0-9_.~-]*")
"""Text that RFC 3986 does not encode: most keys. Quicker than `quote`."""


# -- selecting


class KeyOfRun:
    """Selects the key of `Once.run`, which is a value."""

    def __init__(self, key: object) -> None:
        self._key = key

    def __call__(self, *_arguments: object) -> object:
        """Return the key. Raises `KeyMissing` if it, or a part of it, is nothing."""
        if not is_whole(self._key):
            raise KeyMissing("the key of once.run, or a part of it, is missing: give it with every call")
        return self._key


@lru_cache(maxsize=512)
def compile_expression(
    expression: str, what: str = "key", *, may_be_null: bool = False
) -> Callable[[object], object]:
    """
    Return a function that searches a plain payload (`plain`) by *expression*, with Powertools' functions.

    The function raises as `select` does; messages call the result *what*. Raises Misconfigured at once for an
    expression that cannot be parsed, with the position, and for an unknown function.
    """
    from lambda_once.core.expressions import builds, failing, meant, parsed  # jmespath costs a cold start

    search = parsed(expression, compares=may_be_null)
    is_checked = not may_be_null and builds(expression)
    labels = labels_of(expression)
    name = f"the expression {expression!r}"

    def run(payload: object) -> object:
        try:
            selected = search(payload)
        except Exception as error:  # noqa: BLE001  # JMESPath on foreign data: any failure selects nothing
            # Not chained: JMESPath's messages repeat the payload.
            raise KeyMissing(
                f"the {what} is missing: {name} failed on this payload with "
                f"{type(error).__name__}{failing(expression, payload)} "
                f"({names_in(payload)}{meant(expression, payload, what)}); "
                "correct the expression or the payload"
            ) from None
        if not may_be_null and is_nothing(selected):
            raise _missing(what, name, payload, hint=meant(expression, payload, what))
        path = _find_nothing(selected, are_parts=bool(labels)) if is_checked else None
        if path is not None:
            part = _path_text(path, selected, labels)
            raise _missing(what, name, payload, part, meant(expression, payload, what))
        return selected

    return run


@lru_cache(maxsize=128)
def labels_of(expression: str) -> tuple[str, ...]:
    """Return names for the parts of the result of *expression* (`expressions.labels`)."""
    from lambda_once.core.expressions import labels  # jmespath costs a cold start

    return labels(expression)


def select(expression: str, payload: object, what: str = "key", *, may_be_null: bool = False) -> object:
    """
    Return what *expression* selects from *payload*, a plain value (`plain`).

    Raises KeyMissing if the search fails, such as for a wrong type or text that is not JSON. Without
    *may_be_null*, also if the result is nothing (None, "", {} or []; 0 and False are values), if a part of a
    multi-select at the end of *expression* is nothing, or if a result built by the expression contains a
    null. Nulls inside a selected part of the payload are content. The message has the names of the null part
    and of the payload's fields, but no values. Raises Misconfigured as `compile_expression` does.
    """
    return compile_expression(expression, what, may_be_null=may_be_null)(payload)


def select_from(
    function: Callable[..., object], args: Iterable[Any], kwargs: Mapping[str, Any], what: str = "key"
) -> object:
    """
    Return the key that *function* returns for *args* and *kwargs*.

    Raises KeyMissing if the key, or an element of a returned tuple or list, is nothing; nulls inside a
    mapping or model are content. An `OnceError` of *function*, such as KeyMissing, passes through; for any
    other exception it raises Misconfigured.
    """
    name = f"the callable {getattr(function, '__qualname__', type(function).__qualname__)}"
    try:
        selected = function(*args, **kwargs)
    except OnceError:
        raise
    except Exception as error:
        raise Misconfigured(
            f"{name} of {what}= raised {type(error).__name__}: fix it, or raise KeyMissing in it if the "
            "payload is at fault"
        ) from error
    if is_nothing(selected):
        raise _missing(what, name)
    for n, part in enumerate(selected if isinstance(selected, list | tuple) else ()):
        if is_nothing(part):
            raise _missing(what, name, part=f"[{n}]", cure="join the parts that may be missing to a text")
    return selected


def key_of_payload(content: object, in_token: Mapping[str, object]) -> object:
    """
    Return the key of work that is identified by its whole payload, *content*, and the values of *in_token*.

    It is a mapping, so that even a short text is hashed and not shown in the token. Raises KeyMissing for an
    empty payload.
    """
    if is_nothing(content):
        raise KeyMissing(
            "an empty payload is not a key: every empty payload would be a duplicate of the first; "
            "pass key=, or send a payload that identifies the work"
        )
    return {PAYLOAD: content, **in_token}


def is_nothing(value: object) -> bool:
    """Return whether *value* is None, or an empty string, list, tuple, mapping or set."""
    return value is None or (isinstance(value, _MAY_BE_EMPTY) and len(value) == 0)


def is_whole(value: object) -> bool:
    """Return whether neither *value* nor any element of it (list or tuple) is nothing."""
    return not is_nothing(value) and not (isinstance(value, list | tuple) and any(map(is_nothing, value)))


def _find_nothing(selected: object, *, are_parts: bool) -> tuple[str | int, ...] | None:
    """
    Return the path of a null in *selected*, a plain value, as names and indexes; None if there is no null.

    *are_parts*: its elements are those of a multi-select, where an element that is nothing counts as a null.
    """
    pending: list[tuple[object, tuple[str | int, ...]]] = [(selected, ())]
    for value, path in pending:
        if is_nothing(value) if are_parts and len(path) == 1 else value is None:
            return path
        if isinstance(value, Mapping):
            pending.extend((part, (*path, str(name))) for name, part in value.items())
        elif isinstance(value, list | tuple):
            pending.extend((part, (*path, n)) for n, part in enumerate(value))
    return None


def _path_text(path: tuple[str | int, ...], selected: object, labels: tuple[str, ...]) -> str:
    """Return *path*, a place in *selected*, as text, with labels for elements of a multi-select list."""
    first, *others = path
    is_labelled = isinstance(selected, list) and len(selected) == len(labels) and isinstance(first, int)
    steps = [labels[int(first)] if is_labelled else _step(first), *map(_step, others)]
    return "".join(steps).removeprefix(".")


def _step(step: str | int) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{printable(step)}"


def _missing(
    what: str,
    selector: str,
    payload: object = _UNSEEN,
    part: str | None = None,
    hint: str = "",
    cure: str = "select a value that is always present",
) -> KeyMissing:
    fields = "" if payload is _UNSEEN else f" ({names_in(payload)}{hint})"
    missing, nothing = f"the {what}", "nothing"
    if part is not None:
        missing, nothing = f"a part of the {what}", f"nothing for {part}"
    error = KeyMissing(
        f"{missing} is missing: {selector} selects {nothing}{fields}; send it with every delivery, or {cure}"
    )
    error.whole = what == "key" and part is None
    return error


# -- writing


def token(
    service: str,
    name: str,
    scope: object | None,
    key: object,
    tenant: str | None = None,
    noted: Noted | None = None,
) -> str:
    """
    Return the lock token ``service/name/[tenant/][scope/]key``, at most 1,280 bytes of ASCII.

    Different parts make different tokens, with three exceptions: a number that equals an integer (5, 5.0,
    Decimal("5.00"), but no boolean) equals the text of its digits, a scope of one part equals that part, and
    a tenant without a scope equals a scope without a tenant.

    Parts are percent-encoded. A string of at most PART_LIMIT encoded bytes stays readable, and so does a
    scope of several strings, joined by ":". Anything else, and text that looks like a digest, is replaced by
    its digest. Raises KeyMissing for a key or scope that is empty, contains itself or is nested too
    deeply, and Misconfigured for a part of a type without canonical form, and for an empty service, name or
    tenant. Adds to *noted* the excluded fields of models in *key* that do not count, as their values have no
    form.
    """
    owner = _owner(service, name, tenant)
    return f"{owner}/{_key(key, noted)}" if scope is None else f"{owner}/{_scope(scope)}/{_key(key, noted)}"


def downstream(token: str, generation: str | None, label: str) -> str:
    """Return an idempotency key for a downstream system: 64 hex digits, the same for every attempt."""
    return digest(["downstream", token, *([] if generation is None else [generation]), label])


@lru_cache(maxsize=64)  # few, and the same in all tokens of a batch
def _owner(service: str, name: str, tenant: str | None) -> str:
    if service == "" or name == "":
        raise Misconfigured("a token needs a service and a name: neither may be empty")
    return "/".join((_part(service), _part(name), *(() if tenant is None else (tenant_part(tenant),))))


def tenant_part(tenant: str) -> str:
    """
    Return *tenant* as a token has it: percent-encoded, or its digest if that has more than PART_LIMIT bytes.

    Lambda takes 256 characters at most (API reference, Invoke), of which an encoded one has three bytes.
    Raises Misconfigured for an empty one.
    """
    if tenant == "":
        raise Misconfigured("the tenant is empty: pass the text that Lambda has as context.tenant_id")
    return _part(tenant)


def _key(key: object, noted: Noted | None) -> str:
    if is_nothing(key):
        raise KeyMissing(
            "the key is empty: send one with every delivery, or select a value that is always present"
        )
    return _part(key, noted)


def _scope(scope: object) -> str:
    # A tuple was assembled from parts; a list may be a part of a payload, whose nulls are content.
    if not is_whole(scope) if isinstance(scope, tuple) else is_nothing(scope):
        raise KeyMissing("the scope is empty, or a part of it: select a value that every delivery has")
    if isinstance(scope, tuple) and len(scope) == 1:  # a block passes the bare value; both make one token
        return _scope(scope[0])
    if not isinstance(scope, list | tuple) or not all(isinstance(part, str) for part in scope):
        return _part(scope)
    if len(scope) == 1:
        return _part(scope[0])
    joined = ":".join(map(_encoded, scope))
    return joined if len(joined) <= PART_LIMIT else _part(scope)


def _part(value: object, noted: Noted | None = None) -> str:
    """Return *value* as readable text or as its digest. Raises as `token` does."""
    text = value if isinstance(value, str) else whole_digits(value)
    if text is not None:
        readable = _encoded(text)
        if len(readable) <= PART_LIMIT and not _DIGEST.fullmatch(readable):
            return readable
    try:
        return digest(value, noted)
    except NoForm as error:
        raise Misconfigured(
            f"the key is not JSON-serialisable: {error}; pass key= with what identifies the work, or leave "
            "that part out with ignore="
        ) from None
    except NotCanonical as error:
        raise KeyMissing(
            f"the key is not JSON-serialisable: {error}; pass key= with what identifies the work"
        ) from None


def whole_digits(value: object) -> str | None:
    """
    Return the digits of a number that equals an integer of at most MOST_DIGITS digits; None otherwise.

    A boolean is not a number. A float counts by its `repr`, and -0.0 is 0.
    """
    if type(value) not in NEVER_WRAPS:
        value = unwrapped(value)
    if not isinstance(value, (int, float, Decimal)) or isinstance(value, bool):  # a union takes longer
        return None
    if isinstance(value, int):
        return str(int(value)) if abs(value) < _TOO_LONG else None
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    if not exact.is_finite() or (exact and exact.adjusted() >= MOST_DIGITS):
        return None
    return str(int(exact)) if exact == exact.to_integral_value() else None


def _encoded(value: str) -> str:
    return value if _UNRESERVED.fullmatch(value) else quote(value, safe="", errors="surrogatepass")
