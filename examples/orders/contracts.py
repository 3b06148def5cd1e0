"""
Keeps contracts: documents that are too large for one item, invoked directly.

No token: a contract is written as parts of a new version that nobody reads before it is whole, and a caller
who has read one says which version his own replaces. Written again after a lost answer, it is a conflict, and
the caller reads that his own is there.

    {"action": "write", "contractId": "C-7", "contract": {…}, "expectedVersion": "01JD3V…" or null}
    {"action": "read", "contractId": "C-7"}
    {"action": "delete", "contractId": "C-7"}
"""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambda_once.patterns.documents import ABSENT, Documents

logger = Logger()
metrics = Metrics()
CONTRACTS = Documents(os.environ.get("CONTRACTS_TABLE", "contracts"), metrics=metrics, logger=logger)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Write, read or delete one contract."""
    contract_id = event["contractId"]
    match event["action"]:
        case "write":
            return _write(contract_id, event["contract"], event["expectedVersion"])
        case "read":
            return _read(contract_id)
        case "delete":
            CONTRACTS.delete(contract_id)
            return {"contractId": contract_id}
        case other:
            raise ValueError(f"action is {other!r}: it is write, read or delete")


def _write(contract_id: str, contract: dict[str, Any], expected: str | None) -> dict[str, Any]:
    version = CONTRACTS.write(
        contract_id, contract, expected_version=ABSENT if expected is None else expected
    )
    logger.info("contract.written", extra={"contract": contract_id, "version": version})
    return {"contractId": contract_id, "version": version}


def _read(contract_id: str) -> dict[str, Any]:
    found = CONTRACTS.read(contract_id, consistent=True)
    if found is None:
        return {"contractId": contract_id, "version": None}
    return {"contractId": contract_id, "version": found.version, "contract": found.value}
