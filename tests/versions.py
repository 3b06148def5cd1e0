"""
Run the fast tests on the Pythons of this machine, and on the oldest packages that pyproject.toml allows.

``make test-versions``. Each environment is a folder in .venv-versions, made when its packages change: one
with the lower bound of each dependency, on the oldest Python, and one with the newest packages for each newer
Python. ``make test`` runs the oldest Python with packages between the two: those of the lock. A Python that
pyproject.toml promises and this machine lacks comes from Debian's archive, if root runs this; one that is
missing all the same is named, and under CI a failure. pytest's own summary is printed for each; the exit code
is 1 where one failed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests import debian

ROOT = Path(__file__).parents[1]
PROJECTS = (ROOT, ROOT / "tools")
"""The wheel of a function, and that of operators."""
ENVIRONMENTS = ROOT / ".venv-versions"
FAST = (
    "tests/core",
    "tests/dynamodb",
    "tests/sources",
    "tests/decorators",
    "tests/observability",
    "tests/engine",
    "tests/testing",
)
"""Folders whose tests need no engine, no command line and no page."""
TOOLS = ("awslambdaric", "hypothesis", "moto", "pytest", "pytest-xdist", "pyyaml")
"""What these tests need beside the package, at the newest version, out of the group dev or demo."""
SDKS = (
    "aws-durable-execution-sdk-python",
    "aws-durable-execution-sdk-python-testing",
    "aws-lambda-powertools",
    "opentelemetry-instrumentation-botocore",
    "opentelemetry-sdk",
)
"""Beside the newest packages only, for they require newer ones than the oldest; the group dev has them."""
OF_SDKS = (
    "tests/decorators/test_durable_*.py",
    "tests/decorators/test_execution*.py",
    "tests/decorators/test_kafka_schema.py",
    "tests/decorators/test_spans.py",
    "tests/dynamodb/test_traces.py",
)
"""The files whose tests need them."""
OLDEST = (3, 11)

_PROMISED = re.compile(r"Programming Language :: Python :: 3\.(\d+)")
_BOUND = re.compile(r"^(?P<name>[\w.-]+)(?P<extras>\[[\w,-]+\])?>=(?P<least>[\w.]+)")
_VERSION = "import sys; print(*sys.version_info[:2], sys.executable)"


class Environment(NamedTuple):
    """A Python and what is installed for it."""

    name: str
    python: str
    packages: tuple[str, ...]


def minors(classifiers: Iterable[str]) -> list[int]:
    """Return the minor versions of Python 3 among *classifiers*."""
    return [int(found[1]) for each in classifiers if (found := _PROMISED.fullmatch(each))]


def at_least(requirement: str) -> str:
    """Return *requirement* pinned to its lower bound. Raises ValueError where it has none."""
    found = _BOUND.match(requirement)
    if found is None:
        raise ValueError(f"{requirement}: give it a lower bound")
    return f"{found['name']}{found['extras'] or ''}=={found['least']}"


def required(*projects: Mapping[str, Any]) -> list[str]:
    """Return what *projects* require but each other, with all extras and Powertools' parser, each once."""
    listed = [each for project in projects for each in project["project"]["dependencies"]]
    extras = [project["project"].get("optional-dependencies", {}) for project in projects]
    listed += [each for extra in extras for of in extra.values() for each in of]
    listed = [each for each in listed if not each.startswith("lambda-once")]
    parser = [
        each.replace("powertools>=", "powertools[parser]>=") for each in listed if "powertools>=" in each
    ]
    return [*dict.fromkeys([*listed, *parser])]


def tools(project: Mapping[str, Any], names: Iterable[str] = TOOLS) -> list[str]:
    """Return the requirements of *names*, as *project* has them in the group dev, else in demo."""
    groups = project["dependency-groups"]
    listed = [each for group in ("dev", "demo") for each in groups[group] if isinstance(each, str)]
    found: dict[str, str] = {}
    for each in listed:
        found.setdefault(re.split(r"[\[>=]", each)[0], each)
    return [found[name] for name in names]


