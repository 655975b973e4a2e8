# guests_hosts.bats: workers that others started on hosts with addresses of their
# own: by hand, torchrun, OpenMPI's mpirun, MPICH's mpiexec, srun. They find each
# other by what their launcher offers, and their hosts by themselves.

bats_require_minimum_version 1.5.0
load ../lib
load netns
load ../cluster/slurm

setup() {
	local h
	lib_setup
	hosts_up 2
	hosts_real
	export DDP_TIMEOUT=60 OMPI_ALLOW_RUN_AS_ROOT=1 \
		OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	# what PMIx's library leaks is not ours
	echo leak:libpmix >lsan
	export LSAN_OPTIONS=suppressions=$T/lsan:print_suppressions=0
}

# What takes ssh's place: $T/rsh HOST CMD... on one host asks a shell outside of
# all hosts to run that on another, and ends when it has ended.
rsh_up() {
	mkfifo asked
	cat >rsh <<-EOF
	#!/bin/sh
	while :; do case \$1 in -*) shift ;; *) break ;; esac; done
	host=\$1 id=\$(hostname).\$\$
	shift
	mkfifo "$T/done.\$id"
	echo "\$host \$id \$*" >"$T/asked"
	read -r status <"$T/done.\$id"
	exit "\$status"
	EOF
	chmod +x rsh
	pids="h1=${host_pid[h1]} h2=${host_pid[h2]}" start rshd bash -c '
		while read -r host id command; do
			(
				pid=${pids##*$host=}
				host exec ${pid%% *} /bin/sh -c "$command"
				echo $? >"done.$id"
			) &
		done <>asked'
}

teardown() {
	[ -z "${slurm_started:-}" ] || slurm_down
	lib_teardown
}

# Four ranks, the first two on h1, in $out.
two_hosts_ok() {
	has "$out" '^rank 0 of 4, local 0 of 2, node 0 of 2: ok$'
	has "$out" '^rank 1 of 4, local 1 of 2, node 0 of 2: ok$'
	has "$out" '^rank 2 of 4, local 0 of 2, node 1 of 2: ok$'
	has "$out" '^rank 3 of 4, local 1 of 2, node 1 of 2: ok$'
}

@test "by hand, over two hosts" {
	local r h
	for r in 0 1 2 3; do
		h=h$((r / 2 + 1))
		start_on $h rank$r env RANK=$r WORLD_SIZE=4 MASTER_ADDR=h1 \
			MASTER_PORT=29500 sh -c 'c_guest && c_collectives 1000'
	done
	for r in 0 1 2 3; do
		finish rank$r
		has "$out" "^rank $r of 4, local $((r % 2)) of 2, node $((r / 2)) of 2: ok$"
		has "$out" "^rank $r of 4: ok$"
	done
}

@test "OpenMPI's mpirun, over two hosts" {
	local launcher
	rsh_up
	launcher=$(command -v mpirun.openmpi || command -v mpirun) || skip \
		"OpenMPI is not installed"
	[[ $("$launcher" --version 2>&1) == *open-mpi.org* ]] ||
		skip "OpenMPI is not installed"
	start_on h1 job "$launcher" --mca plm_rsh_agent "$T/rsh" \
		-H h1:2,h2:2 -np 4 sh -c 'c_guest && c_collectives 3'
	finish job
	two_hosts_ok
	[ "$(grep -c 'of 4: ok$' <<<"$out")" = 4 ]
}

@test "MPICH's mpiexec, over two hosts" {
	local launcher
	rsh_up
	launcher=$(command -v mpiexec.hydra) || skip "MPICH is not installed"
	start_on h1 job "$launcher" -launcher ssh -launcher-exec "$T/rsh" \
		-hosts h1:2,h2:2 -np 4 c_guest
	finish job
	two_hosts_ok
	start_on h1 job "$launcher" -launcher ssh -launcher-exec "$T/rsh" \
		-hosts h1:2,h2:2 -np 4 c_collectives 3
	finish job
	[ "$(grep -c 'of 4: ok$' <<<"$out")" = 4 ]
}

@test "srun, over two hosts" {
	slurm_or_skip
	slurm_on=start_on
	slurm_up h1 h2
	start_on h1 job srun -N 2 --ntasks-per-node 2 sh -c 'c_guest && c_collectives 3'
	finish job
	two_hosts_ok
	[ "$(grep -c 'of 4: ok$' <<<"$out")" = 4 ]
	start_on h1 job srun --mpi=pmi2 -N 2 --ntasks-per-node 2 c_guest
	finish job
	two_hosts_ok
	# dealt in turn: the ranks of a host are not neighbours
	start_on h1 job srun -N 2 --ntasks-per-node 2 -m cyclic sh -c \
		'c_guest && c_collectives 3'
	finish job
	has "$out" '^rank 1 of 4, local 0 of 2, node 1 of 2: ok$'
	has "$out" '^rank 2 of 4, local 1 of 2, node 0 of 2: ok$'
	[ "$(grep -c 'of 4: ok$' <<<"$out")" = 4 ]
	# killed on the other host
	start_on h1 job srun -N 2 --ntasks-per-node 2 c_guest kill 2
	finish job 137
	has "$out" '^rank 0: -20004: .*rank 2 on h2 ended without ddp_finalize'
}
