"""`holdfast doctor`: checks of everything that backups and restores need, with remedies."""

from __future__ import annotations

import importlib.metadata
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.archive import Archive
from holdfast.archive.format import last_seen
from holdfast.archive.format.document import iso
from holdfast.archive.history import restore_points
from holdfast.archive.history.restore_points import waiting_tables
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json  # noqa: TC001 - typer reads it at run time
from holdfast.cli.shared.output import Output
from holdfast.common.doctor_finding import DoctorFinding
from holdfast.common.errors import HoldfastError, UsageError
from holdfast.common.words import counted
from holdfast.config.archives_yaml import find_config, read_archives
from holdfast.operations import job_process
from holdfast.operations.cluster_check import check_cluster, cluster_master
from holdfast.postgresql.dump import client_floors, programs
from holdfast.postgresql.setup.readiness import check_clients, check_database, check_server
from holdfast.postgresql.setup.tls_readiness import check_tls, describe
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.config.archives_model import SourceConfig
    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import ObjectStore

PYSPARK = "4.2.0"


def doctor(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="An archive to check, too.")] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Check each worker of the Spark cluster, too; needs an archive.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check everything that backups and restores need, and print a remedy for each failure."""
    output = Output(as_json=as_json)
    findings = _with_cluster(url, output) if cluster else list(examine(url))
    value = {"ok": all(finding.ok for finding in findings), "findings": [each.describe() for each in findings]}
    output.result(value, _lines(findings))
    if not value["ok"]:
        raise typer.Exit(1)


def _with_cluster(url: str | None, output: Output) -> list[DoctorFinding]:
    if url is None:
        raise UsageError("--cluster needs an archive that the workers must reach: holdfast doctor ARCHIVE --cluster")
    master = cluster_master()
    findings = list(examine(url))
    output.say(f"checking the workers of {master} with a small job")
    sources = {name: source[1] for name, source in _sources(url) if not isinstance(source, str)}
    try:
        return [*findings, *check_cluster(master, places.archive_store(url), sources)]
    except (HoldfastError, StoreError) as error:
        return [*findings, DoctorFinding("cluster", f"{master} was not asked", str(error))]


def _lines(findings: list[DoctorFinding]) -> Iterator[str]:
    for finding in findings:
        word = "FAIL" if not finding.ok else "warn" if finding.is_warning else "ok  "
        yield f"{word} {finding.what}: {finding.found}"
        if finding.remedy:
            yield f"     {finding.remedy}"


def examine(url: str | None) -> Iterator[DoctorFinding]:
    """Run all checks, and yield their findings one at a time.

    :param url: an archive to reach and, where archives.yaml knows it, its sources.
    """
    yield DoctorFinding("Python", sys.version.split()[0])
    yield _java()
    yield _spark()
    newest = 0
    for name, source in _sources(url):
        finding, version = _database(name, source)
        newest = max(newest, version)
        yield finding
        if version and not isinstance(source, str):
            yield from _tls(name, source[1], version)
    yield _last_seen()
    yield _program("pg_dump", newest)
    yield _program("pg_restore", newest)
    yield _libpq()
    if url is not None:
        yield _guarded("archive", url, lambda: _archive(places.archive_store(url)))
        yield from _rules(url)
        with suppress(HoldfastError, StoreError):  # the finding `archive` has it
            yield from _waiting(Archive.open(places.archive_store(url)))


def _guarded(what: str, name: str, look: Callable[[], str]) -> DoctorFinding:
    try:
        return DoctorFinding(what, look())
    except (HoldfastError, StoreError) as error:
        return DoctorFinding(what, f"{name} cannot be used", str(error))


def _rules(url: str) -> Iterator[DoctorFinding]:
    what = "lifecycle rules"
    try:
        rules = places.archive_store(url).harmful_rules()
    except HoldfastError:  # the finding `archive` has it
        return
    except StoreError as error:
        yield DoctorFinding(what, "not known", str(error), is_warning=True)
        return
    if rules:
        yield DoctorFinding(what, "; ".join(rules), "change them so that they leave the archive alone")


def _last_seen() -> DoctorFinding:
    if why := last_seen.why_not_kept():
        return DoctorFinding("last seen", f"nothing is remembered: {why}", last_seen.REMEDY, is_warning=True)
    return DoctorFinding("last seen", f"kept in {last_seen.state_folder() or 'no folder, as configured'}")


def _java() -> DoctorFinding:
    found = str(job_process.java_version() or "none")
    try:
        job_process.check_java()
    except HoldfastError as error:
        return DoctorFinding("Java", found, str(error))
    return DoctorFinding("Java", found)


def _spark() -> DoctorFinding:
    versions = {}
    for name in ("pyspark", "pyspark-client"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    found = ", ".join(f"{name} {version}" for name, version in versions.items()) or "none"
    if "pyspark" not in versions:
        return DoctorFinding("Spark", found, f"pip install pyspark=={PYSPARK}")
    if set(versions.values()) != {PYSPARK}:
        return DoctorFinding("Spark", found, f"both must be {PYSPARK}: they install over each other's files")
    return DoctorFinding("Spark", found)


def _sources(url: str | None) -> Iterator[tuple[str, tuple[SourceConfig, Address] | str]]:
    """Yield the sources of an archive, or of all, with their settings and addresses; or the mistake there."""
    try:
        read = read_archives() if find_config() else None
    except HoldfastError as error:
        yield "archives.yaml", str(error)
        return
    if read is None:
        return
    for name, mistake in read.mistakes.items():
        if url in (None, name):
            yield "archives.yaml", mistake
    chosen = {name: archive for name, archive in read.archives.items() if url in (None, name) or archive.url == url}
    for archive_name, archive in chosen.items():
        for source_name in archive.sources:
            try:
                yield source_name, places.source(archive_name, source_name)[1:]
            except HoldfastError as error:
                yield source_name, str(error)


def _database(name: str, source: tuple[SourceConfig, Address] | str) -> tuple[DoctorFinding, int]:
    if isinstance(source, str):
        return DoctorFinding(f"source {name}", "no address here", source), 0
    configured, address = source
    try:
        server = check_server(address)
        database = check_database(address, configured.tables, configured.exclude)
    except HoldfastError as error:
        return DoctorFinding(f"source {name}", f"{address.url} cannot be reached", str(error)), 0
    major = server.facts["major"]
    remedy = "; ".join(str(problem) for problem in (*server.problems, *database.problems))
    level = server.facts["wal_level"]
    return DoctorFinding(f"source {name}", f"PostgreSQL {major} at {address.url}, wal_level {level}", remedy), major


def _tls(name: str, address: Address, major: int) -> Iterator[DoctorFinding]:
    asked = address.tls
    if not (asked.is_required or asked.is_remote):  # on this machine, without TLS
        return
    what = f"TLS of {name}"
    try:
        tls = check_tls(address, major)
    except HoldfastError as error:
        yield DoctorFinding(what, asked.describe(), str(error))
        return
    clients = check_clients(major, tls=asked)
    problems = (*tls.problems, *clients.problems)
    remedy = "; ".join(str(each) for each in problems or tls.warnings)
    yield DoctorFinding(what, describe(tls.facts["tls"]), remedy, is_warning=bool(remedy) and not problems)


def _program(name: str, newest: int) -> DoctorFinding:
    program = programs.find_program(name, at_least=newest)
    if program is None:
        return DoctorFinding(
            name,
            f"none of version {newest or 14} or newer",
            f"install postgresql-client-{newest or 18}, or set HOLDFAST_PG_BIN to the folder it is in",
        )
    why, do = programs.below_floor(name, at_least=newest)
    remedy = f"{why}: {do}" if why else ""
    return DoctorFinding(name, f"{programs.version_of(program)} at {program}", remedy, is_warning=bool(why))


def _libpq() -> DoctorFinding:
    release = client_floors.libpq_release()
    why = client_floors.why_unsafe(client_floors.LIBPQ, release)
    remedy = f"{why}: {client_floors.LIBPQ_REMEDY}" if why else ""
    return DoctorFinding(client_floors.LIBPQ, str(release), remedy, is_warning=bool(why))


def _waiting(archive: Archive) -> Iterator[DoctorFinding]:
    """Yield the tables whose newest rows are in no backup, since they wait to start over."""
    for source in restore_points.source_names(archive.state):
        for each in waiting_tables(archive.state, source):
            remedy = each.reason if each.act else f"{each.reason}; the next backup tries again"
            yield DoctorFinding(f"backup of {source}", f"{each.table} waits since {iso(each.since)}", remedy)


def _archive(store: ObjectStore) -> str:
    archive = Archive.open(store)
    commits = counted(archive.state.sequence, "commit")
    return f"{archive.identity.name} at {store.url}, {commits}, format {archive.state.format}"
