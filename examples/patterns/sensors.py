"""
A sensor store: readings that come late, twice and in any order, and calibrations made from what is stored.

The newest reading replaces its sensor's item. A calibration is written with ``expected=``, in an item of its
own that keeps its last changes, so that a redelivered message is recognised, also after an unknown outcome.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from lambda_once.patterns.ratchet import Ratchet

sensors = Ratchet("sensors", key=("site", "sensor"), stamp="at")


def record(event: dict[str, Any]) -> object:
    """Keep the newest reading of a sensor, or remove the sensor, in whatever order the events come."""
    key, at = {name: event[name] for name in ("site", "sensor")}, datetime.fromisoformat(event["at"])
    if event["type"] == "removed":
        return sensors.delete(key, at)
    return sensors.put({**key, "celsius": event["celsius"]}, at)


def calibrate(message: dict[str, Any]) -> None:
    """Add to the offset of a sensor, once; an error is a `RetryLater`: deliver the message again."""
    key = {"site": f"{message['site']}#calibration", "sensor": message["sensor"]}
    read = sensors.get(key)
    item = {**key, "offset": 0} if read is None else read
    changes = item.get("changes", [])
    if message["id"] not in changes:
        offset = item["offset"] + Decimal(message["by"])
        with sensors.revision(after=item.get("at")) as revision:
            revision.put(
                {**item, "offset": offset, "changes": [*changes, message["id"]][-50:]}, expected=read
            )


def latest(site: str) -> dict[str, Decimal]:
    """Return the newest reading of each sensor."""
    return {item["sensor"]: item["celsius"] for item in sensors.query(site).items}
