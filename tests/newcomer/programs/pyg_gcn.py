"""Two graph convolutions of PyTorch Geometric are trained on a random graph."""

import torch
from one_window import recorded
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

torch.manual_seed(0)
graph = Data(x=torch.randn(64, 16), edge_index=torch.randint(0, 64, (2, 256)), y=torch.randint(0, 4, (64,)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(16, 32), GCNConv(32, 4)

    def forward(self, data):
        hidden = self.first(data.x, data.edge_index).relu()
        return self.second(hidden, data.edge_index)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(graph), graph.y)
    loss.backward()
    optimizer.step()
    return loss


recorded(step)
