"""`holdfast key`: new keys, the key that opens an archive, and its exchange. Works with Airflow down."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive, Change, locks
from holdfast.archive.format.document import iso
from holdfast.archive.maintenance.copy_archive import is_copy
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url, Wait, Yes  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, table_lines
from holdfast.common.errors import DamagedError, UsageError
from holdfast.storage.encryption.key_source import find_key, new_key
from holdfast.storage.encryption.keyring import document_names
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.storage import SealedStore
    from holdfast.storage.encryption.keyring import RingDocument

key_app = typer.Typer(
    name="key", help="Keys of encrypted archives. An archive whose key is lost is lost.", no_args_is_help=True
)


@key_app.command(name="new")
def new(
    path: Annotated[Path, typer.Argument(help="The file to make; only its owner may read it.")], as_json: Json = False
) -> None:
    """Make a key, as a new file."""
    output = Output(as_json=as_json)
    key = find_key(make_key_file(path))
    output.result(
        {"key": key.address, "fingerprint": key.fingerprint},
        f"made {key.address} ({key.fingerprint}): keep a copy away from the archive; without the key nothing in the "
        "archive can be read",
    )


def make_key_file(path: Path) -> str:
    """Write a new key to a new file that only its owner may read, and return its address.

    :raises UsageError: the file is there, or cannot be written.
    """
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(new_key())
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(path.absolute().parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except FileExistsError:
        raise UsageError(f"{path} exists, and may be the only key of an archive: name another file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error
    return f"file:{path.absolute()}"


@key_app.command(name="show")
def show(url: Url, as_json: Json = False) -> None:
    """Print the key that opens an archive; with --json, all that is stored of its keys, none of it secret."""
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    Archive.open(store)
    ring = store.ring()
    if ring is None:
        raise UsageError(f"{store.url} is not encrypted")
    for name in document_names(store)[:-1]:
        output.say(
            f"{name} is still there, and its key opens the archive: a rotation was interrupted, rotate once more"
        )
    output.result(_value(ring.document, store.key), _lines(ring.document, store.key))


@key_app.command(name="rotate")
def rotate(
    url: Url,
    to: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The key that opens the archive from now on, such as file:/etc/new.key."),
    ] = None,
    yes: Yes = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Encrypt all later writes with a new data key, and exchange the key that opens the archive.

    Without --to the present key still opens it. Earlier files are not encrypted again. Asks for the archive's name
    first.
    """
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    name = Archive.open(store).identity.name
    if store.ring() is None or store.key is None:
        raise UsageError(f"{store.url} is not encrypted: 'holdfast copy' makes an encrypted copy of it")
    find_key(to or store.key)
    output.confirm(name, _consequence(name, store.key, to), yes=yes)
    with locks.acquire(store, "key-rotation", owner=Owner(), purpose="key rotation", wait=wait) as held:
        made = _rotate(store, to or store.key, check=held.check, fence=held.fence)
    if made is None:
        output.say(f"{store.url} is a copy: the next commit that it takes from its archive records the new key")
    ring = store.ring()
    if ring is None:
        raise DamagedError(f"{store.url} has lost its keys just now: restore the files under keys/")
    value = {**_value(ring.document, store.key), "commit": made.sequence if made else None}
    output.result(value, _lines(ring.document, store.key))


def _rotate(store: SealedStore, key: str, *, check: Callable[[], None], fence: str | None) -> ArchiveCommit | None:
    """Exchange the keys of an archive, and add a commit that is sealed with the new data key.

    If the old keys are put back, they do not open that commit. A copy takes its commits from its archive instead.
    """
    archive = Archive.open(store)
    if is_copy(archive):
        store.renew(key)
        return None
    archive.check_may_add()
    check()
    store.renew(key)
    return archive.add(lambda _: Change(kind="key-rotation"), check=check, fence=fence)


def _consequence(name: str, key: str, to: str | None) -> str:
    if to is None or to == key:
        return f"{name} gets a new data key, which {key} opens as before; earlier copies of its keyring lack it"
    return f"from now on {to} opens {name}, and {key} does not: the old key alone cannot read it"


def _value(document: RingDocument, key: str | None) -> dict[str, Any]:
    return {"key": key, "document": document.model_dump(mode="json")}


def _lines(document: RingDocument, key: str | None) -> Iterator[str]:
    opened = f"the key {document.wrapped_by}" if document.wrapped_by else "a service's key"
    yield f"opened by {opened}, read here from {key}"
    uses = ["reading"] * (len(document.keys) - 1) + ["writing and reading"]
    rows = [(each.id, iso(each.created), use) for each, use in zip(document.keys, uses, strict=True)]
    yield from table_lines(("data key", "made", "for"), rows)
