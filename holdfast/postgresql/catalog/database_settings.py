"""Record of what is set on a database itself: settings, privileges, comment and connection limit.

pg_dump writes it only where it creates the database, too; so a dump of the schema has none of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.common.words import named
from holdfast.postgresql.catalog.record import CatalogRecord
from holdfast.postgresql.connection.sql import assignment, ident, literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from holdfast.postgresql.connection.session import Connection


class DatabaseSetting(CatalogRecord):
    """A setting of a database, or of a role in it.

    :param role: "" for all.
    :param text: as `name=value`.
    """

    role: str
    text: str

    @property
    def name(self) -> str:
        """Return the setting's name."""
        return self.text.partition("=")[0]


class DatabaseGrant(CatalogRecord):
    """A privilege on a database.

    :param role: "" for everybody.
    """

    role: str
    privilege: str
    grantable: bool = False


@dataclass(frozen=True)
class DatabaseStatement:
    """A statement that sets something on a database.

    :param what: the thing, in words.
    :param role: that must be there; "" for none.
    :param setting: its name; "" where it sets something else.
    :param undo: takes a setting back.
    """

    what: str
    sql: str
    role: str = ""
    setting: str = ""
    undo: str = ""

    @property
    def shown(self) -> str:
        """Return the statement for people; "" where an application may keep a secret in it: in a setting of its own."""
        return "" if "." in self.setting else f"{self.sql};"

    @property
    def replaces_names(self) -> bool:
        """Return whether names of PostgreSQL's own may mean something else by it: it puts pg_catalog into a path."""
        return self.setting.lower() == "search_path" and "pg_catalog" in self.sql.lower()


class DatabaseSettings(CatalogRecord):
    """Settings of a database itself.

    :param grants: None: those that each new database has.
    :param connection_limit: -1 for none.
    """

    settings: tuple[DatabaseSetting, ...] = ()
    grants: tuple[DatabaseGrant, ...] | None = None
    comment: str = ""
    connection_limit: int = -1

    @property
    def roles(self) -> frozenset[str]:
        """Return the roles that have a setting or a privilege."""
        names = {setting.role for setting in self.settings} | {each.role for each in self.grants or ()}
        return frozenset(names - {""})

    def statements(self, database: str) -> tuple[DatabaseStatement, ...]:
        """Return the statements that set the same on a database."""
        name = ident(database)
        made = [*self._settings(name), *self._privileges(name)]
        if self.comment:
            made.append(DatabaseStatement("comment", f"COMMENT ON DATABASE {name} IS {literal(self.comment)}"))
        if self.connection_limit != -1:
            limit = f"ALTER DATABASE {name} CONNECTION LIMIT {self.connection_limit}"
            made.append(DatabaseStatement("connection limit", limit))
        return tuple(made)

    def _settings(self, database: str) -> Iterator[DatabaseStatement]:
        for setting in self.settings:
            whose = f"ROLE {ident(setting.role)} IN DATABASE {database}" if setting.role else f"DATABASE {database}"
            what = f"setting {setting.name}{f' of role {setting.role}' if setting.role else ''}"
            undo = f"ALTER {whose} RESET {'.'.join(map(ident, setting.name.split('.')))}"
            yield DatabaseStatement(
                what, f"ALTER {whose} SET {assignment(setting.text)}", setting.role, setting.name, undo
            )

    def _privileges(self, database: str) -> Iterator[DatabaseStatement]:
        """Yield what makes the privileges of a new database these: everybody has two there, and nobody else any."""
        if self.grants is None:
            return
        everybody = {grant.privilege for grant in self.grants if not grant.role}
        for privilege in _EVERYBODYS:
            if privilege not in everybody:
                yield DatabaseStatement(
                    f"privilege {privilege} taken from everybody",
                    f"REVOKE {privilege} ON DATABASE {database} FROM PUBLIC",
                )
        for grant in self.grants:
            if grant.privilege in _PRIVILEGES and (grant.role or grant.privilege not in _EVERYBODYS):
                to = ident(grant.role) if grant.role else "PUBLIC"
                option = " WITH GRANT OPTION" if grant.grantable else ""
                yield DatabaseStatement(
                    f"privilege {grant.privilege} of {grant.role or 'everybody'}",
                    f"GRANT {grant.privilege} ON DATABASE {database} TO {to}{option}",
                    grant.role,
                )


