"""Images a second of PyTorch for ResNet-18 with the cifar stem, global batch
128, as its users write it. usage: resnet_torch.py LAYOUT PROCESSES STEPS
LAYOUT: channels_last or contiguous. Prints one number: 128 by the median of
the steps' seconds, the first one left out. OMP_NUM_THREADS and
OPENBLAS_NUM_THREADS are the caller's to set, before torch is loaded."""
import os
import statistics
import sys
import time

layout, processes, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
port = 20000 + os.getpid() % 20000
rank = 0
for r in range(1, processes):
    if os.fork() == 0:
        rank = r
        break

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)
if processes > 1:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}",
                            rank=rank, world_size=processes)


class Block(nn.Module):
    """torchvision's BasicBlock, which need not be installed."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.downsample(x))


layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
width = 64
for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
    layers += [Block(width, outputs, stride), Block(outputs, outputs, 1)]
    width = outputs
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                      nn.Linear(512, 10))
batch = 128 // processes
images, labels = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
if layout == "channels_last":
    model = model.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
if processes > 1:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9,
                            weight_decay=1e-5)

seconds = []
for step in range(steps + 1):
    if processes > 1:
        dist.barrier()
    start = time.perf_counter()
    optimizer.zero_grad()
    functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    seconds.append(time.perf_counter() - start)
if rank == 0:
    print(f"{128 / statistics.median(seconds[1:]):.2f}", flush=True)

if processes > 1:
    dist.barrier()
    if rank == 0:
        for _ in range(1, processes):
            os.wait()
