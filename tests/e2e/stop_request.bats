# stop_request.bats: a stop request reaches a job once, through whichever ddprun, on all
# nodes and at one step; and how the job then ends.
# covers: launcher/agent rendezvous/round worker-sdk/api

bats_require_minimum_version 1.5.0
load ../lib

# both OPTIONS...: two nodes, a and b, of one job
both() {
	local port name rank=0
	port=$(w_port free)
	for name in a b; do
		start $name ddprun --nnodes 2 --node-rank $rank \
			--rdzv-endpoint "127.0.0.1:$port" --rdzv-id two "$@"
		rank=$((rank + 1))
	done
}

up() { # RANKS_PER_NODE
	local i
	for ((i = 0; i < $1; i++)); do
		await a.out "^\[$i\] up"
		await b.out "^\[$((i + $1))\] up"
	done
}

# reports the worker's end; then waits for a word, and exits with 0
waits='trap "echo told" TERM; trap "echo warned" USR1; echo up
	exec 9<> <(:); while [ ! -e go ]; do read -rt 0.1 -u 9 _ || true; done'
is_deaf='trap "" TERM; echo up; eval "$IDLE"'

# In a step of Slurm's of one task, which ends in $1 s.
step() {
	local end=$((EPOCHSECONDS + $1))
	shift
	start job env ${step_path:+"PATH=$step_path"} SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1 \
		SLURM_NODEID=0 SLURM_STEP_NODELIST=localhost \
		SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1 \
		SLURM_JOB_END_TIME=$end ddprun --nproc-per-node 2 "$@"
}

# early NODES: a ddprun in a step of that many that SIGTERM reaches at its start
early() {
	start early env --block-signal=TERM SLURM_JOB_ID=12 SLURM_STEP_ID=0 \
		SLURM_STEP_NUM_NODES="$1" SLURM_NODEID=1 \
		SLURM_STEP_NODELIST='h[1-2]' SLURM_STEP_NUM_TASKS=2 \
		SLURM_STEP_TASKS_PER_NODE='1(x2)' \
		sh -c 'kill -TERM $$; exec ddprun true'
}

@test "SIGTERM to a ddprun that has just started does not hide another node's exit code" {
	# srun exits with the highest code of its tasks
	early 2
	finish early 1
	early 1
	finish early 143
}

@test "a notice to one of two ddpruns stops polling workers at the same step, without a signal" {
	both --nproc-per-node 2 w_asks 0
	up 2
	signal b TERM
	finish a 143
	all=$out
	# its workers also learn it from their peers, and may be gone by then
	has "$err" '^ddprun: node 1 .* received SIGTERM(: stopping [12] workers?)?$'
	has "$err" "^ddprun: job 'two' ended: node 1 .* received SIGTERM\$"
	finish b 143
	[ "$err" = "ddprun: got SIGTERM: stopping 2 workers (a second signal kills them at once)" ]
	[ "$(sed -n 's/^.* told at \([0-9]*\),.*/\1/p' <<<"$all
$out" | sort | uniq -c | awk '{ print $1 }')" = 4 ]
	nothing_left
}

@test "workers that do not poll get the signal on all nodes, and a ddprun's own counts as its first" {
	both --nproc-per-node 1 bash -c "$waits"
	up 1
	signal a TERM
	await a.out '^\[0\] told'
	await b.out '^\[1\] told'
	# as Slurm does: all get it, and it does not count as a second signal
	signal b TERM
	: >go
	finish a 143
	lacks "$err" 'killing'
	[ "$(grep -c told <<<"$out")" = 1 ]
	finish b 143
	[ "$(grep -c told <<<"$out")" = 1 ]
	lacks "$err" 'killing'
}

@test "a second signal at one ddprun kills the workers of all nodes" {
	both --nproc-per-node 1 --shutdown-timeout 100 bash -c "$is_deaf"
	up 1
	signal b TERM
	await a.err 'received SIGTERM: stopping 1 worker'
	signal b TERM
	finish a 143
	has "$err" '^ddprun: killing 1 worker$'
	finish b 143
	has "$err" '^ddprun: killing 1 worker$'
	nothing_left
}

@test "a third signal while workers are being killed is not reported again" {
	both --nproc-per-node 1 --shutdown-timeout 100 bash -c "$is_deaf"
	up 1
	signal b TERM
	await a.err 'received SIGTERM: stopping 1 worker'
	# both arrive before it learns of the worker's end
	signal b STOP
	signal b TERM
	signal b INT
	signal b CONT
	finish a 143
	finish b 143
	[ "$(grep -c '^ddprun: killing 1 worker$' <<<"$err")" = 1 ]
	nothing_left
}

@test "when the grace period ends, workers are killed, even if they polled once" {
	both --nproc-per-node 1 --shutdown-timeout 0.3 w_asks once
	up 1
	signal a TERM
	finish a 143
	has "$err" '^ddprun: killing 1 worker$'
	finish b 143
	has "$err" '^ddprun: killing 1 worker$'
}

