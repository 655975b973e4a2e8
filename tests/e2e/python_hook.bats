# covers: python
bats_require_minimum_version 1.5.0
load ../lib

# DDP's communication hook of the module ddprun, where PyTorch is installed.

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
program=$BATS_TEST_DIRNAME/../programs/sdk/module_hook.py

setup() {
	lib_setup
	[ -z "${SAN:-}" ] || skip "a sanitizer's libddp needs a python that has it"
	torch_or_skip
	export PYTHONPATH=$root/python DDP_LIBRARY=$O/libddp.so
	export PYTHONDONTWRITEBYTECODE=1
}

@test "the hook's gradients are those of gloo" {
	expect 0 ddprun --standalone --nproc-per-node 2 "$program"
	[ "$(grep -c ': ok$' <<<"$out")" = 2 ]
}

@test "a rank that dies is an exception of backward, with libddp's text" {
	expect 5 "${deaf[@]}" ddprun --standalone --nproc-per-node 2 "$program" die
	has "$out" '^\[0\] caught: all_reduce #[0-9]+ .*rank 1'
}

@test "the hook refuses a process group of other ranks" {
	expect 1 ddprun --standalone --nproc-per-node 2 "$program" other
	has "$err" 'ValueError: this is rank 0 of 2 of libddp, but rank 0 of 1 of'
}
