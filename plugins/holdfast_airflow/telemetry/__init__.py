"""Telemetry of tasks: metrics and lineage, by the means that Airflow has for its own.

Imports what plain modules of `holdfast_airflow` have.
"""
