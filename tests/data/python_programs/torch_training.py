"""PyTorch on the CPU: training with autograd functions and hooks in Python, which C++ threads call."""

import common
import torch
from torch import nn


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ((x > -1) & (x < 1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 1)

    def forward(self, x):
        return self.second(Clipped.apply(self.first(x)).relu())


def main():
    torch.set_num_threads(2)
    model = Model()
    model.first.weight.register_hook(lambda grad: grad * 0.5)
    optimizer = torch.optim.Adam(model.parameters())
    common.ready()
    while True:
        x = torch.randn(64, 32)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
