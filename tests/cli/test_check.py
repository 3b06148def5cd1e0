"""``lambda-once check``: forms of its output, exit codes, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from lambda_once.core.clock import SystemClock
from lambda_once.operations.times import CorrectedClock
from lambda_once_tools.check import rules, templates
from lambda_once_tools.check.deployment import (
    UNKNOWN,
    CannotCheck,
    Deployment,
    Finding,
    Function,
    NotChecked,
    Severity,
)
from lambda_once_tools.cli import check, options
from lambda_once_tools.cli.app import app
from tests.check.deployed import DEAD, FUNCTION, QUEUE, REGION, TABLE, Account, account
from tests.cli.shop import complaint
from tests.docs.pages import ROOT, blocks
from tests.kit import elasticmq

FINDINGS = (
    Finding(
        Severity.ERROR,
        "Q1",
        "PaymentsFunction",
        "mapping lacks ReportBatchItemFailures",
        "One failed record brings back the whole batch.",
        "FunctionResponseTypes: [ReportBatchItemFailures]",
    ),
    Finding(
        Severity.WARNING,
        "P1",
        "PaymentsFunction",
        "may not dynamodb:PartiQLUpdate on TokenTable",
        "Batches are written one by one.",
        "Action:\n  - dynamodb:PartiQLInsert\n  - dynamodb:PartiQLUpdate",
    ),
    Finding(
        Severity.ADVICE,
        "T5",
        "TokenTable",
        "has no point-in-time recovery",
        "A deleted table cannot be restored.",
        "aws dynamodb update-continuous-backups --table-name tokens",
    ),
)
PRINTED = """\
ERROR  Q1 PaymentsFunction: mapping lacks ReportBatchItemFailures
       One failed record brings back the whole batch.
       + FunctionResponseTypes: [ReportBatchItemFailures]
WARN   P1 PaymentsFunction: may not dynamodb:PartiQLUpdate on TokenTable
       Batches are written one by one.
       + Action:
       +   - dynamodb:PartiQLInsert
       +   - dynamodb:PartiQLUpdate
ADVICE T5 TokenTable: has no point-in-time recovery
       A deleted table cannot be restored.
       $ aws dynamodb update-continuous-backups --table-name tokens
not checked: PricesQueue (Fn::ImportValue)
"""
FILE = ("--template", "template.yaml")


def function(name: str = "PaymentsFunction") -> Function:
    """Return a function of which nothing else is known."""
    return Function(name, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)


def run(*args: str, **environment: str) -> Result:
    """Call the command."""
    return CliRunner(env=environment).invoke(app, ["check", *args], catch_exceptions=False)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """What rules find, in a template of one function and one queue of another stack."""
    found: list[Finding] = []
    deployment = Deployment(
        functions=(function(),), not_checked=(NotChecked("PricesQueue", "Fn::ImportValue"),)
    )
    monkeypatch.setattr(templates, "read", lambda *_: deployment)
    monkeypatch.setattr(rules, "findings", lambda _: tuple(found))
    return found


# -- output


def test_a_finding_is_what_why_and_the_line_to_write(found: list[Finding]) -> None:
    """Data on standard output; the counts, on standard error, are the last line."""
    found += FINDINGS
    ran = run(*FILE)
    assert ran.stdout == PRINTED
    assert ran.stderr == "checked 1 function: 1 error, 1 warning, 1 advice; 1 not checked\n"


def test_nothing_found_is_said(found: list[Finding]) -> None:
    """An empty list could also be a check that did not run."""
    ran = run(*FILE)
    assert (ran.exit_code, ran.stdout) == (0, "not checked: PricesQueue (Fn::ImportValue)\n")
    assert ran.stderr == "checked 1 function: nothing wrong; 1 not checked\n"


def test_nothing_at_all_is_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an empty line; as JSON it is an object of empty lists."""
    monkeypatch.setattr(templates, "read", lambda *_: Deployment(functions=(function(),)))
    monkeypatch.setattr(rules, "findings", lambda _: ())
    ran = run(*FILE)
    assert (ran.stdout, ran.stderr) == ("", "checked 1 function: nothing wrong; 0 not checked\n")
    assert json.loads(run(*FILE, "--output", "json").stdout) == {
        "findings": [],
        "accepted": [],
        "notChecked": [],
    }