def environments(
    projects: Sequence[Mapping[str, Any]], pythons: Mapping[tuple[int, int], str]
) -> list[Environment]:
    """Return what is to be tested of *projects* with *pythons*, the executables by their versions."""
    project, needed, beside = projects[0], required(*projects), tools(projects[0])
    oldest = min(pythons)
    newer = sorted(version for version in pythons if version != oldest) or [oldest]
    return [
        Environment("oldest", pythons[oldest], (*map(at_least, needed), *beside)),
        *(
            Environment(f"{major}.{minor}", pythons[major, minor], (*needed, *beside, *tools(project, SDKS)))
            for major, minor in newer
        ),
    ]


def pythons(candidates: Iterable[str]) -> dict[tuple[int, int], str]:
    """Return the first executable of each version, 3.11 or newer, among *candidates*."""
    found: dict[tuple[int, int], str] = {}
    for candidate in candidates:
        answer = _asked(candidate)
        if answer is not None:
            major, minor, executable = answer.split(maxsplit=2)
            if (int(major), int(minor)) >= OLDEST:
                found.setdefault((int(major), int(minor)), executable.strip())
    return found


def _asked(candidate: str) -> str | None:
    try:
        return subprocess.run([candidate, "-c", _VERSION], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # not there, or a shim of pyenv for a Python that is not
        return None


def candidates() -> list[str]:
    """Return the Pythons on the path, and those of pyenv."""
    named = [shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], 30)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    return [*filter(None, named), *map(str, sorted(pyenv.glob("3.*/bin/python"))), sys.executable]


def install(environment: Environment) -> Path:
    """Return the Python of *environment*, which is made where it is not there as it should be."""
    folder = ENVIRONMENTS / environment.name
    python, stamp = folder / "bin" / "python", folder / ".packages"
    wanted = hashlib.sha256("\n".join((environment.python, *environment.packages)).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="ascii") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([environment.python, "-m", "venv", "--without-pip", str(folder)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--prefer-binary"]
        subprocess.run([*pip, *environment.packages], check=True)
        for folder in PROJECTS:
            subprocess.run([*pip, "--no-deps", "--editable", str(folder)], check=True)
        stamp.write_text(wanted, encoding="ascii")
    return python


def run_tests(environment: Environment, python: Path) -> bool:
    """Run the fast tests with *python*, and return whether they passed."""
    cache = f"cache_dir=.cache/pytest-{environment.name}"
    on_all_cores = ("--numprocesses=auto", "--dist=worksteal")
    left_out = [f"--ignore-glob={each}" for each in OF_SDKS if environment.name == "oldest"]
    chosen = ("-m", "not engine and not e2e", *on_all_cores, *left_out, *FAST)
    command = [str(python), "-m", "pytest", "-q", "-o", cache, *chosen]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main() -> int:
    """Test every environment, and return 1 where one failed."""
    projects = [tomllib.loads((each / "pyproject.toml").read_text(encoding="utf-8")) for each in PROJECTS]
    here = pythons(candidates())
    missing = [minor for minor in minors(projects[0]["project"]["classifiers"]) if (3, minor) not in here]
    from_debian = {(3, minor): program for minor in missing if (program := debian.python(minor))}
    absent = ", ".join(f"3.{minor}" for minor in missing if (3, minor) not in from_debian)
    if absent:
        print(f"Not tested, for it is not here: Python {absent}. Install it, or debootstrap, as root.")  # noqa: T201
    found = environments(projects, here | from_debian)
    with ThreadPoolExecutor(len(found)) as pool:  # most of an installation is waiting for the registry
        installed = [*pool.map(install, found)]
    passed = {}
    for environment, python in zip(found, installed, strict=True):
        print(f"== {environment.name}: {environment.python}", flush=True)  # noqa: T201
        passed[environment.name] = run_tests(environment, python)
    print(*(f"{name}: {'passed' if ok else 'FAILED'}" for name, ok in passed.items()), sep="\n")  # noqa: T201
    return 0 if all(passed.values()) and not (absent and os.environ.get("CI")) else 1


if __name__ == "__main__":
    sys.exit(main())
