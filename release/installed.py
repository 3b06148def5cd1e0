"""
A plugin for pytest: the tests import the lambda_once that is installed, and no other.

``pytest -p release.installed``, which `make dist` runs. Each process checks it, those of pytest-xdist too.
"""

import sys
from pathlib import Path

import pytest

import lambda_once

FOUND = Path(lambda_once.__file__).resolve()


def pytest_configure() -> None:
    """Refuse to run where lambda_once is not in this environment."""
    if not FOUND.is_relative_to(Path(sys.prefix).resolve()):
        raise pytest.UsageError(f"lambda_once is {FOUND}, and not the one installed in {sys.prefix}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print where lambda_once was imported from."""
    terminalreporter.write_line(f"lambda_once is {FOUND}")
