"""Four threads unlock records for the loop. Each makes the key of its record first, which takes long, and a lock around
the whole of it lets only one of them do so."""

# expect: pipeline-lock-contention
import collections
import functools
import hashlib
import threading

import torch
from torch import nn

THREADS, AHEAD = 4, 6


def one_at_a_time(function):
    lock = threading.RLock()

    @functools.wraps(function)
    def guarded(*args):
        with lock:  # here
            return function(*args)  # here

    return guarded


@one_at_a_time
def unlock(number):
    key = hashlib.pbkdf2_hmac("sha256", b"a secret", str(number).encode(), 20000)  # here
    torch_seed = int.from_bytes(key[:6], "big")
    return torch.randn(24, 96, generator=torch.Generator().manual_seed(torch_seed))


class Unlocked:
    """Rows of one record after the other, made ahead by threads."""

    def __init__(self, count):
        self.numbers, self.left = iter(range(count)), count
        self.made, self.changed = collections.deque(), threading.Condition()
        for _ in range(THREADS):
            threading.Thread(target=self.make, daemon=True).start()

    def make(self):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: len(self.made) < AHEAD)
                number = next(self.numbers, None)
            if number is None:
                return
            rows = unlock(number)  # here
            with self.changed:
                self.made.append(rows)
                self.changed.notify_all()

    def __iter__(self):
        while self.left:
            with self.changed:
                self.changed.wait_for(lambda: self.made)
                self.left -= 1
                rows = self.made.popleft()
                self.changed.notify_all()
            yield rows


def main():
    model = nn.Sequential(nn.Linear(96, 192), nn.ReLU(), nn.Linear(192, 96))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    for rows in Unlocked(140):
        optimizer.zero_grad()
        (model(rows) - rows).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
