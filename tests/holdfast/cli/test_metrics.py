"""`holdfast metrics`: for people, node_exporter and Prometheus, with Airflow down."""

from __future__ import annotations

import json
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.cli import metrics as command
from holdfast.metrics.catalogue import CATALOGUE
from holdfast.storage import ObjectStore
from tests.support.jobs.command import RunCommand, finish, start, until
from tests.support.replicas.replicated import Replicas
from tests.support.servers.scraping import scrape

CANARY = "canary-77b2"
UP = 'holdfast_archive_up{archive="shop"} 1.0'

Configure = Callable[[str], Path]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Writes archives.yaml."""

    def write(text: str) -> Path:
        file = tmp_path / "archives.yaml"
        file.write_text(f"archives: {text}")
        monkeypatch.setenv("HOLDFAST_ARCHIVES", str(file))
        return file

    return write


@pytest.fixture
def configured(filled: ObjectStore, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """An archive in archives.yaml whose source's server is away, and whose password is in a connection of Airflow."""
    configure(f"{{shop: {{url: {filled.url}, sources: {{shop_db: {{connection: shop_db}}}}}}}}")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", f"postgresql://me:{CANARY}@127.0.0.1:1/shop")
    return filled


def test_an_archive_is_named_by_its_url_or_by_archives_yaml(
    holdfast: RunCommand, filled: ObjectStore, configure: Configure
) -> None:
    done = holdfast("metrics", filled.url)
    assert (done.code, done.err) == (0, "")
    assert UP in done.out.splitlines()
    assert {family.name for family in text_string_to_metric_families(done.out)} <= set(CATALOGUE)
    assert 'holdfast_source_rows{archive="shop",source="shop_db"} 3.0' in done.out
    configure(f"{{kept: {{url: {filled.url}}}}}")
    for words in ([], ["kept"], [filled.url], ["kept", filled.url]):
        done = holdfast("metrics", *words)
        assert (done.code, done.out.count("holdfast_archive_blocks{")) == (0, 1)
        assert 'holdfast_archive_up{archive="kept"} 1.0' in done.out


def test_what_cannot_be_read_is_said_and_the_rest_is_told(holdfast: RunCommand, configured: ObjectStore) -> None:
    done = holdfast("metrics", "--listing")
    assert done.code == 1
    assert UP in done.out
    assert 'holdfast_source_server_up{archive="shop",source="shop_db"} 0.0' in done.out
    assert 'holdfast_unneeded_bytes{archive="shop",reason="orphan"} 0.0' in done.out
    assert "holdfast: source shop_db of shop cannot be read: cannot connect to postgresql://me@127.0.0.1:1" in done.err


def test_no_secret_is_in_any_output(holdfast: RunCommand, configured: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "holdfast.prom"
    said = [holdfast("metrics", *words) for words in ([], ["--listing"], ["--json"], ["--output", str(file)])]
    said.append(holdfast("metrics", f"s3://key:{CANARY}@bucket/x"))
    assert all("shop" in each.out + each.err or "may not hold a password" in each.err for each in said)
    assert not any(CANARY in each.out + each.err for each in said)
    assert CANARY not in file.read_text()


def test_json_has_the_samples_and_what_is_wrong(holdfast: RunCommand, configured: ObjectStore) -> None:
    done = holdfast("metrics", "--json")
    assert done.code == 1
    assert {"name": "holdfast_archive_up", "labels": {"archive": "shop"}, "value": 1.0} in done.value["samples"]
    assert {each["name"] for each in done.value["samples"]} <= set(CATALOGUE)
    assert len(done.value["problems"]) == 1


def test_a_file_is_written_and_nothing_is_printed(holdfast: RunCommand, filled: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "holdfast.prom"
    done = holdfast("metrics", filled.url, "--output", str(file))
    assert (done.code, done.out, done.err) == (0, "", "")
    assert UP in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert json.loads(holdfast("metrics", filled.url, "--output", str(file), "--json").out)["problems"] == []
    done = holdfast("metrics", filled.url, "--output", str(tmp_path / "no" / "x.prom"))
    assert (done.code, done.out) == (2, "")
    assert "there is no folder" in done.err


def test_replicas_are_told_by_the_store_that_archives_yaml_names(
    holdfast: RunCommand, two: Replicas, log_address: str, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_STORE")
    places = ", ".join(f"{name}: {two.place(name).url}" for name in ("near", "far"))
    configure(f"{{shop: {{replicas: {{{places}}}, store: '{log_address}'}}}}")
    done = holdfast("metrics")
    assert (done.code, done.err) == (0, "")
    assert 'holdfast_replica_behind_entries{archive="shop",replica="far"} 0.0' in done.out
    assert holdfast("metrics", two.place("far").url).out.count("holdfast_archive_up{") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "nowhere"], "write HOST:PORT"),
        (["--listen", "0", "--every", "soon"], "write a number and s, min, h, d or w"),
        (["--listen", "0", "--every", "0s"], "--every must be 1s or more"),
        (["--listen", "0", "--json"], "leave --output and --json out"),
        (["--listen", "0", "--output", "x"], "leave --output and --json out"),
    ],
)
def test_wrong_usage_says_what_to_do(holdfast: RunCommand, filled: ObjectStore, words: list[str], said: str) -> None:
    done = holdfast("metrics", filled.url, *words)
    assert (done.code, said in done.err) == (2, True)


def test_without_any_archive_it_says_where_to_name_one(holdfast: RunCommand, configure: Configure) -> None:
    for _ in range(2):
        done = holdfast("metrics")
        assert (done.code, "no archive to collect from" in done.err) == (2, True)
        configure("{}")


def test_a_mistake_in_archives_yaml_is_of_its_archive_alone(
    holdfast: RunCommand, filled: ObjectStore, configure: Configure
) -> None:
    configure(f"{{shop: {{url: {filled.url}}}, wrong: {{url: /wrong, colour: red}}}}")
    done = holdfast("metrics")
    assert done.code == 1
    assert UP in done.out
    assert 'holdfast_archive_up{archive="wrong"} 0.0' in done.out
    assert "unknown key 'colour'" in done.err
    assert holdfast("metrics", "/wrong").code == 2  # which is that one
    assert holdfast("metrics", "/elsewhere").code == 1


def test_sources_in_sqlite_and_ones_that_only_airflow_knows_are_not_asked(
    filled: ObjectStore, configure: Configure
) -> None:
    sources = "{a: {url: 'sqlite:///x.db'}, b: {connection: unknown}, c: {url: 'postgresql://me@h/d'}}"
    configure(f"{{shop: {{url: {filled.url}, sources: {sources}}}}}")
    (found,) = command.observed(["shop"])
    assert set(found.addresses) == {"c"}


@pytest.mark.slow
def test_it_serves_until_it_is_stopped_and_tells_no_secret(configured: ObjectStore, tmp_path: Path) -> None:
    more = {"HOLDFAST_ARCHIVES": str(tmp_path / "archives.yaml")}
    command = start("metrics", "--listen", "127.0.0.1:0", more=more)
    assert command.stderr is not None
    url = command.stderr.readline().split("metrics at ")[1].split(",")[0]
    until(lambda: UP in scrape(url)[2], "the first collection")
    text = scrape(url)[2]
    command.send_signal(signal.SIGTERM)
    done = finish(command)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("holdfast: source shop_db of shop cannot be read")
    assert done.err.count("\n") == 1
    assert CANARY not in text + done.err
