"""
Build sdists and wheels of the last commit, check them, and use the wheels on every Python there is.

``make dist``; ``make build`` leaves the use out. There are two projects: lambda-once, and
lambda-once-tools in tools/. All files are built twice, in folders, time zones and umasks of
their own, and fail unless they are equal byte by byte; one wheel is built from the sdist, the
other from the sources. dist/ gets them, with their SHA-256 in SHA256SUMS.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.versions import FAST, PROJECTS, SDKS, candidates, pythons, tools

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
ENVIRONMENTS = ROOT / ".venv-wheel"
FIRST_USE = ROOT / "release" / "first_use.py"
LIMITS = {"lambda_once": 436_000, "lambda_once_tools": 120_000}
"""
Bytes that each wheel may have: just above what it has.

Docstrings are in it, and they stay: editors, `help()` and the site read them.
"""
TRIED = ("tests/core", "tests/sources", "tests/testing")
"""Folders whose tests run against the installed wheel; on the newest Python, `FAST` instead."""


class Python(NamedTuple):
    """A Python that the wheel is used on, with the tests that run there and the SDKs that they need."""

    version: str
    executable: str
    tests: tuple[str, ...]
    sdks: tuple[str, ...]


def tried(pythons: Mapping[tuple[int, int], str]) -> list[Python]:
    """Return what is run on *pythons*, the executables by their versions: on the newest every fast test."""
    newest = max(pythons)
    return [
        Python(
            ".".join(map(str, version)),
            executable,
            FAST if version == newest else TRIED,
            SDKS if version == newest else (),
        )
        for version, executable in sorted(pythons.items())
    ]


def dead_links(metadata: str) -> list[str]:
    """Return the links and pictures of *metadata* that lead nowhere on a package index."""
    return re.findall(r"\]\((?!https?:)[^)]+\)|src(?:set)?=\"(?!https?:)[^\"]+\"", metadata)


def flaws(package: str, names: Iterable[str], size: int, metadata: str = "") -> list[str]:
    """Return what is wrong with a wheel of *package* that has the files *names* and *size* bytes."""
    listed = list(names)
    in_wheel = re.compile(rf"{package}/(.+\.py|py\.typed)$|{package}-[^/]+\.dist-info/")
    found = [
        f"{name} is not part of the package: see [tool.hatch.build.targets.wheel]"
        for name in listed
        if not in_wheel.match(name) or "/tests/" in name
    ]
    if f"{package}/py.typed" not in listed:
        found.append(f"{package}/py.typed is missing: type checkers would ignore the package")
    found += [
        f"METADATA has {link}, which leads nowhere: see requirements/readme.py"
        for link in dead_links(metadata)
    ]
    if size > LIMITS[package]:
        found.append(f"the wheel of {package} has {size:,} bytes; {LIMITS[package]:,} are allowed")
    return found


def unready(tag: str, version: str, changelog: str) -> list[str]:
    """Return what speaks against a release of *version* under the git tag *tag*."""
    found = (
        [] if tag == f"v{version}" else [f"the tag {tag} is not v{version}: see version in pyproject.toml"]
    )
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no section ## [{version}] with a date")
    return found


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in *folder*, by name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS into *folder*, as `sha256sum --check` reads it."""
    lines = [f"{digest}  {name}\n" for name, digest in digests(folder).items() if name != "SHA256SUMS"]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="ascii")


def epoch() -> str:
    """Return SOURCE_DATE_EPOCH, else the time of the last commit."""
    return os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct").decode().strip()


