# slurm_hosts.bats: ddprun without options under Slurm: as the task of a step, and in
# an allocation, where it starts the step itself. cluster/launch.bats has more.
# covers: slurm launcher/config

bats_require_minimum_version 1.5.0
load ../cluster/cluster

setup_file() { cluster_up; }
teardown_file() { cluster_down; }
setup() { cluster_join; }
teardown() { cluster_leave; }

# A worker that prints its rank, its host, and its peers.
who='echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname) $MASTER_ADDR"'

@test "srun ddprun starts a worker per GPU, and the step's first node hosts the server" {
	slurm 0 srun -w h2,h3 -N 2 --ntasks-per-node 1 --gpus-per-node 2 \
		ddprun sh -c "$who"
	[ "$(sort <<<"$out")" = "[0] 0/4 0/2 h2 h2
[1] 1/4 1/2 h2 h2
[2] 2/4 0/2 h3 h2
[3] 3/4 1/2 h3 h2" ]
	# printed once, as options
	[ "$(grep -c '^ddprun: ' <<<"$err")" = 1 ]
	has "$err" "^ddprun: started in Slurm step [0-9]+\.0: using --nnodes 2 --node-rank .SLURM_PROCID --nproc-per-node 2 \(by its GPUs\) --rdzv-endpoint h2:[0-9]+ --rdzv-id slurm-[0-9]+\.0\$"
}

@test "ddprun in a batch script starts the step, one task per node" {
	batch 0 -w h1,h2 -N 2 --ntasks-per-node 2 -c 2 <<-EOF
	ddprun sh -c '$who "\$SLURM_CPUS_PER_TASK \${DDP_SLURM_TASKS_PER_NODE:-} \$SLURM_STEP_NUM_TASKS"'
	EOF
	has "$out" "^ddprun: in Slurm's job [0-9]+, of 2 nodes: srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --overlap --cpu-bind=none .*--kill-on-bad-exit=1 .*/ddprun sh -c '"
	has "$out" 'by the job.s tasks'
	[ "$(grep '^\[' <<<"$out" | sort)" = "[0] 0/4 0/2 h1 h1 2  2
[1] 1/4 1/2 h1 h1 2  2
[2] 2/4 0/2 h2 h1 2  2
[3] 3/4 1/2 h2 h1 2  2" ]
}

@test "nodes may have different numbers of tasks, and a step may use some of the nodes" {
	# 2 tasks on one node and 1 on the other
	slurm 0 salloc -w h1,h2 -N 2 -n 3 ddprun sh -c "$who"
	[ "$(sort <<<"$out")" = "[0] 0/3 0/2 h1 h1
[1] 1/3 1/2 h1 h1
[2] 2/3 0/1 h2 h1" ]
	slurm 0 salloc -N 3 srun -w h2,h3 -N 2 -n 2 ddprun --nproc-per-node 1 \
		sh -c "$who"
	[ "$(sort <<<"$out")" = "[0] 0/2 0/1 h2 h2
[1] 1/2 0/1 h3 h2" ]
	slurm 0 salloc -w h1 ddprun --nproc-per-node 2 sh -c "$who"
	[ "$(sort <<<"$out")" = "[0] 0/2 0/2 h1 127.0.0.1
[1] 1/2 1/2 h1 127.0.0.1" ]
}

@test "a worker's exit code is srun's, and nothing is left" {
	slurm 7 srun -w h1,h2 -N 2 --ntasks-per-node 1 ddprun --nproc-per-node 2 sh -c \
		'[ $RANK != 3 ] || exit 7; exec tail -f /dev/null'
	has "$err" 'rank 3 \(local rank 1\) on h2, .*exited with code 7'
	batch 7 -w h1,h2 -N 2 <<-'EOF'
	ddprun --nproc-per-node 2 sh -c '[ $RANK != 1 ] || exit 7; exec tail -f /dev/null'
	EOF
	has "$out" 'rank 1 \(local rank 1\) on h1, .*exited with code 7'
	nothing_left
}

@test "a request that Slurm cannot meet is an error with a remedy" {
	slurm 2 salloc -N 2 ddprun --nnodes 3 true
	has "$err" "^ddprun: error: --nnodes 3: this Slurm allocation has 2 nodes; leave --nnodes out, or ask for more with sbatch or salloc --nodes=N\$"
	slurm 2 srun -N 2 --ntasks-per-node 1 ddprun --nnodes 3 true
	has "$err" "^ddprun: error: --nnodes 3: this Slurm step has 2 nodes; .*srun --nodes=N\$"
	slurm 2 srun -N 1 --ntasks-per-node 2 ddprun true
	has "$err" '^ddprun: error: srun starts 2 ddpruns on 1 node \(2\), .*: write srun --nodes=1 --ntasks=1 --ntasks-per-node=1 ddprun --nproc-per-node 2, or srun PROGRAM without ddprun$'
}

# The first of two nodes, in Slurm's job, waits for the other.
first_waits() {
	on_login job srun -w h1 -N 1 -n 1 ddprun --nnodes 2 --nproc-per-node 1 \
		--rdzv-endpoint h1:29400 --rdzv-id ours \
		sh -c 'echo "rank $RANK"; exec tail -f /dev/null'
	await "$T/job.err" 'waiting 1 s at h1:29400 for 1 of 2 nodes'
}

second_joins() {
	on_login job2 srun -w h2 -N 1 -n 1 ddprun --nnodes 2 --nproc-per-node 1 \
		--rdzv-endpoint h1:29400 --rdzv-id ours \
		sh -c 'echo "rank $RANK"'
}

@test "a second user of the cluster can neither join nor read" {
	first_waits
	as_other h2 evil ddprun --auth munge --nnodes 2 --rdzv-id ours \
		--rdzv-endpoint h1:29400 true
	finish evil 77
	has "$err" 'rendezvous server 10\.78\.0\.1:29400: it rejected our munge credential: it does not run as user 65534, or '
	await "$T/job.err" 'ddprdzv: warning: refused 10\.78\.0\.2:[0-9]+ \(claims host h2, job .ours.\): munge identifies it as user 65534, but this server runs as user 0'
	as_other h2 evil ddprun status --auth munge --rdzv-endpoint h1:29400
	finish evil 77
	as_other h2 evil ddprun dump --auth munge --rdzv-endpoint h1:29400 \
		--job ours
	finish evil 77
	# with a secret of his own, and with none
	as_other h2 evil DDP_TOKEN=guessed-by-the-second-user ddprun --nnodes 2 \
		--rdzv-id ours --rdzv-endpoint h1:29400 true
	finish evil 77
	as_other h2 evil ddprun --auth none --nnodes 2 --rdzv-id ours \
		--rdzv-endpoint h1:29400 true
	finish evil 77
	# nor is the workers' key visible
	second_joins
	await "$T/job.out" 'rank [01]'
	as_other h1 evil sh -c 'cat /proc/[0-9]*/environ 2>/dev/null | tr "\0" "\n" |
		grep -c ^DDP_JOB_KEY'
	finish evil 1
	[ "$out" = 0 ]
	as_other h1 evil DDP_JOB_KEY=$(printf '%064d' 0) rdzv_client do \
		"${addr[h1]}:29400" ours 0 0 get k
	finish evil 1
	has "$out" 'it rejected our (secret|key)'
	signal job TERM
	finish job -
	finish job2 -
}
