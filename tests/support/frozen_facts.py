"""What users, brokers, databases and log readers rely on, read off the product; frozen.py compares it.

Nothing here depends on the module that holds a thing: files may be merged and renamed.
"""

import ast
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack, get_args, get_origin

import typer
import yaml
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from reference.keys import keys
from sqlalchemy import CheckConstraint, DefaultClause, ForeignKeyConstraint, Index, MetaData, Table, UniqueConstraint
from sqlalchemy.dialects import postgresql, sqlite

import memcore
from memcore.config.settings import FOREIGN, PREFIX, Settings
from memcore.jobs import Payload, Queue
from memcore.telemetry.events import Event
from ops.cli.main import build
from support.frozen import Facts
from support.repository import PRODUCT_FOLDERS, ROOT, source_files
from tasks.job import all_jobs
from workers.groups import GROUPS


def commands() -> Facts:
    """Return every command with its arguments and options, as a person types them."""
    return dict(_commands(typer.main.get_command(build()), "memtend"))


def _commands(command: Any, path: str) -> Iterator[tuple[str, str]]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        yield path, "group"
        for name, each in inner.items():
            yield from _commands(each, f"{path} {name}")
        return
    yield path, "command"
    arguments = 0
    for each in command.params:
        if each.name == "help":
            continue
        is_option = each.opts[0].startswith("-")
        arguments += not is_option
        words = "/".join([*each.opts, *each.secondary_opts]) if is_option else f"argument {arguments}"
        form = [
            "flag" if getattr(each, "is_flag", False) else _taken(each.type_descriptor.annotation),
            "required" if each.required else "",
            "several" if (each.multiple if is_option else each.nargs == -1) else "",
            "" if each.default in (None, False, ()) else f"default {_plain(each.default)}",
        ]
        yield f"{path} {words}", " ".join(filter(None, form))


def _taken(annotation: Any) -> str:
    """Return what an option takes; an enum by its values, for classes may be renamed."""
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return f"one of {sorted(each.value for each in annotation)}"
    return annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)


def _plain(value: Any) -> str:
    return str(value.value) if isinstance(value, StrEnum) else str(value)


def jobs() -> Facts:
    """Return queues, tasks and groups of workers."""
    found = {f"queue {queue.value}": "queue" for queue in Queue}
    found |= {f"task {job.name}": f"on {job.queue.value}" for job in all_jobs()}
    found |= {f"group {group.name}": f"takes {sorted(map(str, group.queues))}" for group in GROUPS.values()}
    return found


def payloads() -> Facts:
    """Return every field of every payload with its form; ``version`` says which versions are read."""
    for module in modules_with("(Payload)"):
        import_module(module)
    found: dict[str, str] = {}
    for payload in _below(Payload):
        schema = payload.model_json_schema()
        name = payload.__name__.removesuffix("Payload").lower()
        found |= dict(_fields(schema, schema.get("$defs", {}), name))
    return found


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        # What payloads share is no payload of a job.
        if each.__module__.partition(".")[0] in PRODUCT_FOLDERS and not each.__name__.startswith("_"):
            yield each
        yield from _below(each)


def _fields(schema: Any, definitions: Any, path: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    # Names of classes stand in references and titles; both are left out.
    while "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in above:
            yield path, "as above"
            return
        above, schema = (*above, name), {**definitions[name], **{k: v for k, v in schema.items() if k != "$ref"}}
    yield path, _form(schema, definitions)
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        yield from _fields(inner, definitions, f"{path}.{name}{'' if name in required else '?'}", above)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key], definitions, f"{path}{mark}", above)
    for option in _options(schema):
        for inner_path, form in _fields(option, definitions, path, above):
            if inner_path != path:
                yield inner_path, form


