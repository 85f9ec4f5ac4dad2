"""What the site (`mkdocs.yml`, `make docs`) takes from the code at build time.

Lines of the pages stand for what is generated:

    <!-- command: plan -->          usage, arguments and options of `tacit plan`, from its own help
    <!-- names: tacit -->           a table of the public names, linked to their description
    <!-- describe: tacit.plan -->   the description of every public name of a room, from the docstrings
    <!-- http -->                   the routes of the service, from its OpenAPI description

README, CONTRIBUTING, CHANGELOG and SECURITY, the browser client's README and the JSON Schemas become pages and files of
the site. A public name without a docstring stops the build, as a broken link does.
"""

from __future__ import annotations

import inspect
import json
import re
import tempfile
from datetime import date
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent

#: The rooms with public names; `tacit` itself names the most used of them.
ROOMS = (
    "task", "prior", "microdata", "designs", "designs.rules", "mechanism", "plan", "randomize", "tally", "estimates",
    "files", "files.spark", "personal",
)  # fmt: skip

#: Mechanisms are used through the interface `Mechanism`, which describes their methods.
WITHOUT_MEMBERS = {"BlockDesign", "CoreTail", "ManyValues", "Counts", "Coverage", "Cell"}

#: Files from outside `docs/`: where they come from, and what they are called on the site.
TAKEN = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "browser/README.md": "browser.md",
    "src/tacit/server/site/pages/icon.svg": "images/icon.svg",
    "browser/index.d.ts": "browser/index.d.ts",
    "src/tacit/plan/plan.schema.json": "schemas/plan.schema.json",
    "src/tacit/files/tally.schema.json": "schemas/tally.schema.json",
}


# -- MkDocs calls these -------------------------------------------------------------------------------------------


