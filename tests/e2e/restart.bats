# --restart-backoff: how long a job waits before a restart, and what ends the wait.
# --max-no-progress-restarts: restarts that reach no further step end the job.
# covers: launcher/agent/restart.c launcher/agent/agent_acts.c rendezvous/round/round_transition.c
load ../lib

port() {
	at=127.0.0.1:$(w_port free)
}

# node NAME OPTIONS...: a ddprun of a job of two nodes
node() {
	local name=$1
	shift
	start "$name" ddprun --rdzv-endpoint "$at" --max-restarts 3 "$@"
}

# first NAME OPTIONS...: the same, and it hosts the server, which ends with its node
first() {
	DDP_LOG=debug node "$@"
	await "$T/$1.err" 'debug: 1 of [0-9]+ nodes have joined'
}

# Its worker of node 1 fails in the first attempt.
fails_once='echo attempt $TORCHELASTIC_RESTART_COUNT
	[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
	[ $RANK = 1 ] && exit 4
	exec tail -f /dev/null'

@test "each restart waits twice as long as the one before" {
	expect 4 ddprun --max-restarts 3 --restart-backoff 0.2 --log-dir logs \
		sh -c 'exit 4'
	has "$err" '^ddprun: restarting \(1 of 3\) in 0.2 s: rank 0 '
	has "$err" '^ddprun: restarting \(2 of 3\) in 0.4 s: rank 0 '
	has "$err" '^ddprun: restarting \(3 of 3\) in 0.8 s: rank 0 '
	has "$err" '^ddprun: running again after [0-9.]+ ms \(stop [0-9.]+, backoff [0-9.]+, rendezvous [0-9.]+, start [0-9.]+\)$'
	python3 -c '
import glob, json
from datetime import datetime
r = json.load(open(glob.glob("logs/*/attempt_3/report.json")[0]))
t = [datetime.fromisoformat(a["time"][:-1]).timestamp() for a in r["attempts"]]
gaps = [b - a for a, b in zip(t, t[1:])]
assert all(g >= w - 0.01 for g, w in zip(gaps, (0.2, 0.4, 0.8))), gaps
'
}

@test "without --restart-backoff a restart is immediate and names no wait" {
	expect 4 ddprun --max-restarts 1 sh -c 'exit 4'
	has "$err" '^ddprun: restarting \(1 of 1\): rank 0 '
	lacks "$err" 'backoff'
}

@test "a signal during the wait ends the job at once" {
	start job ddprun --max-restarts 3 --restart-backoff 900 sh -c 'exit 4'
	await job.err '^ddprun: restarting \(1 of 3\) in 900 s: rank 0 '
	signal job TERM
	DEADLINE=20 finish job 143
	has "$err" '^ddprun: got SIGTERM: leaving$'
	lacks "$err" 'running again'
}

@test "two nodes wait together, longer than the heartbeat timeout" {
	port
	node a --nnodes 2 --node-rank 0 --restart-backoff 4 \
		--heartbeat-timeout 2 sh -c "$fails_once"
	node b --nnodes 2 --node-rank 1 --restart-backoff 4 \
		--heartbeat-timeout 2 sh -c "$fails_once"
	finish a
	has "$err" '^ddprun: restarting \(1 of 3\) in 4 s: rank 1 '
	has "$out" 'attempt 1$'
	lacks "$err" 'was lost'
	finish b
	has "$err" '^ddprun: restarting \(1 of 3\) in 4 s: rank 1 '
	has "$out" 'attempt 1$'
}

@test "a node whose restart options differ from the others' is refused" {
	port
	node a --nnodes 2 --node-rank 0 --restart-backoff 1.5 true
	await a.err '^ddprun: waiting [0-9]+ s .* for 1 of 2 nodes'
	expect 77 ddprun --rdzv-endpoint "$at" --nnodes 2 --max-restarts 3 true
	has "$err" "has --restart-backoff 0, but [^ ]+ has 1.5 in job 'none' at $at: give both the same value"
	expect 77 ddprun --rdzv-endpoint "$at" --nnodes 2 --max-restarts 3 \
		--restart-backoff 1.5 --max-no-progress-restarts 0 true
	has "$err" "has --max-no-progress-restarts 0, but [^ ]+ has 3 in job 'none' at $at: give both the same value"
	node b --nnodes 2 --restart-backoff 1.5 true
	finish b
	finish a
}

@test "a signal to one node during the wait ends the other one, which names it" {
	port
	first a --nnodes 2 --node-rank 0 --restart-backoff 900 sh -c "$fails_once"
	node b --nnodes 2 --node-rank 1 --restart-backoff 900 sh -c "$fails_once"
	await a.err '^ddprun: restarting \(1 of 3\) in 900 s: rank 1 '
	await b.err '^ddprun: restarting \(1 of 3\) in 900 s: rank 1 '
	signal b TERM
	DEADLINE=20 finish b 143
	DEADLINE=20 finish a 143
	has "$err" "^ddprun: job 'none' ended: node 1 .* received SIGTERM\$"
}

@test "a node that dies during the wait ends the wait of a fixed job" {
	port
	first a --nnodes 2 --node-rank 0 --restart-backoff 900 sh -c "$fails_once"
	node b --nnodes 2 --node-rank 1 --restart-backoff 900 sh -c "$fails_once"
	await a.err '^ddprun: restarting \(1 of 3\) in 900 s: rank 1 '
	await b.err '^ddprun: restarting \(1 of 3\) in 900 s: rank 1 '
	signal b KILL
	finish b -
	DEADLINE=20 finish a 69
	has "$err" "^ddprun: job 'none' failed: node 1 .* was lost"
	# the page keeps both causes
	has "$err" '^\|  attempt 1    [0-9-]+ [0-9:]+ UTC, rank 1 on [^ ]+ exited with code 4$'
	has "$err" '^\|  attempt 1    [0-9-]+ [0-9:]+ UTC, node 1 .* was lost'
}

@test "an elastic job continues without a node that dies during the wait" {
	port
	first a --nnodes 1:2 --node-rank 0 --restart-backoff 3 sh -c "$fails_once"
	node b --nnodes 1:2 --node-rank 1 --restart-backoff 3 sh -c "$fails_once"
	await a.err '^ddprun: restarting \(1 of 3\) in 3 s: rank 1 '
	await b.err '^ddprun: restarting \(1 of 3\) in 3 s: rank 1 '
	signal b KILL
	finish b -
	finish a
	has "$out" 'attempt 1$'
	has "$err" '^ddprun: running again after '
}

@test "status says that the job restarts while it waits" {
	port
	node a --nnodes 1 --rdzv-id "waits.$$" --restart-backoff 900 sh -c 'exit 4'
	await a.err '^ddprun: restarting \(1 of 3\) in 900 s: rank 0 '
	expect 0 ddprun status --job "waits.$$"
	has "$out" "^job 'waits.[0-9]+' at .*: restarting for [0-9]+ s, round 1, attempt 2 of 4\$"
	signal a TERM
	DEADLINE=20 finish a 143
}

@test "the variable sets the backoff, and --dry-run shows it" {
	PET_RESTART_BACKOFF=0.2 expect 4 ddprun --max-restarts 1 sh -c 'exit 4'
	has "$err" '^ddprun: restarting \(1 of 1\) in 0.2 s: '
	expect 0 ddprun --max-restarts 5 --restart-backoff 10 --dry-run true
	has "$out" '^restarts: at most 5, the first after 10 s$'
	expect 0 ddprun --max-restarts 5 --dry-run true
	lacks "$out" '^restarts:'
	expect 2 ddprun --restart-backoff -1 true
	has "$err" '--restart-backoff: -1'
}

# ---- restarts without progress ----

# Its rank 1 reports step 101, and fails.
fails_at_step='[ $RANK = 1 ] || exec tail -f /dev/null
	echo 101 >>"$DDP_STEP_FILE"
	exit 7'

@test "three restarts that reach no further step end the job, which reports it" {
	expect 7 ddprun --nproc-per-node 2 --max-restarts 50 --log-dir logs sh -c "$fails_at_step"
	has "$err" "^ddprun: job '[^']+' failed: 3 restarts in a row reached no step beyond 101 \\(--max-no-progress-restarts\\): rank 1 \\(local rank 1\\) on [^ ]+, pid [0-9]+, exited with code 7\$"
	has "$err" '^\|  attempt      4 of 51$'
	has "$err" '^\|  attempt 4 .* rank 1 on [^ ]+ exited with code 7$'
	lacks "$err" '^\|  attempt 5 '
	python3 -c '
import glob, json
r = json.load(open(glob.glob("logs/*/attempt_3/report.json")[0]))
assert r["text"].startswith("3 restarts in a row reached no step beyond 101"), r
assert r["exit_code"] == 7 and r["first_failure"]["rank"] == 1, r
assert [a["attempt"] for a in r["attempts"]] == [0, 1, 2, 3], r
'
}

@test "a job whose restarts make progress uses all of them" {
	expect 7 ddprun --nproc-per-node 2 --max-restarts 5 --max-no-progress-restarts 1 sh -c '
		[ $RANK = 1 ] || exec tail -f /dev/null
		echo $TORCHELASTIC_RESTART_COUNT >>"$DDP_STEP_FILE"
		exit 7'
	has "$err" '^ddprun: restarting \(5 of 5\): rank 1 '
	lacks "$err" 'no step beyond'
}

@test "without steps, or with --max-no-progress-restarts 0, a job uses all restarts" {
	expect 4 ddprun --max-restarts 5 sh -c 'exit 4'
	has "$err" '^ddprun: restarting \(5 of 5\): rank 0 '
	lacks "$err" 'no step beyond'
	PET_MAX_NO_PROGRESS_RESTARTS=0 expect 7 ddprun --nproc-per-node 2 --max-restarts 5 sh -c "$fails_at_step"
	has "$err" '^ddprun: restarting \(5 of 5\): rank 1 '
	lacks "$err" 'no step beyond'
}

@test "steps reported with ddp_step count as well" {
	expect 7 ddprun --nproc-per-node 2 --max-restarts 9 --max-no-progress-restarts 1 sh -c '
		c_pause step 9 && exit 7'
	has "$err" "^ddprun: job '[^']+' failed: the restart reached no step beyond 29 \\(--max-no-progress-restarts\\): rank [01] "
	has "$err" '^ddprun: restarting \(1 of 9\): '
}

@test "every node says that there is no progress, by the steps of all" {
	port
	mkfifo met
	local worker='[ $RANK = 0 ] || { read -r _ <met; exit 7; }
		echo 41 >>"$DDP_STEP_FILE"
		echo >met
		exec tail -f /dev/null'
	start a ddprun --rdzv-endpoint "$at" --nnodes 2 --node-rank 0 --max-restarts 20 sh -c "$worker"
	start b ddprun --rdzv-endpoint "$at" --nnodes 2 --node-rank 1 --max-restarts 20 sh -c "$worker"
	finish a 7
	has "$err" "^ddprun: job 'none' failed: 3 restarts in a row reached no step beyond 41 .*: rank 1 "
	finish b 7
	has "$err" "^ddprun: job 'none' failed: 3 restarts in a row reached no step beyond 41 .*: rank 1 "
}

# ---- a node that fails at the start ----

@test "a spare takes the place of a node that fails at the start three times" {
	port
	mkfifo came told met
	local worker='case $ROLE_NAME in
		bad)	[ $TORCHELASTIC_RESTART_COUNT != 0 ] || read -r _ <came
			exit 7 ;;
		spare)	read -r _ <told
			echo >met ;;
		*)	echo up
			read -r _ <met ;;
		esac'
	local swap='^ddprun: node 1 \([^ ]+\) was the first to fail 3 times in a row at the start \(--swap-after\): the spare [^ ]+ takes its place, and it waits as a spare$'
	start a ddprun --rdzv-endpoint "$at" --nnodes 2 --node-rank 0 --max-restarts 9 \
		--on-event "cat >>events" sh -c "$worker"
	await a.err '^ddprun: waiting [0-9]+ s .* for 1 of 2 nodes'
	start b ddprun --rdzv-endpoint "$at" --nnodes 2 --role bad --max-restarts 9 sh -c "$worker"
	await a.out 'up$'
	start c ddprun --rdzv-endpoint "$at" --nnodes 2 --role spare --max-restarts 9 sh -c "$worker"
	await c.err '^ddprun: this node waits as a spare: '
	echo >came
	await b.err "^ddprun: this node waits as a spare of job 'none' from now on\$"
	echo >told
	finish a
	has "$err" "$swap"
	has "$err" '^ddprun: restarting \(3 of 9\): rank 1 '
	lacks "$err" 'restarting \(4'
	[ "$(grep -c '"swapped"' events)" = 1 ]
	has "$(<events)" '"text":.*was the first to fail 3 times'
	finish b
	has "$err" "$swap"
	has "$err" "^ddprun: job 'none' is over, and this node was a spare in the end: "
	finish c
	lacks "$err" 'was not needed'
}
