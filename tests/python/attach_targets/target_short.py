"""A program that ends soon after torch is there, and with an error: functions of atexit, of objects that go with the
interpreter, a thread that is not waited for."""

import atexit
import sys
import threading
import time

from target_state import finish, mark

mark("begins")
import torch


class Last:
    def __del__(self):
        for _ in range(2000):
            self.number = getattr(self, "number", 0) + 1
        print("gone", self.number, flush=True)


last = Last()
atexit.register(lambda: (time.sleep(0.03), print("at exit", flush=True)))
threading.Thread(target=lambda: [time.sleep(0.001) for _ in range(100000)], daemon=True).start()
mark("torch")
finish(torch.arange(9).sum().item())
for i in range(100):
    torch.ones(3) + i
    time.sleep(0.001)
mark("ends")
sys.exit("an error of its own")
