"""The part of docs/cli.md that follows from the code: ``python tests/cli_reference.py`` writes it anew."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import typer
from repository import ROOT

from ops.cli.main import build

#: Where the reference stands; everything up to the mark is written by hand.
PAGE = ROOT / "docs" / "cli.md"
MARK = "<!-- From here on: python tests/cli_reference.py -->\n"


@dataclass(frozen=True)
class Command:
    """A command as a person types it."""

    path: str
    help: str
    arguments: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]


@cache
def commands() -> tuple[Command, ...]:
    """Return every command of the command line, groups resolved."""
    return tuple(_walk(typer.main.get_command(build()), "memtend"))


def reference() -> str:
    """Return the reference of every command as Markdown."""
    return "\n".join("\n".join(_section(command)) for command in commands())


def _walk(command: Any, path: str) -> Iterator[Command]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        for name, each in inner.items():
            yield from _walk(each, f"{path} {name}")
        return
    arguments = [each for each in command.params if not each.opts[0].startswith("-")]
    options = [each for each in command.params if each.opts[0].startswith("-")]
    yield Command(
        path=path,
        help=_one_line(command.help),
        arguments=tuple((_argument(each), _one_line(each.help)) for each in arguments),
        options=tuple((_option(each), _described(each)) for each in options),
    )


def _argument(parameter: Any) -> str:
    name = parameter.name.upper()
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    return "/".join([*parameter.opts, *parameter.secondary_opts]) + ("" if parameter.is_flag else " VALUE")


def _described(parameter: Any) -> str:
    text = _one_line(parameter.help)
    if parameter.default in (None, False, ()) or parameter.is_flag:
        return text
    return f"{text} Default `{parameter.default}`."


def _section(command: Command) -> Iterator[str]:
    yield f"### `{' '.join([command.path, *(name for name, _ in command.arguments)])}`\n"
    yield f"{command.help}\n"
    for name, text in (*command.arguments, *command.options):
        yield f"- `{name}`: {text}"
    yield ""


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text(encoding="utf-8").partition(MARK)[0] + MARK + "\n" + reference(), encoding="utf-8")
