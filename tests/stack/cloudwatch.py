"""
CloudWatch's evaluation of alarms, minute by minute, as its user guide describes it.

An alarm looks, every minute, at windows of its period that end now (a sliding window). It asks for more of
them than EvaluationPeriods; missing ones count by TreatMissingData only where fewer than EvaluationPeriods
have data ("How alarm state is evaluated when data is missing"). It notifies when it begins to ring, and not
again while it rings.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from .named import ALARM, INSIGHT, of_type, resolved

LOOKS_BACK: Final = 2
"""Periods beyond EvaluationPeriods: the guide's examples retrieve 5 where 3 are evaluated."""
LATENCY: Final = 1
"""Minutes until a metric of the embedded format can be seen."""
STARTS: Final = 60
"""The minute of the first evaluation: the stack has run for an hour."""

Values = Sequence[float | None]


class State(Enum):
    OK = auto()
    ALARM = auto()


class Series(NamedTuple):
    """One metric, as CloudWatch stores it."""

    space: str
    metric: str
    dimensions: frozenset[tuple[str, str]]


class Point(NamedTuple):
    """What a series has of one minute or window."""

    total: float = 0.0
    samples: int = 0
    highest: float = float("-inf")
    lowest: float = float("inf")

    def and_(self, other: Point) -> Point:
        """Return both as one."""
        return Point(
            self.total + other.total,
            self.samples + other.samples,
            max(self.highest, other.highest),
            min(self.lowest, other.lowest),
        )

    def of(self, statistic: str) -> float | None:
        """Return *statistic*; None where there is no data."""
        if not self.samples:
            return None
        return {
            "Sum": self.total,
            "Maximum": self.highest,
            "Minimum": self.lowest,
            "SampleCount": float(self.samples),
        }[statistic]


@dataclass(frozen=True, slots=True)
class Metrics:
    """All data points of one scenario, by minute."""

    minutes: int
    series: defaultdict[Series, dict[int, Point]] = field(default_factory=lambda: defaultdict(dict))

    def put(self, series: Series, minute: int, value: float, times: int = 1) -> None:
        """Add *value*, *times* times."""
        known = self.series[series].get(minute, Point())
        self.series[series][minute] = known.and_(Point(value * times, times, value, value))


