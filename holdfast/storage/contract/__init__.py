"""The contract of object stores, and what several of them share: keys, parts, connections, errors.

Imports nothing of the other packages of `storage`.
"""

from __future__ import annotations