def test_a_command_of_a_finding_is_marked_as_one() -> None:
    """Of every rule that gives a command, and not a line of a template."""
    typed = Deployment(
        functions=(replace(function(), environment={"LAMBDA_ONCE_TABLE": "t"}),),
        missing_tables=("t",),
        skew=9.0,
    )
    assert {
        each.fix.startswith(check.COMMANDS) for each in rules.findings(typed) if each.code in ("T7", "C1")
    } == {True}


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json_has_all_that_the_table_has(found: list[Finding], form: str) -> None:
    """One object, in one line as jsonl; keys are those that docs/check.md names."""
    found += FINDINGS
    ran = run(*FILE, "--output", form)
    value = json.loads(ran.stdout)
    assert list(value) == ["findings", "accepted", "notChecked"]
    assert value["findings"][0] == {
        "severity": "error",
        "code": "Q1",
        "resource": "PaymentsFunction",
        "what": "mapping lacks ReportBatchItemFailures",
        "why": "One failed record brings back the whole batch.",
        "fix": "FunctionResponseTypes: [ReportBatchItemFailures]",
    }
    assert [each["severity"] for each in value["findings"]] == ["error", "warning", "advice"]
    assert value["notChecked"] == [{"resource": "PricesQueue", "why": "Fn::ImportValue"}]
    assert ran.stdout.isascii()
    assert (len(ran.stdout.splitlines()) == 1) == (form == "jsonl")


HOSTILE = "queue\x1b[2Jå\nERROR  Q9 x: y"


@pytest.mark.parametrize("place", ["resource", "what", "why", "fix"])
def test_names_cannot_write_to_the_terminal(found: list[Finding], place: str) -> None:
    """Escapes and line breaks of a name are printed as such; a line of `why` and `fix` is indented."""
    given: dict[str, Any] = {place: HOSTILE}
    found.append(FINDINGS[0]._replace(**given))
    printed = run(*FILE).stdout
    assert "\x1b" not in printed
    assert "\\x1b[2J" in printed
    assert not [line for line in printed.splitlines() if line.startswith("ERROR  Q9")]
    assert "\x1b" not in run(*FILE, "--output", "json").stdout


