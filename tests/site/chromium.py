"""
Finds a Chromium on this machine, or installs Debian's.

``python -m tests.site.chromium`` does it ahead of the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
"""Root has no sandbox in a container; the rest keeps the browser from asking its maker for news."""


def found() -> str | None:
    """Return the path of the first of NAMES that there is."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def provide() -> str:
    """Return the path of a Chromium, installed by apt-get if there is none yet."""
    if (path := found()) is None and shutil.which("apt-get"):
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False, env=quiet)
        install = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", "chromium"]
        subprocess.run(install, check=False, env=quiet, stdout=subprocess.DEVNULL)
        path = found()
    if path is None:
        raise SystemExit(f"make site-test needs a browser: install one of {', '.join(NAMES)}.")
    return path


if __name__ == "__main__":
    provide()
