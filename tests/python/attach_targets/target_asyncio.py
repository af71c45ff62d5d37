"""Coroutines, an executor of threads, children that run another program, a timer's signal that interrupts all of it."""

import asyncio
import concurrent.futures
import signal
import sys

from target_state import finish, mark

mark("begins")
import torch

mark("torch")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
signals = []
signal.signal(signal.SIGALRM, lambda number, frame: signals.append(number))
signal.setitimer(signal.ITIMER_REAL, 0.004, 0.004)


def infer(number):
    with torch.no_grad():
        return model(torch.full((2, 8), float(number))).sum().item()


async def child(number):
    words = [sys.executable, "-S", "-c", f"print({number} ** 2)"]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return int(out), process.returncode


async def main():
    mark("loops")
    loop, found = asyncio.get_running_loop(), []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for i in range(20):
            found += await asyncio.gather(*(loop.run_in_executor(pool, infer, i + k) for k in range(4)))
            await asyncio.sleep(0.01)
            if i % 7 == 0:
                found.append(await child(i))
    mark("joined")
    return found


result = asyncio.run(main())
signal.setitimer(signal.ITIMER_REAL, 0)
assert len(signals) > 5
finish(result)
