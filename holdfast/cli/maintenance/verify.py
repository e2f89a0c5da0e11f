"""`holdfast verify`: a check that all files of the commits are there and unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive, locks
from holdfast.archive.history.restore_points import source_names
from holdfast.archive.locks import HistoryReader
from holdfast.archive.maintenance.repair import check_copy, repair
from holdfast.archive.maintenance.verify import THE_ARCHIVE, Scope, verify_and_remember
from holdfast.cli.shared import places
from holdfast.cli.shared.jobs import run_job
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.shared.request_options import takes
from holdfast.common.errors import UsageError
from holdfast.common.words import counted, human_size
from holdfast.operations.requests.verification import VerificationRequest
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.archive.format.document import FileRecord
    from holdfast.storage import ObjectStore


@takes(VerificationRequest)
def verify(
    url: Url,
    request: VerificationRequest,
    repair_from: Annotated[
        str | None,
        typer.Option(metavar="COPY", help="Put files that are damaged or missing back from this copy of the archive."),
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Spread the files over Spark, for large archives.")] = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Check that all files named by the commits are there and unchanged."""
    output = Output(as_json=as_json)
    if (request.budget or request.within or spark) and not request.deep:
        raise UsageError("--budget, --within and --spark need --deep")
    scope = Scope(deep=request.deep, new=request.new, **request.bounds)
    if request.no_lock and repair_from:
        raise UsageError("a repair writes to the archive: leave out --no-lock or --repair-from")
    archive = places.resolve(url)
    store = archive.open()
    copy = places.archive_store(repair_from, like=archive.keys) if repair_from else None
    if copy is not None:
        check_copy(_opened(store), Archive.open(copy))
    value = (
        run_job(archive, request, wait=wait, output=output)
        if spark
        else _verify_here(store, scope, wait, output, unlocked=request.no_lock)
    )
    if copy is not None and value["damage"]:
        value |= _repair(store, copy, value["costs"], wait)
    output.result(value, _lines(value))
    unlocked = (value.get("object_locks") or {}).get("failed", {})
    for key, why in unlocked.items():
        output.say(f"holdfast: the object lock of {key} could not be extended: {why}")
    if remaining := len(value["damage"]) - len(value.get("repaired", ())):
        output.say(f"holdfast: {remaining} of {value['files']} files are damaged or missing")
        repaired = value.get("repaired", ())
        elsewhere = any(each["replaceable"] and each["file"] not in repaired for each in value["costs"])
        if elsewhere and (place := _opened(store).state.log) is not None:
            output.say(f"holdfast replica recover {place.replica} --damaged fetches them from another replica")
        raise typer.Exit(4)
    if any(each["source"] == THE_ARCHIVE for each in value["costs"]):
        output.say("holdfast: the files of the commits that were put back are not verified yet: run it once more")
        raise typer.Exit(4)
    if unlocked:
        raise typer.Exit(1)


def _opened(store: ObjectStore) -> Archive:
    return Archive.open(store, before_damage=True)


def _verify_here(store: ObjectStore, scope: Scope, wait: float, output: Output, *, unlocked: bool) -> dict[str, Any]:
    archive = _opened(store)  # nothing is written, not even a lock, where there is no archive
    on_file = _progress(output) if scope.deep else lambda record: None
    if unlocked:
        return verify_and_remember(archive, scope, on_file=on_file, remember=False).describe()
    owner = Owner()
    with locks.acquire(store, "verification", owner=owner, purpose="verification", wait=wait) as held:
        verified = verify_and_remember(
            _opened(store),
            scope,
            reading=HistoryReader(store, owner=owner, purpose="verification", wait=wait),
            check=held.check,
            on_file=on_file,
        )
    return verified.describe()


def _repair(store: ObjectStore, copy: ObjectStore, damage: Sequence[dict[str, Any]], wait: float) -> dict[str, Any]:
    owner = Owner()
    named = {each["source"] for each in damage}
    sources = [name for name in source_names(_opened(store).state) if name in named or THE_ARCHIVE in named]
    with (
        locks.acquire(store, "repair", sources=sources, owner=owner, purpose="repair", wait=wait) as held,
        locks.acquire(copy, "source-side", owner=owner, purpose=f"repair of {store.url}", wait=wait) as beside,
    ):

        def check() -> None:
            held.check()
            beside.check()

        repaired = repair(_opened(store), Archive.open(copy), [each["file"] for each in damage], check=check)
    return {"repaired": list(repaired.files), "not_repaired": dict(repaired.left)}


def _progress(output: Output) -> Callable[[FileRecord], None]:
    read = 0

    def report(record: FileRecord) -> None:
        nonlocal read
        read += record.size
        output.report(f"{human_size(read)} read", every_s=5.0)

    return report


def _lines(value: dict[str, Any]) -> Iterator[str]:
    yield from (f"damaged: {problem}" for problem in value["damage"])
    yield from (f"repaired: {path}" for path in value.get("repaired", ()))
    yield from (f"not repaired: {path}: {why}" for path, why in value.get("not_repaired", {}).items())
    how = "read and match their checksums" if value["deep"] else "there, with the right size"
    yield (
        f"{value['files'] - len(value['damage'])} of {value['files']} files ({human_size(value['bytes'])}) "
        f"of {counted(value['commits'], 'commit')} are {how}"
    )
    if (locks := value.get("object_locks")) is not None:
        yield f"object locks: {locks['looked_at']} checked, {locks['extended']} extended"
    if value["read_since"]:
        yield f"every file was read, or written, after {value['read_since']}"
