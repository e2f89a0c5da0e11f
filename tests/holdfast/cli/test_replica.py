"""`holdfast replica`: what it does, what it tells, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from holdfast.archive import Archive
from holdfast.replication import schema
from holdfast.replication.store import ENVIRONMENT, PASSWORD, CoordinationStore
from holdfast.sources.postgresql.server import PostgresServer
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.key_source import ENVIRONMENT as KEY
from locking import RWLock
from tests.support.command import RunCommand
from tests.support.replicated import Replicas
from tests.support.servers import create_database


@pytest.fixture(autouse=True)
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a coordination store that the environment names."""
    monkeypatch.delenv(PASSWORD, raising=False)
    monkeypatch.setenv(ENVIRONMENT, address := f"sqlite:///{tmp_path}/log.db")
    return address


@pytest.fixture
def coordination(address: str) -> Iterator[CoordinationStore]:
    """The same store, opened."""
    with CoordinationStore.open(address) as store:
        yield store


@pytest.fixture
def two(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with one backup and the replicas `near` and `far`."""
    return Replicas.begun(tmp_path, coordination, "far")


@pytest.fixture
def three(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with one backup and the replicas `near`, `far` and `off`."""
    return Replicas.begun(tmp_path, coordination, "far", "off")


def change(replicas: Replicas, name: str, **values: object) -> None:
    """Change what the store says of a replica."""
    c = schema.replicas.c
    replicas.coordination.run(
        lambda connection: connection.execute(schema.replicas.update().where(c.name == name).values(**values))
    )


def lose(replicas: Replicas, *names: str) -> None:
    """Make replicas lost."""
    for name in names:
        change(replicas, name, is_lost=True, lost_reason="it was away", active_until=0.0)


def rows(holdfast: RunCommand) -> dict[str, dict[str, object]]:
    """What `replica status` says of each replica of the only archive."""
    (archive,) = holdfast("replica", "status", "--json").value["archives"]
    return {row["name"]: row for row in archive["replicas"]}


def test_an_archive_becomes_the_first_replica_and_an_empty_place_the_second(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path
) -> None:
    first = holdfast("replica", "add", "near", filled.url, "--json")
    assert (first.code, first.value["first"], first.value["from"]) == (0, True, None)
    assert first.value["archive"] == Archive.open(filled).identity.id
    second = holdfast("replica", "add", "far", str(tmp_path / "far"), "--json")
    assert second.code == 0, second.err
    assert {key: second.value[key] for key in ("first", "from", "files", "kept", "index", "aside")} == {
        "first": False, "from": "near", "files": 2, "kept": 0, "index": 0, "aside": [],
    }  # fmt: skip
    assert "making far anew" in second.err
    far = Archive.open(open_store(str(tmp_path / "far")))
    assert far.identity.id == first.value["archive"]
    assert far.state.blocks.keys() == Archive.open(filled).state.blocks.keys()


def test_an_url_is_kept_in_its_one_form(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert holdfast("replica", "add", "near", "archive/").code == 0
    assert holdfast("replica", "add", "far", f"file://{tmp_path}/far").code == 0
    assert {name: row["url"] for name, row in rows(holdfast).items()} == {
        "near": filled.url,
        "far": str(tmp_path / "far"),
    }


def test_a_copy_of_the_archive_becomes_a_replica_and_keeps_its_files(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path
) -> None:
    assert holdfast("copy", filled.url, str(tmp_path / "far")).code == 0
    assert holdfast("replica", "add", "near", filled.url).code == 0
    done = holdfast("replica", "add", "far", str(tmp_path / "far"), "--json")
    assert (done.code, done.value["files"], done.value["kept"]) == (0, 0, 2)


def test_adding_is_once_enough_and_goes_on_where_it_was_stopped(holdfast: RunCommand, two: Replicas) -> None:
    far = str(two.folder / "far")
    again = holdfast("replica", "add", "far", far)
    assert (again.code, f"{far} is replica far already" in again.err) == (0, True)
    lose(two, "far")
    assert holdfast("replica", "add", "far", far).code == 0
    assert rows(holdfast)["far"]["lost"] is False
    first = holdfast("replica", "add", "near", str(two.folder / "near"))
    assert (first.code, "is replica near already" in first.err) == (0, True)


@pytest.mark.parametrize(
    ("name", "place", "said"),
    [
        ("far", "other", "choose another name, or remove that one first"),
        ("off", "far", "is replica far already"),
        ("off", "used", "is not empty"),
        ("a/b", "other", "cannot name a replica"),
    ],
)
def test_a_name_or_a_place_that_is_taken_is_wrong_usage(
    holdfast: RunCommand, two: Replicas, name: str, place: str, said: str
) -> None:
    (two.folder / "used").mkdir()
    (two.folder / "used" / "letter.txt").write_text("dear")
    done = holdfast("replica", "add", name, str(two.folder / place))
    assert (done.code, said in done.err) == (2, True), done.err
    assert sorted(rows(holdfast)) == ["far", "near"]


def test_a_place_of_another_archive_is_no_replica_of_this_one(
    holdfast: RunCommand, two: Replicas, store: ObjectStore
) -> None:
    done = holdfast("replica", "add", "off", store.url, "--archive", two.archive)
    assert (done.code, "holds another archive (shop, " in done.err) == (2, True)
    assert holdfast("replica", "add", "off", store.url, "--archive", "nobody").code == 2
    own = Archive.open(store).identity.id
    assert holdfast("replica", "add", "first", store.url, "--archive", own).code == 0  # a log of its own
    done = holdfast("replica", "add", "off", store.url, "--archive", two.archive)
    assert (done.code, "is not the place of replica off" in done.err) == (2, True)
    assert len(holdfast("replica", "status", "--json").value["archives"]) == 2
    assert len(holdfast("replica", "status", "--archive", two.archive, "--json").value["archives"]) == 1


def test_an_empty_place_cannot_be_the_first_replica(holdfast: RunCommand, tmp_path: Path) -> None:
    done = holdfast("replica", "add", "near", str(tmp_path / "near"))
    assert (done.code, "the first replica is an archive that exists" in done.err) == (2, True)


def test_an_archive_of_format_1_cannot_have_replicas(holdfast: RunCommand, tmp_path: Path) -> None:
    assert holdfast("init", str(tmp_path / "old"), "--format", "1").code == 0
    done = holdfast("replica", "add", "near", str(tmp_path / "old"))
    assert (done.code, f"holdfast migrate {tmp_path / 'old'} --to 2" in done.err) == (2, True)


def test_who_adds_waits_for_nobody_unless_told_to(holdfast: RunCommand, filled: ObjectStore) -> None:
    with RWLock(filled, "format").read(purpose="a backup"):
        assert holdfast("replica", "add", "near", filled.url).code == 3


def test_the_status_has_these_keys(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    (archive,) = holdfast("replica", "status", "--json").value["archives"]
    replicas = {row["name"]: row for row in archive.pop("replicas")}
    store = two.state("near").log
    assert store is not None
    assert archive == {"archive": two.archive, "name": "shop", "store": store.store, "head": 1, "log_start": 1}
    far = replicas["far"]
    assert far.pop("seconds_behind") >= 0
    assert 0 < far.pop("lease_s") <= 900
    assert far.pop("active_until").endswith("Z")
    size = sum(file.size for placed in two.state("near").blocks.values() for file in placed.block.files()) // 2
    assert abs(far.pop("bytes_behind") - size) < 10
    assert far == {
        "name": "far",
        "url": str(two.folder / "far"),
        "pointer": 1,
        "entries_behind": 1,
        "epoch": 1,
        "active": True,
        "lost": False,
        "lost_reason": None,
        "recovers_from": None,
    }
    assert (replicas["near"]["entries_behind"], replicas["near"]["pointer"]) == (0, 2)


def test_the_status_is_told_in_words(holdfast: RunCommand, three: Replicas) -> None:
    three.back_up("near")
    change(three, "far", active_until=1.0)
    lose(three, "off")
    done = holdfast("replica", "status")
    assert f"shop ({three.archive}): entries up to 1, of which the log has those from 1 on" in done.out
    assert "inactive since 1970-01-01T00:00:01.000000Z" in done.out
    assert "lost: it was away" in done.out
    assert "1 entries, " in done.out
    assert "active, for " in done.out
    change(three, "off", recovers_from="near")
    assert "lost, being recovered from near, but that has died" in holdfast("replica", "status").out


def test_how_long_a_replica_is_behind_is_told_also_where_the_log_has_no_entry_of_it(
    holdfast: RunCommand, two: Replicas
) -> None:
    two.back_up("near")
    change(two, "far", active_until=1.0, synced_at=1000.0)
    assert 0 <= float(str(rows(holdfast)["far"]["seconds_behind"])) < 100
    assert holdfast("replica", "trim", "--min-keep", "0", "--max-keep", "0").code == 0
    assert float(str(rows(holdfast)["far"]["seconds_behind"])) > 1_000_000_000
    assert "shop" in holdfast("replica", "status").out


def test_a_store_without_archives_says_so(holdfast: RunCommand, address: str) -> None:
    CoordinationStore.open(address).close()
    assert holdfast("replica", "status").out == f"no archive has replicas in {address}\n"
    assert holdfast("replica", "status", "--json").value == {"archives": []}
    done = holdfast("replica", "sync", "--all")
    assert (done.code, "no archive has replicas in" in done.err) == (2, True)


def test_a_replica_is_brought_to_the_head_of_the_log(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    done = holdfast("replica", "sync", "far", "--json")
    assert done.code == 0, done.err
    (value,) = done.value["replicas"]
    assert value.pop("bytes") > 0
    assert value == {"replica": "far", "index": 1, "entries": 1, "files": 2}
    assert two.is_whole("far")
    assert holdfast("replica", "sync", "far").out == "far: at entry 1, nothing to do\n"
    two.back_up("far")
    assert holdfast("replica", "sync", "--all").out.startswith("far: at entry 2, nothing to do\nnear: at entry 2; 1 ")


def test_a_sync_of_all_goes_on_after_a_failure_and_ends_with_its_code(holdfast: RunCommand, three: Replicas) -> None:
    three.back_up("near")
    shutil.rmtree(three.folder / "far")
    done = holdfast("replica", "sync", "--all", "--json")
    assert done.code == 4
    far, near, off = done.value["replicas"]
    assert far["exit_code"] == 4
    assert "there is no archive at" in far["error"]
    assert (near["entries"], off["entries"]) == (0, 1)
    assert "holdfast: far: there is no archive at" in done.err
    assert not (three.folder / "far").exists()


def test_a_sync_of_all_leaves_out_what_is_lost(holdfast: RunCommand, two: Replicas) -> None:
    lose(two, "far")
    done = holdfast("replica", "sync", "--all", "--json")
    assert (done.code, [value["replica"] for value in done.value["replicas"]]) == (0, ["near"])
    assert "not synced: replica far is lost (it was away)" in done.err
    assert holdfast("replica", "sync", "far").code == 5


def test_a_place_that_holds_another_replica_is_not_synced(holdfast: RunCommand, two: Replicas) -> None:
    shutil.rmtree(two.folder / "far")
    shutil.copytree(two.folder / "near", two.folder / "far")
    done = holdfast("replica", "sync", "far")
    assert (done.code, "is not replica far of this archive: something else lies there" in done.err) == (4, True)


@pytest.mark.parametrize("word", ["sync", "recover"])
def test_one_replica_or_all_of_them_is_to_be_said(holdfast: RunCommand, two: Replicas, word: str) -> None:
    every = {"sync": "--all", "recover": "--lost"}[word]
    assert holdfast("replica", word).code == 2
    done = holdfast("replica", word, "far", every)
    assert (done.code, f"say either the name of a replica or {every}" in done.err) == (2, True)
    done = holdfast("replica", word, "nobody")
    assert (done.code, "there is no replica nobody of this archive; it has: far, near" in done.err) == (2, True)


def test_a_replica_that_somebody_else_syncs_is_busy(holdfast: RunCommand, two: Replicas) -> None:
    with RWLock(two.place("far"), "replica").write(purpose="another sync"):
        done = holdfast("replica", "sync", "far")
    assert (done.code, "another sync" in done.err) == (3, True)


def test_a_trimming_says_first_what_it_would_do(holdfast: RunCommand, two: Replicas) -> None:
    for _ in range(3):
        two.back_up("near")
    change(two, "far", active_until=1.0)
    options = ("replica", "trim", "--min-keep", "1", "--max-keep", "2")
    would = holdfast(*options, "--dry-run")
    assert would.out == "would remove 2 entries; the log would begin at 3; lost by it: far\n"
    assert rows(holdfast)["far"]["lost"] is False
    done = holdfast(*options, "--json")
    assert done.value == {
        "archive": two.archive, "name": "shop", "log_start": 3, "removed": 2, "lost": ["far"], "waits_for": [],
        "dry_run": False,
    }  # fmt: skip
    assert rows(holdfast)["far"]["lost_reason"] == "it was away, and needs entry 1, which was trimmed"


def test_a_trimming_names_whom_it_waits_for(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    done = holdfast("replica", "trim", "--min-keep", "0")
    assert done.out == "removed 0 entries; the log begins at 1; far still needs that one\n"
    done = holdfast("replica", "trim", "--min-keep", "5", "--max-keep", "4")
    assert (done.code, "--min-keep 5 must not be" in done.err) == (2, True)


def test_a_lost_replica_is_made_anew(holdfast: RunCommand, three: Replicas) -> None:
    three.back_up("near")
    three.sync("off")
    lose(three, "far")
    done = holdfast("replica", "recover", "far", "--from", "off", "--json")
    assert done.code == 0, done.err
    (value,) = done.value["replicas"]
    assert {key: value[key] for key in ("replica", "from", "index", "files", "kept")} == {
        "replica": "far", "from": "off", "index": 1, "files": 2, "kept": 2,
    }  # fmt: skip
    assert "making far anew from off" in done.err
    assert three.is_whole("far")
    done = holdfast("replica", "recover", "far")
    assert (done.code, "replica far is not lost" in done.err) == (5, True)


def test_a_quick_recovery_reads_nothing_that_is_there_in_its_size(holdfast: RunCommand, two: Replicas) -> None:
    (path,) = (each for each in (two.folder / "far" / "data").rglob("*.parquet"))
    path.write_bytes(bytes(path.stat().st_size))
    lose(two, "far")
    assert holdfast("replica", "recover", "far", "--quick", "--json").value["replicas"][0]["files"] == 0
    lose(two, "far")
    assert holdfast("replica", "recover", "far", "--json").value["replicas"][0]["files"] == 1
    assert two.is_whole("far")


def test_all_that_are_lost_are_recovered_whatever_becomes_of_one(holdfast: RunCommand, three: Replicas) -> None:
    assert "no replica is lost" in holdfast("replica", "recover", "--lost").err
    lose(three, "far", "off")
    shutil.rmtree(three.folder / "far")
    (three.folder / "far").mkdir()
    (three.folder / "far" / "letter.txt").write_text("dear")
    done = holdfast("replica", "recover", "--lost")
    assert done.code == 2
    assert "holdfast: far: " in done.err
    assert done.out.startswith("off: 0 files (0 B) copied from near, 2 were there; at entry 0")
    assert [name for name, row in rows(holdfast).items() if row["lost"]] == ["far"]


def test_who_is_elected_goes_on_and_the_others_are_recovered_from_it(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    lose(two, "near", "far")
    assert holdfast("replica", "recover", "--lost").code == 5
    shown = holdfast("replica", "elect", "--json").value
    assert [(each["name"], each["index"], each["problem"]) for each in shown["candidates"]] == [
        ("far", 0, None), ("near", 1, None),
    ]  # fmt: skip
    done = holdfast("replica", "elect", "near", "--json")
    assert done.value == {"archive": two.archive, "name": "shop", "elected": "near", "given_up": 0}
    assert holdfast("replica", "recover", "--lost").code == 0
    assert two.state("far").blocks.keys() == two.state("near").blocks.keys()
    done = holdfast("replica", "elect", "far")
    assert (done.code, "not all replicas are lost" in done.err) == (5, True)


def test_entries_that_nobody_has_are_given_up_only_where_that_is_said(holdfast: RunCommand, two: Replicas) -> None:
    for _ in range(2):
        two.back_up("near")
    change(two, "far", active_until=1.0)
    assert holdfast("replica", "trim", "--min-keep", "0", "--max-keep", "0").code == 0
    shutil.rmtree(two.folder / "near")
    lose(two, "near")
    shown = holdfast("replica", "elect")
    assert "shop: entries up to 2, of which the log has none any more" in shown.out
    assert "is not an archive" in shown.out
    done = holdfast("replica", "elect", "far")
    assert (done.code, "2 entries would be given up" in done.err) == (5, True)
    assert holdfast("replica", "elect", "far", "--lose-entries", "--json").value["given_up"] == 2
    assert rows(holdfast)["far"]["lost"] is False
    assert two.back_up("far") == 3


def test_what_no_other_replica_has_is_forgotten_only_by_force(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    done = holdfast("replica", "remove", "near")
    assert (done.code, "let one of them be synced first, or say --force" in done.err) == (5, True)
    done = holdfast("replica", "remove", "far", "--json")
    assert done.value == {
        "archive": two.archive, "name": "shop", "removed": "far", "url": str(two.folder / "far"),
    }  # fmt: skip
    assert sorted(rows(holdfast)) == ["near"]
    assert Archive.open(two.place("far")).state.blocks
    assert holdfast("replica", "remove", "near").code == 5
    assert holdfast("replica", "remove", "near", "--force").code == 0


def test_a_replica_that_was_removed_can_come_back(holdfast: RunCommand, two: Replicas) -> None:
    assert holdfast("replica", "remove", "far").code == 0
    two.back_up("near")
    done = holdfast("replica", "add", "far", str(two.folder / "far"), "--json")
    assert (done.code, done.value["files"], done.value["kept"]) == (0, 2, 2)
    assert two.is_whole("far")


def test_the_store_is_named_by_option_environment_or_file(
    holdfast: RunCommand, two: Replicas, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT)
    done = holdfast("replica", "status")
    assert (done.code, "say where the coordination store is: --store, HOLDFAST_STORE, or 'store'" in done.err) == (
        2,
        True,
    )
    assert "shop" in holdfast("replica", "status", "--store", address).out
    replicas = f"replicas: {{near: {two.folder / 'near'}, far: {two.folder / 'far'}}}"
    Path("archives.yaml").write_text(f"archives: {{sales: {{{replicas}, store: '{address}'}}}}")
    assert "shop" in holdfast("replica", "status").out
    assert "shop" in holdfast("replica", "status", "--archive", "sales").out
    assert holdfast("replica", "sync", "--all", "--archive", "sales").code == 0
    monkeypatch.setenv(ENVIRONMENT, f"sqlite:///{two.folder}/another.db")
    assert "there is no coordination store at" in holdfast("replica", "status").err


def test_archives_yaml_and_the_command_must_mean_the_same_place(
    holdfast: RunCommand, two: Replicas, address: str
) -> None:
    replicas = f"replicas: {{near: {two.folder / 'near'}, third: {two.folder / 'third'}}}"
    Path("archives.yaml").write_text(f"archives: {{sales: {{{replicas}, store: '{address}'}}}}")
    done = holdfast("replica", "add", "third", str(two.folder / "elsewhere"), "--archive", "sales")
    assert (done.code, "archives.yaml says that replica third of sales is at" in done.err) == (2, True)
    assert holdfast("replica", "add", "third", str(two.folder / "third"), "--archive", "sales").code == 0


def test_several_archives_in_one_store_are_told_apart(
    holdfast: RunCommand, two: Replicas, store: ObjectStore, tmp_path: Path
) -> None:
    assert holdfast("replica", "add", "near", store.url).code == 0
    done = holdfast("replica", "sync", "--all")
    assert (done.code, "say which by --archive" in done.err) == (2, True)
    assert holdfast("replica", "sync", "--all", "--archive", two.archive).code == 0
    done = holdfast("replica", "add", "far", str(tmp_path / "more"), "--archive", Archive.open(store).identity.id)
    assert done.code == 0
    assert holdfast("replica", "trim", "--archive", "nobody").code == 2


def test_the_key_of_an_encrypted_archive_is_found_in_archives_yaml(
    holdfast: RunCommand, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holdfast("key", "new", str(tmp_path / "key")).code == 0
    monkeypatch.setenv(KEY, f"file:{tmp_path / 'key'}")
    assert holdfast("init", str(tmp_path / "near"), "--name", "shop").code == 0
    monkeypatch.delenv(KEY)
    replicas = f"replicas: {{near: {tmp_path / 'near'}, far: {tmp_path / 'far'}}}"
    Path("archives.yaml").write_text(
        f"archives: {{shop: {{{replicas}, store: '{address}', encryption: {{key: 'file:{tmp_path / 'key'}'}}}}}}"
    )
    assert holdfast("replica", "add", "near", str(tmp_path / "near")).code == 0
    assert holdfast("replica", "add", "far", str(tmp_path / "far")).code == 0
    assert (tmp_path / "far" / "keys").is_dir()
    assert holdfast("replica", "sync", "--all").code == 0


def test_a_password_in_an_address_is_refused_and_not_shown(holdfast: RunCommand, two: Replicas) -> None:
    done = holdfast("replica", "status", "--store", "postgresql://me:geheim@db/log", "--json")
    assert (done.code, done.value["exit_code"]) == (2, 2)
    assert "leave the password out" in done.err
    assert "geheim" not in done.out + done.err
    done = holdfast("replica", "add", "off", "s3://me:geheim@bucket/off")
    assert (done.code, "geheim" in done.out + done.err) == (2, False)


def test_a_store_that_cannot_be_reached_fails_with_a_sentence(holdfast: RunCommand, tmp_path: Path) -> None:
    nowhere = f"sqlite:///{tmp_path}/no/such/log.db"
    done = holdfast("replica", "status", "--store", nowhere)
    assert (done.code, "there is no coordination store at" in done.err) == (2, True)
    done = holdfast("replica", "add", "near", str(tmp_path / "near"), "--store", nowhere)
    assert (done.code, "cannot be used" in done.err) == (1, True)


@pytest.mark.service
def test_replicas_follow_a_log_in_postgresql(
    holdfast: RunCommand, filled: ObjectStore, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.url(create_database(postgres).database)
    monkeypatch.setenv(ENVIRONMENT, url)
    monkeypatch.setenv(PASSWORD, postgres.password)
    assert holdfast("replica", "add", "near", filled.url).code == 0
    assert holdfast("replica", "add", "far", str(tmp_path / "far")).code == 0
    with CoordinationStore.open(url) as coordination:
        replicas = Replicas(tmp_path, coordination, Archive.open(filled).identity.id)
        replicas.back_up("far")
        count = coordination.run(lambda c: c.execute(sa.select(sa.func.count()).select_from(schema.entries)).scalar())
    assert count == 1
    done = holdfast("replica", "sync", "--all", "--store", url, "--json")
    assert [(each["replica"], each["entries"]) for each in done.value["replicas"]] == [("far", 0), ("near", 1)]
    assert rows(holdfast)["near"]["entries_behind"] == 0
    assert holdfast("replica", "trim", "--min-keep", "0", "--json").value["removed"] == 1
    shown = holdfast("replica", "status")
    assert postgres.password not in shown.out + shown.err
