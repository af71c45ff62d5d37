"""The console command `tachograph`: hands over to the binary that the wheel carries."""
import os
import pathlib
import sys


def main() -> None:
    binary = pathlib.Path(__file__).parent / "bin" / "tachograph"
    try:
        os.execv(binary, [str(binary), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"tachograph: cannot run {binary}: {error.strerror}; install the package again")


if __name__ == "__main__":
    main()
