"""examples/patterns/sensors.py: redeliveries, two consumers, lost requests and answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest

from lambda_once.dynamodb.items import plain_item
from lambda_once.patterns.ratchet import Ratchet, requests, timestamps
from lambda_once.patterns.results import Conflict
from lambda_once.testing import FakeClock
from tests.kit.faulty import FaultyClient, by_seed
from tests.patterns.applications.rig import Between, Figure, defined_in, delivered, measured
from tests.patterns.conftest import Ground
from tests.patterns.meter import Meter

NOW = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
SITE = "north"
SENSORS = ("t1", "t2", "t3")
CALIBRATION = {"site": f"{SITE}#calibration", "sensor": "t1"}
Message = dict[str, Any]


def store(client: Any, table: str, *, apart: float = 0) -> Any:
    """Return its functions on *table*, of a consumer whose clock is *apart* seconds from `NOW`."""
    clock = FakeClock(NOW + timedelta(seconds=apart))
    sensors = Ratchet(table, client, key=("site", "sensor"), stamp="at", clock=clock)
    return defined_in("examples/patterns/sensors.py", "record", "calibrate", "latest", sensors=sensors)


def sensors_table(ground: Ground) -> str:
    """Return a table with one item from before: the calibration of a sensor, without a timestamp."""
    table = ground.table("site", "sensor")
    item = {name: {"S": each} for name, each in CALIBRATION.items()} | {"offset": {"N": "0.5"}}
    ground.client.put_item(TableName=table, Item=item)
    return table


def reading(sensor: str, n: int) -> Message:
    """Return the *n*-th reading of *sensor*, 0.3 ms after the one before; its value has the number."""
    at = (NOW + timedelta(microseconds=300 * n)).isoformat()
    return {"type": "reading", "site": SITE, "sensor": sensor, "at": at, "celsius": n + 0.5}


def removal(sensor: str, n: int) -> Message:
    """Return the removal of *sensor* between its *n*-th reading and the next."""
    at = (NOW + timedelta(microseconds=300 * n + 1)).isoformat()
    return {"type": "removed", "site": SITE, "sensor": sensor, "at": at}


def calibration(n: int) -> Message:
    """Return a message that adds a hundredth."""
    return {"type": "calibration", "site": SITE, "sensor": "t1", "id": f"c{n}", "by": "0.01"}


READINGS = 12
MESSAGES = [
    *(reading(sensor, n) for sensor in SENSORS for n in range(READINGS)),
    removal("t2", 5),  # it reports again later
    removal("t3", READINGS),  # it stays removed
    *(calibration(n) for n in range(8)),
]
NEWEST = {"t1": Decimal("11.5"), "t2": Decimal("11.5")}


def consumer(functions: Any) -> Callable[[Message], object]:
    """Return what processes any of the messages by *functions*."""
    return lambda message: (
        functions.calibrate(message) if message["type"] == "calibration" else functions.record(message)
    )


def run(ground: Ground, seed: int) -> tuple[dict[str, Any], Decimal, list[str]]:
    """Deliver all messages to two consumers on bad lines; return readings, offset and ids of calibrations."""
    table = sensors_table(ground)
    lines = [FaultyClient(ground.client, by_seed(2 * seed + n)) for n in range(2)]
    stores = [store(line, table, apart=n - 0.7) for n, line in enumerate(lines)]
    delivered(MESSAGES, [consumer(each) for each in stores], seed)
    for line in lines:
        line.deliver()
    key = {name: {"S": each} for name, each in CALIBRATION.items()}
    item = plain_item(ground.client.get_item(TableName=table, Key=key, ConsistentRead=True)["Item"])
    return store(ground.client, table).latest(SITE), item["offset"], sorted(item["changes"])


ALL_OF_THEM = (NEWEST, Decimal("0.58"), [f"c{n}" for n in range(8)])


@pytest.mark.engine
@pytest.mark.parametrize("seed", range(6))
def test_every_delivery_ends_in_the_newest_readings_and_each_change_once(engine: Ground, seed: int) -> None:
    """Any order, a third twice, two consumers, requests and answers lost, copies late: one exact end."""
    assert run(engine, seed) == ALL_OF_THEM


@pytest.mark.engine
def test_with_timestamps_of_whole_milliseconds_an_older_reading_stays(
    engine: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: of readings 0.3 ms apart a digest decides."""
    exact = timestamps.milliseconds
    monkeypatch.setattr(timestamps, "milliseconds", lambda *at: int(exact(*at)))
    assert run(engine, 0)[0] != NEWEST


