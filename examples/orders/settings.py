"""What the stack's parameters set."""

from __future__ import annotations

import os
from datetime import timedelta

KEEP = timedelta(days=int(os.environ.get("ORDERS_KEEP_DAYS", "14")))
"""How long the outcome of a message is replayed: never less than a queue may retain the message."""
