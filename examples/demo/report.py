"""What the demo prints: the handler in both forms, and a table of each scene."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from .scenes import Played, Step

COLUMNS = 80
"""Of everything that is printed."""
WIDTHS = (14, 21, 41)
"""Of a table's three columns, which have two spaces before each of them."""
HEAD = """\
lambda-once: what goes wrong on AWS Lambda, without the package and with it

  WITHOUT                              WITH
  def handler(event, context):         @once.sqs(key="orderId")
      for record in event["Records"]:  def handler(record):
          charge(record)                   key = once.current().downstream_key()
                                           charge(record, key)

once.… is a log event of the package, which keeps a DynamoDB row per order.
In scenes 2 and 3 the provider knows the idempotency key, and charges it once.
"""
TIMES = {0: "never", 1: "once", 2: "twice"}
NEXT = "Next: docs/tutorial.md."
BOLD, RED, GREEN = "1", "31", "32"
COLOURS = {r"(?m)^\d\. .*": BOLD, r"✗ (?:\S+ )*\S+": RED, r"✓ (?:\S+ )*\S+": GREEN}


def report(played: Sequence[Played], endpoint: str | None) -> str:
    """Return what is printed of the scenes *played*."""
    broken = sum(scene.broken for scene in played)
    where = "moto's DynamoDB in this process" if endpoint is None else f"the DynamoDB at {endpoint}"
    without, protected = (
        sum(count > 1 for charges in side for count in charges.values())
        for side in zip(*(scene.charges for scene in played), strict=True)
    )
    end = (
        f"✗ {broken} of {len(played)} scenes didn't end as promised, on {where}."
        if broken
        else f"✓ As promised: without the package {without} orders were charged twice, with it {protected}.\n"
        f"All this happened on {where}. {NEXT}"
    )
    scenes = (line for number, scene in enumerate(played, 1) for line in [*_scene(number, scene), ""])
    return "\n".join([HEAD, *scenes, end])


def coloured(text: str) -> str:
    """Return *text* with the colours of a terminal."""
    for pattern, colour in COLOURS.items():
        text = re.sub(pattern, f"\033[{colour}m\\g<0>\033[0m", text)
    return text


def _scene(number: int, played: Played) -> Iterator[str]:
    """Yield the lines of one scene; if it's broken, its promise, too."""
    yield f"{number}. {played.scene.title}"
    for step in played.steps:
        yield from _row(step)
    yield from _row(
        Step("in the end", *(_verdict(charges, played.scene.orders) for charges in played.charges))
    )
    order = played.scene.orders[-1]
    yield f"  {order}'s row: {played.row}. {played.scene.why}"
    if played.broken:
        yield "  ✗ This was promised:"
        for step in played.scene.promise:
            yield from _row(step)
        yield f"  {order}'s row: {played.scene.row}"


def _row(step: Step) -> Iterator[str]:
    """Yield the lines of one row of the table. A cell breaks after a comma."""
    joined = (cell.replace(" ", "\xa0").replace(",\xa0", ", ") for cell in step)
    cells = (wrap(cell, width) for cell, width in zip(joined, WIDTHS, strict=True))
    for name, without, protected in zip_longest(*cells, fillvalue=""):
        line = f"  {name:{WIDTHS[0]}}{without:{WIDTHS[1] + 2}}{protected}"
        yield line.replace("\xa0", " ").rstrip()


def _verdict(charges: Counter[str], orders: Sequence[str]) -> str:
    """Return which of *orders* were not charged once."""
    wrong = [
        f"{order} charged {TIMES.get(charges[order], 'often')}" for order in orders if charges[order] != 1
    ]
    return f"✗ {', '.join(wrong)}" if wrong else "✓ charged once"
