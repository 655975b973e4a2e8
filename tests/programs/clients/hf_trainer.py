"""A small GPT-2 that Hugging Face's Trainer trains on made data; prints the loss that
Trainer logs for each step, and its evaluation. Nothing in it knows ddprun."""
import sys

import torch
from transformers import (GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback,
                          TrainingArguments, set_seed)


class Sequences(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = (torch.arange(16) * (index % 7 + 1) + index) % 32
        return {"input_ids": tokens, "labels": tokens}


class PrintLosses(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        for name in ("loss", "eval_loss"):
            if state.is_world_process_zero and name in logs:
                print(f"loss {state.global_step} {name} {logs[name]!r}", flush=True)


def main():
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=16,
                                       n_layer=2, n_head=2))
    arguments = TrainingArguments(
        output_dir=sys.argv[1], use_cpu=True, max_steps=6, logging_steps=1,
        per_device_train_batch_size=4, learning_rate=0.01, save_steps=3,
        eval_strategy="steps", eval_steps=3, report_to=[], disable_tqdm=True)
    trainer = Trainer(model, arguments, train_dataset=Sequences(),
                      eval_dataset=Sequences(), callbacks=[PrintLosses()])
    trainer.train()
    if trainer.is_world_process_zero():
        print(f"done with {arguments.world_size} ranks", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
