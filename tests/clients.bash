# clients.bash: runs a training script under ddprun, with --preload and under torchrun,
# and compares the losses that it prints. Load it after lib.bash.

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

# same_losses STEPS SCRIPT [ARGUMENT]: under all three, on two ranks. Workers are forked,
# unless $plain_start is the reason for a plain start.
same_losses() {
	local steps=$1 first
	shift
	expect 0 ddprun --standalone --nproc-per-node 2 "$@"
	has "$out" '^\[0\] done with 2 ranks$'
	first=$(losses)
	[ "$(wc -l <<<"$first")" = "$steps" ]
	rm -rf state
	expect 0 ddprun --standalone --nproc-per-node 2 --preload auto "$@"
	if [ -n "${plain_start:-}" ]; then
		has "$err" "warning: --preload: $plain_start"
	else
		lacks "$err" 'without a fork'
	fi
	[ "$(losses)" = "$first" ]
	rm -rf state
	expect 0 "$PYTHON_EXEC" -m torch.distributed.run --standalone \
		--nproc-per-node 2 "$@"
	has "$out" '^done with 2 ranks$'
	[ "$(losses)" = "$first" ]
}
