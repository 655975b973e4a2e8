"""Epoch seconds of PyTorch for the two MNIST models, as its users write them.
usage: train_torch.py mlp|ae loader|prebatched PROCESSES EPOCHS
Prints one number a line, rank 0's seconds for each epoch. Random pixels: the
arithmetic does not depend on them. OMP_NUM_THREADS and OPENBLAS_NUM_THREADS
are the caller's to set, before torch is loaded."""
import os
import sys
import time

what, how = sys.argv[1], sys.argv[2]
processes, epochs = int(sys.argv[3]), int(sys.argv[4])
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
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)
if processes > 1:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}",
                            rank=rank, world_size=processes)

images, labels = torch.rand(60000, 784), torch.randint(0, 10, (60000,))
if what == "mlp":
    batch = 64 // processes
    model = nn.Sequential(nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10))
    loss_of = lambda out, x, y: functional.cross_entropy(out, y)
else:
    batch = 128 // processes
    sizes, layers = (784, 128, 128, 128, 784), []
    for i in range(4):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    model = nn.Sequential(*layers)
    loss_of = lambda out, x, y: functional.mse_loss(out, x)
if processes > 1:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

sampler = None
if how == "loader":
    whole = TensorDataset(images, labels)
    if processes > 1:
        sampler = DistributedSampler(whole)
    data = DataLoader(whole, batch_size=batch, shuffle=sampler is None,
                      sampler=sampler)
else:
    share = 60000 // processes
    data = [(images[i:i + batch].clone(), labels[i:i + batch].clone())
            for i in range(rank * share, (rank + 1) * share, batch)]

for epoch in range(epochs):
    if processes > 1:
        dist.barrier()
    if sampler:
        sampler.set_epoch(epoch)
    start, total = time.perf_counter(), 0.0
    for x, y in data:
        optimizer.zero_grad()
        loss = loss_of(model(x), x, y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    if rank == 0:
        print(f"{time.perf_counter() - start:.4f}", flush=True)

if processes > 1:
    dist.barrier()
    if rank == 0:
        for _ in range(1, processes):
            os.wait()
