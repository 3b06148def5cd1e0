"""What `make dist`, `make layer` and `make sbom` refuse, and that contents alone decide what they write."""

from __future__ import annotations

import hashlib
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from release import installed
from release.dist import LIMITS, ROOT, TRIED, dead_links, digests, flaws, tried, unready, write_sums
from release.layer import LOCK, NEEDED, pack, strangers
from release.sbom import differing
from requirements.readme import placed
from tests.versions import FAST, SDKS, minors

WHEEL = (
    "lambda_once/__init__.py",
    "lambda_once/py.typed",
    "lambda_once/testing/events.py",
    "lambda_once-1.0.dist-info/METADATA",
)


def test_a_wheel_of_the_package_passes() -> None:
    """It may have as many bytes as the limit."""
    for package, limit in LIMITS.items():
        assert flaws(package, [name.replace("lambda_once", package) for name in WHEEL], limit) == []


@pytest.mark.parametrize(
    "stray",
    [
        "tests/core/test_keys.py",
        "lambda_once/tests/test_keys.py",
        "lambda_once/core/__pycache__/keys.cpython-311.pyc",
        "requirements.txt",
        "lambda_once/.env",
        "lambda_once_tools/cli/app.py",
    ],
)
def test_a_stray_file_is_named(stray: str) -> None:
    """Tests, bytecode, and whatever else is no module."""
    (flaw,) = flaws("lambda_once", (*WHEEL, stray), LIMITS["lambda_once"])
    assert flaw.startswith(f"{stray} is not part of the package")


def test_a_dead_link_is_named() -> None:
    """A package index has none of the repository's files; what leads elsewhere is let be."""
    metadata = 'See [a](docs/a.md), [b](https://example.com/b), [c](#c) and <img src="docs/img/d.svg">.'
    assert dead_links(metadata) == ["](docs/a.md)", "](#c)", 'src="docs/img/d.svg"']
    assert len(flaws("lambda_once", WHEEL, LIMITS["lambda_once"], metadata)) == 3


README = """[tried](#try-it), [page](docs/a.md#b), [AWS](https://aws.amazon.com)

![Scenes](docs/img/scenes.svg)

End
"""


def test_the_readme_of_a_package_index_has_no_dead_links() -> None:
    """With an address, links and pictures lead there; without one, links are text, pictures are gone."""
    assert placed(README, None) == "tried, page, [AWS](https://aws.amazon.com)\n\nEnd\n"
    found = placed(README, "https://github.com/a/b")
    assert dead_links(found) == []
    assert (
        "[tried](https://github.com/a/b#try-it), [page](https://github.com/a/b/blob/HEAD/docs/a.md#b)"
        in found
    )
    assert "\n\n![Scenes](https://github.com/a/b/raw/HEAD/docs/img/scenes.svg)\n\nEnd\n" in found


def test_the_readme_of_this_package_has_no_dead_links() -> None:
    """As hatchling gives it to both wheels."""
    for project in (ROOT, ROOT / "tools"):
        metadata = ProjectMetadata(str(project), PluginManager())
        assert dead_links(metadata.core.readme) == []
        assert metadata.core.readme_content_type == "text/markdown"


def test_a_wheel_without_types_or_too_large_fails() -> None:
    """The message has the size and the limit."""
    limit = LIMITS["lambda_once"]
    assert len(flaws("lambda_once", [name for name in WHEEL if "typed" not in name], limit)) == 1
    (flaw,) = flaws("lambda_once", WHEEL, limit + 1)
    assert flaw == f"the wheel of lambda_once has {limit + 1:,} bytes; {limit:,} are allowed"


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


def test_every_fast_test_runs_on_the_newest_python() -> None:
    """The others run fewer, so that `make dist` stays bounded."""
    oldest, newest = tried({(3, 13): "/b/python", (3, 11): "/a/python"})
    assert (oldest.version, oldest.executable, oldest.tests, oldest.sdks) == ("3.11", "/a/python", TRIED, ())
    assert (newest.version, newest.executable, newest.tests, newest.sdks) == ("3.13", "/b/python", FAST, SDKS)
    assert set(TRIED) < set(FAST)


def test_tests_of_the_sources_are_no_tests_of_the_wheel() -> None:
    """Here the package is imported from src: the plugin of `make dist` refuses to run."""
    with pytest.raises(pytest.UsageError, match="not the one installed"):
        installed.pytest_configure()


CHANGELOG = "## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n\n### Added\n"


