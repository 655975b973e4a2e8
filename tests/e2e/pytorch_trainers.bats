# pytorch_trainers.bats: scripts of the libraries that have a training loop of their own
# (Hugging Face's Trainer, Lightning, DeepSpeed, torchft), under ddprun, with --preload and under
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

# two_groups COMMAND...: runs two replica groups, each a job of its own; the losses of
# both are in $losses
two_groups() {
	local group
	for group in 0 1; do
		start "group$group" env REPLICA_GROUP=$group "$@" \
			"$clients/fault_tolerant.py" 4
	done
	losses=
	for group in 0 1; do
		finish "group$group"
		has "$out" 'done with 2 groups$'
		losses+=$(losses)$'\n'
	done
	[ "$(wc -w <<<"$losses")" = 16 ]
}

@test "torchft's replica groups, each of them a job" {
	local first launcher
	need torchft
	mkfifo hold
	exec {held}<>hold
	"$PYTHON_EXEC" "$clients/fault_tolerant.py" lighthouse <hold >lighthouse.out \
		2>lighthouse.err 3>&- 4>&- &
	pid[lighthouse]=$!
	await lighthouse.out '^lighthouse (http.*)'
	export TORCHFT_LIGHTHOUSE=${line#* }
	two_groups ddprun --standalone
	first=$losses
	for launcher in 'ddprun --standalone --preload torch' \
		"$PYTHON_EXEC -m torch.distributed.run --standalone"; do
		two_groups $launcher
		[ "$losses" = "$first" ]
	done
	signal lighthouse TERM
	exec {held}>&-
	finish lighthouse -
}
