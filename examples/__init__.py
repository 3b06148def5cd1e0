"""What lambda-once looks like in use."""
