"""
hatchling, which refuses a Python that is too old before pip looks for anything.

By ``requires-python`` alone pip 23 refuses a folder only after it has tried every release of every
requirement: for an hour, downloading each.
"""  # noqa: INP001  (a build backend is a module by itself)

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (that is what it is for)
    found = ".".join(map(str, sys.version_info[:3]))
    raise SystemExit("lambda-once needs Python 3.11 or newer; this is Python " + found)

from hatchling.build import *  # noqa: F403
from hatchling.build import __all__  # noqa: F401
