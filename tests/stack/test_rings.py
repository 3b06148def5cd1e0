"""The alarms in played days: silent on healthy traffic, quick on loss, and again for the fortieth payment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import units
from tests.kit.recorded import ROOT, SHOP

from . import nested
from .cloudwatch import STARTS, Alarm, Metrics, Query, Series, State, alarms_of
from .days import SCENARIOS
from .named import ALARM, of_type
from .rings import PAGE, SIX, Rings, every_ring, markdown, replaced, rings

INFRASTRUCTURE = ROOT / "examples" / "infrastructure"
ALARMS = alarms_of(nested.flat(SHOP / "template.yaml"))
HEALTHY = {scenario.says for scenario in SCENARIOS[:6]}
BY_SENTENCE = {scenario.says: scenario for scenario in SCENARIOS}
METRIC = Series("Shop", "lost", frozenset())
_found: dict[str, dict[str, Rings]] = {}


@pytest.fixture
def found() -> dict[str, dict[str, Rings]]:
    """What rings in each scenario; played once."""
    if not _found:
        _found.update(every_ring())
    return _found


def alarm(missing: str, breaching: int = 3, *, minutes: int = 5) -> Alarm:
    """Return an alarm above 0, of *breaching* of three periods."""
    query = Query("metric", "", METRIC, "Maximum", minutes)
    return Alarm("Lost", "", (query,), "metric", 3, breaching, 0.0, "GreaterThanThreshold", missing)


def in_file(path: Path) -> set[str]:
    """Return the alarms of one template."""
    return {*of_type(nested.parsed(path), ALARM)}


def test_nothing_rings_on_healthy_traffic(found: dict[str, dict[str, Rings]]) -> None:
    """Small, steady, in batches of ten and slow; a minute of throttles; a redrive that runs."""
    assert len(HEALTHY) == 6
    assert {says: rang for says, rang in found.items() if says in HEALTHY and rang} == {}


def test_loss_rings_within_fifteen_minutes(found: dict[str, dict[str, Rings]]) -> None:
    """Where the queue delivers again, too, and at one order in ten seconds."""
    for says in BY_SENTENCE:
        if "5 % of one" in says:
            assert found[says]["TakenOver"].after <= 15
    assert found["two events are lost, an hour apart"]["TasksOverdue"].after <= 10


def test_each_held_payment_rings(found: dict[str, dict[str, Rings]]) -> None:
    """The one that is left for Monday mutes the total, but not the next forty."""
    rang = found["a payment is held on Friday, forty on Monday"]
    assert (rang["NewlyHeld"].times, rang["HeldTokens"].times) == (41, 1)


def test_the_second_loss_rings_while_the_first_is_left(found: dict[str, dict[str, Rings]]) -> None:
    """The total of overdue tasks rings once."""
    rang = found["two events are lost, an hour apart"]
    assert (rang["TasksOverdue"].times, rang["MissingTasks"].times) == (2, 1)


def test_a_pile_up_rings_before_a_lease_ends(found: dict[str, dict[str, Rings]]) -> None:
    """No other alarm knows of it; with a threshold of 0 the seventh isn't deployed."""
    assert found["work takes 6 minutes for an hour, in longer leases"].keys() == {"TasksInProgress"}
    tokens = nested.parsed(INFRASTRUCTURE / "tokens.yaml")
    layer = "arn:aws:lambda:eu-central-1:123456789012:layer:once:1"
    assert of_type(nested.decided(tokens, LayerArn=layer), ALARM).keys() == SIX - {"DeadLetters"}
    given = {"DeadLetterQueue": "letters", "InProgressThreshold": "1"}
    whole = nested.decided(tokens, LayerArn=layer, **given)
    assert of_type(whole, ALARM).keys() == SIX | {"TasksInProgress"}
    assert len(whole["Outputs"]["AlarmArns"]["Value"]["Fn::Join"][1]) == 7
    unwatched = nested.decided(tokens, **given)
    assert of_type(unwatched, ALARM).keys() == {
        *("NewlyHeld", "CompletionFailed", "StoreUnavailable", "DeadLetters")
    }
    assert len(unwatched["Outputs"]["AlarmArns"]["Value"]["Fn::Join"][1]) == 4


def test_each_loss_rings_though_the_watchdog_was_silent_between() -> None:
    """The alarm is over while data is missing; if it kept its state, the second loss wouldn't ring."""
    sound = ALARMS["TasksOverdue"]
    (query,) = sound.queries
    assert query.series is not None
    metrics = Metrics(600)
    for minute in (*range(60, 115, 5), *range(400, 600, 5)):
        metrics.put(query.series, minute, float(minute in (100, 105, 110, 400, 405, 410)))
    assert (len(sound.rings(metrics)), len(replace(sound, missing="ignore").rings(metrics))) == (2, 1)


def test_every_service_of_a_namespace_rings() -> None:
    """The queries select no service: one that is deployed later needs no alarm of its own."""
    metrics = Metrics(600)
    for space, minute in (("Orders", 100), ("Billing", 200)):
        dimensions = frozenset({("service", "billing"), ("function", "invoices")})
        for metric in ("held", "completionFailed", "errors", "unsent"):
            metrics.put(Series(space, metric, dimensions), minute, 1.0, 10)
    rang = {name: len(alarm.rings(metrics)) for name, alarm in ALARMS.items() if name != "WatchdogSilent"}
    once = {name for name, times in rang.items() if times == 1}
    assert once == {"NewlyHeld", "CompletionFailed", "WorkFailing", "MessagesUnsent"}
    assert sum(rang.values()) == len(once)


