"""The request for a backup."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import field_validator

from holdfast.common.units import parse_bandwidth, parse_size, parse_span
from holdfast.config.archives_model import Restart, SourceConfig  # noqa: TC001 - pydantic reads it at run time
from holdfast.operations.requests.base import Option, Request
from holdfast.replication.log.settings import QUORUM_TIMEOUT_S, QuorumRequest

Kind = Literal["auto", "full", "changes"]


class BackupRequest(Request):
    """A backup of one source: its kind, its tables, and the limits while the source is read.

    :param source: its name in the archive.
    :param exclude: globs of `schema.table` to leave out.
    :param chosen: the tables are those of this backup alone; the tables that are followed stay as they are.
    :param max_retained: log that the slot may hold back before there is a warning, in words; None: the default.
    :param stuck: the reason why no incremental backup can get on, where a new stream is begun for that.
    """

    operation: ClassVar[str] = "backup"

    source: str = ""
    kind: Annotated[
        Kind,
        Option(
            "'changes': an incremental backup, of all that has changed since the last backup; where the source is not "
            "followed yet, or changes were lost, a full backup that begins to follow it. 'full': all rows in one "
            "snapshot. 'auto': changes where the source is followed, else a full backup."
        ),
    ] = "auto"
    tables: Annotated[
        tuple[str, ...],
        Option("Only rows of these tables, globs of schema.table; none: those of archives.yaml.", metavar="GLOB"),
    ] = ()
    exclude: tuple[str, ...] = ()
    chosen: bool = False
    moved: Annotated[
        bool, Option("The source's address names the same database at another location than at the last backup.")
    ] = False
    new_source: Annotated[
        bool,
        Option(
            "The source is a new one beside those that have backups in this archive; one that archives.yaml names "
            "needs no such word.",
            operator="",
            is_in_form=False,
        ),
    ] = False
    allow_unsafe_dumper: Annotated[
        bool,
        Option(
            "Changes nothing: no backup is refused for the release of pg_dump. `doctor` and `source check` warn of one "
            "with known vulnerabilities."
        ),
    ] = False
    restart_stream: Annotated[
        Restart | None,
        Option(
            "Begin a new stream of changes by a full backup: 'stuck' where no incremental backup can get on, 'now' in "
            "any case. No moment between the last backup and that one can be restored. Else: as archives.yaml says.",
            is_in_command=False,
            title="Restart the stream",
        ),
    ] = None
    connections: Annotated[
        int | None,
        Option(
            "Sessions that read the source at a time, at most; else as archives.yaml says.",
            metavar="N",
            least=1,
            is_in_form=False,
        ),
    ] = None
    bandwidth: Annotated[
        str | None,
        Option(
            "Bytes read from the source in a second, at most, such as '50 MB'; else as archives.yaml says.",
            metavar="RATE",
            is_in_form=False,
        ),
    ] = None
    ddl: Annotated[
        Literal["first", "wait"] | None,
        Option(
            "What changes tables during a full backup (ALTER, TRUNCATE, DROP, VACUUM FULL). 'first': the backup gives "
            "way to what waits for 10 s, and ends. 'wait': that waits until all is read, and queries of such a table "
            "behind it, as with pg_dump. Else: as archives.yaml says.",
            title="Changes of tables",
        ),
    ] = None
    max_retained: str | None = None
    quorum: Annotated[
        int | None,
        Option(
            "The backup counts once so many replicas have it, else it is taken back; without it: as archives.yaml "
            "says.",
            metavar="N",
            least=1,
            is_in_form=False,
        ),
    ] = None
    quorum_timeout: Annotated[
        str | None,
        Option("The time that replicas have for the quorum, such as '1h'.", metavar="SPAN", is_in_form=False),
    ] = None
    stuck: str = ""

    @field_validator("quorum_timeout", mode="before")
    @classmethod
    def _in_words(cls, given: Any) -> Any:
        return f"{given.total_seconds()}s" if isinstance(given, timedelta) else given

    @field_validator("bandwidth", "quorum_timeout", "max_retained")
    @classmethod
    def _readable(cls, given: str | None, info: Any) -> str | None:
        if given is not None:
            _READ[info.field_name](given)
        return given

    def configured(self, known: SourceConfig | None, quorum: int | None, quorum_timeout: str) -> Self:
        """Return the request with the settings of archives.yaml for all that was not given.

        :param known: the source there; None where it is not.
        """
        size = self.quorum or quorum
        replicas = {"quorum": size, "quorum_timeout": self.quorum_timeout or quorum_timeout} if (size or 1) > 1 else {}
        made = self.with_values(chosen=bool(self.tables), quorum=None, quorum_timeout=None).filled(**replicas)
        if known is not None:
            made = made.filled(
                tables=known.tables,
                exclude=known.exclude,
                max_retained=known.max_retained_wal,
                restart_stream=known.restart_stream,
                connections=known.connections,
                bandwidth=known.bandwidth,
                ddl=known.ddl,
            )
        return made if made.restart != "no" else made.with_values(restart_stream=None)

    @property
    def restart(self) -> Restart:
        """Return when a new stream is begun."""
        return self.restart_stream or "no"

    @property
    def bytes_per_second(self) -> float | None:
        """Return the bandwidth in bytes a second; None without a limit."""
        return parse_bandwidth(self.bandwidth) if self.bandwidth else None

    @property
    def max_retained_bytes(self) -> int | None:
        """Return the bytes of log that the slot may hold back before there is a warning."""
        return parse_size(self.max_retained) if self.max_retained else None

    @property
    def quorum_request(self) -> QuorumRequest | None:
        """Return the quorum that the backup needs; None for none."""
        timeout = parse_span(self.quorum_timeout).total_seconds() if self.quorum_timeout else QUORUM_TIMEOUT_S
        return QuorumRequest.of(self.quorum or 1, timeout)


_READ = {"bandwidth": parse_bandwidth, "quorum_timeout": parse_span, "max_retained": parse_size}
