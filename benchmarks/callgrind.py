"""Counts the instructions of a Python process from one point to another, by valgrind's callgrind."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SOURCE: Final = Path(__file__).with_suffix(".c")
PACKAGES: Final = ("valgrind", "gcc", "libc6-dev")
"""Debian's. The first brings the header, too; the others compile a dozen lines of C."""
_HEADER: Final = Path("/usr/include/valgrind/callgrind.h")
_LIBRARY: Final = "BENCHMARKS_CALLGRIND"
_DUMPED: Final = re.compile(
    r"^desc: Trigger: Client Request: (?P<name>[^\n]*)$.*^totals: (?P<count>\d+)$", re.MULTILINE | re.DOTALL
)


def is_there() -> bool:
    """Whether this machine has valgrind, its header and a C compiler."""
    return bool(shutil.which("valgrind") and shutil.which("cc")) and _HEADER.exists()


def provide() -> None:
    """Install what is missing with apt-get. Raises SystemExit, naming it, if it is still missing."""
    if not is_there() and shutil.which("apt-get"):
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        # Of a machine of CI alone: nobody else is made root unasked.
        root = ["sudo", "-n"] if os.environ.get("CI") and os.geteuid() and shutil.which("sudo") else []
        subprocess.run([*root, "apt-get", "update", "-qq"], check=False, env=quiet)  # noqa: S603
        install = [*root, "apt-get", "install", "-qq", "--yes", "--no-install-recommends", *PACKAGES]
        subprocess.run(install, check=False, env=quiet, stdout=subprocess.DEVNULL)  # noqa: S603
    if not is_there():
        raise SystemExit(
            f"make bench-counts needs valgrind and a C compiler: apt-get install {' '.join(PACKAGES)}"
        )


def totals(arguments: Sequence[str], given: str) -> dict[str, int]:
    """
    Run this interpreter with *arguments* and the input *given*; return the count of each `counted` block.

    Hashes have a fixed seed. Raises RuntimeError where the process fails.
    """
    with TemporaryDirectory() as folder:
        library = Path(folder, "callgrind.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SOURCE], check=True)  # noqa: S603, S607
        done = subprocess.run(  # noqa: S603  (this interpreter, modules of ours)
            [
                *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
                *(f"--callgrind-out-file={folder}/counts", sys.executable, *arguments),
            ],
            cwd=SOURCE.parents[1],
            env=os.environ | {"PYTHONHASHSEED": "0", _LIBRARY: str(library)},
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)} failed under valgrind:\n{done.stderr}")
        texts = [path.read_text(encoding="utf-8") for path in Path(folder).glob("counts.*")]
    return read(texts)


def read(dumps: Iterable[str]) -> dict[str, int]:
    """Return the instructions of each block that was dumped, by its name."""
    return {found["name"]: int(found["count"]) for found in map(_DUMPED.search, dumps) if found}


@contextmanager
def counted(name: str) -> Iterator[None]:
    """Count the instructions of all threads in the block, as *name*; in a process that `totals` runs."""
    library = ctypes.CDLL(os.environ[_LIBRARY])
    begin, end = library.begin, library.end
    begin()
    yield
    end(name.encode())
