"""The rules, pure: no clock but `clock`, no I/O, nothing of the other packages but the errors."""
