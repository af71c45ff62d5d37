#!/usr/bin/env python3
"""Serve a small model over HTTP and measure each request.

    python examples/serve.py            40 requests, then the report of where their time went
    python examples/serve.py --fixed    the same server without the mistake

The mistake: every eighth request has a large picture, and the server makes Python lists of all of its rows. The model
always gets the same size, so only the tail of the latencies shows it. `--fixed` scales with one array operation."""

import argparse
import threading
import urllib.request
from wsgiref.simple_server import WSGIRequestHandler, make_server

import torch
from tachograph import serving
from torch import nn


def scale_by_row(picture):
    step = picture.shape[0] // 32
    return torch.tensor([row.tolist() for row in picture])[::step, ::step]


def scale_at_once(picture):
    step = picture.shape[0] // 32
    return picture[::step, ::step]


def application(model, scale):
    def answer(environ, start_response):
        size = int(environ["QUERY_STRING"].removeprefix("size="))
        with serving.phase("read"):
            picture = torch.rand(size, size)
        with serving.phase("scale"):
            picture = scale(picture)
        with torch.no_grad():
            label = int(model(picture.reshape(1, 1024)).argmax())
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(label).encode()]

    return answer


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--fixed", action="store_true", help="scale pictures the fast way")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 10)).eval()
    serving.watch(model)  # its calls are the phase "forward"
    app = serving.WSGI(application(model, scale_at_once if options.fixed else scale_by_row))
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/?size="
        for i in range(options.requests):
            size = 1024 if i % 8 == 7 else 64
            urllib.request.urlopen(url + str(size), timeout=60).read()
        server.shutdown()
    print(serving.report())


if __name__ == "__main__":
    main()
