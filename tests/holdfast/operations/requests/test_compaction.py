"""The request for a compaction: its sizes in words, and those of archives.yaml where none are given."""

from __future__ import annotations

from holdfast.config.archives_model import CompactionConfig
from holdfast.operations.requests.compaction import CompactionRequest

KNOWN = CompactionConfig(min_blocks=7, small="5 MB", target="1 GiB", min_age="3d")


def test_what_was_not_given_is_as_archives_yaml_says() -> None:
    assert CompactionRequest().configured(KNOWN).section == KNOWN
    found = CompactionRequest.given(min_blocks=2, source="shop").configured(KNOWN)
    assert found.section == KNOWN.model_copy(update={"min_blocks": 2})
    assert found.source == "shop"


def test_what_nobody_has_said_is_as_usual() -> None:
    assert CompactionRequest().section == CompactionConfig()
    assert CompactionRequest(small="5 MB").section == CompactionConfig(small="5 MB")
