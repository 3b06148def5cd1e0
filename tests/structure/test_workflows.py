"""Workflows only check out, set up and call make: what they check can be run on any machine."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.versions import minors

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}")
MAKE = re.compile(r'make (?P<target>[a-z0-9-]+)(?: [A-Z]+=(?:[\w.]+|"\$\{?[A-Z_]+\}?\w*"))*')
WRITES = {
    "docs": {"deploy": {"pages": "write", "id-token": "write"}},
    "release": {
        "attest": {"id-token": "write", "attestations": "write"},
        "publish": {"id-token": "write"},
    },
}
"""The jobs that may write, with all that they may."""


def _read(workflow: Path) -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    return read


def _flaws(workflow: Mapping[str, Any], writes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield what *workflow* does beside its task; *writes* are the permissions of its jobs beyond reading."""
    if workflow.get("permissions") != {}:
        yield "a job without permissions of its own would get the default ones"
    for name, job in workflow["jobs"].items():
        if job["permissions"] != writes.get(name, {"contents": "read"}):
            yield f"{name} has the permissions {job['permissions']}"
        if "timeout-minutes" not in job:
            yield f"{name} has no time limit"
        for step in job["steps"]:
            yield from _flaws_of_step(step)


def _flaws_of_step(step: Mapping[str, Any]) -> Iterator[str]:
    if "uses" in step and not PINNED.fullmatch(step["uses"]):
        yield f"{step['uses']} is not pinned to a commit"
    if "actions/checkout@" in step.get("uses", "") and step.get("with") != {"persist-credentials": False}:
        yield "the checkout leaves its token to the steps after it"
    if "run" in step:
        called = MAKE.fullmatch(step["run"])
        if called is None or called["target"] not in TARGETS:
            yield f"{step['run']} is no target of the Makefile"


def test_there_are_workflows() -> None:
    """One a purpose."""
    assert [workflow.stem for workflow in WORKFLOWS] == ["ci", "docs", "nightly", "release"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: str(path.stem))
def test_a_workflow_calls_targets_with_the_least_permissions(workflow: Path) -> None:
    """Its actions are pinned to commits; only the jobs listed here may write."""
    assert list(_flaws(_read(workflow), WRITES.get(workflow.stem, {}))) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("permissions", {"permissions": {"contents": "write"}}),
        ("time", {"timeout-minutes": None}),
        ("pin", {"steps": [{"uses": "actions/setup-python@v7"}]}),
        ("token", {"steps": [{"uses": f"actions/checkout@{'a' * 40}"}]}),
        ("command", {"steps": [{"run": "pip install twine"}]}),
        ("second command", {"steps": [{"run": "make test; curl example.org"}]}),
        ("expression", {"steps": [{"run": "make test N=${{ github.head_ref }}"}]}),
        ("target", {"steps": [{"run": "make tset"}]}),
    ],
)
def test_a_planted_flaw_is_found(name: str, change: dict[str, Any]) -> None:
    """The check above would notice each of them."""
    job = {"permissions": {"contents": "read"}, "timeout-minutes": 5, "steps": [{"run": "make test N=1"}]}
    assert list(_flaws({"permissions": {}, "jobs": {"a": job}}, {})) == []
    planted = {key: value for key, value in (job | change).items() if value is not None}
    assert len(list(_flaws({"permissions": {}, "jobs": {"a": planted}}, {}))) == 1, name


def test_ci_runs_every_python_that_is_promised() -> None:
    """The classifiers name them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ci = _read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    promised = [f"3.{minor}" for minor in minors(project["classifiers"])]
    assert ci["test"]["strategy"]["matrix"]["python"] == promised
    (set_up,) = (step for step in ci["dependencies"]["steps"] if "setup-python@" in step.get("uses", ""))
    assert sorted(set_up["with"]["python-version"].split()) == promised


def test_pull_requests_run_what_ci_run_runs() -> None:
    """Each target of .ci/run is called by a workflow that a pull request starts."""
    started = "".join(
        workflow.read_text(encoding="utf-8")
        for workflow in WORKFLOWS
        if "pull_request" in _read(workflow)[True]  # YAML 1.1 reads the key `on` as true
    )
    wanted = re.findall(r"^make .+$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(wanted) >= 8
    assert [call for call in wanted if f"- run: {call}\n" not in started] == []


def test_equal_actions_are_equal_commits() -> None:
    """One action is used at one commit, with its version beside it."""
    text = "".join(workflow.read_text(encoding="utf-8") for workflow in WORKFLOWS)
    used = set(re.findall(r"uses: (\S+)@(\S+)  # (v\d+\.\d+\.\d+)$", text, re.MULTILINE))
    assert len(used) == len({name for name, _, _ in used})
    assert text.count("uses: ") == len(re.findall(r"uses: \S+@\S+  # v\d+\.\d+\.\d+$", text, re.MULTILINE))
