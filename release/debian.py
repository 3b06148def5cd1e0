"""
Pythons out of Debian's archive, for those that this machine does not have: `native` and `emulated`.

Each is a tree that debootstrap unpacks into .cache/debian. Root runs its programs: by chroot in a mount
namespace of its own, or, those for arm64, under qemu.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[1]
TREES = ROOT / ".cache" / "debian"
SUITES: Final = {11: "bookworm", 13: "trixie", 14: "sid"}
"""The suite that has Python 3.*minor*; none has 3.12 (Debian's lists of packages, November 2026)."""
SHARED: Final = ("/proc", "/dev", tempfile.gettempdir(), "/etc/ssl/certs", str(ROOT))
"""Folders that programs in a tree share with this machine."""
EMULATOR: Final = "qemu-aarch64-static"

_INSIDE = """
for shared in {shared}; do mkdir -p {tree}"$shared" && mount --rbind "$shared" {tree}"$shared" || exit 1; done
exec chroot {tree} /usr/bin/env -C "$PWD" "$@"
"""


def usable(*programs: str) -> bool:
    """Return whether root is here, with debootstrap and *programs*, which apt-get installs where it can."""
    wanted = ("debootstrap", *programs)
    if os.geteuid():
        return False
    if not all(map(shutil.which, wanted)) and shutil.which("apt-get"):
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        packages = ("debootstrap", *("qemu-user-static" for each in programs if each == EMULATOR))
        subprocess.run(["apt-get", "update", "-qq"], check=False, env=quiet)
        install = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", *packages]
        subprocess.run(install, check=False, env=quiet, stdout=subprocess.DEVNULL)
    return all(map(shutil.which, wanted))


def native(minor: int) -> str | None:
    """Return a program that is Python 3.*minor*, or None where no tree can be made here."""
    if minor not in SUITES or not usable("unshare"):
        return None
    tree, python = TREES / SUITES[minor], f"python3.{minor}"
    program = tree / python
    if not program.exists():
        shutil.rmtree(tree, ignore_errors=True)
        _bootstrap(SUITES[minor], tree / "root", f"{python},{python}-venv")
        _script(tree / "enter", entering(tree / "root"))
        _script(program, f'#!/bin/sh\nexec {shlex.quote(str(tree / "enter"))} {python} "$@"\n')
    return str(program)


def entering(tree: Path) -> str:
    """Return a script that runs a command in *tree*, in the current folder, with what is `SHARED`."""
    shared = " ".join(map(shlex.quote, SHARED))
    inside = _INSIDE.format(tree=shlex.quote(str(tree)), shared=shared)
    return f'#!/bin/sh\nexec unshare --mount sh -c {shlex.quote(inside)} enter "$@"\n'


def environment(program: str, folder: Path) -> Path:
    """Make a virtual environment of *program* in *folder*, and return its Python."""
    subprocess.run([program, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    enter = Path(program).with_name("enter")
    if TREES in enter.parents:  # outside its tree, the environment's own link leads nowhere
        python.unlink()
        named = (folder / "bin" / Path(program).name).absolute()
        named.unlink(missing_ok=True)
        named.symlink_to(f"/usr/bin/{named.name}")
        _script(python, f'#!/bin/sh\nexec {shlex.quote(str(enter))} {shlex.quote(str(named))} "$@"\n')
    return python


def emulated(minor: int) -> tuple[str, ...] | None:
    """Return the command of a Python 3.*minor* for arm64 under emulation, or None where there is none."""
    if minor not in SUITES or not usable(EMULATOR):
        return None
    tree = TREES / f"{SUITES[minor]}-arm64"
    if not (tree / "unpacked").exists():
        shutil.rmtree(tree, ignore_errors=True)
        _bootstrap(SUITES[minor], tree, f"python3.{minor}", "--arch=arm64", "--foreign")
        for package in sorted((tree / "var/cache/apt/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", str(package), str(tree)], check=True)
        (tree / "unpacked").touch()
    return (EMULATOR, "-L", str(tree), str(tree / "usr" / "bin" / f"python3.{minor}"))


def _bootstrap(suite: str, into: Path, packages: str, *options: str) -> None:
    into.mkdir(parents=True)
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", *options, suite, str(into)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"debootstrap of {suite} failed:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}")


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
