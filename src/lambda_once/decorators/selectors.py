"""
The arguments that a callable ``key=``, ``scope=`` or ``caller=`` receives, decided when it's decorated.

That of a handler gets the event or record, and the Lambda context if it has a second required positional
parameter. Of `once.function` one parameter gets the first argument, several get by name those that they name:
a function may take the Lambda context, or an argument more, without a word in its key.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from inspect import BoundArguments, Parameter, Signature
from typing import TYPE_CHECKING, Any

from lambda_once.core.signatures import accepts, is_async, signature_of, title
from lambda_once.decorators.validation import is_self
from lambda_once.errors import KeyMissing, Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lambda_once.core.keys import Selector
    from lambda_once.settings import Settings

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_OF_ONE = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
"""Callables of one argument whose signature does not show it."""

Taking = tuple[tuple[Any, ...], "Mapping[str, Any]"]
"""The arguments that a callable is called with."""


def arguments_by_name(bound: BoundArguments) -> dict[str, Any]:
    """
    Return the arguments of a call by name, those of ``**kwargs`` by their own names.

    Where one of these has the name of a positional-only parameter, too, they stay together.
    """
    named = dict(bound.arguments)
    rest = variadic(bound.signature)
    others = {} if rest is None else named.pop(rest, {})
    return {**named, f"**{rest}": others} if others.keys() & named.keys() else {**named, **others}


def variadic(signature: Signature) -> str | None:
    """Return the name of the parameter of *signature* that takes any keyword; None if it has none."""
    return next((each.name for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD), None)


def with_selectors_of_one(settings: Settings, what: str) -> Settings:
    """
    Return *settings* with each callable key, scope and caller as a function of *what* and the Lambda context.

    *what* is what the decorator passes, such as "the event". Raises `Misconfigured` for a callable that is
    async, or accepts neither *what* alone nor both.
    """
    given = {name: getattr(settings, name) for name in ("key", "scope", "caller")}
    of_both: dict[str, Any] = {
        name: _of_both(each, what, name) for name, each in given.items() if callable(each)
    }
    return replace(settings, **of_both) if of_both else settings


def _of_both(selector: Callable[..., object], what: str, option: str) -> Callable[[object, object], object]:
    _check_plain(selector, option)
    if accepts(selector, object()):  # a second parameter, if it has one, is optional
        return _named_as(selector, lambda argument, _context: selector(argument))
    if accepts(selector, object(), object()):
        return selector
    raise Misconfigured(
        f"{option}={title(selector)} must accept {what}, or {what} and Lambda's context, and nothing else"
    )


def _check_plain(selector: Callable[..., object], option: str) -> None:
    if is_async(selector):
        raise Misconfigured(
            f"{option}={title(selector)} is async, and would not be awaited: pass a plain def"
        )


def _named_as(selector: Callable[..., object], wrapper: Callable[..., object]) -> Callable[..., object]:
    """Return *wrapper*, which messages call by the name of *selector*."""
    wrapper.__qualname__ = getattr(selector, "__qualname__", type(selector).__qualname__)
    return wrapper


def selector_of_call(selector: Selector, function: Callable[..., Any], what: str) -> Selector:
    """
    Return *selector*, the option *what*, as a function of the `BoundArguments` of a call of *function*.

    It ignores the Lambda context, which selectors are called with: a function takes it as an argument or not.

    An expression is returned as it is. Raises `Misconfigured` for a callable that is async, or needs what
    *function* does not get.
    """
    if selector is None or isinstance(selector, str):
        return selector
    _check_plain(selector, what)
    taking = _taking(selector, signature_of(function))
    if taking is None:
        names = ", ".join(signature_of(function).parameters) or "none"
        raise Misconfigured(
            f"{what}={title(selector)} must accept the arguments of {title(function)}: the first one as "
            f"its only parameter, or those it names, of {names}"
        )

    def select(bound: BoundArguments, _context: object) -> object:
        args, kwargs = taking(bound)
        return selector(*args, **kwargs)

    return _named_as(selector, select)


def _taking(
    selector: Callable[..., object], of_function: Signature
) -> Callable[[BoundArguments], Taking] | None:
    """Return what *selector* takes of a call of the function; None if it needs what there is not."""
    own = _parameters(selector)
    if own is None:
        return _first(of_function)
    if any(each.kind is each.VAR_POSITIONAL for each in own):
        return _all(selector, of_function)
    names = {each.name for each in of_function.parameters.values() if each.kind is not each.VAR_KEYWORD}
    required = [each for each in own if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    if not any(each.name in names or each.kind is each.VAR_KEYWORD for each in own):
        alone = own if len(own) == 1 else required
        return _first(of_function, alone[0]) if len(alone) == 1 else None
    unknown = any(each.name not in names for each in required)
    return None if unknown and variadic(of_function) is None else lambda bound: _named(own, bound)


def _parameters(selector: Callable[..., object]) -> list[Parameter] | None:
    """Return the parameters of *selector*; None where they are unknown, which counts as one."""
    if isinstance(selector, _OF_ONE):
        return None
    try:
        return [*signature_of(selector).parameters.values()]
    except Misconfigured:
        return None


def _first(
    of_function: Signature, parameter: Parameter | None = None
) -> Callable[[BoundArguments], Taking] | None:
    """Return what takes, as *parameter*, the first argument; of a method the one behind the object."""
    found = [each for each in of_function.parameters.values() if not is_self(each.name)]
    if not found or found[0].kind in _VARIADIC:
        return None
    first = found[0].name
    if parameter is not None and parameter.kind is parameter.KEYWORD_ONLY:
        return lambda bound: ((), {parameter.name: bound.arguments[first]})
    return lambda bound: ((bound.arguments[first],), {})


def _all(
    selector: Callable[..., object], of_function: Signature
) -> Callable[[BoundArguments], Taking] | None:
    """Return what takes all arguments as a call passes them."""
    given = [each for each in of_function.parameters.values() if each.kind not in _VARIADIC]
    args = [object() for each in given if each.kind is not each.KEYWORD_ONLY]
    kwargs = {each.name: object() for each in given if each.kind is each.KEYWORD_ONLY}
    return (lambda bound: (bound.args, bound.kwargs)) if accepts(selector, *args, **kwargs) else None


def _named(own: list[Parameter], bound: BoundArguments) -> Taking:
    """Return the arguments that the parameters *own* name. Raises `KeyMissing` if one was not passed."""
    given = arguments_by_name(bound)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for each in own:
        if each.kind is each.VAR_KEYWORD:
            named = {other.name for other in own}
            kwargs |= {name: value for name, value in given.items() if name not in named}
        elif each.name not in given:
            if each.default is each.empty:
                raise KeyMissing(f"the call has no argument {each.name}: pass it with every call")
        elif each.kind is each.POSITIONAL_ONLY:
            args.append(given[each.name])
        else:
            kwargs[each.name] = given[each.name]
    return tuple(args), kwargs
