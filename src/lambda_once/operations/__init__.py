"""For operators of the token table: list and resolve tokens, and the watchdog."""
