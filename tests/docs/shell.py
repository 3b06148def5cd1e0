"""Plays the shell blocks of a page in bash, with another `aws` in place of the AWS CLI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from tests.docs.pages import ROOT
from tests.kit.tables import CREDENTIALS, REGION

_BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    .+\n)+", re.MULTILINE)


def shell_blocks(text: str) -> list[str]:
    """Return the shell blocks of *text*, those of a list's steps, too."""
    return [dedent(block) for block in _BLOCK.findall(text)]


def indented_blocks(text: str) -> list[str]:
    """Return the blocks of a module's docstring, with a continued command in one line."""
    return [dedent(block).replace("\\\n   ", "") for block in _INDENTED.findall(text)]


def play(block: str, folder: Path, aws: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """
    Play *block* in *folder*, in a shell that goes on after a failure, as an operator's does.

    *aws* is the shell script that stands for the AWS CLI. The arguments of each call are a line of the file
    ``calls``.
    """
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name, script in {
        "aws": f'printf "%s\\n" "$*" >> "{folder}/calls"\n{aws}',
        "python": f'exec "{sys.executable}" "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    environment = (
        os.environ
        | CREDENTIALS
        | {"AWS_DEFAULT_REGION": REGION, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tools' / 'src'}"}
    )
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}"} | variables
    return subprocess.run(
        ["bash", "-s"],
        input=block,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def calls(folder: Path) -> list[str]:
    """Return what `aws` was called with, in order; forget it."""
    file = folder / "calls"
    found = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return found
