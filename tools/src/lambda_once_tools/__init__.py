"""
What operators use: the command ``lambda-once``.

A wheel of its own, for no function needs it: the runtime, ``lambda_once``, imports nothing of this package.
"""
