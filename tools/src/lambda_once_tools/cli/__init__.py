"""
The command ``lambda-once``: list, show, find, explain and resolve tokens.

Data goes to standard output, messages to standard error. Exit code: 0 success; 1 a token is overdue or held,
none was found, a write was refused, or two events differ; 2 bad input, no table, or the answer is unknown.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from lambda_once_tools.cli.app import app

    app(prog_name="lambda-once")
