"""Log events, metrics, hooks and traces. Nothing in here can change or break an outcome."""
