"""A training loop of Hugging Face's accelerate, on made data; prints the loss of
each step, averaged over the ranks. Nothing in it knows ddprun."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(1)
    x = torch.randn(96, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                                torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(2):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            everyone = accelerator.gather(loss.detach()).mean().item()
            accelerator.print(f"loss {everyone!r}", flush=True)
    accelerator.print(f"done with {accelerator.num_processes} ranks")
    accelerator.end_training()


if __name__ == "__main__":
    main()
