"""The console command `tachograph`: hands over to the binary in the wheel, and passes it which Python this
is."""

import os
import pathlib
import sys


def main() -> None:
    package = pathlib.Path(__file__).resolve().parent
    binary = package / "bin" / "tachograph"
    os.environ["TACHOGRAPH_PYTHON"], os.environ["TACHOGRAPH_PACKAGE"] = sys.executable, str(package)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()  # what a sitecustomize printed would be lost
    try:
        os.execv(binary, [str(binary), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"tachograph: cannot run {binary}: {error.strerror}; install the package again")


if __name__ == "__main__":
    main()
