"""`holdfast replica give-up`: what it shows, and what it refuses."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.support.jobs.command import RunCommand
from tests.support.replicas.replicated import Replicas

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("log_address")]


@pytest.fixture
def stuck(three: Replicas, holdfast: RunCommand) -> Replicas:
    """Replicas `far` and `off` that cannot go beyond entry 1, which only `near` had."""
    three.back_up("near")
    shutil.rmtree(three.folder / "near")
    return three


def test_an_entry_is_given_up_and_the_others_go_on(holdfast: RunCommand, stuck: Replicas) -> None:
    assert holdfast("replica", "remove", "near", "--force").code == 0
    stopped = holdfast("replica", "sync", "--all")
    assert (stopped.code, "'holdfast replica give-up 1 --dry-run'" in stopped.err) == (4, True)
    would = holdfast("replica", "give-up", "1", "--dry-run")
    assert would.out.endswith("of shop would be given up: entries 1 (backup)\n")
    assert holdfast("replica", "sync", "--all").code == 4
    done = holdfast("replica", "give-up", "1", "--yes", "--json")
    block = stuck.backups[-1]
    value = done.value
    assert [path.rpartition("/")[0] for path in value.pop("missing")] == [
        f"data/shop_db/16384/snapshot/{block}", f"data/shop_db/schema/snapshot/{block}",
    ]  # fmt: skip
    assert value == {
        "archive": stuck.archive, "name": "shop", "given_up": [{"entry": 1, "kind": "backup", "blocks": [block]}],
        "sources": ["shop_db"], "entry": 3, "dry_run": False,
    }  # fmt: skip
    assert holdfast("replica", "sync", "--all").code == 0
    assert stuck.state("far").blocks.keys() == stuck.state("off").blocks.keys() == {stuck.backups[0]}
    assert stuck.back_up("far") == 4


def test_who_cannot_be_asked_has_to_say_yes(holdfast: RunCommand, stuck: Replicas) -> None:
    assert holdfast("replica", "remove", "near", "--force").code == 0
    done = holdfast("replica", "give-up", "1")
    assert (done.code, "nothing was done. Add --yes" in done.err) == (2, True)
    assert "shop goes on without entries 1 of its log: the backups of shop_db in them are lost" in done.err
    assert holdfast("replica", "sync", "--all").code == 4


def test_it_is_told_in_words(holdfast: RunCommand, stuck: Replicas) -> None:
    assert holdfast("replica", "remove", "near", "--force").code == 0
    done = holdfast("replica", "give-up", "1", "--yes")
    assert done.out.startswith("at no place: data/shop_db/")
    assert done.out.endswith(
        "of shop are given up: entries 1 (backup)\n"
        "entry 3 says so. Now: holdfast replica sync --all, then back up shop_db\n"
    )
    again = holdfast("replica", "give-up", "1", "--yes")
    assert (again.code, "the log has no entry 1 that adds a block" in again.err) == (2, True)


def test_a_sync_gives_it_up_in_time_and_status_tells_how_long_it_is_known(
    holdfast: RunCommand, stuck: Replicas
) -> None:
    assert holdfast("replica", "remove", "near", "--force").code == 0
    waiting = holdfast("replica", "sync", "far", "--gap-after", "3d")
    assert (waiting.code, "it is given up by itself by a sync in 3 d" in waiting.err) == (4, True)
    told = holdfast("replica", "status").out
    assert re.search(r"entry 1 stops replicas: no replica has its files, as is known for \d+ s\n", told)
    (archive,) = holdfast("replica", "status", "--json").value["archives"]
    assert [each["entry"] for each in archive["missing"]] == [1]
    never = holdfast("replica", "sync", "far", "--gap-after", "never")
    assert (never.code, "by itself" in never.err) == (4, False)
    done = holdfast("replica", "sync", "--all", "--gap-after", "0s")
    assert done.out == (
        "far: given up, since no replica had their files: entries 1; at entry 3; 3 executed, 0 files (0 B) fetched\n"
        "off: at entry 3; 3 executed, 0 files (0 B) fetched\n"
    )
    (archive,) = holdfast("replica", "status", "--json").value["archives"]
    assert archive["missing"] == []


def test_a_time_that_is_none_is_refused(holdfast: RunCommand, stuck: Replicas) -> None:
    done = holdfast("replica", "sync", "far", "--gap-after", "soon")
    assert (done.code, "cannot read 'soon' as a length of time" in done.err) == (2, True)
