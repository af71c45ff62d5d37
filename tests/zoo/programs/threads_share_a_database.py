"""Three threads read batches from a database through one connection, which a lock protects during each query."""

# expect: pipeline-lock-contention
import queue
import random
import sqlite3
import threading

import torch
from torch import nn

FIELDS = 24


def filled(rows):
    database = sqlite3.connect(":memory:", check_same_thread=False)
    columns = ", ".join(f"f{i} REAL" for i in range(FIELDS))
    database.execute(f"CREATE TABLE events (note TEXT, class INTEGER, {columns})")
    random.seed(5)
    marks = ", ".join("?" * (FIELDS + 2))
    for i in range(rows):
        note = "".join(random.choices("abcdefghij", k=40))
        database.execute(
            f"INSERT INTO events VALUES ({marks})", [note, i % 5, *(random.random() for _ in range(FIELDS))]
        )
    return database


class Reader:
    def __init__(self, database, readers=3):
        self.database, self.lock, self.ready = database, threading.Lock(), queue.Queue(4)
        for number in range(readers):
            threading.Thread(target=self.read, args=(number,), daemon=True).start()

    def read(self, number):
        chance = random.Random(number)
        while True:
            part = "".join(chance.choices("abcdefghij", k=2))
            with self.lock:  # here
                found = self.database.execute(  # here
                    f"SELECT * FROM events WHERE note LIKE '%{part}%' ORDER BY note DESC LIMIT 64"
                ).fetchall()
            self.ready.put(found)

    def batch(self):
        rows = self.ready.get()  # here
        return torch.tensor([row[2:] for row in rows]), torch.tensor([row[1] for row in rows])


def main():
    reader = Reader(filled(30000))
    model = nn.Sequential(nn.Linear(FIELDS, 200), nn.ReLU(), nn.Linear(200, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, foreach=True)
    for _ in range(80):
        fields, classes = reader.batch()  # here
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(fields), classes).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
