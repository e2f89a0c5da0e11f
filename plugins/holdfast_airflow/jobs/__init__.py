"""A task's job: its processes, its lines in the log, what it keeps for another try.

Imports nothing else of `holdfast_airflow`.
"""
