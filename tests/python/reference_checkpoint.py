"""What checkpointing would save in a made-up training (reference_memory.py), run by run and moment by moment."""


class Run:
    """Of a layer's forward, and of the backward pass behind it; times in us."""

    def __init__(self, layer, forward, backward):
        self.layer, self.forward, self.backward = layer, forward, backward
        self.next = self.output = None
        self.blocks = self.activations = self.freed = self.kept = 0


def runs_of(story):
    """Sorted by their forward. In these stories a layer's forward is one operator, and its backward one node."""
    found = []
    for begin, end in story.passes:
        nodes = {}
        for i, s in enumerate(story.slices):
            if s[4] == "backward" and begin <= s[1] < end and story.module_of_node[i]:
                nodes[story.module_of_node[i]] = (s[1], s[2])
        earlier = max([stop for _, stop in story.passes if stop < begin], default=0)
        for layer, backward in nodes.items():
            inside = [(m[1], m[2]) for m in story.slices if m[5] == layer and earlier < m[1] < begin]
            (forward,) = [
                (s[1], s[2])
                for s in story.slices
                if s[4] == "op"
                and s[0] == 1
                and any(a < s[1] and s[2] < b for a, b in inside)
                and not any(
                    o is not s and o[4] == "op" and o[0] == 1 and o[1] <= s[1] and s[2] <= o[2] for o in story.slices
                )
            ]
            found.append((Run(layer, forward, backward), begin))
    found.sort(key=lambda f: f[0].forward)
    for (run, begin), after in zip(found, [*found[1:], None]):
        run.next = min(begin, after[0].forward[0]) if after else begin
    return [run for run, _ in found]


def divided(a, b):
    return a // b if a >= 0 else -(-a // b)


def judge(story, runs):
    """Every block with its category, the run that made it and the run that it is the input of."""
    for b in story.followed():
        b["category"] = story.judge(b)[0]
        begun = [r for r in runs if b["made"] is not None and r.forward[0] <= b["made"]]
        in_backward = b["made"] is not None and any(
            story.slices[i][4] == "backward" for i in story.around(b["track"], b["made"])
        )
        b["maker"] = begun[-1] if begun and b["made"] <= begun[-1].forward[1] and not in_backward else None
        begun = [r for r in runs if b["freed"] is not None and r.forward[0] < b["freed"]]
        user = begun[-1] if begun and b["category"] in ("temporary", "activation", "input") else None
        b["user"] = (
            user if user and b["freed"] <= user.next and (b["made"] is None or b["made"] < user.forward[0]) else None
        )
        b["own"] = (
            b["maker"] is not None
            and b["category"] == "activation"
            and (b["freed"] is None or b["freed"] >= b["maker"].backward[0])
        )
        yield b


def peak(before, changes):
    """changes: (time, bytes, is only for the moment); of one time what goes first, then what passes, then what
    comes."""
    now = most = before
    for _, size, passing in sorted(changes, key=lambda c: (c[0], 1 if c[2] else 0 if c[1] < 0 else 2)):
        most = max(most, now + size)
        now += 0 if passing else size
    return most


def checkpoint(story):
    """({layer: (blocks, activations, freed, kept, saving, ns)}, peak, peak with checkpoints)."""
    runs = runs_of(story)
    blocks = list(judge(story, runs))
    for run in runs:
        mine = [b for b in blocks if b["maker"] is run]
        leaves = any(not b["own"] and b["freed"] is not None and b["freed"] > run.next for b in mine)
        run.output = None if leaves else next((b for b in reversed(mine) if b["own"]), None)
    plain, changed = [], []
    for b in blocks:
        freed, run = b["freed"], b["maker"]
        if b["made"] is not None:
            plain.append((b["made"], b["bytes"], False))
        if freed is not None:
            plain.append((freed, -b["bytes"], False))
        if run and b["category"] == "activation":
            run.blocks, run.activations = run.blocks + 1, run.activations + b["bytes"]
        if b["own"] and b is not run.output:
            run.freed += b["bytes"]
            changed += [(run.forward[1], -b["bytes"], False), (run.backward[0], b["bytes"], False)]
        if b["user"]:
            b["user"].kept += b["bytes"]
            freed = b["user"].backward[1]
        changed += [(b["made"], b["bytes"], False)] if b["made"] is not None else []
        changed += [(freed, -b["bytes"], False)] if freed is not None else []
    for run in runs:
        mine = [
            (t, s)
            for b in blocks
            if b["maker"] is run
            for t, s in ((b["made"], b["bytes"]), (b["freed"], -b["bytes"]))
            if t is not None and t <= run.forward[1]
        ]
        changed.append((run.backward[0], peak(0, [(t, s, False) for t, s in mine]), True))
    before = sum(b["bytes"] for b in blocks if b["made"] is None)
    layers = {}
    for layer in {run.layer for run in runs}:
        of = [run for run in runs if run.layer == layer]
        sums = [sum(getattr(run, name) for run in of) for name in ("blocks", "activations", "freed", "kept")]
        if sums[1]:
            n = len(of)
            ns = sum(1000 * (run.forward[1] - run.forward[0]) for run in of)
            layers[layer] = (*(s // n for s in sums), divided(sums[2] - sums[3], n), ns // n)
    return layers, peak(before, plain), peak(before, changed)
