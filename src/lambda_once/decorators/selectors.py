"""
The arguments that a callable ``key=``, ``scope=`` or ``caller=`` receives, decided when it's decorated.

A handler's selector gets the event or record, and the Lambda context if it has a second required positional
parameter. With `once.function`, a selector of one parameter gets the function's first argument, one of
several gets the arguments of those names: you can add an argument to the function, such as the Lambda
context, without changing the selector.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import BoundArguments, Parameter, Signature
from typing import TYPE_CHECKING, Any

from lambda_once.core.keys import KeyOfRun
from lambda_once.core.signatures import accepts, is_async, signature_of, title
from lambda_once.decorators.validation import is_self
from lambda_once.errors import KeyMissing, Misconfigured

if TYPE_CHECKING:
    from lambda_once.core.keys import Selector
    from lambda_once.settings import Settings

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_OF_ONE = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
"""Callables of one argument whose signature does not show it."""

Taken = tuple[tuple[Any, ...], Mapping[str, Any]]
"""The positional and keyword arguments that a selector is called with."""
_Taker = Callable[[BoundArguments], Taken]


def arguments_by_name(bound: BoundArguments) -> dict[str, Any]:
    """
    Return the arguments of a call by name, those of ``**kwargs`` by their own names.

    If one of these has the name of a positional-only parameter, too, they stay together under ``**kwargs``.
    """
    arguments = dict(bound.arguments)
    rest = variadic(bound.signature)
    others = {} if rest is None else arguments.pop(rest, {})
    is_shared = bool(others.keys() & arguments.keys())
    return {**arguments, f"**{rest}": others} if is_shared else {**arguments, **others}


def variadic(signature: Signature) -> str | None:
    """Return the name of the parameter of *signature* that takes any keyword; None if it has none."""
    return next((each.name for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD), None)


def with_selectors_of_one(settings: Settings, what: str) -> Settings:
    """
    Return *settings* with each callable key, scope and caller as a function of *what* and the Lambda context.

    *what* is what the decorator passes, such as "the event". Raises `Misconfigured` for a callable that is
    async, or accepts neither *what* alone nor both.
    """
    selectors = {name: getattr(settings, name) for name in ("key", "scope", "caller")}
    of_both: dict[str, Any] = {
        name: _of_both(selector, what, name) for name, selector in selectors.items() if callable(selector)
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

    Like every selector it's called with the Lambda context, too, and ignores it. An expression is returned
    unchanged, as is the key of `Once.run`. Raises `Misconfigured` for a callable that is async, or needs an
    argument that *function* doesn't get.
    """
    if selector is None or isinstance(selector, str | KeyOfRun):
        return selector
    _check_plain(selector, what)
    take = _taker(selector, signature_of(function))
    if take is None:
        names = ", ".join(signature_of(function).parameters) or "none"
        raise Misconfigured(
            f"{what}={title(selector)} must accept the arguments of {title(function)}: the first one as "
            f"its only parameter, or those it names, of {names}"
        )

    def select(bound: BoundArguments, _context: object) -> object:
        args, kwargs = take(bound)
        return selector(*args, **kwargs)

    return _named_as(selector, select)


def _taker(selector: Callable[..., object], of_function: Signature) -> _Taker | None:
    """Return a function that takes *selector*'s arguments out of a call; None if a call lacks one."""
    parameters = _parameters(selector)
    if parameters is None:
        return _take_first(of_function)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return _take_all(selector, of_function)
    names = {p.name for p in of_function.parameters.values() if p.kind is not p.VAR_KEYWORD}
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if not any(p.name in names or p.kind is p.VAR_KEYWORD for p in parameters):
        alone = parameters if len(parameters) == 1 else required
        return _take_first(of_function, alone[0]) if len(alone) == 1 else None
    is_unknown = any(p.name not in names for p in required)
    return None if is_unknown and variadic(of_function) is None else lambda bound: _take(parameters, bound)


def _parameters(selector: Callable[..., object]) -> list[Parameter] | None:
    """Return the parameters of *selector*; None if they are unknown, which counts as one parameter."""
    if isinstance(selector, _OF_ONE):
        return None
    try:
        return [*signature_of(selector).parameters.values()]
    except Misconfigured:
        return None


def _take_first(of_function: Signature, parameter: Parameter | None = None) -> _Taker | None:
    """Return a function that takes the first argument, after a method's object, as *parameter*."""
    parameters = [p for p in of_function.parameters.values() if not is_self(p.name)]
    if not parameters or parameters[0].kind in _VARIADIC:
        return None
    first = parameters[0].name
    if parameter is not None and parameter.kind is parameter.KEYWORD_ONLY:
        return lambda bound: ((), {parameter.name: bound.arguments[first]})
    return lambda bound: ((bound.arguments[first],), {})


def _take_all(selector: Callable[..., object], of_function: Signature) -> _Taker | None:
    """Return a function that takes all arguments as passed; None if *selector* doesn't accept them."""
    parameters = [p for p in of_function.parameters.values() if p.kind not in _VARIADIC]
    args = [object() for p in parameters if p.kind is not p.KEYWORD_ONLY]
    kwargs = {p.name: object() for p in parameters if p.kind is p.KEYWORD_ONLY}
    return (lambda bound: (bound.args, bound.kwargs)) if accepts(selector, *args, **kwargs) else None


def _take(parameters: list[Parameter], bound: BoundArguments) -> Taken:
    """Return the arguments that *parameters* name. Raises `KeyMissing` if one was not passed."""
    arguments = arguments_by_name(bound)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            names = {p.name for p in parameters}
            kwargs |= {name: value for name, value in arguments.items() if name not in names}
        elif parameter.name not in arguments:
            if parameter.default is parameter.empty:
                raise KeyMissing(f"the call has no argument {parameter.name}: pass it with every call")
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            args.append(arguments[parameter.name])
        else:
            kwargs[parameter.name] = arguments[parameter.name]
    return tuple(args), kwargs
