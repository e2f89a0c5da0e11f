"""What is kept of the rights that were given to a role, as a comment of it."""

from __future__ import annotations

import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.setup import grants
from holdfast.postgresql.setup.backup_role import MARK, BackupRoleRecord
from tests.support.databases.granting import Execute, remove, setup

pytestmark = pytest.mark.service


def test_a_comment_that_somebody_changed_is_never_run(shop: Address, role: str, execute: Execute) -> None:
    setup(shop, role, per_schema=True)
    forged = '{"role": ["created; drop table x"], "databases": {"%s": {"schema hr": ["INSERT ON hr.staff"]}}}'
    execute(f"comment on role {role} is '{MARK}{forged % shop.database}'")
    said = grants.script(grants.plan_remove(shop, [shop.database], role))
    assert "drop table" not in said
    assert "INSERT" not in said
    execute(f"comment on role {role} is '{MARK}not json'")
    with pytest.raises(RefusedError, match="no longer tells what setup has given"):
        remove(shop, role)


def test_the_record_survives_its_comment() -> None:
    record = BackupRoleRecord(
        "for the night", ("created",), {"shop": {"schema hr": ["SELECT ON TABLE hr.staff"]}, "crm": {}}
    )
    assert BackupRoleRecord.parse(record.comment()) == record
    assert BackupRoleRecord.parse("for the night").comment() == "for the night"
    assert BackupRoleRecord("words", (), {}).comment() == "words"
    assert BackupRoleRecord(None, (), {}).comment() is None
