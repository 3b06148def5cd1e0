from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from benchmarks import callgrind, cold_start, invocations, report, standin
from benchmarks.__main__ import Size, measured
from benchmarks.answers import Answers, Row
from benchmarks.cases import DUPLICATES, NEW, prepared
from benchmarks.meter import Meter
from benchmarks.sampling import Sample, Timing, interleaved
from benchmarks.sides import BOTH, OURS, QUIET, SAME, SIDES, THEIRS, Side
from benchmarks.world import conditions, function_environment, reaching
from lambda_once.core.variables import Listing
from lambda_once.core.writes import Acquire
from lambda_once.engine import pipeline
from lambda_once.stores import requests
from lambda_once.stores.batches import Batches
from lambda_once.stores.proof import is_answer
from lambda_once.stores.row import record_of
from lambda_once.testing import lambda_context
from tests.kit.strict.mounted import mounted
from tests.stores.test_requests import ACQUISITIONS

pytestmark = pytest.mark.timed

AWS = "https://dynamodb.eu-central-1.amazonaws.com"
TINY = Size(starts=1, cpu_rounds=1, cpu_times=1, rounds=2)
MEASURED = {
    cold_start.PART: (1, {side.name for side in (*BOTH, THEIRS)}),
    invocations.CPU: (1, {side.name for side in (*BOTH, THEIRS, SAME)}),
    invocations.TIME: (2, {side.name for side in (*BOTH, THEIRS)}),
}
"""The rounds of each part in such a run, and its sides."""


@pytest.fixture(scope="module")
def whole_run() -> list[Timing]:
    """Take every figure, as few times as it goes: recorded on the strict engine, batches by the stand-in."""
    with mounted():
        cases, rows = prepared(AWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batches, "usable", True)
        return measured(TINY, cases, rows, lambda _: None)


def test_every_part_is_measured_on_every_side(whole_run: list[Timing]) -> None:
    """Each part has cases, and each case a positive figure of every side for every round."""
    assert {timing.part for timing in whole_run} == MEASURED.keys()
    for timing in whole_run:
        rounds, sides = MEASURED[timing.part]
        assert timing.samples.keys() == sides
        for sample in timing.samples.values():
            assert len(sample.values) == rounds
            assert min(sample.values) > 0


def test_the_sum_of_a_cold_start_is_its_parts(whole_run: list[Timing]) -> None:
    """INIT and the first invocation are measured apart, and their sum is the sum of each start."""
    by_figure = {timing.case: timing.samples for timing in whole_run if timing.part == cold_start.PART}
    for side, sample in by_figure[cold_start.SUM_CPU].items():
        parts = (by_figure[figure][side].values for figure in ("INIT, CPU", "first invocation, CPU"))
        assert sample.values == pytest.approx([a + b for a, b in zip(*parts, strict=True)])


def first_cells(text: str) -> list[str]:
    """Return the headings of *text*, and the first cell of each row."""
    return [line.split(" | ")[0] for line in text.splitlines() if line.startswith(("|", "#"))]


def test_the_page_has_what_a_run_writes(whole_run: list[Timing]) -> None:
    """Tables and rows are those of the program, in its order."""
    page = report.README.read_text(encoding="utf-8")
    sections = report.sections(conditions(), whole_run)
    assert first_cells(report.section(page, "figures")) == first_cells(sections)


def test_each_ratio_of_the_short_table_is_measured(whole_run: list[Timing]) -> None:
    """Two digits of median by median; one client under both is measured in processor time alone."""
    rows = [row.strip("| ").split(" | ") for row in report.ratios(whole_run).splitlines()[2:]]
    assert [row[0] for row in rows] == list(report.RATIOS)
    by_case = {(timing.part, timing.case): timing for timing in whole_run}
    for name, ours, under_both, _ in rows:
        timing = by_case[report.RATIOS[name]]
        assert ours == f"{timing.ratio(OURS.name, THEIRS.name):.2f}×"
        assert (under_both == "–") == (timing.part != invocations.CPU)


def test_a_table_has_the_sides_that_were_measured() -> None:
    """Their medians, and the ratios of two of them; where nothing varies there are no quartiles."""
    samples = {
        THEIRS.name: (30_000.0,),
        OURS.name: (15_000.0,),
        SAME.name: (20_000.0,),
        QUIET.name: (10_000.0,),
    }
    timing = Timing("part", NEW, {side: Sample(values) for side, values in samples.items()})
    head, _, line = report.table("thousands", [timing]).splitlines()
    own = f"{SAME.name} | boto3 × of it | {QUIET.name} | × of our client's"
    assert head == f"| thousands | Powertools | boto3 | × | {own} |"
    assert line == "| 10 records, new | 30,000 | 15,000 | 0.50 | 20,000 | 0.75 | 10,000 | 0.50 |"


