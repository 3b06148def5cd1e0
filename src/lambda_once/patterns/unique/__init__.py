"""Documents that are put once by a composite key; a duplicate is told which one stands."""

from lambda_once.patterns.unique.unique import Duplicate, Failed, Stored, Unique

__all__ = ["Duplicate", "Failed", "Stored", "Unique"]
