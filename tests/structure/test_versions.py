"""Which environments `make test-versions` tests."""

from __future__ import annotations

import re
import sys
import tomllib

import pytest

from tests import debian, versions
from tests.versions import FAST, OF_SDKS, ROOT, SDKS, at_least, candidates, environments, pythons, tools

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TOOLS = tomllib.loads((ROOT / "tools" / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = {(3, 13): "/b/python", (3, 11): "/a/python"}


@pytest.mark.parametrize(
    ("requirement", "pinned"),
    [
        ("boto3>=1.35.20", "boto3==1.35.20"),
        ("pydantic>=2.4,<3", "pydantic==2.4"),
        ("aws-lambda-powertools[tracer]>=3.29,<4", "aws-lambda-powertools[tracer]==3.29"),
    ],
)
def test_a_lower_bound_is_pinned(requirement: str, pinned: str) -> None:
    """Name and extras stay."""
    assert at_least(requirement) == pinned


@pytest.mark.parametrize("requirement", ["boto3", "boto3<2", "boto3==1.2"])
def test_every_requirement_has_a_lower_bound(requirement: str) -> None:
    """What has none could not be tested at it."""
    with pytest.raises(ValueError, match="lower bound"):
        at_least(requirement)


def test_the_oldest_packages_meet_the_oldest_python() -> None:
    """Each requirement of the package and of its extras is pinned there, and the newest run on the others."""
    oldest, *newest = environments([PROJECT, TOOLS], PYTHONS)
    assert (oldest.name, oldest.python) == ("oldest", "/a/python")
    names = {package.split("==")[0] for package in oldest.packages if "==" in package}
    assert {"aws-lambda-powertools", "jmespath", "boto3", "pydantic", "click", "rich", "python-ulid"} <= names
    assert [(each.name, each.python) for each in newest] == [("3.13", "/b/python")]
    pinned = {package for each in newest for package in each.packages if "==" in package}
    assert pinned <= {*tools(PROJECT)}  # Lambda's runtime, which is what answers are compared with
    assert all({*tools(PROJECT, SDKS)} <= {*each.packages} for each in newest)


def test_a_python_alone_gets_both() -> None:
    """The oldest packages and the newest."""
    alone = environments([PROJECT, TOOLS], {(3, 11): "/a/python"})
    assert [(each.name, each.python) for each in alone] == [("oldest", "/a/python"), ("3.11", "/a/python")]


def test_the_pythons_of_this_machine_are_found() -> None:
    """The one that runs the tests, at least; what does not run, or is older than 3.11, is left out."""
    found = pythons([*candidates(), "/no/such/python"])
    assert sys.version_info[:2] in found
    assert min(found) >= (3, 11)


def test_the_fast_folders_are_there() -> None:
    """A folder that was renamed must not be left out silently."""
    assert [folder for folder in FAST if not (ROOT / folder).is_dir()] == []


def test_what_the_oldest_packages_leave_out_needs_an_sdk() -> None:
    """Exactly the files of these folders that import a package which is beside the newest only."""
    sdks = re.compile(
        r"^(from|import) (aws_durable|opentelemetry\.sdk|avro|google\.protobuf|tests\.kit\.executions)",
        re.MULTILINE,
    )
    files = [file for folder in FAST for file in sorted((ROOT / folder).rglob("test_*.py"))]
    left_out = {file for each in OF_SDKS for file in ROOT.glob(each)}
    assert {file for file in files if sdks.search(file.read_text(encoding="utf-8"))} == left_out


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_promised_python_that_is_missing_fails_ci_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    """It is named in both cases, and the others are tested."""
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(versions, "pythons", lambda _: {(3, minor): "/a/python" for minor in (11, 12, 13)})
    monkeypatch.setattr(versions, "install", lambda each: each.python)
    monkeypatch.setattr(versions, "run_tests", lambda *_: True)
    monkeypatch.setattr(debian, "python", lambda _: None)
    assert versions.main() == code
    assert "Not tested, for it is not here: Python 3.14." in capsys.readouterr().out


def test_a_python_of_debian_is_tested_like_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tests run under its name, and their failure fails the run."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(versions, "pythons", lambda _: {(3, minor): "/a/python" for minor in (11, 12, 13)})
    monkeypatch.setattr(versions, "install", lambda each: each.python)
    monkeypatch.setattr(versions, "run_tests", lambda _, python: python != "/tree/python3.14")
    monkeypatch.setattr(debian, "python", lambda minor: f"/tree/python3.{minor}")
    assert versions.main() == 1
    monkeypatch.setattr(versions, "run_tests", lambda *_: True)
    assert versions.main() == 0
