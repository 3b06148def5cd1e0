from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lambda_once.cli.app import app
from lambda_once.cli.plan import as_json, plan_lines
from lambda_once.patterns.sizing import LedgerPlan, Limit, plan
from tests.cli.shop import complaint


def _run(line: str) -> Result:
    """Call the command without a table, credentials or a region: it has no need of them."""
    return CliRunner().invoke(app, ["plan", *line.split()], catch_exceptions=False)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def _printed(line: str) -> Any:
    ran = _run(f"{line} --output json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


def test_plan_prints_the_explanation() -> None:
    """A line each, on standard output."""
    ran = _run("--lifetime 5m")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == plan_lines(plan(lifetime=300))


def test_a_plan_of_more_than_4000_units_warms_the_table() -> None:
    """That is where a new on-demand table starts; the notes have the figure to set."""
    at_the_start, beyond = plan(rate=4_000, lifetime=0.1, shards=200), plan(rate=1_000, lifetime=60)
    assert at_the_start.total_units == 4_000
    assert "on-demand" not in "\n".join(plan_lines(at_the_start))
    assert plan_lines(beyond)[-1] == (
        "a new on-demand table takes 4,000 units/s: before traffic starts, set its warm throughput to 18,000 "
        "write units, or provision as many"
    )


def test_a_plan_is_explained() -> None:
    """Rate, lifetime and item; what the plan, the cheapest number of shards and a period cost; headroom."""
    assert plan_lines(plan(rate=100, lifetime=300)) == [
        "shards: 7 (the fewest) for 100/s; an id is kept for 5 min, and forgotten after about 5 min 11 s",
        "an item: 4,454 ids of 8 bytes at most, others 321 bytes",
        "                      shards  bytes/item  units/write   units/s  read units",
        "the fewest                 7      35,953           36     3,600          64",
        "the cheapest             359       1,017            1       100         360",
        "one item per second        1       1,121            2       200           1",
        f"headroom: 33% of both limits; next limit: {Limit.WRITES.value}",
        "one item per second: its key ends with the second of the message",
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"rate": 1 / 60, "lifetime": timedelta(days=30)}, "shards: 2 (the fewest) for 1/m; an id"),
        (
            {"rate": 1 / 60, "lifetime": timedelta(days=30)},
            "for 30 d, and forgotten after about 30 d 23 h",
        ),
        ({"rate": 1, "lifetime": timedelta(days=1)}, "for 1 d, and forgotten after about 1 d"),
        ({"rate": 1 / 60, "lifetime": timedelta(days=30)}, "limit: the size of the item, at most 400 KB"),
        ({"rate": 100, "shards": 4, "headroom": 0}, "kept for 3 min 14 s (the most), and forgotten"),
        ({"lifetime": 300}, "shards: 1 for 16.2/s (the most); an id"),
        (
            {"rate": 10, "lifetime": 300, "id_bytes": None, "headroom": 0},
            "ids of 32 (the most) bytes at most, others",
        ),
        ({"rate": 10, "lifetime": 300, "other_bytes": None}, "(the most) bytes"),
        ({"lifetime": 300, "batch": 10}, "shards: 1 for 52/s (the most) in batches of 10; an id is"),
        ({"lifetime": 300, "batch": 10}, "add_all reads what it writes: 167 read units/s"),
        ({"rate": 1e-6, "lifetime": 1}, "shards: 1 (the fewest) for 0.0864/d"),
        ({"rate": 1e-6, "lifetime": 1}, "an item: 1 ids of 8 bytes at most, others 321 bytes"),
        ({"rate": 2.3, "lifetime": 1}, "for 2.3/s"),
        ({"rate": 200, "lifetime": 0.25, "shards": 2}, "kept for 0.25 s, and forgotten"),
        ({"rate": 20, "lifetime": 300, "shards": 2}, "this plan                  2 "),
        ({"rate": 20, "lifetime": 300, "headroom": 0.5}, "headroom: 50% of both limits"),
        (
            {"rate": 1, "lifetime": timedelta(days=1)},
            "one item per hour          1      29,121           29        29           8",
        ),
    ],
)
def test_what_was_computed_is_marked(given: dict[str, Any], text: str) -> None:
    """Each figure is in the unit that reads best."""
    assert text in "\n".join(plan_lines(plan(**given)))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--lifetime 5m", plan(lifetime=300)),
        ("--rate 100/s --lifetime 5m", plan(rate=100, lifetime=300)),
        ("--rate 100 --lifetime 300s", plan(rate=100, lifetime=300)),
        ("--rate 90/m", plan(rate=1.5)),
        ("--rate 5/h --shards 2", plan(rate=5 / 3600, shards=2)),
        ("--rate 0.5/d --lifetime 14d", plan(rate=0.5 / 86_400, lifetime=timedelta(days=14))),
        ("--lifetime 2h --id-bytes 36 --other-bytes 0", plan(lifetime=7_200, id_bytes=36, other_bytes=0)),
        ("--rate 10 --lifetime 5m --id-bytes max", plan(rate=10, lifetime=300, id_bytes=None)),
        ("--rate 10 --lifetime 5m --other-bytes max", plan(rate=10, lifetime=300, other_bytes=None)),
        ("--rate 1 --lifetime 5m --shards 1", plan(rate=1, lifetime=300, shards=1)),
        (
            "--rate 20 --lifetime 5m --shards 1 --headroom 0",
            plan(rate=20, lifetime=300, shards=1, headroom=0),
        ),
        ("--rate 1000 --lifetime 1m", plan(rate=1_000, lifetime=60)),
        ("--rate 100 --lifetime 5m --batch 10", plan(rate=100, lifetime=300, batch=10)),
        ("--rate 1/h --lifetime 1d", plan(rate=1 / 3_600, lifetime=timedelta(days=1))),
    ],
)
def test_options_are_the_arguments_of_plan(line: str, found: LedgerPlan) -> None:
    """What is left out is found; ``max`` leaves a size out."""
    printed = _printed(line)
    assert printed["rate"] == found.rate
    assert timedelta(seconds=printed["lifetime"]) == found.lifetime
    assert timedelta(seconds=printed["remembered"]) == found.remembered
    assert (printed["shards"], printed["idBytes"], printed["otherBytes"], printed["buckets"]) == (
        found.shards,
        found.id_bytes,
        found.other_bytes,
        found.buckets,
    )
    assert (printed["ids"], printed["itemBytes"], printed["limit"]) == (
        found.ids,
        found.item_bytes,
        found.limit.name.lower(),
    )
    assert (
        printed["writeUnits"],
        printed["totalUnits"],
        printed["readUnits"],
        printed["totalReadUnits"],
    ) == (
        found.write_units,
        found.total_units,
        found.read_units,
        found.total_read_units,
    )
    assert printed["solved"] == (None if found.solved is None else _camel(found.solved))
    assert (printed["headroom"], printed["batch"], printed["period"]) == (found.headroom, found.batch, None)
    assert printed["cheapest"] == as_json(found.cheapest)
    assert printed["byPeriod"] == (None if found.by_period is None else as_json(found.by_period))


