"""
Write the software bill of materials of the layers in dist/: a CycloneDX file, equal for equal inputs.

``make sbom``. It lists the wheel of dist/ and the packages of src/requirements.txt as they are installed:
versions, licences, and which needs which. The SHA-256 of their files are in src/requirements.txt.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from release.dist import DIST, ROOT, epoch, wheel_of, write_sums
from release.layer import LOCK


def differing(bill: Mapping[str, Any], lock: str) -> list[str]:
    """Return the packages of *bill* and *lock* that the other does not have, at the same version."""
    locked = {
        f"pkg:pypi/{pin.replace('==', '@')}" for pin in re.findall(r"^[\w.-]+==[\w.]+", lock, re.MULTILINE)
    }
    return sorted(locked ^ {component["purl"] for component in bill["components"]})


def _written(wheel: Path, target: Path) -> bytes:
    """Return the bill of an environment that has *wheel* and the packages of the lock, and nothing else."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["SOURCE_DATE_EPOCH"] = epoch()
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "bin", "python")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--require-hashes", "--requirement", str(LOCK)], check=True)
        # By name and not by path: the path of a wheel would get into the bill.
        subprocess.run([*pip, "--no-index", "--find-links", str(wheel.parent), "lambda-once"], check=True)
        options = (
            "--pyproject",
            str(ROOT / "pyproject.toml"),
            "--mc-type",
            "library",
            "--output-reproducible",
        )
        cyclonedx = [sys.executable, "-m", "cyclonedx_py", "environment", *options, "-o", str(target)]
        subprocess.run([*cyclonedx, str(python)], check=True, env=environment)
    return target.read_bytes()


def main() -> None:
    """Write the bill twice; raise SystemExit where the two differ, or it has other packages than the lock."""
    wheel = wheel_of("lambda_once")
    target = DIST / "lambda-once.cdx.json"
    if _written(wheel, target) != _written(wheel, target):
        raise SystemExit(f"{target.name} differs between two runs")
    if wrong := differing(json.loads(target.read_bytes()), LOCK.read_text(encoding="utf-8")):
        raise SystemExit(f"{target.name} and {LOCK.name} differ: {', '.join(wrong)}")
    write_sums(DIST)
    print(f"{target.name}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
