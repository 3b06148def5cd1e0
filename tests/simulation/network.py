"""The client that the stores are given: between it and the engine, whatever a network does may happen."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError

from tests.kit.strict.engine import StrictEngine, client_error
from tests.simulation.scheduler import Killed, Sandbox, Scheduler, running
from tests.simulation.story import RECORDS, Story

Arguments = dict[str, Any]

CONNECT_MS = 1_000
READ_MS = 3_000
"""The client's own time limits: `lambda_once.dynamodb.client.new_client`."""
LATEST_MS = 60_000
"""How late a delayed request may arrive."""
ENDPOINT = "https://dynamodb.invalid"


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely each misfortune is, of 1,000 requests; of crashes and pauses, of 1,000 steps."""

    lost: int = 0
    answer_lost: int = 0
    late: int = 0
    slow: int = 0
    throttled: int = 0
    partial: int = 0
    """A batch of which a part is throttled or left unprocessed."""
    conflict: int = 0
    crash: int = 0
    pause: int = 0


FAIR = Weather()
CHANGEABLE = Weather(
    lost=20, answer_lost=30, late=25, slow=60, throttled=20, partial=60, conflict=10, crash=8, pause=6
)
FOUL = Weather(
    lost=60, answer_lost=110, late=110, slow=120, throttled=40, partial=150, conflict=30, crash=35, pause=35
)
DEAF = replace(FOUL, lost=20, answer_lost=400, late=150, crash=5)


class Network:
    """Carries requests to the engine, as the weather lets it."""

    def __init__(self, scheduler: Scheduler, engine: StrictEngine, story: Story, rng: random.Random) -> None:
        self.scheduler = scheduler
        self.engine = engine
        self.story = story
        self.rng = rng
        self.weather = FAIR
        self.outage = range(0)
        """The milliseconds in which every request is lost."""
        self.calm = False
        """The storm is over: no request takes long any more, and what is open gets done."""
        self.writer: Sandbox | None = None
        """Whose request the engine executes just now; None: no sandbox's."""
        self.troubled: set[Sandbox] = set()
        """Who met any misfortune."""
        self.freeze: Callable[[Sandbox, int], None] = lambda _sandbox, _milliseconds: None
        """Called with a sandbox that pauses for so long, and is not killed for it."""

    def client(self) -> Client:
        return Client(self)

    # ---------------------------------------------------------------- what befalls a sandbox

    def step(self) -> None:
        """Let the running sandbox crash here, or stand still, or neither."""
        task = running()
        task.check()
        if self._strikes(self.weather.crash):
            self.story.tell(task.sandbox.name, "crashes")
            self.troubled.add(task.sandbox)
            self.scheduler.kill(task.sandbox)
            raise Killed
        if self._strikes(self.weather.pause):
            milliseconds = self.rng.choice((500, 3_000, 12_000, 45_000, 90_000))
            self.story.tell(task.sandbox.name, f"pauses for {milliseconds / 1000:g} s")
            self.troubled.add(task.sandbox)
            self.freeze(task.sandbox, milliseconds)
            self.scheduler.pause(milliseconds)

    def _strikes(self, per_mille: int) -> bool:
        return per_mille > 0 and self.rng.random() * 1000 < per_mille

    # ---------------------------------------------------------------- what befalls a request

    def send(self, operation: str, arguments: Arguments) -> Any:
        """Answer one request, or raise what botocore raises."""
        self.step()
        sandbox = running().sandbox
        answer = self._sent(sandbox, operation, arguments)
        self.step()
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def _sent(self, sandbox: Sandbox, operation: str, arguments: Arguments) -> Any:
        weather, rng = self.weather, self.rng
        is_record = arguments.get("TableName") == RECORDS
        fates = _FATES_OF_RECORDS.get(operation, ("lost", "throttled")) if is_record else FATES
        fate = next((name for name in fates if self._strikes(getattr(weather, name))), "")
        if self.scheduler.now in self.outage:
            fate = "lost"
        if fate or self._strikes(weather.slow):
            self.troubled.add(sandbox)
        there, back = rng.randint(1, 6), rng.randint(1, 6)
        if self.troubled and not is_record and self._strikes(weather.slow):
            there += rng.randint(50, 2_000)
        if fate in ("throttled", "conflict"):
            return self._refused(sandbox, operation, fate)
        if fate == "lost":
            self.story.request(sandbox.name, operation, arguments, "is lost")
            self.scheduler.pause(CONNECT_MS)
            raise ConnectTimeoutError(endpoint_url=ENDPOINT)
        if fate == "late":
            delay = rng.choice((READ_MS + 200, 8_000, 20_000, LATEST_MS))
            self.story.request(sandbox.name, operation, arguments, f"is under way for {delay / 1000:g} s")
            self.scheduler.at(
                self.scheduler.now + delay, lambda: self._arrives(sandbox, operation, arguments, "a ghost: ")
            )
            self.scheduler.pause(READ_MS)
            raise ReadTimeoutError(endpoint_url=ENDPOINT)
        self.scheduler.pause(there)
        answer = self._arrives(sandbox, operation, arguments, "")
        if fate == "answer_lost":
            self.story.tell(sandbox.name, "  the answer is lost")
            self.scheduler.pause(READ_MS - there)
            raise ReadTimeoutError(endpoint_url=ENDPOINT)
        self.scheduler.pause(back)
        return answer

    def _refused(self, sandbox: Sandbox, operation: str, fate: str) -> ClientError:
        self.story.tell(sandbox.name, f"{operation}: {fate}")
        self.scheduler.pause(3)
        if fate == "conflict" and operation == "update_item":
            return client_error("TransactionConflictException", "conflict", operation)
        return client_error("ThrottlingException", "throttled", operation)

    def _arrives(self, sandbox: Sandbox, operation: str, arguments: Arguments, how: str) -> Any:
        """Have the engine execute the request, a batch only in part where the weather wants it."""
        self.writer = sandbox
        try:
            if operation in _PARTIAL and self._strikes(self.weather.partial):
                self.troubled.add(sandbox)
                answer = _PARTIAL[operation](self, arguments)
            else:
                answer = getattr(self.engine, operation)(**arguments)
        except ClientError as error:
            answer = error
        finally:
            self.writer = None
        self.story.request(sandbox.name, operation, arguments, how + _said(answer))
        return answer

    # ---------------------------------------------------------------- batches in part

    def some_statements(self, arguments: Arguments) -> Any:
        """Execute some statements, and throttle the others one by one."""
        batch = arguments["Statements"]
        kept = [self.rng.random() < 0.5 for _ in batch]
        sent = [one for one, keep in zip(batch, kept, strict=True) if keep]
        answers = iter(self.engine.batch_execute_statement(Statements=sent)["Responses"] if sent else ())
        code = self.rng.choice(("ThrottlingError", "TransactionConflict", "ProvisionedThroughputExceeded"))
        refused = {"Error": {"Code": code, "Message": "later"}}
        return {"Responses": [next(answers) if keep else refused for keep in kept]}

    def some_keys(self, arguments: Arguments) -> Any:
        """Read some rows, and leave the others unprocessed."""
        ((table, acquisition),) = arguments["RequestItems"].items()
        some = self.rng.randrange(len(acquisition["Keys"]))
        left = {table: acquisition | {"Keys": acquisition["Keys"][some:]}}
        if not some:
            return {"Responses": {table: []}, "UnprocessedKeys": left}
        answer = self.engine.batch_get_item(
            RequestItems={table: acquisition | {"Keys": acquisition["Keys"][:some]}}
        )
        return answer | {"UnprocessedKeys": left}

    def some_puts(self, arguments: Arguments) -> Any:
        """Write some rows, and leave the others unprocessed."""
        ((table, puts),) = arguments["RequestItems"].items()
        some = self.rng.randrange(len(puts))
        if some:
            self.engine.batch_write_item(RequestItems={table: puts[:some]})
        return {"UnprocessedItems": {table: puts[some:]}}


