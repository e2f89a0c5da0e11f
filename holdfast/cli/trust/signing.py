"""`holdfast signing`: keys that sign what is in an archive, and the begin of that. Works with Airflow down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.archive import Archive, locks
from holdfast.archive.maintenance.vouching import vouch
from holdfast.cli.shared import places
from holdfast.cli.shared.options import Json, Url, Wait, Yes  # noqa: TC001 - typer reads them at run time
from holdfast.cli.shared.output import Output
from holdfast.cli.trust.key import make_key_file
from holdfast.common.words import counted
from holdfast.storage.encryption.signing_key import believed, find_signing_key, missing_key, signing_key
from locking import Owner

if TYPE_CHECKING:
    from holdfast.archive.format.model import ArchiveCommit
    from holdfast.storage import SealedStore

signing_app = typer.Typer(
    name="signing",
    help="Signatures of all that is in an archive, so that write access to the store is not enough to forge it.",
    no_args_is_help=True,
)


@signing_app.command(name="new")
def new(
    path: Annotated[Path, typer.Argument(help="The file to make; only its owner may read it.")], as_json: Json = False
) -> None:
    """Make a key that signs, as a new file, and print the public key that checks what it signs."""
    output = Output(as_json=as_json)
    address = make_key_file(path)
    public = find_signing_key(address).public
    output.result(
        {"key": address, "public": str(public), "fingerprint": public.fingerprint},
        f"made {address} ({public.fingerprint}); to check its signatures, other machines need {public}",
    )


@signing_app.command(name="show")
def show(url: Url, as_json: Json = False) -> None:
    """Print since which commit an archive is signed, and which signatures are believed here."""
    output = Output(as_json=as_json)
    store = places.archive_store(url)
    state = Archive.open(store).state
    known, own = believed(store.signing), signing_key(store.signing)
    value = {
        "signed_since": state.vouched_by or None,
        "commits_alone": bool(state.vouched_by) and state.documents is None,
        "commit": state.sequence,
        "signs": str(own.public) if own else None,
        "believed": sorted(map(str, (known or {}).values())),
    }
    output.result(value, _words(value))


def _words(value: dict[str, Any]) -> str:
    since = f"signed since commit {value['signed_since']}" if value["signed_since"] else "not signed"
    since += " (its commits alone, until the next one)" if value["commits_alone"] else ""
    signs = f"signs with {value['signs']}" if value["signs"] else "signs nothing"
    believes = f"believes {', '.join(value['believed'])}" if value["believed"] else "asks for no signature"
    return f"{since}, of {counted(value['commit'], 'commit')}; this process {signs}, and {believes}"


@signing_app.command(name="start")
def start(url: Url, yes: Yes = False, wait: Wait = 0, as_json: Json = False) -> None:
    """Sign all that is written from now on, and vouch for what is there; on each replica.

    Also changes the signers: earlier ones need not be believed afterwards. Asks for the archive's name first. Run
    `holdfast verify --deep` before it, to check that the files are those that were written.
    """
    output = Output(as_json=as_json)
    stores = [replica.open() for replica in places.replicas(url)]
    for store in stores:
        if store.signing.key is None:
            raise missing_key(store.url)
        believed(store.signing)
    opened = [Archive.open(store, before_signing=True) for store in stores]
    name = opened[0].identity.name
    key = find_signing_key(str(stores[0].signing.key))
    output.confirm(
        name, f"{key.public} vouches for all that is in {name} now, also for files from other writers", yes=yes
    )
    made = {store.url: _start(store, wait) for store in stores}
    value = {"commits": {place: commit.sequence for place, commit in made.items()}, "public": str(key.public)}
    words = "\n".join(f"{place}: signed since commit {commit.sequence}" for place, commit in made.items())
    output.result(value, words)


def _start(store: SealedStore, wait: float) -> ArchiveCommit:
    with locks.acquire(store, "signing", owner=Owner(), purpose="signing start", wait=wait) as held:
        return vouch(store, check=held.check, fence=held.fence)
