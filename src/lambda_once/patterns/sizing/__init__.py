"""How often an item of a ledger can be written, for how long it remembers, how many shards that takes."""

from lambda_once.patterns.sizing.planning import OTHER_BYTES, Limit, Plan, Quantity, plan

__all__ = ["OTHER_BYTES", "Limit", "Plan", "Quantity", "plan"]
