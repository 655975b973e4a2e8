"""A GPT as nanoGPT trains it: a small decoder in one file, DDP over gloo, gradients
accumulated with the reduction of the last micro-step only, a checkpoint of rank 0
from which a start goes on. Prints the loss of each step, averaged over the ranks.

  gpt.py CHECKPOINT STEPS [wait]   with wait, step 4 does not end
"""
import math
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, CONTEXT, WIDTH, HEADS, MICRO_STEPS = 32, 16, 32, 2, 2


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.norm2 = torch.nn.LayerNorm(WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH),
                                       torch.nn.GELU(),
                                       torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2)
                   for y in self.qkv(self.norm1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token = torch.nn.Embedding(VOCAB, WIDTH)
        self.place = torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.Sequential(Block(), Block())
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch(step, micro, rank):
    g = torch.Generator().manual_seed(step * 1000 + micro * 100 + rank)
    start = torch.randint(0, VOCAB, (4, 1), generator=g)
    line = (start + 3 * torch.arange(CONTEXT + 1)) % VOCAB
    return line[:, :-1], line[:, 1:]


def main():
    checkpoint, steps = sys.argv[1], int(sys.argv[2])
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(1337)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    model = DDP(model)
    print(f"start at step {first} pid {os.getpid()}", flush=True)
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 + math.cos(math.pi * step / steps)) / 2
        for micro in range(MICRO_STEPS):
            model.require_backward_grad_sync = micro == MICRO_STEPS - 1
            loss = model(*batch(step, micro, rank)) / MICRO_STEPS
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        everyone = loss.detach() * MICRO_STEPS
        dist.all_reduce(everyone)
        if rank == 0:
            print(f"loss {everyone.item() / dist.get_world_size()!r}",
                  flush=True)
            torch.save({"model": model.module.state_dict(), "step": step + 1,
                        "optimizer": optimizer.state_dict()},
                       checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        if step == 3 and sys.argv[3:] == ["wait"]:
            print("waits", flush=True)
            signal.pause()
    if rank == 0:
        print(f"done with {dist.get_world_size()} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
