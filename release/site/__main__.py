"""
Lays out a project for Zensical in build/: ``python -m release.site``.

The pages are written for GitHub. They keep their places here, so that their links to each other hold. A file
or folder of the repository that one of them links to becomes a page, too, and so do the docstrings of each
public module. The first page is home.md, in place of the README: it, too, is written from the
root of the repository. Version and repository are those of pyproject.toml. Without a URL called Repository
there, the header has no link.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import textwrap
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = ROOT / "build"
"""Not ROOT, because Zensical fills, and empties, the .cache beside its configuration."""
PAGES: Final = PROJECT / "site-pages"
HERE: Final = Path(__file__).parent
USED: Final = (
    *("Once", "Attempt", "Replayed", "Outcome", "RELEASE", "STORE", "HOLD", "ErrorResponse"),
    *("Lapsed", "Done", "NOT_DONE", "UNKNOWN", "Answer", "MemoryStore", "PowertoolsHistory", "OnceError"),
)
"""What a reader looks for first."""
GIVEN: Final = frozenset({"Attempt", "Replayed", "Outcome", "ErrorResponse", "Lapsed"})
"""What a program gets and never makes: its constructor is not shown."""
UNCALLED: Final = "    options:\n      merge_init_into_class: false\n"
HOME: Final = ROOT / "README.md"
MODULES: Final = (
    *("lambda_once", "lambda_once.patterns", "lambda_once.patterns.fifo", "lambda_once.dynamodb"),
    "lambda_once.testing",
)
MERMAID: Final = "12.3.0"
"""On npm; of the major version that Zensical's script would load from elsewhere."""
MERMAID_SHA256: Final = "336df803d87a38b70a01e736e666c8f7601d2ce42f5e47c8fafe5d721074b9a3"
LANGUAGES: Final = {".json": "json", ".py": "python", ".toml": "toml", ".yaml": "yaml"}
_LINK: Final = re.compile(r"(?<=\]\()[^)#\s:]+(?=[)#])")
_ALERT: Final = re.compile(r"^> \[!(?P<kind>[A-Z]+)\]\n(?P<text>(?:^>.*\n?)+)", re.MULTILINE)
"""GitHub's form of a note or a warning."""
_INCLUDED: Final = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
"""In home.md: a file of the repository, as a block of code."""
_FENCED: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_NOT_SEARCHED: Final = "---\nsearch:\n  exclude: true\n---\n"


def lay_out() -> None:
    """Write all that Zensical reads, and remove what it wrote before."""
    for folder in (PAGES, PROJECT / "site", PROJECT / ".cache"):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "img", PAGES / "docs" / "img")
    shutil.copytree(HERE / "assets", PAGES / "assets")
    _write(PROJECT / "zensical.toml", configuration())
    shutil.copy(mermaid(), PAGES / "assets" / "mermaid.min.js")
    for module in MODULES:
        _write(PAGES / "reference" / f"{module}.md", reference(module))
    waiting = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    while waiting:
        source = waiting.pop()
        if not place(source).exists():
            text, targets = page(source)
            _write(place(source), text)
            waiting += targets


def configuration() -> str:
    """Return zensical.toml with the version and the repository of pyproject.toml."""
    text = (HERE / "zensical.toml").read_text(encoding="utf-8").replace("$version", _project()["version"])
    return text.replace("$repository", _project().get("urls", {}).get("Repository", ""))


def place(source: Path) -> Path:
    """Return where the page of *source*, a file or a folder of the repository, is."""
    if source == HOME:
        return PAGES / "index.md"
    path = PAGES / source.relative_to(ROOT)
    if source.is_dir():
        return path / "index.md"
    return path if path.suffix == ".md" else path.with_name(f"{path.name}.md")


