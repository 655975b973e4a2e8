# A rank that the others wait for in every step: the lines on the terminals, the event,
# status and report.json. DDP_TEST_WATCH_MS is half of the minute over which the time is
# counted.
# covers: launcher/watch launcher/agent/agent_watch.c rendezvous/stall/slow.c
# covers: rendezvous/query rendezvous/status/rank_progress.c
load ../lib

setup() {
	lib_setup
	export DDP_TEST_WATCH_MS=1000
	at=127.0.0.1:$(w_port free)
	slows='slows the job down: the other ranks wait for it [0-9]+ % of the time; [^;]+$'
}

job() { # NAME [OPTION...]: starts ddprun with job slow, whose rank 1 can be slow
	local name=$1
	shift
	start "$name" ddprun --rdzv-id slow --rdzv-endpoint "$at" "$@" c_slow 1
}

# Waits until a python expression about r, the ranks in status --json, is true.
await_ranks() {
	until ddprun status --json --job slow --rdzv-endpoint "$at" >status.json &&
		python3 -c "import json, sys
r = json.load(open('status.json'))['jobs'][0]['ranks']
sys.exit(not ($1))"; do
		kill -0 "${pid[a]}"
	done
}

@test "a slow rank is named once, and again when it has recovered" {
	job a --nproc-per-node 2 --on-event 'cat >>events'
	await_ranks 'len(r) == 2 and all(x["collective_percent"] for x in r)'
	lacks "$(cat a.err)" slows
	: >slow
	await a.err "^ddprun: rank 1 on [^ ]+ \(pid [0-9]+\) $slows"
	await "$T/events" '"slow"'
	expect 0 ddprun status --job slow --rdzv-endpoint "$at"
	has "$out" '^  rank 0 .*  [0-9]+ % in collectives  '
	rm slow
	await a.err '^ddprun: rank 1 on [^ ]+ \(pid [0-9]+\) no longer slows the job down$'
	: >end
	finish a
	[ "$(grep -c slows <<<"$err")" = 2 ]
	python3 -c "import json
e = json.load(open('events'))
assert e['event'] == 'slow' and e['rank'] == 1 and 'slows' in e['text'], e"
}

@test "all nodes get the line, also about another node's rank" {
	: >slow
	job a --nnodes 2 --node-rank 0
	job b --nnodes 2 --node-rank 1
	await a.err "^ddprun: rank 1 on [^ ]+ \(pid [0-9]+\) $slows"
	await b.err "^ddprun: rank 1 on [^ ]+ \(pid [0-9]+\) $slows"
	: >end
	finish a
	finish b
}

