"""``python -m lambda_once.cli``, where the command is not on the path."""

from lambda_once.cli import main

main()
