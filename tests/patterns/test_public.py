"""`from lambda_once.patterns import Ledger`: each name is loaded when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lambda_once import dynamodb, patterns
from lambda_once.patterns import (
    Documents,
    Ledger,
    Publisher,
    Ratchet,
    Unique,
    documents,
    fifo,
    ledger,
    plan,
    ratchet,
    sizing,
    transaction_results,
    transactions,
    unique,
)


def test_names_are_those_of_their_modules() -> None:
    """The same objects, by either way."""
    assert (Ledger, Ratchet, Unique) == (ledger.Ledger, ratchet.Ratchet, unique.Unique)
    assert (Documents, Publisher, plan) == (documents.Documents, fifo.Publisher, sizing.plan)
    assert transaction_results is transactions.transaction_results
    assert all(getattr(patterns, name) for name in patterns.__all__)


def test_an_unknown_name_is_none() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'Ledgers'"):
        _ = patterns.Ledgers
    with pytest.raises(AttributeError, match="no attribute 'Senders'"):
        _ = dynamodb.Senders


def _printed(code: str) -> str:
    """Return what *code* prints in a new interpreter."""
    command = [sys.executable, "-c", code]
    paths = {"PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=paths).stdout.strip()


def test_a_pattern_loads_no_other() -> None:
    """A function that has a ledger pays for a ledger, and botocore is loaded at first use."""
    code = (
        "import sys\n"
        "from lambda_once.patterns import Ledger\n"
        "print([each for each in ('ratchet', 'unique', 'documents', 'fifo', 'sizing')"
        " if f'lambda_once.patterns.{each}' in sys.modules], 'botocore' in sys.modules)"
    )
    assert _printed(code) == "[] False"


def test_without_metrics_and_logger_powertools_is_not_loaded() -> None:
    """Neither by the modules, nor by a pattern that was given neither object."""
    code = (
        "import sys\n"
        "from lambda_once.patterns import Documents, Ledger, Publisher, Ratchet, Unique\n"
        "Unique('t', key='pk')\n"
        "print([each for each in sys.modules if each.startswith('aws_lambda_powertools')])"
    )
    assert _printed(code) == "[]"
