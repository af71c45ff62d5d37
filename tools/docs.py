#!/usr/bin/env python3
"""Refresh the tables in docs/**/*.md that come from the .def lists. Between `<!-- table: NAME -->` and `<!-- end -->`
the text is generated; everything else is written by hand.

    tools/docs.py            exit status 1 when a table is out of date
    tools/docs.py --write    rewrite the tables"""

import re
import sys

import defs

ROLES = "src/analyze/roles.def"
TYPES = {"TEXT": "text", "INT": "integer", "REAL": "real", "BOOL": "yes/no"}


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(cell(str(c)) for c in row) + " |" for row in rows]
    return "\n".join(lines)


def rooms():
    """Question → its page in docs/metrics: the room of the list that has it."""
    found = {}
    for path in sorted((defs.ROOT / "src").rglob("questions_*.def")):
        parts = path.relative_to(defs.ROOT / "src").parts
        page = {"replay": "model", "diagnose": "finding_rules"}.get(parts[0], parts[1])
        for name in re.findall(r"^QUESTION\((\w+)", path.read_text(encoding="utf-8"), flags=re.M):
            found[name] = page
    return found


def questions(room):
    page = rooms()
    return lambda: question_tables(q for q in defs.questions() if page[q.name] == room)


def question_tables(of):
    parts = []
    for q in of:
        parts.append(f"### `{q.name}`\n\n{q.meaning[0].upper()}{q.meaning[1:]}.\n")
        if q.arguments:
            parts.append(
                table(
                    ["argument", "default", "meaning"],
                    [(f"`{n}`", f"`{d}`" if d else "", m) for n, d, m in q.arguments],
                )
                + "\n"
            )
        parts.append(
            table(["column", "type", "unit", "meaning"], [(f"`{n}`", TYPES[t], u, m) for n, t, u, m in q.columns])
            + "\n"
        )
    return "\n".join(parts).rstrip("\n")


def question_names():
    page = rooms()
    rows = [(f"[`{q.name}`](metrics/{page[q.name]}.md#{q.name})", q.meaning) for q in defs.questions()]
    return table(["question", "answers"], rows)


def common_arguments():
    return table(
        ["argument", "default", "meaning"],
        [(f"`{n}`", f"`{d}`" if d else "", m) for n, d, m in defs.common_arguments()],
    )


def diff_arguments():
    rows = [a for m, a in defs.read("src/analyze/diff/diff.def") if m == "DIFF_ARGUMENT"]
    return table(["argument", "default", "meaning"], [(f"`{n}`", f"`{d}`" if d else "", m) for n, d, m in rows])


def diff_columns():
    rows = [a for m, a in defs.read("src/analyze/diff/diff.def") if m == "DIFF_COLUMN"]
    return table(["column", "type", "unit", "meaning"], [(f"`{n}`", TYPES[t], u, m) for n, t, u, m in rows])


def losses():
    return table(
        ["loss", "kind", "meaning"], [(f"`{n}`", k.lower(), m) for _, (n, k, m) in defs.read("src/trace/losses.def")]
    )


def roles():
    return table(["role", "its cells are"], [(f"`{a[1]}`", a[2]) for m, a in defs.read(ROLES) if m == "ROLE"])


def folds():
    return table(["fold", "becomes"], [(f"`{a[-2]}`", a[-1]) for m, a in defs.read(ROLES) if m == "FOLD" and a[-2]])


def causes():
    return table(
        ["cause", "meaning"], [(f"`{a[1]}`", a[2]) for m, a in defs.read("src/diagnose/causes.def") if m == "CAUSE"]
    )


def errors():
    return table(
        ["code", "exit status", "meaning"],
        [(f"`{n}`", s, t) for _, (n, s, t) in defs.read("include/tachograph/err.def")],
    )


def formats():
    rows = []
    lines = defs.read("src/show/formats.def")
    for name, suffix, *writers, meaning in (args for macro, args in lines if macro == "FORMAT"):
        suffix = ", ".join(
            f"`{s}`" for s in [suffix, *(args[1] for macro, args in lines if macro == "ALSO" and args[0] == name)]
        )
        rows.append((f"`{name}`", suffix, *("yes" if w == "YES" else "" for w in writers), meaning))
    return table(["format", "suffix", "tables", "traces", "the report", "what it is"], rows)


def categories():
    return table(
        ["category in the file", "taken as"],
        [
            (f"`{n}`" if n else "(none)", c.lower().replace("_", " "))
            for _, (n, c) in defs.read("src/trace/categories.def")
        ],
    )


