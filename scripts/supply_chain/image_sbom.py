"""The bill of materials (SBOM) of a container image, in CycloneDX's form: what is in it, not what was to be.

`.ci/build-images` writes one beside each image.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cyclonedx.model import Property
from cyclonedx.model.component import Component, ComponentType
from packageurl import PackageURL

from scripts.supply_chain import REQUIREMENTS
from scripts.supply_chain.image_contents import EngineError, Found, contents
from scripts.supply_chain.licences import RULES, Rules, read_rules
from scripts.supply_chain.native import Library, libraries
from scripts.supply_chain.pins import Pin, pins
from scripts.supply_chain.sbom import bill, text

if TYPE_CHECKING:
    from cyclonedx.model.bom import Bom

_DISTRIBUTION = "debian-12"
_SOURCE = "holdfast:debian-source"
_OURS = {"holdfast", "holdfast-locks"}


def bill_of_image(
    image: str, found: Iterable[Found], pinned: Iterable[Pin], inside: Iterable[Library], rules: Rules
) -> Bom:
    """Return the bill of materials of an image.

    :param found: what is in it.
    :param pinned: says which requirements files a package of Python comes from.
    :param inside: libraries of wheels, of those that are in the image.
    """
    name, _, tag = image.rpartition(":")
    files = {(pin.name, pin.version): pin for pin in pinned}
    things = list(found)
    packages = [
        files.get((each.name, each.version), Pin(each.name, each.version, ()))
        for each in things
        if each.kind == "pypi" and each.name not in _OURS
    ]
    root = Component(name=name, version=tag, type=ComponentType.CONTAINER, bom_ref=image)
    made = bill(packages, inside, rules, root)
    others = [_component(each) for each in things if each.kind != "pypi"]
    made.components |= others
    made.register_dependency(root, others)
    return made


def _component(found: Found) -> Component:
    if found.kind == "deb":
        qualifiers = {"arch": found.architecture, "distro": _DISTRIBUTION}
        url = PackageURL("deb", "debian", found.name, found.version, qualifiers)
        properties = [Property(name=_SOURCE, value=found.source)]
    else:
        group, _, name = found.name.rpartition("/")
        url = PackageURL("golang", group or None, name, found.version)
        properties = []
    return Component(
        name=found.name,
        version=found.version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=url.to_string(),
        properties=properties,
    )


def main(folder: Path, images: Sequence[str]) -> None:
    """Write the bill of materials of each image into a folder; end with a sentence where one cannot be looked at."""
    try:
        found = {image: contents(image) for image in images}
    except EngineError as error:
        sys.exit(f"images: {error}")
    has_python = any(each.kind == "pypi" for things in found.values() for each in things)
    inside = libraries() if has_python else []
    folder.mkdir(parents=True, exist_ok=True)
    for image, things in found.items():
        file = folder / f"{image.rpartition(':')[0]}.cdx.json"
        file.write_text(text(bill_of_image(image, things, pins(REQUIREMENTS), inside, read_rules(RULES))))
        counts = {kind: sum(each.kind == kind for each in things) for kind in ("deb", "pypi", "golang")}
        print(
            f"{file}: {counts['deb']} packages of Debian, {counts['pypi']} of Python, {counts['golang']} modules of Go"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
