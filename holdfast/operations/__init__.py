"""Operations as their parent process sees them: what a backup will be, where its job runs, the job's process.

Imports everything in `holdfast` but `cli` and `drill`.
"""

from __future__ import annotations