@test "a crash after the notice is a failure with a page, and is not restarted" {
	# a signal that no sanitizer uses itself
	both --nproc-per-node 1 --max-restarts 3 w_asks 143 1 24
	up 1
	signal a TERM
	finish a 152
	has "$err" "^ddprun: job 'two' failed: rank 1 .* was killed by signal 24 \(SIGXCPU\)"
	finish b 152
	[ "$(grep -c '\] up' <<<"$out")" = 1 ]
}

@test "a worker that dies of the signal before its ddprun gets it has not failed" {
	local worker
	start job ddprun --nproc-per-node 2 --max-restarts 1 \
		sh -c 'echo "up $$"; exec tail -f /dev/null'
	await job.out '^\[1\] up'
	await job.out '^\[0\] up [0-9]+'
	worker=${line##* }
	kill -TERM "$worker" "${pid[job]}"
	finish job 143
	lacks "$err" 'failed|restarting'
	# and alone it is one
	start job ddprun --nproc-per-node 2 \
		sh -c 'echo "up $$"; exec tail -f /dev/null'
	await job.out '^\[1\] up'
	await job.out '^\[0\] up [0-9]+'
	kill -TERM "${line##* }"
	finish job 143
	has "$err" 'failed: rank 0 .* was killed by signal 15 \(SIGTERM\)'
}

@test "the rendezvous server survives signals that Slurm sends to a whole step" {
	local p server=
	start job ddprun --nproc-per-node 1 bash -c "$waits"
	await job.out '^\[0\] up'
	for p in $(<"/proc/${pid[job]}/task/${pid[job]}/children"); do
		[ "$(<"/proc/$p/comm")" != ddprdzv ] || server=$p
	done
	[ -n "$server" ]
	for p in TERM USR1 USR2 INT HUP QUIT ALRM; do
		kill -$p "$server"
	done
	: >go
	finish job 0
	[ -z "$err" ]
}

@test "Slurm's SIGUSR1 warns all workers and never kills; a later SIGTERM is the first signal" {
	step 1000 --stop-before 0 --shutdown-timeout 100 bash -c "$waits"
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
	signal job USR1
	await job.out '^\[0\] warned'
	await job.out '^\[1\] warned'
	signal job USR1
	signal job TERM
	await job.out '^\[0\] told'
	await job.out '^\[1\] told'
	: >go
	finish job 138
	has "$err" '^ddprun: got SIGUSR1: stopping 2 workers$'
	has "$err" '^ddprun: got SIGTERM: stopping 2 workers'
	lacks "$err" 'killing'
	# an explicit option takes precedence
	rm go
	step 1000 --stop-before 0 --forward-signals USR1 bash -c "$waits"
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
	signal job USR1
	await job.out '^\[0\] warned'
	: >go
	finish job 0
}

@test "polling workers are notified before the time limit, others on request" {
	step 20 w_asks 0
	finish job 143
	has "$out" '^\[1\] told at'
	has "$err" "^ddprun: the time of Slurm's job 12 ends in [0-9]+ s: workers that poll ddp_should_stop\(\) are notified\$"
	step 20 bash -c "$waits"
	: >go
	finish job 0
	lacks "$out" 'told'
	rm go
	# the notice may arrive before they listen
	step 20 --stop-before 25 bash -c "$waits"
	await job.err 'ends in [0-9]+ s: stopping 2 workers$'
	: >go
	finish job 143
	# 0: it is Slurm's to say
	step 20 --stop-before 0 w_asks 0
	await job.out '^\[1\] up'
	signal job TERM
	finish job 143
	lacks "$err" 'time of Slurm'
}

@test "a failed scontrol is also an error when SIGCHLD was inherited as ignored" {
	printf '#!/bin/sh\necho no controller\nexit 1\n' >scontrol
	printf '#!/bin/bash\ngrep SigBlk /proc/self/status\n' >srun
	chmod +x scontrol srun
	expect 0 env --ignore-signal=CHLD --block-signal=USR1 "PATH=$T:$PATH" \
		SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=1 \
		ddprun --requeue-on timeout true
	has "$err" 'the job cannot be requeued from here: no controller$'
	# srun takes ddprun's place, and has its mask
	has "$out" '^SigBlk:.0000000000000200$'
}

@test "SIGTERM to all processes of the step does not end scontrol" {
	cat >scontrol <<-'EOF'
	#!/bin/sh
	kill -TERM $$ # as from srun -K, where Slurm tracks processes by their parents
	[ "$1" = requeue ] || printf '%s\n' JobId=12 \
		'   JobState=RUNNING Reason=None' \
		'   Requeue=1 Restarts=0 BatchFlag=1'
	EOF
	chmod +x scontrol
	step_path=$T:$PATH step 20 --requeue-on timeout "$BASH" -c \
		'trap "exit 0" TERM; echo up; eval "$IDLE"'
	finish job 143
	has "$err" "^ddprun: Slurm's job 12 has used up its time: it is requeued\$"
}

@test "without scontrol a job that cannot be requeued prints the command" {
	step_path=$O:$O/tests step 20 --requeue-on timeout "$BASH" -c \
		'trap "exit 0" TERM; echo up; eval "$IDLE"'
	finish job 143
	has "$err" "^ddprun: warning: --requeue-on timeout: cannot find out why Slurm's job 12 was stopped: .*scontrol.*; to requeue it, run scontrol requeue 12"
}
