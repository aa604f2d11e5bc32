"""The reference of the Python package, written from its sources: signatures, docstrings, and what stands above fields.

    python crates/treasure-py/reference.py --write docs/python-api.md
    python crates/treasure-py/reference.py --check docs/python-api.md
"""

import ast
import inspect
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "python" / "treasure"
#: Modules in the order of a reader, with what their parts are called.
PARTS = {
    "_session": "Models and searches", "_models": "Models of your own", "_rewards": "Rewards", "_results": "Results",
    "_errors": "Errors", "ray": "Ray Data: `treasure.ray`", "lm_eval": "lm-evaluation-harness: `treasure.lm_eval`",
}
WIDTH = 110


def exported():
    """The names of the package, by module."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    names = {node.module: [name.name for name in node.names] for node in tree.body if isinstance(node, ast.ImportFrom) and node.module}
    return {**names, "ray": ["Generate"], "lm_eval": ["TreasureLM"]}


def signature(name, function, bound):
    """A call as it is written, a line a parameter where one line does not hold it."""
    shown = ast.parse(ast.unparse(function)).body[0]
    if bound:
        (shown.args.posonlyargs or shown.args.args).pop(0)
    text = ast.unparse(shown.args)
    gives = f" -> {ast.unparse(shown.returns).strip(chr(39))}" if shown.returns and function.name != "__init__" else ""
    if len(name) + len(text) + len(gives) <= WIDTH:
        return f"{name}({text}){gives}"
    return "\n".join([f"{name}(", *(f"    {one}," for one in split(text)), f"){gives}"])


def split(text):
    """Parameters apart; commas inside brackets belong to them."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def words(node):
    return inspect.cleandoc(ast.get_docstring(node) or "")


def decorated(node, *names):
    return any(ast.unparse(one).split("(")[0] in names for one in node.decorator_list)


def functions(body):
    """Functions with names for others, without the overloads that only type checkers read."""
    return [
        node for node in body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not decorated(node, "overload")
    ]


def fields(node, lines):
    """The fields of a class with the comments above them, and its properties."""
    made = []
    for one in node.body:
        if isinstance(one, ast.AnnAssign):
            above, at = [], one.lineno - 2
            while lines[at].strip().startswith("#:"):
                above.insert(0, lines[at].strip()[2:].strip())
                at -= 1
            made.append((one.target.id, ast.unparse(one.annotation), " ".join(above)))
        elif isinstance(one, ast.FunctionDef) and decorated(one, "property") and not one.name.startswith("_"):
            made.append((one.name, ast.unparse(one.returns), words(one).replace("\n", " ")))
    return made


def of_class(node, lines, prefix):
    bases = [ast.unparse(base) for base in node.bases]
    shown = [base for base in bases if not base.startswith("_") and base not in ("Exception", "LM")]
    out = [f"### `{prefix}{node.name}`" + (f" ({', '.join(shown)})" if shown else ""), "", words(node), ""]
    start = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    if prefix != "treasure." and start:
        out += ["```python", signature(node.name, start[0], True), "```", ""]
    listed = fields(node, lines)
    if listed:
        out += ["| field | type | |", "|---|---|---|"]
        out += [f"| `{name}` | `{kind.replace('|', '∣')}` | {what} |" for name, kind, what in listed] + [""]
    for method in functions(node.body):
        if not decorated(method, "property"):
            out += ["```python", signature(f"{node.name}.{method.name}", method, not decorated(method, "staticmethod")), "```", ""]
            out += [words(method), ""]
    return out


def page():
    out = [
        "# Python: reference", "",
        "Written from the package's docstrings by `python crates/treasure-py/reference.py --write docs/python-api.md`; the guide is",
        "[python.md](python.md).", "",
    ]
    names = exported()
    for module, title in PARTS.items():
        source = (PACKAGE / f"{module}.py").read_text()
        nodes = {getattr(node, "name", None): node for node in ast.parse(source).body if not getattr(node, "decorator_list", []) or not decorated(node, "overload")}
        prefix = "treasure." if module.startswith("_") else f"treasure.{module}."
        out += [f"## {title}", ""]
        for name in sorted(names[module], key=lambda name: getattr(nodes.get(name), "lineno", 0)):
            node = nodes.get(name)
            if isinstance(node, ast.ClassDef):
                out += of_class(node, source.splitlines(), prefix)
            elif isinstance(node, ast.FunctionDef):
                out += [f"### `{prefix}{name}`", "", "```python", signature(prefix + name, node, False), "```", "", words(node), ""]
    return "\n".join(out).rstrip() + "\n"


def main():
    action, file = sys.argv[1], Path(sys.argv[2])
    if action == "--write":
        file.write_text(page())
    elif file.read_text() != page():
        sys.exit(f"{file}: expected the reference of these sources, got an older one\nhint: {' '.join(sys.argv[:1])} --write {file}")


main()
