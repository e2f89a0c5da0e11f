"""Parts that benchmarks share, such as servers. Tests use them, too; nothing else imports them."""

from __future__ import annotations
