"""Documents beyond DynamoDB's 400 KB, stored in parts and read whole or not at all."""

from lambda_once.patterns.documents.documents import Document, Documents
from lambda_once.patterns.documents.parts import ABSENT, Version

__all__ = ["ABSENT", "Document", "Documents", "Version"]
