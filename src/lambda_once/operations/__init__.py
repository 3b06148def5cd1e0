"""For operators of the token table: find, show, resolve and redrive tokens, and the watchdog."""
