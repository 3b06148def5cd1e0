"""Payments by SQS, in a batch processor."""
