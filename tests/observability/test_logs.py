from __future__ import annotations

import io
import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.buffer import LoggerBufferConfig

from lambda_once.observability import reporter
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter, Tally, level_of


@pytest.fixture
def service() -> str:
    """Name a service that no logger of this process has yet."""
    return f"shop.{uuid4().hex}"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("POWERTOOLS_LOG_LEVEL", "LOG_LEVEL", "AWS_LAMBDA_LOG_LEVEL", "POWERTOOLS_DEV"):
        monkeypatch.delenv(name, raising=False)
    filters = {handler: list(handler.filters) for handler in logging.root.handlers}
    yield
    for handler, before in filters.items():  # a Powertools Logger adds one to each of them
        handler.filters[:] = before


def lines(text: str) -> list[dict[str, Any]]:
    """Read the JSON lines of a log."""
    return [json.loads(line) for line in text.splitlines()]


def messages(text: str) -> list[str]:
    """Return what the lines of a log say."""
    return [line["message"] for line in lines(text)]


def test_a_powertools_logger(service: str) -> None:
    """The line has the stable name as its message, the fields beside it, and the user's own keys."""
    stream = io.StringIO()
    logger = Logger(service=service, stream=stream)
    logger.append_keys(correlation_id="c1")
    reporter = Reporter("another", logger=logger)
    details = Details(Event.SAME_CONTENT, token="orders/charge/%s", name="charge", fence=0)
    reporter.report(details, Tally())
    (line,) = lines(stream.getvalue())
    assert (line["message"], line["level"]) == ("once.same_content", "WARNING")
    assert (line["token"], line["once_name"], line["fence"]) == ("orders/charge/%s", "charge", 0)
    assert (line["correlation_id"], line["service"]) == ("c1", service)


def test_a_standard_logger(caplog: pytest.LogCaptureFixture) -> None:
    """A logger of the standard library gets the same name and fields."""
    reporter = Reporter("orders", logger=logging.getLogger("plain"))
    reporter.report(Details(Event.HELD, token="orders/charge/1"), Tally())
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == ("plain", "ERROR", "once.held")
    assert vars(record)["token"] == "orders/charge/1"


def test_a_line_names_the_users_code(service: str, caplog: pytest.LogCaptureFixture) -> None:
    """The place that called this package, and never one in it; the user's own lines are as before."""
    stream = io.StringIO()
    logger = Logger(service=service, stream=stream)
    Reporter(logger=logger).report(Details(Event.HELD), Tally())
    logger.info("theirs")
    line, theirs = lines(stream.getvalue())
    for each in (line, theirs):
        assert re.fullmatch(r"test_a_line_names_the_users_code:\d+", each["location"])
    assert line["location"] != theirs["location"]
    Reporter(logger=logging.getLogger("plain")).report(Details(Event.HELD), Tally())
    assert (caplog.records[-1].module, caplog.records[-1].funcName) == (
        "test_logs",
        "test_a_line_names_the_users_code",
    )


def test_without_code_of_the_users_the_place_is_unknown(service: str) -> None:
    """As in a thread of the standard library; logging's words."""
    stream = io.StringIO()
    made = Reporter(logger=Logger(service=service, stream=stream))
    thread = threading.Thread(target=made.report, args=(Details(Event.HELD), Tally()))
    thread.start()
    thread.join()
    (line,) = lines(stream.getvalue())
    assert line["location"] == "(unknown function):0"


