"""Where an archive's replicas are, by archives.yaml."""

from __future__ import annotations

import pytest

from holdfast.common.errors import UsageError
from holdfast_airflow.replicated import replicated
from tests.support.replicas.replicated import Replicas


def test_replicas_are_found_by_their_places(shop: Replicas) -> None:
    with replicated("shop") as found:
        assert found.log.archive == shop.archive
        assert [row.name for row in found.rows()] == ["far", "near"]
        assert {found.places(row.url).url for row in found.rows()} == {shop.place(name).url for name in ("near", "far")}


@pytest.mark.parametrize(("name", "said"), [("alone", "archive alone has no 'replicas' in archives.yaml"), ("x", "x")])
def test_an_archive_without_replicas_is_told_so(shop: Replicas, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said), replicated(name):
        pass
