"""Runs a stack under the SAM CLI: `sam build`, and `sam local` invoke, start-api, start-lambda."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from lambda_once.core.clock import Deadline, SystemClock
from tests.kit.ports import answers, free_port

from .image import ARCHITECTURE, ROOT, RUNTIME

SAM = ROOT / ".venv-sam" / "bin" / "sam"
FOLDER = ROOT / ".cache" / "e2e"
REGION = "eu-central-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "defaultkey", "AWS_SECRET_ACCESS_KEY": "defaultsecret"}
"""
What `sam local` gives functions where the shell has no credentials.

dynoxide keeps the tables of each access key and region apart, so the table is made with the same.
"""
BUILD_SECONDS = 300.0
INVOKE_SECONDS = 120.0
"""How long one command may take; an invocation was seen to take two seconds, the first ten."""
MEANT_FOR_FUNCTIONS = ("AWS_", "LAMBDA_", "POWERTOOLS_")


class SamAbsent(Exception):
    """The SAM CLI was never installed: run `make e2e`, which does."""


class SamFailed(Exception):
    """The SAM CLI failed: not the function, but what should have run it. The message has its words."""


@dataclass(frozen=True, slots=True)
class Said:
    """What functions wrote while they ran, in the midst of what the SAM CLI writes."""

    text: str

    def entries(self, event: str) -> list[dict[str, Any]]:
        """Return the log entries of that name, in their order."""
        return [entry for entry in self._json() if entry.get("message") == event]

    def counted(self) -> Counter[str]:
        """Return what the EMF documents count, by metric."""
        counts: Counter[str] = Counter()
        for document in self._json():
            for directive in document.get("_aws", {}).get("CloudWatchMetrics", []):
                for metric in directive["Metrics"]:
                    counts[metric["Name"]] += round(sum(document[metric["Name"]]))
        return counts

    def _json(self) -> Iterator[dict[str, Any]]:
        for line in self.text.splitlines():
            if line.startswith("{"):
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # two containers wrote at once, or the container was killed half-way


@dataclass(frozen=True, slots=True)
class Invocation:
    """One `sam local invoke`."""

    answer: Any
    """What the function returned, or Lambda's error document; None where it was killed."""
    said: Said


@dataclass(frozen=True, slots=True)
class Stack:
    """The built stack, and the engine that its functions are to use."""

    folder: Path
    """Where its commands are given: samconfig.toml is there, if it has one."""
    template: Path
    events: Sequence[Path]
    """The folders of its events."""
    endpoint: str
    """As containers see it."""

    def invoke(self, function: str, event: str) -> Invocation:
        """Hand the file *event*.json of its events to *function*, in a container of its own."""
        (file,) = (file for folder in self.events for file in folder.glob(f"{event}.json"))
        done = _sam([*self._command("invoke"), "--event", str(file), function], self.folder, INVOKE_SECONDS)
        if done.returncode != 0:
            raise SamFailed(done.stderr[-4000:])
        answer = done.stdout.strip()
        if answer.startswith("Task timed out"):  # the emulator in the container was faster than SAM's kill
            return Invocation(None, Said(f"{done.stderr}\n{answer}"))
        return Invocation(json.loads(answer) if answer else None, Said(done.stderr))

    def with_a_limit_of(self, seconds: int) -> Stack:
        """Return the stack with another limit for all functions that have none of their own."""
        return self._changed(f"limit-{seconds}", "    Timeout: 30\n", f"    Timeout: {seconds}\n")

    def switched_off(self) -> Stack:
        """Return the stack with the layer disabled."""
        variables = "    Environment:\n      Variables:\n"
        return self._changed("off", variables, f"{variables}        LAMBDA_ONCE_DISABLED: 'true'\n")

    @contextmanager
    def api(self) -> Iterator[Api]:
        """Serve the stack's HTTP API on a free loopback port; every request gets a container of its own."""
        with self._served("start-api") as (port, log):
            yield Api("127.0.0.1", port, log)

    @contextmanager
    def functions(self) -> Iterator[str]:
        """Serve Lambda's Invoke API for the stack's functions; yield its endpoint."""
        with self._served("start-lambda") as (port, _):
            yield f"http://127.0.0.1:{port}"

    @contextmanager
    def _served(self, verb: str) -> Iterator[tuple[int, Path]]:
        port, log = free_port(), FOLDER / f"{verb}.log"
        with log.open("w", encoding="utf-8") as written:
            process = subprocess.Popen(
                [SAM, *self._command(verb), "--port", str(port)],
                cwd=self.folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
            )
            try:
                _wait_until_it_listens(process, port, log)
                yield port, log
            finally:
                _stop(process)

    def _changed(self, name: str, before: str, after: str) -> Stack:
        """Return the stack with one place of what all functions share written anew."""
        text = self.template.read_text(encoding="utf-8")
        if text.count(f"\n{before}") != 1:
            raise SamFailed(f"the built template has not exactly one {before!r}")
        changed = self.template.with_name(f"{name}.yaml")
        changed.write_text(text.replace(f"\n{before}", f"\n{after}"), encoding="utf-8")
        return replace(self, template=changed)

    def _command(self, verb: str) -> list[str]:
        return [
            *("local", verb, "--template", str(self.template), *_settings(self.folder)),
            *("--add-host", "host.docker.internal:host-gateway", "--skip-pull-image"),
            *("--layer-cache-basedir", str(FOLDER / "layers")),
            *("--parameter-overrides", _parameters(self.endpoint)),
        ]


