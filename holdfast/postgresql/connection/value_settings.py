"""Settings of all sessions that read, compare or load values.

Each setting is there because a run without it lost or changed data: `row_security` on hides rows
without an error, `search_path` decides which type or function a name means, the others change how a
value is written as text.
"""

from __future__ import annotations

from typing import Final

VALUE_SETTINGS: Final[dict[str, str]] = {
    "search_path": "",
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",  # money shows and reads its integer with two decimals, whatever it means
    "xmloption": "content",  # or xml fragments would be refused on their way back
    "array_nulls": "on",  # or NULL in an array is read as a word
    "quote_all_identifiers": "off",  # or regclass and the like are written otherwise
}
"""Settings that every session makes which reads, loads or hashes values: their text depends on them."""

SETTINGS: Final[dict[str, str]] = {
    **VALUE_SETTINGS,
    "row_security": "off",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "transform_null_equals": "off",
    # The locks of a session whose client lost its power or its network end with it, within two minutes.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
"""What every session has: all supported versions know these. Sources: PostgreSQL manual, 'Client Connection Defaults';
pg_dump's own."""
