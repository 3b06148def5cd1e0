"""A protected function found by its address, ``module:function``, as Lambda finds a handler."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lambda_once.cli.once_found import explain_of
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from types import ModuleType

    from lambda_once.cli.once_found import Explain


def explain_at(address: str) -> Explain:
    """
    Return what explains events to the function at *address*; the working directory is searched first.

    Raises `Misconfigured` for an address that is none, a module that cannot be imported, and a function that
    is not there or not protected.
    """
    name, _, path = address.partition(":")
    if not name or not path:
        raise Misconfigured(
            f"{address!r} is no address of a function: give module:function, such as app.orders:handler"
        )
    module = _imported(name)
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise Misconfigured(f"the module {name} has no {path}; {_there(module)}")
    explain = explain_of(found, module)
    if explain is None:
        raise Misconfigured(f"{address} is not protected by lambda-once itself; {_there(module)}")
    return explain


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise Misconfigured(f"there is no module {name} in {here} or on the path of Python") from None
        raise Misconfigured(f"the module {name} needs {error.name}, which is not installed here") from None
    except Exception as error:
        raise Misconfigured(
            f"the module {name} cannot be imported here: {type(error).__name__}: {error}; "
            "set what its environment has in Lambda"
        ) from error


def _there(module: ModuleType) -> str:
    """Say which functions of *module* can be explained."""
    names = [
        name for name, each in vars(module).items() if callable(each) and explain_of(each, module) is not None
    ]
    return f"protected are {', '.join(names)}" if names else "nothing in that module is protected"
