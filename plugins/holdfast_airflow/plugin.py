"""The Airflow plugin of the installed distribution. Found through the entry point `airflow.plugins`."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin
from airflow.task.priority_strategy import PriorityWeightStrategy

from holdfast_airflow.page.address import PREFIX, page_address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from airflow.models.taskinstance import TaskInstance


class LazyApplication:
    """ASGI application that is built at its first request, which only the API server gets."""

    def __init__(self) -> None:
        self._built: Any = None

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        if self._built is None:
            from holdfast_airflow.page.application import create_application

            self._built = create_application()
        await self._built(scope, receive, send)


DAG_PROCESSOR = "airflow.dag_processing.manager"
"""Module of the process that forks a child for each DAG file; no other process of Airflow imports it."""

OF_DAG_FILES = ("holdfast_airflow.archives", "holdfast_airflow.operators")


class FirstOfAll(PriorityWeightStrategy):
    """Rule that gives a task alone the greatest weight.

    By Airflow's own rules, a task has at least the weight of each task after it: a great `priority_weight` of the task
    that gives a lock back would lift all the work before it just as much.
    """

    def get_weight(self, ti: TaskInstance) -> int:
        return 2**31 - 1  # that Airflow's database can hold


class HoldfastPlugin(AirflowPlugin):
    """The page, in the navigation and as a tab of each DAG, and the weight of tasks that hold locks."""

    name = "holdfast"
    fastapi_apps: list[Any] = [{"name": "Holdfast", "app": LazyApplication(), "url_prefix": PREFIX}]  # noqa: RUF012
    external_views: list[Any] = [  # noqa: RUF012 - as Airflow wants it
        {
            "name": "Holdfast",
            "href": page_address(),
            "destination": "nav",
            "category": "browse",
            "url_route": "holdfast",
        },
        {
            "name": "Holdfast",
            "href": page_address(dag="{DAG_ID}"),
            "destination": "dag",
            "url_route": "holdfast-archive",
        },
    ]

    priority_weight_strategies: list[Any] = [FirstOfAll]  # noqa: RUF012 - as Airflow wants it

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:
        """Import what DAG files need, and read archives.yaml, in Airflow's DAG processor.

        Its children find both there, one for each DAG file and reading of it. After a change of archives.yaml they read
        it themselves.
        """
        if DAG_PROCESSOR not in sys.modules:
            return
        # The DAG files say what cannot be imported; one of them says what is wrong with archives.yaml.
        with suppress(ImportError):
            for module in OF_DAG_FILES:
                importlib.import_module(module)
            from holdfast.common.errors import UsageError
            from holdfast.config.archives_yaml import read_archives

            with suppress(UsageError):
                read_archives()
