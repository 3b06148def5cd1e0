"""README.md as a package index shows it, where no file of the repository is."""  # noqa: INP001  (as backend.py)

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")
_PICTURE = re.compile(r"!\[([^\]]+)\]\((?!https?:)([^)]+)\)\n*")


class ReadmeHook(MetadataHookInterface):
    """Gives hatchling the text, by ``Source`` of ``[project.urls]``, if that is there."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the text into *metadata*."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        address = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": placed(text, address)}


def placed(text: str, address: str | None) -> str:
    """
    Return *text* with its relative links and pictures under *address*, a repository on GitHub.

    Without an address a link is only its text, and pictures are left out.
    """
    if address is None:
        return _LINK.sub(r"\1", _PICTURE.sub("", text))

    def absolute(link: re.Match[str]) -> str:
        target = link[2] if link[2].startswith("#") else f"/blob/HEAD/{link[2]}"
        return f"[{link[1]}]({address}{target})"

    return _LINK.sub(absolute, _PICTURE.sub(rf"![\1]({address}/raw/HEAD/\2)\n\n", text))
