"""Powertools' log_metrics above a decorator: no replay leaves an empty set; no count is lost or doubled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import EphemeralMetrics, SchemaValidationError
from aws_lambda_powertools.metrics.provider.datadog import DatadogMetrics

from lambda_once import Held, MemoryStore, Once
from lambda_once.policies import HOLD
from lambda_once.testing import api_event, lambda_context, sqs_event

KINDS: dict[str, Callable[[], Any]] = {
    "Metrics": lambda: Metrics(namespace="Shop", service="shop"),
    "EphemeralMetrics": lambda: EphemeralMetrics(namespace="Shop", service="shop"),
    "a given provider": lambda: Metrics(provider=EphemeralMetrics(namespace="Shop", service="shop")),
    "DatadogMetrics": lambda: DatadogMetrics(namespace="Shop", flush_to_log=True),
}
EVENTS: dict[str, Any] = {
    "sqs": sqs_event({"id": 1}),
    "event": {"id": 1},
    "api_gateway": api_event("POST", "/orders", {"id": 1}, {"Idempotency-Key": "k"}),
}


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("POWERTOOLS_METRICS_DISABLED", "POWERTOOLS_DEV", "POWERTOOLS_METRICS_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    yield
    for kind in (Metrics, DatadogMetrics):  # they keep their metrics on the class
        kind().clear_metrics()


@pytest.fixture(params=KINDS)
def metrics(request: pytest.FixtureRequest) -> Any:
    """Give each kind of Metrics."""
    return KINDS[request.param]()


def handler_of(once: Once, metrics: Any, face: str, *, is_async: bool = False) -> Callable[[Any, Any], Any]:
    """Return a handler of *face*, or a plain one that calls a function; its work adds a metric."""

    def work(subject: Any) -> dict[str, Any]:
        unit = {} if isinstance(metrics, DatadogMetrics) else {"unit": "Count"}
        metrics.add_metric(name="shipped", value=1, **unit)
        return {"statusCode": 200}

    async def work_async(subject: Any) -> dict[str, Any]:
        return work(subject)

    function: Any = work_async if is_async else work
    if face == "function":
        charge = once.function(key="subject.id", name="work")(function)

        def handler(event: Any, context: Any) -> Any:
            with once.invocation(context):
                return charge(event)

        return handler
    key = {} if face == "api_gateway" else {"key": "id"}
    decorated: Callable[[Any, Any], Any] = getattr(once, face)(**key, name="work")(function)
    return decorated


def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Read the metric documents that were written to standard output."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"message"' not in line]


def sums(documents: list[dict[str, Any]], *dimensions: str) -> Counter[str]:
    """Return the sum of each metric that has *dimensions* and no others."""
    found: Counter[str] = Counter()
    for document in documents:
        (directive,) = document["_aws"]["CloudWatchMetrics"]
        if directive["Dimensions"] == [[*dimensions]]:
            found.update({each["Name"]: sum(document[each["Name"]]) for each in directive["Metrics"]})
    return found


@pytest.mark.parametrize("cold_start", [False, True])
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize(
    ("face", "is_async"),
    [(face, way) for face in EVENTS for way in (False, True)] + [("function", False)],
)
def test_a_replay_does_not_fail_or_warn_for_want_of_metrics(
    metrics: Any, face: str, is_async: bool, raises: bool, cold_start: bool
) -> None:
    """With raise_on_empty_metrics or without, the duplicates get what the first delivery got."""
    once = Once(store=MemoryStore(), service="shop", metrics=metrics)
    log_metrics = metrics.log_metrics(raise_on_empty_metrics=raises, capture_cold_start_metric=cold_start)
    handler = log_metrics(handler_of(once, metrics, face, is_async=is_async))
    event = EVENTS.get(face, {"id": 1})
    answers = [handler(event, lambda_context()) for _ in range(3)]
    expected: tuple[Any, Any] = ([], None) if face == "sqs" else (None, 200)
    assert [(each.get("batchItemFailures"), each.get("statusCode")) for each in answers] == [expected] * 3


@pytest.mark.parametrize(("raises", "error"), [(True, SchemaValidationError), (False, UserWarning)])
def test_twin_without_metrics(raises: bool, error: type[Exception]) -> None:
    """A Once that does not know the set leaves it empty: the tests above can fail."""
    metrics = KINDS["EphemeralMetrics"]()
    once = Once(store=MemoryStore(), service="shop")
    handler = metrics.log_metrics(raise_on_empty_metrics=raises)(handler_of(once, metrics, "sqs"))
    handler(EVENTS["sqs"], lambda_context())
    with pytest.raises(error, match=r"at least one metric|No application metrics"):
        handler(EVENTS["sqs"], lambda_context())


def test_work_without_metrics_raises_as_without_this_package() -> None:
    """What raise_on_empty_metrics is for: the work ran, and added none."""
    metrics = KINDS["EphemeralMetrics"]()

    @Once(store=MemoryStore(), service="shop", metrics=metrics).event(key="id")
    def work(event: Any) -> None: ...

    handler = metrics.log_metrics(raise_on_empty_metrics=True)(work)
    with pytest.raises(SchemaValidationError):
        handler({"id": 1}, lambda_context())


def test_a_refusal_is_not_hidden() -> None:
    """A duplicate of held work gets Held, not the complaint of an empty set."""
    metrics = KINDS["EphemeralMetrics"]()

    @Once(store=MemoryStore(), service="shop", metrics=metrics).event(key="id", on_error=lambda _: HOLD)
    def work(event: Any) -> None:
        metrics.add_metric(name="tried", unit="Count", value=1)
        raise LookupError

    handler = metrics.log_metrics(raise_on_empty_metrics=True)(work)
    with pytest.raises(LookupError):
        handler({"id": 1}, lambda_context())
    with pytest.raises(Held):
        handler({"id": 1}, lambda_context())


@pytest.mark.filterwarnings("ignore:Dimension 'stage' has already been added")  # Powertools 3.29, of its own
@pytest.mark.parametrize("flushes", [True, False])
def test_each_count_is_written_once(flushes: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Under the package's own dimensions, whether anybody flushes the user's Metrics or not."""
    metrics = KINDS["EphemeralMetrics"]()
    metrics.set_default_dimensions(stage="prod")
    handler = handler_of(Once(store=MemoryStore(), service="shop", metrics=metrics), metrics, "sqs")
    if flushes:
        handler = metrics.log_metrics(raise_on_empty_metrics=True)(handler)
    for _ in range(150):
        handler(EVENTS["sqs"], lambda_context())
    documents = written(capsys)
    ours = {"started": 1, "completed": 1, "replayed": 149, "sameContent": 0}
    assert {name: sums(documents, "service", "function")[name] for name in ours} == ours
    theirs = sums(documents, "stage", "service")
    assert theirs == ({"shipped": 1, "started": 0} if flushes else {})


