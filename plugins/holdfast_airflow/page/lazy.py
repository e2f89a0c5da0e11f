"""The page's application as the plugin registers it: nothing is imported before the first request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping


class LazyApplication:
    """ASGI application that is built at its first request.

    Plugins are loaded by every process of Airflow; only the API server gets requests.
    """

    def __init__(self) -> None:
        self._built: Any = None

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one request."""
        if self._built is None:
            from holdfast_airflow.page.application import create_application

            self._built = create_application()
        await self._built(scope, receive, send)
