"""Which store a URL names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.common.errors import UsageError
from holdfast.storage import FolderStore, open_url
from holdfast.storage.gcs.store import GcsStore
from holdfast.storage.s3.store import S3Store

pytestmark = pytest.mark.usefixtures("no_settings")


def test_a_path_and_a_file_url_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    here = str(tmp_path)
    for url in (f"{here}/a b", "a b", "./a b", "~/a b", f"file://{here}/a%20b", f"file://localhost{here}/a b"):
        store = open_url(url)
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
    store = open_url(url)
    assert isinstance(store, S3Store)
    assert store.url == said


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://host/x",
        "abfss://container@account.dfs.core.windows.net/x",
        "az://",
        "az:///prefix",
        "gs:///prefix",
        "gs://b/x?y",
        "s3://",
        "s3:///prefix",
        "file://host/x",
        "file://",
        "s3://b/x?y",
        "s3://b/x#y",
    ],
)
def test_any_other_url_is_refused_and_says_what_is_known(url: str) -> None:
    with pytest.raises(UsageError, match=r"s3://bucket/prefix|file:///folder|az://container/prefix|gs://bucket/prefix"):
        open_url(url)


@pytest.mark.parametrize(
    ("scheme", "instead"),
    [
        ("s3", "AWS_ACCESS_KEY_ID"),
        ("az", "AZURE_STORAGE_CONNECTION_STRING"),
        ("gs", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(scheme: str, instead: str) -> None:
    with pytest.raises(UsageError, match=instead) as caught:
        open_url(f"{scheme}://key:sesame@bucket/x")
    assert "sesame" not in str(caught.value)


def test_a_signature_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="after '/x'") as caught:
        open_url("az://container/x?sig=sesame")
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("prefix", ["", "/", "/some/prefix/"])
def test_a_gs_url_names_a_bucket_and_a_prefix_and_asks_nobody_yet(prefix: str) -> None:
    store = open_url(f"gs://bucket{prefix}")
    assert isinstance(store, GcsStore)
    assert store.url == f"gs://bucket{prefix}".rstrip("/")
    assert store.endpoint == "https://storage.googleapis.com"


ACCOUNT = {"AZURE_STORAGE_ACCOUNT": "ann", "AZURE_STORAGE_KEY": "c2VzYW1l"}


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [("az://container/x", "azure.storage.blob", "azure"), ("gs://bucket/x", "google.cloud.storage", "gcs")],
)
def test_a_missing_client_says_what_to_install(url: str, module: str, extra: str) -> None:
    program = f"""
import sys
sys.modules[{module!r}] = None
from holdfast.common.errors import UsageError
from holdfast.storage import open_url
try:
    open_url({url!r})
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"install Holdfast's wheel with its extra {extra}." in done.stdout, done.stderr


def test_only_amazons_listings_count_as_ordered_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert S3Store("bucket").listing_is_ordered
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://s3.eu-central-1.amazonaws.com")
    assert S3Store("bucket").listing_is_ordered
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://minio.example.com")
    assert not S3Store("bucket").listing_is_ordered
    assert S3Store("bucket", listing_is_ordered=True).listing_is_ordered


@pytest.mark.parametrize(
    ("variables", "url", "ordered"),
    [
        (ACCOUNT, "az://container", True),
        ({**ACCOUNT, "AZURE_STORAGE_SERVICE_ENDPOINT": "https://blobs.example.com/ann"}, "az://container", False),
        (
            {**ACCOUNT, "AZURE_STORAGE_SERVICE_ENDPOINT": "https://core.windows.net.example.com"},
            "az://container",
            False,
        ),
        ({}, "gs://bucket", True),
        ({"STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"}, "gs://bucket", False),
    ],
)
def test_only_the_clouds_own_listings_count_as_ordered(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str, ordered: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert open_url(url).listing_is_ordered is ordered
    for word, said in (("yes", True), ("no", False)):
        monkeypatch.setenv("HOLDFAST_LISTING_ORDERED", word)
        assert open_url(url).listing_is_ordered is said
    monkeypatch.setenv("HOLDFAST_LISTING_ORDERED", "perhaps")
    with pytest.raises(UsageError, match="HOLDFAST_LISTING_ORDERED"):
        open_url(url)


def test_working_in_a_folder_does_not_load_what_a_cloud_needs(tmp_path: Path) -> None:
    program = f"from holdfast.storage import open_url; open_url({str(tmp_path)!r})"
    assert _loaded(program, "boto3", "pyarrow", "requests", "azure", "google.cloud") == []


def test_locks_can_be_used_alone() -> None:
    assert _loaded("from locking import RWLock", "holdfast") == []


def _loaded(program: str, *modules: str) -> list[str]:
    """Return which of the modules a fresh interpreter has loaded after the program."""
    program = f"import sys; {program}; print(*(each for each in {modules!r} if each in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()
