"""Reading of archives.yaml, each archive for itself, so that a mistake in one does not affect others."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from holdfast.common.errors import UsageError
from holdfast.config.archives_model import FILE_NAME, NAME, PATTERNS, SQLITE, ArchiveConfig, Config, EncryptionConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_core import ErrorDetails

ENVIRONMENT = "HOLDFAST_ARCHIVES"
"""The environment variable that names the file."""


@dataclass(frozen=True)
class ReadArchives:
    """The valid part of archives.yaml, and its mistakes; all by name of the archive.

    :param mistakes: the first of each archive, with file, line, key and correction; `further`: the others.
    :param lines: where each archive begins.
    :param unread: the entries with mistakes, as YAML gives them.
    """

    path: Path
    archives: Mapping[str, ArchiveConfig] = field(default_factory=dict)
    mistakes: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    further: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unread: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def mistaken(self, mistakes: Mapping[str, str]) -> ReadArchives:
        """Return this with more mistakes by archive, each a key below the archive and what is wrong there."""
        messages = {
            name: f"{self.path}, line {self.lines[name]}: archives.{name}.{what}" for name, what in mistakes.items()
        }
        sound = {name: archive for name, archive in self.archives.items() if name not in mistakes}
        return replace(self, archives=sound, mistakes={**self.mistakes, **messages})

    def archive(self, name: str) -> ArchiveConfig:
        """Return the archive of this name; raises UsageError if there is none, or a mistake in it."""
        if name in self.mistakes:
            raise UsageError(self.mistakes[name])
        return Config(archives=dict(self.archives)).archive(name)

    def find(self, word: str) -> tuple[str, ArchiveConfig] | None:
        """Return an archive with its name, given its name, its URL or a replica's; raises UsageError for a mistake."""
        if word in self.mistakes:
            raise UsageError(self.mistakes[word])
        for name, archive in self.archives.items():
            if word in (name, archive.url, *(archive.replicas or {}).values()):
                return name, archive
        self.refuse_mistaken(word)  # its entry would say where its update log is, or what its key is
        return None

    def refuse_mistaken(self, address: str) -> None:
        """Raise UsageError if an entry with a mistake has this address as any of its texts, under any key."""
        absolute = _absolute(address, Path.cwd()).rstrip("/")
        for name, entry in self.unread.items():
            if absolute in (_absolute(text, self.path.parent).rstrip("/") for text in _texts(entry)):
                raise UsageError(self.mistakes[name])


def find_config() -> Path | None:
    """Return the file in force: `$HOLDFAST_ARCHIVES`, else archives.yaml here, else in `$AIRFLOW_HOME`.

    :raises UsageError: the variable names a file that is not there.
    """
    if named := os.environ.get(ENVIRONMENT):
        path = Path(named).expanduser()
        if not path.is_file():
            raise UsageError(f"{ENVIRONMENT} is {path}, but there is no such file")
        return path
    folders = [Path.cwd(), Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()]
    return next((folder / FILE_NAME for folder in folders if (folder / FILE_NAME).is_file()), None)


def read_archives(path: Path | str | None = None) -> ReadArchives:
    """Read archives.yaml, the given one or that of `find_config`.

    :raises UsageError: there is no file, or nothing in it can be read; names file, line and remedy.
    """
    file = Path(path) if path is not None else find_config()
    if file is None:
        raise UsageError(f"there is no {FILE_NAME} here or in AIRFLOW_HOME: write one, or set {ENVIRONMENT}")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    return _read(text, file)


@lru_cache(maxsize=8)
def _read(text: str, path: Path) -> ReadArchives:
    """Parse the text of the file, once in a process: each DAG needs it."""
    try:
        data, root = _load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not valid YAML: {_yaml_sentence(error)}") from error
    return _parse({} if data is None else data, root, path)


def find_archive(archive: str) -> ArchiveConfig:
    """Return the configuration of an archive, given its name in archives.yaml, a URL or a path.

    :raises UsageError: an unknown name, or a mistake in the archive's entry.
    """
    if re.fullmatch(NAME, archive):
        return read_archives().archive(archive)
    return archive_at(archive)


def archive_at(url: str, *, key: str | None = None) -> ArchiveConfig:
    """Return the settings of an archive that is in no file; raises UsageError for an invalid URL or key address."""
    try:
        return ArchiveConfig(url=url, encryption=EncryptionConfig(key=key) if key else None)
    except ValidationError as error:
        raise UsageError(f"archive {_explain(_first(error))}") from None


