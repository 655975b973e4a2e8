# launch.bats: ddprun under Slurm, beyond hosts/slurm_hosts.bats.
# covers: slurm launcher/config

bats_require_minimum_version 1.5.0
load cluster

setup_file() { cluster_up; }
teardown_file() { cluster_down; }
setup() { cluster_join; }
teardown() { cluster_leave; }

who='echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname) $MASTER_ADDR"'

@test "two ddpruns at once in one allocation do not mix" {
	mkfifo a b
	# each waits for the other: they cannot run one after the other
	batch 0 -N 2 <<-'EOF'
	ddprun --nproc-per-node 1 sh -c '[ $RANK != 0 ] || { echo >a; read x <b; }
		echo "one $RANK/$WORLD_SIZE $TORCHELASTIC_RUN_ID"' &
	ddprun --nproc-per-node 1 sh -c '[ $RANK != 0 ] || { read x <a; echo >b; }
		echo "two $RANK/$WORLD_SIZE $TORCHELASTIC_RUN_ID"' &
	wait %1 && wait %2
	EOF
	for i in one two; do
		has "$out" "^\[0\] $i 0/2 slurm-[0-9]+\.[01]\$"
		has "$out" "^\[1\] $i 1/2 slurm-[0-9]+\.[01]\$"
	done
	[ "$(sed -n 's/^\[0\].* //p' <<<"$out" | sort -u | wc -l)" = 2 ]
}

