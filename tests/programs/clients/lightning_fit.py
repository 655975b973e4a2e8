"""Lightning's Trainer on made data, over as many ranks as WORLD_SIZE says; prints the
loss of each step, averaged over the ranks. Nothing in it knows ddprun."""
import os

import lightning
import torch


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                                         torch.nn.Linear(16, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        everyone = self.all_gather(loss.detach()).mean().item()
        if self.global_rank == 0:
            print(f"loss {everyone!r}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def main():
    lightning.seed_everything(1)
    x = torch.randn(96, 8)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    trainer = lightning.Trainer(
        accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        max_epochs=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Regression(), loader)
    if trainer.global_rank == 0:
        print(f"done with {trainer.world_size} ranks", flush=True)


if __name__ == "__main__":
    main()
