"""What the code of functions and layers brings, as far as it is on this machine."""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from lambda_once.sources.source import Source
from lambda_once_tools.check.deployment import NOTHING_KNOWN, UNKNOWN, Layer, Package, Unknown
from lambda_once_tools.check.intrinsics import mapping
from lambda_once_tools.check.stacks import Resource, path_of


class Module(NamedTuple):
    """A package of Python: its folder, and the lines of requirements.txt that install it, or do not."""

    name: str
    required: re.Pattern[str]
    """A requirement that brings it."""
    others: re.Pattern[str]
    """A requirement that brings no such package; of any other it is not known."""


ONCE: Final = Module("lambda_once", re.compile(r".*lambda[-_.]once", re.IGNORECASE), re.compile(r"[\w.-]+"))
PYDANTIC: Final = Module(
    "pydantic",
    re.compile(
        r"pydantic\b|lambda[-_.]once\s*\[[^]]*\bpydantic\b|aws[-_.]lambda[-_.]powertools\s*\[[^]]*\b(parser|all)\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"(lambda[-_.]once|aws[-_.]lambda[-_.]powertools|aws[-_.]xray[-_.]sdk|awscrt|boto3|botocore)(?![\w-])",
        re.IGNORECASE,
    ),
)

_TAKE_MODELS: Final = {str(source.decorator).removeprefix("once.") for source in Source if source.fields}
"""The decorators of records."""

_ELSEWHERE: Final = re.compile(r"(-r|-e|-c|\.|/|https?:|file:|git\+|.*\.(whl|zip|tar\.gz))")
_BUILDS: Final = ("Makefile", "pyproject.toml", "Pipfile", "uv.lock", "poetry.lock", "setup.py")
_LARGEST: Final = 1_000_000
"""Bytes of a file of code that is read."""
_MOST_FILES: Final = 500


def layer_of(resource: Resource) -> Layer:
    folder = path_of(resource, resource.written.get("ContentUri", resource.written.get("Content")))
    if isinstance(folder, Unknown):
        return Layer(resource.name, NOTHING_KNOWN)
    built = "BuildMethod" in mapping(resource.raw.get("Metadata"))
    return Layer(resource.name, _brought(folder, layer=True, built=built))


def package_of(function: Resource) -> Package:
    properties, shared = function.written, function.shared
    if "Image" in (properties.get("PackageType"), shared.get("PackageType")):
        return NOTHING_KNOWN
    if "InlineCode" in properties or "ZipFile" in mapping(properties.get("Code")):
        return Package(has_once=False, has_pydantic=False)
    built = function.is_serverless
    given = properties.get("CodeUri", shared.get("CodeUri")) if built else properties.get("Code")
    folder = path_of(function, given)
    if isinstance(folder, Unknown):
        return NOTHING_KNOWN
    return _brought(folder, layer=False, built=built)._replace(models=tuple(sorted(_models(folder))))


def _brought(place: Path, *, layer: bool, built: bool) -> Package:
    return Package(has(place, ONCE, layer=layer, built=built), has(place, PYDANTIC, layer=layer, built=built))


def has(place: Path, module: Module, *, layer: bool, built: bool) -> bool | Unknown:
    """
    Return whether code from the folder or archive *place* can import *module*.

    A *layer* has it under ``python``. What ``sam build`` will install counts if it is *built* by that.
    """
    if place.is_file():
        return _in_archive(place, module, layer=layer)
    roots = [place / "python", *place.glob("python/lib/python3.*/site-packages")] if layer else []
    if built or not layer:
        roots.append(place)
    if any((root / module.name / "__init__.py").is_file() for root in roots):
        return True
    if not built:
        return False
    if any((place / name).exists() for name in _BUILDS):
        return UNKNOWN
    try:
        lines = (place / "requirements.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return _required([line.split("#")[0].strip() for line in lines], module)


def _required(lines: Iterable[str], module: Module) -> bool | Unknown:
    wanted = [line for line in lines if line]
    if any(module.required.match(line) for line in wanted):
        return True
    if any(_ELSEWHERE.match(line) or not module.others.match(line) for line in wanted):
        return UNKNOWN
    return False


def _in_archive(file: Path, module: Module, *, layer: bool) -> bool | Unknown:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return UNKNOWN
    folder = r"python/(lib/python3\.\d+/site-packages/)?" if layer else ""
    return any(re.fullmatch(f"{folder}{module.name}/__init__.py", each) for each in names)


# -- options in code


def _models(folder: Path) -> Iterator[str]:
    """Yield the files of *folder* that give a decorator ``model=``, but those of installed packages."""
    if not folder.is_dir():
        return
    files = (each for each in sorted(folder.rglob("*.py")) if not _is_installed(each.relative_to(folder)))
    for _, file in zip(range(_MOST_FILES), files, strict=False):
        try:
            if file.stat().st_size <= _LARGEST and _has_model(file.read_text(encoding="utf-8")):
                yield file.relative_to(folder).as_posix()
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):  # as ast.parse says
            continue  # no file that Python reads


def _is_installed(path: Path) -> bool:
    return bool({ONCE.name, PYDANTIC.name, "site-packages", "aws_lambda_powertools"} & {*path.parts})


def _has_model(text: str) -> bool:
    if ONCE.name not in text or "model" not in text:
        return False
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr in _TAKE_MODELS
        and any(given.arg == "model" and not isinstance(given.value, ast.Constant) for given in each.keywords)
        for each in ast.walk(ast.parse(text))
    )