class Query(NamedTuple):
    """One element of an alarm's Metrics, or its only metric."""

    id: str
    expression: str
    """Empty for a metric."""
    series: Series | None
    statistic: str
    minutes: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm of the template, its intrinsics resolved."""

    name: str
    description: str
    queries: tuple[Query, ...]
    watched: str
    """The id of the query whose result is compared."""
    evaluated: int
    breaching: int
    threshold: float
    comparison: str
    missing: str

    def state(self, found: Values, before: State) -> State:
        """Return the state by the windows *found*, the newest first, after *before*."""
        real = [self._breaches(value) for value in found if value is not None]
        lacking = max(0, self.evaluated - len(real))
        considered = real[: self.evaluated]
        if lacking and self.missing == "ignore" and sum(considered) < self.breaching:
            return State.OK if False in considered else before
        breaching = sum(considered) + lacking * (self.missing == "breaching")
        return State.ALARM if breaching >= self.breaching else State.OK

    def rings(self, metrics: Metrics) -> list[int]:
        """Return the minutes at which it began to ring."""
        windows = dict(_evaluated(self, metrics))
        full, fresh = windows["full"], windows["fresh"]
        if self.missing != "breaching" and not any(
            value is not None and self._breaches(value) for value in {*full, *fresh}
        ):
            return []
        period = self.queries[0].minutes
        found: list[int] = []
        state = State.OK
        for minute in range(STARTS, metrics.minutes):
            ends = range(minute, -1, -period)[: self.evaluated + LOOKS_BACK]
            values = [fresh[minute], *(full[end] for end in ends[1:])]
            after = self.state(values, state)
            if after is State.ALARM and state is State.OK:
                found.append(minute)
            state = after
        return found

    def _breaches(self, value: float) -> bool:
        match self.comparison:
            case "GreaterThanThreshold":
                return value > self.threshold
            case "LessThanThreshold":
                return value < self.threshold
            case other:
                raise ValueError(f"{self.name}: this evaluator does not know {other}")


def alarms_of(template: dict[str, Any]) -> dict[str, Alarm]:
    """Return every alarm of *template* with its default parameters, by logical id."""
    return {
        name: _alarm(name, resolved(properties, template))
        for name, properties in of_type(template, ALARM).items()
    }


def _alarm(name: str, given: dict[str, Any]) -> Alarm:
    queries = tuple(_queries(given))
    returned = [query["Id"] for query in given.get("Metrics", []) if query.get("ReturnData", True)]
    dynamodb = any(query.series and query.series.space == "AWS/DynamoDB" for query in queries)
    return Alarm(
        name=name,
        description=given["AlarmDescription"],
        queries=queries,
        watched=(returned or [queries[0].id])[0],
        evaluated=given["EvaluationPeriods"],
        breaching=given.get("DatapointsToAlarm", given["EvaluationPeriods"]),
        threshold=float(given["Threshold"]),
        comparison=given["ComparisonOperator"],
        # API reference, PutMetricAlarm, TreatMissingData: "always ignore missing data".
        missing="ignore" if dynamodb else given["TreatMissingData"],
    )


def _queries(given: dict[str, Any]) -> Iterator[Query]:
    if "MetricName" in given:
        yield Query("metric", "", _series(given), given["Statistic"], given["Period"] // 60)
        return
    periods = [each.get("Period") or each.get("MetricStat", {}).get("Period") for each in given["Metrics"]]
    (period,) = {each for each in periods if each}
    for each in given["Metrics"]:
        stat = each.get("MetricStat")
        series = None if stat is None else _series(stat["Metric"])
        yield Query(
            each["Id"], each.get("Expression", ""), series, stat["Stat"] if stat else "Sum", period // 60
        )


def _series(metric: dict[str, Any]) -> Series:
    dimensions = frozenset((each["Name"], each["Value"]) for each in metric["Dimensions"])
    return Series(metric["Namespace"], metric["MetricName"], dimensions)


def _evaluated(alarm: Alarm, metrics: Metrics) -> Iterator[tuple[str, Values]]:
    """Yield what *alarm* compares of each window, by its last minute: all, and what can be seen by then."""
    for name, unseen in (("full", 0), ("fresh", LATENCY)):
        known: dict[str, Values] = {}
        for query in sorted(alarm.queries, key=lambda each: _depends(each.expression)):
            known[query.id] = _values(query, known, metrics, unseen)
        yield name, known[alarm.watched]


def _depends(expression: str) -> int:
    """Return when *expression* can be computed: metrics and SELECT first."""
    return 0 if not expression or expression.startswith("SELECT") else 1


def _values(query: Query, known: dict[str, Values], metrics: Metrics, unseen: int) -> Values:
    if query.series is not None:
        return _windows([query.series], query.statistic, query.minutes, metrics, unseen)
    selected = INSIGHT.match(query.expression)
    if selected is not None:
        return _windows(list(_selected(selected, metrics)), "Sum", query.minutes, metrics, unseen)
    if (filled := re.fullmatch(r"FILL\((\w+), 0\)", query.expression)) is not None:
        return [value or 0.0 for value in known[filled[1]]]
    if (of_all := re.fullmatch(r"(SUM|MAX)\(FILL\(METRICS\(\), 0\)\)", query.expression)) is not None:
        combine: Callable[[list[float]], float] = {"SUM": sum, "MAX": max}[of_all[1]]  # type: ignore[assignment]
        return [combine([value or 0.0 for value in each]) for each in zip(*known.values(), strict=True)]
    raise ValueError(f"this evaluator cannot compute {query.expression}")


def _selected(found: re.Match[str], metrics: Metrics) -> Iterator[Series]:
    """Yield the series that a Metrics Insights query is about."""
    names = set(re.findall(r"\w+", found["names"]))
    for series in metrics.series:
        of_the_name = (series.space, series.metric) == (found["space"], found["metric"])
        if of_the_name and {key for key, _ in series.dimensions} == names:
            yield series


def _windows(
    series: list[Series], statistic: str, length: int, metrics: Metrics, unseen: int
) -> list[float | None]:
    """Return *statistic* of *series* together in the *length* minutes to each minute, less those *unseen*."""
    points: defaultdict[int, Point] = defaultdict(Point)
    for each in series:
        for minute, point in metrics.series.get(each, {}).items():
            points[minute] = points[minute].and_(point)
    ends = {minute + later for minute in points for later in range(unseen, length)}
    found: list[float | None] = [None] * metrics.minutes
    for end in ends:
        if end < metrics.minutes:
            whole = Point()
            for minute in range(end - length + 1, end - unseen + 1):
                if minute in points:
                    whole = whole.and_(points[minute])
            found[end] = whole.of(statistic)
    return found
