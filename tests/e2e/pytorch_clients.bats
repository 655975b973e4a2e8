# pytorch_clients.bats: training scripts as users of PyTorch's libraries write them, under
# ddprun, with --preload and under torchrun: the losses are the same numbers. What is
# not installed for DDP_TEST_PYTHON (python3) is skipped.
# covers: launcher/plan launcher/preload rendezvous/torch
bats_require_minimum_version 1.5.0
load ../lib

clients=$BATS_TEST_DIRNAME/../programs/clients

setup() {
	lib_setup
	torch_or_skip
	export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false CUDA_VISIBLE_DEVICES=
	export TF_CPP_MIN_LOG_LEVEL=2 PYTHONDONTWRITEBYTECODE=1
	DEADLINE=300 # each start imports a large library, twice on two CPUs
}

need() { # MODULE...: skips the test without one of them
	local module
	for module; do
		"$PYTHON_EXEC" -c "import importlib.util as u
assert u.find_spec('$module')" 2>/dev/null ||
			skip "$PYTHON_EXEC has no $module (DDP_TEST_PYTHON names another one)"
	done
}

losses() { # the last output, without the ranks in front
	sed -n 's/^\(\[0\] \)\{0,1\}\(loss .*\)/\2/p' <<<"$out"
}

# same_losses STEPS SCRIPT [ARGUMENT]: under all three, on two ranks
same_losses() {
	local steps=$1 first
	shift
	expect 0 ddprun --standalone --nproc-per-node 2 "$@"
	has "$out" '^\[0\] done with 2 ranks$'
	first=$(losses)
	[ "$(wc -l <<<"$first")" = "$steps" ]
	rm -rf state
	expect 0 ddprun --standalone --nproc-per-node 2 --preload auto "$@"
	lacks "$err" 'without a fork'
	[ "$(losses)" = "$first" ]
	rm -rf state
	expect 0 "$PYTHON_EXEC" -m torch.distributed.run --standalone \
		--nproc-per-node 2 "$@"
	has "$out" '^done with 2 ranks$'
	[ "$(losses)" = "$first" ]
}

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
