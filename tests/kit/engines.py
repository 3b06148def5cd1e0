"""Runs an engine of the folder engines/ on a free loopback port."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from lambda_once.core.clock import Deadline, SystemClock
from tests.kit.ports import answers, free_port

ENGINES = Path(__file__).parents[2] / "engines"
START_SECONDS = 30.0
"""How long a start may take. About one second is usual; a busy machine of one core was seen to need ten."""
STOP_SECONDS = 10.0


class EngineAbsent(Exception):
    """The engine isn't installed: the message names the command that installs it."""


class EngineFailed(Exception):
    """The engine ended, or did not answer in time. The message has its output."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine: a program in *folder*, whose file matches *program*, and which ``make target`` installs."""

    name: str
    folder: Path
    program: str
    target: str
    command: Callable[[int], list[str]]
    """The command that makes it listen on a port, run in its folder."""

    @contextmanager
    def running(self, folder: Path | None = None) -> Iterator[str]:
        """
        Run it, out of *folder* if given, and yield its endpoint. The process ends with the block.

        Raises `EngineAbsent` without its program, `EngineFailed` without an answer within START_SECONDS.
        """
        place = self.folder if folder is None else folder
        if not any(place.glob(self.program)):
            message = f"{self.name} is not in {place}: run `make {self.target}`"
            raise EngineAbsent(message)
        port = free_port()
        # Its error output is kept in a pipe, which it fills with a few lines only.
        process = subprocess.Popen(
            self.command(port),
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            self._wait_until_it_answers(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            _stop(process)

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes], port: int) -> None:
        clock = SystemClock()
        deadline = Deadline(clock, clock.now() + timedelta(seconds=START_SECONDS))
        while not answers(port):
            if process.poll() is not None:
                said = process.stderr.read().decode(errors="replace") if process.stderr is not None else ""
                message = f"{self.name} ended with code {process.returncode}: {said.strip()[-2000:]}"
                raise EngineFailed(message)
            if deadline.passed():
                message = f"{self.name} did not answer on port {port} within {START_SECONDS:.0f} s"
                raise EngineFailed(message)
            deadline.pause(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stderr is not None:
        process.stderr.close()
