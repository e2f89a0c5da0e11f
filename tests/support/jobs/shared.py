"""Archives on S3 that several commands use at a time, each of which can be held at one of its requests."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.support.versitygw import S3Server, running_versitygw
from holdfast.archive import Archive
from holdfast.archive.format.versions import FORMAT
from holdfast.archive.maintenance.verify import Damage, verify
from holdfast.postgresql.connection.address import Address
from holdfast.storage import open_store
from tests.support.following.followed import open_followed
from tests.support.jobs.command import LIMIT_S, Finished, finish, start, until
from tests.support.jobs.command_here import run_here
from tests.support.jobs.gate import GUARD
from tests.support.stores.store_gate import StoreGate, store_gate

COMMIT = "PUT /.*/commits/"
"""The request that makes a commit, to hold a command at it."""

_SHOP = (
    "create table orders (id int primary key, word text)",
    "insert into orders select i, 'order ' || i from generate_series(1, 100) i",
    GUARD,
    "create table guarded (id int check (public.guard()))",
    "insert into guarded values (1), (2)",
)
ROWS = 102
"""Of that database at its first backup."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class SharedStore:
    """An S3 server, and a gate before it."""

    s3: S3Server
    gate: StoreGate

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """Let this process, too, reach the server until the block ends."""
        with pytest.MonkeyPatch.context() as patched:
            for name, value in self.s3.environment.items():
                patched.setenv(name, value)
            yield

    def archive(self, source: Address, folder: Path) -> Shared:
        """Name an archive that is still to be made.

        :param source: the database that archives.yaml calls `shop`; its password opens all that commands need.
        :param folder: where archives.yaml is put; it says that all changes may be joined at once.
        """
        url = f"s3://shared/archive-{next(_numbers)}"
        described = {
            "url": url,
            "sources": {"shop": {"url": source.url}},
            "compaction": {"min_blocks": 2, "min_age": "0s"},
        }
        (folder / "archives.yaml").write_text(json.dumps({"archives": {"shop": described}}))
        return Shared(url, self, source, {"HOLDFAST_ARCHIVES": str(folder / "archives.yaml")})

    def shop(self, source: Address, folder: Path, *then: str, number: int = FORMAT) -> Shared:
        """Make an archive that holds a full backup of a database which is made here, and is followed from then on.

        :param source, folder: as in `archive`.
        :param then: kinds of more backups, each after a change of ten rows.
        :param number: the archive's format.
        """
        shared = self.archive(source, folder)
        with open_followed(source, shared.url, number) as followed:
            followed.run(*_SHOP)
            followed.back_up()
            for kind in then:
                followed.run("update orders set word = word || '+' where id <= 10")
                followed.back_up(kind)
        return shared


@dataclass(frozen=True)
class Shared:
    """An archive, and how commands are run in it.

    :param settings: environment variables of all commands.
    """

    url: str
    store: SharedStore
    source: Address
    settings: dict[str, str]

    def start(self, command: str, *arguments: str, is_gated: bool = False) -> subprocess.Popen[str]:
        """Start a command.

        :param command: its words; the archive comes behind them.
        :param is_gated: all its requests go through the gate.
        """
        more = {**self.store.s3.environment, **self.settings, **(self.store.gate.environment if is_gated else {})}
        return start(*command.split(), self.url, *arguments, "--json", address=self.source, more=more)

    def run(self, command: str, *arguments: str) -> Finished:
        """Run a command to its end, in this process: the one that is held meanwhile has a process of its own."""
        more = {**self.store.s3.environment, **self.settings}
        return run_here(*command.split(), self.url, *arguments, "--json", address=self.source, more=more)

    def run_all(self, commands: Sequence[tuple[str, ...]]) -> dict[str, Finished]:
        """Run several, each to its end."""
        return {command: self.run(command, *arguments) for command, *arguments in commands}

    @contextmanager
    def held(self, command: str, *arguments: str, at: str) -> Iterator[subprocess.Popen[str]]:
        """Start a command and hold it at a request to the store until the block ends.

        :param at: the request, as a gate knows it.
        """
        gate = self.store.gate
        with gate.closed(at):
            process = self.start(command, *arguments, is_gated=True)
            try:
                until(lambda: gate.has_somebody or process.poll() is not None, f"{command} at the gate", LIMIT_S)
                assert gate.has_somebody, finish(process)
                yield process
            except BaseException:
                process.kill()
                process.communicate()
                raise

    def archive(self) -> Archive:
        """Return the archive as it is now."""
        return Archive.open(open_store(self.url))

    def damage(self) -> tuple[Damage, ...]:
        """Read all of it, and return what is damaged."""
        return verify(self.archive(), deep=True).damage


def is_busy(refused: Finished, lock: str, holder: int) -> bool:
    """Say whether a command was refused since a process has a lock, and says so."""
    said = str(refused.value["error"])
    return refused.code == 3 and f"{lock} is held for" in said and f"by process {holder} on " in said


@contextmanager
def shared_store() -> Iterator[SharedStore]:
    """Start a server and the gate before it, and end them with the block."""
    with running_versitygw() as s3, store_gate(s3.endpoint) as gate:
        s3.make_bucket("shared")
        yield SharedStore(s3, gate)
