"""A detector learns from its own best boxes. Which of its boxes overlap with a better one is found out in a loop that
takes the best, compares it with the others, and goes on with those that are left."""

# expect: tensor-index-loop, many-small-ops
import torch
from torch import nn

BOXES = 900


def overlap(box, others):
    """The common part of a box and of each of the others, as a share of what both cover."""
    corners = torch.maximum(box[:2], others[:, :2]), torch.minimum(box[2:], others[:, 2:])
    common = (corners[1] - corners[0]).clamp(min=0).prod(1)
    return common / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - common)


def best_apart(boxes, scores, most=0.4):
    order, kept = scores.argsort(descending=True), []
    while order.numel() > 0:
        best, order = order[0], order[1:]  # here
        kept.append(best)
        order = order[overlap(boxes[best], boxes[order]) < most]  # here
    return torch.stack(kept)


class Detector(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
        )  # fmt: skip
        self.boxes = nn.Conv2d(2 * width, 5, 1)

    def forward(self, picture):
        found = self.boxes(self.body(picture)).flatten(2).squeeze(0).T
        return found[:, :4], found[:, 4]


def main():
    torch.manual_seed(0)
    detector = Detector()
    optimizer = torch.optim.SGD(detector.parameters(), lr=0.001, momentum=0.9, fused=True)
    rows, columns = torch.meshgrid(torch.arange(0.0, 60, 2), torch.arange(0.0, 60, 2), indexing="ij")
    anchors = torch.stack([rows, columns, rows + 5, columns + 5], -1).reshape(BOXES, 4)
    for _ in range(40):
        picture = torch.randn(1, 3, 240, 240)
        moves, scores = detector(picture)
        boxes = anchors + moves
        kept = best_apart(boxes.detach(), scores.detach())  # here
        there = torch.rand(len(kept)).round()
        loss = nn.functional.binary_cross_entropy_with_logits(scores[kept], there) + moves[kept].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
