"""The update log in the coordination store: entries, replicas, leader, quorums; one transaction each.

Imports `archive.format` and no other package of `replication`.
"""

from __future__ import annotations
