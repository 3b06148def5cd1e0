"""One adapter a source: what a unit of work is, what its payload is, what answers its outcome."""
