"""
What is said of each outcome: log lines, metrics, trace segments and hooks.

Nothing in here can change or break an outcome. Only `logs`, `metrics` and `traces` know Powertools, and
they import it when it is first needed.
"""
