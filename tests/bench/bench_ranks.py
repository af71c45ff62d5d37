#!/usr/bin/env python3
"""Many ranks: wall time, CPU time and memory of the questions about ranks over a folder of grown traces.

    bench_ranks.py --ranks 64 --size-mb 150 [--cache DIR] [--bin PATH] [--python PATH] [--cores N]

The traces are written once into the cache folder, outside of the tree: one made-up training loop, the same on all
ranks, with collectives whose arrival differs by rank and clocks that are off by a known offset. Printed beside the
limits: wall time at most 1.2 times bytes by the parse rate, which is measured on one of the files in the same run;
anonymous memory at most 0.3 bytes per byte of the two largest files plus 1 MB a rank: of the question ranks, of the
report, of findings, of a question that adds up over the ranks, of a diff of the folder with itself, of check, of
converting each rank, and of Python's open with a question that adds up and one about a rank, above the interpreter's
own. Exit status 1 when a limit is missed or an offset is not found."""

import argparse
import json
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import grow
import measure

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTIVES = 8  # a step
TRANSFER_NS = 300_000
LATE_RANK, LATE_NS = 3, 900_000


def offset_ns(rank):
    """How far the rank's clock is ahead."""
    return (rank * 7919) % 1000 * 1000


def steps(size):
    """(text, end) of whole steps with at least `size` bytes together, and room between them for collectives."""
    loop, done, made = grow.Loop(1), len(grow.HEAD), []
    while done < size:
        begin = loop.now
        text = ",\n" + ",\n".join(loop.next_step())
        end = max(loop.now, loop.device)
        loop.now = loop.device = end + COLLECTIVES * 2_000_000
        length = '"dur": %d.%03d' % divmod(loop.now - begin, 1000)
        text = re.sub(
            r'"dur": [0-9.]+', length, text, count=1
        )  # the step, which comes first, lasts until its collectives are done
        made.append((text, end))
        done += len(text) + 1700 * COLLECTIVES
    return made


def collectives(rank, world, step, end):
    out = []
    for k in range(COLLECTIVES):
        begin, number = end + 2_000_000 * k, step * COLLECTIVES + k
        came = begin + 50_000 + (rank * 37) % 100 * 1000 + (LATE_NS if rank == LATE_RANK else 0)
        last = begin + 50_000 + 99_000 + LATE_NS
        correlation = 1_000_000_000 + number
        params = (
            '"Collective name": "allreduce", "In msg nelems": 1048576, "Out msg nelems": 1048576, "Group size": %d, "dtype": "Float",'
            ' "Process Group Name": "0", "Process Group Description": "default_pg", "Seq": %d, "Rank": %d'
            % (world, number, rank)
        )
        kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        text = grow.SLICE
        ahead = offset_ns(rank)
        out.append(text % ("cpu_op", "record_param_comms", 2201, 2202, grow.stamp(begin + ahead), 20, 0, params))
        out.append(
            text
            % (
                "cuda_runtime",
                "cudaLaunchKernelExC",
                2201,
                2202,
                grow.stamp(begin + 5000 + ahead),
                5,
                0,
                '"correlation": %d' % correlation,
            )
        )
        out.append(
            text
            % (
                "kernel",
                kernel,
                0,
                20,
                grow.stamp(came + ahead),
                (last + TRANSFER_NS - came) // 1000,
                0,
                '"device": 0, "stream": 20, "correlation": %d' % correlation,
            )
        )
    return ",\n" + ",\n".join(out)


def write(folder, ranks, size):
    """The files, unless they are there; a half-made folder has no `done`."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    made = steps(size)
    for rank in range(ranks):
        head = grow.HEAD.replace('"rank": 0, "world_size": 8', '"rank": %d, "world_size": %d' % (rank, ranks))
        with open(folder / ("rank%04d.json" % rank), "w", encoding="ascii", newline="\n") as f:
            f.write(head)
            for k, (text, end) in enumerate(made):
                f.write(text)
                f.write(collectives(rank, ranks, k, end))
            f.write(grow.TAIL)
    (folder / "done").touch()


def rows(command, cores):
    answer = json.loads(measure.output(command + ["--json"], cores))
    names = [c["name"] for c in answer["columns"]]
    return [dict(zip(names, row)) for row in answer["rows"]]


def check(binary, folder, ranks, cores):
    """The offsets and the late rank are found, to the nanosecond: their ends agree exactly."""
    clocks = rows([binary, "ask", str(folder), "clocks"], cores)
    wrong = [c["rank"] for c in clocks if c["offset_ns"] != offset_ns(c["rank"]) - offset_ns(0)]
    first = rows([binary, "ask", str(folder), "stragglers", "--limit", "1"], cores)[0]
    return not wrong and (ranks <= LATE_RANK or first["rank"] == LATE_RANK)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--size-mb", type=float, default=150)
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "tachograph-bench")
    parser.add_argument("--bin", default=str(ROOT / "build" / "tachograph"))
    parser.add_argument("--python", default=sys.executable, help="one that has tachograph installed")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    folder = args.cache / ("ranks-%d-%g" % (args.ranks, args.size_mb))
    write(folder, args.ranks, int(args.size_mb * 1e6))
    cores = set(range(args.cores))
    sizes = sorted(p.stat().st_size for p in folder.glob("*.json"))
    one, all_ranks = [args.bin, "ask", str(folder / "rank0000.json"), "losses"], [args.bin, "ask", str(folder), "ranks"]
    times = measure.alternate({"one file, parsed": one, "all ranks": all_ranks}, args.rounds, cores)
    wall, parse = min(times.wall["all ranks"]), min(times.wall["one file, parsed"])
    wall_limit = 1.2 * sum(sizes) * parse / sizes[0]
    peak, peak_limit = measure.peak_anonymous(all_ranks, cores), 0.3 * sum(sizes[-2:]) + 1e6 * args.ranks
    found = check(args.bin, folder, args.ranks, cores)
    python = "import sys, tachograph; run = tachograph.open(sys.argv[1], progress=False); run.ask('ops'); run.ask('events', rank=0, limit=10)"
    packed = tempfile.TemporaryDirectory(dir=args.cache)
    others = {
        "report": [args.bin, "report", str(folder)],
        "ask ops": [args.bin, "ask", str(folder), "ops"],
        "ask findings": [args.bin, "ask", str(folder), "findings"],
        "check": [args.bin, "check", str(folder)],
        "convert": [args.bin, "convert", str(folder), "-o", packed.name],
        "Python": [args.python, "-c", python, str(folder)],
    }
    start = measure.peak_anonymous([args.python, "-c", "import tachograph"], cores)
    peaks = {
        name: measure.peak_anonymous(command, cores) - (start if name == "Python" else 0)
        for name, command in others.items()
    }
    packed.cleanup()
    print("%d ranks, %.0f MB, %.2f GB/s parsed" % (args.ranks, sum(sizes) / 1e6, sizes[0] / parse / 1e9))
    print("wall   %8.2f s   limit %8.2f s   %s" % (wall, wall_limit, times.note("all ranks")))
    print("memory %8.1f MB  limit %8.1f MB" % (peak / 1e6, peak_limit / 1e6))
    for name, other in peaks.items():
        print("memory %8.1f MB  limit %8.1f MB   %s" % (other / 1e6, peak_limit / 1e6, name))
    print("clocks and the late rank %s" % ("found" if found else "NOT found"))
    return 0 if wall <= wall_limit and max(peak, *peaks.values()) <= peak_limit and found else 1


if __name__ == "__main__":
    sys.exit(main())
