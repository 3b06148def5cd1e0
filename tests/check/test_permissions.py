"""The policy for whoever checks an account: enough, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lambda_once_tools.check.account import LAYERS
from lambda_once_tools.check.deployment import IN_CODE, CannotCheck
from lambda_once_tools.check.policies import UNSEEN
from tests.docs.pages import ROOT
from tests.kit import iam

from .deployed import FUNCTION, Account, account, arn


def shown() -> list[iam.Statement]:
    """Return the statements of the policy."""
    policy = ROOT / "examples" / "infrastructure" / "check-policy.json"
    statements: list[iam.Statement] = json.loads(policy.read_text(encoding="utf-8"))["Statement"]
    return statements


@pytest.fixture(name="shop")
def _shop() -> Iterator[Account]:
    with account() as shop:
        shop.whole()
        shop.watchdog(rule="DISABLED", schedule="ENABLED")
        shop.queue("bare")
        shop.mapping(arn("sqs", "bare"))
        yield shop


def open_ends(shop: Account, statements: list[Any]) -> int:
    """Return how much is not checked under *statements* that would be under others."""
    shop.may(*statements)
    try:
        return len(set(shop.read(FUNCTION, "watchdog").not_checked) - {UNSEEN, IN_CODE, LAYERS})
    except CannotCheck:
        return 1


def test_the_policy_suffices(shop: Account) -> None:
    """Nothing is denied of a function with three queues, a table, both kinds of policies and a watchdog."""
    assert open_ends(shop, shown()) == 0


def test_the_policy_names_the_calls_that_are_made(shop: Account) -> None:
    """No action more, and each reads."""
    shop.read(FUNCTION, "watchdog")
    assert set(shop.calls) == iam.actions(shown())
    assert {action.partition(":")[2][:3] for action in shop.calls} <= {"Get", "Lis", "Des"}


@pytest.mark.parametrize("action", sorted(iam.actions(shown())))
def test_each_action_of_the_policy_is_needed(shop: Account, action: str) -> None:
    """Without it, something is not checked."""
    assert open_ends(shop, iam.without(shown(), action)) > 0
