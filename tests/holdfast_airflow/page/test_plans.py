"""What the page says a compaction and a truncation would do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive
from holdfast.archive.format.document import iso
from holdfast.common.errors import RefusedError
from holdfast.config.archives_model import ArchiveConfig, KeepConfig
from holdfast.config.archives_yaml import find_archive
from holdfast.operations.archive_context import ArchiveContext
from holdfast.storage import ObjectStore
from holdfast_airflow.page.opened import MOST, plan
from tests.support.archives.blocks_without_rows import add, fill
from tests.support.jobs.command_here import run_here
from tests.support.replicas.replicated import Replicas

NOW = datetime.now(UTC)


def configured(store: ObjectStore, **settings: Any) -> ArchiveContext:
    return ArchiveContext.resolve(ArchiveConfig.model_validate({"url": store.url, **settings}))


def days(store: ObjectStore, many: int) -> Archive:
    """Add full backups, a day apart."""
    archive = Archive.open(store)
    for day in range(many):
        add(archive, make_block(identity=f"b{day}", position=f"0/{day + 1}00", at=NOW - timedelta(days=many - 1 - day)))
    return archive


def without(told: dict[str, Any], *more: str) -> dict[str, Any]:
    """Return a plan without what only the page says, and without more keys."""
    return {key: value for key, value in told.items() if key not in more and not key.endswith("_left_out")}


def test_a_compaction_is_told_as_by_the_command(store: ObjectStore) -> None:
    fill(store, 9)
    told = plan("compaction", Archive.open(store), configured(store))
    assert without(told, "blocks", "bytes_before") == run_here("compact", store.url, "--dry-run", "--json").value
    assert (told["blocks"], len(told["joined"]), told["joined_left_out"]) == (9, 1, 0)
    more = {"min_blocks": 10}
    assert plan("compaction", Archive.open(store), configured(store, compaction=more))["joined"] == []


def test_a_truncation_is_told_as_by_the_command_with_runs_in_the_place_of_points(store: ObjectStore) -> None:
    archive = days(store, 5)
    told = plan("truncation", archive, configured(store, keep={"last": 2, "within": "1d"}))
    said = run_here("truncate", store.url, "--keep", "last=2", "--keep", "within=1d", "--dry-run", "--json").value
    ours = [without(each) for each in told.pop("sources")]
    theirs = [without(each, "points") for each in said.pop("sources")]
    assert (told, ours) == (said, theirs)
    assert [(run["points"], run["stays"], run["why"]) for run in ours[0]["runs"]] == [
        (3, False, []),
        (1, True, ["last=2"]),
        (1, True, ["last=2", "within=1d", "last chain"]),
    ]


def test_only_the_newest_of_a_long_list_are_sent(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_airflow.page.opened.MOST", 2)
    archive = days(store, 5)
    (told,) = plan("truncation", archive, configured(store, keep={"last": 2, "within": "1d"}))["sources"]
    assert (len(told["runs"]), told["runs_left_out"]) == (2, 1)
    assert (len(told["restorable_before"]), told["restorable_before_left_out"]) == (2, 3)
    assert told["restorable_after"][-1]["to"] == iso(NOW)
    assert MOST > 2


def test_a_plan_costs_one_request_and_changes_nothing(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, asked = days(store, 3), []
    for name in ("get", "head", "list", "put", "create", "delete"):
        if real := getattr(type(store), name, None):

            def ask(self: ObjectStore, *given: Any, _name: str = name, _real: Any = real, **more: Any) -> Any:
                asked.append(_name)
                return _real(self, *given, **more)

            monkeypatch.setattr(type(store), name, ask)
    plan("truncation", archive, configured(store, keep={"last": 1}))
    plan("compaction", archive, configured(store))
    assert asked == ["list", "list"]


def test_what_would_be_refused_is_said(store: ObjectStore) -> None:
    with pytest.raises(RefusedError, match="nothing says what is to stay"):
        plan("truncation", days(store, 1), configured(store))


def test_a_replica_is_planned_by_the_log_that_archives_yaml_names(shop: Replicas) -> None:
    shop.back_up("near")
    config = find_archive("shop").model_copy(update={"keep": KeepConfig(last=1)})
    (told,) = plan("truncation", Archive.open(shop.place("near")), ArchiveContext.resolve(config))["sources"]
    assert told["points_kept"] >= 1
