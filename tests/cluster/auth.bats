# auth.bats: authentication on a cluster with munge. hosts/slurm_hosts.bats tests
# that a second user can neither join nor read.
# covers: rendezvous/auth

bats_require_minimum_version 1.5.0
load cluster

setup_file() { cluster_up; }
teardown_file() { cluster_down; }
setup() { cluster_join; }
teardown() { cluster_leave; }

@test "nodes refuse a server of another user" {
	as_other h1 evil ddprdzv --auth munge --listen "${addr[h1]}:29400"
	await "$T/evil.err" 'listening on'
	slurm 77 srun -w h2 -N 1 -n 1 ddprun --nnodes 2 \
		--rdzv-endpoint h1:29400 true
	# either may detect it first
	has "$err" 'rendezvous server 10\.78\.0\.1:29400: it '
	has "$(<"$T/evil.err")" 'munge identifies it as user 0, but this server runs as user 65534$'
	signal evil TERM
	finish evil
}

@test "a munged that is down on one node is reported at once, with the node's name" {
	# a second munged of the same cluster, which dies
	start second munged --foreground --force \
		--key-file="$CLUSTER/slurm/munge.key" --socket="$T/second.sock" \
		--pid-file="$T/second.pid" --log-file="$T/second.log" \
		--seed-file="$T/second.seed"
	slurm_wait test -S "$T/second.sock"
	signal second KILL
	finish second 137
	cat >node.sh <<-EOF
	[ \$SLURM_NODEID = 0 ] || export DDP_MUNGE_SOCKET=$T/second.sock
	exec ddprun --nproc-per-node 1 sh -c 'echo "rank \$RANK"'
	EOF
	# (srun may end the other task before it prints anything)
	slurm - srun -K -w h1,h2 -N 2 --ntasks-per-node 1 bash node.sh
	[ "$status" != 0 ]
	has "$err" 'h2: task 1: Exited with exit code 77'
	has "$err" "error: munged does not answer on h2 \($T/second.sock: Connection refused\); start it there \(systemctl start munge\), or give all nodes the same secret with --token-file FILE"
	# the workaround
	echo a-token-for-all-the-nodes >token
	chmod 600 token
	sed -i 's/ddprun/ddprun --token-file token/' node.sh
	slurm 0 srun -w h1,h2 -N 2 --ntasks-per-node 1 bash node.sh
	[ "$(sort <<<"$out")" = $'[0] rank 0\n[1] rank 1' ]
}

@test "workers that srun starts directly authenticate with munge" {
	slurm 0 srun -w h1,h2 -N 2 -n 4 c_guest
	has "$out" .
}