def test_what_was_not_checked_cannot_write_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor can the message of a template that cannot be checked."""
    hostile = Deployment(functions=(function(),), not_checked=(NotChecked(HOSTILE, HOSTILE),))
    monkeypatch.setattr(templates, "read", lambda *_: hostile)
    monkeypatch.setattr(rules, "findings", lambda _: ())
    assert run(*FILE).stdout.count("\n") == 1
    assert "\x1b" not in run(*FILE).stdout

    def refuse(*_: Any) -> Deployment:
        raise CannotCheck(HOSTILE)

    monkeypatch.setattr(templates, "read", refuse)
    assert "\x1b" not in complaint(run(*FILE))


@pytest.mark.parametrize("width", [20, 80])
def test_no_line_is_broken_on_a_narrow_terminal(
    found: list[Finding], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """A line to write is copied as it is: the terminal wraps it."""
    found += FINDINGS
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    printed = run(*FILE).stdout
    assert "\x1b[" in printed, "coloured"
    for finding in FINDINGS:
        assert f" {finding.code} {finding.resource}: {finding.what}\n" in printed
        for line in finding.fix.splitlines():
            assert f" {line}\x1b[0m\n" in printed


# -- accepted findings

Q1, P1, T5 = (f"{each.code}:{each.resource}" for each in FINDINGS)


def test_an_accepted_finding_is_one_line_and_does_not_count(found: list[Finding]) -> None:
    """It is listed after the others, without what it needs."""
    found += FINDINGS
    ran = run(*FILE, "--accept", Q1)
    assert "Q1 PaymentsFunction: mapping lacks ReportBatchItemFailures" in ran.stdout
    assert ran.stdout.splitlines()[-2:] == [
        "accepted: Q1 PaymentsFunction: mapping lacks ReportBatchItemFailures",
        "not checked: PricesQueue (Fn::ImportValue)",
    ]
    assert "FunctionResponseTypes" not in ran.stdout
    assert ran.stderr == "checked 1 function: 1 warning, 1 advice, 1 accepted; 1 not checked\n"
    assert ran.exit_code == 1, "a warning is left"


@pytest.mark.parametrize("form", ["table", "json"])
def test_with_all_accepted_the_exit_code_is_0(found: list[Finding], form: str) -> None:
    """Advice may be accepted, too."""
    found += FINDINGS
    ran = run(*FILE, "--output", form, *(part for each in (Q1, P1, T5) for part in ("--accept", each)))
    assert ran.exit_code == 0
    assert ran.stderr == "checked 1 function: 3 accepted; 1 not checked\n"
    if form == "json":
        value = json.loads(ran.stdout)
        assert (value["findings"], [each["code"] for each in value["accepted"]]) == ([], ["Q1", "P1", "T5"])


@pytest.mark.parametrize("other", ["Q1:Payments", "Q2:PaymentsFunction", "q1:PaymentsFunction"])
def test_an_acceptance_of_nothing_is_said(found: list[Finding], other: str) -> None:
    """What is mended needs none, so the exit code is that of the findings; a misspelt one accepts nothing."""
    ran = run(*FILE, "--accept", other)
    assert ran.stderr.splitlines()[0] == f"--accept {other} matches no finding: remove it, or correct it"
    assert (ran.exit_code, ran.stdout) == (0, "not checked: PricesQueue (Fn::ImportValue)\n")
    found.append(FINDINGS[0])
    assert run(*FILE, "--accept", other).exit_code == 1


def test_a_name_with_colons_is_accepted(found: list[Finding]) -> None:
    """An alias, or a loop."""
    found.append(FINDINGS[0]._replace(resource="payments:live"))
    assert run(*FILE, "--accept", "Q1:payments:live").exit_code == 0


# -- docs/check.md

PAGE = ROOT / "docs" / "check.md"
MINIMAL = ROOT / "examples" / "minimal"


def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    """Of the minimal example without one of its lines."""
    copytree(MINIMAL / "function", tmp_path / "function")
    template = (MINIMAL / "template.yaml").read_text(encoding="utf-8")
    line = re.escape("FunctionResponseTypes: [ReportBatchItemFailures]")
    template, found = re.subn(rf"^ *{line}.*\n", "", template, flags=re.MULTILINE)
    assert found == 1
    (tmp_path / "template.yaml").write_text(template, encoding="utf-8")
    ran = run("--template", str(tmp_path / "template.yaml"))
    shown = next(block.text for block in blocks(PAGE) if block.language == "text")
    assert ran.stdout + ran.stderr == shown
    assert ran.exit_code == 1


def test_the_step_for_ci_is_understood(found: list[Finding]) -> None:
    """Its command runs, and fails for an error."""
    found.append(FINDINGS[0])
    (steps,) = (yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml")
    install, check = (shlex.split(step["run"]) for step in steps)
    assert install[:2] == ["pip", "install"]
    assert check[:2] == ["lambda-once", "check"]
    assert run(*check[2:]).exit_code == 1


# -- exit codes

ERROR, WARNING, ADVICE = FINDINGS


@pytest.mark.parametrize(
    ("given", "code"), [([], 0), ([ADVICE], 0), ([WARNING], 1), ([ERROR], 1), ([ADVICE, ERROR], 1)]
)
@pytest.mark.parametrize("form", ["table", "json"])
def test_the_exit_code_is_that_of_the_worst_finding(
    found: list[Finding], given: list[Finding], code: int, form: str
) -> None:
    """Advice alone does not stop a pipeline."""
    found += given
    assert run(*FILE, "--output", form).exit_code == code


def test_a_template_without_lambda_once_is_no_clean_one(tmp_path: Path) -> None:
    """One line, exit code 1: another template may have been meant. A table alone is one."""
    path = tmp_path / "template.yaml"
    path.write_text("Resources: {Topic: {Type: AWS::SNS::Topic}}", encoding="utf-8")
    ran = run("--template", str(path))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"lambda-once: {path}: nothing here uses lambda-once: no function has ")
    alone = run("--template", str(ROOT / "examples" / "infrastructure" / "tokens.yaml"))
    assert alone.exit_code == 0
    assert "not checked: functions (none here uses the table: check theirs, too)\n" in alone.stdout


def test_what_cannot_be_checked_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no template: exit code 2."""

    def refuse(*_: Any) -> Deployment:
        raise CannotCheck("template.yaml: line 3: not YAML")

    monkeypatch.setattr(templates, "read", refuse)
    assert complaint(run(*FILE)) == "lambda-once: template.yaml: line 3: not YAML"