def test_a_release_has_its_tag_and_its_section() -> None:
    """The version is in pyproject.toml."""
    assert unready("v1.2.0", "1.2.0", CHANGELOG) == []


@pytest.mark.parametrize(
    ("tag", "version", "flaw"),
    [
        ("1.2.0", "1.2.0", "the tag 1.2.0 is not v1.2.0"),
        ("v1.2.0", "1.2.1", "the tag v1.2.0 is not v1.2.1"),
        ("v1.3.0", "1.3.0", "CHANGELOG.md has no section ## [1.3.0]"),
        ("v1x2.0", "1x2.0", "CHANGELOG.md has no section ## [1x2.0]"),
        ("vUnreleased", "Unreleased", "CHANGELOG.md has no section ## [Unreleased]"),
    ],
)
def test_a_release_that_contradicts_itself_is_refused(tag: str, version: str, flaw: str) -> None:
    """Before anything is built."""
    assert any(each.startswith(flaw) for each in unready(tag, version, CHANGELOG))


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
    pack([one, other], first)
    pack([again, one], second)
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


def _library(machine: int) -> bytes:
    return b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little")


X86_64, AARCH64 = _library(62), _library(183)
LAYER = {f"python/{package}/__init__.py": b"" for package in NEEDED} | {
    "python/typing_extensions.py": b"",
    "python/pydantic_core/core.cpython-313-aarch64-linux-gnu.so": AARCH64,
    "python/pydantic_core/stable.abi3.so": AARCH64,
}


def test_a_layer_of_its_python_and_architecture_passes() -> None:
    """What is compiled for one Python, and what is for each (abi3)."""
    assert strangers(LAYER, 13, "arm64") == []


@pytest.mark.parametrize(
    ("more", "flaw"),
    [
        ({"boto3/a.py": b""}, "boto3/a.py is not under python/"),
        ({"python/boto3/__init__.py": b""}, "boto3 is the runtime's"),
        ({"python/botocore/__init__.py": b""}, "botocore is the runtime's"),
        (
            {"python/a/b.cpython-312-aarch64-linux-gnu.so": AARCH64},
            "python/a/b.cpython-312-aarch64-linux-gnu.so",
        ),
        (
            {"python/a/b.cpython-313-x86_64-linux-gnu.so": AARCH64},
            "python/a/b.cpython-313-x86_64-linux-gnu.so",
        ),
        (
            {"python/a/b.cpython-313-aarch64-linux-gnu.so": X86_64},
            "python/a/b.cpython-313-aarch64-linux-gnu.so",
        ),
        ({"python/a/b.abi3.so": X86_64}, "python/a/b.abi3.so"),
        ({"python/a/b.so": AARCH64}, "python/a/b.so"),
    ],
)
def test_what_does_not_belong_into_a_layer_is_named(more: dict[str, bytes], flaw: str) -> None:
    """Another place, the runtime's packages, another Python, another processor by name or by header."""
    (found,) = strangers(LAYER | more, 13, "arm64")
    assert found.startswith(flaw)


@pytest.mark.parametrize("package", NEEDED)
def test_a_layer_has_every_package_that_it_needs(package: str) -> None:
    """The library, and the packages of src/requirements.txt."""
    short = {name: data for name, data in LAYER.items() if f"/{package}/" not in name}
    assert strangers(short, 13, "arm64") == [f"{package} is missing"]


def test_there_is_a_layer_for_each_python_that_is_promised() -> None:
    """The classifiers name them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert minors(project["classifiers"]) == [11, 12, 13, 14]


def test_no_requirement_of_a_layer_depends_on_the_python() -> None:
    """A marker is judged by the Python that pip runs on, not by the one it downloads for."""
    assert ";" not in LOCK.read_text(encoding="utf-8")


def test_a_bill_of_materials_has_what_the_layer_locks() -> None:
    """Each package of the lock at its version, and no other."""
    lock = LOCK.read_text(encoding="utf-8")
    pins = re.findall(r"^(\S+)==(\S+) ", lock, re.MULTILINE)
    bill = {"components": [{"purl": f"pkg:pypi/{name}@{version}"} for name, version in pins]}
    assert len(pins) >= 6
    assert differing(bill, lock) == []
    more = {"components": [*bill["components"][1:], {"purl": "pkg:pypi/pip@26"}]}
    assert differing(more, lock) == sorted([bill["components"][0]["purl"], "pkg:pypi/pip@26"])
