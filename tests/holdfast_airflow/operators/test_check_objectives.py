"""The operator that judges objectives fails where one is missed, and says which."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.config.archives_model import ArchiveConfig
from holdfast.storage import ObjectStore
from holdfast_airflow.exceptions import JobRefused
from holdfast_airflow.operators import CheckObjectives
from holdfast_airflow.operators.check_objectives import judging_interval
from tests.support.airflow.metrics import SentMetrics, sent_to


def test_a_missed_objective_fails_the_task_without_another_try(
    store: ObjectStore, context: dict[str, Any], configuration: Path
) -> None:
    configuration.write_text(
        "archives: {shop: {url: archive, sources: {shop_db: {connection: c, objectives: {rpo: 1h}}}}}"
    )
    judge, sent = CheckObjectives(task_id="judge", archive="shop"), SentMetrics()
    about = {"archive": "shop", "source": "shop_db"}
    with (
        sent_to(lambda: sent),
        pytest.raises(JobRefused, match="shop_db: rpo 1h is missed: there is no backup of it"),
    ):
        judge.execute(context)  # type: ignore[arg-type]
    assert sent.of("holdfast.objective.missed") == [({**about, "objective": "rpo"}, 1)]
    assert sent.of("holdfast.source.restorable_age") == []
    sent.values.clear()
    change = Change(kind="backup", add=(make_block(position="0/100", at=datetime.now(UTC) - timedelta(minutes=5)),))
    Archive.open(store).add(lambda state: change, check=lambda: None, fence=None)
    with sent_to(lambda: sent):
        (found,) = judge.execute(context)  # type: ignore[arg-type]
    assert (found["name"], found["is_met"]) == ("rpo", True)
    assert sent.of("holdfast.objective.missed") == [({**about, "objective": "rpo"}, 0)]
    ((tags, age),) = sent.of("holdfast.source.restorable_age")
    assert (tags, 300 <= age < 600) == (about, True)


@pytest.mark.parametrize(
    ("objectives", "interval"),
    [
        ([{}, {}], None),
        ([{"rpo": "15min"}], timedelta(minutes=10)),
        ([{"rpo": "24h"}, {}], timedelta(hours=2.4)),
        ([{"rpo": "24h"}, {"drill_within": "10h"}], timedelta(hours=1)),
        ([{"verified_within": "30d"}], timedelta(hours=6)),
        # A drill that was too slow is told of within six hours.
        ([{"rto": "1min"}], timedelta(hours=6)),
    ],
)
def test_objectives_are_judged_after_a_tenth_of_the_shortest(
    objectives: list[dict[str, str]], interval: timedelta | None
) -> None:
    sources = {f"s{number}": {"connection": "c", "objectives": each} for number, each in enumerate(objectives)}
    assert judging_interval(ArchiveConfig.model_validate({"url": "archive", "sources": sources})) == interval
