"""An allocator that is simulated as torch's caching one works, and records what torch records: what must be in use
after each event is known.

torch rounds what is asked for up to 512 bytes, or as its settings say, and leaves a block of the large pool whole where
no more than 1 MiB would be left; its history tells what was asked for. Statistics are kept as torch keeps them, from
where the recording begins."""

from collections import defaultdict

from snapshots import FRAMES, entry

KIB, MIB = 1 << 10, 1 << 20
BASE = 0x7F00_0000_0000


def rounded(size, divisions):
    """A size that lies between two powers of two goes up to the next of so many even parts of what is between them;
    divisions: from 1 MiB on, by power."""
    parts = divisions[min(max(size.bit_length() - 21, 0), 15)]
    if parts < 2 or size <= 512 * parts:
        return -(-size // 512) * 512
    low = 1 << size.bit_length() - 1
    return (
        size
        if size == low
        else next(low + low * k // parts for k in range(1, parts + 1) if low + low * k // parts >= size)
    )


class Block:
    def __init__(self, address, size):
        self.address, self.size, self.requested, self.state, self.frames = address, size, 0, "inactive", []


class Segment:
    def __init__(self, address, size, pool, stream, small, expandable, frames):
        self.address, self.size, self.pool, self.stream, self.small, self.expandable, self.frames = (
            address,
            size,
            pool,
            stream,
            small,
            expandable,
            frames,
        )
        self.blocks = [Block(address, size)]

    def merge(self):
        kept = []
        for b in self.blocks:
            if kept and kept[-1].state == "inactive" and b.state == "inactive":
                kept[-1].size += b.size
            else:
                kept.append(b)
        self.blocks = kept


class Allocator:
    """draw: a random.Random. what happened is in trace; after event i of the trace the blocks in use are states[i],
    {address: size}."""

    def __init__(
        self, device, draw, pools=((0, 0), (0, 1), (3, 0)), streams=(0, 7), splits_all=False, divisions=(0,) * 16
    ):
        self.device, self.draw, self.pools, self.streams, self.splits_all, self.divisions = (
            device,
            draw,
            pools,
            streams,
            splits_all,
            divisions,
        )
        self.segments, self.trace, self.states, self.time = [], [], [], 1_700_000_000_000_000 + draw.randrange(1000)
        self.top = BASE + device * (1 << 40)
        self.live, self.sizes_by_stack, self.recording = {}, {}, True
        self.stats = defaultdict(lambda: [0, 0, 0, 0])  # (metric, pool): current, peak, allocated, freed

    def stack(self):
        first = self.draw.randrange(len(FRAMES) - 6)
        return FRAMES[first : first + self.draw.randrange(0, 6)]

    def note(self, action, addr, size, frames=None, **more):
        self.time += self.draw.randrange(0, 30)
        if self.recording:
            self.trace.append(entry(action, addr, size, self.time, frames, **more))
            self.states.append(dict(self.live))

    def change(self, metric, small, by):
        for pool in ("all", "small_pool" if small else "large_pool"):
            row = self.stats[metric, pool]
            row[0] += by
            row[1] = max(row[1], row[0])
            row[2 if by > 0 else 3] += abs(by)

    def forget_the_past(self):
        """What is there now counts as taken at this moment."""
        for row in self.stats.values():
            row[:] = [row[0], row[0], row[0], 0]

    def alloc(self):
        small = self.draw.random() < 0.5
        requested = self.draw.randrange(1, MIB + 1) if small else self.draw.randrange(MIB + 1, 30 * MIB)
        size, pool, stream, frames = (
            rounded(requested, self.divisions),
            self.draw.choice(self.pools),
            self.draw.choice(self.streams),
            self.stack(),
        )
        fitting = [
            (s, b)
            for s in self.segments
            if (s.pool, s.stream, s.small) == (pool, stream, small)
            for b in s.blocks
            if b.state == "inactive" and b.size >= size
        ]
        if not fitting:
            fitting = [self.grow(size, pool, stream, small, frames)]
        segment, block = min(fitting, key=lambda p: p[1].size)
        if block.size - size >= 512 if small or self.splits_all else block.size - size > MIB:
            rest = Block(block.address + size, block.size - size)
            segment.blocks.insert(segment.blocks.index(block) + 1, rest)
            block.size = size
        block.state, block.requested, block.frames = "active_allocated", requested, frames
        self.live[block.address] = requested
        for metric, by in (
            ("allocation", 1),
            ("active", 1),
            ("allocated_bytes", block.size),
            ("active_bytes", block.size),
            ("requested_bytes", requested),
        ):
            self.change(metric, small, by)
        self.note("alloc", block.address, requested, frames or None, stream=stream, pool_id=pool)

    def grow(self, size, pool, stream, small, frames):
        total = 2 * MIB if small else -(-size // (20 * MIB)) * 20 * MIB
        expandable = self.draw.random() < 0.3
        segment = Segment(self.top, total, pool, stream, small, expandable, frames)
        self.top += total + 64 * MIB
        self.segments.append(segment)
        self.change("reserved_bytes", small, total)
        if not expandable:
            self.change("segment", small, 1)
        self.note(
            "segment_map" if expandable else "segment_alloc",
            segment.address,
            total,
            frames or None,
            stream=stream,
            pool_id=pool,
        )
        return segment, segment.blocks[0]

    def some(self, state):
        return [(s, b) for s in self.segments for b in s.blocks if b.state == state]

    def free(self):
        if not self.live:
            return
        segment, block = self.draw.choice(self.some("active_allocated"))
        del self.live[block.address]
        self.change("allocation", segment.small, -1)
        self.change("allocated_bytes", segment.small, -block.size)
        self.note("free_requested", block.address, block.requested, stream=segment.stream, pool_id=segment.pool)
        if self.draw.random() < 0.2:  # another stream still uses it
            block.state = "active_pending_free"
        else:
            self.complete(segment, block)

    def complete(self, segment, block):
        for metric, by in (("active", 1), ("active_bytes", block.size), ("requested_bytes", block.requested)):
            self.change(metric, segment.small, -by)
        self.note("free_completed", block.address, block.requested, stream=segment.stream, pool_id=segment.pool)
        block.state, block.requested, block.frames = "inactive", 0, []
        segment.merge()

    def empty_cache(self):
        for segment in [s for s in self.segments if [b.state for b in s.blocks] == ["inactive"]]:
            self.segments.remove(segment)
            self.change("reserved_bytes", segment.small, -segment.size)
            if not segment.expandable:
                self.change("segment", segment.small, -1)
            self.note(
                "segment_unmap" if segment.expandable else "segment_free",
                segment.address,
                segment.size,
                stream=segment.stream,
                pool_id=segment.pool,
            )

    def step(self):
        dice = self.draw.random()
        pending = self.some("active_pending_free")
        if dice < 0.5:
            self.alloc()
        elif dice < 0.85:
            self.free()
        elif dice < 0.92 and pending:
            self.complete(*self.draw.choice(pending))
        elif dice < 0.95:
            self.empty_cache()
        elif dice < 0.97:
            self.note("oom", 99 * MIB, 1 << 34, self.stack() or None)
        elif dice < 0.985:
            self.note("snapshot", 0, 0)
        elif self.live:
            self.note("annotate", self.draw.choice(sorted(self.live)), 0, user_metadata="weights")

    def run(self, before, events):
        """before: steps that are not recorded."""
        self.recording = False
        for _ in range(before):
            self.step()
        self.recording = True
        self.forget_the_past()
        self.at_start = dict(self.live)
        for _ in range(events):
            self.step()
        return self

    def inactive_split(self, small):
        """Free blocks that are a part of a segment, as torch counts them: not those of expandable segments."""
        sizes = [
            b.size
            for s in self.segments
            for b in s.blocks
            if s.small == small and not s.expandable and b.state == "inactive" and b.size < s.size
        ]
        return len(sizes), sum(sizes)

    def as_segments(self):
        rows = []
        for s in self.segments:
            blocks = [
                {
                    "address": b.address,
                    "size": b.size,
                    "requested_size": b.requested,
                    "state": b.state,
                    "frames": b.frames,
                }
                for b in s.blocks
            ]
            used = [b for b in s.blocks if b.state == "active_allocated"]
            active = [b for b in s.blocks if b.state != "inactive"]
            rows.append(
                {
                    "device": self.device,
                    "address": s.address,
                    "total_size": s.size,
                    "stream": s.stream,
                    "segment_type": "small" if s.small else "large",
                    "allocated_size": sum(b.size for b in used),
                    "active_size": sum(b.size for b in active),
                    "requested_size": sum(b.requested for b in active),
                    "segment_pool_id": s.pool,
                    "is_expandable": s.expandable,
                    "frames": s.frames,
                    "blocks": blocks,
                }
            )
        return rows


def snapshot_of(allocators, devices):
    traces = {a.device: a.trace for a in allocators}
    return {
        "segments": [s for a in allocators for s in a.as_segments()],
        "device_traces": [traces.get(d, []) for d in range(devices)],
        "allocator_settings": {
            "roundup_power2_divisions": {str(1 << k): n for k, n in enumerate(allocators[0].divisions)}
        },
        "external_annotations": [],
    }
