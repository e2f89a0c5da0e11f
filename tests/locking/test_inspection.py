"""What onlookers are shown."""

from __future__ import annotations

from locking import Owner, Runtime, RWLock, inspect
from tests.support.locks.lockstore import MemoryStore


def test_everything_in_every_folder_is_shown_and_nothing_changed(store: MemoryStore, runtime: Runtime) -> None:
    def take(resource: str, mode: str, **options: object) -> str:
        lock = RWLock(store, resource, runtime=runtime, owner=Owner(scope="run"), **options)  # type: ignore[arg-type]
        taken = lock.read(wait=0, renew=False) if mode == "R" else lock.write(purpose="work", wait=0, renew=False)
        return taken.txn

    expired = take("a", "R", lease=1.0, grace=1.0)
    store.time.sleep(10)
    held, dead = take("b", "W"), take("c", "W")
    store.place(f"locks/c/DEAD.{dead}", b"")
    asking = "e" * 32
    body, _ = store.objects.pop(f"locks/{'d'}/WRIT.{take('d', 'W')}")
    store.place(f"locks/d/INTENT.WRIT.{asking}", body)
    store.place("locks/e/WRIT." + "f" * 32, b"?")
    store.place("locks/e/note", b"")
    store.time.sleep(3)
    before = dict(store.objects)
    store.forget()
    found = inspect(store, runtime=runtime)
    assert store.objects == before
    assert [(info.resource, info.mode, info.txn, info.state) for info in found] == [
        ("a", "R", expired, "expired"),
        ("b", "W", held, "held"),
        ("c", "W", dead, "dead"),
        ("d", "W", asking, "unreadable"),
        ("e", "", "locks/e/note", "foreign"),
        ("e", "W", "f" * 32, "unreadable"),
    ]
    assert store.words().count("list") == 1
    shown = {info.resource: info for info in found}
    assert (shown["a"].age_s, shown["a"].expires_in_s) == (13.0, -11.0)
    assert (shown["b"].age_s, shown["b"].expires_in_s, shown["b"].purpose) == (3.0, 177.0, "work")
    assert shown["e"].expires_in_s is None
    assert all(info.describe() for info in found)


def test_an_attempt_under_way_is_shown_as_one(store: MemoryStore, runtime: Runtime) -> None:
    lease = RWLock(store, "a", runtime=runtime).write(wait=0, renew=False)
    body, _ = store.objects.pop(f"locks/a/WRIT.{lease.txn}")
    store.place(f"locks/a/INTENT.WRIT.{lease.txn}", body)
    (info,) = inspect(store, runtime=runtime)
    assert (info.state, info.expires_in_s) == ("intent", 180.0)
    assert "is wanted" in info.describe()


def test_an_empty_store_shows_nothing(store: MemoryStore) -> None:
    assert inspect(store) == []


def test_a_stray_file_beside_the_folders_is_shown(store: MemoryStore) -> None:
    store.place("locks/stray file", b"")
    store.place("locks/bad name/WRIT." + "f" * 32, b"")
    assert [info.state for info in inspect(store)] == ["foreign", "foreign"]
