# --env: the variables of JAX, TensorFlow and Paddle; and these, where installed.
# covers: launcher/plan launcher/agent/agent_round.c launcher/pmi
load ../lib

port() {
	meet=127.0.0.1:$(w_port free)
}

node() { # NAME OPTION...
	local name=$1
	shift
	start "$name" ddprun --nnodes 2 --rdzv-endpoint "$meet" "$@"
}

@test "TensorFlow's and Paddle's workers get the reserved ports of all, by rank" {
	expect 0 ddprun --nproc-per-node 3 --env tf,paddle sh -c 'w_port take $DDP_WORKER_PORT >&2
		[ $PADDLE_CURRENT_ENDPOINT = 127.0.0.1:$DDP_WORKER_PORT ] &&
		echo $PADDLE_TRAINER_ID $PADDLE_CURRENT_ENDPOINT $PADDLE_TRAINER_ENDPOINTS; echo $TF_CONFIG'
	local a b c r
	a=$(sed -n 's/^\[0\] 0 \([^ ]*\) .*/\1/p' <<<"$out")
	b=$(sed -n 's/^\[1\] 1 \([^ ]*\) .*/\1/p' <<<"$out")
	c=$(sed -n 's/^\[2\] 2 \([^ ]*\) .*/\1/p' <<<"$out")
	[ "$(printf '%s\n' "$a" "$b" "$c" | sort -u | grep -c .)" = 3 ]
	for r in 0 1 2; do
		grep -qE "^\[$r\] $r [^ ]+ $a,$b,$c\$" <<<"$out"
		grep -qxF "[$r] {\"cluster\":{\"worker\":[\"$a\",\"$b\",\"$c\"]},\"task\":{\"type\":\"worker\",\"index\":$r}}" <<<"$out"
	done
}

@test "two nodes exchange the ports of their workers, again after a restart" {
	local all
	port
	node a --nproc-per-node 2 --max-restarts 1 --env tf \
		sh -c '[ $TORCHELASTIC_RESTART_COUNT = 1 ] && echo $TF_CONFIG'
	node b --nproc-per-node 1 --max-restarts 1 --env tf \
		sh -c '[ $TORCHELASTIC_RESTART_COUNT = 1 ] && echo $TF_CONFIG'
	finish a
	all=$out
	finish b
	all=$(printf '%s\n' "$all" "$out" | sed -nE 's/^\[[0-2]\] .*"worker":\[(.*)\].*/\1/p')
	[ "$(wc -l <<<"$all")" = 3 ]
	[ "$(sort -u <<<"$all" | wc -l)" = 1 ]
	[ "$(sed 1q <<<"$all" | tr , '\n' | sort -u | grep -cE '^"127\.0\.0\.1:[1-9][0-9]*"$')" = 3 ]
}

@test "each attempt has other ports" {
	expect 0 ddprun --max-restarts 2 --env paddle \
		sh -c 'echo $PADDLE_TRAINER_ENDPOINTS; [ $TORCHELASTIC_RESTART_COUNT = 2 ]'
	[ "$(sort -u <<<"$out" | grep -cE '^\[0\] 127\.0\.0\.1:[1-9][0-9]*$')" = 3 ]
}

@test "with MPI served as well, nodes exchange ports first" {
	port
	for name in a b; do
		node $name --mpi pmi --env paddle bash -c '
			pmi() { echo "$1" >&$PMI_FD; read -r answer <&$PMI_FD; }
			pmi "cmd=init pmi_version=1 pmi_subversion=1"
			pmi "cmd=put key=k$RANK value=v$RANK"
			pmi "cmd=barrier_in"
			pmi "cmd=get key=k$((1 - RANK))"
			echo $answer $PADDLE_TRAINER_ENDPOINTS
			pmi "cmd=finalize"'
	done
	for name in a b; do
		finish $name
		has "$out" 'value=v[01] 127.0.0.1:[0-9]+,127.0.0.1:[0-9]+$'
	done
}

@test "Paddle's rank 0 can listen at MASTER_PORT, which is not PyTorch's store" {
	expect 0 ddprun --nproc-per-node 2 --env paddle sh -c '[ $RANK != 0 ] ||
		w_port take $MASTER_PORT >&2
		echo $TORCHELASTIC_USE_AGENT_STORE'
	[ "$(sort <<<"$out")" = $'[0] False\n[1] False' ]
}

