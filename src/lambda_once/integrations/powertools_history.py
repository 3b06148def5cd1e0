"""
What Powertools for AWS Lambda remembers of a call, asked by the public methods of its persistence layer.

Powertools' idempotency is in `utilities/idempotency/base.py`: ``save_inprogress`` before the work, which an
existing record refuses, then ``save_success`` or, after an exception, ``delete_record``. The layer derives
the key: ``<prefix>#<hash of what event_key_jmespath selects>``, where the prefix is ``key_prefix`` or
``<Lambda function>.<module>.<qualname>``.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import jmespath
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyInvalidStatusError,
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyKeyError,
    IdempotencyValidationError,
)

from lambda_once.core.checks import checked_flag, checked_text
from lambda_once.core.signatures import accepts, is_async
from lambda_once.dynamodb.errors import THROTTLED, Caught, code_of, is_transient, only_dynamodb
from lambda_once.engine.history import Busy, Earlier, HistoryAnswer, Vacant
from lambda_once.errors import KeyMissing, KeyReused, Misconfigured
from lambda_once.integrations.history import History
from lambda_once.integrations.private import with_put_record
from lambda_once.stores.contract import Unanswered

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
    from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

SOONER = timedelta(seconds=1)
"""
A record's time in progress ends this much before our lease, so that an attempt that takes the lapsed token
over does not find the record still in progress. The invocation has ended another second before that
(`settings.LEASE_MARGIN`).
"""
TRIES = 3
"""How often a record that is there for the write and gone for the read is asked for, as in Powertools."""


class PowertoolsHistory:
    """
    The records of a function's version with Powertools, for ``history=``.

    Both versions may be deployed at once: each refuses, or replays, what the other one has begun or done.

    * *persistence*: a persistence layer like that of the old version, such as
      ``DynamoDBPersistenceLayer(table_name=…)``, which no decorator of Powertools uses.
    * *config*: the old version's IdempotencyConfig; ``IdempotencyConfig()`` if it had none.
    * *function_name*: the old function, ``module.qualname``. Default: that of the decorated one.
    * *key_prefix*: as for the old decorator.
    * *data*: what the old decorator hashed: for `Once.function` the name of its ``data_keyword_argument``, or
      a callable of the record, the event, or the dict of a function's arguments. Default: the record,
      the event or the only argument.
    * *writes*: False only reads. Once no old version can run, that saves two writes for each unit of work.
    * *across_callers*: True if a stored response may go to any caller, and answer any method and path, that
      sends its key, as in Powertools. `Once.api_gateway` requires it: a record has none of the three.

    Raises `Misconfigured` for invalid arguments.
    """

    def __init__(
        self,
        persistence: BasePersistenceLayer,
        *,
        config: IdempotencyConfig,
        function_name: str | None = None,
        writes: bool = True,
        key_prefix: str | None = None,
        data: str | Callable[[Any], object] | None = None,
        across_callers: bool = False,
    ) -> None:
        _check(persistence, config, data)
        self._persistence = copy.copy(persistence)
        self._config = copy.copy(config)
        self._config.use_local_cache = False
        self._function_name = checked_text("function_name", function_name)
        self._key_prefix = checked_text("key_prefix", key_prefix)
        self._data = data
        self._writes = checked_flag("writes", writes)
        self._across_callers = checked_flag("across_callers", across_callers)
        self._layers: dict[str, BasePersistenceLayer] = {}
        self._lock = threading.RLock()
        only_dynamodb(getattr(persistence, "client", None))

    def check(self, parameters: list[str] | None, *, of_requests: bool = False) -> None:
        """Do what `HistorySource.check` promises, for ``data=`` and ``across_callers=``."""
        if of_requests and not self._across_callers:
            raise Misconfigured(
                "a record of Powertools has no caller, method or path: history= would return one caller's "
                "response to another who sends the same key. If every caller may get it, pass "
                "PowertoolsHistory(across_callers=True); else remove history="
            )
        if parameters is None:
            if isinstance(self._data, str):
                raise Misconfigured(
                    f"PowertoolsHistory(data={self._data!r}) names an argument, and a handler has none: "
                    "pass a callable of the event or record"
                )
        elif self._data is None and len(parameters) == 1:
            return
        elif self._data is None or (isinstance(self._data, str) and self._data not in parameters):
            raise Misconfigured(
                f"PowertoolsHistory needs data=, the name of the old data_keyword_argument: "
                f"one of {', '.join(parameters)}"
            )

    def of(self, seen: Any, name: str, *, is_call: bool) -> PowertoolsRecord:
        """Return the record of one call of the function *name*; *seen* as in `HistorySource.of`."""
        if callable(self._data):
            try:
                seen = self._data(seen)
            except Exception as error:
                raise Misconfigured(f"data= of PowertoolsHistory raised {type(error).__name__}") from error
        elif is_call:
            seen = seen[self._data or next(iter(seen))]
        return PowertoolsRecord(self._layer(name), seen, writes=self._writes)

    def find(self, key: Any, now: datetime, token: str) -> HistoryAnswer:
        """
        Do what `HistorySource.find` promises: one read, or two for a number that may have been text.

        The record is that of the key, so its key must have been selected: by ``event_key_jmespath``, or
        as an argument (``data=``).
        """
        if not (self._config.event_key_jmespath or isinstance(self._data, str)):
            raise _not_by_key("config= has no event_key_jmespath, so a record's key is the whole payload")
        if self._function_name is None and self._key_prefix is None:
            raise _not_by_key("it has no function_name= or key_prefix=, with which a record's key begins")
        config = copy.copy(self._config)
        config.event_key_jmespath = config.payload_validation_jmespath = ""
        layer = copy.copy(self._persistence)
        layer.configure(config, self._function_name, self._key_prefix)
        for form in _forms(key):
            record = PowertoolsRecord(layer, form, writes=False)
            found = record.begin(now, now, takes_over=False, attempt_id="", token=token)
            if found != Vacant():
                return found
        return Vacant()

    def _layer(self, name: str) -> BasePersistenceLayer:
        """Return the layer of the function *name*. Each has its own, as `configure` changes the layer."""
        with self._lock:
            if name not in self._layers:
                if self._layers and (self._function_name or self._key_prefix):
                    raise Misconfigured(
                        f"{name} would share its records with {next(iter(self._layers))}: a history with "
                        "function_name= or key_prefix= is for one function; make another PowertoolsHistory"
                    )
                layer = copy.copy(self._persistence)
                layer.configure(self._config, self._function_name or name, self._key_prefix)
                self._layers[name] = layer
            return self._layers[name]


def _not_by_key(why: str) -> Misconfigured:
    return Misconfigured(
        f"once.outcome cannot ask this history: {why}. Pass history=None for the outcome of the token alone, "
        "which is unknown for work of the old version"
    )


def _forms(key: Any) -> tuple[Any, ...]:
    """Return the keys that *key* may be for Powertools: a number and its text are one token, two records."""
    if isinstance(key, str) and _WHOLE.fullmatch(key):
        return key, int(key)
    return (key, str(key)) if isinstance(key, int) and not isinstance(key, bool) else (key,)


_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,99}")


def _check(persistence: Any, config: Any, data: Any) -> None:
    lacking = [
        name
        for name in ("configure", "save_inprogress", "save_success", "delete_record", "get_record")
        if not callable(getattr(persistence, name, None))
    ]
    if lacking or isinstance(persistence, type):
        raise Misconfigured(
            "PowertoolsHistory takes a persistence layer, such as DynamoDBPersistenceLayer(table_name=…), "
            f"not {persistence!r}"
        )
    if getattr(persistence, "configured", False):
        raise Misconfigured(
            "PowertoolsHistory needs a persistence layer of its own: a decorator of Powertools has "
            "configured this one, and a layer keeps the key of its first function"
        )
    if not isinstance(config, IdempotencyConfig):
        raise Misconfigured(
            "config= must be the old version's IdempotencyConfig, IdempotencyConfig() if it had none; "
            f"got a {type(config).__name__}"
        )
    for expression in (config.event_key_jmespath, config.payload_validation_jmespath):
        _compiled(expression or "@")
    if not (data is None or isinstance(data, str) or callable(data)):
        raise Misconfigured("data= must be the name of an argument or a callable")
    if callable(data) and (is_async(data) or not accepts(data, object())):
        raise Misconfigured("data= must be a plain def of one argument")


def _compiled(expression: str) -> None:
    try:
        jmespath.compile(expression)
    except jmespath.exceptions.JMESPathError as error:
        raise Misconfigured(f"PowertoolsHistory: {expression!r} is not JMESPath: {error}") from None


class PowertoolsRecord(History):
    """The record of one call."""

    def __init__(self, layer: BasePersistenceLayer, seen: object, *, writes: bool) -> None:
        self._layer = layer
        self._seen = seen
        self._writes = writes
        self._data: Any = None
        """What the key is made of, as it was before the work could change it; None before `_prepare`."""
        self._until: datetime | None = None
        """Until when the record is ours; None: it is not."""

    def begin(
        self, lease: datetime, now: datetime, *, takes_over: bool, attempt_id: str, token: str
    ) -> HistoryAnswer:
        """Do what `History.begin` promises: two requests at most, but one under ``take_over``."""
        self._until = None
        try:
            self._prepare()
            return self._begin(lease - SOONER, now, Marks.of(token, attempt_id), takes_over=takes_over)
        except Exception as error:  # noqa: BLE001  (a persistence layer may raise anything)
            return _unanswered(error)

    def succeed(self, text: str) -> None:
        """Complete the record, whichever attempt owns it by now: the work is done."""
        if self._writes:
            self._prepare()
            self._layer.save_success(data=self._data, result=json.loads(text))

    def undo(self, now: datetime) -> None:
        """Delete the record while it is certain to be ours: after its time another attempt may have it."""
        until, self._until = self._until, None
        if until is not None and now < until:
            self._layer.delete_record(data=self._data, exception=Exception())

    def _prepare(self) -> None:
        if self._data is None:
            self._data = copy.deepcopy(_hashed(self._seen))

    def _begin(self, until: datetime, now: datetime, marks: Marks, *, takes_over: bool) -> HistoryAnswer:
        lapsed = None
        if not (takes_over and self._writes):
            found = _answer_of(self._read(), now, marks)
            if not self._writes or not isinstance(found, Vacant):
                return found
            lapsed = found.lapsed
        left = max(int((until - now) / timedelta(milliseconds=1)), 0)
        for _ in range(TRIES):
            layer = _marking(self._layer, marks, hides=takes_over or lapsed is not None)
            try:
                layer.save_inprogress(data=self._data, remaining_time_in_millis=left)
            except IdempotencyItemAlreadyExistsError as exists:
                record = exists.old_data_record or self._read()
                if not _is_of(record, marks):
                    found = _answer_of(record, now, marks)
                    if not isinstance(found, Vacant):
                        return found
                    lapsed = found.lapsed or lapsed
                    continue
            self._until = until
            return Vacant(lapsed)
        return Busy(None)

    def _read(self) -> DataRecord | None:
        try:
            return self._layer.get_record(data=self._data)
        except IdempotencyItemNotFoundError:
            return None


def _hashed(seen: Any) -> Any:
    """Return what Powertools makes of *seen* before it derives a key: a dict of a model or data class."""
    if dataclasses.is_dataclass(seen) and not isinstance(seen, type):
        return dataclasses.asdict(seen)
    if callable(getattr(seen, "model_dump", None)):
        return seen.model_dump(mode="json")
    if callable(getattr(seen, "dict", None)):
        return seen.dict()
    return getattr(seen, "raw_event", seen)


TOKEN_DIGITS, ATTEMPT_DIGITS = 12, 13
HIDDEN = "0" * TOKEN_DIGITS


class Marks(NamedTuple):
    """
    The token and attempt of a record in progress, in the fraction of a millisecond of its time.

    Powertools' own times are whole, and it only compares them, so it does not see the fraction. DynamoDB
    keeps 38 digits of a number: 13 of milliseconds, and these. They are joined and read as text, because
    Decimal's arithmetic rounds to 28 digits.
    """

    token: str
    """A lapsed record shows whose work is in doubt. One without it may be the old version's, or another's."""
    attempt: str
    """A record that refuses the write of this very attempt is that write, whose answer was lost."""

    @classmethod
    def of(cls, token: str, attempt_id: str) -> Marks:
        """Return the marks of the records of the attempt *attempt_id*, which holds *token*."""
        return cls(_digits(token, TOKEN_DIGITS), _digits(attempt_id, ATTEMPT_DIGITS))

    @classmethod
    def on(cls, time: object) -> Marks:
        """Return the marks on the *time* of a record; zeros on one of Powertools' own."""
        fraction = f"{Decimal(str(time)):f}".partition(".")[2].ljust(TOKEN_DIGITS + ATTEMPT_DIGITS, "0")
        return cls(fraction[:TOKEN_DIGITS], fraction[TOKEN_DIGITS:])

    def put_on(self, milliseconds: int) -> Decimal:
        """Return *milliseconds* with these marks."""
        return Decimal(f"{milliseconds}.{self.token}{self.attempt}")


