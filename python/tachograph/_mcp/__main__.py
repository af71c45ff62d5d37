"""`tachograph mcp ROOT…` comes here: a server on standard input and output."""

import sys


def main() -> int:
    from . import tools

    try:
        traces = tools.Traces(sys.argv[1:] or ["."])
    except ValueError as error:
        print(f"tachograph mcp: {error}", file=sys.stderr)
        return 2
    try:
        from .server import make_server
    except ImportError as error:
        print(f"tachograph mcp: {error}; pip install 'tachograph[mcp]'", file=sys.stderr)
        return 4
    make_server(traces).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
