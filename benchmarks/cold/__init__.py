"""Handler modules as functions have them, and the interpreter that meets them for the first time."""
