"""The reference pages of the site (docs/conf.py), as MyST Markdown: Python from the stub and the modules that it
names, C from the headers."""

import ast
import re
import textwrap

import defs

PACKAGE = defs.ROOT / "python" / "tachograph"
HEADERS = ("types.h", "error.h", "read.h", "record.h")


def prose(text):
    """Plain text as Markdown: paragraphs stay, indented lines become code, names of the library are set as code."""
    parts = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.splitlines()
        indented = [line.startswith("    ") for line in lines]
        start = indented.index(True) if any(indented) else len(lines)
        while start < len(lines) and not all(indented[start:]):  # an indented line inside a paragraph is a paragraph's
            start = indented.index(True, start + 1) if True in indented[start + 1 :] else len(lines)
        words, code = lines[:start], lines[start:]
        if words:
            parts.append(marked("\n".join(line.strip() for line in words)))
        if code:
            parts.append("```none\n" + textwrap.dedent("\n".join(code)) + "\n```")
    return "\n\n".join(parts)


def marked(text):
    quoted = re.split(r"(`[^`\n]+`)", text)
    for i in range(0, len(quoted), 2):
        plain = re.sub(r"([\\*_<>\[\]`|#$])", r"\\\1", quoted[i])
        quoted[i] = re.sub(r"\b((?:tg|TG)\\_(?:\w|\\_)+)", lambda m: "`" + m.group(1).replace("\\", "") + "`", plain)
    return re.sub(r"^([-+]|\d+[.)]) ", r"\\\1 ", "".join(quoted), flags=re.M)


def directive(kind, signature, body, depth=0):
    fence = ":" * (6 - depth)
    return f"{fence}{{{kind}}} {signature}\n\n{body}\n{fence}\n"


# ---- Python ------------------------------------------------------------------------------------------------------


def parsed(module):
    """The syntax tree of a module of the package, by its dotted name below it; its stub where there is one."""
    path = PACKAGE.joinpath(*module.split(".")) if module else PACKAGE
    for candidate in (path.with_suffix(".pyi"), path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return ast.parse(candidate.read_text(encoding="utf-8")), candidate.name == "__init__.py"
    return None, False


def find(module, name, depth=0):
    """The function or class that a module of the package offers under this name, through its imports."""
    tree, is_package = parsed(module)
    for node in tree.body if tree and depth < 8 else ():
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and node.level:
            above = module.split(".") if module else []
            above = above[: len(above) - node.level + (1 if is_package else 0)]
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return find(".".join([*above, *filter(None, [node.module])]), alias.name, depth + 1)
    return None


def signature(node, is_method=False):
    arguments = ast.parse("lambda: 0", mode="eval").body.args if node is None else node.args
    if is_method and not any(ast.unparse(d) == "staticmethod" for d in node.decorator_list):
        first = arguments.posonlyargs or arguments.args
        del first[:1]
    returned = f" -> {ast.unparse(node.returns)}" if node is not None and node.returns else ""
    return f"({ast.unparse(arguments)}){returned}"


def documented(node):
    text = ast.get_docstring(node)
    return prose(text) if text else ""


def members(node):
    parts, seen = [], set()
    for item in node.body:
        if not isinstance(item, ast.FunctionDef) or item.name.startswith("_") or item.name in seen:
            continue
        seen.add(item.name)
        decorators = {ast.unparse(d) for d in item.decorator_list}
        if decorators & {"property", "functools.cached_property"}:
            kind = f" -> {ast.unparse(item.returns)}" if item.returns else ""
            parts.append(directive("py:property", item.name, (f"`{kind[4:]}` " if kind else "") + documented(item), 1))
        elif "overload" in decorators:
            parts.append(
                directive("py:method", f"{item.name}(question, **arguments) -> Table", "One form a question.", 1)
            )
        else:
            parts.append(directive("py:method", item.name + signature(item, True), documented(item), 1))
    return "\n".join(parts)


def entry(name, node):
    if isinstance(node, ast.FunctionDef):
        return directive("py:function", name + signature(node), documented(node))
    made = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    fields = [
        f"{n.target.id}: {ast.unparse(n.annotation)}"
        for n in node.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and not n.target.id.startswith("_")
    ]
    body = [documented(node), "```python\n" + "\n".join(fields) + "\n```" if fields else "", members(node)]
    head = name + (signature(made, True).split(" -> ")[0] if made else "")
    return directive("py:class", head, "\n\n".join(filter(None, body)))


def is_row(node):
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "TypedDict" for base in node.bases)


