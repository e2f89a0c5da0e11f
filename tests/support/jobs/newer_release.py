"""A newer release beside this one: a copy of our packages with other numbers, run in processes of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.archive.format.versions import READS, WRITES
from holdfast.postgresql.connection.address import Address
from tests.support.jobs.command import LIMIT_S, NOTHING, Finished, environment

VERSION = "9.9.9"

_ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = ("holdfast", "locking", "sparkjobs")
_VERSIONS = "holdfast/archive/format/versions.py"
_MIGRATIONS = "holdfast/replication/migrations/versions"

_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    op.add_column("replicas", sa.Column("later", sa.BigInteger(), nullable=False, server_default="0"))
"""


NEXT = max(READS, WRITES) + 1
"""Its readers and writers, and the format that it may know."""


@dataclass(frozen=True)
class NewerRelease:
    """A release whose readers and writers are a version ahead of ours.

    :param folder: of its packages.
    """

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> NewerRelease:
        """Make a release that demands nothing of others yet: it may be newer and write what each release knows."""
        for name in _PACKAGES:
            shutil.copytree(_ROOT / name, folder / name)  # with compiled files, which know their sources by their times
        made = cls(folder)
        made.change("holdfast/__init__.py", '__version__ = "', f'__version__ = "{VERSION}"  # "')
        made.change(_VERSIONS, f"\nWRITES = {WRITES}", f"\nWRITES = {NEXT}")
        made.change(_VERSIONS, f"\nREADS = {READS}", f"\nREADS = {NEXT}")
        return made

    def change(self, path: str, old: str, new: str) -> None:
        """Replace what stands once in a file; a test of numbers that have moved on must not pass for nothing."""
        file = self.folder / path
        text = file.read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
        file.write_text(text.replace(old, new))

    def add_format(self) -> None:
        """Let it know a format `NEXT`, which a migration leads to and which no older release reads."""
        self.change(_VERSIONS, "\nFORMAT = 2", f"\nFORMAT = {NEXT}")
        self.change(_VERSIONS, "\nFORMATS = (1, 2)", f"\nFORMATS = (1, 2, {NEXT})")
        steps = "holdfast/archive/maintenance/migration.py"
        self.change(
            steps, "= {2: _to_2}", f"= {{2: _to_2, **dict.fromkeys(range(3, {NEXT + 1}), lambda archive: None)}}"
        )

    def add_migration(self) -> None:
        """Give its coordination stores a column more."""
        folder = self.folder / _MIGRATIONS
        head = max(path.name[:4] for path in folder.glob("[0-9]*.py"))
        (folder / "9999_later.py").write_text(_MIGRATION.format(head=head))

    def run(self, *arguments: str, address: Address | None = None, more: Mapping[str, str] = NOTHING) -> Finished:
        """Run its command to the end."""
        done = subprocess.run(
            [sys.executable, "-P", "-c", "from holdfast.cli import main; main()", *arguments],
            env={**environment(address, more), "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return Finished(done.returncode, done.stdout, done.stderr)
