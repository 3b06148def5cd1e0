"""
What operators and authors of stores use: the command ``lambda-once``, and `store_suite`.

A wheel of its own, for no function needs it: the runtime, ``lambda_once``, imports nothing of this package.
"""
