"""A job that an operator has prepared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.replication.log.settings import StoreAddress

if TYPE_CHECKING:
    from holdfast.common.signing import Signing
    from holdfast.operations.requests.base import Request
    from holdfast.postgresql.connection.address import Address


@dataclass(frozen=True)
class PreparedJob:
    """One job, ready to be started: everything was looked up and found good.

    :param source: the source it is about; None where it does not matter.
    :param database: that it reads or writes; None where it works on the archive alone.
    :param request: of the operation.
    :param key: address of the key that opens the archive; None for what the environment says.
    :param coordination: address of the store with the update log of its replicas.
    :param signing: who signs its commits and who is believed; None for what the environment says.
    """

    url: str
    run: str
    source: str | None
    database: Address | None
    request: Request
    key: str | None = None
    coordination: StoreAddress = field(default_factory=lambda: StoreAddress(None))
    signing: Signing | None = None

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of the application, without secrets."""
        return ["--archive", self.url, "--run", self.run, *self.request.to_arguments()]
