"""A process that works a batch, and forks one that does: ``python -m tests.dynamodb.forked CLIENT``."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Once
from lambda_once.testing import create_table, lambda_context, sqs_event
from tests.kit import tables
from tests.kit.played import played
from tests.kit.strict.mounted import mounted

SECONDS = 30
RECORDS = 60
"""More than one thread of requests has: 25 statements go in a call."""


def main(client: str) -> None:
    """Print what became of the records of parent and child."""
    with mounted(), played() as endpoint:
        create_table(tables.shared(), "tokens")
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = endpoint
        once = Once(service="shop", table="tokens", client=client or None)
        worked: Counter[str] = Counter()

        def count(record: SQSRecord) -> None:
            worked[record.json_body["id"]] += 1

        handler: Any = once.sqs(key="id")(count)

        def work(name: str, first: int) -> None:
            worked.clear()
            event = sqs_event(*({"id": f"{n}"} for n in range(first, first + RECORDS)))
            failed = len(handler(event, lambda_context())["batchItemFailures"])
            print(name, "worked", len(worked), "failed", failed, flush=True)  # noqa: T201

        work("parent", 0)
        child = os.fork()
        if not child:
            signal.alarm(SECONDS)  # one that hangs would outlive the test
            work("child, new", 1_000)
            work("child, duplicates", 0)
            os._exit(0)
        os.waitpid(child, 0)
        work("parent again", 2_000)


if __name__ == "__main__":
    main(sys.argv[1])
