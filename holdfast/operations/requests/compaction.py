"""The request for a compaction."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from holdfast.config.archives_model import CompactionConfig
from holdfast.operations.requests.base import Option, Request, Size, Span


class CompactionRequest(Request):
    """A compaction of one source's blocks of changes, or of all sources'.

    :param small, target, min_age: the settings in archives.yaml.
    """

    operation: ClassVar[str] = "compaction"

    source: Annotated[
        str | None, Option("Only backups of this source; default is all.", operator="", is_in_form=False)
    ] = None
    consolidate: Annotated[
        bool,
        Option(
            "Also make a full snapshot from the newest one and the changes since, without the source; later restores "
            "begin there."
        ),
    ] = False
    min_blocks: Annotated[
        int | None,
        Option(
            "Join at least this many neighbouring small blocks; default is the setting in archives.yaml.",
            metavar="N",
            least=2,
            is_in_form=False,
        ),
    ] = None
    small: Size | None = None
    target: Size | None = None
    min_age: Span | None = None

    def configured(self, section: CompactionConfig) -> Self:
        """Return the request with the settings of archives.yaml for missing options."""
        return self.filled(**section.model_dump())

    @property
    def section(self) -> CompactionConfig:
        """Return the settings, with defaults for missing ones."""
        return CompactionConfig(**self.model_dump(include=set(CompactionConfig.model_fields), exclude_none=True))
