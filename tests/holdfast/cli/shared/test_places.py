"""Names and addresses on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.shared import places
from holdfast.common.errors import UsageError
from holdfast.postgresql.connection.address import Address

pytestmark = pytest.mark.slow

FILE = """
archives:
  shop:
    url: archive
    sources:
      db: {url: "postgresql://me@here/shop", tables: ["a.*"], exclude: ["a.b"]}
      far: {connection: shop_postgres}
"""


@pytest.fixture(autouse=True)
def archives_yaml() -> Path:
    path = Path("archives.yaml").absolute()
    path.write_text(FILE)
    return path


def test_an_archive_goes_by_its_name_or_its_url(archives_yaml: Path) -> None:
    url = str(archives_yaml.parent / "archive")
    assert places.archive_store("shop").url == url
    assert places.archive_store(url).url == url
    assert places.archive_store("s3://other/place").url == "s3://other/place"


def test_a_source_goes_by_its_name(archives_yaml: Path) -> None:
    name, configured, address = places.source("shop", "db")
    assert (name, configured.tables, configured.exclude) == ("db", ["a.*"], ["a.b"])
    assert (address.url, address.password) == ("postgresql://me@here/shop", None)


def test_an_address_that_archives_yaml_gives_a_source_means_that_source_whoever_logs_in() -> None:
    name, configured, address = places.source("shop", "postgresql://postgres@here:5432/shop?sslmode=require")
    assert (name, configured.tables, address.user) == ("db", ["a.*"], "postgres")
    assert configured.url == address.url
    assert places.database("postgresql://postgres@here/shop", "shop")[0].exclude == ["a.b"]
    for other in ("postgresql://me@here/other", "postgresql://me@there/shop", "postgresql:///shop?host=/run"):
        assert places.source("shop", other)[0] == Address.parse(other).database
    assert places.source("s3://other/place", "postgresql://me@here/shop")[0] == "shop"


def test_a_source_that_only_airflow_knows_may_come_by_airflows_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="set AIRFLOW_CONN_SHOP_POSTGRES"):
        places.source("shop", "far")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_POSTGRES", "postgres://me:s3cret@here/shop")
    _, _, address = places.source("shop", "far")
    assert (address.url, address.password) == ("postgresql://me@here/shop", "s3cret")


def test_airflows_json_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_POSTGRES", '{"conn_type": "postgres", "password": "s3cret"}')
    with pytest.raises(UsageError, match="is JSON, which only Airflow reads") as refused:
        places.source("shop", "far")
    assert "s3cret" not in str(refused.value)


def test_an_address_needs_no_archives_yaml(archives_yaml: Path) -> None:
    archives_yaml.unlink()
    name, configured, address = places.source("anywhere", "postgresql://me:s3cret@here/crm")
    assert (name, configured.tables) == ("crm", ["*.*"])
    assert (address.url, address.password) == ("postgresql://me@here/crm", "s3cret")


def test_a_target_goes_by_name_or_address() -> None:
    assert places.target("shop", "db").database == "shop"
    assert places.target("shop", "postgresql://me@here/fresh").database == "fresh"
    with pytest.raises(UsageError, match="no source 'dd' in this archive"):
        places.target("shop", "dd")


def test_a_source_is_found_beside_an_archive_with_a_mistake(archives_yaml: Path) -> None:
    archives_yaml.write_text(f"{FILE}  bad: {{urll: there, sources: {{db: {{}}, own: {{}}}}}}")
    assert places.archive_having("far") == "shop"
    with pytest.raises(UsageError, match="unknown key 'urll'"):
        places.source(places.archive_having("own"), "own")
    with pytest.raises(UsageError, match="several archives have it"):
        places.archive_having("db")
