"""`tachograph replay` comes here: REQUESTS URL concurrency repeat text|json."""

import json
import sys

from .replay import replay_http


def main() -> int:
    path, url, concurrency, repeat, form = sys.argv[1:6]
    try:
        found = replay_http(path, url, concurrency=int(concurrency), repeat=int(repeat))
    except ValueError as error:
        print(f"tachograph replay: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"tachograph replay: {error.filename or path}: {error.strerror}", file=sys.stderr)
        return 4
    if form == "json":
        figures = {f"p{p}_ms": found.percentile(p) for p in (50, 95, 99)} if found.latencies_ms else {}
        print(
            json.dumps(
                {
                    "answered": len(found.latencies_ms),
                    "seconds": found.seconds,
                    **figures,
                    "failed": found.failed,
                    "concurrency": found.concurrency,
                    "first_error": found.first_error,
                }
            )
        )
    else:
        print(found)
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
