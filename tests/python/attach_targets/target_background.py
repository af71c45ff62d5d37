"""A thread imports torch and much else while the main thread computes and imports, too."""

import hashlib
import importlib
import threading

from target_state import finish, mark

mark("begins")
NAMES = ("torch", "email.mime.text", "xml.dom.minidom", "sqlite3", "torch._dynamo", "unittest.mock")
came = []


def load():
    for name in NAMES:
        came.append(importlib.import_module(name).__name__)
        mark(name)


thread = threading.Thread(target=load)
thread.start()
state, count = b"", 0
while thread.is_alive() or count < 40000:
    count += 1
    if count <= 40000:
        state = hashlib.sha256(state + b"%d" % count).digest()
    if count % 2000 == 0:
        importlib.import_module(
            ("wave", "colorsys", "cmd", "sched", "shelve", "mailbox", "plistlib")[count // 2000 % 7]
        )
mark("joined")
thread.join()
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
finish(state, came, model.weight.sum().item())
