"""``python tests/measure/tree.py``: files and their sizes, folders, cycles of imports, words of README and docs.

Read from the tree as git knows it; nothing of the product is imported.
"""

import argparse
import ast
import statistics
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from measure.figure import Figure, show  # noqa: E402  # a script must find the tree first
from support.repository import PRODUCT_FOLDERS, tree_files  # noqa: E402

#: What ships and is no product: shown beside the figures, counted in none of them.
APART = ("memcore/ledger/migrations/", "examples/demo/", "examples/stub_llm/")

#: Pages of docs that programs write, from the root; their words are nobody's to shorten. A folder ends with a slash.
GENERATED = tuple(f"docs/reference/{page}.md" for page in ("api", "cli", "configuration", "jobs"))

#: The module that loads each public name when it is first asked for.
FACE = "memcore/__init__.py"

#: Lines below which a file is a paragraph rather than a thing that one opens alone.
SMALL = 40

#: Which files import which, at run time and when they are imported.
Graph = Mapping[str, Collection[str]]


def product() -> dict[str, Path]:
    """Return the product's files by their paths from the root."""
    files = {str(path.relative_to(ROOT)): path for path in tree_files() if path.suffix == ".py"}
    return {
        name: path
        for name, path in files.items()
        if name.split("/")[0] in PRODUCT_FOLDERS and not name.startswith(APART)
    }


def imports(files: Mapping[str, Path], *, for_types: bool = False) -> dict[str, set[str]]:
    """Return which file imports which when it is itself imported.

    Args:
        files: by their paths from the root.
        for_types: whether imports under TYPE_CHECKING count too.
    """
    modules = {_module(name): name for name in files}
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        graph[name] = {modules[each] for each in _imported(tree, modules, for_types=for_types)} - {name}
    return graph


def package(name: str) -> str:
    """Return the package of a file: the folder or module below memcore, or the top-level folder."""
    parts = Path(name).with_suffix("").parts
    return "/".join(parts[: 2 if parts[0] == "memcore" else 1])


def packages(graph: Graph) -> dict[str, set[str]]:
    """Return which package imports which."""
    found: dict[str, set[str]] = {}
    for name, imported in graph.items():
        own = found.setdefault(package(name), set())
        own |= {package(each) for each in imported} - {package(name)}
    return found


def cycles(graph: Graph) -> list[list[str]]:
    """Return the groups of nodes that reach each other."""
    reached = {node: _reached(graph, node) for node in graph}
    groups = {
        tuple(sorted(each for each in others if node in reached.get(each, ()))) for node, others in reached.items()
    }
    return [list(group) for group in sorted(groups) if len(group) > 1]


def _reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        following = set(graph.get(waiting.pop(), ())) - found
        found |= following
        waiting.extend(following)
    return found


def words(*paths: Path) -> int:
    """Return how many words pages have, code and tables counted too."""
    return sum(len(path.read_text(encoding="utf-8").split()) for path in paths)


def figures() -> Iterator[Figure]:
    """Yield every figure with its target."""
    files = product()
    sizes = sorted(size for path in files.values() if (size := len(path.read_text(encoding="utf-8").splitlines())))
    folders = Counter(str(Path(name).parent) for name in files if not name.endswith("__init__.py"))
    graph = imports(files)
    pages = [path for path in tree_files() if path.suffix == ".md" and path.relative_to(ROOT).parts[0] == "docs"]
    own = [path for path in pages if not str(path.relative_to(ROOT)).startswith(GENERATED)]
    opened = [path for path in files.values() if path.name != "__init__.py"]
    small = sum(len(path.read_text(encoding="utf-8").splitlines()) < SMALL for path in opened)
    yield Figure(measure="product files", figure=len(files), target=380)
    yield Figure(measure=f"share under {SMALL} lines, %", figure=round(100 * small / len(opened), 1), target=2)
    yield Figure(measure="modules in the largest folder", figure=max(folders.values()), target=20)
    yield Figure(measure="product lines", figure=sum(sizes), target=48_000)
    yield Figure(measure="lines of a file: median", figure=statistics.median(sizes))
    yield Figure(
        measure="lines of a file: 90th percentile", figure=round(statistics.quantiles(sizes, n=10)[-1]), target=400
    )
    yield Figure(measure="lines of a file: most", figure=sizes[-1], target=700)
    yield Figure(measure="package cycles", figure=len(cycles(packages(graph))), target=0)
    yield Figure(measure="file cycles", figure=len(cycles(graph)), target=0)
    # The public face names everything, so that with it everything is one cycle.
    named = imports({name: path for name, path in files.items() if name != FACE}, for_types=True)
    yield Figure(measure="file cycles, imports for types too", figure=len(cycles(named)), target=0)
    yield Figure(measure="README words", figure=words(ROOT / "README.md"), target=600)
    yield Figure(measure="docs words", figure=words(*own), target=28_000)
    yield Figure(measure="docs pages", figure=len(own))
    yield Figure(measure="generated docs words", figure=words(*(path for path in pages if path not in own)))
    apart = [path for path in tree_files() if path.suffix == ".py" and str(path.relative_to(ROOT)).startswith(APART)]
    yield Figure(measure="demo, stub and migrations: files", figure=len(apart))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    show(figures(), as_json=options.json)
    if not options.json:
        graph = imports(product())
        for title, found in (("package", cycles(packages(graph))), ("file", cycles(graph))):
            for group in found:
                sys.stdout.write(f"{title} cycle: {', '.join(group)}\n")


def _module(name: str) -> str:
    parts = Path(name).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.Module, modules: Collection[str], *, for_types: bool) -> Iterator[str]:
    for node in _at_import(tree.body, for_types=for_types):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                if inner in modules:
                    yield inner
                elif node.module in modules:
                    yield node.module


def _at_import(body: list[ast.stmt], *, for_types: bool) -> Iterator[ast.stmt]:
    """Yield what runs when a module is imported: its top level, the branches of `if` and `try` too."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            is_run = for_types or "TYPE_CHECKING" not in ast.unparse(node.test)
            yield from _at_import([*(node.body if is_run else ()), *node.orelse], for_types=for_types)
        elif isinstance(node, ast.Try):
            handled = [each for handler in node.handlers for each in handler.body]
            inner = [*node.body, *handled, *node.orelse, *node.finalbody]
            yield from _at_import(inner, for_types=for_types)


if __name__ == "__main__":
    main()
