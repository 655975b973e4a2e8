# pytorch_clients.bats: training loops as users of PyTorch write them, under ddprun, with
# --preload and under torchrun: the losses are the same numbers. What is not installed
# for DDP_TEST_PYTHON (python3) is skipped.
# covers: launcher/plan launcher/preload rendezvous/torch
bats_require_minimum_version 1.5.0
load ../lib
load ../clients

@test "a loop of accelerate" {
	need accelerate
	same_losses 12 "$clients/accelerate_loop.py"
}

@test "a GPT as nanoGPT trains it" {
	same_losses 6 "$clients/gpt.py" state 6
}

@test "a GPT that is restarted from its checkpoint has the losses of an undisturbed run" {
	local whole victim
	expect 0 ddprun --standalone --nproc-per-node 2 "$clients/gpt.py" whole 8
	whole=$(losses)
	start job ddprun --standalone --nproc-per-node 2 --max-restarts 1 \
		--preload torch "$clients/gpt.py" state 8 wait
	await job.out '^\[0\] waits' 200
	await job.out '^\[1\] waits' 200
	await job.out '^\[1\] start at step 0 pid [0-9]+'
	victim=${line##* }
	kill -KILL "$victim"
	finish job
	has "$out" '^\[0\] start at step 4 '
	has "$err" 'restarting \(1 of 1\): rank 1 .*SIGKILL'
	[ "$(losses)" = "$whole" ]
}
