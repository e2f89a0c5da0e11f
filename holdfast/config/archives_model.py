"""Models of archives.yaml: archives, their contents and schedules.

One file serves the DAGs, the operators and the command. Every mistake in it is one sentence with the
file, the key and what to write instead; an unknown key is a mistake, never ignored.
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
"""A length of time that is never in months, so that `15m` is as many minutes."""


class Section(BaseModel):
    """A part of the file: immutable, strict, and it knows its own keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse unknown keys beside all other mistakes, so that one look at the file finds them all."""
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
    """Return a mistake in the form in which it can be raised."""
    context = {**mistake.get("ctx", {}), "message": mistake["msg"]}
    kind = PydanticCustomError(mistake["type"], "{message}", context)
    return InitErrorDetails(type=kind, loc=mistake["loc"], input=mistake["input"])


LABEL = r"^[^\s,]([^,\x00-\x1f]*[^\s,])?$"
"""A name in Airflow: it joins the owners of a DAG with commas."""

Label = Annotated[str, StringConstraints(pattern=LABEL, max_length=250)]
"""Name of an owner, a pool or a queue; Airflow's columns hold so much."""


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
    """Deadlines of runs in Airflow, such as `2h`: so long after it was queued, a run of the operation is done.

    Where one is not, Airflow marks its deadline as missed, and the archive's `alerts` report it. The run goes on.
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
"""Default time for which no replica has had a backup's files before a sync gives it up."""

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"

SQLITE = "sqlite:///"

_DOTTED = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$"


def _without_secret(url: str) -> str:
    """Refuse a URL that carries a password.

    archives.yaml is read by many and kept in git.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # its words may repeat what stands before the host
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
    """Refuse an invalid address of a key, without showing it.

    It may be the key.
    """
    if re.match(r"(file|env|command|kms):.", address) is None:
        raise PydanticCustomError(
            "secret", "write file:/path, env:VARIABLE, command:WORDS or kms:WORDS here, and never the key itself"
        )
    return address


Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
"""Names of archives, sources and replicas: they become parts of DAG ids and of lock names."""

Url = Annotated[str, StringConstraints(min_length=1), AfterValidator(_without_secret)]
KeyAddress = Annotated[str, AfterValidator(_not_a_key)]
Signer = Annotated[str, StringConstraints(pattern=r"^(ed25519:[A-Za-z0-9+/]{43}=|file:.+)$")]
Size = Annotated[str, StringConstraints(pattern=SIZE)]
Consistency = Literal["eventual", "sequential"]
"""What a read shows of an archive with replicas: what one of them has, or all that has succeeded and nothing else."""

Restart = Literal["no", "stuck", "now"]
"""A new stream of changes though the old one is whole: never, where backups are stuck, or at once."""


class ObjectivesConfig(Section):
    """Service objectives of a source: `holdfast status --check` and the DAG `objectives` fail where one is missed.

    :param rpo: recovery point objective: the newest restore point is no older.
    :param rto: recovery time objective: the last drill took no longer, from its begin to a usable database.
    :param drill_within: the last drill that went well was no longer ago.
    :param verified_within: every file was read, or written, no longer ago.
    :param key_proved_within: a drill had the archive's key from a copy no longer ago: `drill.key`, or `drill --key`.
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
    :param tables: globs of `schema.table` to take.
    :param exclude: globs to leave out of these.
    :param connections: sessions that read it at a time, at most.
    :param bandwidth: what is read of it in a second, at most, such as `50 MB`.
    :param max_retained_wal: what the slot of its changes may keep of the server's log before one is warned.
    :param allow_unsafe_dumper: changes nothing; no backup is refused for the release of pg_dump.
    :param ddl: what changes tables during a full backup goes `first`, and ends it, or has to `wait` for its end.
    :param restart_stuck_stream: begin a new stream, by a full backup, where no backup of changes can get on.
    :param objectives: what is promised of it.
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
        """Return the default for beginning a new stream."""
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
    """Schedules of the operations: a cron expression or a preset such as `@daily`.

    An operation without one is run by hand.
    """

    full: Schedule | None = None
    changes: Schedule | None = None
    compaction: Schedule | None = None
    truncation: Schedule | None = None
    vacuum: Schedule | None = None
    verification: Schedule | None = None
    drill: Schedule | None = None


