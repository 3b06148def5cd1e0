"""The shell around the rules: clock, store, decide, call, log, store."""
