"""
Pack the wheel in dist/ and its requirements into layers, one a Python and architecture, with their SHA-256.

``make layer``. The requirements are those of src/requirements.txt, by hash, as wheels for Amazon Linux.
Equal wheels give an equal archive (from one version of zlib): names are sorted, times and modes are fixed.
Each layer is used once, by a Python of this machine or of Debian, for another architecture under emulation;
those for which there is none are named.
"""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from release import debian
from release.dist import DIST, FIRST_USE, ROOT, wheel_of, write_sums
from tests.versions import candidates, minors, pythons

LOCK = ROOT / "src" / "requirements.txt"
LIMIT = 250_000_000
"""Bytes of all layers of a function, unpacked (Lambda quotas)."""


class Architecture(NamedTuple):
    """What pip, file names and ELF headers call a processor."""

    tag: str
    machine: str
    elf: int


ARCHITECTURES = {
    "x86_64": Architecture("manylinux2014_x86_64", "x86_64", 62),
    "arm64": Architecture("manylinux2014_aarch64", "aarch64", 183),
}
"""By Lambda's names. Amazon Linux 2 and 2023 both run what is built for manylinux2014."""
OF_RUNTIME = ("boto3", "botocore", "s3transfer")
"""Lambda's Python runtime has them; a layer would shadow them."""
NEEDED = ("lambda_once", "aws_lambda_powertools", "jmespath", "pydantic", "pydantic_core", "ulid")
"""The packages that a layer has."""


def pack(wheels: Iterable[Path], target: Path) -> None:
    """
    Write the files of *wheels* under python/ into the archive *target*.

    Scripts are left out. Raises ValueError where two wheels have the same file, or one has other files for
    elsewhere (`.data`).
    """
    contents: dict[str, bytes] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith("/") or ".data/scripts/" in name:
                    continue
                if name in contents or ".data/" in name:
                    raise ValueError(f"{wheel.name}: {name} cannot be put into a layer")
                contents[name] = archive.read(name)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as layer:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(f"python/{name}", (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            layer.writestr(entry, contents[name], zipfile.ZIP_DEFLATED)


def strangers(contents: Mapping[str, bytes], minor: int, architecture: str) -> list[str]:
    """Return what is wrong with a layer of *contents*, by name, for Python 3.*minor* and *architecture*."""
    machine, elf = ARCHITECTURES[architecture].machine, ARCHITECTURES[architecture].elf
    outside = [f"{name} is not under python/" for name in contents if not name.startswith("python/")]
    packages = {name.split("/")[1] for name in contents if name.startswith("python/") and "/" in name[7:]}
    found = [f"{package} is the runtime's" for package in OF_RUNTIME if package in packages]
    missing = [f"{package} is missing" for package in NEEDED if package not in packages]
    wrong = [
        f"{name} is not for Python 3.{minor} on {architecture}"
        for name, data in contents.items()
        if name.endswith(".so")
        and (
            not name.endswith((f".cpython-3{minor}-{machine}-linux-gnu.so", ".abi3.so"))
            or struct.unpack_from("<H", data, 18) != (elf,)
        )
    ]
    return [*outside, *found, *missing, *wrong]


def _download(minor: int, tag: str, into: Path) -> None:
    """Download the wheels of `LOCK` for Python 3.*minor* and the platform *tag*."""
    target = ("--platform", tag, "--implementation", "cp", "--python-version", f"3.{minor}")
    only_locked = ("--only-binary=:all:", "--no-deps", "--require-hashes", "--requirement", str(LOCK))
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(into))
    subprocess.run([*pip, *target, *only_locked], check=True)


def _check(layer: Path, minor: int, architecture: str) -> int:
    """Return how many bytes *layer* has unpacked. Raises SystemExit where it is wrong or too large."""
    with zipfile.ZipFile(layer) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    size = sum(map(len, contents.values()))
    wrong = strangers(contents, minor, architecture)
    if size > LIMIT:
        wrong.append(f"{size:,} bytes unpacked; Lambda takes {LIMIT:,}")
    if wrong:
        raise SystemExit("\n".join(f"{layer.name}: {each}" for each in wrong))
    return size


def _use(layer: Path, python: Sequence[str] | None) -> None:
    """Run `FIRST_USE` by *python*, with nothing but *layer* and the standard library."""
    if python is None:
        print(f"{layer.name}: not used, for want of a Python", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(layer, folder)
        subprocess.run([*python, "-I", "-S", str(FIRST_USE), f"{folder}/python"], check=True)


def _python(minor: int, architecture: str, here: Mapping[tuple[int, int], str]) -> Sequence[str] | None:
    """Return the command of a Python 3.*minor* for *architecture*, or None."""
    if architecture != platform.machine().replace("aarch64", "arm64"):
        return debian.emulated(minor) if architecture == "arm64" else None
    python = here.get((3, minor)) or debian.native(minor)
    return python and [python]


def main() -> None:
    """Write the layers into dist/; raise where one cannot be made, is too large, or does not work."""
    wheel = wheel_of("lambda_once")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    here = pythons(candidates())
    for old in DIST.glob("*.zip"):
        old.unlink()
    for minor in minors(project["classifiers"]):
        for architecture, names in ARCHITECTURES.items():
            layer = DIST / f"lambda-once-{project['version']}-python3.{minor}-{architecture}.zip"
            with tempfile.TemporaryDirectory() as folder:
                _download(minor, names.tag, Path(folder))
                pack([wheel, *Path(folder).iterdir()], layer)
            size = _check(layer, minor, architecture)
            print(f"{layer.name}: {layer.stat().st_size:,} bytes, {size:,} unpacked", flush=True)
            _use(layer, _python(minor, architecture, here))
    write_sums(DIST)
    print((DIST / "SHA256SUMS").read_text(encoding="ascii"), end="")


if __name__ == "__main__":
    main()
