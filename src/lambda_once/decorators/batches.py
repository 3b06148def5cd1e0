"""`once.sqs` and `once.sns`: handlers of single records."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from lambda_once.core.codec import codec_for
from lambda_once.decorators.handlers import handler_like, marked, with_context
from lambda_once.decorators.identify import Identifier, name_of
from lambda_once.decorators.subjects import BadRecord, Subjects
from lambda_once.decorators.validation import check_of_one
from lambda_once.engine import loops
from lambda_once.engine.batch import Batch, Job, Left
from lambda_once.errors import OnceError, RetryLater
from lambda_once.observability.details import Details, Happening
from lambda_once.sources.messages import Message, failures, sns_messages, sqs_messages
from lambda_once.sources.unit import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.decorators.options import Settings
    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.call import Call
    from lambda_once.engine.invocation import Invocation
    from lambda_once.sources.unit import Unit


class Records:
    """
    Makes calls of records and works them, for one *decorator*, whose events *messages* reads.

    *retried*: the source invokes asynchronously, and Lambda itself tries again under the same request id.
    """

    def __init__(
        self,
        decorator: str,
        messages: Callable[[Any], list[Message]],
        runtime: Runtime,
        function: Callable[..., Any],
        settings: Settings,
        *,
        retried: bool = False,
    ) -> None:
        self.decorator = decorator
        self.messages = messages
        self.runtime = runtime
        self._concurrency = settings.concurrency
        self._function = with_context(function)
        check_of_one(settings, "the record" if settings.model is None else "the model")
        self._retried = retried
        self.subjects = Subjects(settings.model)
        self.identifier = Identifier(runtime, settings, settings.plan(codec_for(Any)), name_of(function))

    def call(self, unit: Unit | Malformed, invocation: Invocation) -> tuple[Call, Any]:
        """Return the call of a record and what the function gets. Has logged what it raises."""
        try:
            unit = self.subjects.of(_workable(unit))
            call = self.identifier.call(
                unit,
                invocation,
                arguments=(unit.argument,),
                redelivered=unit.redelivered,
                waits_for_own=self._retried,
            )
        except Exception as error:
            details = Details(
                Happening.BAD_RECORD,
                name=self.identifier.name,
                delivery=unit.id if isinstance(unit, Malformed) else unit.delivery,
                error=type(error).__name__,
                reason=str(error) if isinstance(error, OnceError) else "model, key or scope raised",
            )
            self.runtime.reporter.report(details, invocation.tally)
            raise
        return call, unit.argument

    def work_on(self, jobs: list[Job], context: Any) -> None:
        """Work all *jobs*, plainly even where the function is a coroutine function."""
        batch = Batch(self.runtime.engine, self._function, context)
        if inspect.iscoroutinefunction(self._function):
            try:
                loops.run(batch.work_async(jobs, self._concurrency))
            except Left as left:
                raise left.error from None
        else:
            batch.work(jobs)


def _workable(unit: Unit | Malformed) -> Unit:
    if isinstance(unit, Malformed):
        raise BadRecord(unit.message)
    return unit


def sqs_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that works each record once, and returns what goes back to the queue."""
    records = Records("once.sqs", sqs_messages, runtime, function, settings)

    def handle(event: Any, context: Any) -> Any:
        with runtime.invocation(context) as invocation:
            jobs = jobs_of(records.messages(event), records, invocation)
            records.work_on(jobs, context)
            return _answer(jobs, raises=settings.raise_on_entire_batch_failure)

    return marked(handler_like(function, handle), records)


def jobs_of(messages: list[Message], records: Records, invocation: Invocation) -> list[Job]:
    """Return the work of *messages*, in their order: equal records folded, bad ones failed by themselves."""
    jobs: list[Job] = []
    known: dict[tuple[str, str | None], Job] = {}
    tokens: set[str] = set()
    for message in messages:
        job = Job(message.id, message.group)
        try:
            job.call, job.subject = records.call(message.unit, invocation)
        except Exception as error:  # noqa: BLE001  (a key or model of the user's may raise anything)
            job.error = error
        else:
            job.follows = job.call.token in tokens
            tokens.add(job.call.token)
            twin = known.setdefault((job.call.token, job.call.fingerprint), job)
            if twin is not job and not records.runtime.disabled:
                twin.fold(message.id, message.group)
                continue
        jobs.append(job)
    return jobs


def _answer(jobs: list[Job], *, raises: bool) -> dict[str, list[dict[str, str]]]:
    failed = [job for job in jobs if job.error is not None]
    errors = [job.error for job in failed if job.error is not None]
    if raises and failed and len(failed) == len(jobs) and not all(isinstance(e, RetryLater) for e in errors):
        from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

        # As Powertools does: the Errors metric rings, and a mapping without ReportBatchItemFailures, which
        # would take the answer for success and delete every message, is safe.
        children: list[Any] = [(type(error), error, error.__traceback__) for error in errors]
        raise BatchProcessingError(f"all {len(failed)} records of the batch failed", children)
    return failures(id_ for job in failed for id_ in job.ids)


def sns_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """
    Return the Lambda handler that works each record once.

    It raises where one failed, once all were tried, so that Lambda delivers the event again.
    """
    records = Records("once.sns", sns_messages, runtime, function, settings, retried=True)

    def handle(event: Any, context: Any) -> None:
        with runtime.invocation(context) as invocation:
            jobs = jobs_of(records.messages(event), records, invocation)
            records.work_on(jobs, context)
        for job in jobs:
            if job.error is not None:
                raise job.error

    return marked(handler_like(function, handle), records)
