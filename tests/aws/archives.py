"""The zips that a run uploads: two layers, the sample's code, and the probes'."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from stat import S_IFREG
from tempfile import TemporaryDirectory
from typing import Final

from tests.aws.stacks import ROOT

CODE: Final = Path(__file__).with_name("code")
LOCK: Final = ROOT / "requirements" / "dev.txt"
CRT: Final = "awscrt=="


def built(settings: Mapping[str, str]) -> dict[str, bytes]:
    """
    Build all archives for the runtime and architecture in *settings*; return them by their keys.

    Raises CalledProcessError where pip or `release/layer` fails; they have said why.
    """
    runtime, architecture = settings["Runtime"], settings["Architecture"]
    wanted = os.environ | {"RUNTIME": runtime, "ARCHITECTURE": architecture}
    subprocess.run([ROOT / "release" / "layer"], check=True, env=wanted)
    with TemporaryDirectory() as folder:
        lock, target = Path(folder) / "crt.txt", Path(folder) / "crt"
        lock.write_text(_pin(LOCK.read_text(encoding="utf-8")), encoding="utf-8")
        version, machine = runtime.removeprefix("python"), architecture.replace("arm64", "aarch64")
        install = (
            f"-m pip install --quiet --no-deps --only-binary=:all: --require-hashes --requirement {lock}"
        )
        given = f"--implementation cp --python-version {version} --platform manylinux2014_{machine}"
        subprocess.run(
            [sys.executable, *install.split(), *given.split(), "--target", target / "python"], check=True
        )
        crt = _zipped(target)
    return {
        "layer.zip": (ROOT / "dist" / "layer.zip").read_bytes(),
        "crt.zip": crt,
        "sample.zip": _zipped(ROOT / "examples", "*.py"),
        "probes.zip": _zipped(CODE),
    }


def _pin(lock: str) -> str:
    """Return the entry of awscrt in *lock*, its hashes included."""
    lines = lock.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(CRT))
    end = next(number for number, line in enumerate(lines[begin:], begin) if not line.endswith("\\"))
    return "\n".join(lines[begin : end + 1]) + "\n"


def _zipped(folder: Path, pattern: str = "*") -> bytes:
    """
    Return the files below *folder* that match *pattern* as an archive, without bytecode and hidden folders.

    Everybody may read them: Lambda's user is another one, and an umask of 077 would keep it out.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for path in sorted(folder.rglob(pattern)):
            within = path.relative_to(folder)
            if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in within.parts):
                entry = zipfile.ZipInfo(within.as_posix())
                entry.external_attr = (S_IFREG | 0o644) << 16
                written.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return archive.getvalue()
