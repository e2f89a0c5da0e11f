"""What the sensors have in common: how they wait."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import TaskDeferred

from holdfast_airflow.exceptions import failure
from locking.one_line import LogsLines

if TYPE_CHECKING:
    from airflow.sdk import Context


class DeferrableSensor(LogsLines, BaseSensorOperator):
    """Sensor that takes no worker slot while it waits.

    Its template fields are its own arguments.

    :param deferrable: wait in the triggerer, where archives.yaml has to be, too. The default is Airflow's `[operators]
        default_deferrable`.
    """

    def __init__(
        self,
        *,
        mode: str = "reschedule",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, **kwargs)
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        if result := self.poke(context):
            return getattr(result, "xcom_value", None)
        from holdfast_airflow.triggers.poke import PokeTrigger

        kind = type(self)
        raise TaskDeferred(
            trigger=PokeTrigger(
                sensor=f"{kind.__module__}.{kind.__qualname__}",
                arguments={name: getattr(self, name) for name in self.template_fields},
                every_s=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if event["state"] == "failed":
            raise failure(str(event["message"]), int(event["exit_code"]))
        return event["value"]
