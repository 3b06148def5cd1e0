"""Whatever happens to a run, at whichever step: nothing of it is left, and nothing else is touched."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.aws import __main__ as script
from tests.aws.account import FOREIGN, Failed, PlayedAccount
from tests.aws.cost import BUDGET
from tests.aws.play import Answer, Response, Run, judged
from tests.aws.stacks import ROOT, SIGNALS, Interrupts, delete

ARCHIVES = {"layer.zip": b"layer", "crt.zip": b"crt", "sample.zip": b"sample", "probes.zip": b"probes"}
SETTINGS = {"Runtime": "python3.14", "Architecture": "arm64"}


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of signals that were there are there again."""
    there = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in there.items():
        signal.signal(number, handler)


def looks(run: Run) -> Answer:
    """Look into the account."""
    run.aws.clock.sleep(1)
    return judged(run.client("sts").get_caller_identity()["Account"] != "", "an account")


def unplayed(address: str, headers: dict[str, str], body: bytes) -> Response:
    """No API is asked."""
    raise AssertionError(address)


def conducted(account: PlayedAccount, folder: Path, assertion: Any = looks) -> int:
    """Make a run in *account*; return its exit code."""
    return script.conducted(
        account.aws, unplayed, SETTINGS, [assertion], lambda: ARCHIVES, folder / "build" / "aws"
    )


def reported(folder: Path) -> str:
    """Return the report that a run wrote."""
    (path,) = (folder / "build" / "aws").iterdir()
    return path.read_text(encoding="utf-8")


class Signals:
    """Sends a signal at one step of a run, and then, if so wished, at each that follows."""

    def __init__(self, at: int, number: signal.Signals, again: bool = False) -> None:
        self.steps: list[str] = []
        self._at, self._number, self._again = at, number, again

    def __call__(self, step: str) -> None:
        self.steps.append(step)
        if len(self.steps) - 1 == self._at or (self._again and len(self.steps) - 1 > self._at):
            signal.raise_signal(self._number)


def steps_of_a_run(folder: Path) -> list[str]:
    """Return the steps of a run that nobody interrupts."""
    account = PlayedAccount()
    account.step = steps = Signals(-1, signal.SIGINT)
    assert conducted(account, folder) == 0
    return steps.steps