def python_page():
    tree, _ = parsed("__init__")
    parts = ["```{py:module} tachograph\n```\n", "## Traces and answers\n"]
    shown = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")]
    for node in shown:
        if not is_row(node):
            parts.append(entry(node.name, node))
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not node.level or not node.module:
            continue
        names = [a.asname or a.name for a in node.names if not (a.asname or a.name).startswith("_")]
        found = [(name, find(node.module, name)) for name in names]
        if found:
            parts.append(f"## From `{node.module.split('.')[-1].strip('_')}`\n")
            parts += [
                entry(name, at) if at else directive("py:data", name, "As in `torch.profiler`.") for name, at in found
            ]
    return "\n".join(parts)


# ---- C -----------------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<line>^[ \t]*#[^\n]*)|(?P<blank>\s+)", flags=re.S | re.M)


def comment_text(raw):
    return "\n".join(re.sub(r"^ \* ?", "", line) for line in raw.strip().splitlines())


def declaration_end(text, start):
    depth, i = 0, start
    while i < len(text):
        if text.startswith("/*", i):
            i = text.index("*/", i) + 1
        elif text[i] in "{}":
            depth += 1 if text[i] == "{" else -1
        elif text[i] == ";" and depth == 0:
            return i + 1
        i += 1
    return len(text)


def declarations(text):
    """(heading or None, comment before, declaration, comment behind it) in order."""
    i, before, heading = 0, "", None
    while i < len(text):
        m = TOKEN.match(text, i)
        if m:
            i = m.end()
            if m.group("comment") is not None:
                title = re.fullmatch(r"\s*---- (.+?) -+\s*", m.group("comment"))
                heading, before = (title.group(1), "") if title else (heading, comment_text(m.group("comment")))
            elif re.match(r"#define TG_(?!API)\w+ +\S", m.group("line") or ""):
                yield heading, before, m.group("line"), ""
                before, heading = "", None
            continue
        if text.startswith(('extern "C" {', "}"), i):
            i = text.index("\n", i)
            continue
        end = declaration_end(text, i)
        behind = re.match(r"[ \t]*/\*(.*?)\*/", text[end:], flags=re.S)
        yield heading, before, text[i:end], comment_text(behind.group(1)) if behind else ""
        i, before, heading = end + (behind.end() if behind else 0), "", None


def c_entry(before, code, behind):
    words = "\n\n".join(filter(None, [prose(before), prose(behind)]))
    function = re.fullmatch(r"TG_API\s+([^{}]*\)\s*);", code, flags=re.S)
    if function and "(*" not in code:
        return directive("c:function", " ".join(function.group(1).split()), words)
    return "\n\n".join(filter(None, [words, f"```c\n{code}\n```\n"]))


def without_python(text):
    """The header without the part that only Python's extension sees."""
    return re.sub(r"/\* ---- for the Python extension.*?#endif\n", "", text, flags=re.S)


def c_page():
    parts = []
    for name in HEADERS:
        text = without_python((defs.ROOT / "include" / "tachograph" / name).read_text(encoding="utf-8"))
        about = re.match(r"/\*(.*?)\*/", text, flags=re.S)
        parts += [f"## `tachograph/{name}`\n", prose(comment_text(about.group(1))) + "\n"]
        for heading, before, code, behind in declarations(text[about.end() :]):
            if heading:
                parts.append(f"### {name}: {heading}\n")
            parts.append(c_entry(before, code, behind))
    return "\n".join(parts)


PAGES = {"python": python_page, "c": c_page}