@test "inherited variables are replaced without a warning" {
	TF_CONFIG=old SLURM_PROCID=7 expect 0 ddprun --env tf,jax sh -c 'echo $TF_CONFIG
		echo rank $SLURM_PROCID of $SLURM_NTASKS'
	has "$out" '"index":0'
	has "$out" 'rank 0 of 1$'
	lacks "$err" 'TF_CONFIG'
}

@test "a dry run shows what it knows, and names the rest" {
	expect 0 ddprun --dry-run --env jax,tf,paddle true
	has "$out" '^  added    SLURM_PROCID=0$'
	has "$out" '^  added    PADDLE_TRAINERS_NUM=1$'
	has "$out" '^  later .* TF_CONFIG PADDLE_TRAINER_ENDPOINTS'
	has "$out" '^  later .* DDP_WORKER_PORT '
	lacks "$out" 'TF_CONFIG='
}

@test "an unknown name for --env is an error" {
	expect 2 ddprun --env torch true
	has "$err" "--env 'torch': give jax, tf or paddle, or several with commas"
}

# ---- with the packages themselves ----

python() { # MODULE
	export PYTHON_EXEC=${DDP_TEST_PYTHON:-python3}
	export JAX_PLATFORMS=cpu TF_CPP_MIN_LOG_LEVEL=2 CUDA_VISIBLE_DEVICES=
	"$PYTHON_EXEC" -c "import $1" >/dev/null 2>&1 ||
		skip "$PYTHON_EXEC has no $1 (DDP_TEST_PYTHON names another one)"
	# the first attempt loses rank 1 when all have met
	cat >lose.py <<-'P'
		import os, signal
		def lose(rank):
		    if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
		        os.kill(os.getpid(), signal.SIGKILL)
	P
}

all_met() { # TEXT N
	local r
	for ((r = 0; r < $2; r++)); do
		has "$1" "rank $r of $2, sum $(($2 * ($2 + 1) / 2))\$"
	done
}

one_and_two_nodes() { # NAME
	local name both
	expect 0 ddprun --nproc-per-node 4 --max-restarts 1 --env "$1" "$1_worker.py"
	all_met "$out" 4
	has "$err" 'restarting \(1 of 1\): rank 1 '
	port
	for name in a b; do
		node $name --max-restarts 1 --env "$1" "$1_worker.py"
	done
	finish a
	both=$out
	finish b
	all_met "$both"$'\n'"$out" 2
}

@test "JAX's initialize() needs no argument" {
	python jax
	cat >jax_worker.py <<-'P'
		import jax, jax.numpy
		from jax.experimental import multihost_utils
		from lose import lose
		jax.distributed.initialize()
		rank, world = jax.process_index(), jax.process_count()
		lose(rank)
		total = multihost_utils.process_allgather(jax.numpy.array([rank + 1])).sum()
		print(f"rank {rank} of {world}, sum {total}")
	P
	one_and_two_nodes jax
}

@test "TensorFlow's MultiWorkerMirroredStrategy needs no set-up" {
	python tensorflow
	cat >tf_worker.py <<-'P'
		import tensorflow as tf
		from lose import lose
		strategy = tf.distribute.MultiWorkerMirroredStrategy()
		rank = strategy.cluster_resolver.task_id
		world = strategy.num_replicas_in_sync
		lose(rank)
		@tf.function
		def step():
		    def add():
		        here = tf.distribute.get_replica_context()
		        return here.all_reduce("SUM", tf.constant(rank + 1.0))
		    return strategy.run(add)
		print(f"rank {rank} of {world}, sum {int(step())}")
	P
	one_and_two_nodes tf
}

@test "Paddle's init_parallel_env() needs no launcher" {
	python paddle
	cat >paddle_worker.py <<-'P'
		import paddle
		import paddle.distributed as dist
		from lose import lose
		dist.init_parallel_env()
		rank, world = dist.get_rank(), dist.get_world_size()
		lose(rank)
		total = paddle.to_tensor([rank + 1])
		dist.all_reduce(total)
		print(f"rank {rank} of {world}, sum {total.item()}")
	P
	one_and_two_nodes paddle
}