@pytest.mark.parametrize(("module", "package"), [("yaml", "PyYAML"), ("samtranslator", "aws-sam-translator")])
def test_without_the_extra_a_template_needs_one_command(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    """The message has it, whichever of its packages is not there."""
    for name in [each for each in sys.modules if each.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    ran = run("--template", str(ROOT / "template.yaml"))
    assert complaint(ran) == f"lambda-once: {package} is missing: pip install lambda-once-tools"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "pass --template FILE, --function NAME or --table NAME"),
        (("--parameter", "A=1"), "--parameter requires --template"),
        ((*FILE, "--parameter", "A"), "'A': give NAME=VALUE"),
        ((*FILE, "--accept", "Q1"), "'Q1': give CODE:RESOURCE, such as Q1:PaymentsFunction"),
        ((*FILE, "--accept", ":x"), "':x': give CODE:RESOURCE"),
        ((*FILE, "--function", "f"), "--function and --template exclude each other"),
        ((*FILE, "--table", "t"), "--table and --template exclude each other"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(args: tuple[str, ...], message: str) -> None:
    """In one line, with where to read on."""
    assert message in complaint(run(*args))


def test_parameters_reach_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value may have an equals sign; a table of the shell is ignored."""
    seen: list[tuple[Path, Mapping[str, str]]] = []

    def read(path: Path, parameters: Mapping[str, str]) -> Deployment:
        seen.append((path, parameters))
        return Deployment(functions=(function(),))

    monkeypatch.setattr(templates, "read", read)
    monkeypatch.setattr(rules, "findings", lambda _: ())
    ran = run(*FILE, "--parameter", "A=1", "--parameter", "B=x=y", LAMBDA_ONCE_TABLE="tokens")
    assert ran.exit_code == 0
    assert seen == [(Path("template.yaml"), {"A": "1", "B": "x=y"})]


# -- an account


@pytest.fixture(name="shop")
def _shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    with account() as shop:
        monkeypatch.setattr(options, "client_for", lambda _, service, *__, **___: shop.client(service))
        yield shop


@pytest.fixture
def deployments(monkeypatch: pytest.MonkeyPatch) -> list[Deployment]:
    """What rules are asked about."""
    seen: list[Deployment] = []

    def findings(deployment: Deployment) -> tuple[Finding, ...]:
        seen.append(deployment)
        return ()

    monkeypatch.setattr(rules, "findings", findings)
    return seen


def test_functions_are_checked_with_all_that_they_use(shop: Account, deployments: list[Deployment]) -> None:
    """The table comes from the function's variable; the counts name what was seen."""
    shop.whole()
    ran = run("--function", FUNCTION)
    assert ran.exit_code == 0, ran.output
    (deployment,) = deployments
    assert [each.resource for each in deployment.functions] == [FUNCTION]
    assert [each.resource for each in deployment.queues] == [QUEUE, DEAD]
    assert [each.resource for each in deployment.tables] == [TABLE]
    assert ran.stderr.endswith(
        "checked 1 function, 1 event source mapping, 2 queues, 1 table: nothing wrong; 3 not checked\n"
    )


@pytest.mark.parametrize("args", [("--table", TABLE), ()])
def test_a_table_is_checked_alone(
    shop: Account, deployments: list[Deployment], args: tuple[str, ...]
) -> None:
    """By its option, or by the variable of the other commands."""
    shop.table()
    assert run(*args, LAMBDA_ONCE_TABLE=TABLE).exit_code == 0
    assert [(each.functions, len(each.tables)) for each in deployments] == [((), 1)]


def test_denials_are_lines_and_no_errors(shop: Account, deployments: list[Deployment]) -> None:
    """The exit code is that of the findings."""
    shop.whole()
    shop.may_not("iam:GetRolePolicy")
    ran = run("--function", FUNCTION)
    assert ran.exit_code == 0
    assert "not checked: payments (iam:GetRolePolicy is denied)\n" in ran.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--function", "paymnets"), "there is no function paymnets: check the name, --region and --profile"),
        (("--table", "tokns"), "there is no table tokns: check the name, --region and --profile"),
    ],
)
def test_a_name_that_does_not_exist_is_bad_input(shop: Account, args: tuple[str, ...], message: str) -> None:
    """One line, exit code 2."""
    shop.whole()
    assert complaint(run(*args)) == f"lambda-once: {message}"


