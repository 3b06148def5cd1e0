"""The life of an attempt: acquire, run, finish, replay; single calls and batches."""
