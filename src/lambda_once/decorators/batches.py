"""`once.sqs`, `once.sns` and `once.mq`: handlers of batches of records."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from lambda_once.core.codec import BUILDING, JSON, invalid_fields
from lambda_once.core.signatures import is_async
from lambda_once.decorators.handlers import handler_like, with_context
from lambda_once.decorators.identify import Identifier
from lambda_once.decorators.names import name_of
from lambda_once.decorators.runtime import Runtime
from lambda_once.decorators.validation import check_of_one, check_takes_record
from lambda_once.engine.batch import Batch, Job, Left
from lambda_once.engine.invocation import Call, Invocation, Receiver, Redelivery
from lambda_once.engine.waiting import run_coroutine
from lambda_once.errors import GiveUp, KeyMissing, Misconfigured, RetryLater
from lambda_once.observability.events import Event
from lambda_once.sources.records import SQS, EventRecord, RecordId, RecordSource, failures
from lambda_once.sources.unit import Malformed, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lambda_once.settings import Settings


class BadRecord(KeyMissing):
    """The record cannot be processed. The rest of its batch can."""


class Records:
    """The records of one decorated function: reads, identifies and runs them."""

    def __init__(
        self,
        source: RecordSource,
        runtime: Runtime,
        function: Callable[..., Any],
        settings: Settings,
        redelivery: Redelivery = Redelivery.ANY,
    ) -> None:
        check_takes_record(source.decorator, function, settings.model)
        check_of_one(settings, "the record" if settings.model is None else "the model")
        source.load()
        self.source = source
        self.runtime = runtime
        self.identifier = Identifier(runtime, settings, JSON, name_of(function), receiver=Receiver.NOBODY)
        self._function = with_context(function)
        self.is_async = is_async(function)
        self._settings = settings
        self._redelivery = redelivery
        if settings.model is not None:
            pydantic_of_models()

    @property
    def name(self) -> str:
        return self.identifier.name

    def run(self, event: Any, context: Any) -> list[tuple[EventRecord, Job]]:
        """Run the function for each record of *event*; return the records with their outcomes."""
        with self.runtime.invocation(context) as invocation:
            records = self.source.records(event)
            jobs = self.jobs(records, invocation, [record.group for record in records])
            self.work(jobs, context)
        return [*zip(records, jobs, strict=True)]

    def work(
        self, jobs: list[Job], context: Any, on_give_up: Callable[[Job, GiveUp], object] | None = None
    ) -> None:
        """Run the function for each of *jobs* once, as `Batch` does."""
        jobs, is_async = [*dict.fromkeys(jobs)], self.is_async
        batch = Batch(self.runtime.engine, self._function, context, on_give_up)
        if not is_async:
            batch.run(jobs)
            return
        try:
            run_coroutine(batch.run_async(jobs, self._settings.concurrency))
        except Left as left:
            raise left.error from None

    def validated(self, unit: Unit) -> Unit:
        """
        Return *unit* with the argument that the function gets: the record, or its payload as ``model=``.

        Raises `BadRecord` if the payload does not fit the model; it names the fields, never their content.
        """
        model = self._settings.model
        if model is None:
            return unit
        adapter, invalid = self._adapter
        try:
            return unit._replace(argument=adapter.validate_python(unit.payload))
        except invalid as error:
            name = getattr(model, "__name__", None) or error.title
            wrong = invalid_fields(error, "the payload")
            if isinstance(unit.payload, str):
                wrong = f"{self.source.payload} is not a JSON object"
            raise BadRecord(f"the payload is not a valid {name}: {wrong}; fix the producer") from None

    @cached_property
    def _adapter(self) -> tuple[Any, Any]:
        adapter, invalid = pydantic_of_models()
        model = self._settings.model
        if isinstance(model, adapter):
            return model, invalid
        with BUILDING:
            return adapter(model), invalid

    def jobs(
        self, records: list[EventRecord], invocation: Invocation, sequences: Sequence[str | None]
    ) -> list[Job]:
        """
        Return the job of each of *records*: equal ones share one, bad ones fail by themselves.

        *sequences*: the sequence that the failure of each record stops; None if it stops none.
        """
        jobs: list[Job] = []
        known: dict[tuple[str, str | None], Job] = {}
        tokens: set[str] = set()
        for record, sequence in zip(records, sequences, strict=True):
            try:
                call, argument = self._call(record.unit, invocation)
            except Exception as error:  # noqa: BLE001  (a key or model of the user's may raise anything)
                bad = Job(record.id, record.group, sequence)
                bad.bad = error
                jobs.append(bad)
                continue
            job = Job(record.id, record.group, sequence, call, argument)
            job.follows = call.token in tokens
            tokens.add(call.token)
            twin = known.setdefault((call.token, call.fingerprint), job)
            if twin is not job and not self.runtime.disabled:
                twin.fold(record.group, sequence)
                job = twin
            jobs.append(job)
        return jobs

    def _call(self, unit: Unit | Malformed, invocation: Invocation) -> tuple[Call, Any]:
        """Return the call of a record, and what the function gets. Logs what it raises."""
        try:
            if isinstance(unit, Malformed):
                raise BadRecord(unit.message)  # noqa: TRY301  (logged like every other bad record)
            unit = self.validated(unit)
            call = self.identifier.call(
                unit,
                invocation,
                arguments=(unit.argument,),
                seen=unit.envelope,
                redelivery=self._redelivery,
            )
        except Exception as error:
            delivery = unit.id if isinstance(unit, Malformed) else unit.delivery
            self._report(error, invocation, delivery)
            raise
        return call, unit.argument

    def _report(self, error: Exception, invocation: Invocation, delivery: str | None) -> None:
        """Report, in one line, that a record has no token because of *error*; count what it is besides."""
        event, besides = Event.BAD_RECORD, None
        if isinstance(error, Misconfigured):
            event, besides = Event.MISCONFIGURED, Event.BAD_RECORD
        elif isinstance(error, KeyMissing) and not isinstance(error, BadRecord):
            besides = Event.KEY_MISSING
        if besides is not None:
            self.runtime.reporter.count(besides, invocation.tally)
        self.identifier.report(event, error, invocation, delivery)


def pydantic_of_models() -> tuple[Any, Any]:
    """Return pydantic's TypeAdapter and ValidationError. Raises `Misconfigured` without pydantic."""
    try:
        from pydantic import TypeAdapter, ValidationError
    except ImportError as error:
        raise Misconfigured("model= needs pydantic: install lambda-once[pydantic]") from error
    return TypeAdapter, ValidationError