def _digits(text: str, count: int) -> str:
    """Return *count* digits made from *text*, which are not all zeros."""
    digest = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    return f"{digest % (10**count - 1) + 1:0{count}}"


def _marking(layer: BasePersistenceLayer, marks: Marks, *, hides: bool) -> BasePersistenceLayer:
    """
    Return *layer*, whose records in progress bear *marks* if it is DynamoDB's.

    Not the token's where the record *hides* lapsed work, or may: who finds it lapsed is to judge that.
    """
    if not isinstance(layer, DynamoDBPersistenceLayer):
        return layer
    shown = marks._replace(token=HIDDEN) if hides else marks

    def put_marked(put: Callable[..., None], data_record: Any) -> None:
        data_record.in_progress_expiry_timestamp = shown.put_on(data_record.in_progress_expiry_timestamp)
        try:
            put(data_record=data_record)
        except Exception as error:
            if not is_transient(error):
                raise
            put(data_record=data_record)  # if the first one arrived, a record with our mark refuses this

    return with_put_record(layer, put_marked)  # type: ignore[no-any-return]


def _is_of(record: DataRecord | None, marks: Marks) -> bool:
    """Return whether *record* is in progress by the very attempt of *marks*."""
    if record is None or record.status != "INPROGRESS":
        return False
    time = record.in_progress_expiry_timestamp
    return time is not None and Marks.on(time).attempt == marks.attempt


