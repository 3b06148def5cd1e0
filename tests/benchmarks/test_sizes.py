from __future__ import annotations

import pytest

from benchmarks import report, sizes, standin
from benchmarks.__main__ import PAGE
from benchmarks.figures import Timing
from benchmarks.run import recorded
from benchmarks.sides import BOTH, THEIRS
from benchmarks.sizes import FACES, KEPT_BY, Sizes
from benchmarks.world import function_environment, reaching
from lambda_once.stores.batches import Batches
from tests.kit.strict.mounted import mounted

pytestmark = pytest.mark.timed

AWS = "https://dynamodb.eu-central-1.amazonaws.com"
TINY = Sizes(rounds=1, batches=(1, 2), records=(10, 30), theirs=10, results=(1_000, 500_000), invocations=5)


@pytest.fixture(scope="module")
def timings() -> list[Timing]:
    """Measure each size once."""
    with mounted():
        events, known = recorded(TINY.results, AWS)
    with pytest.MonkeyPatch.context() as patch, function_environment():
        patch.setattr(Batches, "usable", True)
        with standin.running(known.rows, [sizes.LATENCY]) as endpoints:
            return list(sizes.timings(TINY, events, known, endpoints))


def test_each_size_is_measured(timings: list[Timing]) -> None:
    """Each part has its cases with each client of ours; a note is there where Powertools is not."""
    assert {timing.part for timing in timings} == sizes.TITLES.keys()
    for timing in timings:
        assert {side.name for side in BOTH} <= timing.samples.keys()
        assert (THEIRS.name in timing.samples) != bool(timing.note)


def test_records_of_a_fifo_queue_and_many_records_are_ours_alone(timings: list[Timing]) -> None:
    """Powertools gets as many records as take bounded time."""
    unmeasured = [timing.case for timing in timings if timing.note == sizes.UNMEASURED]
    ordered = [f"{count} records{name}" for name in list(sizes.GROUPS)[1:] for count in TINY.records]
    assert unmeasured == ["30 records", *ordered]


def test_a_result_that_no_item_holds_is_refused(timings: list[Timing]) -> None:
    """The sizes that Powertools cannot store have a note in place of a figure; all others have figures."""
    refused = {(timing.part, timing.case) for timing in timings if timing.note == sizes.REFUSED}
    cases = ("500 KB, new", "500 KB, duplicate")
    assert refused == {(part, case) for part in (sizes.RESULTS, sizes.RESULTS_CPU) for case in cases}


@pytest.mark.parametrize("case", FACES)
@pytest.mark.parametrize("side", KEPT_BY)
def test_memory_is_compared(side: str, case: str) -> None:
    """Objects and resident memory are read off before and after."""
    with function_environment(), standin.running([], []) as endpoints, reaching(endpoints.nearest):
        objects, _, before = sizes.kept(KEPT_BY[side], case, 5)
    assert abs(objects) < 5_000
    assert before > 10_000


@pytest.mark.parametrize("answer", [{"statusCode": 503}, {"batchItemFailures": [{"itemIdentifier": "a"}]}])
def test_memory_of_failed_work_is_not_compared(answer: dict[str, object]) -> None:
    """Where the table does not answer, there is no figure."""
    with pytest.raises(RuntimeError, match="the work failed"):
        sizes._worked(lambda *_: answer, {})


def test_the_page_has_a_place_for_the_tables() -> None:
    """`make docs` writes between the marks."""
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(sizes.BEGIN) == page.count(sizes.END) == 1
    assert report.between(page, sizes.BEGIN, sizes.END, f"{sizes.BEGIN}{sizes.END}").startswith(
        "# Benchmarks"
    )
