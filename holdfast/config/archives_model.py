"""Models of archives.yaml, the file of the DAGs, the operators and the command.

Every mistake in it is one sentence with the file, the key and what to write instead; so is an unknown key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from holdfast.common.errors import UsageError
from holdfast.common.signing import Signing
from holdfast.common.units import BANDWIDTH, BUDGET, FORMS, SHORT_SPAN, SIZE, SPAN
from holdfast.common.words import nearest
from holdfast.config.schedule import schedule_problem

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Span = Annotated[str, StringConstraints(pattern=SPAN)]


def _in_minutes(text: str) -> str:
    return text.replace("m", "min") if text.endswith("m") else text


ShortSpan = Annotated[str, StringConstraints(pattern=SHORT_SPAN), AfterValidator(_in_minutes)]
"""A length of time that is never in months, so that `15m` means minutes."""


class Section(BaseModel):
    """A part of the file, immutable and strict."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse unknown keys together with all other mistakes."""
        unknown = [key for key in data if key not in cls.model_fields] if isinstance(data, Mapping) else []
        if not unknown:
            return handler(data)
        mistakes = [InitErrorDetails(type=cls._unknown(key), loc=(), input=data) for key in unknown]
        try:
            handler({key: value for key, value in data.items() if key not in unknown})
        except ValidationError as error:
            mistakes += [_line_error(mistake) for mistake in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(cls.__name__, mistakes)

    @classmethod
    def _unknown(cls, key: str) -> PydanticCustomError:
        hint = nearest(str(key), cls.model_fields) or f"; known: {', '.join(cls.model_fields)}"
        return PydanticCustomError("unknown_key", "unknown key '{key}'{hint}", {"key": key, "hint": hint})


def _line_error(mistake: ErrorDetails) -> InitErrorDetails:
    context = {**mistake.get("ctx", {}), "message": mistake["msg"]}
    kind = PydanticCustomError(mistake["type"], "{message}", context)
    return InitErrorDetails(type=kind, loc=mistake["loc"], input=mistake["input"])


LABEL = r"^[^\s,]([^,\x00-\x1f]*[^\s,])?$"
"""A name in Airflow, which joins the owners of a DAG with commas."""

Label = Annotated[str, StringConstraints(pattern=LABEL, max_length=250)]
"""Name of an owner, a pool or a queue, as long as Airflow's columns."""


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if zones := available_timezones():  # a machine without any cannot check
            hint = nearest(name, zones) or ": write one such as Europe/Berlin"
            raise PydanticCustomError("timezone", "there is no such time zone{hint}", {"hint": hint}) from None
    return name


TimeZone = Annotated[str, AfterValidator(_time_zone)]
"""Name of a time zone of the IANA database."""


class AirflowDeadlines(Section):
    """Deadlines of runs in Airflow, such as `2h`, counted from the time a run was queued.

    Airflow marks a later run's deadline as missed, and the archive's `alerts` report it. The run continues.
    """

    full: Span | None = None
    changes: Span | None = None
    compaction: Span | None = None
    truncation: Span | None = None
    vacuum: Span | None = None
    verification: Span | None = None
    drill: Span | None = None


FILE_NAME = "archives.yaml"
GAP_AFTER = timedelta(hours=24)
"""Default time after which a sync gives up a backup whose files no replica has."""

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

SQLITE = "sqlite:///"

_DOTTED = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$"


def _without_secret(url: str) -> str:
    """Refuse a URL with a password: archives.yaml is read by many and kept in git."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its message may show the password
        raise PydanticCustomError("url", "this is not a URL") from None
    is_database = parts.scheme.startswith("postgres")
    # With a slash in it, the rest of a password is read as the database's name.
    if parts.password is not None or (is_database and ("@" in parts.path or "password" in parts.query)):
        raise PydanticCustomError(
            "secret",
            "a URL here may not hold a password: keep it in Airflow's connection, PGPASSWORD or the cloud's variables",
        )
    return url


def _not_a_key(address: str) -> str:
    """Refuse an invalid address of a key without showing it, since it may be the key."""
    if re.match(r"(file|env|command|kms):.", address) is None:
        raise PydanticCustomError(
            "secret", "write file:/path, env:VARIABLE, command:WORDS or kms:WORDS here, and never the key itself"
        )
    return address


Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
"""Names of archives, sources and replicas, which become parts of DAG ids and lock names."""

Url = Annotated[str, StringConstraints(min_length=1), AfterValidator(_without_secret)]
KeyAddress = Annotated[str, AfterValidator(_not_a_key)]
Signer = Annotated[str, StringConstraints(pattern=r"^(ed25519:[A-Za-z0-9+/]{43}=|file:.+)$")]
Size = Annotated[str, StringConstraints(pattern=SIZE)]
Consistency = Literal["eventual", "sequential"]
"""The backups that a read shows of replicas: those of one replica, or all that have succeeded and no others."""

Restart = Literal["no", "stuck", "now"]
"""When to begin a new stream of changes: never, if backups are stuck, or at once."""


class ObjectivesConfig(Section):
    """Service objectives of a source: `holdfast status --check` and the DAG `objectives` fail if one is missed.

    :param rpo: recovery point objective: maximum age of the newest restore point.
    :param rto: recovery time objective: maximum time of the last drill, from its begin to a usable database.
    :param drill_within: maximum age of the last successful drill.
    :param verified_within: maximum time since every file was read or written.
    :param key_proved_within: maximum age of the last drill with a copy of the archive's key: `drill.key`, or `drill
        --key`.
    """

    rpo: ShortSpan | None = None
    rto: ShortSpan | None = None
    drill_within: Span | None = None
    verified_within: Span | None = None
    key_proved_within: Span | None = None


class SourceConfig(Section):
    """A database to back up.

    :param connection: id of the Airflow connection; the command needs `url` when Airflow is down.
    :param url: `postgresql://user@host:port/db` without a password, or `sqlite:///file`.
    :param tables: globs of `schema.table` to back up.
    :param exclude: globs to leave out of these.
    :param connections: the most sessions that read it at a time.
    :param bandwidth: the most that is read from it in a second, such as `50 MB`.
    :param max_retained_wal: the most of the server's log that its slot keeps without a warning.
    :param allow_unsafe_dumper: has no effect; no backup is refused for the release of pg_dump.
    :param ddl: DDL during a full backup goes `first`, and ends the backup, or has to `wait` for its end.
    :param restart_stuck_stream: begin a new stream, with a full backup, if no incremental backup can continue.
    :param objectives: its service objectives.
    """

    connection: str | None = None
    url: Url | None = None
    tables: list[str] = Field(default_factory=lambda: ["*.*"], min_length=1)
    exclude: list[str] = Field(default_factory=list)
    connections: int | None = Field(default=None, ge=1)
    bandwidth: Annotated[str, StringConstraints(pattern=BANDWIDTH)] | None = None
    max_retained_wal: Size = "10 GiB"
    ddl: Literal["first", "wait"] | None = None
    restart_stuck_stream: bool = False
    allow_unsafe_dumper: bool = False
    objectives: ObjectivesConfig = Field(default_factory=ObjectivesConfig)

    @property
    def restart_stream(self) -> Restart:
        return "stuck" if self.restart_stuck_stream else "no"

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if self.connection is None and self.url is None:
            raise PydanticCustomError(
                "address", "a source needs 'connection' (the id of an Airflow connection) or 'url'"
            )
        return self


def _schedule(text: str) -> str:
    if why := schedule_problem(text):
        raise PydanticCustomError("schedule", "{why}", {"why": why})
    return text


Schedule = Annotated[str, AfterValidator(_schedule)]
"""A cron expression or a preset."""


class ScheduleConfig(Section):
    """Schedules of the operations: a cron expression or a preset such as `@daily`; without one, it is run by hand."""

    full: Schedule | None = None
    changes: Schedule | None = None
    compaction: Schedule | None = None
    truncation: Schedule | None = None
    vacuum: Schedule | None = None
    verification: Schedule | None = None
    drill: Schedule | None = None


class KeepConfig(Section):
    """Rules for the restore points to keep, like those of `--keep`; a point stays if any rule keeps it."""

    last: int | None = Field(default=None, ge=1)
    hourly: int | None = Field(default=None, ge=1)
    daily: int | None = Field(default=None, ge=1)
    weekly: int | None = Field(default=None, ge=1)
    monthly: int | None = Field(default=None, ge=1)
    yearly: int | None = Field(default=None, ge=1)
    within: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*[hdwmy]$")] | None = None

    def rules(self) -> list[str]:
        """Return the rules as `--keep` takes them."""
        return [f"{name}={value}" for name, value in self.model_dump(exclude_none=True).items()]


class CompactionConfig(Section):
    """Rules for joining blocks of changes into larger ones.

    :param min_blocks: the fewest neighbours to join.
    :param small: blocks below this size are joined; `target`: maximum size of the result.
    :param min_age: blocks whose last change is younger are not joined.
    """

    min_blocks: int = Field(default=8, ge=2)
    small: Size = "64 MiB"
    target: Size = "512 MiB"
    min_age: Span = "1h"


ApprovedOperation = Literal["restore", "truncation"]
"""Operations that can wait for a person's approval in Airflow."""


class ApprovalConfig(Section):
    """Approval of work in Airflow that cannot be undone. A dry run needs none.

    :param operations: those that wait for approval: `restore`, `truncation`.
    :param within: how long a run waits; then it fails without any work.
    :param users: names (or ids) of the Airflow users who may approve; empty: everyone who may edit the run.
    """

    operations: list[ApprovedOperation] = Field(default_factory=list)
    within: Span = "1d"
    users: list[Annotated[str, StringConstraints(min_length=1)]] = Field(default_factory=list)


class VerificationConfig(Section):
    """Rules for reading stored files again.

    :param deep_within: each run reads as many files as needed to read all within this time.
    :param budget: the most that one run reads, in bytes or in time; default is no limit.
    """

    deep_within: Span = "30d"
    budget: Annotated[str, StringConstraints(pattern=BUDGET)] | None = None


class VacuumConfig(Section):
    """Rules for deleting unneeded files.

    :param grace: time between their removal and their deletion.
    """

    grace: Span = "24h"


class AlertConfig(Section):
    """Notification when a task on the archive has failed for good, and when it works again.

    :param notifier: the class of an Airflow notifier, with its module.
    :param arguments: of the class; Airflow fills in templates in those that the notifier lists.
    """

    notifier: Annotated[str, StringConstraints(pattern=_DOTTED)]
    arguments: dict[str, Any] = Field(default_factory=dict)


class DrillConfig(Section):
    """Conditions on a database restored by a drill, and on the archive.

    :param source: the source of the database; needed where the archive has several.
    :param assertions: queries that must return one row with the value true.
    :param newest_within: maximum age of each source's newest restore point.
    :param key: address of a copy of the archive's key, which drills use to open it.
    """

    source: Name | None = None
    assertions: list[Annotated[str, StringConstraints(min_length=1)]] = Field(default_factory=list)
    newest_within: Span | None = None
    key: KeyAddress | None = None

    def of(self, source: str) -> list[str]:
        """Return the assertions on a source's database."""
        return self.assertions if self.source in (None, source) else []


class EncryptionConfig(Section):
    """Key of an encrypted archive; an archive that is not encrypted is then refused.

    :param key: `file:/path`, `env:VARIABLE`, `command:WORDS` or `kms:WORDS`; never the key itself.
    """

    key: KeyAddress


class SigningConfig(Section):
    """Signatures of an archive's commits.

    :param key: address of the key that signs, of the same kinds as that of `encryption`; without it, signatures are
        only checked.
    :param signers: public keys that are believed, as `ed25519:…` or `file:/path` with one in a line; default is the
        own key's.
    """

    key: KeyAddress | None = None
    signers: list[Signer] = Field(default_factory=list)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.key is None and not self.signers:
            raise PydanticCustomError("signing", "'signing' needs 'key', 'signers' or both")
        return self


class ArchiveConfig(Section):
    """One archive: its location and its contents.

    :param url: a folder, `file://…`, `s3://bucket/prefix`, `az://container/prefix` or `gs://bucket/prefix`; relative
        folders start at the file.
    :param replicas: name to URL, instead of `url`; the first one is the default.
    :param store: the coordination store of the replicas, `sqlite:///file` or `postgresql://user@host/database`; a
        relative file starts at the file, too.
    :param quorum: how many replicas must have a backup before it counts.
    :param quorum_timeout: how long they have for it, such as `1h`.
    :param consistency: the default of restores, queries and lists of points.
    :param spark_connection: id of the Airflow connection to Spark.
    :param alert_again: time after which `alerts` report a lasting cause again.
    :param owner: of its DAGs and their tasks, as Airflow shows and filters them.
    :param pool: of its tasks; Airflow starts no task of a pool that does not exist.
    :param queue: of its tasks, if the executor has queues.
    :param timezone: of `schedule`, such as `Europe/Berlin`.
    """

    url: Url | None = None
    replicas: dict[Name, Url] | None = None
    store: Url | None = None
    quorum: int | None = Field(default=None, ge=1)
    quorum_timeout: Span = "1h"
    consistency: Consistency = "eventual"
    sources: dict[Name, SourceConfig] = Field(default_factory=dict)
    schedule: ScheduleConfig = Field(default_factory=ScheduleConfig)
    deadline: AirflowDeadlines = Field(default_factory=AirflowDeadlines)
    keep: KeepConfig = Field(default_factory=KeepConfig)
    compaction: CompactionConfig = Field(default_factory=CompactionConfig)
    verification: VerificationConfig = Field(default_factory=VerificationConfig)
    vacuum: VacuumConfig = Field(default_factory=VacuumConfig)
    drill: DrillConfig = Field(default_factory=DrillConfig)
    alerts: list[AlertConfig] = Field(default_factory=list)
    alert_again: Span = "6h"
    approval: ApprovalConfig = Field(default_factory=ApprovalConfig)
    encryption: EncryptionConfig | None = None
    signing: SigningConfig | None = None
    spark_connection: str = "spark_default"
    owner: Label | None = None
    pool: Label | None = None
    queue: Label | None = None
    timezone: TimeZone = "UTC"

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if (self.url is None) == (self.replicas is None):
            raise PydanticCustomError("place", "an archive needs either 'url' or 'replicas'")
        # The last replica of several still follows the log of its store.
        if self.replicas is not None and len(self.replicas) < (2 if self.store is None else 1):
            raise PydanticCustomError("replicas", "'replicas' needs two or more; for one place write 'url'")
        if self.store is not None and self.replicas is None:
            raise PydanticCustomError("store", "'store' is for archives with 'replicas'; this one has a 'url' only")
        if self.quorum is not None and self.quorum > len(self.replicas or {}):
            raise PydanticCustomError("quorum", "'quorum' is larger than the number of 'replicas'")
        if self.schedule.truncation and not self.keep.rules():
            raise PydanticCustomError("truncation", "'schedule.truncation' needs rules in 'keep', such as daily: 14")
        if self.drill.assertions and self.drill.source is None and len(self.sources) > 1:
            raise PydanticCustomError("drill", "'drill.assertions' needs 'drill.source': there are several sources")
        if self.sources and self.drill.source not in (None, *self.sources):
            raise PydanticCustomError("drill", "'drill.source' names none of the 'sources'")
        self._check_keys()
        return self

    def _check_keys(self) -> None:
        if self.drill.key and self.drill.key == self.key:
            raise PydanticCustomError("drill", "'drill.key' is the key in use: name the place of its copy")
        if self.signing and self.key and self.signing.key == self.key:
            raise PydanticCustomError("signing", "'signing.key' is the key that encrypts: make another one")
        needs = ["drill.key"] if self.drill.key else []
        needs += ["key_proved_within"] if any(s.objectives.key_proved_within for s in self.sources.values()) else []
        if needs and self.encryption is None:
            raise PydanticCustomError("drill", f"'{needs[0]}' needs 'encryption': without it there is no key")

    @property
    def key(self) -> str | None:
        """Return the address of the archive's key, if the file has one."""
        return self.encryption.key if self.encryption else None

    @property
    def signs(self) -> Signing | None:
        """Return the keys that sign and check the archive, if the file has them."""
        return Signing(self.signing.key, tuple(self.signing.signers)) if self.signing else None

    def location(self, replica: str | None = None) -> str:
        """Return the URL of the archive, or of a replica, by default the first; UsageError if it is unknown."""
        replicas = self.replicas or {}
        if replica is not None and replica not in replicas:
            names = ", ".join(replicas) or "none"
            raise UsageError(f"no replica '{replica}' of this archive (it has: {names}){nearest(replica, replicas)}")
        if replica is not None:
            return replicas[replica]
        return self.url or next(iter(replicas.values()))

    def source(self, name: str | None) -> tuple[str, SourceConfig]:
        """Return a source, by default the only one, with its name; raises UsageError."""
        if name is None and len(self.sources) == 1:
            return next(iter(self.sources.items()))
        names = ", ".join(sorted(self.sources)) or "none"
        if name is None:
            raise UsageError(f"say which source; this archive has: {names}")
        if name not in self.sources:
            raise UsageError(f"no source '{name}' in this archive (it has: {names}){nearest(name, self.sources)}")
        return name, self.sources[name]


class Config(Section):
    """The whole file."""

    archives: dict[Name, ArchiveConfig] = Field(default_factory=dict)

    def archive(self, name: str) -> ArchiveConfig:
        """Return the archive of this name; raises UsageError if there is none."""
        if name not in self.archives:
            names = ", ".join(sorted(self.archives)) or "none"
            raise UsageError(
                f"no archive '{name}' in {FILE_NAME} (it has: {names}){nearest(name, self.archives) or '.'} "
                "For an archive that is not in the file, write its URL."
            )
        return self.archives[name]


PATTERNS = {
    **FORMS,
    r"^(ed25519:[A-Za-z0-9+/]{43}=|file:.+)$": "write ed25519:…, as 'holdfast signing new' prints it, or file:/path",
    _DOTTED: "write a class with its module, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier",
    LABEL: "write one name, without a comma or a line break",
    f"^{NAME}$": "use letters, digits, '_', '.' and '-', at most 64, beginning with a letter or digit",
    r"^[1-9][0-9]*[hdwmy]$": "write a number and h, d, w, m or y, such as 7d",
}
