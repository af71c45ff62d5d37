"""How long the first runs are slower than the rest: found, not guessed."""

import shim
import time
import tachograph as tg

calls = []


def call():
    calls.append(None)
    end = time.perf_counter() + max(0.064 / 2 ** len(calls), 0.002)
    while time.perf_counter() < end:
        pass


found = tg.warm_up(call)
print("runs", found.runs)
