"""What `make build` and `make layer` rely on: a README without dead links, a tag that fits, pins for all."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from requirements.readme import placed

ROOT = Path(__file__).parents[2]


def dead_links(metadata: str) -> list[str]:
    """Return the links and pictures of *metadata* that lead nowhere on a package index."""
    return re.findall(r"\]\((?!https?:)[^)]+\)|src(?:set)?=\"(?!https?:)[^\"]+\"", metadata)


def test_a_dead_link_is_named() -> None:
    """A package index has none of the repository's files; what leads elsewhere is let be."""
    metadata = 'See [a](docs/a.md), [b](https://example.com/b), [c](#c) and <img src="docs/img/d.svg">.'
    assert dead_links(metadata) == ["](docs/a.md)", "](#c)", 'src="docs/img/d.svg"']


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


def refusal(folder: Path, tag: str, version: str) -> str:
    """Return what ``release/build`` prints for *tag* in a project of *version* that is no repository."""
    (folder / "release").mkdir()
    shutil.copy(ROOT / "release" / "build", folder / "release")
    (folder / "pyproject.toml").write_text(f'version = "{version}"\n', encoding="ascii")
    (folder / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n", encoding="ascii")
    done = subprocess.run(
        [folder / "release" / "build", tag], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode
    return done.stderr


def test_a_release_has_its_tag_and_its_section(tmp_path: Path) -> None:
    """The version is in pyproject.toml. What is refused here is a folder without git."""
    assert "not a git repository" in refusal(tmp_path, "v1.2.0", "1.2.0")


@pytest.mark.parametrize(
    ("tag", "version", "flaw"),
    [
        ("1.2.0", "1.2.0", "The tag 1.2.0 is not v1.2.0"),
        ("v1.2.0", "1.2.1", "The tag v1.2.0 is not v1.2.1"),
        ("v1.3.0", "1.3.0", "CHANGELOG.md has no section ## [1.3.0]"),
        ("v1x2.0", "1x2.0", "CHANGELOG.md has no section ## [1x2.0]"),
        ("vUnreleased", "Unreleased", "CHANGELOG.md has no section ## [Unreleased]"),
    ],
)
def test_a_release_that_contradicts_itself_is_refused(
    tmp_path: Path, tag: str, version: str, flaw: str
) -> None:
    """Before anything is built."""
    assert refusal(tmp_path, tag, version).startswith(flaw)


def test_no_requirement_of_a_layer_depends_on_the_python() -> None:
    """A marker is judged by the Python that pip runs on, not by the one that the layer is for."""
    assert ";" not in (ROOT / "src" / "requirements.txt").read_text(encoding="utf-8")
