"""Requests: the options of each operation, defined once for the command, the operator, the form and the application.

Imports `common`, `config` and what parses single options; nothing that needs a database driver or a data engine.
"""

from __future__ import annotations