@dataclass(frozen=True, slots=True)
class Api:
    """A running `sam local start-api`."""

    host: str
    port: int
    log: Path

    def said(self) -> Said:
        """Return what all functions have written so far."""
        return Said(self.log.read_text(encoding="utf-8", errors="replace"))


def _settings(folder: Path) -> list[str]:
    file = folder / "samconfig.toml"
    return ["--config-file", str(file), "--config-env", "local"] if file.exists() else []


def build(source: Path, name: str, wheels: Path | None = None) -> Path:
    """
    Build the stack in the folder *source* for this machine, from a cache where nothing changed.

    Return the template of what was built.

    *name*: of the folder for both; the SAM CLI keeps one record of what it built beside a build.
    *wheels*: a folder where pip looks, too. Not cached: the SAM CLI compares requirements, not wheels.
    """
    folder = FOLDER / name
    command = [
        *("build", "--template", str(source / "template.yaml"), *_settings(source)),
        "--no-cached" if wheels else "--cached",
        *("--build-dir", str(folder / "build"), "--cache-dir", str(folder / "cache")),
        *("--parameter-overrides", _parameters("")),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    done = _sam(command, source, BUILD_SECONDS, {} if wheels is None else finding(wheels))
    if done.returncode != 0:
        raise SamFailed(done.stderr[-4000:])
    return folder / "build" / "template.yaml"


def wheel_of_this_tree() -> Path:
    """Build the wheel of the working tree, as a user does until the version is on PyPI; return its folder."""
    folder = FOLDER / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    wheel = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    subprocess.run([sys.executable, "-m", "pip", *wheel], check=True, timeout=BUILD_SECONDS)
    return folder


def finding(wheels: Path) -> dict[str, str]:
    """Return the variable by which pip looks in *wheels*, too."""
    return {"PIP_FIND_LINKS": f"{os.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()}


def _sam(
    arguments: Sequence[str], folder: Path, seconds: float, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    if not SAM.exists():
        raise SamAbsent(f"the SAM CLI is not at {SAM}: run `make e2e`, which installs it")
    return subprocess.run(
        [SAM, *arguments],
        cwd=folder,
        env={**_environment(), **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def _environment() -> dict[str, str]:
    """
    Return an environment that reaches no account.

    Without credentials the SAM CLI does not ask STS who it is, which takes seconds where there is no network.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith(MEANT_FOR_FUNCTIONS)}
    return ours | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), ours.get("PATH", "")]),
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "SAM_CLI_TELEMETRY": "0",
        "__SAM_CLI_APP_DIR": str(ROOT / ".cache" / "sam"),
    }


def _parameters(endpoint: str) -> str:
    given = {
        "Runtime": RUNTIME,
        "Architecture": ARCHITECTURE,
        "LogLevel": "DEBUG",
        "TableDeletionPolicy": "Delete",
        "DynamoDBEndpoint": endpoint,
    }
    return " ".join(f"{name}={value}" for name, value in given.items() if value)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    clock = SystemClock()
    deadline = Deadline(clock, clock.now() + timedelta(seconds=INVOKE_SECONDS))
    while not answers(port):
        if process.poll() is not None or deadline.passed():
            raise SamFailed(log.read_text(encoding="utf-8", errors="replace")[-4000:])
        deadline.pause(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt it as a person would, so that it removes its containers."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
