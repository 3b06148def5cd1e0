from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from benchmarks import (
    callgrind,
    chart,
    cold_start,
    cost,
    counts,
    goals,
    processor,
    recording,
    report,
    standin,
)
from benchmarks.__main__ import PAGE
from benchmarks.answers import Answers
from benchmarks.counting import Meter
from benchmarks.figures import Run, Timing
from benchmarks.run import FULL, QUICK, Size, measured, prepared
from benchmarks.sampling import Sample, interleaved
from benchmarks.sides import BOTH, CRT, OURS, SAME, SIDES, THEIRS, Side
from benchmarks.transport import answered
from benchmarks.world import function_environment, reaching
from lambda_once.engine import pipeline
from lambda_once.stores.batches import Batches
from lambda_once.testing import lambda_context
from tests.kit.strict.mounted import batches_sent, mounted

pytestmark = pytest.mark.timed

AWS = "https://dynamodb.eu-central-1.amazonaws.com"
TINY = Size(
    rounds=2,
    cpu_rounds=1,
    cpu_times=1,
    starts=1,
    throttled=1,
    latencies=(1,),
)

TAKEN_ONCE = (cold_start.PART, cold_start.THROTTLED, processor.TLS, processor.HTTP, processor.STUB)
"""The parts of which such a run takes one round, of all others two."""


@pytest.fixture(scope="module")
def whole_run() -> Run:
    """Take every figure, as few times as it goes: recorded on the strict engine, batches by the stand-in."""
    with mounted():
        known = prepared(AWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batches, "usable", True)
        return measured(TINY, known, lambda _: None)


def test_every_part_is_measured_on_every_side(whole_run: Run) -> None:
    """Each part has cases, and each case a positive figure of every side for every round."""
    for part in report.TITLES:
        timings = whole_run.of(part)
        assert timings
        for timing in timings:
            rounds = 1 if part in TAKEN_ONCE else 2
            ours = (OURS,) if part == processor.STUB else BOTH
            assert {side.name for side in ours} <= timing.samples.keys()
            assert (THEIRS.name in timing.samples) != bool(timing.note)
            for sample in timing.samples.values():
                assert len(sample.values) == rounds
                assert min(sample.values) > 0


def test_processor_time_is_compared_with_one_client_on_both_sides(whole_run: Run) -> None:
    """Every case of processor time, with sockets and without, has Powertools with our client as well."""
    for part in (processor.TLS, processor.HTTP, processor.STUB):
        assert all(SAME.name in timing.samples for timing in whole_run.of(part))


def test_the_sum_of_a_cold_start_is_its_parts(whole_run: Run) -> None:
    """INIT and the first invocation are measured apart, and their sum is the sum of each start."""
    for face in cold_start.FACES:
        init, first, both = (
            whole_run.timing(cold_start.PART, f"{face}: {figure}")
            for figure in ("INIT, CPU", cold_start.FIRST_CPU, cold_start.SUM_CPU)
        )
        for side, sample in both.samples.items():
            apart = zip(init.samples[side].values, first.samples[side].values, strict=True)
            assert sample.values == pytest.approx([a + b for a, b in apart])


def test_round_trips_are_as_promised(whole_run: Run) -> None:
    """New work costs two requests, a duplicate one, and a cached duplicate none."""
    counted = {each.case: len(each.ours.calls) for each in whole_run.costs}
    assert counted["API event, new"] == 2
    assert counted["API event, duplicate"] == 1
    assert counted["API event, duplicate, cached"] == 0


def test_a_refused_write_is_counted(whole_run: Run) -> None:
    """A refused write is charged by the row that is there: a short one, or one with a result in it."""
    duplicate = next(each for each in whole_run.costs if each.case == "API event, duplicate")
    assert (duplicate.ours.refused_units, duplicate.theirs.refused_units) == (1, 1)
    assert (duplicate.ours.units, duplicate.theirs.units) == (1, 1)
    large = next(each for each in whole_run.costs if each.case == "result of 100 KB, duplicate")
    assert large.ours.units == 1
    assert large.theirs.units >= 97


def test_every_goal_is_compared(whole_run: Run) -> None:
    """A run has the case of each goal of its clients, but for the one at 5 ms, which it does not measure."""
    asked = [goal for goal in goals.GOALS if goal.side in {side.name for side in BOTH}]
    without = [goal for goal in asked if goal not in [each.goal for each in goals.found(whole_run)]]
    assert [goal.case for goal in without] == ["10 records, new, 5 ms"] * len(BOTH)


