# --restart-backoff: how long a job waits before a restart, and what ends the wait.
# covers: launcher/agent/restart.c launcher/agent/agent_acts.c
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

@test "a node without the option waits for those that have it" {
	port
	node a --nnodes 2 --node-rank 0 sh -c "$fails_once"
	node b --nnodes 2 --node-rank 1 --restart-backoff 1.2 sh -c "$fails_once"
	finish a
	has "$err" '^ddprun: restarting \(1 of 3\): rank 1 '
	has "$err" '^ddprun: running again after 1[2-9][0-9][0-9]\.|after [2-9][0-9][0-9][0-9]\.'
	has "$out" 'attempt 1$'
	finish b
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
