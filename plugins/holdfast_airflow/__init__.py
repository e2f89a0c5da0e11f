"""The Airflow provider: operators, triggers, decorators and notifications.

Imports `holdfast` and `locking`, and starts `sparkjobs` by path.
"""

from __future__ import annotations