def test_nothing_answered_is_one_line(shop: Account) -> None:
    """With AWS' own sentence."""
    shop.whole()
    shop.may()
    assert "is not authorized to perform: lambda:GetFunctionConfiguration" in complaint(
        run("--function", FUNCTION)
    )


def test_without_credentials_the_line_is_that_of_all_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `list` says it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    assert "no AWS credentials" in complaint(run("--function", FUNCTION))


def test_an_unknown_profile_is_one_line() -> None:
    """As for all commands."""
    assert "nobody" in complaint(run("--function", FUNCTION, "--profile", "nobody"))


def test_the_skew_of_this_clock_is_known_after_a_response(
    shop: Account, deployments: list[Deployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positive if this machine is ahead of DynamoDB; unknown where DynamoDB was not asked."""

    class Ahead(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(minutes=10)

    shop.whole()
    for clock in (SystemClock(), Ahead()):
        monkeypatch.setattr(options, "clock", lambda clock=clock: CorrectedClock(clock))
        run("--function", FUNCTION)
    shop.may_not("dynamodb:*")
    run("--function", FUNCTION)
    monkeypatch.setattr(options, "clock", SystemClock)
    run("--function", FUNCTION)
    exact, ahead, unknown, uncorrected = (each.skew for each in deployments)
    assert exact == 0
    assert ahead is not None
    assert 595 < ahead < 605
    assert unknown is None
    assert uncorrected is None


def test_only_the_table_is_at_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """--endpoint-url is DynamoDB's: functions are in the account."""
    made: list[tuple[str, str | None, int]] = []

    def client_for(session: Any, service: str, endpoint_url: str | None = None, tries: int = 1) -> Any:
        made.append((service, endpoint_url, tries))
        return shop.client(service)

    monkeypatch.setattr(options, "client_for", client_for)
    with account() as shop:
        shop.whole()
        run("--function", FUNCTION, "--endpoint-url", "http://127.0.0.1:1", "--region", REGION)
    assert {service: url for service, url, _ in made} == {
        "lambda": None,
        "iam": None,
        "sqs": None,
        "dynamodb": "http://127.0.0.1:1",
    }
    assert {tries for _, _, tries in made} == {check.TRIES}


@pytest.mark.engine
def test_real_engines_are_checked(engine_endpoint: str) -> None:
    """Dynoxide at --endpoint-url, ElasticMQ by its variable, moto for Lambda and IAM."""
    with elasticmq.running() as queues, account({"dynamodb": engine_endpoint, "sqs": queues}) as shop:
        shop.whole()
        here = {"AWS_ENDPOINT_URL_SQS": queues, "AWS_REGION": REGION}
        try:
            ran = run("--function", FUNCTION, "--endpoint-url", engine_endpoint, "--output", "json", **here)
        finally:
            shop.own("dynamodb", engine_endpoint).delete_table(TableName=TABLE)
    value = json.loads(ran.stdout)
    assert [(each["code"], each["resource"]) for each in value["findings"]] == [("T6", TABLE)]
    assert (ran.exit_code, ran.stderr[-16:]) == (0, "; 6 not checked\n"), ran.output
    assert {each["resource"] for each in value["notChecked"]} >= {TABLE, FUNCTION}


def test_no_template_is_read_for_an_account(shop: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is not needed."""
    monkeypatch.setattr(rules, "findings", lambda _: ())
    monkeypatch.setitem(sys.modules, "samtranslator", None)
    shop.whole()
    assert run("--function", FUNCTION).exit_code == 0