def page(source: Path) -> tuple[str, list[Path]]:
    """Return the text of the page of *source*, and what it links to in the repository."""
    title = f"{_NOT_SEARCHED}# {source.relative_to(ROOT)}\n\n"
    if source.is_dir():
        inside = files(source)
        index = place(source).parent
        links = ((path.relative_to(source), os.path.relpath(place(path), index)) for path in inside)
        return title + "".join(f"* [{name}]({target})\n" for name, target in links), inside
    text = (HERE / "home.md" if source == HOME else source).read_text(encoding="utf-8")
    if source == HOME:
        text = _INCLUDED.sub(_code, text.replace("$version", _project()["version"]))
    if source.suffix != ".md":
        return f"{title}`````{LANGUAGES.get(source.suffix, 'text')}\n{text}`````\n", []
    targets: list[Path] = []

    def placed(link: re.Match[str]) -> str:
        target = (source.parent / link[0]).resolve()
        if not target.exists() or target.suffix == ".svg":
            return link[0]
        targets.append(target)
        return os.path.relpath(place(target), place(source).parent)

    parts = _FENCED.split(text)
    written = (
        part if part.startswith("```") else _LINK.sub(placed, _ALERT.sub(_admonition, part)) for part in parts
    )
    return "".join(written), targets


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _admonition(alert: re.Match[str]) -> str:
    """Return what Markdown's extension "admonition" shows as GitHub shows *alert*."""
    lines = (line.removeprefix(">").removeprefix(" ") for line in alert["text"].splitlines())
    return f"!!! {alert['kind'].lower()}\n\n" + textwrap.indent("\n".join(lines), "    ") + "\n"


def _code(included: re.Match[str]) -> str:
    """Return the file that *included* names as a block of code with its name."""
    file = ROOT / included[1]
    language = LANGUAGES[file.suffix]
    return f'```{language} title="{file.name}"\n{file.read_text(encoding="utf-8")}```'


def files(folder: Path) -> list[Path]:
    """Return the files of *folder* and its folders, without what was built or cached there."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "__init__.py")
    return [
        path
        for path in found
        if not any(part.startswith((".", "__pycache__")) for part in path.relative_to(folder).parts)
    ]


def reference(module: str) -> str:
    """Return the page of what *module* exports: for mkdocstrings, one line a name."""
    folder = ROOT / "src" / module.replace(".", "/")
    source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return f"# `{module}`\n" + "".join(
        f"\n::: {module}.{name}\n{UNCALLED if name in GIVEN else ''}"
        for name in sorted(exported(source.read_text(encoding="utf-8")), key=_use)
    )


def _use(name: str) -> tuple[int, bool]:
    """Return a name's place in the order of use; of all others constants come last."""
    return USED.index(name) if name in USED else len(USED), name.isupper()


def exported(source: str) -> list[str]:
    """Return the names in ``__all__`` of a module, without importing it."""
    (names,) = (
        statement.value
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
    )
    return list(ast.literal_eval(names))


def mermaid() -> Path:
    """Return mermaid's script, from npm's package if it is not in the cache. Needs npm only then."""
    script = ROOT / ".cache" / f"mermaid-{MERMAID}.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("make site needs npm, which fetches mermaid: install Node.js.")
        script.parent.mkdir(exist_ok=True)
        subprocess.run(
            [npm, "pack", "--silent", f"mermaid@{MERMAID}"],
            cwd=script.parent,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        archive = script.with_name(f"mermaid-{MERMAID}.tgz")
        with tarfile.open(archive) as package, tempfile.TemporaryDirectory(dir=script.parent) as folder:
            package.extract("package/dist/mermaid.min.js", folder, filter="data")
            unpacked = Path(folder, "package", "dist", "mermaid.min.js")
            if hashlib.sha256(unpacked.read_bytes()).hexdigest() != MERMAID_SHA256:
                raise SystemExit(f"npm's mermaid {MERMAID} has another SHA-256 than {MERMAID_SHA256}.")
            unpacked.replace(script)
        archive.unlink()
    return script


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    lay_out()