def commands():
    rows = defs.read("src/cli/commands.def")
    parts = []
    for macro, args in rows:
        if macro != "COMMAND":
            continue
        name, operands, meaning, example = args
        parts.append(
            f"### `tachograph {name}{' ' + operands if operands else ''}`\n\n{meaning[0].upper()}{meaning[1:]}.\n\n```\n{example}\n```\n"
        )
        options = option_rows(rows, name)
        if options:
            parts.append(table(["option", "meaning"], options) + "\n")
    return "\n".join(parts).rstrip("\n")


def option_rows(rows, command):
    found = []
    for macro, args in rows:
        if macro not in ("OPTION", "ARGUMENT") or args[0] != command:
            continue
        letter = args[2].strip("'") if macro == "OPTION" and args[2] != "0" else ""
        value = args[-2] if args[-2] != "NULL" else ""
        spelled = f"--{args[1]}" + (f" {value}" if value else "")
        found.append((f"`{'-' + letter + ', ' if letter else ''}{spelled}`", args[-1]))
    return found


def every_option():
    return table(["option", "meaning"], option_rows(defs.read("src/cli/commands.def"), "every"))


def chunks():
    return table(
        ["number", "name", "meaning"], [(n, f"`{name}`", m) for _, (name, n, m) in defs.read("src/format/chunks.def")]
    )


def raw(macro, head):
    def make():
        rows = [a for m, a in defs.read("src/format/events.def") if m == macro]
        if macro == "RAW_FIELD":
            rows = [
                (offset, kind.replace("_t", "").replace("uint", "u"), f"`{name}`", meaning)
                for kind, name, offset, meaning in rows
            ]
        else:
            rows = [(f"`{row[0]}`", *row[1:]) for row in rows]
        return table(head, rows)

    return make


def raw_inputs():
    rows = [
        (f"`{name}`", number, layout, meaning)
        for _, (name, number, layout, meaning) in defs.read("src/format/inputs.def")
    ]
    return table(["input", "number", "bytes behind the number", "meaning"], rows)


def raw_launch():
    rows = [(f"`{name}`", number, meaning) for _, (name, number, meaning) in defs.read("src/format/launch.def")]
    return table(["field", "number", "meaning"], rows)


def raw_label():
    rows = [(f"`{name}`", number, meaning) for _, (name, number, meaning) in defs.read("src/format/label.def")]
    return table(["field", "number", "meaning"], rows)


def columns():
    rows = []
    for _, (_, of, field, chunk, width, how) in defs.read("src/trace/columns.def"):
        rows.append(
            (f"`{chunk}`", f"`{of}.{field}`", width, how.replace("TG_T_", "").replace(" |", ",") if how != "0" else "")
        )
    return table(["chunk", "column", "bytes per value", "transform"], rows)


TABLES = {
    "roles": roles,
    "folds": folds,
    "chunks": chunks,
    "columns": columns,
    "raw-fields": raw("RAW_FIELD", ["offset", "type", "field", "meaning"]),
    "raw-scopes": raw("RAW_SCOPE", ["scope", "number", "category", "meaning"]),
    "raw-flags": raw("RAW_FLAG", ["flag", "bit", "meaning"]),
    "raw-dictionaries": raw("RAW_DICTIONARY", ["dictionary", "number", "meaning"]),
    "raw-counts": raw("RAW_COUNT", ["counter", "position", "loss it is added to", "meaning"]),
    "raw-inputs": raw_inputs,
    "raw-launch": raw_launch,
    "raw-label": raw_label,
    **{f"questions-{room}": questions(room) for room in sorted(set(rooms().values()))},
    "question-names": question_names,
    "common-arguments": common_arguments,
    "diff-arguments": diff_arguments,
    "diff-columns": diff_columns,
    "losses": losses,
    "causes": causes,
    "errors": errors,
    "formats": formats,
    "categories": categories,
    "commands": commands,
    "every-option": every_option,
}


def refresh(text):
    def fill(match):
        return f"<!-- table: {match.group(1)} -->\n{TABLES[match.group(1)]()}\n<!-- end -->"

    return re.sub(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", fill, text, flags=re.S)


def main():
    stale = []
    for path in [defs.ROOT / "README.md", *sorted((defs.ROOT / "docs").rglob("*.md"))]:
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = refresh(old)
        if new != old:
            stale.append(path.relative_to(defs.ROOT).as_posix())
            if "--write" in sys.argv:
                path.write_text(new, encoding="utf-8")
    if "--write" in sys.argv or not stale:
        return 0
    print(f"out of date: {', '.join(stale)}; run tools/docs.py --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
