"""A task's job: what was prepared, its processes, its lines in the log.

Imports nothing else of `holdfast_airflow`.
"""
