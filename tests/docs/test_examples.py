"""The examples of the documentation work, and its pages show them as they are."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import cast

import boto3
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

from bench.support.versitygw import running_versitygw
from holdfast.storage import open_store
from locking import LockBusy, LockStore, RWLock, inspect
from locking.store import ObjectNotFound, StoreDenied, TooManyObjects
from tests.support.configuration import load_config

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"


def shown(example: Path) -> str:
    """The part of an example that a page repeats: all but what stands at its head."""
    text = example.read_text()
    if example.suffix == ".py":
        return text.partition("from __future__ import annotations\n\n")[2]
    return text[text.index("archives:") :]


@pytest.mark.parametrize(
    "example", sorted(path for path in EXAMPLES.iterdir() if path.is_file()), ids=lambda path: path.name
)
def test_a_page_shows_the_example_as_it_is(example: Path) -> None:
    assert any(shown(example) in page.read_text() for page in (ROOT / "docs").glob("*.md"))


def test_readme_shows_a_configuration_and_a_dag_that_can_be_read(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "archives.yaml").write_text(readme.partition("```yaml\n")[2].partition("```")[0])
    assert set(load_config(tmp_path / "archives.yaml").archive("shop").sources) == {"shop_db"}
    (tmp_path / "example.py").write_text(readme.partition("```python\n")[2].partition("```")[0])
    bag = DagBag(str(tmp_path / "example.py"))
    assert (bag.import_errors, set(bag.dags)) == ({}, {"nightly_load"})


def test_example_dags_are_read_by_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(EXAMPLES / "archives.yaml"))
    bag = DagBag(str(EXAMPLES))
    assert bag.import_errors == {}
    assert sorted(bag.dags) == sorted(path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("locks"))
    assert len(bag.dags) == 10
    for dag in bag.dags.values():
        assert DagSerialization.to_dict(dag)["dag"]["dag_id"] == dag.dag_id


def test_archives_yaml_of_the_example_is_valid_and_has_what_the_dags_name() -> None:
    archive = load_config(EXAMPLES / "archives.yaml").archive("shop")
    assert archive.location() == "s3://backups/shop"
    assert set(archive.sources) == {"shop_db", "warehouse"}


def test_lock_example_runs_and_says_who_is_in_its_way(tmp_path: Path) -> None:
    text = (EXAMPLES / "locks.py").read_text()
    script = tmp_path / "locks.py"
    script.write_text(text.replace("wait=5.0", "wait=0.0"))  # the same, without the patience
    rebuild = cast("Callable[[str], str]", runpy.run_path(str(script))["rebuild"])
    store = open_store(str(tmp_path / "store"))
    assert rebuild(store.url) == "rebuilt"
    assert inspect(store) == []
    with RWLock(store, "price-list").read(purpose="printing"):
        answer = rebuild(store.url)
    assert answer.startswith("not now: price-list is held for reading for printing by process ")


@pytest.mark.service
def test_a_store_of_ones_own_in_a_bucket_is_one_that_locks_can_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holdfast's own store and the example's see each other's locks, and both name what the server refuses."""
    example = runpy.run_path(str(EXAMPLES / "locks_in_a_bucket.py"))
    with running_versitygw() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials that it has met first
        server.make_bucket("ours")
        bucket: LockStore = example["Bucket"]("ours")
        theirs = open_store("s3://ours")
        for one, other in ((bucket, theirs), (theirs, bucket)):
            with RWLock(one, "price-list").write(wait=0) as lease:
                lease.renew()
                lease.check()
                with pytest.raises(LockBusy, match="price-list is held for writing"):
                    RWLock(other, "price-list").read(wait=0)
                assert [info.txn for info in inspect(other)] == [lease.txn]
            assert inspect(other) == []
        tokens = []
        for store in (bucket, theirs, bucket):
            with RWLock(store, "price-list").write(wait=0) as lease:
                tokens.append(lease.token())
        assert tokens == sorted(set(tokens))
        with pytest.raises(ObjectNotFound):
            bucket.get("locks/none")
        for number in range(3):
            bucket.put(f"many/{number}", b"")
        with pytest.raises(TooManyObjects):
            bucket.list("many/", most=2)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        with pytest.raises(StoreDenied):
            RWLock(example["Bucket"]("ours"), "price-list").write(wait=0)
