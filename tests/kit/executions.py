"""Durable executions by the real SDK and its local runner: as many as one likes of one handler."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.exceptions import SuspendExecution
from aws_durable_execution_sdk_python.lambda_service import ErrorObject
from aws_durable_execution_sdk_python_testing import DurableFunctionTestRunner
from aws_durable_execution_sdk_python_testing.worker.checkpoint_tasks import CallableTask

from tests.kit.kills import Killed, Machine

PATIENCE = 60
"""Seconds of real time after which a test gives up; none waits for them."""


class Outcome(NamedTuple):
    """How an execution ended."""

    value: Any
    """None if it failed."""
    error: str | None
    """The class of its error."""
    message: str | None
    steps: list[str | None]
    """The names of its top-level operations, in order."""


class Executions:
    """Executions of one handler. Waits are skipped, and a failed invocation is retried at once."""

    def __init__(self, runner: DurableFunctionTestRunner) -> None:
        self._runner = runner
        self._runner._executor.RETRY_BACKOFF_SECONDS = 0
        self.callbacks: SimpleQueue[str] = SimpleQueue()
        """The ids of the callbacks that handlers wait for (`suspend`)."""
        self.returns: dict[str, threading.Event] = {}
        """By ARN: whether Lambda gets what the latest invocation returns."""
        self.checkpoints = 0
        """How many requests were sent to Lambda's checkpoint API."""
        self.machine = Machine()
        """What sends the checkpoints. A killed one returns no response; the next invocation has another."""
        self._count_checkpoints()
        self.zombies: list[threading.Event] = []

    def _count_checkpoints(self) -> None:
        client: Any = self._runner._service_client
        checkpoint = client.checkpoint

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.checkpoints += 1
            try:
                return self.machine.step(checkpoint, *args, **kwargs)
            except Killed as killed:
                raise ConnectionError("killed") from killed  # the SDK's thread takes no BaseException

        client.checkpoint = counted

    def suspend(self, context: DurableContext) -> Any:
        """Suspend the execution of *context* until `resume`; return at once when it runs again."""
        callback = context.create_callback(name="approve")
        try:
            return callback.result()
        except SuspendExecution:
            self.callbacks.put(callback.callback_id)
            raise

    def suspended(self) -> str:
        """Return the id of the callback that an execution waits for, once it does."""
        return self.callbacks.get(timeout=PATIENCE)

    def resume(self, callback: str) -> None:
        self._runner.send_callback_success(callback, b'"yes"')

    def start(self, name: str, event: Any = None) -> str:
        """Start an execution called *name*, and return its ARN."""
        return self._runner.run_async(json.dumps(event), execution_name=name, execution_timeout=PATIENCE)

    def give_up(self, arn: str) -> None:
        """Let the running invocation time out, as the runner does, and start the next: it is a zombie."""
        self.zombies.append(self.returns[arn])
        self.returns[arn].clear()
        executor = self._runner._executor
        now, error = executor._clock.now(), ErrorObject.from_message("timed out")
        timing_out = CallableTask(lambda: executor._retry_after_timeout(arn, error, now, now))
        self._runner._registry.submit(arn, timing_out).result(PATIENCE)

    def outcome(self, arn: str) -> Outcome:
        """Wait for the end of an execution."""
        result = self._runner.wait_for_result(arn, PATIENCE)
        value = None if result.result is None else json.loads(result.result)
        error = result.error
        kind, message = (None, None) if error is None else (error.type, error.message)
        return Outcome(value, kind, message, [each.name for each in result.operations])

    def run(self, name: str, event: Any = None) -> Outcome:
        """Start an execution called *name* and wait for its end."""
        return self.outcome(self.start(name, event))


Work = Callable[[Any, DurableContext], Any]


@contextmanager
def executions(work: Work, **options: Any) -> Iterator[Executions]:
    """Yield executions of *work*; *options* are those of the SDK's runner."""
    handler = durable_execution(work)

    def invoked(event: Any, context: Any) -> Any:
        """Fail the invocation whatever is raised, as Lambda does: the runner takes no BaseException."""
        returns = of.returns[event.durable_execution_arn] = threading.Event()
        returns.set()
        try:
            machine = of.machine = Machine() if of.machine.dead else of.machine
            return machine.response(handler(event, context))
        except Exception:
            raise
        except BaseException as killed:
            raise RuntimeError("the environment was killed") from killed
        finally:
            returns.wait(PATIENCE)

    runner = DurableFunctionTestRunner(invoked, poll_interval=0.01, **options)
    of = Executions(runner)
    try:
        yield of
    finally:
        for returns in of.zombies:
            returns.set()
        runner.close()  # type: ignore[no-untyped-call]
        runner._scheduler._loop.close()  # which the runner leaves open
