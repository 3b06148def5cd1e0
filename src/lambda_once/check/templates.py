"""Reads SAM and CloudFormation templates: from a file to a `Deployment`, without AWS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lambda_once.check.deployment import CannotCheck, Deployment


def read(path: Path, parameters: Mapping[str, str]) -> Deployment:
    """
    Return the deployment that the template at *path* describes.

    *parameters* are values of its parameters, beside their defaults. Raises `CannotCheck` for a file that
    cannot be read or translated.
    """
    del parameters
    raise CannotCheck(f"{path}: not implemented")
