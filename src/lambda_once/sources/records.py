"""
What all sources of records share: how an event is read record by record, and how its batch is run.

Each source has its own file (sqs, sns, mq; kinesis, dynamodb_stream and kafka with `streams`), which makes a
`RecordSource` of two functions. *locate* finds a record's id and group, which count even if nothing else can
be read; *read_content* reads its `Identity`. So one bad record fails alone, in its turn. `Records` belongs to
one decorated function: it makes a `Job` of each record, and `engine/batch.py` runs the jobs.

A source's file imports Powertools' data class at its top, and is imported itself when a function is
decorated: Powertools' modules import each other in circles, so threads that read their first records at once
could deadlock.

What we're not happy with: Powertools' data class is made of every record, also where ``model=`` replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.core.codec import BUILDING, JSON, invalid_fields
from lambda_once.core.identity import NOTHING, Content, Refused, whole
from lambda_once.core.signatures import is_async
from lambda_once.core.threads import run_coroutine
from lambda_once.core.unit import BadRecord, Delivered, RecordId, Unit
from lambda_once.decorators.handlers import with_context
from lambda_once.decorators.identify import Identifier
from lambda_once.decorators.names import name_of
from lambda_once.decorators.selectors import with_selectors_of_one
from lambda_once.decorators.validation import check_of_one, check_takes_record
from lambda_once.engine.batch import Batch, Left
from lambda_once.engine.invocation import Call, Output, Receiver, Redelivery
from lambda_once.engine.lanes import Bad, Failures, Job, Place
from lambda_once.errors import KeyMissing, Misconfigured
from lambda_once.observability.events import Event
from lambda_once.sources.envelopes import BadData, at, text_at
from lambda_once.sources.services import is_tumbling_window
from lambda_once.sources.source import Source, misplaced, named_source, source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.invocation import Invocation
    from lambda_once.errors import GiveUp
    from lambda_once.settings import Settings

Raw = dict[str, Any]
"""A record as it came."""


# ------------------------------------------------------------------ reading


class RecordSource(NamedTuple):
    """A source of records."""

    source: Source
    locate: Callable[[Raw], Delivered]
    """Return a record with its ids, group and argument; never an exception."""
    read_content: Callable[[Delivered, Raw], Unit]
    """Return it as a unit. Raises `BadData` if the record cannot be processed."""
    payload: str
    """Describes what ``key=`` selects from."""
    identity: str = ""
    """Describes the default key."""
    split: Callable[[object], list[list[object]]] | None = None
    """
    From an event to its raw records, a list for each sequence; None: ``Records``, in one sequence.

    Raises `Misconfigured` for an event of another source.
    """
    repeats: bool = False
    """Whether all deliveries of a record are equal, field by field."""
    piped_id: str | None = None
    """
    The field of a record by which EventBridge Pipes learns that it failed; None: only the whole batch can.

    EventBridge user guide, "Amazon EventBridge Pipes batching and concurrency".
    """
    doubt: Callable[[list[object]], str | None] | None = None
    """
    Of an ordered source: what may be wrong with a function's first raw records; None: nothing.

    Logged as `Event.FRAMED_VALUE`, once. They're processed all the same.
    """

    @property
    def decorator(self) -> str:
        """The name of its decorator."""
        return str(self.source.decorator)

    def sequences(self, event: object) -> list[list[object]]:
        """
        Return the raw records of *event*, one list for each sequence, such as a shard or a partition.

        In an ordered source, what follows a failure in its list is not started. Raises as `split`.
        """
        return [records_of(event, self.source)] if self.split is None else self.split(event)

    def read(self, event: object) -> list[Unit]:
        """Return all records of *event*, sequence by sequence. Raises as `split`."""
        return [self.unit(raw) for sequence in self.sequences(event) for raw in sequence]

    def unit(self, raw: object) -> Unit:
        """Return *raw*, a record, as a unit. One that can't be read is `Refused`; nothing is raised."""
        if not isinstance(raw, dict):
            return _bad(Delivered(raw), "is not a JSON object")
        record = self.locate(raw)
        try:
            return self.read_content(record, raw)
        except BadData as error:
            return _bad(record, str(error))


def _bad(record: Delivered, problem: str) -> Unit:
    named = "A record of the batch" if record.delivery is None else f"Record {record.delivery}"
    error = BadRecord(f"{named} {problem}; not processed. Fix the producer.")
    return Unit(whole(Content(NOTHING, flaw=Refused(error))), record)