def test_a_run_leaves_nothing(tmp_path: Path) -> None:
    """It deploys both stacks, deletes them and the bucket, and reports."""
    account = PlayedAccount()
    assert conducted(account, tmp_path) == 0
    assert account.ours == {}
    assert "1 assertions: 1 holds." in reported(tmp_path)
    assert account.said[-2] == "deleted"


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_an_interruption_at_any_step_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Before a request is done, and when its answer would arrive; from the first step to the last."""
    steps = steps_of_a_run(tmp_path / "whole")
    assert len(steps) > 40
    for at, step in enumerate(steps):
        account = PlayedAccount()
        account.step = Signals(at, number)
        code = conducted(account, tmp_path / str(at))
        assert account.ours == {}, f"left after {number.name} at step {at}, {step}"
        assert FOREIGN in account.buckets
        assert FOREIGN in account.stacks
        assert code in (0, 130)
        assert ("interrupted" in reported(tmp_path / str(at))) == (code == 130)


def test_signals_that_do_not_end_leave_nothing(tmp_path: Path) -> None:
    """Whoever presses Ctrl-C again and again is told to wait, and everything is deleted."""
    for at in range(len(steps_of_a_run(tmp_path / "whole"))):
        account = PlayedAccount()
        account.step = Signals(at, signal.SIGINT, again=True)
        conducted(account, tmp_path / str(at))
        assert account.ours == {}
        assert any("still deleting" in said for said in account.said)


def test_a_twin_without_a_deaf_deletion_leaves_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the second signal raised as well, what it meets in the deletion would stay."""
    monkeypatch.setattr(Interrupts, "_arrived", lambda *_: _raise())
    account = PlayedAccount()
    account.step = Signals(len(steps_of_a_run(tmp_path / "whole")) // 2, signal.SIGINT, again=True)
    conducted(account, tmp_path)
    assert account.ours


def _raise() -> None:
    raise KeyboardInterrupt


def test_a_request_that_arrives_after_its_deletion_is_deleted_too(tmp_path: Path) -> None:
    """CreateStack was cut off: nobody was there when it was deleted, and then it was done."""
    account = PlayedAccount()
    create = account.cloudformation_create_stack

    def cut_off(**arguments: Any) -> None:
        account.late.append(lambda: create(**arguments))
        raise KeyboardInterrupt

    def step(name: str) -> None:
        if name == "before sleep":
            while account.late:
                account.late.pop()()

    account.step = step
    account.cloudformation_create_stack = cut_off  # type: ignore[assignment,method-assign]
    assert conducted(account, tmp_path) == 130
    assert not account.late
    assert account.ours == {}


@pytest.mark.parametrize("operation", ["s3_create_bucket", "s3_put_object", "cloudformation_create_stack"])
def test_what_cannot_be_made_is_said_and_nothing_is_left(
    tmp_path: Path, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report has AWS' words, without the account's number."""
    account = PlayedAccount()

    def denied(**_: Any) -> None:
        raise Failed("AccessDenied", "User: arn:aws:iam::123456789012:user/kim is not authorized")

    monkeypatch.setattr(account, operation, denied)
    assert conducted(account, tmp_path) == 1
    assert account.ours == {}
    assert "not deployed" in (report := reported(tmp_path))
    assert "ARN is not authorized" in report
    assert "123456789012" not in report


def test_what_cannot_be_deleted_is_named_with_the_command(tmp_path: Path) -> None:
    """The other things are deleted all the same, and the exit code is one of its own."""
    account = PlayedAccount()
    whole = account.cloudformation_create_stack

    def create(StackName: str, **more: Any) -> None:  # noqa: N803
        whole(StackName=StackName, **more)
        account.undeletable |= {StackName} - {name for name in (StackName,) if name.endswith("-probes")}

    account.cloudformation_create_stack = create  # type: ignore[assignment,method-assign]
    assert conducted(account, tmp_path) == 3
    (name,) = account.ours["stacks"]
    assert account.ours == {"stacks": [name]}
    assert "TokenTable: it is protected" in reported(tmp_path)
    assert any(f"make aws DELETE={name} REGION=eu-central-1" in said for said in account.said)

    account.undeletable.clear()
    assert script.deleted(account.aws, name) == 0
    assert account.ours == {}


@pytest.mark.parametrize(
    "name", [FOREIGN, "", "lambda-once", "lambda-once-1a2b3c4d5e6", "lambda-once-1A2B3C4D5E6F"]
)
def test_only_what_is_called_like_a_run_is_deleted(name: str) -> None:
    """DELETE=shop, typed by mistake, deletes no shop."""
    account = PlayedAccount()
    account.stacks[name] = {"StackStatus": "CREATE_COMPLETE", "left": 0}
    assert script.deleted(account.aws, name) == 2
    assert name in account.stacks


def test_deleting_nothing_is_fine() -> None:
    """A run that was killed before its first request."""
    assert delete(PlayedAccount().aws, "lambda-once-1a2b3c4d5e6f") == []


def test_an_assertion_that_raises_ends_no_run(tmp_path: Path) -> None:
    """It is an error in the report; the exit code is 1, and nothing is left."""

    def breaks(run: Run) -> Answer:
        """Nothing."""
        raise ValueError("no such thing")

    account = PlayedAccount()
    assert conducted(account, tmp_path, breaks) == 1
    assert account.ours == {}
    assert "| error | Nothing. | ValueError: no such thing |" in reported(tmp_path)


def test_after_forty_minutes_nothing_is_begun(tmp_path: Path) -> None:
    """What is deployed costs by the hour."""
    account = PlayedAccount()
    account.step = lambda step: account.clock.advance(2_400) if step == "after s3 create_bucket" else None
    assert conducted(account, tmp_path) == 1
    assert account.ours == {}
    assert "not played" in reported(tmp_path)


# ------------------------------------------------------------------ asking


class Session:
    """boto3's session of the played account."""

    region_name = "eu-central-1"

    def __init__(self, account: PlayedAccount) -> None:
        self._account = account

    def client(self, service: str, **_: Any) -> Any:
        return self._account.fresh(service)


@pytest.mark.parametrize("answer", ["", "y", "no", "123456789012", EOFError])
def test_nothing_is_made_before_the_budget_is_agreed(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the whole word will do; so does no closed input."""
    account = PlayedAccount()
    asked: list[str] = []

    def replied(_: str) -> str:
        asked.append(_)
        if answer is EOFError:
            raise EOFError
        return str(answer)

    monkeypatch.setattr(boto3, "Session", lambda **_: Session(account))
    monkeypatch.setattr("builtins.input", replied)
    account.step = lambda step: None if "sts" in step else pytest.fail(step)
    assert script.main([]) == 2
    assert len(asked) == 1


def test_the_sum_and_the_account_are_named_before(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Whoever says yes knows how much, where."""
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    assert script.is_agreed("123456789012", "eu-central-1")
    printed = capsys.readouterr().out
    assert f"${BUDGET:.2f} at most" in printed
    assert "account 123456789012, eu-central-1" in printed
    assert 0.05 < BUDGET < 1


def test_a_terminal_that_has_gone_stops_no_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printing fails after a hang-up; saying doesn't."""

    def gone(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("builtins.print", gone)
    script.say("deleting everything")


def test_the_page_names_what_it_costs_and_plays() -> None:
    """Whoever reads docs/aws.md first isn't surprised by the question."""
    page = (ROOT / "docs" / "aws.md").read_text(encoding="utf-8")
    assert f"the budget, ${BUDGET:.2f}, " in page
    assert f"It plays {len(script.ASSERTIONS)} assertions" in page