def test_a_plan_is_one_line_of_jsonl() -> None:
    """For scripts."""
    (line,) = _run("--lifetime 5m --output jsonl").stdout.splitlines()
    assert json.loads(line) == _printed("--lifetime 5m")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "rate and lifetime depend on one another: give one of them"),
        ("--shards 3", "rate and lifetime depend on one another"),
        (
            "--rate 100/s --lifetime 5m --shards 1",
            (
                "no plan fits rate=100/s, lifetime=0:05:00, shards=1, id_bytes=8, other_bytes=200, "
                "batch=1, headroom=33%: give shards=7 or rate=16.2/s or lifetime="
            ),
        ),
        ("--rate 1000/s", "no plan fits rate=1,000/s"),
        ("--rate 900000 --lifetime 14d", "no plan fits rate=900,000/s, lifetime=14 days"),
        ("--rate 1/s --id-bytes max", "lifetime and id_bytes depend on one another"),
        (
            "--rate 1 --lifetime 1m --id-bytes max --other-bytes max",
            "depend on one another: give one of them",
        ),
        ("--rate 20/x", "'20/x' is not a rate: give 20/s, 90/m, 5/h or 100/d"),
        ("--rate 0/s", "'0/s' is not a rate"),
        ("--rate -1/s", "'-1/s' is not a rate"),
        ("--rate 999999999", "rate is 999999999.0: give ids a second"),
        ("--lifetime 0s", "lifetime is 0:00:00: give a time"),
        ("--lifetime 5", "'5' is not a duration"),
        ("--lifetime 99999w", "lifetime is 699993 days"),
        ("--lifetime 5m --shards 0", "shards is 0: give a whole number, 1 to 1,000"),
        ("--lifetime 5m --id-bytes 0", "id_bytes is 0: give a whole number, 1 to 409,600"),
        ("--lifetime 5m --id-bytes -1", "id_bytes is -1"),
        ("--lifetime 5m --id-bytes many", "'many' is not a valid"),
        (
            "--lifetime 5m --headroom 1",
            "headroom is 1.0: give the part of both limits to leave free, 0 to 0.9",
        ),
        ("--lifetime 5m --batch 0", "batch is 0: give a whole number, 1 to 10,000"),
        ("--lifetime 5m --headroom third", "'third' is not a valid float"),
        ("--lifetime 5m --other-bytes 409600", "no plan fits lifetime=0:05:00"),
    ],
)
def test_bad_input_is_one_line(line: str, why: str) -> None:
    """Of what is wrong and what could be, with exit code 2."""
    assert why in complaint(_run(line))
