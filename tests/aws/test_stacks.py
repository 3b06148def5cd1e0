"""Whatever happens to a run, at whichever step: nothing of it is left, and nothing else is touched."""

from __future__ import annotations

import io
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.aws import __main__ as script
from tests.aws.account import FOREIGN, Failed, PlayedAccount
from tests.aws.cost import BUDGET
from tests.aws.play import Answer, Response, Run, Verdict, judged
from tests.aws.report import Circumstances, report
from tests.aws.stacks import ROOT, SIGNALS, Interrupts, delete

NAME = "lambda-once-1a2b3c4d5e6f"
ARCHIVES = {"layer.zip": b"layer", "crt.zip": b"crt", "sample.zip": b"sample", "probes.zip": b"probes"}
SETTINGS = {"Runtime": "python3.14", "Architecture": "arm64"}


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A terminal's handlers, whatever this process ignores (in the background SIGINT)."""
    there = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
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
    assert account.said[-1] == f"deleted: stack {name}"


@pytest.mark.parametrize(
    "name", [FOREIGN, "", "lambda-once", "lambda-once-1a2b3c4d5e6", "lambda-once-1A2B3C4D5E6F"]
)
def test_only_what_is_called_like_a_run_is_deleted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DELETE=shop, typed by mistake, deletes no shop: AWS isn't even asked."""
    monkeypatch.setattr(boto3, "Session", lambda **_: pytest.fail("a session"))
    with pytest.raises(SystemExit) as left:
        script.main(["--delete", name])
    assert left.value.code == 2


def test_deleting_nothing_is_fine() -> None:
    """A run that was killed before its first request."""
    assert delete(PlayedAccount().aws, NAME) == ([], [])


def test_finding_nothing_is_no_success() -> None:
    """DELETE with the region forgotten: what the run made elsewhere is there still."""
    account = PlayedAccount()
    assert script.deleted(account.aws, NAME) == 2
    assert account.said == [f"nothing in eu-central-1 is called {NAME}: did it run there, in this account?"]


def test_a_bucket_in_another_region_stays_and_names_it() -> None:
    """S3 would delete it from here; the stacks beside it are seen from there alone."""
    account = PlayedAccount()
    account.buckets[NAME] = {"key": b"code"}
    account.region_of_buckets = "us-east-1"
    assert script.deleted(account.aws, NAME) == 3
    assert account.buckets[NAME] == {"key": b"code"}
    assert "REGION=us-east-1" in account.said[-1]


def test_a_log_group_that_is_made_again_is_deleted(tmp_path: Path) -> None:
    """A function's last lines arrive after its group is gone, and Lambda makes it anew."""
    account = PlayedAccount()

    def step(name: str) -> None:
        if name == "before s3 delete_bucket":
            (bucket,) = account.ours["buckets"]
            account.groups.add(f"{bucket}-Logs-Xk2")

    account.step = step
    assert conducted(account, tmp_path) == 0
    assert account.ours == {}
    assert account.groups == {FOREIGN}