def test_a_line_of_our_own_logger_has_no_location(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be a line of this package, which helps nobody; all else is there."""
    Reporter(service).report(Details(Event.HELD), Tally())
    (line,) = lines(capsys.readouterr().out)
    assert "location" not in line
    assert line.keys() >= {"level", "message", "timestamp", "service"}


def test_no_field_replaces_what_a_record_has() -> None:
    """`extra` would refuse it with a KeyError; the fields are put there without that check."""
    record = vars(logging.makeLogRecord({})) | {"message": "", "asctime": "", "taskName": ""}
    assert not set(reporter._LABELS) & record.keys()


def test_a_message_is_no_json(service: str) -> None:
    """Powertools' formatter does not try to read it, which costs as much as to write the line's fields."""
    tried: Any = []
    stream = io.StringIO()
    logger = Logger(service=service, stream=stream, json_deserializer=tried.append)
    Reporter(logger=logger).report(Details(Event.HELD, token="t"), Tally())
    assert (messages(stream.getvalue()), tried) == (["once.held"], [])
    logger.info("theirs")
    assert tried == ["theirs"]


def test_a_record_is_as_any_of_its_logger(caplog: pytest.LogCaptureFixture) -> None:
    """A record factory makes it, filters see it, its message is no pattern, and a traceback is whole."""
    logger = logging.getLogger("filtered")
    seen: Any = []
    logger.addFilter(lambda record: not seen.append(record))
    before = logging.getLogRecordFactory()

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        record.request = "r1"
        return record

    logging.setLogRecordFactory(made)
    try:
        error = KeyError("k")
        Reporter(logger=logger).report(Details(Event.RAISED), Tally(), error)
    finally:
        logging.setLogRecordFactory(before)
        logger.filters.clear()
    (record,) = seen
    assert (record.msg, record.getMessage(), record.name) == ("once.raised", "once.raised", "filtered")
    assert vars(record)["request"] == "r1"
    assert record.exc_info == (KeyError, error, None)
    assert caplog.records == seen


@pytest.mark.parametrize("event", [Event.RETURNED, Event.FAILED])
@pytest.mark.parametrize(
    ("effective", "seen"), [("DEBUG", True), ("INFO", True), ("WARNING", True), ("ERROR", False)]
)
def test_what_settles_survives_warning(event: Event, effective: str, seen: bool, service: str) -> None:
    """Work that returned and work that failed are written up to a log level of WARNING, and not above."""
    stream = io.StringIO()
    reporter = Reporter(logger=Logger(service=service, stream=stream, level=effective))
    reporter.report(Details(event), Tally())
    assert messages(stream.getvalue()) == [event.value] * seen


def test_nothing_else_is_raised_to_the_loggers_level(service: str) -> None:
    """A level of WARNING silences the other lines of INFO."""
    stream = io.StringIO()
    reporter = Reporter(logger=Logger(service=service, stream=stream, level="WARNING"))
    for event in (Event.ACQUIRED, Event.COMPLETED, Event.REPLAYED, Event.RELEASED):
        reporter.report(Details(event), Tally())
    assert stream.getvalue() == ""


def test_levels() -> None:
    """What returned is INFO unless the logger asks for more; other events have one level."""
    returned, failed = Details(Event.RETURNED), Details(Event.FAILED)
    assert [level_of(returned.event, level) for level in (0, 10, 20, 30, 40)] == [20, 20, 20, 30, 30]
    assert [level_of(failed.event, level) for level in (10, 30, 40)] == [30, 30, 30]
    assert [level_of(Event.REPLAYED, level) for level in (10, 30)] == [20, 20]


def test_no_line_waits_in_a_buffer(service: str) -> None:
    """A buffering Logger keeps the user's lines back, ours it writes: a killed invocation loses buffers."""
    stream = io.StringIO()
    logger = Logger(
        service=service, stream=stream, buffer_config=LoggerBufferConfig(buffer_at_verbosity="WARNING")
    )
    logger.info("theirs")
    Reporter(logger=logger).report(Details(Event.RETURNED), Tally())
    assert messages(stream.getvalue()) == ["once.returned"]


def test_an_own_logger(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a logger an own one writes JSON of that service to standard output, each line once."""
    for _ in range(2):
        Reporter(service).report(Details(Event.RETURNED, token="t"), Tally())
    first, second = lines(capsys.readouterr().out)
    assert first.items() >= {"message": "once.returned", "token": "t", "service": service}.items()
    assert second["message"] == "once.returned"


def test_services_one_within_the_other(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A service whose name continues another's with a dot does not have its lines written twice."""
    Reporter(service).report(Details(Event.RETURNED), Tally())
    Reporter(f"{service}.inner").report(Details(Event.RETURNED), Tally())
    assert [line["service"] for line in lines(capsys.readouterr().out)] == [service, f"{service}.inner"]


def test_the_services_logger_is_used(service: str) -> None:
    """Without a logger, one that the user has made of that service is used."""
    stream = io.StringIO()
    Logger(service=service, stream=stream).append_keys(tenant="acme")
    Reporter(service).report(Details(Event.RETURNED), Tally())
    (line,) = lines(stream.getvalue())
    assert (line["message"], line["tenant"]) == ("once.returned", "acme")


def test_an_own_logger_leaves_the_users_alone(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A Logger that the user makes of that service after ours keeps all its options."""
    Reporter(service).report(Details(Event.RETURNED), Tally())
    stream = io.StringIO()
    Logger(service=service, stream=stream, level="DEBUG", log_record_order=["message"]).debug("theirs")
    assert stream.getvalue().startswith('{"message":"theirs"')
    assert messages(capsys.readouterr().out) == ["once.returned"]


def test_nothing_is_made_before_the_first_line(service: str) -> None:
    """A Reporter that has said nothing has made no logger."""
    Reporter(service)
    assert not [name for name in logging.root.manager.loggerDict if service.replace(".", "/") in name]
    Reporter(service).report(Details(Event.RETURNED), Tally())
    assert [name for name in logging.root.manager.loggerDict if service.replace(".", "/") in name]


def test_standard_output_may_be_exchanged(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The own logger writes to what is standard output now, not to what was when it was made."""
    reporter = Reporter(service)
    for _ in range(2):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stdout", stream)
        reporter.report(Details(Event.RETURNED), Tally())
        assert messages(stream.getvalue()) == ["once.returned"]
        stream.close()


def test_a_closed_standard_output(
    service: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the line cannot be written, logging says so on standard error and the count remains."""
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stdout", stream)
    tally = Tally()
    Reporter(service).report(Details(Event.REPLAYED), tally)
    assert "Logging error" in capsys.readouterr().err
    assert tally.drain() == {"replayed": 1}


def test_a_logger_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """A broken logger breaks nothing: it is logged once elsewhere, hooks and counts go on."""

    class Broken(logging.Logger):
        def isEnabledFor(self, level: int) -> bool:  # noqa: ARG002, N802 - logging's names
            message = "private"
            raise RuntimeError(message)

    seen: list[Details] = []
    tally = Tally()
    reporter = Reporter(logger=Broken("broken"), hooks=[seen.append])
    for _ in range(2):
        reporter.report(Details(Event.REPLAYED), tally)
    assert tally.drain() == {"replayed": 2}
    assert [details.event for details in seen] == [Event.REPLAYED] * 2
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("lambda_once", "once.report_failed")
    assert vars(record).items() >= {"once_name": "logger", "error": "RuntimeError"}.items()
    assert "private" not in str(vars(record))


def test_a_logger_does_not_stop_an_exit() -> None:
    """What a logger raises that is no Exception waits in the tally, as what a hook raises."""

    class Leaving(logging.Logger):
        def handle(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - logging's name
            raise SystemExit(3)

    tally = Tally()
    Reporter(logger=Leaving("leaving")).report(Details(Event.REPLAYED), tally)
    assert tally.drain() == {"replayed": 1}
    with pytest.raises(SystemExit, match="3"):
        tally.raise_interruption()


def test_a_line_outside_an_invocation(caplog: pytest.LogCaptureFixture) -> None:
    """What is only logged is shown to no hook; it is one line."""
    seen: list[Details] = []
    Reporter(logger=logging.getLogger("plain"), hooks=[seen.append]).log(Details(Event.DISABLED))
    assert caplog.messages == ["once.disabled"]
    assert seen == []
