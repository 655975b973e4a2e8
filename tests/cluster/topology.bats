# topology.bats: a cluster with a topology of switches. Slurm 26.05 numbers the tasks
# in the order of the switches, here h3, h1, h2, but sorts the list of nodes by name;
# older versions use one order for both. Ranks are always the tasks' numbers.
# covers: slurm launcher/config

bats_require_minimum_version 1.5.0
load cluster

setup_file() {
	export slurm_topology=1
	cluster_up
}

teardown_file() { cluster_down; }
setup() { cluster_join; }
teardown() { cluster_leave; }

@test "with srun PROGRAM the ranks meet on the host of task 0" {
	DDP_TIMEOUT=60 slurm 0 salloc -N 3 -n 6 --distribution=block \
		srun -n 6 c_guest
	for i in 0 1 2 3 4 5; do
		has "$out" "^rank $i of 6, local [0-3] of [1-4], node [0-2] of 3: ok\$"
	done
}

@test "a node's rank is its task's number, and MASTER_ADDR is the node of rank 0" {
	# all meet at the first node of the list
	batch 0 -N 3 -n 6 --distribution=block <<-'EOF'
	ddprun --nproc-per-node 1 sh -c 'echo "$RANK is $SLURM_PROCID on $(hostname),
		rank 0 on $MASTER_ADDR"'
	EOF
	for i in 0 1 2; do
		has "$out" "^\\[$i\\] $i is $i on h[123],"
	done
	first=$(sed -n 's/^\[0\] 0 is 0 on \(h[123]\),$/\1/p' <<<"$out")
	[ "$(grep -c "rank 0 on \($first\|${addr[$first]}\)\$" <<<"$out")" = 3 ]
	has "$out" '^ddprun: started in Slurm step [0-9]+\.[0-9]+: using --nnodes 3 --node-rank .SLURM_PROCID .*--rdzv-endpoint h1:'
}

@test "rank 0 gets srun's stdin, also in an elastic job" {
	echo hello >text
	for nodes in 3 2:3; do
		on_login job sh -c "exec salloc -N 3 -n 6 --distribution=block \
			ddprun --nnodes $nodes --nproc-per-node 1 --last-call-timeout 60 \
			sh -c '[ \$RANK != 0 ] || head -n 1' <text"
		finish job
		has "$out" '^\[0\] hello$'
	done
}