@test "several programs run as roles of one world, in a step and in an allocation" {
	local role='echo "$RANK/$WORLD_SIZE $ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE $(hostname)"'
	# srun itself would take a ':'
	slurm 0 salloc -w h1,h2 -N 2 ddprun --nproc-per-node 2 \
		-n 1 --role learner sh -c "$role" : -n 3 --role actor sh -c "$role"
	[ "$(grep '^\[' <<<"$out" | sort)" = "[0] 0/4 learner 0/1 h1
[1] 1/4 actor 0/3 h1
[2] 2/4 actor 1/3 h2
[3] 3/4 actor 2/3 h2" ]
	printf '0 --role one sh -c "%s"\n*  --role rest sh -c "%s"\n' 'echo $RANK $ROLE_RANK' \
		'echo $RANK $ROLE_RANK of $ROLE_WORLD_SIZE' >conf
	slurm 0 srun -w h1,h2 -N 2 --ntasks-per-node 1 ddprun --nproc-per-node 2 --multi-prog conf
	[ "$(grep '^\[' <<<"$out" | sort)" = "[0] 0 0
[1] 1 0 of 3
[2] 2 1 of 3
[3] 3 2 of 3" ]
}

@test "two ddpruns with --nnodes get separate nodes" {
	mkfifo a b
	batch 0 -N 3 <<-'EOF'
	ddprun --nnodes 2 sh -c '[ $RANK != 0 ] || { echo >a; read x <b; }
		echo "one $(hostname)"' &
	ddprun --nnodes 1 sh -c 'read x <a; echo >b; echo "two $(hostname)"' &
	wait %1 && wait %2
	EOF
	[ "$(sed -n 's/^\[.\] ... \(h[123]\)$/\1/p' <<<"$out" | sort)" = \
		$'h1\nh2\nh3' ]
}

@test "options override each inferred value" {
	slurm 0 srun -w h1,h2 --ntasks-per-node 1 ddprun --nproc-per-node 3 \
		--rdzv-id mine --rdzv-endpoint h2:29400 sh -c \
		'echo "$RANK $(hostname) $TORCHELASTIC_RUN_ID $DDP_RDZV_ENDPOINT"'
	has "$out" '^\[5\] 5 h2 mine 10.78.0.2:29400$'
	has "$err" '^ddprun: started in Slurm step [0-9]+\.[0-9]+: using --nnodes 2 --node-rank .SLURM_PROCID$'
	slurm 0 srun -w h1,h2 --ntasks-per-node 1 env PET_NPROC_PER_NODE=1 ddprun \
		--master-port 29511 sh -c 'echo "$RANK $DDP_RDZV_ENDPOINT"'
	has "$out" '^\[1\] 1 10.78.0.1:29511$'
	# a job of its own on each node
	slurm 0 srun -w h1,h2 --ntasks-per-node 1 ddprun --standalone sh -c "$who"
	[ "$(grep -c '^\[0\] 0/1 0/1 h[12] 127.0.0.1$' <<<"$out")" = 2 ]
	# not the environment's, which may come from a start-up file
	slurm 0 env MASTER_ADDR=localhost MASTER_PORT=1 srun -w h1,h2 \
		--ntasks-per-node 1 ddprun sh -c "$who"
	has "$out" '^\[1\] 1/2 0/1 h2 h1$'
}

@test "a loop of background sruns works, as in old tutorials" {
	batch 0 -w h1,h2 <<-EOF
	i=0
	for h in h1 h2; do
		srun -N 1 -n 1 -w \$h ddprun --nnodes 2 --node-rank \$i \\
			--nproc-per-node 2 --rdzv-endpoint h1:29400 \\
			sh -c '$who' &
		i=\$((i + 1))
	done
	wait
	EOF
	has "$out" '^\[3\] 3/4 1/2 h2 h1$'
}

@test "ddprun uses all GPUs of the node, and warns if they were requested per task" {
	slurm 0 salloc -N 2 --ntasks-per-node 2 --gpus-per-task 1 ddprun \
		sh -c 'echo "$RANK/$WORLD_SIZE $CUDA_VISIBLE_DEVICES"'
	has "$out" '^\[3\] 3/4 0,1$'
	slurm 0 srun -N 2 --ntasks-per-node 1 --gpus-per-task 1 ddprun \
		--nproc-per-node 2 true
	has "$err" '^ddprun: warning: Slurm shows this ddprun 1 GPU for 2 workers: with --gpus-per-task .*--gpus-per-node=N instead$'
	slurm 2 salloc -N 1 --ntasks-per-node 2 --gpus-per-task 1 srun ddprun true
	has "$err" 'and --gpus-per-node instead of --gpus-per-task'
}

@test "a node that cannot resolve the first node's name reports it" {
	slurm - scontrol getaddrs h1
	[ "$status" != 0 ] || skip "this scontrol finds it (failures.bats)"
	hosts=$CLUSTER/etc_hosts.h2
	cp "$hosts" before
	grep -v ' h1$' before >"$hosts"
	on_login job srun -K -w h1,h2 --ntasks-per-node 1 ddprun true
	DEADLINE=30 finish job - || status=0
	cat before >"$hosts"
	[ "$status" != 0 ]
	has "$err" "^ddprun: error: the nodes of this Slurm step meet on the first one, but on h2 host 'h1' does not resolve: .*with --rdzv-endpoint ADDRESS:PORT"
}

@test "a first node whose own name is 127.0.1.1 is reachable" {
	cp "$CLUSTER/etc_hosts.h1" before
	T=$CLUSTER own_name h1 127.0.1.1
	on_login job srun -K -w h1,h2 --ntasks-per-node 1 ddprun sh -c \
		'echo "$RANK $MASTER_ADDR $DDP_RDZV_ENDPOINT"'
	DEADLINE=30 finish job - || status=1
	cat before >"$CLUSTER/etc_hosts.h1"
	[ "$status" = 0 ]
	# the interface to the others, and not all of them
	has "$out" '^\[0\] 0 h1 10.78.0.1:[0-9]+$'
	has "$out" '^\[1\] 1 h1 10.78.0.1:[0-9]+$'
}

@test "a job avoids a port that another job uses" {
	batch 0 -w h1,h2 <<-'EOF'
	step() { # the step that comes next, as its first task sees it
		env SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 SLURM_NODEID=0 \
			SLURM_STEP_NODELIST=h[1-2] SLURM_STEP_NUM_TASKS=2 \
			"SLURM_STEP_TASKS_PER_NODE=1(x2)" "$@"
	}
	port=$(step ddprun --dry-run true 2>&1 |
		sed -n 's/.*--rdzv-endpoint h1:\([0-9]*\) .*/\1/p')
	mkfifo ready
	ddprdzv --listen 0.0.0.0:$port --job other 2>ready &
	read -r line <ready
	echo "taken: $port"
	ddprun --nproc-per-node 1 sh -c 'echo "$RANK $DDP_RDZV_ENDPOINT"'
	status=$?
	kill $!
	exit $status
	EOF
	has "$out" '^taken: [0-9]+$'
	port=$(sed -n 's/^taken: //p' <<<"$out")
	has "$out" "^ddprun: started in Slurm step [0-9]+\.[0-9]+: using .*--rdzv-endpoint h1:$port "
	has "$out" '^\[1\] 1 10.78.0.1:[0-9]+$'
	! grep -q "^\[1\] 1 10.78.0.1:$port\$" <<<"$out"
}

@test "a node beyond --nnodes N:N is a spare and replaces a lost node" {
	on_login job salloc -N 3 ddprun --nnodes 2:2 --nproc-per-node 1 \
		--max-restarts 1 sh -c 'echo "at $(hostname) $PPID"
		[ $TORCHELASTIC_RESTART_COUNT != 0 ] ||
			[ -e again ] || exec tail -f /dev/null
		echo "done $RANK/$WORLD_SIZE"'
	await "$T/job.err" 'waits as a spare'
	await "$T/job.out" ' at h1 '
	await "$T/job.out" ' at h[23] [0-9]+'
	set -- $line
	: >again
	start_on "$3" killer kill -KILL "$4"
	finish killer
	finish job -
	has "$err" 'srun --nodes=3 .*--no-kill --kill-on-bad-exit=0 '
	has "$out" '^\[1\] done 1/2$'
}

@test "one scancel ends the workers of all nodes" {
	slurm 0 sbatch -N 2 --parsable -o "$T/batch.log" --wrap \
		"exec ddprun --nproc-per-node 1 --shutdown-timeout 4 bash -c 'trap \"echo bye; exit 0\" TERM; echo up; eval \"\$IDLE\"'"
	id=$out
	await batch.log '^\[0\] up'
	await batch.log '^\[1\] up'
	slurm 0 scancel "$id"
	await batch.log '^\[0\] bye'
	await batch.log '^\[1\] bye'
	nothing_left
}

@test "--kill-on-bad-exit does not shorten the grace period of a ddprun" {
	# rank 0 needs time after rank 1's failure; srun's SIGTERM cuts it not
	# short, and is not what it exits with. (Slurm sends it to the workers,
	# too, here: a second one would run bash's trap in the midst of itself.)
	mkfifo gone up
	on_login job srun -N 2 --ntasks-per-node 1 --kill-on-bad-exit=1 ddprun \
		--nproc-per-node 1 bash -c 'if [ $RANK = 1 ]; then
			echo >up; exit 5; fi
		trap "trap \"\" TERM; read x <gone; echo saved; exit 0" TERM
		read x <up
		eval "$IDLE"'
	await "$T/job.err" 'Exited with exit code 5'
	await "$T/job.err" 'Terminating StepId'
	echo >gone
	finish job 5
	has "$out" '^\[0\] saved$'
}

@test "--dry-run prints what would be run" {
	slurm 0 salloc -N 2 ddprun --dry-run --nproc-per-node 2 ./a 'b c'
	[[ $out == "srun --nodes=2 --ntasks=2 "*"/ddprun --dry-run --nproc-per-node 2 ./a 'b c'" ]]
}

@test "the trainer trains over two nodes without options" {
	slurm 0 srun -N 2 --ntasks-per-node 1 -c 1 ddprun mnist_mlp --epochs 1
	has "$out" '^(\[0\] )?test accuracy [0-9.]+ %'
}

# reader RANK CMD...: that rank counts its stdin, and the others run until it has
reader() {
	local rank=$1
	shift
	head -c 20000000 /dev/zero >large
	mkfifo go
	exec 8<>go
	on_login job sh -c 'exec salloc -N 3 "$@" <large' sh "$@" --nproc-per-node 1 \
		sh -c '[ $RANK = '"$rank"' ] || { read -r x; exit; } <'"$T"'/go
		wc -c
		printf "\n\n" >'"$T"'/go'
	finish job
	exec 8>&-
	has "$out" "^\\[$rank\\] 20000000\$"
}

@test "a large stdin from srun, which reaches all nodes, arrives at rank 0" {
	reader 0 srun --ntasks-per-node=1 ddprun
}

@test "a large stdin arrives at a rank of another node" {
	reader 1 ddprun --stdin 1
}

@test "a large stdin arrives at rank 0 of an elastic job" {
	reader 0 ddprun --nnodes 2:3 --last-call-timeout 60
}

@test "a large stdin arrives at rank 0 beside a spare" {
	reader 0 ddprun --nnodes 2:2
}
