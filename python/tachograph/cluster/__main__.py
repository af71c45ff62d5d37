"""`tachograph summarize|ask|diff --on ENGINE` comes here: ENGINE THREADS FOLDER RANK…; the summary of the ranks goes to
FOLDER/run.tsum, the ranks that could not be read, with the reason, to FOLDER/missing, an error to FOLDER/error."""

import pathlib
import sys

from . import ClusterError, gather


def main() -> int:
    on, threads, folder, *paths = sys.argv[1:]
    try:
        found = gather(folder, tuple(paths), on, int(threads), None)
    except ClusterError as error:
        (pathlib.Path(folder) / "error").write_text(
            f"{' '.join(str(error).split())}\n", encoding="utf-8", errors="surrogateescape"
        )
        return error.status
    except KeyboardInterrupt:
        return 130
    lines = (f"{' '.join(path.split())}\t{' '.join(why.split())}\n" for path, why in found.missing)
    (pathlib.Path(folder) / "missing").write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    return 0


if __name__ == "__main__":
    sys.exit(main())