_EVERYBODYS: Final = ("CONNECT", "TEMPORARY")
"""Privileges that everybody has on a new database. Source: PostgreSQL manual, 'Privileges'."""

_PRIVILEGES: Final = (*_EVERYBODYS, "CREATE")
"""All there are; any other word of an archive is in no statement."""

_SETTINGS = """
select case s.setrole when 0 then '' else pg_catalog.pg_get_userbyid(s.setrole)::text end as role, m.text
from pg_catalog.pg_db_role_setting s cross join pg_catalog.unnest(s.setconfig) with ordinality m(text, place)
where s.setdatabase = %(database)s order by role, m.place
"""

# Who owns the target may be another role, so that the owner's privileges are recorded, too.
_GRANTS = """
select case a.grantee when 0 then '' else pg_catalog.pg_get_userbyid(a.grantee)::text end as role,
  a.privilege_type::text as privilege, bool_or(a.is_grantable) as grantable
from pg_catalog.pg_database d cross join pg_catalog.aclexplode(d.datacl) a
  left join pg_catalog.pg_roles r on r.oid = a.grantee
where d.oid = %(database)s and r.rolsuper is not true
group by 1, 2 order by 1, 2
"""

_DATABASE = """
select oid::int8, coalesce(datacl::text[] @> usual::text[] and datacl::text[] <@ usual::text[], true),
  datconnlimit, coalesce(pg_catalog.shobj_description(oid, 'pg_database'), '')
from pg_catalog.pg_database cross join pg_catalog.acldefault('d', datdba) usual
where datname = pg_catalog.current_database()
"""


def read_database_settings(session: Connection) -> DatabaseSettings:
    """Read what is set on the session's database."""
    row = session.execute(_DATABASE).fetchone()
    if row is None:
        return DatabaseSettings()
    oid, has_defaults, limit, comment = row
    asked = {"database": oid}
    settings = session.execute(_SETTINGS, asked).fetchall()
    grants = () if has_defaults else session.execute(_GRANTS, asked).fetchall()
    return DatabaseSettings(
        settings=tuple(DatabaseSetting(role=role, text=text) for role, text in settings),
        grants=None if has_defaults else tuple(DatabaseGrant(role=r, privilege=p, grantable=g) for r, p, g in grants),
        comment=comment,
        connection_limit=limit,
    )


_HARMFUL: Final = (
    "local_preload_libraries",  # loads code
    "role",
    "session_authorization",
    "array_nulls",
    "backslash_quote",
    "standard_conforming_strings",
    "transform_null_equals",
)
"""Settings that every user may make, and that load code or change what statements mean, or as whom they run."""

_HARMLESS = """
select pg_catalog.lower(name) from pg_catalog.pg_settings
where context = 'user' and name <> all(%s) and pg_catalog.lower(name) = any(%s)
"""


def for_superusers(session: Connection, names: Collection[str]) -> frozenset[str]:
    """Return the settings among these that may load code or change what only superusers may.

    What the server does not know may become such a setting as soon as a library is loaded.
    """
    harmless = {name for (name,) in session.execute(_HARMLESS, (list(_HARMFUL), [name.lower() for name in names]))}
    return frozenset(name for name in names if name.lower() not in harmless)


def trusted_only(session: Connection, recorded: DatabaseSettings) -> str:
    """Return a sentence on the settings that a superuser's restore makes only where the archive is trusted; or ""."""
    guarded = sorted(for_superusers(session, {setting.name for setting in recorded.settings}))
    if not guarded:
        return ""
    return (
        f"settings of the database that may load code, or that only superusers may change: {named(guarded)}; a restore "
        "makes them only from a signed or encrypted archive, or with --trust-source"
    )
