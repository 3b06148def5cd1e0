"""Documents beyond DynamoDB's 400 KB, in parts of which a reader sees all or none."""

from lambda_once.patterns.documents.documents import Document, Documents
from lambda_once.patterns.documents.parts import ABSENT, Version

__all__ = ["ABSENT", "Document", "Documents", "Version"]
