"""
`once.outcome` and `once.aoutcome`: what became of a key, without running anything.

The key is identified as `block` does it, so the answer is about the row that the work would find. The row is
read consistently; a result is read when it's asked for.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import Deadline
from lambda_once.core.identity import Scoping
from lambda_once.core.tenant import TENANCY
from lambda_once.decorators.identify import Identifier
from lambda_once.decorators.validation import check_history_of_tenant
from lambda_once.dynamodb.retry import PATIENCE
from lambda_once.engine.invocation import Call, current_invocation, invocation_of
from lambda_once.engine.outcome import MAY_RUN, Asker, Outcome, outcome_from, outcome_in_history, state_of
from lambda_once.errors import Misconfigured
from lambda_once.sources.block import block_codec, unit_of_key

if TYPE_CHECKING:
    from types import FrameType

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings

NO_NAME = (
    "once.outcome needs name= as text: a default name begins with the function that runs, so that another "
    'one would ask for another token. Write it at the work, @once.function(name="charge", …), and here: '
    'once.outcome(key, name="charge")'
)

NO_SCOPE = (
    "the tokens of {name} have a scope, so this key without scope= is not theirs: pass scope=[…], what the "
    "work's scope= selects and what its source adds, of HTTP [method, path], of EventBridge [source, "
    'detail-type], of AppSync "Type.field", of a WebSocket API the route key, of AgentCore the tool'
)

BY_CALLER = (
    "the tokens of {name} contain their caller, so no key and scope= find them: protect the effect with "
    "once.function, and ask for that"
)


class Question:
    """
    Asks for the outcome of one key, of *tenant* or, if it's None, of the process'.

    Raises `KeyMissing`, and `Misconfigured` without a name and where no token of the work can be meant.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        caller: FrameType | None,
        key: object,
        scope: object,
        tenant: str | None,
    ) -> None:
        if not isinstance(settings.name, str):
            raise Misconfigured(NO_NAME)
        if not isinstance(tenant, str | None):
            raise Misconfigured(f"tenant= takes text, as context.tenant_id is, not a {type(tenant).__name__}")
        tenant = TENANCY.tenant if tenant is None else tenant
        scoping = runtime.scoping(settings.name)
        if scoping is Scoping.CALLER or (scoping is Scoping.SCOPE and scope is None):
            problem = BY_CALLER if scoping is Scoping.CALLER else NO_SCOPE
            raise Misconfigured(problem.format(name=settings.name))
        self._runtime = runtime
        self._history = None if runtime.environment().disabled else settings.history
        check_history_of_tenant(self._history, tenant)
        self._key = key
        # There is no payload: only the token counts, and what the history has of the key.
        self._settings = replace(settings, history=None, fingerprint=False)
        identifier = Identifier(runtime, self._settings, block_codec(settings, caller), "")
        self._codec = identifier.codec
        found = identifier.identify(unit_of_key(key, scope, None), tenant=tenant)
        if found.error is not None:
            raise found.error
        self._name, self._token = settings.name, found.token

    def answer(self, *, at_once: bool = False) -> Outcome[Any]:
        """
        Read the row; *at_once*: and the result. Raises `StoreUnavailable` and `Misconfigured`.

        Where the next delivery would ask the history before it runs, the history is asked.
        """
        engine = self._runtime.engine
        record, now = engine.store.read(self._token, self._call().invocation.deadline), engine.clock.now()
        asker = Asker(self._token, engine.replayer, self._call, at_once)
        if self._history is not None and state_of(record, now) in MAY_RUN:
            found = outcome_in_history(asker, self._history.find(self._key, now, self._token))
            if found is not None:
                return found
        return outcome_from(asker, record, now)

    def _call(self) -> Call:
        """
        Return the call that reads now: a result may be asked for long after its row.

        Outside of any invocation, reads are retried for `PATIENCE` at most.
        """
        invocation = current_invocation()
        if invocation is None:
            clock = self._runtime.engine.clock
            deadline = Deadline(clock, clock.now() + timedelta(seconds=PATIENCE))
            invocation = invocation_of(None, clock, self._runtime.reporter)._replace(deadline=deadline)
        return Call(self._name, self._token, self._settings, self._codec, invocation)