def test_without_filling_some_held_payments_do_not_ring() -> None:
    """An alarm on the query itself looks back, and is still ringing when the next one is held."""
    held = ALARMS["NewlyHeld"]
    bare = replace(held, watched="held")
    weekend = BY_SENTENCE["a payment is held on Friday, forty on Monday"]
    assert rings(weekend, {"bare": bare})["bare"].times < 41


def test_the_alarms_that_are_priced_are_those_of_the_templates() -> None:
    """A listed metric is charged, and one that a query finds; each alarm has the one kind or the other."""
    listed = {name: len([each for each in alarm.queries if each.series]) for name, alarm in ALARMS.items()}
    seventh = {"TasksInProgress"}
    own = {
        "the six of `tokens.yaml`": SIX,
        "the seventh, `TasksInProgress`": seventh,
        "`alarms.yaml`": in_file(INFRASTRUCTURE / "alarms.yaml"),
        "`operations.yaml`": in_file(INFRASTRUCTURE / "operations.yaml"),
    }
    assert in_file(INFRASTRUCTURE / "tokens.yaml") == SIX | seventh
    counts = {of: [listed[name] for name in names] for of, names in own.items()}
    assert {of: units.Alarms(sum(each), each.count(0)) for of, each in counts.items()} == units.ALARMS


def test_every_alarm_rings_somewhere(found: dict[str, dict[str, Rings]]) -> None:
    """None is there for show."""
    assert {name for rang in found.values() for name in rang} == ALARMS.keys()


def test_a_broken_alarm_is_noticed(found: dict[str, dict[str, Rings]]) -> None:
    """With a threshold that is never met, or on a metric that is never written, other rings come out."""
    assert [name for name in ALARMS if not _is_noticed(name, found)] == []


def _is_noticed(name: str, found: dict[str, dict[str, Rings]]) -> bool:
    """Return whether both faults of the alarm *name* change a row of the table."""
    sound = ALARMS[name]
    never = float("-inf") if sound.comparison == "LessThanThreshold" else float("inf")
    missing = "notBreaching" if sound.missing == "breaching" else sound.missing
    renamed = tuple(_renamed(query) for query in sound.queries)
    rang = next(scenario for scenario in SCENARIOS if name in found[scenario.says])
    faulty = (replace(sound, threshold=never, missing=missing), replace(sound, queries=renamed))
    return all(rings(rang, {name: each}).get(name) != found[rang.says][name] for each in faulty)


def _renamed(query: Query) -> Query:
    series = query.series and query.series._replace(metric="unknown")
    return query._replace(series=series, expression=query.expression.replace('("', '("un', 1))


def test_the_page_has_the_rings(found: dict[str, dict[str, Rings]]) -> None:
    """`python -m tests.stack.rings --docs` writes them."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == replaced(page, markdown(found))


@pytest.mark.parametrize(
    ("points", "ignore", "breaching", "not_breaching"),
    [
        ("0-X-X", "OK", "OK", "OK"),
        ("0----", "OK", "OK", "OK"),
        ("-----", "retain", "ALARM", "OK"),
        ("0XX-X", "ALARM", "ALARM", "ALARM"),
        ("----X", "retain", "ALARM", "OK"),
    ],
)
def test_missing_data_count_as_the_guide_has_it(
    points: str, ignore: str, breaching: str, not_breaching: str
) -> None:
    """The first table of "How alarm state is evaluated when data is missing": three of three."""
    for missing, expected in (("ignore", ignore), ("breaching", breaching), ("notBreaching", not_breaching)):
        assert _states(alarm(missing), points) == _expected(expected)


@pytest.mark.parametrize(
    ("points", "ignore", "breaching", "not_breaching"),
    [
        ("0-X-X", "ALARM", "ALARM", "ALARM"),
        ("00X0X", "ALARM", "ALARM", "ALARM"),
        ("0-X--", "OK", "ALARM", "OK"),
        ("----0", "OK", "ALARM", "OK"),
        ("----X", "retain", "ALARM", "OK"),
    ],
)
def test_two_of_three_count_as_the_guide_has_it(
    points: str, ignore: str, breaching: str, not_breaching: str
) -> None:
    """The second table."""
    for missing, expected in (("ignore", ignore), ("breaching", breaching), ("notBreaching", not_breaching)):
        assert _states(alarm(missing, 2), points) == _expected(expected)


def _states(given: Alarm, points: str) -> list[State]:
    """Return the states by *points*, the oldest first, after OK and after ALARM."""
    values = [{"0": 0.0, "X": 1.0, "-": None}[point] for point in reversed(points)]
    return [given.state(values, before) for before in (State.OK, State.ALARM)]


def _expected(name: str) -> list[State]:
    return [State.OK, State.ALARM] if name == "retain" else [State[name]] * 2


def test_it_rings_when_it_begins_alone() -> None:
    """Two spells of data ring twice, however long they are."""
    metrics = Metrics(600)
    for minute in (*range(100, 200), *range(400, 500)):
        metrics.put(METRIC, minute, 1.0)
    first, second = alarm("notBreaching", 1).rings(metrics)
    assert STARTS < 100 < first <= 102
    assert 400 < second <= 402


def test_an_alarm_on_dynamodb_keeps_its_state_without_data() -> None:
    """Without FILL the alarm on throttles would ring until the next value; with it, it is over."""
    sound = ALARMS["TableThrottled"]
    assert sound.missing == "ignore"
    bare = replace(sound, watched="indexWrites", evaluated=1, breaching=1)
    metrics = Metrics(600)
    series = next(query.series for query in sound.queries if query.id == "indexWrites")
    assert series is not None
    for minute in (*range(100, 120), *range(300, 320)):
        metrics.put(series, minute, 5.0)
    assert (len(bare.rings(metrics)), len(sound.rings(metrics))) == (1, 2)
