# srun.bats: the same worker as a task of a Slurm step on one node: directly, over
# PMI2, over PMIx if Slurm has it, and inside other launchers. cluster/launch.bats has
# several nodes.
# covers: worker-sdk/core worker-sdk/kv pmi slurm

bats_require_minimum_version 1.5.0
load ../lib
load ../cluster/slurm

setup() {
	lib_setup
	slurm_or_skip
	export DDP_TIMEOUT=60 OMPI_ALLOW_RUN_AS_ROOT=1 \
		OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	# leaks of PMIx's library are not ours
	echo leak:libpmix >lsan
	export LSAN_OPTIONS=suppressions=$T/lsan:print_suppressions=0
	slurm_up here
}

teardown() {
	[ -z "${slurm_started:-}" ] || slurm_down
	lib_teardown
}

all_ok() { # N
	local r n=$1
	for ((r = 0; r < n; r++)); do
		has "$out" "^rank $r of $n, local $r of $n, node 0 of 1: ok\$"
	done
}

@test "srun starts 1, 2 and 4 tasks" {
	local n
	for n in 1 2 4; do
		expect 0 srun -n $n c_guest
		all_ok $n
	done
}

@test "srun --mpi=pmi2 and --mpi=pmix start ranks" {
	local kind
	for kind in pmi2 pmix; do
		expect 0 srun --mpi=list
		if ! grep -qE "^(srun:)?[[:space:]]*$kind" <<<"$out$err"; then
			echo "# this Slurm has no $kind" >&3
			continue
		fi
		expect 0 srun --mpi=$kind -n 3 c_guest
		all_ok 3
		expect 0 srun --mpi=$kind -n 1 c_guest
		all_ok 1
	done
}

@test "when a task of srun dies, the others name it, and nothing is left" {
	expect 137 srun -n 3 c_guest kill 1
	for rank in 0 2; do
		has "$out" "^rank $rank: -20004: barrier #[0-9]+: rank 1 on .* is gone: rank 1 on .* ended without ddp_finalize"
	done
	expect 137 srun -n 3 c_guest kill 0
	has "$out" "^rank 1: -20004: .*rank 0 on .* ended without ddp_finalize"
	# nothing can notify the other, which waits for its timeout
	DDP_TIMEOUT=1 DDP_SERVER=$T/none expect 1 srun -n 2 c_guest
	has "$out" '^rank -1: .*: the store that rank 0 keeps \(started by srun\) was not reached: '
	has "$out" "^rank -1: -20002: DDP_SERVER is '$T/none', which cannot be run"
}

@test "srun's steps do not mix, whether at the same time or one after another" {
	local i
	for i in 1 2 3; do
		start step$i srun -n 2 sh -c 'c_guest twice && c_guest'
	done
	for i in 1 2 3; do
		finish step$i
		[ "$(grep -c '^rank [01] of 2, .*: ok$' <<<"$out")" = 6 ]
	done
}

@test "srun runs c_collectives, c_store and the trainer" {
	expect 0 srun -n 4 c_collectives 3
	[ "$(grep -c ': ok$' <<<"$out")" = 4 ]
	expect 0 srun -n 2 c_store
	[ "$(grep -c ': ok$' <<<"$out")" = 2 ]
	mkdir data
	t_idx data 640 64
	expect 0 srun -n 2 mnist_mlp --data data --epochs 1
	has "$out" '^test accuracy [0-9.]+ %$'
}

@test "a batch script is a world of one; launchers in a step are the inner ones" {
	cat >batch.sh <<-'EOF'
	#!/bin/sh
	c_guest
	ddprun --standalone --nproc-per-node 2 c_guest
	srun -n 2 c_guest
	srun -n 1 ddprun --standalone --nproc-per-node 2 c_guest
	[ -z "$HYDRA" ] || $HYDRA -launcher fork -np 2 c_guest
	[ -z "$OMPI" ] || $OMPI --oversubscribe -np 2 c_guest
	echo done
	EOF
	HYDRA=$(command -v mpiexec.hydra || true)
	OMPI=$(command -v mpirun.openmpi || true)
	export HYDRA OMPI
	expect 0 sbatch -n 4 -o "$T/batch.log" batch.sh
	: >>batch.log
	await batch.log '^done$'
	out=$(<batch.log)
	has "$out" '^rank 0 of 1, local 0 of 1, node 0 of 1: ok$'
	has "$out" '^\[1\] rank 1 of 2, local 1 of 2, node 0 of 1: ok$'
	n=2
	[ -z "$HYDRA" ] || n=$((n + 2))
	[ -z "$OMPI" ] || n=$((n + 2))
	[ "$(grep -c '^rank [01] of 2, .* node 0 of 1: ok$' <<<"$out")" = $n ]
	[ "$(grep -c '^\[[01]\] rank [01] of 2' <<<"$out")" = 4 ]
}
