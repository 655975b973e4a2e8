# pytorch_trainers.bats: scripts of the libraries that have a training loop of their own
# (Hugging Face's Trainer, Lightning, DeepSpeed), under ddprun, with --preload and under
# torchrun: the losses are the same numbers. What is not installed for DDP_TEST_PYTHON
# (python3) is skipped.
# covers: launcher/plan launcher/preload rendezvous/torch
bats_require_minimum_version 1.5.0
load ../lib
load ../clients

@test "Hugging Face's Trainer, with an evaluation and checkpoints" {
	need accelerate transformers
	same_losses 8 "$clients/hf_trainer.py" state
}

@test "Lightning's Trainer with the strategy ddp" {
	need lightning
	local plain_start='torchmetrics.* reads the variable LOCAL_RANK when it is imported'
	same_losses 12 "$clients/lightning_fit.py"
}

# DeepSpeed compiles its operations at the first start.
@test "DeepSpeed's engine with ZeRO" {
	need deepspeed
	export DS_ACCELERATOR=cpu DS_SKIP_CUDA_CHECK=1
	same_losses 6 "$clients/deepspeed_zero.py"
}
