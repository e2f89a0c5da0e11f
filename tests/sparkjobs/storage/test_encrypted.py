"""An encrypted archive, through the commands and jobs of its whole life: nothing of a database is ever in the clear."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import UsageError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.storage import open_store
from holdfast.storage.encryption.sealed_store import IN_THE_CLEAR
from holdfast.storage.encryption.sealing import MAGIC
from tests.support.jobs import command
from tests.support.jobs.command_here import run_here
from tests.support.servers.postgres import create_database, drop_slots

pytestmark = pytest.mark.service

SECRETS = ("rosencrantz", "guildenstern", "elsinore_table", "elsinore_column")
"""Of rows, key ranges, and names."""

SHOP = (
    "create table public.elsinore_table (id text primary key, elsinore_column text)",
    "insert into public.elsinore_table select 'rosencrantz ' || i, 'guildenstern' from generate_series(1, 500) i",
)

COUNT = "select count(*) as n, count(distinct elsinore_column) as kinds from public.elsinore_table"


@dataclass(frozen=True)
class Shop:
    """An archive and the database it is of; archives.yaml names its key."""

    address: Address
    folder: Path
    archive: Path
    key: str

    def run(
        self, *arguments: str, address: Address | None = None, more: Mapping[str, str] = command.NOTHING
    ) -> dict[str, Any]:
        done = self.attempt(*arguments, address=address, more=more)
        assert done.code == 0, done.err
        return done.value

    def attempt(
        self, *arguments: str, address: Address | None = None, more: Mapping[str, str] = command.NOTHING
    ) -> command.Finished:
        surroundings = {"HOLDFAST_ARCHIVES": str(self.folder / "archives.yaml"), **more}
        return run_here(*arguments, "--json", address=address or self.address, more=surroundings)


@pytest.fixture(scope="module")
def shop(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A full backup and two of changes."""
    folder = tmp_path_factory.mktemp("encrypted")
    address = create_database(postgres)
    with connect(address) as session:
        for statement in SHOP:
            session.execute(statement.encode())
    key = folder / "key"
    assert run_here("key", "new", str(key)).code == 0
    (folder / "archives.yaml").write_text(
        f"archives:\n  shop:\n    url: archive\n    encryption: {{key: 'file:{key}'}}\n"
        f"    sources: {{db: {{url: '{address.url}'}}}}\n"
    )
    made = Shop(address, folder, folder / "archive", f"file:{key}")
    made.run("init", "shop")
    made.run("backup", "shop", "--source", "db", "--kind", "changes")
    for number in range(2):
        with connect(address) as session:
            session.execute(f"update public.elsinore_table set elsinore_column = 'guildenstern {number}'".encode())
        made.run("backup", "shop", "--source", "db", "--kind", "changes")
    yield made
    drop_slots(address)


def in_the_clear(archive: Path) -> list[str]:
    """Return the names of objects that are not sealed, or that somebody without a key can learn a secret from."""
    found = []
    for path in sorted(path for path in archive.rglob("*") if path.is_file()):
        name, body = path.relative_to(archive).as_posix(), path.read_bytes()
        told = any(secret.encode() in body.lower() or secret in name for secret in SECRETS)
        if told or body.startswith(MAGIC) == name.startswith(IN_THE_CLEAR):
            found.append(name)
    return found


def copy_of(shop: Shop, folder: Path) -> Path:
    """Return a copy of the archive's files."""
    return shutil.copytree(shop.archive, folder / "archive")


@pytest.mark.e2e
def test_nothing_is_in_the_clear_and_all_of_it_comes_back(
    shop: Shop, new_database: Callable[..., Address], tmp_path: Path
) -> None:
    assert in_the_clear(shop.archive) == []
    moments = shop.run("points", "shop")
    assert shop.run("query", "shop", COUNT)["rows"] == [[500, 1]]
    target = new_database()
    assert shop.run("restore", "shop", "--to", target.url, address=target)["equal"]
    assert shop.run("compact", "shop", "--consolidate")["consolidated"]
    verified = shop.run("verify", "shop", "--deep", "--spark", more=command.ON_SPARK)
    assert (verified["damage"], verified["deep"], verified["files"] > 3) == ([], True, True)
    shop.run("truncate", "shop", "--keep", "last=1")
    assert shop.run("vacuum", "shop", "--grace", "0s")["files"] > 0
    assert shop.run("query", "shop", COUNT)["rows"] == [[500, 1]]
    assert shop.run("points", "shop") != moments
    assert in_the_clear(shop.archive) == []


