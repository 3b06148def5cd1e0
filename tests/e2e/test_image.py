"""Which image functions run in, with a stand-in for Docker: these need none."""

from __future__ import annotations

from pathlib import Path

import pytest

from .image import IMAGE, SCRIPT_VARIABLE, ImageAbsent, provide


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose Docker finds and pulls nothing, without the script; what is called there is noted."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv(SCRIPT_VARIABLE, str(tmp_path / "absent.sh"))
    install(tmp_path, "docker", "exit 1")
    return tmp_path


def install(machine: Path, name: str, does: str) -> Path:
    """Put a program on *machine*; ``$here`` is its folder."""
    program = machine / name
    program.write_text(f'#!/bin/sh\nhere="{machine}"\necho "{name} $*" >>"$here/called"\n{does}\n')
    program.chmod(0o755)
    return program


def called(machine: Path) -> list[str]:
    """Return what was called, in order."""
    return (machine / "called").read_text().splitlines()


FOUND_ONCE_THERE = 'case "$1" in image) test -e "$here/image" ;; pull) exit 1 ;; esac'


def test_an_image_that_is_here_is_used(machine: Path) -> None:
    """Nothing is pulled, and no script run, where the image is found."""
    install(machine, "docker", "exit 0")
    provide()
    assert called(machine) == [f"docker image inspect {IMAGE}"]


def test_an_absent_image_is_pulled(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real image is preferred to the script's stand-in."""
    install(machine, "docker", 'test "$1" = pull')
    monkeypatch.setenv(SCRIPT_VARIABLE, str(install(machine, "make-image", "exit 0")))
    provide()
    assert called(machine) == [f"docker image inspect {IMAGE}", f"docker pull --quiet {IMAGE}"]


def test_what_cannot_be_pulled_is_made_by_the_script(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script is the last resort, and what it leaves behind is checked."""
    install(machine, "docker", FOUND_ONCE_THERE)
    monkeypatch.setenv(SCRIPT_VARIABLE, str(install(machine, "make-image", 'touch "$here/image"')))
    provide()
    assert called(machine)[2:] == ["make-image ", f"docker image inspect {IMAGE}"]


def test_a_script_that_makes_another_image_is_no_help(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that ends well without that image, for it knows another runtime only, is not believed."""
    install(machine, "docker", FOUND_ONCE_THERE)
    monkeypatch.setenv(SCRIPT_VARIABLE, str(install(machine, "make-image", "exit 0")))
    with pytest.raises(ImageAbsent, match="there is no image"):
        provide()


def test_a_script_that_fails_is_heard(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the output of the script."""
    failing = install(machine, "make-image", "echo no debootstrap here >&2; exit 1")
    monkeypatch.setenv(SCRIPT_VARIABLE, str(failing))
    with pytest.raises(ImageAbsent, match="make-image failed: no debootstrap here"):
        provide()


@pytest.mark.parametrize("docker", [True, False])
def test_the_message_says_what_to_install(
    machine: Path, monkeypatch: pytest.MonkeyPatch, *, docker: bool
) -> None:
    """Where Docker is absent, or can pull nothing, the message names it, the image and the variable."""
    if not docker:
        monkeypatch.setenv("PATH", str(machine / "nothing"))
    with pytest.raises(ImageAbsent, match=f"(?s)Install Docker.*docker pull {IMAGE}.*{SCRIPT_VARIABLE}"):
        provide()
