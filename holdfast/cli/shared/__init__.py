"""Parts of several commands: options, output, the start of a job and the wait for it.

Imports everything below the command, and no command.
"""

from __future__ import annotations
