"""Operations on archives as their parent sees them: where a job runs. May import everything of the core but `cli`."""

from __future__ import annotations