class KeepConfig(Section):
    """Rules on the restore points to keep.

    They are those of `--keep`, added together.
    """

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

    :param min_blocks: so many neighbours at least.
    :param small: those that are smaller; `target`: the size of what they become, at most.
    :param min_age: only those whose last change is older.
    """

    min_blocks: int = Field(default=8, ge=2)
    small: Size = "64 MiB"
    target: Size = "512 MiB"
    min_age: Span = "1h"


ApprovedOperation = Literal["restore", "truncation"]
"""Operations that a person can be asked about before they run in Airflow."""


class ApprovalConfig(Section):
    """Approval of work in Airflow that cannot be undone. A dry run needs none.

    :param operations: those that wait for a person: `restore`, `truncation`.
    :param within: so long a run waits; then it fails, and nothing was done.
    :param users: names (or ids) of the Airflow users who may approve; empty: everyone who may edit the run.
    """

    operations: list[ApprovedOperation] = Field(default_factory=list)
    within: Span = "1d"
    users: list[Annotated[str, StringConstraints(min_length=1)]] = Field(default_factory=list)


class VerificationConfig(Section):
    """Rules for reading stored files again.

    :param deep_within: each run reads as many of them as are needed to have read all in this time.
    :param budget: what one run reads at most, in bytes or in time; None for no bound.
    """

    deep_within: Span = "30d"
    budget: Annotated[str, StringConstraints(pattern=BUDGET)] | None = None


class VacuumConfig(Section):
    """Rules for deleting the files that nothing needs.

    :param grace: so long after they were removed.
    """

    grace: Span = "24h"


class AlertConfig(Section):
    """Notification when a task on the archive has failed for good, and when it works again.

    :param notifier: the class of an Airflow notifier, with its module.
    :param arguments: what it is made with; Airflow's templates are filled in where the notifier says so.
    """

    notifier: Annotated[str, StringConstraints(pattern=_DOTTED)]
    arguments: dict[str, Any] = Field(default_factory=dict)


class DrillConfig(Section):
    """Conditions on a database restored by a drill, and on the archive.

    :param source: whose database; needed where the archive has several.
    :param assertions: queries of one row with the value true.
    :param newest_within: how old each source's newest restore point may be; None: of any age.
    :param key: where a copy of the archive's key is kept: drills open the archive by that one.
    """

    source: Name | None = None
    assertions: list[Annotated[str, StringConstraints(min_length=1)]] = Field(default_factory=list)
    newest_within: Span | None = None
    key: KeyAddress | None = None

    def of(self, source: str) -> list[str]:
        """Return the assertions on a source's database."""
        return self.assertions if self.source in (None, source) else []


class EncryptionConfig(Section):
    """Key of an encrypted archive.

    Where this is given, an archive that is not encrypted is refused.

    :param key: `file:/path`, `env:VARIABLE`, `command:WORDS` or `kms:WORDS`; never the key itself.
    """

    key: KeyAddress


class SigningConfig(Section):
    """Signatures of an archive's commits.

    :param key: address of the key that signs, of the same kinds as that of `encryption`; None: nothing is signed here,
        only checked.
    :param signers: public keys that are believed, as `ed25519:…` or `file:/path` with one in a line; none: the own
        key's alone.
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
    :param replicas: name to URL, instead of `url`; where none of them is named, the first one is meant.
    :param store: the coordination store of the replicas, `sqlite:///file` or `postgresql://user@host/database`; a
        relative file starts at the file, too.
    :param quorum: how many replicas must hold a backup before it counts.
    :param quorum_timeout: how long they have for it, such as `1h`.
    :param consistency: of restores, queries and lists of points, unless they say another one.
    :param spark_connection: id of the Airflow connection to Spark.
    :param alert_again: so long after an alert, `alerts` report the same cause again, if it goes on.
    :param owner: of its DAGs and their tasks, as Airflow shows and filters them.
    :param pool: whose slots its tasks take; Airflow starts no task of a pool that does not exist.
    :param queue: whose workers run its tasks, where the executor has queues.
    :param timezone: that `schedule` is meant in, such as `Europe/Berlin`.
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
        # The replica that is left when the others are gone is alone, and still follows the log of its store.
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
        """Return the address of the archive's key, or None.

        None means that it is not encrypted, or that only the command knows.
        """
        return self.encryption.key if self.encryption else None

    @property
    def signs(self) -> Signing | None:
        """Return who signs the archive's commits and who is believed, or None: then the environment says it."""
        return Signing(self.signing.key, tuple(self.signing.signers)) if self.signing else None

    def location(self, replica: str | None = None) -> str:
        """Return the URL of the archive, or of one of its replicas.

        :param replica: its name; None: the first one in the file.
        :raises UsageError: there is no such replica.
        """
        replicas = self.replicas or {}
        if replica is not None and replica not in replicas:
            names = ", ".join(replicas) or "none"
            raise UsageError(f"no replica '{replica}' of this archive (it has: {names}){nearest(replica, replicas)}")
        if replica is not None:
            return replicas[replica]
        return self.url or next(iter(replicas.values()))

    def source(self, name: str | None) -> tuple[str, SourceConfig]:
        """Return a source and its name.

        Without a name, it is the only one there is.

        :raises UsageError: no such source, or several to choose from.
        """
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
        """Return the archive of this name.

        :raises UsageError: there is none.
        """
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