def on_files(files: Files, config: Any) -> Files:
    """Add the files from outside `docs/`, and the OpenAPI description."""
    for source, name in TAKEN.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook(path)))
    files.append(File.generated(config, "schemas/openapi.json", content=json.dumps(openapi(), indent=1)))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Fill in what is generated, and lead links to the places that files have on the site."""
    markdown = re.sub(r"^<!-- command: ([\w -]+) -->$", lambda found: command(found[1]), markdown, flags=re.MULTILINE)
    markdown = re.sub(r"^<!-- names: ([\w.]+) -->$", lambda found: names(found[1]), markdown, flags=re.MULTILINE)
    markdown = re.sub(r"^<!-- describe: ([\w.]+) -->$", lambda found: describe(found[1]), markdown, flags=re.MULTILINE)
    markdown = re.sub(r"^<!-- http -->$", lambda _: routes(openapi()), markdown, flags=re.MULTILINE)
    if page.file.src_uri in ("theory.md", "threat-model.md", "index.md"):
        markdown = typeset(markdown)
    markdown = re.sub(r"\[[\w-]+\.md\]\(([\w-]+\.md)(#[\w-]+)?\)", titled, markdown)
    source = next((each for each, name in TAKEN.items() if name == page.file.src_uri), f"docs/{page.file.src_uri}")
    return re.sub(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)", lambda found: link(found, source), markdown)


#: Powers and indices as the text has them: e^ε, 2^w, v_y, P₁.
_POWER = re.compile(r"(?<=[\w)])\^(−?\w+|\([^()\s]*\))")
_INDEX = re.compile(r"(?<![\w`])([A-Za-zλμγηπ])_([a-z]{1,2})(?![\w])")


def typeset(markdown: str) -> str:
    """Powers and indices raised and lowered, outside of code."""
    parts = re.split(
        r"(^```.*?^```|^    .*?$|`[^`\n]*`|<!--.*?-->|\]\([^)]*\))", markdown, flags=re.MULTILINE | re.DOTALL
    )
    for place in range(0, len(parts), 2):
        raised = _POWER.sub(lambda found: f"<sup>{found[1]}</sup>", parts[place])
        parts[place] = _INDEX.sub(r"\1<sub>\2</sub>", raised)
    return "".join(parts)


def titled(found: re.Match[str]) -> str:
    """A link that shows the name of a page's file shows the page's title."""
    page = ROOT / "docs" / found[1]
    title = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE) if page.is_file() else None
    return found[0] if title is None else f"[{title[1]}]({found[1]}{found[2] or ''})"


def link(found: re.Match[str], source: str) -> str:
    """A link of the repository as a link of the site; what the site does not have is named by its path."""
    path, anchor = found[1], found[2] or ""
    there = (ROOT / source).parent.joinpath(path).resolve().relative_to(ROOT).as_posix()
    depth = TAKEN.get(source, source.removeprefix("docs/")).count("/")
    back = "../" * depth
    if there in TAKEN:
        return f"]({back}{TAKEN[there]}{anchor})"
    if there == "README.md":
        return f"]({back}index.md)"
    if there.startswith("docs/"):
        return f"]({back}{there.removeprefix('docs/')}{anchor})"
    if not (ROOT / there).exists():
        raise PluginError(f"{source}: the link to {path} leads nowhere")
    return f"](# '{there} in the repository')"


# -- Commands -----------------------------------------------------------------------------------------------------


def command(name: str) -> str:
    """Usage, arguments and options of a command such as `plan` or `personal plan`, from its own help."""
    from tacit.cli.everything import command_of

    first, *rest = name.split()
    found: Any = command_of(first)
    for word in rest:
        found = found.commands[word]
    context = found.make_context(f"tacit {name.removesuffix(' run')}", [], resilient_parsing=True)
    usage = " ".join(context.get_usage().removeprefix("Usage:").split())
    lines = [plain(found.help or ""), "", "```text", usage, "```", ""]
    rows = [row for param in found.params if (row := option(param, context)) is not None]
    if rows:
        lines += ["| argument or option | meaning |", "|---|---|", *rows, ""]
    if found.epilog:
        lines += ["```sh", plain(found.epilog).removeprefix("Example: "), "```", ""]
    return "\n".join(lines)


def option(param: Any, context: Any) -> str | None:
    """One row of the table; None for `--help`."""
    if "--help" in param.opts or getattr(param, "hidden", False):
        return None
    meaning = plain(getattr(param, "help", "") or "")
    if not meaning:
        raise PluginError(f"{context.info_name}: {param.opts[0]} has no help")
    if param.param_type_name == "argument":
        written = f"`{param.metavar or param.name.upper()}`"
    else:
        kind = "" if param.is_flag else f" {param.metavar or param.name.upper()}"
        written = ", ".join(f"`{each}{kind}`" for each in (*param.opts, *param.secondary_opts))
        default = param.default if not callable(param.default) else None
        if default not in (None, False, True, (), [], "") and "default" not in meaning and "else " not in meaning:
            meaning += f" Default: `{default}`."
        if param.required:
            meaning += " Required."
        if getattr(param, "envvar", None):
            meaning += f" Environment variable: `{param.envvar}`."
        if param.multiple and "repeatable" not in meaning:
            meaning += " Repeatable."
    return f"| {written} | {meaning.replace('|', chr(92) + '|')} |"


def plain(text: str) -> str:
    """Help without the marks of rich."""
    return re.sub(r"\[/?[a-z ]*\]", "", inspect.cleandoc(text)).replace("\b", "").strip()


# -- Names --------------------------------------------------------------------------------------------------------


def public(room: str) -> dict[str, Any]:
    """The public names of a module: `__all__`, or else what it defines without an underscore."""
    module = import_module(room)
    listed = getattr(module, "__all__", None) or [
        name for name, found in vars(module).items()
        if not name.startswith("_") and callable(found) and getattr(found, "__module__", None) == room
    ]  # fmt: skip
    return {name: getattr(module, name) for name in listed}


def homes() -> dict[str, str]:
    """Each public name that is described, and the first room that has it: `Plan` → `tacit.plan`."""
    found: dict[str, tuple[str, Any]] = {}
    for room in ROOMS:
        for name, thing in public(f"tacit.{room}").items():
            known = next(
                (path for path, (_, other) in found.items() if other is thing and path.endswith(f".{name}")), None
            )
            if known is None:
                found[f"tacit.{room}.{name}"] = (room, thing)
    return {path: f"tacit.{room}" for path, (room, _) in found.items()}


def has_docstring(thing: Any) -> bool:
    """A class or a function, also a cached one; constants and types have a comment instead."""
    return inspect.isclass(thing) or _is_function(thing)


def _is_function(thing: Any) -> bool:
    return inspect.isfunction(inspect.unwrap(thing))


def summary(thing: Any, name: str) -> str:
    """The first sentence of a docstring; a class or function without one stops the build."""
    text = inspect.getdoc(thing) or ""
    if has_docstring(thing):
        if not text or text.startswith(f"{thing.__name__}("):
            raise PluginError(f"{name} is public and has no docstring")
        return " ".join(text.split("\n\n")[0].split())
    return "A constant or a type."


def names(room: str) -> str:
    """A table of the public names of a module, with the first sentence of each."""
    places = homes()
    rows = []
    for name, thing in sorted(public(room).items(), key=lambda item: not _is_function(item[1])):
        place = next(path for path in places if path.endswith(f".{name}") and _get(path) is thing)
        rows.append(f"| [`{name}`][{place}] | {summary(thing, name).replace('|', chr(92) + '|')} |")
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def _get(path: str) -> Any:
    room, _, name = path.rpartition(".")
    return getattr(import_module(room), name)


def describe(room: str) -> str:
    """The description of every public name of a room that no earlier room describes."""
    blocks = []
    # Functions come first: they are what a reader calls.
    mine = [path for path, home in homes().items() if home == room]
    mine.sort(key=lambda path: not _is_function(_get(path)))
    for path in mine:
        name, thing = path.rpartition(".")[2], _get(path)
        if not has_docstring(thing):
            blocks.append(f"## `{name}` {{ #{path} }}\n\n{constant(room, name)}\n")
            continue
        summary(thing, path)
        members = "\n    options:\n      members: false" if name in WITHOUT_MEMBERS else ""
        blocks.append(f"::: {thing.__module__}.{thing.__qualname__}{members}\n")
    return "\n".join(blocks)


def constant(room: str, name: str) -> str:
    """The comment `#:` above a constant or a type, where it is defined, and its value."""
    thing = getattr(import_module(room), name)
    source = ROOT / "src" / "tacit"
    for path in sorted(source.rglob("*.py"), key=lambda path: (room.split(".")[1] not in path.parts, path)):
        found = re.search(rf"((?:^#: .*\n)+){name}\b.*=", path.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            text = " ".join(line.removeprefix("#:").strip() for line in found[1].splitlines())
            return f"{text}\n\n```text\n{_short(thing)}\n```"
    raise PluginError(f"{room}.{name} is public and has no comment `#:` above it")


def _short(thing: Any) -> str:
    if isinstance(thing, dict):
        return ", ".join(map(str, thing))
    return re.sub(r"<class '([\w.]+)'>|tacit\.[\w.]*\.(?=[A-Z])|typing\.", r"\1", str(thing))


class Docstrings(griffe.Extension):
    """Doctests in the text of a docstring become blocks of code."""

    def on_instance(self, *, node: Any, obj: griffe.Object, agent: Any, **kwargs: Any) -> None:
        del node, agent, kwargs
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = re.sub(
                r"(?:^|(?<=\n\n))( *)>>> .*?(?=\n *\n|\Z)", _fenced, obj.docstring.value, flags=re.DOTALL
            )


def _fenced(found: re.Match[str]) -> str:
    return f"{found[1]}```pycon\n{found[0]}\n{found[1]}```"


# -- Notebooks ----------------------------------------------------------------------------------------------------


def notebook(path: Path) -> str:
    """A notebook as a page, with the results that are stored in it."""
    blocks = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        blocks.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for result in cell.get("outputs", []):
            data = result.get("data", {})
            printed = "".join(result.get("text", data.get("text/plain", "")))
            if "image/png" in data:
                image = "".join(data["image/png"]).strip()
                blocks.append(f'<img alt="The plot of the cell above" src="data:image/png;base64,{image}">')
            elif printed:
                blocks.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join([*blocks, f"[Download this notebook]({path.name})"]) + "\n"


# -- The service --------------------------------------------------------------------------------------------------


@cache
def openapi() -> dict[str, Any]:
    """The OpenAPI description of the service, as `/openapi.json` gives it."""
    from tacit.server.http.app import make_app
    from tacit.server.storage.store import Store

    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder, "data"), date.today)
        try:
            return dict(make_app(store).openapi())
        finally:
            store.close()


def routes(description: dict[str, Any]) -> str:
    """One section for each route: what it does, its parameters, body and answers."""
    lines: list[str] = []
    for path, item in description["paths"].items():
        for method, operation in item.items():
            lines += [f"## `{method.upper()} {path}`", "", operation.get("description") or operation["summary"], ""]
            parameters = operation.get("parameters", [])
            if parameters:
                lines += ["| parameter | in | meaning |", "|---|---|---|"]
                lines += [
                    f"| `{each['name']}`{'' if each.get('required') else ', optional'} | {each['in']} "
                    f"| {' '.join(str(each.get('description') or each['schema'].get('type', '')).split())} |"
                    for each in parameters
                ]
                lines.append("")
            body = operation.get("requestBody", {}).get("content", {})
            if body:
                lines += ["Body: " + ", ".join(f"`{kind}`{_schema(each)}" for kind, each in body.items()), ""]
            answers = (f"{code} {answer['description']}" for code, answer in operation["responses"].items())
            lines += ["Answers: " + "; ".join(answers).replace("Successful Response", "done") + ".", ""]
    return "\n".join(lines)


def _schema(content: dict[str, Any]) -> str:
    reference = content.get("schema", {}).get("$ref", "")
    return f" ({reference.rpartition('/')[2]})" if reference else ""
