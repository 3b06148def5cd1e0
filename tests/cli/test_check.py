"""``lambda-once check``: forms of its output, exit codes, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from lambda_once_tools.check import rules, templates
from lambda_once_tools.check.deployment import (
    UNKNOWN,
    CannotCheck,
    Deployment,
    Finding,
    Function,
    Loop,
    NotChecked,
    Severity,
)
from lambda_once_tools.cli import check
from lambda_once_tools.cli.app import app
from tests.cli.shop import complaint
from tests.docs.pages import ROOT, blocks

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
    """Of the rule that gives a command, and not a line of a template."""
    loops = (Loop("Fn::ForEach::Topics"), Loop("Fn::ForEach::Names", ("Names",)))
    found = rules.findings(Deployment(loops=loops))
    assert len(found) == len(loops)
    assert all(each.fix.startswith(check.COMMANDS) for each in found)


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
    """A loop."""
    found.append(FINDINGS[0]._replace(resource="Fn::ForEach::Queues"))
    assert run(*FILE, "--accept", "Q1:Fn::ForEach::Queues").exit_code == 0


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
        ((), "Missing option '--template'"),
        ((*FILE, "--parameter", "A"), "'A': give NAME=VALUE"),
        ((*FILE, "--accept", "Q1"), "'Q1': give CODE:RESOURCE, such as Q1:PaymentsFunction"),
        ((*FILE, "--accept", ":x"), "':x': give CODE:RESOURCE"),
    ],
)
def test_malformed_options_are_refused(args: tuple[str, ...], message: str) -> None:
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