@pytest.mark.parametrize(
    "operation", ["s3_delete_object", "cloudformation_describe_stack_events", "logs_describe_log_groups"]
)
def test_what_fails_in_a_deletion_ends_and_keeps_no_other_from_it(
    tmp_path: Path, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is no endless loop, and nothing that is raised keeps the other steps from being made."""

    def broken(**_: Any) -> None:
        raise KeyError("ResourceStatus")

    account = PlayedAccount()
    monkeypatch.setattr(account, operation, broken)
    if operation == "cloudformation_describe_stack_events":
        create = account.cloudformation_create_stack

        def undeletable(StackName: str, **more: Any) -> None:  # noqa: N803
            create(StackName=StackName, **more)
            account.undeletable |= {StackName}

        monkeypatch.setattr(account, "cloudformation_create_stack", undeletable)
    assert conducted(account, tmp_path) == 3
    kept = {"s3_delete_object": {"buckets"}, "logs_describe_log_groups": set()}
    assert account.ours.keys() == kept.get(operation, {"stacks"})


def test_a_request_that_is_sent_again_is_no_second_one(tmp_path: Path) -> None:
    """Botocore repeats what got no answer: S3 says whose bucket it is, CloudFormation knows the token."""
    account = PlayedAccount()
    create_bucket, create_stack = account.s3_create_bucket, account.cloudformation_create_stack
    tokens: list[str] = []

    def arrived(**arguments: Any) -> None:
        create_bucket(**arguments)
        raise Failed("BucketAlreadyOwnedByYou")

    def noted(ClientRequestToken: str, **arguments: Any) -> None:  # noqa: N803
        tokens.append(ClientRequestToken)
        create_stack(**arguments)

    account.s3_create_bucket = arrived  # type: ignore[assignment,method-assign]
    account.cloudformation_create_stack = noted  # type: ignore[assignment,method-assign]
    assert conducted(account, tmp_path) == 0
    assert len(set(tokens)) == 2


def test_functions_that_do_not_run_are_no_assertion_that_fails(tmp_path: Path) -> None:
    """A role that isn't known yet is waited for; an import that fails is said once, and nothing is played."""
    account = PlayedAccount()
    payloads = [b'{"errorType": "AccessDeniedException"}', b'{"run": "1"}']
    account.lambda_invoke = lambda **_: {"Payload": io.BytesIO(payloads.pop(0))}  # type: ignore[method-assign]
    assert conducted(account, tmp_path / "late") == 0
    broken = b'{"errorType": "Runtime.ImportModuleError"}'
    account.lambda_invoke = lambda **_: {"Payload": io.BytesIO(broken)}  # type: ignore[method-assign]
    assert conducted(account, tmp_path / "never") == 1
    assert "not deployed: the functions don't run: {'errorType': 'Runtime.ImportModuleError'}" in reported(
        tmp_path / "never"
    )
    assert account.ours == {}


def test_a_throttled_invocation_is_sent_again(tmp_path: Path) -> None:
    """A new account has ten at once; one that was refused has not run."""
    account = PlayedAccount()
    runs = account.lambda_invoke
    refusals = iter([Failed("TooManyRequestsException")] * 3)

    def throttled(**arguments: Any) -> Any:
        for refusal in refusals:
            raise refusal
        return runs(**arguments)

    account.lambda_invoke = throttled  # type: ignore[method-assign]
    assert conducted(account, tmp_path) == 0


def test_nohup_is_respected(tmp_path: Path) -> None:
    """What whoever began the run ignores doesn't end it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    account = PlayedAccount()
    account.step = Signals(20, signal.SIGHUP, again=True)
    assert conducted(account, tmp_path) == 0


def test_the_report_names_nobody() -> None:
    """Names of sessions are mail addresses, and paths have those of people."""
    seen = (
        "User: arn:aws:sts::123456789012:assumed-role/Admin_1a/kim+aws@example.com is not authorized; "
        "Command '['/home/kim/lambda-once/release/layer', '/Users/kim/x']' failed; role_123456789012"
    )
    answers = {"It holds.": Answer(Verdict.ERROR, seen)}
    text = report(Circumstances("c", "eu-central-1", {}, {}, 1.0, 0.1, seen), answers)
    assert not {"kim", "example.com", "123456789012", "home", "Users"} & set(re.split(r"[^\w.]+|_", text))
    assert "User: ARN is not authorized; Command '['PATH', 'PATH']' failed" in text


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


@pytest.mark.parametrize("answer", ["", "y", "no", "123456789012", EOFError, KeyboardInterrupt])
def test_nothing_is_made_before_the_budget_is_agreed(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the whole word will do; a closed input and Ctrl-C are none."""
    account = PlayedAccount()
    asked: list[str] = []

    def replied(_: str) -> str:
        asked.append(_)
        if isinstance(answer, type):
            raise answer
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


def test_a_profile_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """AWS_PROFILE with a typing error is no traceback."""
    monkeypatch.setenv("AWS_PROFILE", "nobodys")
    with pytest.raises(SystemExit) as ended:
        script.main(["--region", "eu-central-1"])
    assert ended.value.code == 2
    assert "nobodys" in capsys.readouterr().err


def test_the_api_is_trusted_as_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python on a Mac may know no certificate; boto3 brings them."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, "/nowhere")
    assert script.trusting().get_ca_certs()


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
