"""What `make dist` and `make layer` refuse, and that what they write depends on contents alone."""

from __future__ import annotations

import hashlib
import tomllib
import zipfile
from pathlib import Path

import pytest

from release.dist import LIMIT, ROOT, TRIED, digests, flaws, write_sums
from release.layer import LOCK, minors, pack

WHEEL = (
    "lambda_once/__init__.py",
    "lambda_once/py.typed",
    "lambda_once/testing/store_suite/world.py",
    "lambda_once-1.0.dist-info/METADATA",
)


def test_a_wheel_of_the_package_passes() -> None:
    """It may have as many bytes as the limit."""
    assert flaws(WHEEL, LIMIT) == []


@pytest.mark.parametrize(
    "stray",
    [
        "tests/core/test_keys.py",
        "lambda_once/tests/test_keys.py",
        "lambda_once/core/__pycache__/keys.cpython-311.pyc",
        "requirements.txt",
        "lambda_once/.env",
    ],
)
def test_a_stray_file_is_named(stray: str) -> None:
    """Tests, bytecode, and whatever else is no module."""
    (flaw,) = flaws((*WHEEL, stray), LIMIT)
    assert flaw.startswith(f"{stray} is not part of the package")


def test_a_wheel_without_types_or_too_large_fails() -> None:
    """The message has the size and the limit."""
    assert len(flaws([name for name in WHEEL if "typed" not in name], LIMIT)) == 1
    (flaw,) = flaws(WHEEL, LIMIT + 1)
    assert flaw == f"the wheel has {LIMIT + 1:,} bytes; {LIMIT:,} are allowed"


def test_sums_are_of_the_files(tmp_path: Path) -> None:
    """One line a file, in the order of names; the file of sums is not among them."""
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.tar.gz").write_bytes(b"a")
    write_sums(tmp_path)
    write_sums(tmp_path)
    a, b = (hashlib.sha256(data).hexdigest() for data in (b"a", b"b"))
    assert (tmp_path / "SHA256SUMS").read_text() == f"{a}  a.tar.gz\n{b}  b.whl\n"
    assert set(digests(tmp_path)) == {"a.tar.gz", "b.whl", "SHA256SUMS"}


def test_the_tried_folders_are_there() -> None:
    """A folder that was renamed must not be left out silently."""
    assert [folder for folder in TRIED if not (ROOT / folder).is_dir()] == []


def _wheel(path: Path, files: dict[str, str], year: int) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), text)
    return path


def test_equal_wheels_give_an_equal_layer(tmp_path: Path) -> None:
    """Neither their order, nor the order or the times of their files, changes a byte."""
    files = {"b/__init__.py": "b", "b/": "", "b/a.py": "a", "b-1.data/scripts/b": "left out"}
    one, other = _wheel(tmp_path / "1.whl", {"c.py": "c"}, 2026), _wheel(tmp_path / "2.whl", files, 2025)
    again = _wheel(tmp_path / "3.whl", dict(reversed(files.items())), 2024)
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    assert pack([one, other], first) == pack([again, one], second) == 3
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as layer:
        assert layer.namelist() == ["python/b/__init__.py", "python/b/a.py", "python/c.py"]
        assert {entry.external_attr >> 16 & 0o777 for entry in layer.infolist()} == {0o644}


@pytest.mark.parametrize("name", ["a.py", "b-1.data/headers/b.h"])
def test_a_file_that_has_no_one_place_is_refused(tmp_path: Path, name: str) -> None:
    """The same path in two wheels, and what belongs elsewhere than beside the modules."""
    wheels = [_wheel(tmp_path / "a.whl", {"a.py": ""}, 2026), _wheel(tmp_path / "b.whl", {name: ""}, 2026)]
    with pytest.raises(ValueError, match=rf"b\.whl: {name} cannot be put into a layer"):
        pack(wheels, tmp_path / "layer.zip")


def test_there_is_a_layer_for_each_python_that_is_promised() -> None:
    """The classifiers name them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert minors(project["classifiers"]) == [11, 12, 13, 14]


def test_no_requirement_of_a_layer_depends_on_the_python() -> None:
    """A marker is judged by the Python that pip runs on, not by the one it downloads for."""
    assert ";" not in LOCK.read_text(encoding="utf-8")
