"""DeepSpeed's engine with ZeRO on made data, on CPUs; prints the loss of each step,
averaged over the ranks. Nothing in it knows ddprun."""
import deepspeed
import torch

CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 1,
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
}


def main():
    deepspeed.init_distributed("gloo", verbose=False)
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(),
                                torch.nn.Linear(16, 1))
    engine, _, _, _ = deepspeed.initialize(
        model=model, config=CONFIG,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.01))
    torch.manual_seed(2 + rank)
    for _ in range(6):
        x = torch.randn(8, 8)
        loss = torch.nn.functional.mse_loss(engine(x), x.sum(1, keepdim=True))
        engine.backward(loss)
        engine.step()
        everyone = loss.detach().clone()
        torch.distributed.all_reduce(everyone)
        if rank == 0:
            print(f"loss {everyone.item() / size!r}", flush=True)
    if rank == 0:
        print(f"done with {size} ranks", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
