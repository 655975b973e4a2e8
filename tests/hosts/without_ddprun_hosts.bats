# without_ddprun_hosts.bats: workers without ddprun on hosts with separate addresses:
# started by hand, torchrun, OpenMPI's mpirun, MPICH's mpiexec, srun. They meet by what
# their launcher provides, and find their host's address themselves.
# covers: worker-sdk/core worker-sdk/kv worker-sdk/tcp pmi

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

# Replaces ssh: $T/rsh HOST CMD... on one host asks a shell outside of
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
			) </dev/null & # MPICH 4.3 makes its stdin non-blocking
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

@test "ranks started by hand on two hosts meet" {
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

@test "OpenMPI's mpirun starts ranks on two hosts" {
	local launcher
	rsh_up
	launcher=$(command -v mpirun.openmpi || command -v mpirun) || skip \
		"OpenMPI is not installed"
	[[ $("$launcher" --version 2>&1) == *open-mpi.org* ]] ||
		skip "OpenMPI is not installed"
	start_on h1 job "$launcher" --mca plm_rsh_agent "$T/rsh" \
		-H h1:2,h2:2 -np 4 c_guest
	finish job
	two_hosts_ok
	start_on h1 job "$launcher" --mca plm_rsh_agent "$T/rsh" \
		-H h1:2,h2:2 -np 4 c_collectives 3
	finish job
	[ "$(grep -c 'of 4: ok$' <<<"$out")" = 4 ]
}

@test "MPICH's mpiexec starts ranks on two hosts" {
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

# Both hosts have a bridge with the same address, and call themselves 127.0.1.1:
# only one of the addresses that the first one offers works.
confuse() {
	local h
	for h in h1 h2; do
		in_net $h ip link add docker0 type bridge
		in_net $h ip addr add 172.17.0.1/16 dev docker0
		in_net $h ip link set docker0 up
		own_name $h 127.0.1.1
	done
}

# One ddprun a node; $out, $err of a job of two nodes with two workers each.
is_two_level() { # NAME RANK_VARIABLE
	two_hosts_ok
	[ "$(grep -c 'of 4: ok$' <<<"$out")" = 4 ]
	has "$err" "^ddprun: started by $1 on 2 nodes: using --nnodes 2 --node-rank [$]$2 --rdzv-endpoint 10.78.0.1:[0-9]+ --rdzv-id mpi-[0-9a-f]+\$"
	[ "$(grep -c 'started by' <<<"$err")" = 1 ]
	has "$out" '^master 10.78.0.1, no rank of another$'
}

# free_port NAME COMMAND: port 0 at a given address is a free port, which
# the others learn; h1 is 127.0.1.1 to itself.
free_port() {
	local at
	for at in '--rdzv-endpoint h1:0' '--nnodes 2 --rdzv-endpoint 10.78.0.1:0' \
		'--master-addr h1 --master-port 0'; do
		start_on h1 job $2 ddprun --nproc-per-node 1 $at sh -c 'c_guest &&
			echo "at $DDP_RDZV_ENDPOINT"'
		finish job
		has "$out" 'rank 1 of 2, .* node 1 of 2: ok$'
		has "$out" 'at (h1|10\.78\.0\.1):[1-9][0-9]+$'
		has "$err" "^ddprun: started by $1 on 2 nodes: using .* --rdzv-endpoint (h1|10\.78\.0\.1):[1-9][0-9]+ "
	done
	start_on h1 job $2 ddprun --nproc-per-node 1 --rdzv-endpoint 10.78.0.2:0 true
	finish job 2
	has "$err" "^ddprun: error: the rendezvous 10\.78\.0\.2:0 has port 0, which means a free port of that host, but $1 starts the first ddprun on h1, which does not have this address: give one of its addresses, or a port\$"
}

two_level='c_guest && c_collectives 3 && {
	env | grep -Eq "^(PMI|PMIX|OMPI_COMM)_(RANK|SIZE|WORLD)" && exit 1
	echo "master $MASTER_ADDR, no rank of another"
}'

@test "OpenMPI's mpirun starts one ddprun per node" {
	local launcher
	rsh_up
	launcher=$(command -v mpirun.openmpi || command -v mpirun) || skip \
		"OpenMPI is not installed"
	[[ $("$launcher" --version 2>&1) == *open-mpi.org* ]] ||
		skip "OpenMPI is not installed"
	confuse
	launcher="$launcher --mca plm_rsh_agent $T/rsh --mca oob_tcp_if_include eth0 --mca if_include eth0 -H h1:4,h2:4"
	start_on h1 job $launcher --map-by ppr:1:node \
		ddprun --nproc-per-node 2 --log-line-prefix-template '' sh -c "$two_level"
	finish job
	is_two_level mpirun OMPI_COMM_WORLD_RANK
	# the same by PMIx alone
	start_on h1 job $launcher --map-by ppr:1:node env -u OMPI_COMM_WORLD_RANK \
		ddprun --nproc-per-node 2 --log-line-prefix-template '' sh -c "$two_level"
	finish job
	is_two_level prterun PMIX_RANK
	free_port mpirun "$launcher --map-by ppr:1:node"
	# a worker on the other node
	mkfifo never
	start_on h1 job $launcher --map-by ppr:1:node \
		ddprun --nproc-per-node 1 sh -c 'test $RANK = 0 || exit 7; read -r never <never'
	finish job 7
}

@test "MPICH's mpiexec starts one ddprun per node" {
	local launcher
	rsh_up
	launcher=$(command -v mpiexec.hydra) || skip "MPICH is not installed"
	confuse
	launcher="$launcher -launcher ssh -launcher-exec $T/rsh -hosts h1,h2"
	start_on h1 job $launcher -n 2 -ppn 1 \
		ddprun --nproc-per-node 2 --log-line-prefix-template '' sh -c "$two_level"
	finish job
	is_two_level mpiexec PMI_RANK
	# options given by hand stay
	start_on h1 job $launcher -n 2 -ppn 1 ddprun --nproc-per-node 1 \
		--rdzv-endpoint 10.78.0.1:4711 --rdzv-id mine sh -c 'echo "$TORCHELASTIC_RUN_ID $DDP_RDZV_ENDPOINT"'
	finish job
	[ "$(grep -c 'mine 10.78.0.1:4711' <<<"$out")" = 2 ]
	has "$err" '^ddprun: started by [a-z]+ on 2 nodes: using --nnodes 2 --node-rank [$]PMI_RANK$'
	free_port "mpiexec" "$launcher -n 2 -ppn 1"
}

@test "srun starts ranks on two hosts" {
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
