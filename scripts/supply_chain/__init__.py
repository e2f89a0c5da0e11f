"""The supply chain: what is pinned, what is inside of wheels, its licences and what is known against it.

`make sbom`, `make audit` and `make licences` run the modules of this package; `security/` has what they read.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"
SECURITY = ROOT / "security"