def sqs_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that runs *function* for each record, and returns the failed ones."""
    records = Records(SQS, runtime, function, settings)

    def handle(event: Any, context: Any) -> Any:
        worked = records.run(event, context)
        if isinstance(event, list):
            failed = [(record.id, job.error) for record, job in worked if job.error is not None]
            return pipe_response(failed)
        return _response(worked, raises=settings.raise_on_entire_batch_failure)

    return handler_like(function, handle, records)


def _response(worked: list[tuple[EventRecord, Job]], *, raises: bool) -> object:
    failed = [record for record, job in worked if job.error is not None]
    errors = [error for error in dict.fromkeys(job.error for _, job in worked) if error is not None]
    is_retried = all(isinstance(error, RetryLater) for error in errors)
    if raises and failed and len(failed) == len(worked) and not is_retried:
        # The package first: threads that begin with its module `exceptions` could deadlock.
        from aws_lambda_powertools.utilities import batch

        # As Powertools does: the Errors metric alarms, and a mapping without ReportBatchItemFailures, which
        # would take the response for success and delete every message, is safe.
        children: list[Any] = [(type(error), error, error.__traceback__) for error in errors]
        raise batch.exceptions.BatchProcessingError(
            f"all {len(failed)} records of the batch failed", children
        )
    return failures([record.id for record in failed])


def pipe_response(
    unfinished: Sequence[tuple[RecordId, BaseException | None]],
) -> dict[str, list[dict[str, RecordId]]]:
    """
    Return the response for EventBridge Pipes to retry *unfinished*: record ids, each with its error or None.

    Raises the first error, for all to be retried, if one has no id.
    """
    if all(id_ is not None for id_, _ in unfinished):
        return failures(id_ for id_, _ in unfinished)
    raise next(error for _, error in unfinished if error is not None)


def message_handler(
    source: RecordSource, runtime: Runtime, function: Callable[..., Any], settings: Settings
) -> Callable[..., Any]:
    """
    Return the Lambda handler that runs *function* for each record of *source*.

    It raises the first error after all records were tried: all are delivered again.
    """
    redelivery = Redelivery.SAME_REQUEST if source.asynchronous else Redelivery.ANY
    records = Records(source, runtime, function, settings, redelivery)

    def handle(event: Any, context: Any) -> None:
        for _, job in records.run(event, context):
            if job.error is not None:
                raise job.error

    return handler_like(function, handle, records)