FATES = ("lost", "answer_lost", "late", "throttled", "conflict")
_FATES_OF_RECORDS = dict.fromkeys(
    ("put_item", "get_item", "update_item"), ("lost", "answer_lost", "throttled")
)
"""A late or repeated delete of Powertools' removes whatever is there by then: records have no owner."""

_PARTIAL: dict[str, Callable[[Network, Arguments], Any]] = {
    "batch_execute_statement": Network.some_statements,
    "batch_get_item": Network.some_keys,
    "batch_write_item": Network.some_puts,
}


def _said(answer: object) -> str:
    if isinstance(answer, ClientError):
        return f"refused ({answer.response['Error']['Code']})"
    if isinstance(answer, dict) and "Responses" in answer and isinstance(answer["Responses"], list):
        return ", ".join(one.get("Error", {}).get("Code", "done") for one in answer["Responses"])
    return "done"


class Client:
    """botocore's interface, as far as the package uses it."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def update_item(self, **arguments: Any) -> Any:
        return self._network.send("update_item", arguments)

    def get_item(self, **arguments: Any) -> Any:
        return self._network.send("get_item", arguments)

    def query(self, **arguments: Any) -> Any:
        return self._network.send("query", arguments)

    def batch_get_item(self, **arguments: Any) -> Any:
        return self._network.send("batch_get_item", arguments)

    def batch_write_item(self, **arguments: Any) -> Any:
        return self._network.send("batch_write_item", arguments)

    def batch_execute_statement(self, **arguments: Any) -> Any:
        return self._network.send("batch_execute_statement", arguments)

    def transact_write_items(self, **arguments: Any) -> Any:
        return self._network.send("transact_write_items", arguments)
