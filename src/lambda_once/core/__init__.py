"""The pure rules: no I/O, no time except in `clock`, no imports from other packages except the errors."""
