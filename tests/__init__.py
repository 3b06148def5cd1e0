"""Tests of lambda_once, and of the repository around it."""
