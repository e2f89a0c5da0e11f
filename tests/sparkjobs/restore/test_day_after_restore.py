"""The day after a restore: the database that came back is backed up on, as the runbook says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive.history import restore_points
from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.following.followed import agree, open_followed

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]


def test_a_restored_database_is_backed_up_on(address: Address, tmp_path: Path, new_database: NewDatabase) -> None:
    with open_followed(address, tmp_path / "archive") as followed:
        followed.make(["create table t (id int primary key, v text)", "insert into t values (1, 'one')"])
        followed.back_up("changes")
        followed.run("insert into t values (2, 'two')")
        followed.back_up()
        target = new_database()
        assert followed.restore("latest", target)["equal"]
        followed.session.close()
        followed.address, followed.session = target, connect(target)
        followed.session.execute("set search_path = public")
        followed.moments.clear()
        with pytest.raises(RefusedError, match="--moved"):
            followed.back_up()
        assert followed.back_up("changes", "--moved")["kind"] == "full"
        followed.run("insert into t values (3, 'three')")
        assert followed.back_up()["kind"] == "changes"
        agree(followed, 1)
        # Both are here, each with its moments, and nothing is between them.
        described = restore_points.describe(followed.archive().state)["sources"][0]
        assert (len(described["intervals"]), len(described["gaps"])) == (2, 1)
        slots = followed.session.execute(
            "select database from pg_replication_slots where slot_name like 'holdfast%%' and database in (%s, %s)",
            (address.database, target.database),
        )
        assert slots.fetchall() == [(target.database,)]
