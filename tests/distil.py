"""
Find the test files that kill no mutant which the others let live.

    python -m tests.distil SEED COUNT [FILE...]

A test that adds no kill costs its readers, and the suite's time, for nothing. Each file of the folders that
mutants reach, and of the guarantees, runs once in a fork under a profiler: who enters which function. Then
SEED draws COUNT mutants of the functions that the candidates FILE... enter, one of each in turn. The tests
that enter its function try it, file by file, in forks whose function has the changed code: first those of the
files that stay and, if none of them fails, those of every candidate. The cover is greedy: the candidate with
most kills a line stays, until each mutant that can be killed has a killer. Without candidates, mutants of all
functions are tried: the same ones before and after a change of the tests, for the same SEED.

Read a file before it goes: a sample bounds what is lost. Mutants hardly change races, logs and messages, and
tests that are marked slow don't take part.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import gc
import importlib
import multiprocessing
import os
import pickle
import pkgutil
import random
import signal
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

import lambda_once

FOLDERS = ["core", "stores", "engine", "sources", "decorators", "dynamodb", "guarantees"]
MARKS = "not engine and not e2e and not site and not timed and not slow"
PAIRS: list[tuple[Any, Any]] = [
    *((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub)),
]
SWAPPED = dict([*PAIRS, *((other, one) for one, other in PAIRS)])

Name = tuple[str, int, str]
"""A function, as its code names it: file, first line, qualified name."""


class Run(NamedTuple):
    """A test that passes: its number in its file, the functions that it enters, its seconds."""

    place: int
    entered: set[Name]
    seconds: float


class Mutant(NamedTuple):
    """The code that takes the place of a function's."""

    name: Name
    line: int
    code: CodeType


def changed(node: ast.AST) -> ast.AST | None:
    """Return *node* as a mutant has it; None if there is no change for its kind."""
    new: Any = copy.copy(node)
    match new:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED:
            new.ops = [SWAPPED[type(operator)]()]
        case ast.BoolOp() | ast.BinOp() if type(new.op) in SWAPPED:
            new.op = SWAPPED[type(new.op)]()
        case ast.If() | ast.While() | ast.IfExp():
            new.test = ast.UnaryOp(ast.Not(), new.test)
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int(value)):
            new.value = value + 1
        case ast.Return(value=ast.expr()):
            new.value = ast.Constant(None)
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call() | ast.Await()):
            return ast.Pass()
        case ast.Call(keywords=[_, *others]):
            new.keywords = others
        case _:
            return None
    placed: ast.AST = ast.copy_location(new, node)
    return placed


def name_of(code: CodeType) -> Name:
    """Name the function of *code*."""
    return code.co_filename, code.co_firstlineno, code.co_qualname


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield *code* and all that is in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def mutants(path: str) -> Iterator[Mutant]:
    """Yield each change of the file at *path*, for each function whose code it changes."""
    tree = ast.parse(Path(path).read_text())
    before = {name_of(code): code for code in nested(compile(tree, path, "exec"))}
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            holder: Any = value if isinstance(value, list) else vars(parent)
            for key, node in list(enumerate(value) if isinstance(value, list) else [(field, value)]):
                if not isinstance(node, ast.stmt | ast.expr) or (new := changed(node)) is None:
                    continue
                holder[key] = new
                _, *functions = nested(compile(ast.fix_missing_locations(tree), path, "exec"))
                for code in functions:
                    if code != before.get(name_of(code), code):
                        yield Mutant(name_of(code), node.lineno, code)
                holder[key] = node


