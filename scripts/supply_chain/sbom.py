"""The bill of materials (SBOM), in CycloneDX's form: pinned packages, and libraries inside of wheels that are here.

`make sbom` writes it into build/.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from holdfast import __version__
from scripts.supply_chain import REQUIREMENTS, ROOT
from scripts.supply_chain.licences import RULES, UNKNOWN, Rules, licence_of, metadata_by_name, read_rules
from scripts.supply_chain.native import Library, libraries
from scripts.supply_chain.pins import Pin, pins

_VERSION = SchemaVersion.V1_6
_FILE, _SCOPE, _INSIDE = "holdfast:requirements", "holdfast:scope", "holdfast:inside"


def bill(pinned: Iterable[Pin], inside: Iterable[Library], rules: Rules, root: Component) -> Bom:
    """Return the bill of materials of something.

    :param inside: libraries of wheels; each becomes a component that the wheel's own depends on.
    :param root: the thing itself, which depends on all packages.
    """
    installed = metadata_by_name()
    made = Bom()
    made.metadata.component = root
    wheels: dict[str, list[Component]] = {}
    for pin in pinned:
        component = _package(pin, licence_of(pin.name, installed.get(pin.name), rules))
        wheels.setdefault(pin.name, []).append(component)
        made.components.add(component)
    made.register_dependency(root, made.components)
    for library in inside:
        if library.wheel in wheels:
            component = _library(library)
            made.components.add(component)
            for wheel in wheels[library.wheel]:
                made.register_dependency(wheel, [component])
    return made


def product() -> Component:
    """Return Holdfast itself, as the thing that a bill is of."""
    made = Component(name="holdfast", version=__version__, type=ComponentType.APPLICATION, bom_ref="holdfast")
    made.licenses.add(LicenseFactory().make_from_string("Apache-2.0"))
    return made


def _package(pin: Pin, licence: str) -> Component:
    url = PackageURL("pypi", None, pin.name, pin.version)
    scope = "runtime" if pin.is_runtime else "development"
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=url.to_string(),
        licenses=() if licence == UNKNOWN else [LicenseFactory().make_from_string(licence)],
        properties=[Property(name=_SCOPE, value=scope), *(Property(name=_FILE, value=file) for file in pin.files)],
    )


def _library(library: Library) -> Component:
    group, _, name = library.name.rpartition("/")
    url = PackageURL(library.kind, group or None, name, library.version or None)
    return Component(
        group=group or None,
        name=name,
        version=library.version or None,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=f"{url.to_string()}#{library.wheel}",
        properties=[Property(name=_INSIDE, value=library.wheel)],
    )


def text(made: Bom) -> str:
    """Return a bill of materials as JSON that its schema allows.

    :raises ValueError: the schema does not allow it.
    """
    said = make_outputter(made, OutputFormat.JSON, _VERSION).output_as_string(indent=2)
    if (error := JsonStrictValidator(_VERSION).validate_str(said)) is not None:
        raise ValueError(f"the bill of materials does not follow its schema: {error}")
    return said


def main(file: Path) -> None:
    """Write the bill of materials of this environment."""
    pinned, inside = pins(REQUIREMENTS), libraries()
    made = bill(pinned, inside, read_rules(RULES), product())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text(made))
    print(f"{file}: {len(pinned)} pinned packages, {len(inside)} libraries inside of wheels")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / f"holdfast-{__version__}.cdx.json")
