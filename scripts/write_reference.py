"""Writes docs/reference/: commands, operators, archives.yaml and metrics, as the code itself describes them."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from typer.core import TyperCommand, TyperGroup, TyperOption

from holdfast.cli.commands import COMMANDS, load
from holdfast.config.archives_model import ArchiveConfig, Config
from holdfast.metrics.catalogue import CATALOGUE, Group

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
ALERTS = ROOT / "monitoring" / "alerts.yaml"

_COMMANDS_HEAD = """# Commands

Written by `make reference` from the command itself. `holdfast COMMAND --help` prints the same.
[How they work together](../command-line.md).
"""
_OPERATORS_HEAD = """# Operators and sensors

Written by `make reference` from `holdfast_airflow.operators` and `holdfast_airflow.sensors`. An argument that is marked
*templated* may be a Jinja template. [How they are used](../airflow.md).
"""
_CONFIGURATION_HEAD = """# archives.yaml

Written by `make reference` from the model that reads the file; `holdfast config schema` prints it as a JSON schema.
[An example, and how mistakes are reported](../configuration.md).
"""

_METRICS_HEAD = """# Metrics and alerts

Written by `make reference` from the catalogue of `holdfast metrics` and from `monitoring/alerts.yaml`.
[How they come to Prometheus](../metrics.md).

