"""Sensors that wait for what an archive can promise: a restorable time, a verification, a replica that has caught up.

Imports everything else in `holdfast_airflow` but operators and decorators.
"""

from __future__ import annotations

from holdfast_airflow.sensors.replica_caught_up import ReplicaCaughtUpSensor
from holdfast_airflow.sensors.restorable import RestorableSensor
from holdfast_airflow.sensors.verified import VerifiedSensor

__all__ = ["ReplicaCaughtUpSensor", "RestorableSensor", "VerifiedSensor"]
