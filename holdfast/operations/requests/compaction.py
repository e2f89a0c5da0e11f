"""The request for a compaction."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import field_validator

from holdfast.common.units import parse_size, parse_span
from holdfast.config.archives_model import CompactionConfig
from holdfast.operations.requests.base import Option, Request


class CompactionRequest(Request):
    """A compaction of one source's blocks of changes, or of all sources'.

    :param source: its name in the archive; None: all.
    :param small, target, min_age: as archives.yaml says them, in words; None: the default.
    """

    operation: ClassVar[str] = "compaction"

    source: Annotated[
        str | None, Option("Only backups of this source; else of all.", operator="", is_in_form=False)
    ] = None
    consolidate: Annotated[
        bool,
        Option(
            "Also make a full snapshot of the newest one and the changes since, without asking the source: restores of "
            "later moments begin there."
        ),
    ] = False
    min_blocks: Annotated[
        int | None,
        Option(
            "Join so many neighbouring small blocks at least; else as archives.yaml says.",
            metavar="N",
            least=2,
            is_in_form=False,
        ),
    ] = None
    small: str | None = None
    target: str | None = None
    min_age: str | None = None

    @field_validator("small", "target", "min_age")
    @classmethod
    def _readable(cls, given: str | None, info: Any) -> str | None:
        if given is not None:
            (parse_span if info.field_name == "min_age" else parse_size)(given)
        return given

    def configured(self, section: CompactionConfig) -> Self:
        """Return the request with the settings of archives.yaml for all that was not given."""
        return self.filled(**section.model_dump())

    @property
    def section(self) -> CompactionConfig:
        """Return the settings, with the defaults for those that are not known."""
        return CompactionConfig(**self.model_dump(include=set(CompactionConfig.model_fields), exclude_none=True))
