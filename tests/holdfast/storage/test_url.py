"""Which store a URL names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.storage import FolderStore, open_store
from holdfast.storage.s3 import S3Store


@pytest.fixture(autouse=True)
def _no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def test_a_path_and_a_file_url_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    here = str(tmp_path)
    for url in (f"{here}/a b", "a b", "./a b", "~/a b", f"file://{here}/a%20b", f"file://localhost{here}/a b"):
        store = open_store(url)
        assert isinstance(store, FolderStore)
        assert store.url == str(tmp_path / "a b")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/some/prefix/", "s3://bucket/some/prefix"),
        ("s3a://bucket/x", "s3://bucket/x"),
    ],
)
def test_an_s3_url_names_a_bucket_and_a_prefix(url: str, said: str) -> None:
    store = open_store(url)
    assert isinstance(store, S3Store)
    assert store.url == said


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gs://bucket/x",
        "http://host/x",
        "s3://",
        "s3:///prefix",
        "file://host/x",
        "file://",
        "s3://b/x?y",
        "s3://b/x#y",
    ],
)
def test_any_other_url_is_refused_and_says_what_is_known(url: str) -> None:
    with pytest.raises(UsageError, match=r"s3://bucket/prefix|file:///folder"):
        open_store(url)


def test_a_secret_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="AWS_ACCESS_KEY_ID") as caught:
        open_store("s3://key:sesame@bucket/x")
    assert "sesame" not in str(caught.value)


def test_only_amazons_listings_count_as_ordered_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert S3Store("bucket").listing_is_ordered
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://s3.eu-central-1.amazonaws.com")
    assert S3Store("bucket").listing_is_ordered
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://minio.example.com")
    assert not S3Store("bucket").listing_is_ordered
    assert S3Store("bucket", listing_is_ordered=True).listing_is_ordered


@pytest.mark.parametrize("module", ["boto3", "pyarrow"])
def test_working_in_a_folder_does_not_load_what_s3_needs(module: str, tmp_path: Path) -> None:
    assert not _loads(f"from holdfast.storage import open_store; open_store({str(tmp_path)!r})", module)


def test_locks_can_be_used_alone() -> None:
    assert not _loads("from locking import RWLock", "holdfast")


def _loads(program: str, module: str) -> bool:
    """Whether a fresh interpreter has loaded the module after the program."""
    program = f"import sys; {program}; sys.exit({module!r} in sys.modules)"
    return subprocess.run([sys.executable, "-c", program], check=False).returncode != 0
