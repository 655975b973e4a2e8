"""A GPT as minGPT's distributed example trains it: a Trainer that reads the ranks from
the environment, characters of a text through DataLoader and DistributedSampler with a
process that loads, decayed and other weights, clipped gradients, and a snapshot of
local rank 0 from which a start goes on. Prints the loss of each epoch, averaged over
the ranks.

  trainer_gpt.py SNAPSHOT EPOCHS
"""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from gpt import CONTEXT, GPT, VOCAB

TEXT = "the quick brown fox jumps over the lazy dog, and the dog does not mind. "


class Characters(Dataset):
    def __init__(self, text):
        letters = sorted(set(text))
        assert len(letters) <= VOCAB
        self.tokens = torch.tensor([letters.index(c) for c in text])

    def __len__(self):
        return len(self.tokens) - CONTEXT

    def __getitem__(self, i):
        piece = self.tokens[i:i + CONTEXT + 1]
        return piece[:-1], piece[1:]


def optimizer_of(model):
    """Only matrices of linear layers decay."""
    decayed = [module.weight for module in model.modules()
               if isinstance(module, torch.nn.Linear)]
    known = set(map(id, decayed))
    others = [p for p in model.parameters() if id(p) not in known]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                              {"params": others, "weight_decay": 0.0}], lr=3e-3)


class Trainer:
    def __init__(self, snapshot, data):
        self.rank = int(os.environ["RANK"])
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.snapshot, self.first = snapshot, 0
        torch.manual_seed(7)
        model = GPT()
        self.optimizer = optimizer_of(model)
        if os.path.exists(snapshot):
            saved = torch.load(snapshot)
            model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.first = saved["epoch"]
        self.model = DDP(model)
        self.sampler = DistributedSampler(data, shuffle=True, seed=3)
        self.loader = DataLoader(data, batch_size=16, sampler=self.sampler,
                                 num_workers=1)

    def epoch(self, number):
        self.sampler.set_epoch(number)
        total = torch.zeros(())
        for inputs, targets in self.loader:
            loss = self.model(inputs, targets)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            total += loss.detach() / len(self.loader)
        dist.all_reduce(total)
        if self.rank == 0:
            print(f"loss {total.item() / dist.get_world_size()!r}",
                  flush=True)

    def save(self, epoch):
        if self.local_rank == 0:
            torch.save({"model": self.model.module.state_dict(),
                        "optimizer": self.optimizer.state_dict(),
                        "epoch": epoch}, self.snapshot)

    def train(self, epochs):
        for number in range(self.first, epochs):
            self.epoch(number)
            self.save(number + 1)


def main():
    dist.init_process_group("gloo")
    Trainer(sys.argv[1], Characters(TEXT * 3)).train(int(sys.argv[2]))
    if int(os.environ["RANK"]) == 0:
        print("done with %d ranks" % dist.get_world_size(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
