"""
Imports a handler module and invokes it once: `python -m benchmarks.cold.interpreter MODULE`.

Reads the event off its input, imports MODULE (INIT), and invokes the handler. The last line has milliseconds
of INIT, of its processor time, both of the invocation, the peak memory in megabytes, and whether botocore was
loaded. Lambda's own runtime has loaded `json`; beside it nothing is imported before INIT.
"""

import importlib
import json
import sys
import time


class Context:
    """Lambda's context of an invocation."""

    function_name = "orders"
    function_version = "$LATEST"
    memory_limit_in_mb = 256
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:orders"
    aws_request_id = "5a1e7c0f-0000-4000-8000-5a1e7c0f5a1e"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def peak_memory() -> float:
    """Return the peak memory of this process in MB. Not ru_maxrss on Linux: it has the parent's as well."""
    from pathlib import Path
    from resource import RUSAGE_SELF, getrusage

    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) / 2**10 for line in status.open() if line.startswith("VmHWM"))
    return getrusage(RUSAGE_SELF).ru_maxrss / 2**20


event = json.load(sys.stdin)
clocks = [(time.perf_counter(), time.process_time())]
handler = importlib.import_module(sys.argv[1]).handler
clocks.append((time.perf_counter(), time.process_time()))
handler(event, Context())
clocks.append((time.perf_counter(), time.process_time()))
figures = [
    (after - before) * 1000
    for start, end in ((0, 1), (1, 2))
    for before, after in zip(clocks[start], clocks[end], strict=True)
]
print(json.dumps([*figures, peak_memory(), "botocore.session" in sys.modules]))
