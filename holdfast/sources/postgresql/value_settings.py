"""The settings that the text of values depends on."""

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
