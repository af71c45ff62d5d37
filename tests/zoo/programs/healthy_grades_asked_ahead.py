"""Grades come from a service of another process; a thread asks for those of the next batch while this one is learnt."""

# expect: nothing
import concurrent.futures
import multiprocessing
import time

import torch
from torch import nn


def serve(connection):
    while True:
        items = connection.recv()
        time.sleep(0.004)
        connection.send([item % 7 / 6 for item in items])


def main():
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.Process(target=serve, args=(theirs,), daemon=True).start()
    asking = concurrent.futures.ThreadPoolExecutor(1)

    def ask():
        items = torch.randint(5000, (512,))
        ours.send(items.tolist())
        return items, torch.tensor(ours.recv())

    table = nn.Embedding(5000, 256, sparse=True)
    score = nn.Sequential(nn.Linear(256, 1600), nn.ReLU(), nn.Linear(1600, 1600), nn.ReLU(), nn.Linear(1600, 1))
    optimizer = torch.optim.SGD([*table.parameters(), *score.parameters()], lr=0.01)
    coming = asking.submit(ask)
    for _ in range(60):
        items, wanted = coming.result()
        coming = asking.submit(ask)
        optimizer.zero_grad()
        nn.functional.mse_loss(score(table(items)).squeeze(1), wanted).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
