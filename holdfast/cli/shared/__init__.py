"""What several commands share: options, output, how a job is started and waited for.

Imports everything below the command, and no command.
"""

from __future__ import annotations
