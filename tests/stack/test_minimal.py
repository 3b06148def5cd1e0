"""The smallest whole stack, examples/minimal: its own test, its template, and the page that builds it."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import blocks, files
from tests.kit.judge import listed

from .conftest import ROOT, Template, translate
from .named import of_type
from .nested import parsed
from .test_events import RECEIVED_AGAIN, differences
from .test_template import complaints

FOLDER = ROOT / "examples" / "minimal"
SHOWN = (
    "function/payments.py",
    "pytest.ini",
    "tests/conftest.py",
    "tests/test_payments.py",
    "function/requirements.txt",
)


def own_tests(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the example's tests as its user would, in *folder*."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def minimal() -> Template:
    """The template as it is written, its short tags spelled out."""
    return parsed(FOLDER / "template.yaml")


def actions(policies: list[dict[str, Any]]) -> set[str]:
    """Return the actions on the token table that the statements of *policies* allow."""
    statements = [statement for policy in policies for statement in policy["Statement"]]
    assert all(statement["Resource"] == {"Fn::GetAtt": ["TokenTable", "Arn"]} for statement in statements)
    return {action for statement in statements for action in listed(statement["Action"])}


def test_its_own_test_passes() -> None:
    """One test, and it needs no account."""
    done = own_tests(FOLDER)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_twin_without_the_layer_its_own_test_fails() -> None:
    """With nothing protected, the redelivery takes the money again."""
    done = own_tests(FOLDER, LAMBDA_ONCE_DISABLED="true")
    assert done.returncode == 1
    assert "assert ['o-1', 'o-1'] == ['o-1']" in done.stdout


def test_its_template_is_clean_and_short(minimal: Template) -> None:
    """cfn-lint finds nothing, in what SAM makes of it either, and the file fits on a screen or two."""
    text = (FOLDER / "template.yaml").read_text(encoding="utf-8")
    assert complaints(text) == complaints(json.dumps(translate(minimal))) == []
    assert len(text.splitlines()) < 90


def test_twin_what_only_the_translated_template_shows(minimal: Template) -> None:
    """cfn-lint 1.58 sees no mapping in SAM's text: what Lambda refuses is found in what it becomes."""
    broken = copy.deepcopy(minimal)
    broken["Resources"]["PaymentsQueue"]["Properties"]["VisibilityTimeout"] = 1
    assert complaints(json.dumps(broken)) == []
    assert any("VisibilityTimeout" in each for each in complaints(json.dumps(translate(broken))))


def test_it_requires_the_version_of_this_tree() -> None:
    """The function is built with a release: the wheel, and nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = (FOLDER / "function" / "requirements.txt").read_text(encoding="utf-8")
    assert required == f"{project['name']}=={project['version']}\n"


def test_its_function_may_do_what_the_sample_functions_may(minimal: Template, template: Template) -> None:
    """Whatever its handler comes to return: large results need a permission of their own."""
    policy = of_type(template, "AWS::IAM::ManagedPolicy")["TokenAccess"]["PolicyDocument"]
    function = of_type(minimal, "AWS::Serverless::Function")["PaymentsFunction"]
    assert actions(function["Policies"]) == actions([policy])


def test_its_queue_reports_single_failures_and_hides_messages_long_enough(minimal: Template) -> None:
    """And what fails for good ends in a dead-letter queue that keeps it for 14 days."""
    function = of_type(minimal, "AWS::Serverless::Function")["PaymentsFunction"]
    queues = of_type(minimal, "AWS::SQS::Queue")
    (event,) = function["Events"].values()
    assert event["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert queues["PaymentsQueue"]["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert queues["PaymentsQueue"]["RedrivePolicy"]["deadLetterTargetArn"] == {
        "Fn::GetAtt": ["PaymentsDeadLetters", "Arn"]
    }
    assert queues["PaymentsDeadLetters"]["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_its_runtimes_are_those_of_the_sample_stack(minimal: Template, template: Template) -> None:
    """With the same default."""
    small, large = (each["Parameters"]["Runtime"] for each in (minimal, template))
    assert small["AllowedValues"] == large["AllowedValues"]
    assert small["Default"] == large["Default"]


def test_its_handler_exists(minimal: Template) -> None:
    """The module lies where CodeUri points."""
    function = of_type(minimal, "AWS::Serverless::Function")["PaymentsFunction"]
    module, handler = function["Handler"].split(".")
    assert f"def {handler}(" in (FOLDER / function["CodeUri"] / f"{module}.py").read_text(encoding="utf-8")


def test_its_events_differ_in_what_a_redelivery_changes() -> None:
    """The receive count and the receipt handle."""
    first, second = (
        json.loads((FOLDER / "events" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("order", "order-redelivery")
    )
    assert differences(first, second) == {f"Records.0.{path}" for path in RECEIVED_AGAIN}


def test_the_tutorial_builds_it() -> None:
    """The page shows each file as it is, but the events and the template, which it copies."""
    tutorial = ROOT / "docs" / "tutorial.md"
    assert files(tutorial) == {file: (FOLDER / file).read_text(encoding="utf-8") for file in SHOWN}
    commands = "".join(block.text for block in blocks(tutorial) if block.language == "sh")
    for copied in ("events", "template.yaml"):
        assert f" lambda-once/{FOLDER.relative_to(ROOT)}/{copied} payments/" in commands
    (quoted,) = (block.text for block in blocks(tutorial) if block.language == "yaml")
    assert f"  {quoted}" in (FOLDER / "template.yaml").read_text(encoding="utf-8")
