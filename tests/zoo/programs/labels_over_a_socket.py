"""A ranking model learns from grades that a service of another process keeps; each batch asks for its own when it needs
them, and waits for the answer."""

# expect: host-waits
import multiprocessing
import socket
import struct
import time

import torch
from torch import nn

BATCH = 256


def receive(connection, size):
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))  # here
        if not part:
            return b""
        parts += part
    return bytes(parts)


def serve(listener):
    """Answers each list of items with a grade for each, after a look into its store."""
    connection, _ = listener.accept()
    while asked := receive(connection, 4 * BATCH):
        items = struct.unpack(f"{BATCH}i", asked)
        time.sleep(0.012)
        connection.sendall(struct.pack(f"{BATCH}f", *(item % 7 / 6 for item in items)))


class Grades:
    def __init__(self, address):
        self.connection = socket.create_connection(address)

    def of(self, items):
        self.connection.sendall(struct.pack(f"{BATCH}i", *items.tolist()))
        answer = receive(self.connection, 4 * BATCH)  # here
        return torch.tensor(struct.unpack(f"{BATCH}f", answer))


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    service = multiprocessing.Process(target=serve, args=(listener,), daemon=True)
    service.start()
    grades = Grades(listener.getsockname())
    table = nn.Embedding(5000, 64)
    score = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adagrad([*table.parameters(), *score.parameters()], lr=0.01, foreach=True)
    for _ in range(120):
        items = torch.randint(5000, (BATCH,))
        wanted = grades.of(items)  # here
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(score(table(items)).squeeze(1), wanted)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
