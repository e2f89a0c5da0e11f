"""Names of Holdfast's own objects in a database.

They are left out of backups, regardless of their origin.
"""

from __future__ import annotations

from typing import Final

LEDGER: Final = "holdfast_restore"
"""Schema that exists only while a restore runs."""

GUARD: Final = "holdfast_guard"
"""The event trigger that exists only while a login of ours builds."""

LOADER: Final = "holdfast_loader"
"""The beginning of the names of logins that build for a superuser: code of the source runs in their sessions.

What they note is in a table of its own, `loaded`.
"""

LOG_SCHEMA: Final = "holdfast_log"
"""It holds nothing but the function by which the log tells of definitions."""

LOG_TRIGGERS: Final = ("holdfast_defined", "holdfast_dropped")

PUBLISH_SCHEMA: Final = "holdfast_published"
"""It holds the function that publishes new tables, and the table in which it notes what it has published."""

PUBLISH_TRIGGER: Final = "holdfast_publish"
