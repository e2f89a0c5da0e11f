"""Where an archive's replicas are, by archives.yaml and the environment."""

from __future__ import annotations

import pytest

from holdfast.common.errors import UsageError
from holdfast.config.archives_model import ArchiveConfig
from holdfast_airflow.coordination import coordination_address, replicated
from tests.support.replicas.replicated import Replicas


def test_the_environment_goes_before_archives_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ArchiveConfig.model_validate({"replicas": {"near": "/near", "far": "/far"}, "store": "sqlite:////a.db"})
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    assert coordination_address(config) == "sqlite:////a.db"
    assert coordination_address(config.model_copy(update={"store": None})) is None
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:////b.db")
    assert coordination_address(config) == "sqlite:////b.db"
    monkeypatch.setenv("HOLDFAST_STORE", "")
    assert coordination_address(config) == "sqlite:////a.db"


def test_replicas_are_found_by_their_places(shop: Replicas) -> None:
    with replicated("shop") as found:
        assert found.log.archive == shop.archive
        assert [row.name for row in found.rows()] == ["far", "near"]
        assert {found.places(row.url).url for row in found.rows()} == {shop.place(name).url for name in ("near", "far")}


@pytest.mark.parametrize(("name", "said"), [("alone", "archive alone has no 'replicas' in archives.yaml"), ("x", "x")])
def test_an_archive_without_replicas_is_told_so(shop: Replicas, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said), replicated(name):
        pass
