"""The update log in the coordination store: entries, replicas, leader, quorums; one transaction each.

Imports `archive`, and nothing else of `replication`.
"""

from __future__ import annotations
