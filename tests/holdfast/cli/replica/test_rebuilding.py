"""`holdfast replica rebuild-store`: what it shows, and what has to be said first."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from holdfast.replication.log import schema
from holdfast.replication.log.store import ENVIRONMENT
from holdfast.storage.encryption.key_source import ENVIRONMENT as KEY
from tests.support.jobs.command import RunCommand
from tests.support.replicas.replicated import Replicas, replica_rows

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("log_address")]

REBUILD = ("replica", "rebuild-store")


@pytest.fixture
def gone(three: Replicas, log_address: str) -> Replicas:
    """Replicas at the entries 2, 2 and 1, whose store was deleted."""
    for _ in range(2):
        three.back_up("near")
    three.sync("far")
    three.sync("off", upto=1)
    Path(log_address.removeprefix("sqlite:///")).unlink()
    return three


def named(replicas: Replicas, *names: str) -> list[str]:
    """The options that name replicas."""
    return [word for name in names for word in ("--replica", f"{name}={replicas.folder / name}")]


def test_a_dry_run_shows_what_would_become_of_each_and_makes_no_store(
    holdfast: RunCommand, gone: Replicas, log_address: str
) -> None:
    before = [gone.state(name).sequence for name in ("near", "far", "off")]
    done = holdfast(*REBUILD, *named(gone, "near", "far", "off"), "--dry-run")
    assert done.code == 0, done.err
    table, last = done.out.splitlines()[:-1], done.out.splitlines()[-1]
    assert [re.split(" {2,}", line.strip()) for line in table] == [
        ["replica", "url", "has entries up to", "becomes"],
        ["far", str(gone.folder / "far"), "2", "goes on"],
        ["near", str(gone.folder / "near"), "2", "goes on"],
        ["off", str(gone.folder / "off"), "1", "lost: it ends at entry 1, and near at 2"],
    ]
    assert last == "shop would go on from near, which has entries up to 2"
    assert not Path(log_address.removeprefix("sqlite:///")).exists()
    assert [gone.state(name).sequence for name in ("near", "far", "off")] == before


def test_a_store_that_was_deleted_is_made_anew(holdfast: RunCommand, gone: Replicas) -> None:
    done = holdfast(*REBUILD, *named(gone, "near", "far", "off"))
    assert done.code == 0, done.err
    store = gone.place_of("near").store
    assert f"shop goes on from near, which has entries up to 2, in store {store}\n" in done.out
    assert done.out.endswith("now: holdfast replica recover --lost\n")
    assert {name: row["lost"] for name, row in replica_rows(holdfast).items()} == {
        "far": False, "near": False, "off": True,
    }  # fmt: skip
    assert replica_rows(holdfast)["off"]["lost_reason"] == (
        "when the store was rebuilt: it ends at entry 1, and near at 2"
    )
    assert holdfast("replica", "recover", "--lost").code == 0
    assert gone.back_up("off") == 3
    assert holdfast("replica", "sync", "--all").code == 0
    assert gone.state("near").blocks.keys() == gone.state("off").blocks.keys()
    assert len(gone.state("near").blocks) == 4


def test_the_result_has_these_keys(holdfast: RunCommand, gone: Replicas) -> None:
    done = holdfast(*REBUILD, *named(gone, "near", "off"), "--json")
    value = done.value
    assert value.pop("store") == gone.place_of("off").store
    assert value.pop("replicas") == [
        {
            "name": "near", "url": str(gone.folder / "near"), "index": 2, "lost": False, "lost_reason": None,
            "objection": None,
        },
        {
            "name": "off", "url": str(gone.folder / "off"), "index": 1, "lost": True,
            "lost_reason": "it ends at entry 1, and near at 2", "objection": None,
        },
    ]  # fmt: skip
    assert value == {
        "archive": gone.archive, "name": "shop", "needed": True, "from": "near", "head": 2, "unsettled": [],
        "given_up": 0, "dry_run": False,
    }  # fmt: skip


def test_replicas_are_named_by_archives_yaml_too_and_its_key_opens_them(
    holdfast: RunCommand, tmp_path: Path, log_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = f"file:{tmp_path / 'key'}"
    assert holdfast("key", "new", str(tmp_path / "key")).code == 0
    monkeypatch.setenv(KEY, key)
    assert holdfast("init", str(tmp_path / "near"), "--name", "shop").code == 0
    monkeypatch.delenv(KEY)
    replicas = f"replicas: {{near: {tmp_path / 'near'}, far: {tmp_path / 'far'}}}"
    Path("archives.yaml").write_text(
        f"archives: {{sales: {{{replicas}, store: '{log_address}', encryption: {{key: '{key}'}}}}}}"
    )
    for name in ("near", "far"):
        assert holdfast("replica", "add", name, str(tmp_path / name)).code == 0
    Path(log_address.removeprefix("sqlite:///")).unlink()
    monkeypatch.delenv(ENVIRONMENT)
    done = holdfast(*REBUILD, "--archive", "sales", "--json")
    assert done.code == 0, done.err
    assert [each["lost"] for each in done.value["replicas"]] == [False, False]
    assert holdfast("replica", "sync", "--all").code == 0


def test_who_cannot_be_read_is_shown_and_has_to_be_left_out(holdfast: RunCommand, gone: Replicas) -> None:
    shutil.move(gone.folder / "far", gone.folder / "away")
    names = named(gone, "near", "far", "off")
    refused = holdfast(*REBUILD, *names)
    assert (refused.code, refused.out) == (5, "")
    assert "has entries up to" in refused.err
    assert "or leave it out by --without far" in refused.err
    would = holdfast(*REBUILD, *names, "--dry-run", "--json")
    assert (would.code, would.value["replicas"][0]["index"]) == (5, None)
    assert "leave it out by --without far" in would.value["replicas"][0]["objection"]
    assert holdfast(*REBUILD, *names, "--without", "far", "--dry-run").code == 0
    assert holdfast(*REBUILD, *names, "--without", "far").code == 0
    assert replica_rows(holdfast)["far"]["lost"] is True


def test_where_the_store_is_right_it_has_to_be_forced(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    refused = holdfast(*REBUILD)
    assert (refused.code, "there is nothing to rebuild" in refused.err) == (5, True)
    would = holdfast(*REBUILD, "--dry-run")
    assert (would.code, "there is nothing to rebuild" in would.err) == (5, True)
    assert holdfast(*REBUILD, "--force").code == 0


def test_blocks_that_count_now_and_entries_that_do_not_are_told(holdfast: RunCommand, two: Replicas) -> None:
    two.back_up("near")
    (block,) = two.backups[-1:]
    row = {
        "archive": two.archive, "index": 1, "block": block, "source": "shop_db", "size": 2, "state": "pending",
        "deadline": 0.0, "end_before": "", "stream_before": "", "dropped_by": 0,
    }  # fmt: skip
    two.coordination.run(lambda c: c.execute(schema.quorums.insert(), row))
    two.coordination.run(lambda c: c.execute(schema.archives.update().values(head=3)))
    done = holdfast(*REBUILD, "--force")
    assert f"these count though their quorum had not succeeded: block {block}" in done.out
    assert "2 entries of the old log, which no replica has executed, are given up" in done.out


def test_wrong_usage_is_told(holdfast: RunCommand, gone: Replicas) -> None:
    for word in ("near", "near=", "=/srv/near"):
        done = holdfast(*REBUILD, "--replica", word)
        assert (done.code, f"--replica wants NAME=URL, such as near=/srv/near/shop, and not '{word}'" in done.err) == (
            2, True,
        )  # fmt: skip
    done = holdfast(*REBUILD)
    assert (done.code, "Say by --replica NAME=URL where its replicas are" in done.err) == (2, True)
    done = holdfast(*REBUILD, *named(gone, "near"), "--archive", "bank")
    assert (done.code, "bank" in done.err) == (2, True)


def test_commands_that_find_no_store_tell_how_to_make_it_anew(holdfast: RunCommand, gone: Replicas) -> None:
    done = holdfast("replica", "sync", "--all")
    assert (done.code, "'holdfast replica rebuild-store'" in done.err) == (2, True)