All metrics are gauges. A time is seconds since 1970: `time() - x` is its age.
"""
_METRIC_GROUPS: dict[Group, str] = {
    "run": "The collection itself",
    "archive": "Archives",
    "source": "Sources",
    "objective": "Objectives",
    "hold": "Holds",
    "server": "Servers of sources",
    "lock": "Locks",
    "replica": "Replicas",
    "listing": "With --listing",
}


def commands_page() -> str:
    """Return the page of the commands."""
    parts = [_COMMANDS_HEAD]
    for name in COMMANDS:
        parts += _command(f"holdfast {name}", load(name))
    return "\n".join(parts).rstrip() + "\n"


def operators_page() -> str:
    """Return the page of the operators."""
    from holdfast_airflow import operators, sensors  # Airflow takes seconds to import
    from holdfast_airflow.operators.job import ArchiveJobOperator

    parts = [
        _OPERATORS_HEAD,
        "## All operators of jobs",
        "",
        *_documented(inspect.getdoc(ArchiveJobOperator) or ""),
        "",
    ]
    for package in (operators, sensors):
        earlier = {getattr(package, name): name for name in package.__all__ if getattr(package, name).__name__ != name}
        for name in package.__all__:
            if name not in earlier.values():
                known = getattr(package, name)
                parts += [f"## {name}", "", *_documented(inspect.getdoc(known) or ""), ""]
                parts += [f"Its earlier name, `{earlier[known]}`, goes on working.", ""] if known in earlier else []
    return "\n".join(parts).rstrip() + "\n"


def configuration_page() -> str:
    """Return the page of the configuration file."""
    parts = [_CONFIGURATION_HEAD, *_section("archives.&lt;name&gt;", ArchiveConfig)]
    assert set(Config.model_fields) == {"archives"}
    return "\n".join(parts).rstrip() + "\n"


def metrics_page() -> str:
    """Return the page of the metrics and the alerts."""
    parts = [_METRICS_HEAD]
    for group, title in _METRIC_GROUPS.items():
        parts += [f"## {title}", "", "| metric | labels | |", "| --- | --- | --- |"]
        of_group = [each for each in CATALOGUE.values() if each.group == group]
        parts += [f"| `{each.name}` | {_labels(each.labels)} | {_cell(each.help)} |" for each in of_group]
        parts.append("")
    parts += [
        "## Alerts",
        "",
        "| alert | severity | after | what it says | runbook |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]:
        said, runbook = rule["annotations"]["summary"], Path(rule["annotations"]["runbook"])
        title = (ROOT / runbook).read_text().partition("\n")[0].removeprefix("# ")
        parts.append(
            f"| `{rule['alert']}` | {rule['labels']['severity']} | {rule['for']} | {_cell(_without_templates(said))} "
            f"| [{title}](../runbooks/{runbook.name}) |"
        )
    return "\n".join(parts).rstrip() + "\n"


def _labels(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _without_templates(text: str) -> str:
    """Return the words of an alert, its labels by their names."""
    text = re.sub(r"\{\{ with .*?\}\}|\{\{ end \}\}", "", text)
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"`\1`", text)
    return re.sub(r"\{\{ \$value[^}]*\}\}B?", "*N*", text).replace("of {{ . }} ", "of `source` ")


def _command(name: str, command: TyperCommand | TyperGroup) -> Iterator[str]:
    yield f"## {name}" if name.count(" ") == 1 else f"### {name}"
    yield ""
    yield from (_flat(paragraph) + "\n" for paragraph in (command.help or "").split("\n\n"))
    if isinstance(command, TyperGroup):
        for each, found in command.commands.items():
            assert isinstance(found, (TyperCommand, TyperGroup))
            yield from _command(f"{name} {each}", found)
        return
    yield "| option | | default |"
    yield "| --- | --- | --- |"
    for parameter in command.params:
        if parameter.name not in ("help", "install_completion", "show_completion"):
            yield _parameter(parameter)
    yield ""


def _parameter(parameter: Any) -> str:
    word = str(parameter.metavar or _kind(parameter.type_descriptor.annotation))
    if isinstance(parameter, TyperOption):
        word = parameter.opts[0] if parameter.is_flag else f"{parameter.opts[0]} {word}"
    default = "required" if parameter.required else _default(parameter.default)
    return f"| `{word}` | {_cell(parameter.help or '')} | {default} |"


def _kind(annotation: Any) -> str:
    """Return what stands for a value, such as `N` or the choices."""
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return "\\|".join(map(str, parts))
    if parts:
        return _kind(next(part for part in parts if part is not type(None)))
    return {int: "N", float: "N", Path: "FILE"}.get(annotation, "TEXT")


def _default(value: Any) -> str:
    return "" if value in (None, False, (), []) or callable(value) else f"`{value}`"


def _documented(text: str) -> Iterator[str]:
    """Yield a docstring, its parameters as a table."""
    text = re.sub(r":class:`([^`]+)`", r"`\1`", text)
    body, *parameters = re.split(r"^:param ", text, flags=re.MULTILINE)
    yield body.strip()
    if not parameters:
        return
    yield ""
    yield "| argument | |"
    yield "| --- | --- |"
    for each in parameters:
        names, _, said = each.partition(":")
        rest = re.split(r"^:\w+|\n\n", said, maxsplit=1, flags=re.MULTILINE)
        yield f"| `{names}` | {_cell(_flat(rest[0]))} |"


def _section(path: str, model: type[BaseModel]) -> Iterator[str]:
    """Yield the keys of a section, and then the sections in it."""
    text = inspect.getdoc(model) or ""
    told = dict(_parameters(text))
    yield f"## {path}"
    yield ""
    yield _flat(text.split(":param")[0])
    yield ""
    yield "| key | value | default | |"
    yield "| --- | --- | --- | --- |"
    below = []
    for name, field in model.model_fields.items():
        kind, inner = _value(field.annotation)
        if inner is not None:
            below.append((f"{path}.{name}" + (".&lt;name&gt;" if get_origin(field.annotation) is dict else ""), inner))
        yield f"| `{name}` | {kind} | {_configured(field)} | {_cell(told.get(name, ''))} |"
    yield ""
    for name, inner in below:
        yield from _section(name, inner)


def _parameters(text: str) -> Iterator[tuple[str, str]]:
    for each in re.split(r"^:param ", text, flags=re.MULTILINE)[1:]:
        names, _, said = each.partition(":")
        for name in names.split(", "):
            yield name, _flat(said)


def _value(annotation: Any) -> tuple[str, type[BaseModel] | None]:
    """Return the kind of a key's value in words, and the model of a section."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _value(next(part for part in parts if part is not type(None)))
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts), None
    if origin in (dict, list):
        kind, inner = _value(parts[-1])
        return (f"by name: {kind}" if origin is dict else f"list of: {kind}"), inner
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return "section", annotation
    if origin is not None and parts:
        return _value(parts[0])
    return {str: "text", int: "number", bool: "`true` or `false`"}.get(annotation, "anything"), None


def _configured(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if value in (None, [], {}) or isinstance(value, BaseModel) else f"`{value}`"


def _flat(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _flat(text).replace("|", "\\|")


PAGES = {
    "commands.md": commands_page,
    "operators.md": operators_page,
    "archives-yaml.md": configuration_page,
    "metrics.md": metrics_page,
}


def main(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
