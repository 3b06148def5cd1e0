"""Thumbnails of objects in S3, by EventBridge."""