def records_of(event: object, source: Source) -> list[object]:
    """
    Return the raw records of *event*: its ``Records`` or, from EventBridge Pipes, *event* itself, a list.

    Raises `Misconfigured` if one names another source than *source*, and for a tumbling window, whose
    response is its state.
    """
    if isinstance(event, list) and source.is_piped:
        return _piped(event, source)
    decorator = str(source.decorator)
    members = event if isinstance(event, Mapping) else {}
    records = members.get("Records")
    if not isinstance(records, list) or ("window" in members and is_tumbling_window(members)):
        raise misplaced(decorator, source_of(event), event)
    for record in records:
        named = record.get("eventSource", record.get("EventSource")) if isinstance(record, dict) else None
        if named is not None and named not in source.of_record:
            raise misplaced(decorator, named_source(record), event)
    return records


def _piped(event: list[object], source: Source) -> list[object]:
    """
    Return *event*, the records that EventBridge Pipes sends of *source*.

    Raises `Misconfigured` if one is of another source, or does not name its source: an input transformer or
    an enrichment made it.
    """
    for record in event:
        if at(record, "eventSource") not in source.names:
            raise misplaced(str(source.decorator), named_source(record), event)
    return event


def grouped(event: object, source: Source, field: str) -> list[list[object]]:
    """
    Return the records of *event*, of MQ or Kafka, which has them under *field*: a list, or lists by a name.

    Each is as EventBridge Pipes sends it, with what the event says of all, and the name of its list as
    eventSourceKey. Raises `Misconfigured` for an event of another source.
    """
    if isinstance(event, list):
        groups: dict[object, list[object]] = {}
        for record in _piped(event, source):
            groups.setdefault(text_at(record, "eventSourceKey"), []).append(record)
        return [*groups.values()]
    listed = at(event, field) if at(event, "eventSource") in source.of_event else None
    lists = {None: listed} if isinstance(listed, list) else listed
    if not isinstance(event, Mapping) or not isinstance(lists, Mapping):
        raise misplaced(str(source.decorator), source_of(event), event)
    if not all(isinstance(each, list) for each in lists.values()):
        raise misplaced(str(source.decorator), source, event)
    shared = {name: value for name, value in event.items() if name != field}
    return [
        [
            {**shared, **({} if name is None else {"eventSourceKey": name}), **record}
            if isinstance(record, dict)
            else record
            for record in records
        ]
        for name, records in lists.items()
    ]


# ------------------------------------------------------------------ running


