"""A server with a thread for each request, and three clients of it."""

import http.server
import json
import threading
import urllib.request

from target_state import finish, mark

mark("begins")
import torch

mark("torch")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        x = torch.tensor(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        with torch.no_grad():
            body = json.dumps(model(x).tolist()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # server_close() waits for them: a client has its answer before the thread has ended


server = Server(("127.0.0.1", 0), Handler)
serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
serving.start()
url = f"http://127.0.0.1:{server.server_address[1]}"
answers = [[] for _ in range(3)]


def ask(number):
    for i in range(60):
        data = json.dumps([number + i / 64] * 8).encode()
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=600) as answer:
            answers[number].append(json.load(answer))


mark("serves")
clients = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
for client in clients:
    client.start()
for client in clients:
    client.join()
server.shutdown()
serving.join()
server.server_close()
finish(answers)
