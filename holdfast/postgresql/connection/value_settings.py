"""Settings of all sessions that read, compare or load values.

Each setting is there because a run without it lost or changed data: `row_security` on hides rows
without an error, `search_path` decides which type or function a name means, the others change how a
value is written as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.sql import literal

if TYPE_CHECKING:
    from holdfast.postgresql.connection.session import Connection


VALUE_SETTINGS: Final[dict[str, str]] = {
    "search_path": "",
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",  # money shows and reads its integer with two decimals, also of a currency without them
    "xmloption": "content",  # or xml fragments would be refused on their way back
    "array_nulls": "on",  # or NULL in an array is read as a word
    "quote_all_identifiers": "off",  # or regclass and the like are written otherwise
}
"""Settings that every session makes which reads, loads or hashes values: their text depends on them."""

SETTINGS: Final[dict[str, str]] = {
    **VALUE_SETTINGS,
    "row_security": "off",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "transform_null_equals": "off",
    # The locks of a session whose client lost its power or its network end with it, within two minutes.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
"""What every session has: all supported versions know these. Sources: PostgreSQL manual, 'Client Connection Defaults';
pg_dump's own."""


_NAMES: Final = (*SETTINGS, "application_name", "role", "session_authorization", "session_replication_role")
_QUERY: Final = f"""
select current_user, session_user, {", ".join(f"pg_catalog.current_setting({literal(name)})" for name in _NAMES)}
"""


class KeptSettings:
    """Settings that decide what a session's statements mean."""

    def __init__(self, session: Connection) -> None:
        self._session = session
        self._before = self._now()

    def check(self) -> None:
        """Refuse what was read if something is another one by now.

        No statement of ours changes it: only code that ran within one can have.

        :raises RefusedError: naming each.
        """
        now = self._now()
        changed = [f"{name} is {now[name]!r} and was {was!r}" for name, was in self._before.items() if now[name] != was]
        if changed:
            raise RefusedError(
                f"something in the database has changed the settings of a session that read it ({'; '.join(changed)}): "
                "what it read is not to be trusted, so that nothing was committed. Look for functions that set them, "
                "then back up again"
            )

    def _now(self) -> dict[str, Any]:
        row = self._session.execute(_QUERY.encode()).fetchone()
        return dict(zip(("current_user", "session_user", *_NAMES), row or (), strict=True))
