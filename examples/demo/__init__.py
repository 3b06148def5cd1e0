"""The demo: it invokes the sample stack's own handlers as Lambda would, and prints what happens."""
