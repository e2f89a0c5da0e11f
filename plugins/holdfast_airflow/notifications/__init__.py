"""Notifications: what a failure says, for the notifier of any channel, and the notifiers that archives.yaml names.

Imports what plain modules of `holdfast_airflow` have, and the page's addresses.
"""

from __future__ import annotations

from holdfast_airflow.notifications.message import HoldfastNotifier

__all__ = ["HoldfastNotifier"]
