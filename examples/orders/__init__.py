"""An orders shop on Lambda: one file a function, and three that stand for the world outside."""