def test_figures_are_written_between_their_marks() -> None:
    """The text before and after the marks stays; the text between them goes; twice is once."""
    page = "# Title\n\n<!-- a: begin -->\n\nstale\n\n<!-- a: end -->\n\nafter\n"
    written = report.replaced(page, "a", "fresh")
    assert written == page.replace("stale", "fresh")
    assert report.replaced(written, "a", "fresh") == written
    assert report.section(written, "a") == "fresh"
    with pytest.raises(ValueError, match="not enough values"):
        report.replaced(page, "b", "fresh")


def test_a_count_is_that_of_its_block() -> None:
    """Each dump has the name and the instructions of one block; what else callgrind writes has no name."""
    dumped = "pid: 7\npart: 1\ndesc: Trigger: Client Request: {}\nevents: Ir\nfn=(1) a\n0 5\ntotals: {}\n"
    texts = [
        dumped.format("API event, new", 1234),
        dumped.format("other", 5),
        "desc: Trigger: end\ntotals: 9\n",
    ]
    assert callgrind.read(texts) == {"API event, new": 1234, "other": 5}


@pytest.fixture
def written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Completions of quick records are written together, however slow this machine is."""
    monkeypatch.setattr(pipeline, "LINGER", 0.5)


@pytest.mark.parametrize("acquisition", ACQUISITIONS.values(), ids=ACQUISITIONS)
def test_the_stand_in_grants_what_is_asked_for(acquisition: Acquire) -> None:
    """The new row, as DynamoDB returns it: an API's acquisition is sent again otherwise."""
    for asked in (
        requests.acquire("t", acquisition),
        requests.acquire_new("t", acquisition, Listing.AT_ONCE),
    ):
        status, body = Answers([]).to("UpdateItem", json.dumps(asked).encode())
        row = json.loads(body)["Attributes"]
        assert (status, is_answer(asked, {"Attributes": row})) == (200, True)
        assert record_of({**row, "fence": {"N": "1"}}).attempt_id == acquisition.attempt_id


@pytest.mark.usefixtures("written_together")
@pytest.mark.parametrize("name", [NEW, DUPLICATES])
@pytest.mark.parametrize("side", SIDES, ids=lambda side: str(side.name))
def test_recorded_answers_lead_to_the_same_requests(
    side: Side, name: str, endpoint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler sends the stand-in what it sends the engine whose rows it has, statements in batches."""
    monkeypatch.setattr(Batches, "usable", True)
    with function_environment(), reaching(endpoint or AWS):
        for each in SIDES:
            _drop_table(each)
    cases, rows = prepared(endpoint or AWS)
    with function_environment():
        with reaching(endpoint or AWS):
            on_engine = _requests(side, cases[name].event)
        assert _requests_of_the_stand_in(side, rows, cases[name].event) == on_engine
    assert ("BatchExecuteStatement" in on_engine) == (side is OURS)


def _drop_table(side: Side) -> None:
    client = side.client()
    if side.table in client.list_tables()["TableNames"]:
        client.delete_table(TableName=side.table)


def _requests_of_the_stand_in(side: Side, rows: Sequence[Row], event: dict[str, Any]) -> list[str]:
    with standin.running(rows) as endpoints, reaching(endpoints.nearest):
        return _requests(side, event)


def _requests(side: Side, event: dict[str, Any]) -> list[str]:
    client = side.client()
    meter = Meter(client)
    side.queue(client)(event, lambda_context())
    client.close()
    return sorted(meter.spent().calls)


@pytest.mark.parametrize("side", BOTH, ids=lambda side: str(side.name))
@pytest.mark.parametrize("encrypted", [False, True], ids=["HTTP", "TLS"])
def test_the_stand_in_answers_over_a_socket(side: Side, encrypted: bool) -> None:
    """A table in another process answers an acquisition of a recorded row with that row."""
    row = {"lockToken": {"S": "orders/a"}, "fence": {"N": "1"}}
    with function_environment(), standin.running([row]) as endpoints:
        with reaching(endpoints.encrypted if encrypted else endpoints.nearest):
            client = side.client()
        found = client.batch_get_item(RequestItems={"tokens": {"Keys": [{"lockToken": {"S": "orders/a"}}]}})
        assert found["Responses"] == {"tokens": [row]}
        with pytest.raises(ClientError, match="ConditionalCheckFailed") as refused:
            client.put_item(
                TableName="tokens", Item=row, ConditionExpression="attribute_not_exists(lockToken)"
            )
        assert refused.value.response["Item"] == row
        client.close()


def test_sides_take_turns() -> None:
    """Every other round runs in reverse, so that neither side always goes first."""
    order: list[str] = []

    def work(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = interleaved(2, {"a": lambda: work("a"), "b": lambda: work("b")})
    assert order == ["a", "b", "b", "a"]
    assert (found["a"].values, found["b"].values) == ((1.0, 4.0), (2.0, 3.0))


def test_a_sample_tells_its_middle_half() -> None:
    """The median and the quartiles are those of the values; one value is all three of them."""
    sample = Sample((1.0, 2.0, 3.0, 4.0, 100.0))
    assert (sample.median, sample.spread) == (3.0, (2.0, 4.0))
    assert Sample((7.0,)).spread == (7.0, 7.0)
