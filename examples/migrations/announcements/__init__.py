"""Announcements by SNS, with a hand-made table."""