class Distillery:
    """A plugin: its session tries mutants in place of running the tests."""

    def __init__(self, seed: int, count: int, candidates: Sequence[str]) -> None:
        self.seed, self.count, self.candidates = seed, count, candidates
        self.functions = defaultdict[Name, list[FunctionType]](list)
        self.items: dict[str, list[pytest.Item]] = {}
        self.runs: dict[str, list[Run]] = {}
        self.hear: Callable[[pytest.TestReport], object] = lambda _: None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self) -> None:
        """Find the functions before the suite hides all objects from the garbage collector."""
        root = str(Path(lambda_once.__file__).parent)
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(root):
                self.functions[name_of(each.__code__)].append(each)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.hear(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in sorted(session.items, key=lambda item: file_of(item) in self.candidates):
            self.items.setdefault(file_of(item), []).append(item)
        self.runs = dict(zip(self.items, on_all_cores(self.profiled, list(self.items)), strict=True))
        for file, items in self.items.items():
            if left := len(items) - len(self.runs[file]):
                say(f"{file}: {left} of {len(items)} tests fail in a fork and take no part")
        tried = self.drawn()
        killed_by = []
        for mutant, killers in zip(tried, on_all_cores(self.killers, tried), strict=True):
            killed_by.append(killers)
            path, _, name = mutant.name
            say(f"{len(killed_by)} {Path(path).stem} {name} {mutant.line}", *(killers or ["nobody"]))
        alone = [killers for killers in killed_by if killers and killers[0] in self.candidates]
        say(f"killed: {sum(map(bool, killed_by))} of {len(tried)}, by candidates alone: {len(alone)}")
        while alone:
            kills = {file: sum(file in killers for killers in alone) for killers in alone for file in killers}
            best = max(kills, key=lambda file: kills[file] / Path(file).read_text().count("\n"))
            say(f"stays: {best} ({kills[best]})")
            alone = [killers for killers in alone if best not in killers]
        return True

    def drawn(self) -> list[Mutant]:
        """Draw mutants of what the candidates enter, or else all files, one of each function in turn."""
        files = self.candidates or self.items
        names = {name for file in files for run in self.runs.get(file, ()) for name in run.entered}
        by_function = defaultdict[Name, list[Mutant]](list)
        for path in sorted({path for path, _, _ in names}):
            for mutant in mutants(path):
                if mutant.name in names and self.fits(mutant):
                    by_function[mutant.name].append(mutant)
        turns: list[tuple[int, float, Mutant]] = []
        for name, changes in by_function.items():
            dice = random.Random(f"{self.seed} {name[2]}")
            dice.shuffle(changes)
            turns += [(turn, dice.random(), mutant) for turn, mutant in enumerate(changes)]
        return [mutant for _, _, mutant in sorted(turns, key=lambda turn: turn[:2])[: self.count]]

    def fits(self, mutant: Mutant) -> bool:
        """Return whether its code can take the place of the function's: it closes over the same names."""
        return mutant.code.co_freevars == self.functions[mutant.name][0].__code__.co_freevars

    def profiled(self, file: str) -> list[Run]:
        """Run the tests of *file* in a fork under a profiler; return those that pass."""
        entered: dict[CodeType, None] = {}
        reports: list[pytest.TestReport] = []

        def enter(frame: Any, _event: str, _argument: object) -> None:
            entered[frame.f_code] = None

        def work(items: list[pytest.Item]) -> list[Run]:
            self.hear = reports.append
            threading.setprofile(enter)
            runs = []
            for place in range(len(items)):
                sys.setprofile(enter)  # again: a test may have taken it away
                run_one(items, place)
                if not any(report.failed for report in reports):
                    names = {name_of(code) for code in list(entered)} & self.functions.keys()
                    runs.append(Run(place, names, sum(report.duration for report in reports)))
                entered.clear()
                reports.clear()
            sys.setprofile(None)
            return runs

        return forked(work, self.items[file]) or []

    def killers(self, mutant: Mutant) -> list[str]:
        """Return the first file that stays and kills *mutant*, or else every candidate that does."""
        killers = []
        for file, runs in self.runs.items():
            entering = [run for run in runs if mutant.name in run.entered]
            if entering and self.kills(file, entering, mutant):
                killers.append(file)
                if file not in self.candidates:
                    break
        return killers

    def kills(self, file: str, runs: list[Run], mutant: Mutant) -> bool:
        """Return whether one of *runs* fails, or doesn't end, with the code of *mutant*."""

        def work(items: list[pytest.Item]) -> bool:
            self.hear = lambda report: os._exit(1) if report.failed else None
            for function in self.functions[mutant.name]:
                function.__code__ = mutant.code
            signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
            signal.alarm(5 + int(3 * sum(run.seconds for run in runs)))
            for place in range(len(items)):
                run_one(items, place)
            return True

        return forked(work, [self.items[file][run.place] for run in runs]) is None


def file_of(item: pytest.Item) -> str:
    """Return the path of its file, from the root."""
    return item.nodeid.partition("::")[0]


def run_one(items: list[pytest.Item], place: int) -> None:
    """Run the test at *place*, and tear down what the next one doesn't use."""
    after = items[place + 1] if place + 1 < len(items) else None
    items[place].config.hook.pytest_runtest_protocol(item=items[place], nextitem=after)


def say(*words: str) -> None:
    """Print *words* at once."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def forked(work: Callable[[list[pytest.Item]], Any], items: list[pytest.Item]) -> Any:
    """Return what *work* returns for *items*, in a fork that prints nothing; None if it ends early."""
    with tempfile.NamedTemporaryFile() as file:
        if (child := os.fork()) == 0:
            with contextlib.suppress(BaseException), Path(os.devnull).open("w") as silence:
                os.dup2(silence.fileno(), 1)
                os.dup2(silence.fileno(), 2)
                Path(file.name).write_bytes(pickle.dumps(work(items)))
            os._exit(0)
        os.waitpid(child, 0)
        answer = Path(file.name).read_bytes()
    return pickle.loads(answer) if answer else None


INHERITED: list[Callable[[int], Any]] = []
"""The work of the forks below: what it holds can't be pickled."""


def on_all_cores(function: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[Any]:
    """Yield what *function* returns for each of *arguments*, in their order, from forks of this process."""
    INHERITED.append(lambda place: function(arguments[place]))
    with multiprocessing.get_context("fork").Pool() as pool:
        yield from pool.imap(inherited, range(len(arguments)))
    INHERITED.clear()


def inherited(place: int) -> Any:
    """Do the work at *place*."""
    return INHERITED[-1](place)


def main(seed: str, count: str, *candidates: str) -> int:
    """Import all that mutants are made of, and run pytest with a loop of our own."""
    for module in pkgutil.walk_packages(lambda_once.__path__, "lambda_once."):
        with contextlib.suppress(ImportError):  # what needs an extra that isn't installed
            importlib.import_module(module.name)
    os.environ["CI"] = "1"  # Hypothesis draws the same examples each time
    return pytest.main(
        ["-q", "-s", "-m", MARKS, *(f"tests/{each}" for each in FOLDERS)],
        [Distillery(int(seed), int(count), candidates)],
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
