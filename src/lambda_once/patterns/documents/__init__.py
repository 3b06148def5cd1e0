"""Documents over DynamoDB's 400 KB, as parts of which a reader sees all or none."""

from lambda_once.patterns.documents.documents import Document, Documents
from lambda_once.patterns.documents.errors import Unreadable, VersionAhead, VersionConflict
from lambda_once.patterns.documents.parts import ABSENT, Version

__all__ = ["ABSENT", "Document", "Documents", "Unreadable", "Version", "VersionAhead", "VersionConflict"]
