# without_ddprun.bats: the same worker under other launchers: torchrun, started by hand
# with PyTorch's env:// variables, OpenMPI's mpirun, MPICH's mpiexec. srun: srun.bats.
# covers: worker-sdk/core worker-sdk/kv worker-sdk/api pmi

bats_require_minimum_version 1.5.0
load ../lib

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

setup() {
	lib_setup
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	# a rank that waits too long fails the test instead of hanging it
	export DDP_TIMEOUT=60
	# leaks of PMIx's library are not ours
	echo leak:libpmix >lsan
	export LSAN_OPTIONS=suppressions=$T/lsan:print_suppressions=0
}

torchrun() { # N [OPTION...] -- CMD...
	local n=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	OMP_NUM_THREADS=1 "$PYTHON_EXEC" "$root/tests/bench/torchrun.py" \
		--no_python --monitor_interval 0.1 --nproc_per_node "$n" \
		"${options[@]}" "$@"
}

openmpi_or_skip() {
	launcher=$(command -v mpirun.openmpi || command -v mpirun) || skip \
		"OpenMPI is not installed"
	[[ $("$launcher" --version 2>&1) == *open-mpi.org* ]] ||
		skip "OpenMPI is not installed"
	launcher="$launcher --oversubscribe -np"
}

hydra_or_skip() {
	launcher=$(command -v mpiexec.hydra) || skip "MPICH is not installed"
	launcher="$launcher -np"
	# If a foreign client connects to its port, hydra ends by SIGPIPE without a
	# word. Clients of other tests may dial the port of a server that has ended,
	# so hydra gets ports that the kernel assigns to nobody.
	export MPIEXEC_PORT_RANGE=31000:31999
}

by_hand() { # N CMD...
	local n=$1 r port
	shift
	port=$(w_port free)
	for ((r = 0; r < n; r++)); do
		start "rank$r" env RANK=$r WORLD_SIZE="$n" \
			MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$@"
	done
}

all_ok() { # N [LINES]
	local r n=$1
	for ((r = 0; r < n; r++)); do
		has "$out" "^rank $r of $n, local $r of $n, node 0 of 1: ok\$"
	done
	[ "$(grep -c ': ok$' <<<"$out")" = "${2:-$n}" ]
}

# What every launcher must be able to do; $launcher N CMD...
starts_worlds() {
	local n
	for n in 1 2 4; do
		expect 0 $launcher $n c_guest
		all_ok $n
	done
	# few counts: sdk_collectives.bats has all, and ranks in sessions of their own
	# do not get the CPU when another yields it
	expect 0 $launcher 4 c_collectives 3
	[ "$(grep -c ': ok$' <<<"$out")" = 4 ]
	expect 0 $launcher 3 c_store
	[ "$(grep -c ': ok$' <<<"$out")" = 3 ]
}

trains() {
	mkdir data
	t_idx data 640 64
	expect 0 $launcher 2 mnist_mlp --data data --epochs 1
	has "$out" '^test accuracy [0-9.]+ %$'
}

names_the_dead() { # STATUS CULPRIT
	expect "$1" $launcher 3 c_guest kill "$2"
	has "$out" "^rank [0-2]: -20004: barrier #[0-9]+: rank $2 on .* is gone: rank $2 on .* ended without ddp_finalize"
	nothing_left
}

needs_a_server() {
	DDP_SERVER=$T/none expect - $launcher 2 c_guest
	[ "$status" != 0 ]
	has "$out" "DDP_SERVER is '$T/none', which cannot be run \(No such file or directory\): set it to the path of ddprdzv"
	# other ranks also learn it, and which rank it is; no launcher ends them
	# before they have printed it
	DDP_SERVER=$T/none expect 0 $launcher 2 sh -c 'c_guest; true'
	has "$out" "^rank -1: -20004: rank 0 could not start: DDP_SERVER is"
}

