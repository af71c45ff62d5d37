"""A thread answers requests that come now and then: between two of them its queue is empty, as it should be."""

# expect: nothing
import queue
import threading
import time

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 300)).eval()
requests, answers = queue.Queue(), queue.Queue()


def answer_all():
    with torch.inference_mode():
        while True:
            request = requests.get()
            if request is None:
                return
            answers.put(model(request))


worker = threading.Thread(target=answer_all)
worker.start()
for _ in range(60):
    time.sleep(0.006)  # until a request comes
    requests.put(torch.full((40, 300), 0.5))
    answers.get()
requests.put(None)
worker.join()
