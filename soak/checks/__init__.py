"""What must hold, whatever went wrong: each check reads what was recorded, and none of the product's code."""

from __future__ import annotations
