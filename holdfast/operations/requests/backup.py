"""The request for a backup."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import field_validator

from holdfast.common.units import parse_bandwidth, parse_size, parse_span
from holdfast.config.archives_model import Restart, SourceConfig  # noqa: TC001 - pydantic reads it at run time
from holdfast.operations.requests.base import Bandwidth, Option, Request, Size, Span
from holdfast.replication.log.settings import QUORUM_TIMEOUT_S, QuorumRequest

Kind = Literal["auto", "full", "changes"]


class BackupRequest(Request):
    """A backup of one source: its kind, its tables, and the limits while the source is read.

    :param source: its name in the archive.
    :param exclude: globs of `schema.table` to leave out.
    :param chosen: the tables are for this backup alone; the followed tables stay as they are.
    :param max_retained: the most log that the slot may hold back without a warning.
    :param stuck: why no incremental backup can continue, if a new stream is begun for that.
    """

    operation: ClassVar[str] = "backup"

    source: str = ""
    kind: Annotated[
        Kind,
        Option(
            "'full': all rows in one snapshot. 'changes': an incremental backup of all changes since the last backup; "
            "if there is none, or changes were lost, a full backup, and later ones are incremental. 'auto': "
            "incremental if the source is set up for that, else full."
        ),
    ] = "auto"
    tables: Annotated[
        tuple[str, ...],
        Option(
            "Only rows of these tables, globs of schema.table; default is the setting in archives.yaml.", metavar="GLOB"
        ),
    ] = ()
    exclude: tuple[str, ...] = ()
    chosen: bool = False
    moved: Annotated[
        bool, Option("The source's database was moved since the last backup, and its address is the new one.")
    ] = False
    new_source: Annotated[
        bool,
        Option(
            "The source is new, beside those that have backups in this archive; not needed if archives.yaml names it.",
            operator="",
            is_in_form=False,
        ),
    ] = False
    allow_unsafe_dumper: Annotated[
        bool,
        Option(
            "Has no effect: no backup is refused for the release of pg_dump. `doctor` and `source check` warn of one "
            "with known vulnerabilities."
        ),
    ] = False
    restart_stream: Annotated[
        Restart | None,
        Option(
            "Begin a new stream of changes with a full backup: 'stuck' if no incremental backup can continue, 'now' in "
            "any case. Times between the last backup and that one cannot be restored. Default is the setting in "
            "archives.yaml.",
            is_in_command=False,
            title="Restart the stream",
        ),
    ] = None
    connections: Annotated[
        int | None,
        Option(
            "The most sessions that read the source at a time; default is the setting in archives.yaml.",
            metavar="N",
            least=1,
            is_in_form=False,
        ),
    ] = None
    bandwidth: Annotated[
        Bandwidth | None,
        Option(
            "The most bytes read from the source in a second, such as '50 MB'; default is the setting in "
            "archives.yaml.",
            metavar="RATE",
            is_in_form=False,
        ),
    ] = None
    ddl: Annotated[
        Literal["first", "wait"] | None,
        Option(
            "ALTER, TRUNCATE, DROP and VACUUM FULL during a full backup. 'first': the backup ends once one of them has "
            "waited for 10 s. 'wait': they wait until all is read, and so do queries behind them, as with pg_dump. "
            "Default is the setting in archives.yaml.",
            title="Changes of tables",
        ),
    ] = None
    max_retained: Size | None = None
    quorum: Annotated[
        int | None,
        Option(
            "The number of replicas that must have the backup before it counts; default is the setting in "
            "archives.yaml.",
            metavar="N",
            least=1,
            is_in_form=False,
        ),
    ] = None
    quorum_timeout: Annotated[
        Span | None,
        Option("The time that replicas have for the quorum, such as '1h'.", metavar="SPAN", is_in_form=False),
    ] = None
    stuck: str = ""

    @field_validator("quorum_timeout", mode="before")
    @classmethod
    def _in_words(cls, given: Any) -> Any:
        return f"{given.total_seconds()}s" if isinstance(given, timedelta) else given

    def configured(self, source_config: SourceConfig | None, quorum: int | None, quorum_timeout: str) -> Self:
        """Return the request with the settings of archives.yaml for missing options.

        :param source_config: the source there, if it is.
        """
        size = self.quorum or quorum
        replicas = {"quorum": size, "quorum_timeout": self.quorum_timeout or quorum_timeout} if (size or 1) > 1 else {}
        made = self.with_values(chosen=bool(self.tables), quorum=None, quorum_timeout=None).filled(**replicas)
        if source_config is not None:
            made = made.filled(
                tables=source_config.tables,
                exclude=source_config.exclude,
                max_retained=source_config.max_retained_wal,
                restart_stream=source_config.restart_stream,
                connections=source_config.connections,
                bandwidth=source_config.bandwidth,
                ddl=source_config.ddl,
            )
        return made if made.restart != "no" else made.with_values(restart_stream=None)

    @property
    def restart(self) -> Restart:
        return self.restart_stream or "no"

    @property
    def bytes_per_second(self) -> float | None:
        return parse_bandwidth(self.bandwidth) if self.bandwidth else None

    @property
    def max_retained_bytes(self) -> int | None:
        return parse_size(self.max_retained) if self.max_retained else None

    @property
    def quorum_request(self) -> QuorumRequest | None:
        """Return the quorum that the backup needs, if any."""
        timeout = parse_span(self.quorum_timeout).total_seconds() if self.quorum_timeout else QUORUM_TIMEOUT_S
        return QuorumRequest.of(self.quorum or 1, timeout)