def test_an_unflushed_set_gets_one_value() -> None:
    """Nobody flushes: the set gets one 0, and does not grow with replays."""
    metrics = KINDS["EphemeralMetrics"]()
    once = Once(store=MemoryStore(), service="shop", metrics=metrics)
    handler = handler_of(once, metrics, "event")
    handler({"id": 1}, lambda_context())
    metrics.clear_metrics()
    for _ in range(250):
        handler({"id": 1}, lambda_context())
    assert {name: metric["Value"] for name, metric in metrics.metric_set.items()} == {"started": [0.0]}


@pytest.mark.parametrize("raises", [False, True])
def test_disabled_metrics(
    raises: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Powertools' metrics are disabled, a replay writes, warns and raises nothing."""
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "true")
    metrics, store = KINDS["EphemeralMetrics"](), MemoryStore()
    handler_of(Once(store=store, service="shop"), metrics, "event")({"id": 1}, lambda_context())
    metrics.clear_metrics()
    once = Once(store=store, service="shop", metrics=metrics)
    handler = metrics.log_metrics(raise_on_empty_metrics=raises)(handler_of(once, metrics, "event"))
    for _ in range(250):
        assert handler({"id": 1}, lambda_context()) == {"statusCode": 200}
    assert written(capsys) == []


class _NoNamespace:
    metric_set: tuple[str, ...] = ()


class _Raises:
    namespace, metric_set = "Shop", ()

    def add_metric(self, **_: object) -> None:
        raise LookupError


@pytest.mark.parametrize(
    ("metrics", "failures"),
    [(EphemeralMetrics(), 0), (_NoNamespace(), 0), (object(), 0), (_Raises(), 1)],
    ids=["Powertools' without a namespace", "no namespace", "nothing known", "raises"],
)
def test_other_objects_never_decide_an_outcome(
    metrics: Any, failures: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A set that could not be flushed stays empty; an object that raises is logged once."""
    once = Once(store=MemoryStore(), service=f"heard-of-nowhere-else-{failures}", metrics=metrics)

    @once.event(key="id")
    def handler(event: Any) -> int:
        return 1

    assert [handler({"id": 1}, lambda_context()) for _ in range(3)] == [1, 1, 1]
    assert capsys.readouterr().out.count("once.report_failed") == failures
    assert not getattr(metrics, "metric_set", ())
