"""`holdfast truncate`: the plan that its dry run prints, and the commit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.maintenance.hold_requests import add_hold
from holdfast.storage import ObjectStore
from locking import Owner, RWLock
from tests.support.jobs.command import RunCommand

NOW = datetime.now(UTC)


@pytest.fixture
def backed_up(store: ObjectStore) -> ObjectStore:
    """An archive of five full backups of one source, a day apart, and one of another."""
    archive = Archive.open(store)
    for day in range(5):
        add(archive, "shop_db", day)
    add(archive, "crm", 0)
    return store


def add(archive: Archive, source: str, day: int) -> None:
    block = make_block(identity=f"{source}-{day}", source=source, position=f"0/{day + 1}00",
                       at=NOW - timedelta(days=4 - day))  # fmt: skip
    change = Change(kind="backup", add=(block,))
    archive.add(lambda state: change, check=lambda: None, fence=None)


def configure(store: ObjectStore, keep: str) -> None:
    url = store.url.removeprefix("file://")
    Path("archives.yaml").write_text(f"archives: {{shop: {{url: '{url}', keep: {keep}}}}}")


def test_a_dry_run_says_what_stays_and_why_and_changes_nothing(holdfast: RunCommand, backed_up: ObjectStore) -> None:
    done = holdfast("truncate", backed_up.url, "--keep", "last=2", "--keep", "within=1d", "--dry-run", "--json")
    assert (done.code, done.value["dry_run"], done.value["keep"]) == (0, True, "last=2, within=1d")
    crm, shop = done.value["sources"]
    assert (crm["source"], crm["points_kept"], crm["points_removed"]) == ("crm", 1, 0)
    assert [(each["commit"], each["stays"], each["why"]) for each in shop["points"]] == [
        (1, False, []), (2, False, []), (3, False, []),
        (4, True, ["last=2"]), (5, True, ["last=2", "within=1d", "last chain"]),
    ]  # fmt: skip
    assert (done.value["blocks_removed"], len(shop["restorable_before"]), len(shop["restorable_after"])) == (3, 5, 2)
    assert Archive.open(backed_up).state.sequence == 6


def test_people_are_shown_runs_of_points_that_share_a_fate(
    holdfast: RunCommand, backed_up: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    done = holdfast("truncate", backed_up.url, "--keep", "last=1", "--source", "shop_db", "--dry-run")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    first, last, newest = ((NOW - timedelta(days=day)).isoformat().replace("+00:00", "Z") for day in (4, 1, 0))
    assert lines == [
        "keep last=1",
        "shop_db",
        "from to points why",
        f"{first} {last} 4 goes",
        f"{newest} {newest} 1 stays last=1, last chain",
        f"shop_db: 1 of 5 restore points would stay; restorable {newest}",
        "4 blocks would be removed, 0 B: 'holdfast vacuum' deletes the files after its grace",
    ]


def test_what_no_rule_keeps_is_removed_by_one_commit(holdfast: RunCommand, backed_up: ObjectStore) -> None:
    done = holdfast("truncate", backed_up.url, "--keep", "daily=3", "--json")
    assert (done.code, done.value["commit"], done.value["blocks_removed"]) == (0, 7, 2)
    archive = Archive.open(backed_up)
    assert set(archive.state.removed) == {"shop_db-0", "shop_db-1"}
    assert (archive.commit(7).kind, archive.commit(7).fence is None) == ("truncation", False)
    again = holdfast("truncate", backed_up.url, "--keep", "daily=3")
    assert again.out.splitlines()[-1] == "nothing to remove"
    assert Archive.open(backed_up).state.sequence == 7
    shown = holdfast("truncate", backed_up.url, "--keep", "last=1")
    assert shown.out.splitlines()[-1].startswith("commit 8: 2 blocks removed, 0 B: 'holdfast vacuum' deletes")


def test_only_one_source_and_more_chains_may_be_asked_for(holdfast: RunCommand, backed_up: ObjectStore) -> None:
    done = holdfast("truncate", backed_up.url, "--keep", "last=1", "--source", "shop_db", "--min-chains", "4", "--json")
    assert (done.value["blocks_removed"], [each["source"] for each in done.value["sources"]]) == (1, ["shop_db"])
    assert holdfast("truncate", backed_up.url, "--keep", "last=1", "--source", "erp").code == 2
    assert holdfast("truncate", backed_up.url, "--keep", "last=1", "--min-chains", "0").code == 2


def test_the_rules_of_archives_yaml_are_used_where_none_is_given(holdfast: RunCommand, backed_up: ObjectStore) -> None:
    configure(backed_up, "{last: 2, within: 12h}")
    for named in ("shop", backed_up.url.removeprefix("file://")):
        done = holdfast("truncate", named, "--dry-run", "--json")
        assert (done.value["keep"], done.value["blocks_removed"]) == ("last=2, within=12h", 3)
    done = holdfast("truncate", "shop", "--keep", "last=4", "--dry-run", "--json")
    assert (done.value["keep"], done.value["blocks_removed"]) == ("last=4", 1)


@pytest.mark.parametrize(
    ("keep", "code", "said"), [([], 5, "nothing says what is to stay"), (["often=2"], 2, "there is no rule 'often'")]
)
def test_rules_that_make_no_sense_change_nothing(
    holdfast: RunCommand, backed_up: ObjectStore, keep: list[str], code: int, said: str
) -> None:
    done = holdfast("truncate", backed_up.url, *(word for rule in keep for word in ("--keep", rule)))
    assert (done.code, said in done.err) == (code, True)
    assert Archive.open(backed_up).state.sequence == 6


def test_a_compaction_that_is_at_work_keeps_a_truncation_out_but_not_its_dry_run(
    holdfast: RunCommand, backed_up: ObjectStore
) -> None:
    with RWLock(backed_up, "maintenance", owner=Owner()).write(purpose="compaction", wait=0):
        done = holdfast("truncate", backed_up.url, "--keep", "last=1")
        assert (done.code, "compaction" in done.err) == (3, True)
        assert holdfast("truncate", backed_up.url, "--keep", "last=1", "--dry-run").code == 0
    assert Archive.open(backed_up).state.sequence == 6


def test_a_source_is_removed_with_all_its_backups(holdfast: RunCommand, backed_up: ObjectStore) -> None:
    plan = holdfast("truncate", backed_up.url, "--remove-source", "crm", "--dry-run", "--json")
    assert (plan.value["keep"], plan.value["blocks_removed"]) == ("nothing", 1)
    done = holdfast("truncate", backed_up.url, "--remove-source", "crm")
    assert done.out.splitlines()[0] == "crm: 0 of 1 restore points stay; restorable none"
    state = Archive.open(backed_up).state
    assert {placed.source for placed in state.blocks.values()} == set(state.ends) == {"shop_db"}
    assert holdfast("truncate", backed_up.url, "--remove-source", "crm").code == 2
    add_hold(Archive.open(backed_up), "shop_db", "latest", reason="audit", owner="ann", check=lambda: None)
    refused = holdfast("truncate", backed_up.url, "--remove-source", "shop_db")
    assert (refused.code, "a hold keeps" in refused.err) == (5, True)
