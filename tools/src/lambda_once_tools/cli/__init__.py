"""
The command ``lambda-once``: list, show, find, explain and resolve tokens.

Data goes to standard output, messages to standard error. Exit code: 0 success; 1 a token is overdue or held,
none was found, a write was refused, or two events differ; 2 bad input, no table, or the answer is unknown.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the extra ``lambda-once[cli]`` installs click and rich."""
    try:
        from lambda_once_tools.cli.app import app
    except ImportError as error:
        if error.name not in ("click", "rich", "botocore", "boto3"):
            raise
        sys.stderr.write(f"lambda-once: {error.name} is missing; install lambda-once with the extra cli\n")
        sys.exit(2)
    app(prog_name="lambda-once")