def _answer_of(record: DataRecord | None, now: datetime, marks: Marks) -> HistoryAnswer:
    if record is None or record.status == "EXPIRED":
        return Vacant()
    if record.status == "COMPLETED":
        expires = record.expiry_timestamp
        return Earlier(
            record.response_data or "null",
            None if not expires else datetime.fromtimestamp(int(expires), UTC),
        )
    if record.in_progress_expiry_timestamp is None:
        return Busy(None)
    until = datetime.fromtimestamp(int(record.in_progress_expiry_timestamp) / 1000, UTC)
    if until >= now:
        return Busy(until)
    is_ours = Marks.on(record.in_progress_expiry_timestamp).token == marks.token
    return Vacant() if is_ours else Vacant(until)


def _unanswered(error: Exception) -> Unanswered:
    """Return the answer that *error* of a layer means. Raises `OnceError` where a retry does not help."""
    match error:
        case IdempotencyValidationError():
            raise KeyReused(
                "Powertools' record of this key has another payload (payload_validation_jmespath): "
                "use a new key"
            ) from None
        case IdempotencyKeyError() | jmespath.exceptions.JMESPathError() | TypeError():
            # Not chained, and not quoted: these messages repeat the payload.
            raise KeyMissing(
                f"Powertools derives no key from this payload ({type(error).__name__}): correct the payload, "
                "or config= or data= of PowertoolsHistory"
            ) from None
        case IdempotencyInvalidStatusError() | LookupError() | AttributeError() | ValueError():
            raise Misconfigured(
                f"a record in Powertools' table cannot be read ({type(error).__name__}): check the attribute "
                "names of the persistence layer"
            ) from error
        case error if isinstance(error, Caught) and not is_transient(error):
            raise Misconfigured(
                f"Powertools' table refused a request with {code_of(error)}: check the table's name, region "
                "and endpoint, and the permissions GetItem, PutItem, UpdateItem and DeleteItem"
            ) from error
        case _:
            happened = "was throttled" if code_of(error) in THROTTLED else "did not answer"
            return Unanswered(f"Powertools' table {happened} ({code_of(error)})")
