"""Imports go one way, and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import fcxplain

ROOT = Path(fcxplain.__file__).parent
# Each room may import from the rooms on its own line or above, never from below.
ORDER = (
    ("errors", "files", "hashing", "progress", "settings", "storage", "text"),
    ("schema", "training_loop"),
    ("outcome",),
    ("encoding", "rules", "causal", "classifier", "datasets"),
    ("region",),
    ("task",),
    ("overrides",),
    ("explanation", "suggestions"),
    ("proof",),
    ("search", "metrics", "generator"),
    ("saving", "streaming"),
    ("options",),
    ("explainer",),
    ("contract",),
    ("methods", "plots"),
    ("benchmark",),
    ("demo",),
    ("service",),
    ("cli",),
    ("__main__",),
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
# What the rooms beside each other may import; anything else there is an edge nobody has drawn yet.
BESIDE = {
    ("files", "errors"),
    ("progress", "text"),
    ("settings", "errors"),
    ("storage", "errors"),
    ("storage", "files"),
    ("rules", "encoding"),
    ("classifier", "encoding"),
}
ONLY_IN = {
    "matplotlib": {"plots"},
    "typer": {"cli"},
    "rich": {"cli"},
    "lark": {"rules", "causal"},
    "jinja2": {"explanation", "service"},
    "tomlkit": {"schema"},
    "safetensors": {"saving"},
    "pooch": {"datasets"},
    "distributed": {"streaming"},
    "fsspec": {"storage"},
    "fastapi": {"service"},
    "cryptography": {"service"},
}
NOT_IN = {"pandas": {"causal"}}


@cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        found[name or "__init__"] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


@cache
def imported_modules(name: str, tree: ast.Module) -> set[str]:
    """Modules of the package that a module imports, at its top or inside a function; types are no matter."""
    is_package = (ROOT / name.replace(".", "/") / "__init__.py").exists()
    here = name.split(".") if is_package else name.split(".")[:-1]
    blocks = [n for n in nodes(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    for_types = {id(inner) for block in blocks for inner in ast.walk(block)}
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.level and id(node) not in for_types:
            base = here[: len(here) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                found.add(whole if whole in modules() else ".".join(base))
    return found - {name, ""}


def imported_rooms(name: str, tree: ast.Module) -> set[str]:
    """Rooms of the package that a module imports."""
    return {module.split(".")[0] for module in imported_modules(name, tree)} - {name.split(".")[0]}


@cache
def libraries(tree: ast.Module) -> set[str]:
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_every_room_has_a_place_in_the_order():
    rooms = {name.split(".")[0] for name in modules()} - {"__init__"}
    assert rooms <= set(LEVEL), f"give these a place in ORDER and in docs/architecture.md: {rooms - set(LEVEL)}"


def test_imports_go_one_way():
    wrong = []
    for name, tree in modules().items():
        room = name.split(".")[0]
        if room == "__init__":
            continue
        for other in imported_rooms(name, tree):
            beside = LEVEL[other] == LEVEL[room] and (room, other) in BESIDE
            if not (LEVEL[other] < LEVEL[room] or beside):
                wrong.append(f"{name} imports {other}")
    assert not wrong


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: imported_modules(name, tree) for name, tree in modules().items() if name != "__init__"}
    TopologicalSorter(graph).prepare()


def test_no_public_class_name_is_used_twice():
    homes = defaultdict(list)
    for name, tree in modules().items():
        for node in nodes(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_libraries_stay_in_their_rooms():
    wrong = []
    for name, tree in modules().items():
        room = name.split(".")[0]
        used = libraries(tree)
        wrong += [f"{name} imports {lib}" for lib, rooms in ONLY_IN.items() if lib in used and room not in rooms]
        wrong += [f"{name} imports {lib}" for lib, rooms in NOT_IN.items() if lib in used and room in rooms]
        wrong += [f"{name} imports fcxplain by its full name" for _ in used & {"fcxplain"}]
    assert not wrong


def test_nothing_loads_pickles_or_evaluates_text():
    forbidden = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}
    for name, tree in modules().items():
        assert not libraries(tree) & forbidden, name
        calls = {n.func.id for n in nodes(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert not calls & {"eval", "exec", "compile", "__import__"}, name


def test_no_data_set_is_known_by_name_outside_its_room():
    names = {"adult", "adult-authors", "census", "law", "folktables"}
    allowed = {"datasets", "demo", "cli"}
    for name, tree in modules().items():
        if name.split(".")[0] in allowed:
            continue
        texts = {n.value for n in nodes(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        assert not texts & names, name


def called(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def private_names(tree: ast.Module) -> set[str]:
    """Private names of others that a module imports, reads or replaces by name; not its own, and not notebooks' hooks."""
    made = {n.name for n in nodes(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own = made | {n.id for n in nodes(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names} | set((node.module or "").split("."))
        elif isinstance(node, ast.Import):
            found |= {part for alias in node.names for part in alias.name.split(".")}
        elif isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and called(node) in ("setattr", "getattr", "delattr"):
            texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            found |= {part for text in texts for part in text.split(".")}
    return {name for name in found - own if name.startswith("_") and not name.endswith("_")}


def test_no_test_uses_a_private_name():
    tests = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in Path(__file__).parent.glob("*.py")}
    used = {name: private_names(tree) for name, tree in tests.items()}
    # The way out of a process at once is no name of ours.
    assert {name: found - {"_exit"} for name, found in used.items() if found - {"_exit"}} == {}
    assert private_names(ast.parse("from fcxplain.rules import _a\nx._b()\npatch.setattr(x, '_c', 1)")) == {
        "_a",
        "_b",
        "_c",
    }


def test_every_public_name_can_be_imported():
    for name in fcxplain.__all__:
        assert getattr(fcxplain, name) is not None
    assert set(fcxplain.__all__) <= set(dir(fcxplain))
