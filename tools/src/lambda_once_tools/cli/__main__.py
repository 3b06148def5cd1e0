"""``python -m lambda_once_tools.cli``, where the command is not on the path."""

from lambda_once_tools.cli import main

main()
