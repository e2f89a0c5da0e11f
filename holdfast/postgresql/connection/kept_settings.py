"""Settings of a session, asserted again once it has read: they are what it began with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.sql import literal
from holdfast.postgresql.connection.value_settings import SETTINGS

if TYPE_CHECKING:
    from holdfast.postgresql.connection.session import Connection

_NAMES: Final = (*SETTINGS, "application_name", "role", "session_authorization", "session_replication_role")
_QUERY: Final = f"""
select current_user, session_user, {", ".join(f"pg_catalog.current_setting({literal(name)})" for name in _NAMES)}
"""


class KeptSettings:
    """What decides the meaning of a session's statements, as it was when this was made."""

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