def _parse(data: Any, root: yaml.Node | None, path: Path) -> ReadArchives:
    entries = data.get("archives") if isinstance(data, dict) else None
    if not isinstance(entries, dict) or data.keys() != {"archives"}:
        try:
            Config.model_validate(data)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            raise UsageError("; ".join(_located(mistake, root, path) for mistake in errors)) from None
        return ReadArchives(path)
    archives: dict[str, ArchiveConfig] = {}
    mistakes: dict[str, Sequence[str]] = {}
    for name, entry in entries.items():
        try:
            ((valid_name, archive),) = Config.model_validate({"archives": {name: entry}}).archives.items()
        except ValidationError as error:
            mistakes[str(name)] = [_located(mistake, root, path) for mistake in error.errors(include_url=False)]
        else:
            archives[valid_name] = _anchored(archive, path.parent)
    lines = {str(name): _line_of(root, ("archives", name)) or 1 for name in entries}
    return ReadArchives(
        path,
        archives,
        {name: sentences[0] for name, sentences in mistakes.items()},
        lines,
        further={name: sentences[1:] for name, sentences in mistakes.items()},
        unread={str(name): entry for name, entry in entries.items() if str(name) in mistakes},
    )


def _texts(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, Mapping | list):
        for value in entry.values() if isinstance(entry, Mapping) else entry:
            yield from _texts(value)


def _located(mistake: ErrorDetails, root: yaml.Node | None, path: Path) -> str:
    line = _line_of(root, mistake["loc"])
    return f"{path}{f', line {line}' if line else ''}: {_explain(mistake)}"


def _line_of(node: yaml.Node | None, keys: tuple[int | str, ...]) -> int | None:
    """Return the line of the last existing key of a path."""
    line = None
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            child = next(((name, value) for name, value in node.value if name.value == str(key)), None)
            if child is None:
                break
            line, node = child[0].start_mark.line + 1, child[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line + 1
    return line


def _anchored(archive: ArchiveConfig, folder: Path) -> ArchiveConfig:
    """Resolve relative folders and files against the file's folder."""
    replicas = archive.replicas and {name: _absolute(url, folder) for name, url in archive.replicas.items()}
    store = archive.store
    if store is not None and store.startswith(SQLITE) and store != SQLITE:
        store = SQLITE + str((folder / store.removeprefix(SQLITE)).absolute())
    locations = {"url": archive.url and _absolute(archive.url, folder), "replicas": replicas, "store": store}
    return archive.model_copy(update=locations)


def _absolute(url: str, folder: Path) -> str:
    return url if "://" in url else str((folder / Path(url).expanduser()).absolute())


def _first(error: ValidationError) -> ErrorDetails:
    return error.errors(include_url=False)[0]


def _explain(mistake: ErrorDetails) -> str:
    """Return a mistake as one sentence that begins with its key."""
    key = ".".join(str(part) for part in mistake["loc"] if part != "[key]") or "the file"
    if mistake["type"] in ("model_type", "dict_type"):
        return f"{key}: write a block of 'key: value' lines here, not {mistake['input']!r}"
    if mistake["type"] == "string_pattern_mismatch":
        return f"{key}: {mistake['input']!r} does not fit: {PATTERNS[mistake['ctx']['pattern']]}"
    got = "" if isinstance(mistake["input"], Mapping) else f" (it is {mistake['input']!r})"
    if mistake["type"] == "secret":
        got = ""
    return f"{key}: {mistake['msg'][0].lower()}{mistake['msg'][1:]}{got}"


def _yaml_sentence(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return str(error)


class _Once:
    """Constructor of mappings that refuses a key that is no text, or repeated: a plain loader keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node)  # type: ignore[attr-defined]
            if not isinstance(key, Hashable):
                break  # the plain loader refuses it with a sentence of its own
            if not isinstance(key, str):  # off, yes and 2024 are none
                problem = f"YAML does not take {key_node.value} for a name: write it in quotes, '{key_node.value}'"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"'{key}' is written twice", problem_mark=key_node.start_mark)
            seen.add(key)
        made: dict[Any, Any] = super().construct_mapping(node, deep)  # type: ignore[misc]
        return made


class _PlainLoader(_Once, yaml.SafeLoader):
    """Loader with the best messages on mistakes."""


class _FastLoader(_Once, yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """Loader that takes a twentieth of the time."""


def _load(text: str) -> tuple[Any, yaml.Node | None]:
    """Return the values of a file, and its nodes, which have lines; raises YAMLError."""
    try:
        return _load_by(_FastLoader, text)
    except yaml.YAMLError:
        return _load_by(_PlainLoader, text)


def _load_by(kind: type[Any], text: str) -> tuple[Any, yaml.Node | None]:
    loader = kind(text)
    try:
        root = loader.get_single_node()
        return (None if root is None else loader.construct_document(root)), root
    finally:
        loader.dispose()