@pytest.mark.parametrize(("most", "reached"), [(0.5, True), (0.496, True), (0.49, False)])
def test_a_goal_is_reached_by_two_digits(most: float, reached: bool) -> None:
    """A ratio is compared with its goal as both are shown."""
    samples = {OURS.name: Sample((1.0,)), THEIRS.name: Sample((2.0,))}
    run = Run({}, [Timing("part", "case", samples)])
    (found,) = goals.found(run, (goals.Goal("", "part", "case", OURS.name, most),))
    assert (found.ratio, found.reached) == (0.5, reached)


def test_the_picture_has_each_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ratio of either client is written at its bar; drawn again, the file is the same."""
    monkeypatch.setattr(chart, "BOTH", (OURS, CRT))
    samples = {OURS.name: Sample((1.0,)), CRT.name: Sample((0.5,)), THEIRS.name: Sample((2.0,))}
    run = Run({}, [Timing(part, case, samples) for part, case in chart.GROUPS.values()])
    chart.draw(run, tmp_path / "one.svg")
    chart.draw(run, tmp_path / "two.svg")
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert drawn.count(">0.50×<") == drawn.count(">0.25×<") == len(chart.GROUPS)
    assert drawn == (tmp_path / "two.svg").read_text(encoding="utf-8")


def test_a_throttled_process_is_stopped_and_goes_on() -> None:
    """In its block a process gets a fraction of the time, and it runs to its end."""
    source = "import time\nwhile time.process_time() < 0.02: pass"
    with subprocess.Popen([sys.executable, "-c", source]) as process, cold_start.share_of_a_core(process):
        code = process.wait()
    assert code == 0


def test_the_page_gets_the_figures_between_its_marks(whole_run: Run) -> None:
    """The text before and after the marks stays; the text between them goes; twice is once."""
    page = f"# Title\n\n{report.BEGIN}\nstale-figures\n{report.END}\n\nafter\n"
    written = report.replaced(page, whole_run)
    assert written.startswith("# Title\n")
    assert written.endswith("\n\nafter\n")
    assert "stale-figures" not in written
    for timing in whole_run.timings:
        assert f"| {timing.case} |" in written
    assert report.replaced(written, whole_run) == written


def test_ratios_are_read_off_the_page(whole_run: Run) -> None:
    """What the page has of a case and a side is the ratio of the run; a missing heading has none."""
    page = report.markdown(whole_run)
    known = report.ratios(page, report.TITLES[processor.TLS])
    for timing in whole_run.of(processor.TLS):
        for side in BOTH:
            assert known[timing.case, side.name] == f"{timing.ratio(side.name):.2f}"
    assert len(known) == len(BOTH) * len(whole_run.of(processor.TLS))
    assert report.ratios(page, "No such table") == {}


def test_the_page_has_what_counts_are_printed_beside() -> None:
    """Each case that is counted has ratios over TLS on the page, and the page has a place for the counts."""
    page = PAGE.read_text(encoding="utf-8")
    known = report.ratios(page, report.TITLES[processor.TLS])
    assert {(case, OURS.name) for case in counts.CASES} <= known.keys()
    assert page.count(counts.BEGIN) == page.count(counts.END) == 1


def test_counts_stand_beside_the_ratios_of_the_page() -> None:
    """A row for each side, with its ratio here and there; what the page lacks is empty."""
    timing = Timing(counts.PART, processor.NEW, {OURS.name: Sample((1.5e4,)), THEIRS.name: Sample((3e4,))})
    page = f"### {counts.TITLE}\n\n{report.timed('thousands', [timing])}\n\n## After\n| a | × |\n"
    shown = counts.table(Run({}, [timing]), page)
    cells = [list(column.cells) for column in shown.columns]
    assert cells[1:4] == [[OURS.name, THEIRS.name], ["15,000", "30,000"], ["0.50", "1.00"]]
    assert cells[4:] == [["0.50", ""], ["", ""]]


def test_a_count_is_that_of_its_block(tmp_path: Path) -> None:
    """Each dump has the name and the instructions of one block; what else callgrind writes has no name."""
    dumped = "pid: 7\npart: 1\ndesc: Trigger: Client Request: {}\nevents: Ir\nfn=(1) a\n0 5\ntotals: {}\n"
    texts = [
        dumped.format("API event, new", 1234),
        dumped.format("other", 5),
        "desc: Trigger: end\ntotals: 9\n",
    ]
    assert callgrind.read(texts) == {"API event, new": 1234, "other": 5}


def test_the_table_has_every_case(whole_run: Run) -> None:
    """What is printed has a row for each case and each heading."""
    cases = len(whole_run.timings) + len(whole_run.costs) + len(goals.found(whole_run))
    assert report.table(whole_run).row_count == cases + len(report.TITLES) + 2


@pytest.mark.parametrize("event", ["batch", "seen_batch", "mixed"])
@pytest.mark.parametrize("side", SIDES, ids=lambda side: str(side.name))
@pytest.mark.usefixtures("written_together")
def test_recorded_answers_lead_to_the_same_requests(side: Side, event: str) -> None:
    """A handler sends a table that answers from a record what it sends the engine that was recorded."""
    with function_environment(), reaching(AWS), batches_sent():
        on_engine, by_record = _requests_of(side, event, mounted())
    assert by_record == on_engine


@pytest.mark.engine
@pytest.mark.usefixtures("written_together")
@pytest.mark.parametrize("event", ["batch", "seen_batch", "mixed"])
def test_recorded_answers_to_batches_lead_to_the_same_requests(
    event: str, engine_endpoint: str, partiql: None
) -> None:
    """The same holds for statements in batches."""
    with function_environment(), reaching(engine_endpoint):
        on_engine, by_record = _requests_of(OURS, event, nullcontext())
    assert by_record == on_engine
    assert "BatchExecuteStatement" in on_engine


@pytest.fixture
def written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Completions of quick records are written together, however slow this machine is."""
    monkeypatch.setattr(pipeline, "LINGER", 0.5)


