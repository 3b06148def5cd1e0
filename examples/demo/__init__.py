"""The embedded demo: the sample stack's own handlers, driven as Lambda would, and told as tables."""
