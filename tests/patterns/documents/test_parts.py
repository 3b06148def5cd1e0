"""The rules of versions, as values."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.patterns.documents import requests
from lambda_once.patterns.documents.parts import (
    MOST_BEFORE,
    Form,
    Head,
    Part,
    StoredVersion,
    Version,
    new_version,
    succeeding,
    superseded,
    versions,
    whole_document,
    written_at,
)

NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
PLACE = requests.document_place("documents", "pk", "sk")


def part(version: str, name: str, total: int = 2) -> Part:
    """Return one part of *version*."""
    return Part(name, Form.BYTES, b"x", section=False, total=total, version=Version(version))


def chain(length: int) -> tuple[list[Version], Head]:
    """Return versions that stood one after another, the oldest first, and the head of the last."""
    made: list[Version] = []
    head: Head | None = None
    for _ in range(length):
        made.append(new_version(NOW, made[-1] if made else None))
        head = succeeding(head, made[-1], NOW)
    assert head is not None
    return made, head


def test_a_version_bears_its_time() -> None:
    """It can be read out of it, to the millisecond."""
    assert written_at(new_version(NOW, None)) == NOW


@given(st.lists(st.integers(-10_000, 10_000), min_size=2, max_size=20))
def test_versions_grow_whatever_the_clock_does(steps: list[int]) -> None:
    """Each is greater than the one it is above, and no further in the future than it must be."""
    above: Version | None = None
    latest = NOW
    for step in steps:
        now = NOW + timedelta(milliseconds=step)
        version = new_version(now, above)
        assert above is None or version > above
        latest = now if above is None else max(now, latest + timedelta(milliseconds=1))
        assert written_at(version) == latest
        above = version


def test_two_writers_never_make_the_same_version() -> None:
    """Not in the same millisecond, nor above the same version with clocks that are behind it."""
    above = new_version(NOW + timedelta(minutes=1), None)
    made = {new_version(NOW, above) for _ in range(1_000)}
    assert len(made) == 1_000


def test_the_head_knows_what_stood() -> None:
    """Each of the last nine versions was committed; what is missing among them was not."""
    made, head = chain(MOST_BEFORE + 1)
    assert [head.committed(version) for version in made] == [True] * (MOST_BEFORE + 1)
    assert head.committed(new_version(NOW, made[0])) is False
    assert head.committed(new_version(NOW + timedelta(days=1), None)) is False


def test_the_head_says_where_it_does_not_know() -> None:
    """A version older than the oldest that is remembered may have stood before that."""
    made, head = chain(MOST_BEFORE + 2)
    assert head.committed(made[0]) is None
    _, young = chain(MOST_BEFORE)
    assert young.committed(new_version(NOW - timedelta(days=1), None)) is False


def test_a_whole_version_is_given_at_once() -> None:
    """Nothing behind its last part is asked for."""

    def parts() -> object:
        yield part("B", "0002")
        yield part("B", "0001")
        raise AssertionError("this would be another page")

    found = versions(parts())  # type: ignore[arg-type]
    assert next(found).whole


def test_versions_are_gathered() -> None:
    """Torn ones too, wherever they lie."""
    parts = [part("C", "0002"), part("B", "0002"), part("B", "0001"), part("A", "0001")]
    assert [(each.version, each.whole) for each in versions(parts)] == [
        ("C", False),
        ("B", True),
        ("A", False),
    ]


@pytest.mark.parametrize("whole", [0, 1, 2, 3])
def test_what_is_superseded(whole: int) -> None:
    """All that stood before the newest whole version, and nothing as new as that or newer."""
    made, head = chain(4)
    found = [
        StoredVersion([part(version, name) for name in ("2", "1")[: 1 + (made.index(version) == whole)]])
        for version in reversed(made)
    ]
    gone = superseded(head, found, new_version(NOW - timedelta(days=1), None))
    assert {each.version for each in gone} == set(made[:whole])


def test_what_never_stood_stays_for_a_day() -> None:
    """Its writer may be running; older than that it goes, below the newest whole version only."""
    made, head = chain(1)
    stray = new_version(NOW - timedelta(hours=1), None)
    later = new_version(NOW + timedelta(hours=1), None)
    found = [StoredVersion([part(version, "1", total=1)]) for version in (later, made[0], stray)]
    assert superseded(head, found, new_version(NOW - timedelta(days=1), None)) == []
    gone = superseded(head, found, new_version(NOW + timedelta(days=1), None))
    assert [each.version for each in gone] == [stray]


def test_the_requests_of_a_write() -> None:
    """Parts first, each with all that tells whether they are complete; then one conditional write."""
    version = Version("01M7X00QE961WSR1M1G7XBM9DY")
    parts = [each._replace(version=version) for each in whole_document(b"abc", 2)]
    (batch,) = requests.put_parts(PLACE, "7", parts)
    assert batch == [
        {
            "PutRequest": {
                "Item": {
                    "pk": {"S": "7"},
                    "sk": {"S": f"{version}#{name}"},
                    "body": {"B": body},
                    "form": {"S": "bytes"},
                    "total": {"N": "2"},
                }
            }
        }
        for name, body in (("0001", b"ab"), ("0002", b"c"))
    ]
    first = requests.put_head(PLACE, "7", Head(version, at=5), None)
    assert first["ConditionExpression"] == "attribute_not_exists(#key)"
    assert first["Item"] == {
        "pk": {"S": "7"},
        "sk": {"S": "head"},
        "version": {"S": version},
        "before": {"L": []},
        "at": {"N": "5"},
    }
    second = requests.put_head(PLACE, "7", succeeding(Head(version), version, NOW), Head(version))
    assert second["ConditionExpression"] == "#version = :seen"
    assert second["ExpressionAttributeValues"] == {":seen": {"S": version}}


def test_batches_are_bounded() -> None:
    """At most 25 items, and four million bytes, a request."""
    many = list(requests.put_parts(PLACE, "7", whole_document(bytes(60), 1)))
    assert [len(each) for each in many] == [25, 25, 10]
    large = list(requests.put_parts(PLACE, "7", whole_document(bytes(5_000_000), 400_000)))
    assert [len(each) for each in large] == [10, 3]


def test_importing_it_loads_neither_boto3_nor_ulid() -> None:
    """Both are imported when they are first used."""
    program = (
        "import sys, lambda_once.patterns.documents.stream\n"
        "sys.exit(bool({'boto3', 'botocore', 'ulid'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
