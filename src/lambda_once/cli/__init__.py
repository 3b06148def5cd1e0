"""
The command ``lambda-once``: what is stuck, what became of one order, and how it is settled.

Data goes to standard output, the story to standard error, the verdict into the exit code: 0 all is well,
1 not so (something is stuck, two events are not the same, a write was refused), 2 bad input or no table.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; click and rich come by the extra ``lambda-once[cli]``."""
    try:
        from lambda_once.cli.app import app
    except ImportError as error:
        if error.name not in ("click", "rich", "botocore", "boto3"):
            raise
        sys.stderr.write(f"lambda-once: {error.name} is missing: install lambda-once with its extra cli\n")
        sys.exit(2)
    app(prog_name="lambda-once")
