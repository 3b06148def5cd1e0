"""A webhook on an HTTP API."""