def _form(schema: Any, definitions: Any) -> str:
    if "$ref" in schema:
        return _form(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if options := _options(schema):
        form = " or ".join(_form(option, definitions) for option in options)
    elif "enum" in schema or "const" in schema:
        form = f"one of {schema.get('enum', [schema.get('const')])}"
    else:
        form = " ".join(filter(None, (schema.get("type", "anything"), schema.get("format"))))
    return f"{form}, else {_value(schema['default'])}" if "default" in schema else form


def _options(schema: Any) -> list[Any]:
    return [each for kind in ("anyOf", "oneOf", "allOf") for each in schema.get(kind, ())]


def policy() -> Facts:
    """Return every key of the policy with its default."""
    return {
        key.name: "section" if key.is_section and isinstance(key.default, BaseModel) else _value(key.default)
        for key in keys()
    }


def _value(value: Any) -> str:
    # A set comes in another order each time.
    value = sorted(value) if isinstance(value, frozenset) else value
    return json.dumps(to_jsonable_python(value, fallback=dict), sort_keys=True, ensure_ascii=False)


def variables() -> Facts:
    """Return every environment variable: those that Settings reads with the default, then what else is named."""
    computed = "computed"
    found = {
        PREFIX + name.upper(): "required"
        if field.is_required()
        else computed
        if field.default_factory
        else _value(field.default)
        for name, field in Settings.model_fields.items()
    }
    found |= dict.fromkeys(FOREIGN, "foreign")
    named = {word for text in texts() for word in re.findall(rf"{PREFIX}[A-Z_]*[A-Z]", text)}
    return {name: "named" for name in named if not any(each.startswith(name) for each in found)} | found


def tables() -> Facts:
    """Return every table, column, index and constraint, as SQLite and PostgreSQL are told."""
    found: dict[str, str] = {}
    for metadata in _metadatas():
        first = min(metadata.tables)
        for table in metadata.tables.values():
            assert table.name not in found, f"{table.name} stands in two databases"
            found[table.name] = f"in the database of {first}"
            found |= dict(_parts(table))
    return found


def _metadatas() -> list[MetaData]:
    modules = [*modules_with("Column("), *modules_with("MetaData")]
    values = [value for module in modules for value in vars(import_module(module)).values()]
    return list({id(value): value for value in values if isinstance(value, MetaData)}.values())


def _parts(table: Table) -> Iterator[tuple[str, str]]:
    for column in table.columns:
        types = [column.type.compile(dialect=each.dialect()) for each in (sqlite, postgresql)]
        default = column.server_default
        form = [
            " or ".join(dict.fromkeys(types)),
            "key" if column.primary_key else "null" if column.nullable else "not null",
            f"default {default.arg}" if isinstance(default, DefaultClause) else "",
        ]
        yield f"{table.name}.{column.name}", " ".join(filter(None, form))
    for index in table.indexes:
        yield f"{table.name} index {index.name}", _index(index)
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield f"{table.name} unique {sorted(each.name for each in constraint.columns)}", str(constraint.name)
        elif isinstance(constraint, ForeignKeyConstraint):
            yield f"{table.name} refers {sorted(constraint.column_keys)}", str(constraint.referred_table.name)
        elif isinstance(constraint, CheckConstraint):
            yield f"{table.name} check {constraint.sqltext}", str(constraint.name)


def _index(index: Index) -> str:
    where = [index.dialect_options[name].get("where") for name in ("sqlite", "postgresql")]
    form = [
        ", ".join(str(each) for each in index.expressions),
        "unique" if index.unique else "",
        *dict.fromkeys(f"where {each}" for each in where if each is not None),
    ]
    return " ".join(filter(None, form))


def programs() -> Facts:
    """Return what starts processes and what plug-ins hang on: scripts, ``python -m`` entries, extras, ``memtend.*``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = {f"script {name}": target for name, target in project["scripts"].items()}
    found |= {f"extra {name}": "extra" for name in project["optional-dependencies"]}
    for path in ("compose.yml", *(str(each.relative_to(ROOT)) for each in sorted((ROOT / "docker").glob("*.*")))):
        text = (ROOT / path).read_text(encoding="utf-8")
        named = re.findall(r"memcore\.programs[\s\"',\]]+([a-z_]+(?:\.[a-z_]+)+)", text)
        found |= {f"python -m {module} in {path}": _starts(module) for module in named}
    services = yaml.safe_load((ROOT / "compose.yml").read_text(encoding="utf-8"))["services"]
    found |= {
        f"service {name}": " ".join(map(str, each.get("command", ())))
        for name, each in services.items()
        if each["image"].startswith("memtend:")
    }
    # Module names are strings where one process starts another.
    started = {text for text in texts() if text in modules() and _starts(text) == "starts"}
    found |= {f"python -m {module} from the product": "starts" for module in started}
    # Groups of entry points, loggers, labels of containers.
    found |= {f"name {text}": "name" for text in texts() if re.fullmatch(r"memtend\.[a-z_]+", text)}
    return found


def _starts(module: str) -> str:
    folder = ROOT.joinpath(*module.split("."))
    path = folder / "__main__.py" if folder.is_dir() else folder.with_suffix(".py")
    if not path.is_file():
        return "missing"
    is_main = path.name == "__main__.py" or 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")
    return "starts" if is_main else "does not start"


def log_events() -> Facts:
    """Return the name of every log event."""
    return dict.fromkeys(Event, "event")


def public_names() -> Facts:
    """Return the public face: names, parameters of functions and methods, fields of values, members of enums."""
    found: dict[str, str] = {}
    for name in memcore.__all__:
        value = getattr(memcore, name)
        found[name] = "name"
        if not isinstance(value, type):
            found |= _parameters(name, value)
        elif issubclass(value, StrEnum):
            found |= {f"{name} {each.value}": "member" for each in value}
        else:
            if issubclass(value, BaseModel):
                found |= {f"{name}.{field}": "field" for field in value.model_fields}
            for method, function in inspect.getmembers(value, inspect.isroutine):
                module = getattr(function, "__module__", None) or ""
                if not method.startswith("_") and module.partition(".")[0] == "memcore":
                    found |= _parameters(f"{name}.{method}", function)
    return found


def _parameters(name: str, function: Callable[..., Any]) -> dict[str, str]:
    found = {f"{name}()": "call"}
    for each in inspect.signature(function).parameters.values():
        if get_origin(each.annotation) is Unpack:
            (fields,) = get_args(each.annotation)
            found |= {f"{name}({field})": "optional" for field in fields.__optional_keys__}
            found |= {f"{name}({field})": "required" for field in fields.__required_keys__}
        elif each.name not in {"self", "cls"} and each.kind not in {each.VAR_KEYWORD, each.VAR_POSITIONAL}:
            found[f"{name}({each.name})"] = "required" if each.default is each.empty else "optional"
    return found


@cache
def product_files() -> tuple[Path, ...]:
    """Return every product file but the migrations, which never change."""
    return tuple(path for path in source_files(*PRODUCT_FOLDERS) if "migrations" not in path.parts)


@cache
def trees() -> Mapping[Path, ast.Module]:
    """Return every product file parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in product_files()}


@cache
def texts() -> frozenset[str]:
    """Return every string of the product that is no docstring."""
    found: set[str] = set()
    for tree in trees().values():
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
        }
    return frozenset(found)


@cache
def modules() -> Mapping[str, Path]:
    """Return every product module, packages by their own names."""
    found: dict[str, Path] = {}
    for path in product_files():
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def modules_with(text: str) -> list[str]:
    """Return the modules whose source has this text; what runs when it is imported is left out."""
    return [
        name for name, path in modules().items() if path.stem != "__main__" and text in path.read_text(encoding="utf-8")
    ]