def test_who_has_no_key_or_another_is_told_so_and_changes_nothing(shop: Shop, tmp_path: Path) -> None:
    before = sorted(shop.archive.rglob("*"))
    assert run_here("key", "new", str(tmp_path / "other")).code == 0
    other = {"HOLDFAST_ARCHIVES": "", "HOLDFAST_KEY": f"file:{tmp_path / 'other'}"}
    for more, said in [({"HOLDFAST_ARCHIVES": ""}, "is encrypted: say where its key"), (other, "has the fingerprint")]:
        for arguments in (
            ["backup", str(shop.archive), "--source", shop.address.url],
            ["points", str(shop.archive)],
            ["vacuum", str(shop.archive)],
        ):
            done = shop.attempt(*arguments, more=more)
            assert (done.code, said in done.err) == (UsageError.exit_code, True), done.err
    assert sorted(shop.archive.rglob("*")) == before


def test_damage_of_any_object_is_named(shop: Shop, tmp_path: Path) -> None:
    copied = copy_of(shop, tmp_path)
    files = [path for path in copied.rglob("data/**/*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        body = path.read_bytes()
        for at in (2, 6, 20, len(body) // 2, len(body) - 1):
            path.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
            damage = verify(Archive.open(open_store(str(copied), shop.key)), deep=True).damage
            assert any(path.relative_to(copied).as_posix() in str(each) for each in damage), (path, at)
        path.write_bytes(body)
    assert verify(Archive.open(open_store(str(copied), shop.key)), deep=True).damage == ()


def test_after_a_rotation_backups_go_on_and_the_old_key_opens_nothing(shop: Shop, tmp_path: Path) -> None:
    copied = str(copy_of(shop, tmp_path))
    assert run_here("key", "new", str(tmp_path / "new")).code == 0
    new = f"file:{tmp_path / 'new'}"
    done = run_here("key", "rotate", copied, "--to", new, "--yes", more={"HOLDFAST_KEY": shop.key})
    assert done.code == 0, done.err
    assert run_here("status", copied, more={"HOLDFAST_KEY": shop.key}).code == UsageError.exit_code
    backup = ("backup", copied, "--source", shop.address.url, "--new-source", "--kind", "full", "--json")
    assert run_here(*backup, address=shop.address, more={"HOLDFAST_KEY": new}).code == 0
    done = run_here("verify", copied, "--deep", "--json", more={"HOLDFAST_KEY": new})
    assert done.value["damage"] == []
    assert in_the_clear(Path(copied)) == []


def test_a_copy_is_encrypted_with_a_key_of_its_own(shop: Shop, tmp_path: Path) -> None:
    assert run_here("key", "new", str(tmp_path / "new")).code == 0
    new = f"file:{tmp_path / 'new'}"
    copied = tmp_path / "copy"
    shop.run("copy", "shop", str(copied), "--to-key", new)
    assert in_the_clear(copied) == []
    there = run_here("points", str(copied), "--json", more={"HOLDFAST_KEY": new}).value
    assert there["sources"] == shop.run("points", "shop")["sources"]
    same = tmp_path / "same"
    shop.run("copy", "shop", str(same))
    assert in_the_clear(same) == []
    assert run_here("status", str(same), more={"HOLDFAST_KEY": shop.key}).code == 0
    (path,) = list(same.rglob("data/**/00000*"))[:1]
    shutil.copy(path, shop.archive / path.relative_to(same))  # under one key, objects can be put back by hand
    assert shop.run("verify", "shop", "--deep")["damage"] == []


def test_an_archive_in_the_clear_gets_an_encrypted_copy_but_never_the_other_way_round(
    shop: Shop, tmp_path: Path
) -> None:
    plain, copied = tmp_path / "plain", tmp_path / "copy"
    assert run_here("init", str(plain)).code == 0
    assert (
        run_here("backup", str(plain), "--source", shop.address.url, "--kind", "full", address=shop.address).code == 0
    )
    assert run_here("copy", str(plain), str(copied), "--to-key", shop.key).code == 0
    assert in_the_clear(copied) == []
    assert run_here("verify", str(copied), "--deep", more={"HOLDFAST_KEY": shop.key}).code == 0
    back = run_here("copy", str(copied), str(plain), more={"HOLDFAST_KEY": shop.key})
    assert back.code == UsageError.exit_code
    assert "is not encrypted, but there is a key for it" in back.err


def test_records_of_work_without_locks_are_no_archive_and_ask_for_no_key(shop: Shop) -> None:
    done = run_here("verify", str(shop.archive), "--deep", "--spark", "--no-lock", more={"HOLDFAST_KEY": shop.key})
    assert done.code == 0, done.err
