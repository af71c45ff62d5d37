"""Python and nothing else."""

import hashlib
import time

from target_state import finish, mark

mark("begins")
state, end = b"", time.monotonic() + 1.5
for i in range(150000):
    state = hashlib.sha256(state + b"%d" % i).digest()
mark("works")
while time.monotonic() < end:
    sum(range(1000))
finish(state)