def _requests_of(
    side: Side, event: str, engine: AbstractContextManager[object]
) -> tuple[list[str], list[str]]:
    """Return what *side* sends for *event*: to *engine*, and to a table that answers from a record."""
    with engine:
        for each in SIDES:
            _recreate(each)
        events = recording.new_events(())
        answers = Answers(recording.recorded(events).rows)
        given = getattr(events, event)
        on_engine = _requests(side, None, given)
    return on_engine, _requests(side, answers, given)


def _requests(side: Side, answers: Answers | None, event: dict[str, object]) -> list[str]:
    client = side.client() if answers is None else answered(side.client(), answers)
    meter = Meter(client)
    side.queue(client)(event, lambda_context())
    return sorted(meter.spent().calls)


@pytest.mark.parametrize("side", BOTH, ids=lambda side: str(side.name))
@pytest.mark.parametrize("encrypted", [False, True], ids=["HTTP", "TLS"])
def test_the_stand_in_answers_over_a_socket(side: Side, encrypted: bool) -> None:
    """A table in another process answers an acquisition of a recorded row with that row."""
    row = {"lockToken": {"S": "orders/a"}, "fence": {"N": "1"}}
    with function_environment(), standin.running([row], []) as endpoints:
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


def test_a_quick_run_is_a_full_one_in_fewer_rounds() -> None:
    """A quick run takes fewer rounds, at the same latencies."""
    assert QUICK.latencies == FULL.latencies
    assert QUICK.rounds < FULL.rounds


@pytest.mark.engine
def test_a_batch_costs_two_to_four_round_trips(engine_endpoint: str, partiql: None) -> None:
    """Ten records cost two requests where all are new or all are known, at most four where both are."""
    counted: dict[str, tuple[str, ...]] = {}
    with function_environment(), reaching(engine_endpoint):
        for _ in range(3):  # a first completion that no other joins within a millisecond goes out alone
            for side in SIDES:
                _recreate(side)
            for each in cost.costs():
                counted[each.case] = min(counted.get(each.case, each.ours.calls), each.ours.calls, key=len)
            if len(counted["10 records, new"]) == 2:
                break
    assert len(counted["10 records, new"]) == 2
    assert len(counted["10 records, sent twice"]) == 2
    assert len(counted["10 records, redelivered"]) <= 2
    assert len(counted["10 records, 5 new, 5 sent twice"]) <= 4


def _recreate(side: Side) -> None:
    client = side.client()
    if side.table in client.list_tables()["TableNames"]:
        client.delete_table(TableName=side.table)
    side.create_table(client)
