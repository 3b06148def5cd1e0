from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest

from benchmarks import cost, recording, report, standin
from benchmarks.answers import Answers
from benchmarks.counting import Meter
from benchmarks.figures import Run
from benchmarks.run import FULL, QUICK, Size, measured, prepared
from benchmarks.sampling import Sample, interleaved
from benchmarks.sides import OURS, SIDES, Side
from benchmarks.transport import answered
from benchmarks.world import function_environment, reaching
from lambda_once.stores.batches import Batches
from lambda_once.testing import lambda_context
from tests.kit.strict.mounted import batches_sent, mounted

AWS = "https://dynamodb.eu-central-1.amazonaws.com"
TINY = Size(
    rounds=2,
    scaling_rounds=2,
    cpu_rounds=2,
    cpu_times=1,
    starts=1,
    imports=1,
    latencies=(0, 1),
    batches=(1, 2),
    results=(1_000, 500_000),
)


@pytest.fixture(scope="module")
def whole_run() -> Run:
    """Take every figure, as few times as it goes: recorded on the strict engine, batches by the stand-in."""
    with mounted():
        known = prepared(TINY, AWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batches, "usable", True)
        return measured(TINY, known, lambda _: None)


def test_every_part_is_measured_on_both_sides(whole_run: Run) -> None:
    """Each part has cases, and each case a positive figure of either side for every round."""
    for part in report.TITLES:
        timings = whole_run.of(part)
        assert timings
        for timing in timings:
            rounds = 1 if part == "cold" else 2
            assert len(timing.ours.values) == rounds
            assert min(timing.ours.values) > 0
            assert timing.theirs is None or len(timing.theirs.values) == rounds
            assert (timing.theirs is None) == bool(timing.note)


def test_a_result_that_no_item_holds_is_said_to_be_refused(whole_run: Run) -> None:
    """The sizes that Powertools cannot store have a note in place of a figure; all others have figures."""
    refused = {timing.case for timing in whole_run.timings if timing.theirs is None}
    assert refused == {"500 KB, new", "500 KB, duplicate"}


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


def test_a_cold_start_counts_our_own_modules(whole_run: Run) -> None:
    """Of every face it is told how many modules are ours, and what they take by themselves."""
    assert {share.case for share in whole_run.shares} == {"queue", "api"}
    for share in whole_run.shares:
        assert share.modules > 20
        assert share.ours.median > 0


def test_the_page_gets_the_figures_between_its_marks(whole_run: Run) -> None:
    """What stands before and after the marks stays; what stood between them goes; twice is once."""
    page = f"# Title\n\n{report.BEGIN}\nstale-figures\n{report.END}\n\nafter\n"
    written = report.replaced(page, whole_run)
    assert written.startswith("# Title\n")
    assert written.endswith("\n\nafter\n")
    assert "stale-figures" not in written
    for timing in whole_run.timings:
        assert f"| {timing.case} |" in written
    assert report.replaced(written, whole_run) == written


def test_the_table_has_every_case(whole_run: Run) -> None:
    """What is printed has a row for each case and each heading."""
    cases = len(whole_run.timings) + len(whole_run.costs) + len(whole_run.shares)
    assert report.table(whole_run).row_count == cases + len(report.TITLES) + 1


@pytest.mark.parametrize("event", ["batch", "seen_batch", "mixed"])
@pytest.mark.parametrize("side", SIDES, ids=lambda side: str(side.name))
def test_recorded_answers_lead_to_the_same_requests(side: Side, event: str) -> None:
    """A handler sends a table that answers from a record what it sends the engine that was recorded."""
    with function_environment(), reaching(AWS), batches_sent():
        on_engine, by_record = _requests_of(side, event, mounted())
    assert by_record == on_engine


@pytest.mark.engine
@pytest.mark.parametrize("event", ["batch", "seen_batch", "mixed"])
def test_recorded_answers_to_batches_lead_to_the_same_requests(
    event: str, dynamodb_local: str, partiql: None
) -> None:
    """The same holds for statements in batches."""
    with function_environment(), reaching(dynamodb_local):
        on_engine, by_record = _requests_of(OURS, event, nullcontext())
    assert by_record == on_engine
    assert "BatchExecuteStatement" in on_engine


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


def test_the_stand_in_answers_over_http() -> None:
    """A table in another process gives the recorded row for the answer to a claim of it."""
    row = {"lockToken": {"S": "orders/a"}, "fence": {"N": "1"}}
    with function_environment(), standin.running([row], [0]) as endpoints, reaching(endpoints[0]):
        client = OURS.client()
        found = client.batch_get_item(RequestItems={"tokens": {"Keys": [{"lockToken": {"S": "orders/a"}}]}})
        assert found["Responses"] == {"tokens": [row]}
        with pytest.raises(client.exceptions.ConditionalCheckFailedException) as refused:
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

    ours, theirs = interleaved(2, [lambda: work("a"), lambda: work("b")])
    assert order == ["a", "b", "b", "a"]
    assert (ours.values, theirs.values) == ((1.0, 4.0), (2.0, 3.0))


def test_a_sample_tells_its_middle_half() -> None:
    """The median and the quartiles are those of the values; one value is all three of them."""
    sample = Sample((1.0, 2.0, 3.0, 4.0, 100.0))
    assert (sample.median, sample.spread) == (3.0, (2.0, 4.0))
    assert Sample((7.0,)).spread == (7.0, 7.0)


def test_a_full_run_has_what_a_quick_one_leaves_out() -> None:
    """A quick run takes fewer rounds and fewer sizes, at the same latencies."""
    assert QUICK.latencies == FULL.latencies
    assert QUICK.rounds < FULL.rounds
    assert set(QUICK.batches) < set(FULL.batches)


@pytest.mark.engine
def test_a_batch_costs_two_to_four_round_trips(dynamodb_local: str, partiql: None) -> None:
    """Ten records cost two requests where all are new or all are known, at most four where both are."""
    with function_environment(), reaching(dynamodb_local):
        for side in SIDES:
            _recreate(side)
        counted = {each.case: each.ours.calls for each in cost.costs()}
    assert len(counted["10 records, new"]) == 2
    assert len(counted["10 records, sent twice"]) == 2
    assert len(counted["10 records, redelivered"]) <= 2
    assert len(counted["10 records, 5 new, 5 sent twice"]) <= 4


def _recreate(side: Side) -> None:
    client = side.client()
    if side.table in client.list_tables()["TableNames"]:
        client.delete_table(TableName=side.table)
    side.create_table(client)
