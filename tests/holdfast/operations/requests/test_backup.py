"""The request for a backup: what it leaves to archives.yaml, and what it refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.common.errors import UsageError
from holdfast.config.archives_model import SourceConfig
from holdfast.operations.requests.backup import BackupRequest
from holdfast.replication.log.settings import QUORUM_TIMEOUT_S, QuorumRequest

KNOWN = SourceConfig(
    connection="c", tables=["shop.*"], exclude=["*.tmp"], connections=3, bandwidth="50 MB", max_retained_wal="5 GiB",
    restart_stuck_stream=True,
)  # fmt: skip


def configured(known: SourceConfig | None = KNOWN, **given: Any) -> BackupRequest:
    return BackupRequest.given(source="shop", **given).configured(known, None, "2h")


def test_what_was_not_given_is_as_archives_yaml_says() -> None:
    found = configured()
    assert (found.tables, found.exclude, found.connections) == (("shop.*",), ("*.tmp",), 3)
    assert (found.bytes_per_second, found.max_retained_bytes, found.restart) == (50e6, 5 << 30, "stuck")


def test_what_was_given_counts() -> None:
    found = configured(tables=["a.b"], connections=9, bandwidth="1 MB", restart_stream="now")
    assert (found.tables, found.connections, found.bytes_per_second, found.restart) == (("a.b",), 9, 1e6, "now")


@pytest.mark.parametrize(("tables", "chosen"), [((), False), (("a.b",), True)])
def test_tables_are_chosen_for_this_backup_alone_where_they_were_given(tables: tuple[str, ...], chosen: bool) -> None:
    assert configured(tables=tables).chosen is chosen
    assert configured(None, tables=tables).chosen is chosen


def test_a_stream_that_is_not_to_begin_anew_is_not_said_to_the_job() -> None:
    for found in (configured(restart_stream="no"), configured(None, restart_stream="no"), configured(None)):
        assert (found.restart_stream, found.restart) == (None, "no")
        assert "--restart-stream" not in found.to_arguments()


@pytest.mark.parametrize(
    ("given", "known", "quorum_request"),
    [
        ({}, None, None),
        ({}, 1, None),
        ({"quorum": 1}, 3, None),
        ({}, 2, QuorumRequest(2, 7200)),
        ({"quorum": 3}, 2, QuorumRequest(3, 7200)),
        ({"quorum": 3, "quorum_timeout": "90 min"}, None, QuorumRequest(3, 5400)),
        ({"quorum_timeout": "90 min"}, None, None),
    ],
)
def test_the_quorum_is_that_which_was_given_or_that_of_archives_yaml(
    given: dict[str, Any], known: int | None, quorum_request: QuorumRequest | None
) -> None:
    found = BackupRequest.given(**given).configured(KNOWN, known, "2h")
    assert found.quorum_request == quorum_request
    assert (found.quorum is None) == (quorum_request is None)


def test_a_quorum_that_says_no_time_has_the_usual_one() -> None:
    assert BackupRequest(quorum=2).quorum_request == QuorumRequest(2, QUORUM_TIMEOUT_S)
    assert BackupRequest().quorum_request is None


def test_a_time_may_be_given_as_python_has_it() -> None:
    assert BackupRequest.given(quorum=2, quorum_timeout=timedelta(hours=1)).quorum_request == QuorumRequest(2, 3600)


def test_without_limits_there_are_none() -> None:
    assert (BackupRequest().bytes_per_second, BackupRequest().max_retained_bytes) == (None, None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bandwidth": "fast"}, "^cannot read 'fast' as a bandwidth"),
        ({"quorum_timeout": "soon"}, "^cannot read 'soon' as a length of time"),
        ({"max_retained": "much"}, "^cannot read 'much' as a size"),
        ({"kind": "some"}, "kind is 'some': write one of auto, full, changes"),
        ({"restart_stream": "yes"}, "restart_stream is 'yes'"),
    ],
)
def test_a_value_that_nobody_can_read_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        BackupRequest.given(**given)
