"""
Finds, fetches or makes the container image that `sam local` runs functions in.

``python -m tests.e2e.image`` does it ahead of the tests, and says what is missing where it cannot.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHITECTURE = "arm64" if platform.machine().lower() in {"arm64", "aarch64"} else "x86_64"
RUNTIME = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""That of this interpreter: `sam build` needs the runtime's Python on the PATH, and this one is there."""
IMAGE = f"public.ecr.aws/lambda/python:{RUNTIME.removeprefix('python')}-{ARCHITECTURE}"
"""The name under which the SAM CLI looks for it."""
SCRIPT_VARIABLE = "LAMBDA_BASE_IMAGE_SCRIPT"
SCRIPT = "../shared/tools/lambda-base-image.sh"
"""Makes a stand-in where no image can be pulled, and starts a Docker engine; relative to the repository."""
PATIENCE_SECONDS = 600.0
"""How long a pull or the script may take; the image is some 200 MB."""


class ImageAbsent(Exception):
    """Functions have nothing to run in. The message says what to install."""


def provide() -> None:
    """
    Have IMAGE on this machine's Docker engine: found there, pulled, or made by the script, in this order.

    Raises `ImageAbsent` where none of the three works.
    """
    if _docker("image", "inspect", IMAGE) or _docker("pull", "--quiet", IMAGE):
        return
    made = _made_by_the_script()
    if not _docker("image", "inspect", IMAGE):
        raise ImageAbsent(
            f"there is no image {IMAGE}, and it could not be pulled. Install Docker "
            f"(https://docs.docker.com/get-started/get-docker/), start it, and try `docker pull {IMAGE}`; "
            f"or name a script that makes the image in {SCRIPT_VARIABLE}.{made}"
        )


def _docker(*arguments: str) -> bool:
    """Tell whether that command of Docker worked; it does not where there is no Docker."""
    try:
        done = subprocess.run(
            ["docker", *arguments], capture_output=True, timeout=PATIENCE_SECONDS, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _made_by_the_script() -> str:
    """Run the script where there is one, and return what is to be said of it: nothing if it worked."""
    script = (ROOT / os.environ.get(SCRIPT_VARIABLE, SCRIPT)).resolve()
    if not script.is_file():
        return ""
    done = subprocess.run(
        [script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return "" if done.returncode == 0 else f"\n{script.name} failed: {done.stdout.strip()[-2000:]}"


if __name__ == "__main__":
    try:
        provide()
    except ImageAbsent as absent:
        raise SystemExit(str(absent)) from None
