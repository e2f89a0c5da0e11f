"""The oldest safe minor versions of PostgreSQL's clients, by one table of advisories.

A server is another matter: an old one is dumped by a new pg_dump. What counts is the code that runs here and that a
database's owner, or a server's, can attack by what the database holds or answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBPQ = "libpq"
"""The client library, as psycopg has loaded it."""

LIBPQ_REMEDY = "pip install --upgrade 'psycopg[binary]', or upgrade the machine's libpq where psycopg uses that"


class Release(NamedTuple):
    """A release of PostgreSQL, such as 18.6; a beta's minor is 0, as that of the release it became."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Advisory(NamedTuple):
    """Vulnerabilities of clients that one day's releases have mended.

    :param clients: the programs, and `LIBPQ`, that have them.
    :param mended: by major version, the first minor without them.
    :param source: where these numbers are published.
    """

    cves: tuple[str, ...]
    clients: frozenset[str]
    mended: Mapping[int, int]
    source: str

    def is_mended(self, release: Release) -> bool:
        """Return whether a release lacks them, or came after them."""
        first = self.mended.get(release.major)
        return release.major > min(self.mended) if first is None else release.minor >= first


ADVISORIES = (
    Advisory(
        ("CVE-2025-8714", "CVE-2025-8715"),
        frozenset({"pg_dump", "pg_restore", "psql"}),
        {17: 6, 16: 10, 15: 14, 14: 19, 13: 22},
        "https://www.postgresql.org/about/news/postgresql-176-1610-1514-1419-1322-and-18-beta-3-released-3118/",
    ),
    Advisory(
        ("CVE-2026-6477",),
        frozenset({"pg_dump", "psql", LIBPQ}),
        {18: 4, 17: 10, 16: 14, 15: 18, 14: 23},
        "https://www.postgresql.org/support/security/CVE-2026-6477/",
    ),
    Advisory(
        ("CVE-2026-19385",),
        frozenset({"pg_dump"}),
        {18: 6, 17: 11, 16: 15, 15: 19, 14: 24},
        "https://www.postgresql.org/support/security/CVE-2026-19385/",
    ),
    Advisory(
        ("CVE-2026-18408",),
        frozenset({"pg_dump", "pg_restore", "psql"}),
        {18: 6, 17: 11, 16: 15, 15: 19, 14: 24},
        "https://www.postgresql.org/support/security/CVE-2026-18408/",
    ),
)
"""What a client must be mended of, oldest first.

PostgreSQL publishes which programs are affected and the first minor without it on the page of each vulnerability, and
repeats it in the CVE's own record ("Versions before PostgreSQL … are affected"): each `source` is such a page. Of the
releases of August 2026 only the vulnerabilities of programs that are used here are listed; 18.5 was never released, so
18.6 is the first of its major version. A major version that an advisory does not list and that is older than all that
it lists was never mended of it; one that is newer came after it, and is safe.
"""


def floor_of(client: str, major: int) -> Release | None:
    """Return the oldest safe release of a client in a major version; None where none is.

    :param client: the name of a program, or `LIBPQ`.
    """
    about = [advisory for advisory in ADVISORIES if client in advisory.clients]
    if any(major < min(advisory.mended) for advisory in about):
        return None
    return Release(major, max((advisory.mended.get(major, 0) for advisory in about), default=0))


def why_unsafe(client: str, release: Release) -> str:
    """Return why a release is unsafe, as `pg_dump 15.18 is older than 15.19, which mends CVE-2026-19385`, or ""."""
    open_ones = [each for each in ADVISORIES if client in each.clients and not each.is_mended(release)]
    cves = ", ".join(cve for advisory in open_ones for cve in advisory.cves)
    if not cves:
        return ""
    floor = floor_of(client, release.major)
    if floor is None:
        return f"{client} {release} is of a version that no release mends any more: it has {cves}"
    return f"{client} {release} is older than {floor}, which mends {cves}"


def floor_from(client: str, major: int) -> Release:
    """Return the oldest safe release from a major version on."""
    newest = max(max(advisory.mended) for advisory in ADVISORIES)
    majors = range(major, max(major, newest) + 1)
    return next((floor for major in majors if (floor := floor_of(client, major))), Release(major, 0))


def libpq_release() -> Release:
    """Return the release of libpq that psycopg has loaded; the Arrow driver's own tells none."""
    import psycopg  # which most users of the programs have loaded already, and a command's help does not need

    return Release(*divmod(psycopg.pq.version(), 10000))