class Failed(NamedTuple):
    """What failed of a batch."""

    ids: list[RecordId]
    errors: list[BaseException]
    """Why, in the order of *ids*. Equal records share an error."""
    whole: bool
    """Whether that is every record."""


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
        what = "the record" if settings.model is None else "the model"
        check_of_one(settings, what)
        settings = with_selectors_of_one(settings, what)
        self.source = source
        self.runtime = runtime
        output = Output(receiver=Receiver.NOBODY)
        self.identifier = Identifier(runtime, settings, JSON, name_of(function), output)
        self._function = with_context(function)
        self.is_async = is_async(function)
        self._settings = settings
        self._redelivery = redelivery
        if settings.model is not None:
            _pydantic()

    @property
    def name(self) -> str:
        return self.identifier.name

    def run(self, event: Any, context: Any) -> Failed:
        """Run the function for each record of *event*; return what failed."""
        with self.runtime.invocation(context) as invocation:
            units = self.source.read(event)
            jobs = self.work(
                units, [(unit.record.group, unit.record.group) for unit in units], invocation, context
            )
        errors = [job.error for job in jobs if job.error is not None]
        if not errors:
            return Failed([], [], whole=False)
        ids = [unit.record.id for unit, job in zip(units, jobs, strict=True) if job.error is not None]
        return Failed(ids, errors, whole=len(errors) == len(jobs))

    def work(
        self,
        units: list[Unit],
        places: Sequence[tuple[str | None, str | None]],
        invocation: Invocation,
        context: Any,
        on_give_up: Callable[[Job, GiveUp], object] | None = None,
    ) -> list[Job]:
        """
        Run the function for *units*, each piece of work once, as `Batch` does; return the job of each.

        *places*: of each its group, and the sequence that its failure stops; None if it stops none. The
        position of a job is that of its first record in *units*.
        """
        jobs = self._jobs(units, places, invocation)
        batch = Batch(self.runtime.engine, self._function, context, on_give_up)
        unique = [*dict.fromkeys(jobs)]
        if not self.is_async:
            batch.run(unique)
            return jobs
        try:
            run_coroutine(batch.run_async(unique, self._settings.concurrency))
        except Left as left:
            raise left.error from None
        return jobs

    def _jobs(
        self, units: list[Unit], places: Sequence[tuple[str | None, str | None]], invocation: Invocation
    ) -> list[Job]:
        """Return the job of each of *units*: equal ones share one, bad ones fail by themselves."""
        jobs: list[Job] = []
        first_jobs: dict[tuple[str, str | None], Job] = {}
        tokens: set[str] = set()
        failures: Failures = {}
        for position, (unit, (group, sequence)) in enumerate(zip(units, places, strict=True)):
            job = self._job(unit, Place.of(position, group, sequence, failures), invocation)
            if isinstance(job.work, Call):
                token = job.work.token
                job.follows = token in tokens
                tokens.add(token)
                first = first_jobs.setdefault((token, job.work.compared.fingerprint), job)
                if first is not job and not self.runtime.disabled:
                    first.fold(group, sequence)
                    job = first
            jobs.append(job)
        return jobs

    def _job(self, unit: Unit, place: Place, invocation: Invocation) -> Job:
        """Return the job of *unit* at *place*. Why a record is bad is logged here."""
        record = unit.record
        try:
            unit = self.validated(unit)
            argument = unit.record.argument
            call = self.identifier.call(
                unit,
                invocation,
                arguments=(argument,),
                for_history=record.envelope,
                redelivery=self._redelivery,
            )
        except Exception as error:  # noqa: BLE001  (a key or model of the user's may raise anything)
            self._report(error, invocation, record.delivery)
            return Job(record.id, place, Bad(error))
        work = self.identifier.tokenless(invocation, record.delivery) if call is None else call
        return Job(record.id, place, work, argument)

    def validated(self, unit: Unit) -> Unit:
        """
        Return *unit* with the argument that the function gets: the record, or its payload as ``model=``.

        Raises `BadRecord` for a bad record, and if the payload does not fit the model: it names the fields,
        never their content.
        """
        model, content = self._settings.model, unit.what.content
        if isinstance(content.flaw, Refused) and (content.payload is NOTHING or not self.runtime.disabled):
            raise content.flaw.error
        if model is None:
            return unit
        adapter, invalid = self._adapter
        try:
            argument = adapter.validate_python(content.payload)
        except invalid as error:
            name = getattr(model, "__name__", None) or error.title
            wrong = invalid_fields(error, "the payload")
            if isinstance(content.payload, str):
                wrong = f"{self.source.payload} is not a JSON object"
            raise BadRecord(f"the payload is not a valid {name}: {wrong}; fix the producer") from None
        return Unit(unit.what, unit.record._replace(argument=argument))

    @cached_property
    def _adapter(self) -> tuple[Any, Any]:
        adapter, invalid = _pydantic()
        model = self._settings.model
        if isinstance(model, adapter):
            return model, invalid
        with BUILDING:
            return adapter(model), invalid

    def _report(self, error: Exception, invocation: Invocation, delivery: str | None) -> None:
        """Report, in one line, that a record has no token because of *error*; count its second event."""
        event, besides = Event.BAD_RECORD, None
        if isinstance(error, Misconfigured):
            event, besides = Event.MISCONFIGURED, Event.BAD_RECORD
        elif isinstance(error, KeyMissing) and not isinstance(error, BadRecord):
            besides = Event.KEY_MISSING
        if besides is not None:
            self.runtime.reporter.count(besides, invocation.tally)
        self.identifier.report(event, error, invocation, delivery)


def _pydantic() -> tuple[Any, Any]:
    """Return pydantic's TypeAdapter and ValidationError. Raises `Misconfigured` without pydantic."""
    try:
        from pydantic import TypeAdapter, ValidationError
    except ImportError as error:
        raise Misconfigured("model= needs pydantic: install lambda-once[pydantic]") from error
    return TypeAdapter, ValidationError


# ------------------------------------------------------------------ responses


def failures(ids: Iterable[RecordId]) -> dict[str, list[dict[str, RecordId]]]:
    """
    Return the response that makes a source redeliver the records named by *ids*, and only what it must.

    AWS Lambda developer guide, "Implementing partial batch responses": an empty list is success; an empty or
    null identifier fails the whole batch. A failed record without an id (None or "") can be returned in no
    other way.
    """
    named = {str(id_ or ""): id_ or "" for id_ in ids}
    failed: list[RecordId] = [""] if "" in named else [*named.values()]
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in failed]}


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
