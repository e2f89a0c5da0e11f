"""Operations as their parent process sees them: the archive, resolved once, and the one run of a job on it.

Imports everything in `holdfast` but `cli` and `drill`.
"""

from __future__ import annotations
