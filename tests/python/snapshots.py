"""Memory snapshots as torch.cuda.memory._dump_snapshot writes them, of an allocator that is simulated: the contents of
its history are known."""

import random

FRAMES = [{"filename": f"/site/pkg/module_{i % 7}.py", "line": 10 + i, "name": f"function_{i}"} for i in range(40)]
MIB = 1 << 20


def entry(action, addr, size, time_us, frames=None, **more):
    key = "device_free" if action == "oom" else "addr"
    made = {
        "action": action,
        key: addr,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "compile_context": "N/A",
        "user_metadata": "",
        "pool_id": (0, 0),
    }
    if frames is not None:
        made["frames"] = frames
    return {**made, **more}


class Device:
    """One device: blocks of one large segment, some from before the history."""

    def __init__(self, number, seed, events, stacks=True):
        self.r = random.Random(seed)
        self.number, self.base, self.time = number, 0x7F0000000000 + number * (1 << 40), 1_700_000_000_000_000
        self.segment_bytes, self.next, self.live, self.trace, self.stacks = 512 * MIB, 0, {}, [], stacks
        self.frames_of = {}
        for _ in range(5):
            self.take(record=False)
        for _ in range(events):
            self.step()

    def frames(self):
        if not self.stacks:
            return None
        first = self.r.randrange(8)
        return FRAMES[first : first + self.r.randrange(1, 12)]

    def add(self, action, addr, size, frames=None, **more):
        self.time += self.r.randrange(1, 40)
        self.trace.append(entry(action, addr, size, self.time, self.frames() if frames is None else frames, **more))

    def take(self, record=True):
        size = 512 * self.r.randrange(1, 4096)
        addr = self.base + self.next
        self.next += size
        self.live[addr] = asked = size - 100  # what the history tells; blocks are multiples of 512
        if record:
            self.add("alloc", addr, asked)
            self.frames_of[addr] = self.trace[-1].get("frames")

    def step(self):
        dice = self.r.random()
        if dice < 0.5 or not self.live:
            self.take()
        elif dice < 0.95:
            addr = self.r.choice(sorted(self.live))
            size = self.live.pop(addr)
            self.add("free_requested", addr, size)
            self.add("free_completed", addr, size)
        elif dice < 0.97:
            self.add("oom", 123 * MIB, 900 * MIB)
        else:
            self.add("snapshot", 0, 0)

    def segment(self):
        blocks, at = [], self.base
        for addr, asked in sorted(self.live.items()):
            size = asked + 100
            if addr > at:
                blocks.append(
                    {"address": at, "size": addr - at, "requested_size": 0, "state": "inactive", "frames": []}
                )
            blocks.append(
                {
                    "address": addr,
                    "size": size,
                    "requested_size": asked,
                    "state": "active_allocated",
                    "frames": self.frames_of.get(addr) or [],
                }
            )
            at = addr + size
        blocks.append(
            {
                "address": at,
                "size": self.base + self.segment_bytes - at,
                "requested_size": 0,
                "state": "inactive",
                "frames": [],
            }
        )
        used = sum(self.live.values()) + 100 * len(self.live)
        return {
            "device": self.number,
            "address": self.base,
            "total_size": self.segment_bytes,
            "allocated_size": used,
            "active_size": used,
            "requested_size": used - 100 * len(self.live),
            "stream": 0,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": FRAMES[:3],
            "blocks": blocks,
        }


def snapshot(devices):
    """devices: list of Device or None (one that was never used)."""
    return {
        "segments": [d.segment() for d in devices if d],
        "device_traces": [d.trace if d else [] for d in devices],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False",
            "max_split_size": -1,
            "expandable_segments": False,
            "roundup_power2_divisions": {"1": 0, "2": 0},
        },
        "external_annotations": [
            {"name": "step", "stage": "START", "device": 0, "time_us": 1_700_000_000_000_010},
            {"name": "step", "stage": "END", "device": 0, "time_us": 1_700_000_000_000_500},
        ],
    }