# Its ranks hang, and a dump shows them as one job; $launcher 2 CMD...
is_dumped() {
	local end=$((SECONDS + 60)) jobs
	mkfifo fifo
	printf '%s\n' '#!/bin/sh' 'echo "pid $$"' 'exec c_guest wait fifo' >said
	chmod +x said
	start job $launcher 2 ./said
	await job.out '^rank 0 .*: ok$'
	await job.out '^rank 1 .*: ok$'
	# they say so before they wait
	expect 0 ddprun dump --no-stacks
	jobs=$(awk -v pids="$(sed -n 's/^pid //p' job.out | xargs)" '
		BEGIN {split(pids, list); for (i in list) ours[list[i] ","] = 1}
		/^job / {job = $0}
		/^rank / && ($7 in ours) {
			print job, "rank", $2, $3, $4, $5
		}' <<<"$out")
	has "$jobs" '^job .*: 2 of 2 ranks are on .* rank 0 \(local rank 0\),$'
	has "$jobs" '^job .*: 2 of 2 ranks are on .* rank 1 \(local rank 1\),$'
	[ "$(sed 's/ rank . (.*//' <<<"$jobs" | sort -u | wc -l)" = 1 ]
	jobs=${jobs#job \'}
	jobs=${jobs%%\', attempt *}
	expect 0 ddprun dump --no-stacks --last 2 --job "$jobs"
	[ "$(grep -c '^rank ' <<<"$out")" = 2 ]
	[ "$(grep -c '^  between calls; last: barrier #' <<<"$out")" = 2 ]
	exec 9<>fifo # a writer, for readers that come at any time
	finish job
	exec 9>&-
}

@test "ranks that torchrun starts meet at its own store" {
	torch_or_skip
	expect 0 torchrun 3 --master_port "$(w_port free)" -- sh -c '
		c_guest twice && c_guest && c_collectives 3 || exit
		c_store || echo "the store: not all"'
	all_ok 3 15 || {
		# 1.13 has all but one of the calls
		has "$err" "ddp_store_append.*is PyTorch 1.13's, which cannot append: use ddp_store_set, or start with ddprun"
		all_ok 3 12
	}
}

# The protocol is torchrun's store's; here ddprdzv speaks it.
@test "torchrun's variables without torchrun work with the store of ddprun" {
	expect 0 ddprun --standalone --nproc-per-node 3 sh -c '
		unset $(env | sed -n "s/^\(DDP_[A-Z0-9_]*\)=.*/\1/p")
		exec c_store'
	[ "$(grep -c ': ok$' <<<"$out")" = 3 ]
}

@test "ranks under torchrun --standalone name a rank that dies" {
	torch_or_skip
	expect 1 torchrun 3 --standalone -- c_guest kill 1
	has "$out" '^rank [02]: -20004: barrier #[0-9]+: rank 1 on .* is gone'
	nothing_left
}

@test "rank 0 of ranks started by hand with MASTER_ADDR and MASTER_PORT hosts the store" {
	local r
	# one world after another, at the same place
	by_hand 3 sh -c 'c_guest twice && c_guest && c_store'
	for r in 0 1 2; do
		finish rank$r
		[ "$(grep -c "^rank $r of 3, local $r of 3, node 0 of 1: ok$" \
			<<<"$out")" = 3 ]
		has "$out" "^rank $r: ok"
	done
}

@test "ranks started by hand name a rank that dies and a rank that leaves" {
	by_hand 2 c_guest kill 0
	finish rank0 137
	finish rank1 1
	has "$out" '^rank 1: -20004: .*rank 0 on .* ended without ddp_finalize'
	nothing_left
	by_hand 2 c_guest leave 1
	finish rank1
	finish rank0 1
	has "$out" '^rank 0: -20004: .*rank 1 on .* left with ddp_finalize'
}

@test "ranks started by hand name a duplicate rank and a missing rank" {
	local port
	port=$(w_port free)
	export MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WORLD_SIZE=3
	mkfifo go
	RANK=0 start rank0 c_guest wait "$T/go"
	RANK=1 start rank1 c_guest wait "$T/go"
	RANK=2 start rank2 c_guest wait "$T/go"
	await rank0.out ': ok$'
	RANK=1 expect 1 c_guest
	has "$out" '^rank -1: -20002: rank 1 is already connected, from .*: two processes claim this rank'
	exec 9<>go # a writer, for readers that come at any time
	finish rank0
	finish rank1
	finish rank2
	exec 9>&-
	RANK=1 DDP_TIMEOUT=1 expect 1 c_guest
	has "$out" '^rank -1: .*: the store that rank 0 keeps \(started by torchrun\) was not reached: .*Connection refused'
}

@test "OpenMPI's mpirun starts 1, 2 and 4 ranks" {
	openmpi_or_skip
	starts_worlds
	trains
}

@test "under OpenMPI's mpirun a dead rank and a missing ddprdzv are errors" {
	openmpi_or_skip
	names_the_dead 137 1
	names_the_dead 137 0
	needs_a_server
}

@test "MPICH's mpiexec starts 1, 2 and 4 ranks" {
	hydra_or_skip
	starts_worlds
	trains
}

@test "under MPICH's mpiexec a dead rank and a missing ddprdzv are errors" {
	hydra_or_skip
	# it kills the others at once: they may have no time to report
	expect 9 $launcher 3 c_guest kill 1
	nothing_left
	expect 9 $launcher 3 c_guest kill 0
	nothing_left
	needs_a_server
	# a rank that has left may end as it likes
	expect 1 $launcher 3 c_guest leave 1
	has "$out" '^rank 1 of 3, .*: ok$'
	has "$out" '^rank [02]: -20004: .*rank 1 on .* left with ddp_finalize'
}

@test "a ddprun that mpiexec or mpirun starts has its own workers" {
	hydra_or_skip
	expect 0 $launcher 1 ddprun --standalone --nproc-per-node 2 c_guest
	has "$out" '^\[1\] rank 1 of 2, .*: ok$'
	openmpi_or_skip
	expect 0 $launcher 1 ddprun --standalone --nproc-per-node 2 c_guest
	has "$out" '^\[1\] rank 1 of 2, .*: ok$'
}

# One ddprun, whose inferred options are in $err.
is_one_node() { # NAME
	expect 0 $launcher 1 ddprun sh -c 'echo "$WORLD_SIZE"'
	has "$out" "^.0. $(nproc)\$"
	has "$err" "^ddprun: started by $1 on 1 node: using --nproc-per-node $(nproc) \\(by its [CG]PUs\\)\$"
	expect 0 $launcher 1 ddprun --nproc-per-node 2 sh -c \
		'env | grep -E "^(PMI_|PMIX_([^M]|M[^C])|OMPI_COMM|OMPI_MCA_(orte|ess|pmix)|MPI_LOCAL|HYDI)"; true'
	[ -z "$out$err" ]
	# it needs two, and a node has one
	expect 2 $launcher 1 ddprun --nnodes 2 true
	has "$err" "^ddprun: error: --nnodes 2: $1 starts ddprun on 1 node; leave --nnodes out, or start more, one on each node"
}

@test "several ddpruns that OpenMPI's mpirun starts on one node are an error with a remedy" {
	openmpi_or_skip
	is_one_node mpirun
	expect 2 $launcher 3 ddprun true
	has "$err" '^ddprun: error: mpirun starts 3 ddpruns on this node, but one per node is enough, which starts the workers: write mpirun --map-by ppr:1:node ddprun --nproc-per-node 3, or mpirun PROGRAM without ddprun'
	# everything is given by hand, or each is alone
	expect 0 $launcher 2 ddprun --nnodes 2 --rdzv-endpoint \
		"localhost:$(w_port free)" c_guest
	has "$out" '^.1. rank 1 of 2, '
	expect 0 $launcher 2 ddprun --standalone c_guest
	[ "$(grep -c 'rank 0 of 1, ' <<<"$out")" = 2 ]
	# the core that mpirun binds one process to is not for all workers; that
	# of OpenMPI 5 does not show that it bound it, and needs an option
	[ "$(nproc)" = 1 ] || {
		local free='--map-by ppr:1:node'
		[[ $(mpirun --version) =~ 'Open MPI) '[1-4]'.' ]] ||
			free="--bind-to none $free"
		expect 0 ${launcher/--oversubscribe -np/$free} \
			ddprun --nproc-per-node 1 nproc
		[ "$out" = "[0] $(nproc)" ]
		expect 0 ${launcher/--oversubscribe -np/--bind-to core --map-by ppr:1:node} \
			ddprun --nproc-per-node 1 nproc
		[ "$out" = "[0] 1" ]
	}
}

@test "several ddpruns that MPICH's mpiexec starts on one node are an error with a remedy" {
	hydra_or_skip
	is_one_node mpiexec
	# hydra may end by SIGPIPE after two failures: it sees none
	expect 0 $launcher 2 bash -c 'ddprun true; echo $? >"$0.$PMI_RANK"' "$T/ended"
	[ "$(cat "$T/ended.0" "$T/ended.1")" = $'2\n2' ]
	has "$err" '^ddprun: error: mpiexec starts 2 ddpruns on this node, .* write mpiexec -ppn 1 ddprun --nproc-per-node 2'
}

@test "mpirun's variables without mpirun, or only some of them, are an error" {
	export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0
	expect 1 c_guest
	[ "$out" = "rank -1: -20002: OMPI_COMM_WORLD_RANK is set but OMPI_COMM_WORLD_SIZE is not: start this program with mpirun, or unset OMPI_COMM_WORLD_RANK to run alone" ]
	unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK
	export PMI_RANK=0 PMI_SIZE=2
	expect 1 c_guest
	has "$out" '^rank -1: -20002: PMI_RANK is set but PMI_FD is not: start this program with mpiexec'
	PMI_FD=77 expect 1 c_guest
	has "$out" '^rank -1: -[0-9]+: cannot talk to the launcher on PMI_FD 77: Bad file descriptor'
	PMI_FD=77 expect - ddprun c_guest
	[ "$status" != 0 ]
	has "$err" '^ddprun: error: cannot talk to the launcher on PMI_FD 77: Bad file descriptor'
	unset PMI_SIZE
	expect 2 ddprun true
	has "$err" "^ddprun: error: PMI_RANK is set but PMI_SIZE is not, so the MPI launcher's environment is incomplete: start ddprun with mpiexec, or unset PMI_RANK, or give --standalone"
}

@test "ddprun dump finds the ranks that OpenMPI started" {
	openmpi_or_skip
	is_dumped
}

@test "ddprun dump finds the ranks that MPICH started" {
	hydra_or_skip
	is_dumped
}

@test "ddprun dump finds the ranks that torchrun started" {
	torch_or_skip
	launcher=torchrun_dumped
	torchrun_dumped() {
		torchrun "$1" -- "${@:2}"
	}
	is_dumped
}

@test "ddprun dump finds a rank without a launcher" {
	mkfifo fifo
	start alone c_guest wait fifo
	await alone.out ': ok$'
	expect 0 ddprun dump --no-stacks --job "pid ${pid[alone]}"
	has "$out" "^job 'pid ${pid[alone]}', attempt 1: 1 of 1 ranks are on "
	has "$out" "^rank 0 \(local rank 0\), pid ${pid[alone]}, "
	expect 0 ddprun dump --no-stacks --agent "${pid[alone]}"
	has "$out" '^  between calls; last: barrier #'
	exec 9<>fifo
	finish alone
	exec 9>&-
	expect 1 ddprun dump --no-stacks --agent "$$"
	has "$err" 'none of your ddpruns runs workers on .*, and none of your other programs'
}