def export(folder: Path) -> Path:
    """Write the files of the last commit into *folder*."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "HEAD"))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def wheel_of(package: str, folder: Path = DIST) -> Path:
    """Return the wheel of *package* in *folder*. Raises SystemExit where there is not exactly one."""
    wheels = [*folder.glob(f"{package}-*.whl")]
    if len(wheels) != 1:
        raise SystemExit(f"{folder.name}/ has {len(wheels)} wheels of {package}: run make dist first")
    return wheels[0]


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def _run(*command: str | Path, cwd: Path = ROOT, umask: int = -1, **environment: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*map(str, command)], cwd=cwd, check=True, umask=umask, env=inherited | environment)


def _build(source: Path, into: Path, *options: str, umask: int, zone: str) -> None:
    build: tuple[str | Path, ...] = (
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        into,
        *options,
        ".",
    )
    for project in PROJECTS:
        where = source / project.relative_to(ROOT)
        _run(*build, cwd=where, umask=umask, TZ=zone, SOURCE_DATE_EPOCH=epoch())


def _built_twice(scratch: Path) -> Path:
    first, second = scratch / "first", scratch / "second"
    _build(export(scratch / "a"), first, umask=0o022, zone="UTC")
    _build(export(scratch / "longer-name"), second, "--sdist", "--wheel", umask=0o077, zone="Asia/Tokyo")
    if digests(first) != digests(second):
        raise SystemExit(f"Two builds of one commit differ: {digests(first)}, {digests(second)}")
    return first


def _check(built: Path) -> tuple[Path, ...]:
    wheels = tuple(wheel_of(package, built) for package in LIMITS)
    wrong = []
    for package, wheel in zip(LIMITS, wheels, strict=True):
        with zipfile.ZipFile(wheel) as archive:
            (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            told = archive.read(metadata).decode()
            wrong += flaws(package, archive.namelist(), wheel.stat().st_size, told)
    if wrong:
        raise SystemExit("\n".join(wrong))
    _run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir())
    _run(sys.executable, "-m", "check_wheel_contents", *wheels)
    return wheels


def _try(wheels: tuple[Path, ...], project: Mapping[str, Any], python: Python, beside: Path) -> None:
    """Use *wheels* in a new environment: first a function's, then all extras, by the tests of *python*."""
    wheel, tools_wheel = wheels
    folder = ENVIRONMENTS / python.version
    shutil.rmtree(folder, ignore_errors=True)
    _run(python.executable, "-m", "venv", folder)
    new = folder / "bin" / "python"
    _run(new, "-m", "pip", "install", "--quiet", wheel)
    _run(new, "-I", FIRST_USE)
    extras = ",".join(project["project"]["optional-dependencies"])
    beside_wheel = ("aws-lambda-powertools[parser]", *tools(project), *tools(project, python.sdks))
    _run(new, "-m", "pip", "install", "--quiet", f"{wheel}[{extras}]", tools_wheel, *beside_wheel)
    _run(new, "-m", "pip", "check")
    _run(folder / "bin" / "lambda-once", "--version", cwd=beside)
    only_installed = ("-p", "release.installed", "-o", "pythonpath=.", "-o", f"cache_dir={folder}/cache")
    chosen = ("-m", "not engine and not e2e and not site", *python.tests)
    on_all_cores = ("--numprocesses=auto", "--dist=worksteal")
    _run(new, "-m", "pytest", "-q", *only_installed, *chosen, *on_all_cores, cwd=beside)


def _try_all(wheels: tuple[Path, ...], project: Mapping[str, Any], beside: Path) -> None:
    """Use *wheels* on every Python, in the exported tree *beside*, which loses its sources."""
    for folder in ("src", "tools"):
        shutil.rmtree(beside / folder)
    for python in tried(pythons(candidates())):
        print(f"== {wheels[0].name} on {python.executable}", flush=True)
        _try(wheels, project, python, beside)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make dist")
    parser.add_argument("--untried", action="store_true", help="do not use the wheel")
    parser.add_argument("--tag", help="the release's git tag; the version and the change log must agree")
    return parser.parse_args()


def main() -> None:
    """Build, check and try; raise SystemExit or CalledProcessError where something is wrong."""
    asked = _arguments()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if asked.tag and (wrong := unready(asked.tag, project["project"]["version"], changelog)):
        raise SystemExit("\n".join(wrong))
    if _git("status", "--porcelain"):
        print("There are changes that are not committed; the last commit is built, without them.", flush=True)
    with tempfile.TemporaryDirectory() as name:
        built = _built_twice(Path(name))
        wheels = _check(built)
        if not asked.untried:
            _try_all(wheels, project, Path(name, "a"))
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(built, DIST)
    write_sums(DIST)
    print((DIST / "SHA256SUMS").read_text(encoding="ascii"), end="")


if __name__ == "__main__":
    main()
