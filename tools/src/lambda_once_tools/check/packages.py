"""Whether the code of functions and layers has lambda_once, as far as it is on this machine."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Final

from lambda_once_tools.check.deployment import UNKNOWN, Layer, Unknown
from lambda_once_tools.check.documents import SERVERLESS
from lambda_once_tools.check.stacks import Resource, mapping, path_of

_NAMED: Final = re.compile(r"lambda[-_.]once", re.IGNORECASE)
_ELSEWHERE: Final = re.compile(r"^\s*(-r|-e|-c|\.|/|https?:|file:|git\+|.*\.(whl|zip|tar\.gz))", re.MULTILINE)
_BUILDS: Final = ("Makefile", "pyproject.toml", "Pipfile", "uv.lock", "poetry.lock", "setup.py")


def layer_of(resource: Resource) -> Layer:
    raw = resource.stack.raw["Resources"].get(resource.id, {})
    properties = mapping(raw.get("Properties"))
    given = properties.get("ContentUri", properties.get("Content"))
    folder = path_of(resource, given)
    built = "BuildMethod" in mapping(raw.get("Metadata"))
    if isinstance(folder, Unknown):
        return Layer(resource.name, UNKNOWN)
    return Layer(resource.name, has_package(folder, layer=True, built=built))


def package_of(function: Resource) -> bool | Unknown:
    raw = function.stack.raw["Resources"].get(function.id, {})
    properties = mapping(raw.get("Properties"))
    shared = mapping(mapping(function.stack.raw.get("Globals")).get("Function"))
    if "Image" in (properties.get("PackageType"), shared.get("PackageType")):
        return UNKNOWN
    if "InlineCode" in properties or "ZipFile" in mapping(properties.get("Code")):
        return False
    serverless = str(raw.get("Type")).startswith(SERVERLESS)
    given = properties.get("CodeUri", shared.get("CodeUri")) if serverless else properties.get("Code")
    folder = path_of(function, given)
    return UNKNOWN if isinstance(folder, Unknown) else has_package(folder, layer=False, built=serverless)


def has_package(place: Path, *, layer: bool, built: bool) -> bool | Unknown:
    """
    Return whether code from the folder or archive *place* can import lambda_once.

    A *layer* has it under ``python``. What ``sam build`` will install counts if it is *built* by that.
    """
    if place.is_file():
        return _in_archive(place, layer=layer)
    roots = [place / "python", *place.glob("python/lib/python3.*/site-packages")] if layer else []
    if built or not layer:
        roots.append(place)
    if any((root / "lambda_once" / "__init__.py").is_file() for root in roots):
        return True
    if not built:
        return False
    if any((place / name).exists() for name in _BUILDS):
        return UNKNOWN
    try:
        wanted = (place / "requirements.txt").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return True if _NAMED.search(wanted) else UNKNOWN if _ELSEWHERE.search(wanted) else False


def _in_archive(file: Path, *, layer: bool) -> bool | Unknown:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return UNKNOWN
    folder = r"python/(lib/python3\.\d+/site-packages/)?" if layer else ""
    return any(re.fullmatch(f"{folder}lambda_once/__init__.py", each) for each in names)
