"""Everything at once, for as long as one likes: real processes, faults, and a checker that shares no code with them.

`make soak` starts it. Imports everything but `tests`; nothing but tests imports it.
"""

from __future__ import annotations