@test "the metrics of ddprdzv have the slowest rank, and how long the others wait for it" {
	: >slow
	start server ddprdzv --listen 127.0.0.1:0 --metrics-listen 0
	await server.err ' listening on'
	at=${line##* }
	await server.err 'health and metrics at '
	job a --nproc-per-node 2
	until curl -s "${line##* }metrics" >metrics &&
		grep -qE '^ddprdzv_slowest_rank_wait_ratio\{job="slow"\} (1|0\.[2-9])' metrics; do
		kill -0 "${pid[a]}"
	done
	has "$(cat metrics)" '^ddprdzv_slowest_rank\{job="slow"\} 1$'
	has "$(cat metrics)" '^ddprdzv_job_watched_ranks\{job="slow"\} 2$'
	has "$(cat metrics)" '^ddprdzv_job_collective_ratio\{job="slow",ranks="highest"\} (1|0\.[2-9])'
	has "$(cat metrics)" '^ddprdzv_job_progress_age_seconds\{job="slow",ranks="mean"\} [0-9.]+$'
	has "$(cat metrics)" '^ddprdzv_job_cpus\{job="slow",ranks="highest"\} [0-9.]+$'
	has "$(cat metrics)" '^ddprdzv_job_memory_bytes\{job="slow",ranks="lowest"\} [1-9][0-9]{5,}$'
	: >end
	finish a
	signal server TERM
	finish server
}

@test "waits in small calls, for requests and in loops of ddp_test count as well" {
	local how
	: >slow
	for how in small async poll; do
		start $how ddprun --nproc-per-node 2 c_slow 1 $how
		await $how.err "^ddprun: rank 1 on [^ ]+ \(pid [0-9]+\) $slows"
		: >end
		finish $how
		rm end
	done
}

@test "a rank that is slow in its groups is named, not its victims" {
	: >slow
	# rank 2 waits for rank 3, and is then late for rank 0
	start a ddprun --nproc-per-node 4 c_slow 3 groups
	await a.err '^ddprun: rank 3 on [^ ]+ \(pid [0-9]+\) slows the job down: the other ranks of group [12]\.1 wait for it [0-9]+ % of the time; [^;]+$'
	rm slow
	await a.err '^ddprun: rank 3 on [^ ]+ \(pid [0-9]+\) no longer slows the job down$'
	: >end
	finish a
	[ "$(grep -c slows <<<"$err")" = 2 ]
}

@test "report.json of a job that fails has the rank that was slow" {
	: >slow
	job a --nproc-per-node 2 --log-dir logs
	await a.err "$slows"
	kill -KILL "$(grep -oP 'rank 1 .*\(pid \K[0-9]+(?=\) slows)' a.err)"
	finish a -
	python3 -c "import glob, json
s = json.load(open(glob.glob('logs/*/attempt_0/report.json')[0]))['slow']
assert s['rank'] == 1 and s['waited_percent'] > 20, s
assert not s['is_over'] and ' slows the job down' in s['text'], s"
}

@test "the line says that other processes have the rank's CPU" {
	local cpu
	cpu=$(taskset -pc $$ | grep -oE '[0-9]+$')
	: >slow
	start hog1 taskset -c "$cpu" sh -c 'while :; do :; done'
	start hog2 taskset -c "$cpu" sh -c 'while :; do :; done'
	start a ddprun --nproc-per-node 2 sh -c \
		'[ $RANK = 0 ] || taskset -pc '"$cpu"' $$ >/dev/null; exec c_slow 1 compute'
	await a.err 'rank 1 on .* slows .*; (other processes had its CPU|its cgroup was throttled) for [0-9.]+ s of the last [0-9.]+ s'
	: >end
	finish a
	signal hog1 KILL
	signal hog2 KILL
	finish hog1 -
	finish hog2 -
}

# A cgroup in which CPU time is limited to a twentieth of a CPU, before all others when
# it is not throttled: its folder is in $cgroup. Skips where none can be made.
make_cgroup() {
	local at
	at=$(findmnt -no TARGET -t cgroup -O cpu | head -n 1)
	[ -n "$at" ] || at=$(findmnt -no TARGET -t cgroup2 | head -n 1)
	[ -n "$at" ] || skip "no cgroups are mounted here"
	cgroup=$at/ddprun_test.$$.$BATS_TEST_NUMBER
	mkdir "$cgroup" 2>/dev/null || {
		cgroup=
		skip "no cgroup can be made in $at"
	}
	if [ -w "$cgroup/cpu.cfs_quota_us" ]; then
		echo 262144 >"$cgroup/cpu.shares"
		echo 5000 >"$cgroup/cpu.cfs_quota_us"
	elif [ -w "$cgroup/cpu.max" ]; then
		echo 10000 >"$cgroup/cpu.weight"
		echo '5000 100000' >"$cgroup/cpu.max"
	else
		skip "$cgroup has no limit of CPU time"
	fi
}

teardown() {
	local i
	lib_teardown || return 1
	[ -n "${cgroup:-}" ] || return 0
	# those that have gone may be counted for a moment still
	for ((i = 0; i < 2000; i++)); do
		rmdir "$cgroup" 2>/dev/null && return 0
	done
	rmdir "$cgroup"
}

@test "the line says for how long the rank's cgroup was throttled" {
	make_cgroup
	: >slow
	export cgroup
	start a ddprun --nproc-per-node 2 sh -c \
		'[ $RANK = 0 ] || echo $$ >$cgroup/cgroup.procs; exec c_slow 1 compute'
	await a.err 'rank 1 on .* slows .*; its cgroup was throttled for [0-9.]+ s of the last [0-9.]+ s'
	awk '{
		sub(/.* throttled for /, "")
		if (!($1 <= $6 && $1 > $6 / 4)) { print "of those " $6 " s: " $1; exit 1 }
	}' <<<"$line"
	: >end
	finish a
}
