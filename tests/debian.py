"""A Python out of Debian's archive, for one that this machine does not have."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

TREES = Path(__file__).parents[1] / ".cache" / "debian"
SUITES: Final = {11: "bookworm", 13: "trixie", 14: "sid"}
"""The suite that has Python 3.*minor*; none has 3.12 (Debian's lists of packages, November 2026)."""
PROGRAMS: Final = ("debootstrap", "patchelf")


def python(minor: int) -> str | None:
    """
    Return a program that is Python 3.*minor*, or None where it cannot be had: that takes root, and apt-get.

    debootstrap unpacks the suite's packages into .cache/debian, and the program is made to load its libraries
    from there. It has no pip: ask another Python's, by ``--python``.
    """
    if minor not in SUITES or os.geteuid() or not (all(map(shutil.which, PROGRAMS)) or _installed()):
        return None
    tree = TREES / SUITES[minor]
    program, unpacked = tree / "usr" / "bin" / f"python3.{minor}", tree / "unpacked"
    if not unpacked.exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        options = ("--foreign", "--variant=minbase", f"--include={program.name}")
        _run("debootstrap", *options, SUITES[minor], tree)
        for package in sorted((tree / "var/cache/apt/archives").glob("*.deb")):
            _run("dpkg-deb", "--extract", package, tree)
        (loader,), (libraries,) = tree.glob("usr/lib*/ld-linux-*.so.*"), tree.glob("usr/lib/*-linux-gnu")
        _run("patchelf", "--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries, program)
        unpacked.touch()
    return str(program)


def _installed() -> bool:
    """Install `PROGRAMS`, and return whether they are there."""
    if shutil.which("apt-get"):
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update", "-qq"], ["install", "-qq", "--yes", "--no-install-recommends", *PROGRAMS]):
            subprocess.run(["apt-get", *command], check=False, env=quiet, stdout=subprocess.DEVNULL)
    return all(map(shutil.which, PROGRAMS))


def _run(*command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}")
