"""The lock files pin everything, by hash, and name no machine and no registry."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "src" / "requirements.txt"
LOCKS = [*sorted((ROOT / "requirements").glob("*.txt")), LAYER]
PIN = re.compile(r"^([a-z0-9][a-z0-9-]*)==([^ ]+)( ; [^\\]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def _pins(lock: Path) -> set[str]:
    return {line.rstrip(" \\") for line in lock.read_text(encoding="utf-8").splitlines() if PIN.match(line)}


def _strangers(text: str) -> list[str]:
    """Return the lines that are neither a pin nor a hash: addresses, paths, options, comments."""
    return [line for line in text.splitlines() if not PIN.match(line) and not HASH.match(line)]


def test_the_locks_are_there() -> None:
    """There is one lock an environment: CDK, demo, development, mutation tests, release, SAM, site, layer."""
    stems = {"cdk", "demo", "dev", "mutants", "release", "sam", "site", "requirements"}
    assert {lock.stem for lock in LOCKS} == stems


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.name))
def test_a_lock_holds_pins_and_hashes_only(lock: Path) -> None:
    """No line holds an address, a path, an index or an unpinned requirement."""
    assert _strangers(lock.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://example.org/simple",
        "--find-links /opt/wheels",
        "# made on a machine",
        "-e .",
        "boto3>=1",
    ],
)
def test_a_stranger_is_seen(line: str) -> None:
    """The check above would notice an option, a path, a comment, and a range."""
    assert _strangers(f"{line}\n") == [line]


def test_every_lock_is_audited() -> None:
    """`make audit` asks for the pins of each, those of the layer included."""
    target = subprocess.run(
        ["make", "--dry-run", "audit"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert [str(lock.relative_to(ROOT)) for lock in LOCKS if str(lock.relative_to(ROOT)) not in target] == []


def test_the_demo_runs_what_the_tests_ran() -> None:
    """Every pin of the demo is in the development lock too."""
    demo, dev = (next(lock for lock in LOCKS if lock.stem == stem) for stem in ("demo", "dev"))
    assert _pins(demo) <= _pins(dev)
    assert _pins(demo)


def test_the_layer_has_what_the_tests_ran() -> None:
    """Every pin of the layer is in the development lock, with what it needs; boto3 is the runtime's."""
    (dev,) = (lock for lock in LOCKS if lock.stem == "dev")
    assert _pins(LAYER) <= _pins(dev)
    names = {pin.partition("==")[0] for pin in _pins(LAYER)}
    assert names >= {"aws-lambda-powertools", "jmespath", "pydantic", "pydantic-core", "python-ulid"}
    assert not names & {"boto3", "botocore", "aws-xray-sdk"}
