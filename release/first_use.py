"""
Protect a function with what is installed, or with the folder given, and deliver twice: it runs once.

Run by `python -I`, so that nothing of this repository can be imported by accident.
"""

import sys
from pathlib import Path

home = Path(sys.argv[1] if len(sys.argv) > 1 else sys.prefix).resolve()
if len(sys.argv) > 1:
    sys.path.insert(0, str(home))

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord  # noqa: E402  (the path comes first)

import lambda_once  # noqa: E402
from lambda_once.testing import MemoryStore, lambda_context, sqs_event  # noqa: E402

assert Path(lambda_once.__file__).resolve().is_relative_to(home), f"{lambda_once.__file__} is not in {home}"

charged: list[object] = []
once = lambda_once.Once(store=MemoryStore(), service="first-use")


@once.sqs(key="orderId")
def handler(record: SQSRecord) -> None:
    """Charge the order in *record*."""
    charged.append(record.json_body["orderId"])


event = sqs_event({"orderId": 5})
for _ in range(2):
    assert handler(event, lambda_context()) == {"batchItemFailures": []}
assert charged == [5], f"the handler ran {len(charged)} times"
print(f"lambda-once works on Python {sys.version_info.major}.{sys.version_info.minor}, from {home.name}")
