"""`holdfast key`: new keys, the key that opens an archive, and its exchange. Works with Airflow down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive, Change, locks
from holdfast.archive.format.document import iso
from holdfast.archive.maintenance.copy_archive import is_copy
from holdfast.cli.shared import places
from holdfast.cli.shared.confirmation import Yes, confirm
from holdfast.cli.shared.key_files import make_key_file
from holdfast.cli.shared.options import Json, Url, Wait  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output, show_rows
from holdfast.common.errors import DamagedError, UsageError
from holdfast.storage.encryption.key_source import find_key
from holdfast.storage.encryption.keyring import document_names
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.storage import SealedStore
    from holdfast.storage.encryption.keyring import RingDocument

key_app = typer.Typer(
    name="key",
    help="Keys of encrypted archives. Whoever has lost an archive's key has lost the archive.",
    no_args_is_help=True,
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
        lambda console: console.print(
            f"made {key.address} ({key.fingerprint}): keep a copy where the archive is not; without it nothing of the "
            "archive can be read",
            markup=False,
        ),
    )


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
            f"{name} is still there, and its key opens the archive: a rotation was ended early, rotate once more"
        )
    output.result(_value(ring.document, store.key), lambda console: _show(console, ring.document, store.key))


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

    Without --to the present key goes on opening it. Earlier files are not encrypted anew. Asks for the archive's name
    first.
    """
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    name = Archive.open(store).identity.name
    if store.ring() is None or store.key is None:
        raise UsageError(f"{store.url} is not encrypted: 'holdfast copy' makes an encrypted copy of it")
    find_key(to or store.key)
    confirm(name, _consequence(name, store.key, to), yes=yes, output=output)
    with locks.acquire(store, "key-rotation", owner=Owner(), purpose="key rotation", wait=wait) as held:
        made = _rotate(store, to or store.key, check=held.check, fence=held.fence)
    if made is None:
        output.say(f"{store.url} is a copy, so no commit says that its keys were exchanged: the next one it takes does")
    ring = store.ring()
    if ring is None:
        raise DamagedError(f"{store.url} has lost its keys just now: put back what was under keys/")
    value = {**_value(ring.document, store.key), "commit": made.sequence if made else None}
    output.result(value, lambda console: _show(console, ring.document, store.key))


def _rotate(store: SealedStore, key: str, *, check: Callable[[], None], fence: str | None) -> ArchiveCommit | None:
    """Exchange the keys of an archive, and add a commit that is sealed with the new data key.

    By that commit it is noticed where the former keys are put back: they do not open it. A copy gets none, since it
    takes its commits from its source: there the next one that it takes does the same.

    :param key: address of the key that opens the archive from now on.
    :param check: raises if the lock `format` is no longer held.
    :raises UsageError: the archive is signed, and there is no key to sign with; nothing is changed.
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
        return f"{name} gets a new data key, which {key} opens as before: earlier copies of its keyring do not have it"
    return f"from now on {to} opens {name}, and {key} does not: whoever has only the old key has lost the archive"


def _value(document: RingDocument, key: str | None) -> dict[str, Any]:
    return {"key": key, "document": document.model_dump(mode="json")}


def _show(console: Console, document: RingDocument, key: str | None) -> None:
    opened = f"the key {document.wrapped_by}" if document.wrapped_by else "a service's key"
    console.print(f"opened by {opened}, found here by {key}", markup=False)
    uses = ["reading"] * (len(document.keys) - 1) + ["writing and reading"]
    rows = [(each.id, iso(each.created), use) for each, use in zip(document.keys, uses, strict=True)]
    show_rows(console, ("data key", "made", "for"), rows)
