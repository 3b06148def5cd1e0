"""Encodes a document as the bytes of its parts, cut by size or by named section, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents.parts import SEPARATOR, Form, StoredVersion
from lambda_once.patterns.table import KEY_LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_PART_BYTES: Final = 400_000
"""An item is at most 409,600 bytes with its names and keys, of which the keys may take 2,048 and 282."""
MOST_PARTS: Final = 9_999
MOST_START_BYTES: Final = 741
"""Of prefix and name: a sort key has 1,024 bytes, of which version and section take 283."""
MOST_NAME_BYTES: Final = 255


class Draft(NamedTuple):
    """One part that has no version yet."""

    name: str
    form: Form
    body: bytes
    section: bool


def whole_document(document: object, part_bytes: int) -> list[Draft]:
    """Cut *document* by size. Raises `Misconfigured` for an empty one, and for too many parts."""
    form, body = _encoded(document, "the document")
    if len(body) == 0:
        raise Misconfigured("the document is empty: delete it instead")
    pieces = [body[start : start + part_bytes] for start in range(0, len(body), part_bytes)]
    _check_number(len(pieces))
    return [Draft(f"{n:04}", form, piece, section=False) for n, piece in enumerate(pieces, 1)]


def named_sections(sections: Mapping[str, object], part_bytes: int) -> list[Draft]:
    """Make a part of each section. Raises `Misconfigured`, which names the section."""
    if len(sections) == 0:
        raise Misconfigured("the document has no sections: delete it instead")
    _check_number(len(sections))
    return [_section(name, content, part_bytes) for name, content in sections.items()]


def _section(name: object, content: object, part_bytes: int) -> Draft:
    if not isinstance(name, str) or name == "" or SEPARATOR in name or not _fits(name, MOST_NAME_BYTES):
        raise Misconfigured(
            f"the section {name!r} cannot be stored: a name is text of 1 to {MOST_NAME_BYTES} bytes "
            f"without {SEPARATOR!r}"
        )
    form, body = _encoded(content, f"the section {name!r}")
    if len(body) > part_bytes:
        raise Misconfigured(
            f"the section {name!r} has {len(body):,} bytes, and a part has {part_bytes:,} at most: "
            f"split it, or write the document whole, which is cut by size"
        )
    return Draft(name, form, body, section=True)


def _encoded(content: object, what: str) -> tuple[Form, bytes]:
    if isinstance(content, bytes | bytearray):
        return Form.BYTES, bytes(content)
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise Misconfigured(f"{what} is neither bytes nor JSON-serialisable: {error}") from None
    return Form.JSON, text.encode("utf-8", "surrogatepass")


def _check_number(parts: int) -> None:
    if parts > MOST_PARTS:
        most = f"{MOST_PARTS:,} is the most"
        raise Misconfigured(f"the document has {parts:,} parts, and {most}: make it smaller")


def _fits(text: str, most: int) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) <= most


def check_id(entity_id: object, prefix: str) -> None:
    """Raise `Misconfigured` for an id that is not a valid key: with *prefix*, of a partition and a name."""
    match entity_id:
        case str() if prefix == "" and entity_id and _fits(entity_id, KEY_LIMITS[0]):
            return
        case (str(key), str(name)) if prefix and key and name and SEPARATOR not in name:
            if _fits(key, KEY_LIMITS[0]) and _fits(prefix + name, MOST_START_BYTES):
                return
    wanted = f"text of 1 to {KEY_LIMITS[0]:,} bytes"
    if prefix:
        wanted = f"(partition, name), the name without {SEPARATOR!r}, {MOST_START_BYTES} bytes with prefix="
    raise Misconfigured(f"the id of a document is {wanted}, and this is {entity_id!r:.80}")


def content_of(version: StoredVersion) -> Any:
    """Return the document or its sections. *version* is whole, with its bodies."""
    if version.parts[0].section:
        return {part.name: _decoded(part.form, part.body or b"") for part in version.parts}
    bodies = [part.body or b"" for part in sorted(version.parts, key=lambda part: part.name)]
    return _decoded(version.parts[0].form, b"".join(bodies))


def _decoded(form: Form, body: bytes) -> Any:
    return body if form is Form.BYTES else json.loads(body.decode("utf-8", "surrogatepass"))
