"""The shared state of one `Once`'s decorators: environment, store, clock and engines."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from lambda_once.core.clock import Clock, SystemClock
from lambda_once.core.identity import NOTHING, Nothing, Scoping, Who
from lambda_once.core.keys import NO_SERVICE, SERVICE_VARIABLE
from lambda_once.core.tenant import TENANCY
from lambda_once.core.threads import Exclusive, exiting
from lambda_once.core.variables import TRUE, Listing, boolean, configured_listing, given
from lambda_once.decorators.names import Names
from lambda_once.decorators.suspensions import SDK, check_context
from lambda_once.decorators.validation import checked_table
from lambda_once.engine.engine import Engine
from lambda_once.engine.invocation import CURRENT_INVOCATION, Invocation, current_invocation, invoked
from lambda_once.errors import Misconfigured
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter, Tally
from lambda_once.stores.memory import ForgetfulStore

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    from lambda_once.stores.contract import Store
    from lambda_once.stores.store import DynamoDBStore

_SYSTEM_CLOCK = SystemClock()


class Overrides(NamedTuple):
    """What every `Runtime` of the process uses while a test runs, unless it has its own."""

    store: Store | None = None
    clock: Clock | None = None
    engine: Callable[[Store, Clock], Engine] = Engine


class Environment(NamedTuple):
    """What environment variables configure for every unit."""

    service: str
    """The first part of every token."""
    disabled: bool
    function: str | None
    """The name of the Lambda function."""


class Start(Enum):
    """Where a handler is imported, which decides when the client is made."""

    INIT = auto()
    """The INIT phase of a Lambda environment, which has more CPU than its invocations."""
    SNAPSHOT = auto()
    """The INIT phase before a SnapStart snapshot: many environments start from it."""
    ELSEWHERE = auto()


def start_of(environ: Mapping[str, str], modules: Container[str]) -> Start:
    """Return where a process with *environ* and the loaded *modules* runs."""
    if "AWS_LAMBDA_RUNTIME_API" not in environ or "moto" in modules or "pytest" in modules:
        return Start.ELSEWHERE
    snapshot = environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start"
    return Start.SNAPSHOT if snapshot else Start.INIT


class Runtime:
    """
    Makes the engine at first use. Nothing is sent before.

    In Lambda the store and its client are made earlier, by `prepare`.
    """

    overrides: ClassVar[Overrides | None] = None
    """Set by `lambda_once.testing` alone. Engines are made anew when it changes, with empty caches."""

    def __init__(
        self,
        table: str | None,
        client: Any,
        store: Store | None,
        service: str | None,
        listing: Listing | None,
        reporter: Reporter,
    ) -> None:
        self.reporter = reporter
        self._clock: Clock | None = None
        self._table = table
        self._service = service
        self._listing = listing
        self._client = client
        self._store = store
        self._engines: dict[bool, Engine] = {}
        self._overrides: Overrides | None = None
        """The overrides that the engines were made under."""
        self._lock = Exclusive("the store of tokens is being made")
        self._prepared: DynamoDBStore | None = None
        self._environment: tuple[Invocation, Environment] | None = None
        """The environment as it was read last, and in which invocation."""
        self.names = Names()
        self._declared: dict[str, Scoping] = {}
        """By each name that was given to a decorator: the least that its tokens have."""
        self._worked: dict[str, Scoping] = {}
        """By each name that had work in this process: the least that its tokens had."""

    def declare(self, name: str, scoping: Scoping) -> None:
        """Note that a function of *name* was decorated, and what its tokens will have at least."""
        self._declared[name] = min(scoping, self._declared.get(name, scoping))

    def worked(self, name: str, who: Who | Nothing, *, has_scope: bool) -> None:
        """Note that *name* had a unit of work, who asked for it, and whether its token has a scope."""
        scoping = Scoping.CALLER if who is not NOTHING and who.joins else Scoping(has_scope)
        self._worked[name] = min(scoping, self._worked.get(name, scoping))

    def scoping(self, name: str) -> Scoping:
        """Return what each token of *name* has, as far as this process knows."""
        return self._worked.get(name, self._declared.get(name, Scoping.NONE))

    def prepare(self) -> None:
        """
        Make the client where the handler is imported, if that is Lambda's INIT phase; send nothing.

        Before a snapshot no client is made, since a snapshot must hold neither secrets nor connections: it
        is made after the restore if `snapshot_restore_py` is installed, else at first use. Never raises: an
        error here is raised again at first use.
        """
        start = start_of(os.environ, sys.modules)
        if start is Start.ELSEWHERE or self._store is not None:
            return
        with suppress(Exception):
            if self.disabled:
                return
            self._prepared = self._new_store()
            if start is Start.INIT:
                self._prepare_client()
            else:
                from snapshot_restore_py import register_after_restore

                register_after_restore(self._prepare_client)

    def _prepare_client(self) -> None:
        """Never raises: Lambda discards an environment whose restore hook raises."""
        if self._prepared is not None:
            with suppress(Exception):
                self._prepared.transport.prepare()

    def environment(self) -> Environment:
        """
        Read the environment once an invocation: each unit needs it, and reading a variable is slow.

        Raises `Misconfigured` for an unknown word in LAMBDA_ONCE_DISABLED.
        """
        invocation, last = CURRENT_INVOCATION.get(), self._environment
        if invocation is not None and last is not None and last[0] is invocation:
            return last[1]
        service = self._service or os.environ.get(SERVICE_VARIABLE) or NO_SERVICE
        word = os.environ.get("LAMBDA_ONCE_DISABLED", "")
        function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
        environment = Environment(service, boolean("LAMBDA_ONCE_DISABLED", word) is True, function)
        self._environment = None if invocation is None else (invocation, environment)
        return environment

    @property
    def clock(self) -> Clock:
        if self._clock is not None:
            return self._clock
        overrides = Runtime.overrides
        return _SYSTEM_CLOCK if overrides is None or overrides.clock is None else overrides.clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        self._clock = clock

    @property
    def disabled(self) -> bool:
        """
        Whether everything runs and nothing is stored (LAMBDA_ONCE_DISABLED).

        Raises `Misconfigured` for a word that is neither true nor false.
        """
        return self.environment().disabled

    @property
    def engine(self) -> Engine:
        try:
            return self._engine()
        except Misconfigured as error:
            self._report(error)
            raise

    def _engine(self) -> Engine:
        disabled = self.disabled
        if self._overrides is Runtime.overrides and disabled in (engines := self._engines):
            return engines[disabled]
        if sys.is_finalizing():
            raise exiting()
        with self._lock.alone():
            if self._overrides is not Runtime.overrides:
                self._engines, self._overrides = {}, Runtime.overrides
            if disabled not in self._engines:
                self._engines[disabled] = self._new_engine(disabled=disabled)
            return self._engines[disabled]

    def invocation(self, context: object = None) -> AbstractContextManager[Invocation]:
        """
        Return a block in the invocation of *context*; see `engine.invocation.invoked`.

        Raises `Misconfigured` for the context of a durable execution, and as `serve` does.
        """
        if SDK in sys.modules:
            check_context(context)
        if context is not None:
            self.serve(context)
        return invoked(context, self.clock, self.reporter, self._no_context)

    def serve(self, context: object) -> None:
        """
        Serve the tenant that *context* names, for as long as the process lives (`core.tenant`).

        Raises `Misconfigured`, and reports it, if the process serves another one. If everything runs
        unprotected (LAMBDA_ONCE_DISABLED), it serves the new one from now on instead.
        """
        tenant = getattr(context, "tenant_id", None)
        if not isinstance(tenant, str) or tenant == "":  # a mock's tenant is a mock
            return
        if tenant == TENANCY.tenant or TENANCY.serves(tenant):
            return
        if self.disabled:
            TENANCY.tenant = tenant
            return
        error = Misconfigured(
            "the context names another tenant than the one that this process serves. Nothing ran. Lambda "
            "gives an execution environment to one tenant, so something else made the context: run each "
            "tenant in a process of its own, in a test in a using() of its own"
        )
        with invoked(context, self.clock, self.reporter, self._no_context):
            self._report(error)
        raise error

    def _no_context(self) -> None:
        reason = "no Lambda context; assuming 900 s remaining: use once.invocation(context)"
        self.reporter.warn_once(Event.NO_LAMBDA_CONTEXT, reason)

    @contextmanager
    def using(self, store: Store | None, clock: Clock | None) -> Iterator[None]:
        """Use *store* and *clock* until the block ends: for tests."""
        before = self._store, self._clock, self._engines, self._overrides
        self._store = self._store if store is None else store
        self._clock = self._clock if clock is None else clock
        self._engines = {}
        try:
            yield
        finally:
            self._store, self._clock, self._engines, self._overrides = before

    def _report(self, error: Misconfigured) -> None:
        invocation = current_invocation()
        details = Details(Event.MISCONFIGURED, error=type(error).__name__, reason=str(error))
        self.reporter.report(details, Tally() if invocation is None else invocation.tally)

    def _new_engine(self, *, disabled: bool) -> Engine:
        make = Engine if self._overrides is None else self._overrides.engine
        if not disabled:
            self._warn_of_powertools()
            if not (self._service or os.environ.get(SERVICE_VARIABLE)):
                self.reporter.warn_once(
                    Event.NO_SERVICE,
                    f"tokens begin with {NO_SERVICE}: set {SERVICE_VARIABLE}, or pass service=",
                )
            return make(self._real_store(), self.clock)
        reason = "LAMBDA_ONCE_DISABLED is set: everything runs, nothing is stored"
        self.reporter.warn(Event.DISABLED, reason)
        return make(ForgetfulStore(self._real_store), self.clock)

    def _warn_of_powertools(self) -> None:
        word = given("POWERTOOLS_IDEMPOTENCY_DISABLED").lower()
        if word in TRUE and not given("LAMBDA_ONCE_DISABLED"):
            reason = (
                f"POWERTOOLS_IDEMPOTENCY_DISABLED={word} has no effect here: everything is protected. "
                "Set LAMBDA_ONCE_DISABLED to true to turn that off, or to false to end this warning"
            )
            self.reporter.warn_once(Event.POWERTOOLS_DISABLED, reason)

    def _real_store(self) -> Store:
        if self._store is not None:
            return self._store
        if self._overrides is not None and self._overrides.store is not None:
            return self._overrides.store
        prepared = self._prepared
        if prepared is None or prepared.table != self._table_name:
            prepared = self._new_store()
        if not isinstance(self._client, str | None):
            self.reporter.warn_once(Event.CLIENT_LIMITS, prepared.transport.limits)
        return prepared

    @property
    def _table_name(self) -> str:
        return self._table or given("LAMBDA_ONCE_TABLE")

    def _new_store(self) -> DynamoDBStore:
        try:
            from lambda_once.stores.store import DynamoDBStore
        except ModuleNotFoundError as error:
            raise Misconfigured(
                f"a token table needs {error.name}, which is not installed: pip install 'lambda-once[aws]'"
            ) from error
        table = self._table_name
        if not table:
            raise Misconfigured(
                "no token table configured: set LAMBDA_ONCE_TABLE, or pass Once(table=…), "
                "or Once(store=MemoryStore()) for a first try"
            )
        return DynamoDBStore(
            checked_table(table, "LAMBDA_ONCE_TABLE="),
            self._client,
            self._listing or configured_listing() or Listing.AT_ONCE,
            warn=partial(self.reporter.warn, Event.BATCHES_OFF),
            declined=partial(self.reporter.warn, Event.CRT_DECLINED),
            parts_denied=partial(self.reporter.warn, Event.PARTS_DENIED),
        )
