"""
Meets a handler module for the first time: `python -m benchmarks.cold.interpreter MODULE <event`.

Imports it, invokes it once, and writes when it began and when it was done, in seconds of the machine's
monotonic clock. Lambda's own runtime has `json` loaded by then, so this has, too.
"""

import importlib
import json
import sys
import time


class Context:
    """What Lambda tells a handler."""

    function_name = "orders"
    function_version = "$LATEST"
    memory_limit_in_mb = 256
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:orders"
    aws_request_id = "5a1e7c0f-0000-4000-8000-5a1e7c0f5a1e"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


event = json.load(sys.stdin)
started = time.perf_counter()
importlib.import_module(sys.argv[1]).handler(event, Context())
print(json.dumps([started, time.perf_counter()]))