def test_every_permutation_ends_alike(ground: Ground) -> None:
    """Three readings within a millisecond and a removal between them; the table's items too."""
    ends, table = [], ground.table("site", "sensor")
    for order in permutations([reading("t1", 0), reading("t1", 1), removal("t1", 1), reading("t1", 2)]):
        for message in (*order, order[0]):
            store(ground.client, table).record(message)
        ends.append(ground.client.scan(TableName=table, ConsistentRead=True)["Items"])
        key = {"site": {"S": SITE}, "sensor": {"S": "t1"}}
        ground.client.delete_item(TableName=table, Key=key)
    assert all(end == ends[0] for end in ends)
    assert ends[0][0]["at"] == {"N": "1795168800000.6"}


def two_that_read_the_item_from_before(ground: Ground) -> Decimal:
    """Let one calibrate between another's read and write, deliver again what failed; return the offset."""
    table = sensors_table(ground)
    other = store(ground.client, table)
    mine = store(Between(ground.client, lambda: other.calibrate(calibration(1))), table, apart=1)
    try:
        mine.calibrate(calibration(2))
    except Conflict:
        mine.calibrate(calibration(2))
    key = {name: {"S": each} for name, each in CALIBRATION.items()}
    offset: Decimal = plain_item(ground.client.get_item(TableName=table, Key=key)["Item"])["offset"]
    return offset


def test_two_changes_of_an_item_from_before_are_two(ground: Ground) -> None:
    """The second is a `Conflict`, and is made again of what the first wrote."""
    assert two_that_read_the_item_from_before(ground) == Decimal("0.52")


def test_without_the_check_for_a_timestamp_a_change_is_lost(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin."""
    monkeypatch.setattr(requests, "WITHOUT_STAMP", "attribute_exists(#pk)")
    assert two_that_read_the_item_from_before(ground) == Decimal("0.51")


# -- what it costs


def figures(ground: Ground) -> list[Figure]:
    """Return the figures of fixed runs."""
    meter = Meter(ground.client)
    table = sensors_table(ground)
    before = Ratchet(table, meter, key=("site", "sensor"), stamp="at", clock=FakeClock(NOW))
    tokens = Ratchet(table, meter, key=("site", "sensor"), stamp="at", ahead=None)
    page = store(meter, sensors_table(ground))
    messages = [reading(sensor, n) for sensor in SENSORS for n in (1, 0, 1, 3, 2)]

    def with_text() -> None:
        """Record with texts as tokens: the order of microseconds, but a wrong clock is not noticed."""
        for message in messages:
            at = datetime.fromisoformat(message["at"]).isoformat(timespec="microseconds")
            key = {name: message[name] for name in ("site", "sensor")}
            tokens.put({**key, "celsius": message["celsius"]}, at)

    def adopted_first() -> None:
        """Give the item a timestamp, which a change of another writer may be lost by, then change it."""
        old = before.get(CALIBRATION)
        assert old is not None
        before.put(old, NOW - timedelta(days=1))
        read = before.get(CALIBRATION)
        assert read is not None
        with before.revision(after=read["at"]) as revision:
            new = {**read, "offset": read["offset"] + Decimal("0.01"), "changes": ["c1"]}
            revision.put(new, expected=read)

    def readings() -> None:
        for message in messages:
            page.record(message)

    def as_read() -> None:
        page.calibrate(calibration(1))

    return [
        measured(meter, "15 readings of 3 sensors, 6 of them late or twice", with_text, readings),
        measured(meter, "the first change of an item from before", adopted_first, as_read),
        measured(meter, "the same message again", lambda: before.get(CALIBRATION), as_read),
    ]
