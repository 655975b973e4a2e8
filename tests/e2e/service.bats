# ddprdzv as a service: separate jobs, limits for each, idle jobs, systemd's
# protocols, health and metrics, and a shortage of descriptors.
# covers: rendezvous/daemon rendezvous/server rendezvous/net rendezvous/admission
load ../lib

tree=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

# server [OPTION...]: a ddprdzv of our own; $at is its endpoint.
server() {
	start server ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 60 "$@"
	await "$T/server.err" ' listening on'
	at=${line##* }
}

# node NAME JOB NPROC NNODES: an agent; say NAME LINE tells it what to do.
node() {
	mkfifo "$T/$1.in"
	start "$1" bash -c 'exec rdzv_client "$@" <>"$0"' "$T/$1.in" \
		agent "$at" "$2" "$3" "$1" "$4" -1 0
}

# (opened for both, which never waits for a reader that may have left)
say() {
	echo "$2" 1<>"$T/$1.in"
}

# get PATH: from where the metrics are; $body and $code.
get() {
	code=$(curl -s -o "$T/body" -w '%{http_code}' "$(sed -n \
		's|.*health and metrics at \(http://.*\)/$|\1|p' \
		"$T/server.err")/$1")
	body=$(<"$T/body")
}

@test "keys, rounds and ends of one job do not affect another" {
	server
	node a a 1 1
	node b b 1 1
	await a.out '^START'
	await b.out '^START'
	rdzv_client do "$at" a 0 0 set k of-a
	[ "$(rdzv_client do "$at" b 0 0 get k)" = "0 ''" ]
	say a 'exit 0 3'
	finish a 3
	[ "$(rdzv_client do "$at" b 0 0 set k of-b get k)" = "1 'of-b'" ]
	say b 'exit 0 0'
	finish b 0
}

@test "a job only admits holders of its tenant's token" {
	mkdir tokens
	echo 'the-token-of-alice-01' >tokens/alice
	echo 'the-token-of-robert-02' >tokens/bob
	chmod 600 tokens/*
	DDP_TOKEN=the-servers-own-token server --token-dir tokens
	export DDP_TOKEN=the-token-of-alice-01
	node a alice/x 1 1
	await a.out '^START'
	rdzv_client do "$at" alice/x 0 0 set k of-alice
	expect 1 rdzv_client do "$at" bob/x 0 0 get k
	expect 1 rdzv_client do "$at" x 0 0 get k
	expect 1 rdzv_client do "$at" ../tokens/alice/x 0 0 get k
	export DDP_TOKEN=the-token-of-robert-02
	expect 1 rdzv_client do "$at" alice/x 0 0 get k
	await server.err "job 'bob/x'\): it does not have this job's secret"
	node b bob/x 1 1
	await b.out '^START'
	[ "$(rdzv_client do "$at" bob/x 0 0 get k)" = "0 ''" ]
	# a readable file is no secret, and a removed one admits nobody
	chmod 644 tokens/bob
	expect 1 rdzv_client do "$at" bob/x 0 0 get k
	rm tokens/bob
	expect 1 rdzv_client do "$at" bob/x 0 0 get k
	# a pipe without a writer delays nobody
	mkfifo -m 600 tokens/bob
	expect 1 rdzv_client do "$at" bob/x 0 0 get k
	export DDP_TOKEN=the-servers-own-token
	node c x 1 1
	await c.out '^START'
}

@test "a worker's key only opens its own job" {
	export DDP_TOKEN=the-token-of-alice-01
	server
	node b b 1 1
	await b.out '^START'
	start job ddprun --nnodes 1 --rdzv-id a --rdzv-endpoint "$at" \
		bash -c 'echo "key $DDP_JOB_KEY"; exec tail -f /dev/null'
	await job.out 'key [0-9a-f]{64}$'
	local key=${line##* }
	unset DDP_TOKEN
	export XDG_CONFIG_HOME=$T/other HOME=$T
	DDP_JOB_KEY=$key expect 0 rdzv_client do "$at" a 0 0 set k v
	DDP_JOB_KEY=$key expect 1 rdzv_client do "$at" b 0 0 set k v
	signal job TERM
	finish job -
}

@test "a limit's refusal names the limit, the job and the option" {
	server --max-jobs 2 --max-connections 3 --max-keys 4 --max-bytes 2000
	node a a 2 1
	await a.out '^START'
	node b b 1 1
	await b.out '^START'
	node c c 1 1
	await c.out "^error: job 'c' is refused at $at: it has 2 jobs, its limit \(--max-jobs of that ddprdzv\)$"
	start w0 rdzv_client do "$at" a 0 0 set here0 1 wait 60000 never
	start w1 rdzv_client do "$at" a 0 1 wait 60000 here0 set here1 1 fate 0 60000
	rdzv_client do "$at" b 0 0 mset 1 x 2 x mset 3 x 4 x
	run rdzv_client do "$at" b 0 0 set 5 x
	[ "$output" = "error: the store of job 'b' is full: it has 4 keys, its limit (--max-keys of its ddprdzv)" ]
	run rdzv_client do "$at" b 0 0 big 1 2000
	[[ $output == "error: the store of job 'b' is full: it holds "*" of at most 2000 bytes (--max-bytes of its ddprdzv)" ]]
	# job a has an agent and two workers once both have come
	until run rdzv_client do "$at" a 0 0 get k && [ "$status" = 1 ]; do :; done
	[[ $output == *"job 'a' at $at has 3 connections, its limit (--max-connections of that ddprdzv)" ]]
	# existing jobs continue
	say a 'exit 0 0'
	finish w1
	has "$out" '^fate: rank 0 .* exited with code 0$'
	say a 'exit 1 0'
	finish a
	finish w0 1
	# and a place is free again
	node d d 1 1
	await d.out '^START'
}

@test "an idle job expires, a running one does not" {
	server --idle-timeout 0.7 --journal journal
	node a a 1 2
	node r r 1 1
	await r.out '^START'
	await a.out "^END round 0 verdict 3 exit_code 69 .*: it was idle for 0.7 s \(--idle-timeout of the rendezvous server at $at\)$"
	await server.err "^ddprdzv: job 'a' ends: it was idle"
	say r ping
	await r.out PONG
	rdzv_client do "$at" r 0 0 set k v
	finish a 69
	[ "$(grep -c ' ends: ' server.err)" = 1 ]
	# the next server knows that it has ended
	signal server KILL
	finish server 137
	start again ddprdzv --listen "$at" --journal journal
	await again.err ' listening on'
	expect 0 ddprun status --rdzv-endpoint "$at"
	[ "$(grep -c "^job 'a'" <<<"$out")" = 0 ]
	has "$out" "^job 'r' "
	finish r -
}

@test "an idle job expires while the agent of an ended one lingers" {
	server --idle-timeout 0.3
	node a a 1 2
	await a.out '^STATE'
	signal a STOP
	await server.err "^ddprdzv: job 'a' ends: it was idle"
	node b b 1 2
	await server.err "^ddprdzv: job 'b' ends: it was idle"
	finish b 69
	signal a CONT
	finish a 69
}

@test "a restarting job whose nodes do not return is idle as well" {
	server --idle-timeout 0.7
	local n rank=0
	for n in a b; do
		mkfifo $n.in
		start $n bash -c 'exec rdzv_client "$@" <>"$0"' $n.in \
			agent "$at" r 1 $n 2 $((rank++)) 1
	done
	await a.out '^START'
	await b.out '^START'
	say a 'exit 0 3'
	await a.out '^END round 0 verdict 2 '
	say a join
	await a.out '^END round . verdict 3 exit_code 69 .*: it was idle for 0.7 s'
	await b.out '^END round . verdict 3 exit_code 69 .*: it was idle for 0.7 s'
	[ "$(grep -c "^ddprdzv: job 'r' ends: " server.err)" = 1 ]
}

@test "a Prometheus parser reads health and metrics" {
	command -v curl >/dev/null || skip "no curl here"
	server --metrics-listen 0 --journal journal
	await server.err ' health and metrics at '
	get health
	[ "$code $body" = '200 ok' ]
	get nothing
	[ "$code" = 404 ]
	node a a 2 1
	await a.out '^START'
	node b b 3 2
	await b.out '^STATE'
	start w rdzv_client do "$at" a 0 0 set k value set here 1 wait 60000 never
	rdzv_client do "$at" a 0 1 wait 60000 here
	say a ping
	await a.out PONG
	get metrics
	[ "$code" = 200 ]
	has "$body" '^ddprdzv_jobs\{state="running"\} 1$'
	has "$body" '^ddprdzv_jobs\{state="gathering"\} 1$'
	has "$body" '^ddprdzv_nodes 2$'
	has "$body" '^ddprdzv_workers 2$'
	has "$body" '^ddprdzv_rounds_total 1$'
	has "$body" '^ddprdzv_waiting_agents 1$'
	has "$body" '^ddprdzv_connections\{role="agent"\} 2$'
	has "$body" '^ddprdzv_requests_total\{type="set"\} 2$'
	has "$body" '^ddprdzv_requests_total\{type="ping"\} 1$'
	has "$body" '^ddprdzv_store_keys 2$'
	has "$body" '^ddprdzv_job_workers\{job="a"\} 2$'
	has "$body" '^ddprdzv_job_workers\{job="b"\} 0$'
	has "$body" '^ddprdzv_round_ends_total\{cause="exit"\} 0$'
	has "$body" '^ddprdzv_journal_bytes [1-9][0-9]+$'
	has "$body" '^ddprdzv_received_bytes_total [1-9][0-9]+$'
	local python found=
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import prometheus_client' 2>/dev/null &&
			found=$python
	done
	[ -n "$found" ] || skip "no parser here (python3-prometheus-client)"
	[ "$("$found" -c 'import sys
from prometheus_client.parser import text_string_to_metric_families as parse
all = {f.name: f for f in parse(sys.stdin.read())}
assert len(all) > 15
for f in all.values():
	assert f.documentation and f.samples and f.type in ("gauge", "counter"), f
print(sum(s.value for s in all["ddprdzv_jobs"].samples))' <body)" = 2.0 ]
}

@test "rounds are counted by the cause of their end" {
	command -v curl >/dev/null || skip "no curl here"
	server --metrics-listen 0
	await server.err ' health and metrics at '
	node a a 1 1
	await a.out '^START'
	say a "exit 0 3"
	finish a 3
	node b b 1 1
	await b.out '^START'
	say b "kill 0 9"
	finish b -
	node c c 1 1
	await c.out '^START'
	say c "exit 0 0"
	finish c
	get metrics
	for cause in exit signal success; do
		has "$body" "^ddprdzv_round_ends_total\\{cause=\"$cause\"\\} 1\$"
	done
	has "$body" '^ddprdzv_round_ends_total\{cause="other"\} 0$'
}

@test "the dashboard for Grafana asks for metrics that exist" {
	local tree=$BATS_TEST_DIRNAME/../..
	python3 -c 'import json, re, sys
dashboard = json.load(open(sys.argv[1]))
for panel in dashboard["panels"]:
	for target in panel["targets"]:
		print("\n".join(re.findall(r"ddprdzv_\w+", target["expr"])))' \
		"$tree/packaging/grafana.json" | sort -u >names
	[ "$(wc -l <names)" -gt 10 ]
	while read -r name; do
		case $name in
		ddprdzv_gpu_*) grep 'ddprdzv_gpu_\*' "$tree/docs/service.md" |
			grep -qw "${name#ddprdzv_gpu_}" ;;
		*) grep -qE "^\|.*\`$name(\`|\{)" "$tree/docs/service.md" ;;
		esac || { echo "docs/service.md: no $name"; false; }
	done <names
}

@test "metrics are on loopback without an address, and a bad address is an error" {
	server --metrics-listen 0
	await server.err ' health and metrics at http://127.0.0.1:'
	expect 2 ddprdzv --listen 127.0.0.1:0 --metrics-listen somewhere
	has "$err" 'metrics-listen somewhere: give PORT .on loopback. or ADDRESS:PORT'
	expect 71 ddprdzv --listen 127.0.0.1:0 --metrics-listen "$at"
	has "$err" "$at"
}

# manager: receives systemd's notifications, in $T/manager.out.
manager() {
	cat >manager.py <<'EOF'
import socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("notify")
print("bound", flush=True)
while True:
	print(s.recv(4096).decode(), flush=True)
EOF
	start manager python3 manager.py
	await manager.out bound
	export NOTIFY_SOCKET=$T/notify
}

@test "systemd is notified of readiness, jobs, liveness and stopping" {
	manager
	WATCHDOG_USEC=100000 server
	await manager.out '^READY=1$'
	await manager.out "^STATUS=serving at $at, 0 jobs$"
	await manager.out '^WATCHDOG=1$'
	node a a 1 1
	await manager.out "^STATUS=serving at $at, 1 job$"
	signal server TERM
	await manager.out '^STOPPING=1$'
	finish server
	finish a 69
}

@test "the server listens on a socket from systemd" {
	cat >activate.py <<'EOF'
import os, socket, sys
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
if s.fileno() == 3:
	os.set_inheritable(3, True)
else:
	os.dup2(s.fileno(), 3, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[1])
os.execvp("ddprdzv", ["ddprdzv"])
EOF
	start server python3 activate.py 1
	await server.out '^[0-9]+$'
	at=127.0.0.1:$line
	node a a 1 1
	await a.out '^START'
	start two python3 activate.py 2
	finish two 2
	has "$err" 'LISTEN_FDS=2: ddprdzv listens on one socket'
}

@test "--token-dir alone is enough for a server without its own secret" {
	mkdir tokens
	echo 'the-token-of-alice-01' >tokens/alice
	chmod 600 tokens/alice
	start server env -u XDG_CONFIG_HOME HOME=/nowhere \
		ddprdzv --listen 127.0.0.1:0 --token-dir tokens
	await server.err ' listening on'
	at=${line##* }
	export DDP_TOKEN=the-token-of-alice-01
	node a alice/x 1 1
	await a.out '^START'
	# no token opens a job without a tenant's name
	expect 1 rdzv_client do "$at" x 0 0 get k
	signal server TERM
	finish server
}

# The unit's command, as a user without a home. $at is where it listens.
shipped() { # where to listen
	start server env -i PATH="$PATH" TEST_COOKIE="$TEST_COOKIE" \
		HOME=/nonexistent $(<environment) \
		DDPRDZV_OPTIONS="--listen $1 --hello-timeout 60" \
		setpriv --reuid 65534 --regid 65534 --clear-groups \
		sh -c "exec $(<command)"
	await server.err ' listening on'
	at=${line##* }
}

@test "the service starts as shipped, as a user without a home, and serves" {
	[ -z "${SAN:-}" ] || skip "nobody installs what is sanitized"
	[ "$(id -u)" = 0 ] || skip "only root can run it as another user"
	make -s -C "$tree" DEPS=0 O="$O" install PREFIX="$T/opt" DESTDIR=/ \
		>make.log 2>&1
	local unit=$T/opt/lib/systemd/system/ddprdzv.service
	let_others_in
	mkdir -p state/ddprun
	chown 65534 state/ddprun
	# what systemd makes of the unit's lines for a user of its own
	sed -n 's/^ExecStart=//p' "$unit" | sed "s|%S|$T/state|" >command
	sed -n 's/^Environment=//p' "$unit" | sed "s|%S|$T/state|" >environment
	grep -q '^StateDirectory=ddprun$' "$unit"
	shipped 127.0.0.1:0
	[ "$(stat -c %u:%a state/ddprun/key)" = 65534:600 ]
	[ "$(stat -c %u:%a state/ddprun/journal)" = 65534:600 ]
	DDP_TOKEN=$(<state/ddprun/key) expect 0 ddprun --rdzv-endpoint "$at" \
		--nnodes 1 --rdzv-id run7 --local-addr 127.0.0.1 echo served
	[ "$out" = '[0] served' ]
	expect 77 ddprun --rdzv-endpoint "$at" --nnodes 1 --rdzv-id run7 echo no

	# a job that runs when the service dies goes on with the next one
	export DDP_TOKEN=$(<state/ddprun/key)
	mkfifo go
	start job ddprun --rdzv-endpoint "$at" --nnodes 1 --rdzv-id run8 \
		--local-addr 127.0.0.1 sh -c 'echo up; read -r word <go; echo "$word"'
	await job.out up
	rdzv_client do "$at" run8 0 0 set k before
	kill -KILL "${pid[server]}"
	finish server 137
	shipped "$at"
	[ "$(rdzv_client do "$at" run8 0 0 get k)" = "1 'before'" ]
	echo on 1<>go
	finish job
	[ "$out" = $'[0] up\n[0] on' ]
	signal server TERM
	finish server
}

@test "systemd accepts the units, which are hardened" {
	command -v systemd-analyze >/dev/null || skip "no systemd-analyze here"
	[ -z "${SAN:-}" ] || skip "nobody installs what is sanitized"
	make -s -C "$tree" DEPS=0 O="$O" install PREFIX="$T/opt" >make.log 2>&1
	local units=$T/opt/lib/systemd/system
	run systemd-analyze verify --man=no "$units/ddprdzv.service" \
		"$units/ddprdzv.socket"
	[ "$status" = 0 ] || { echo "$output"; false; }
	[[ $output != *ddprdzv* ]] || { echo "$output"; false; }
	run systemd-analyze security --offline=true --threshold=25 \
		"$units/ddprdzv.service"
	[ "$status" = 0 ] || { echo "$output"; false; }
}

@test "without free descriptors the server refuses politely and keeps its jobs" {
	local fd fds=()
	start server bash -c 'ulimit -n 70 && exec ddprdzv --listen 127.0.0.1:0 \
		--heartbeat-timeout 60 --hello-timeout 60'
	await "$T/server.err" 'listening on'
	at=${line##* }
	node a a 2 1
	await a.out '^START'
	start w rdzv_client do "$at" a 0 1 set here 1 fate 0 60000
	rdzv_client do "$at" a 0 0 wait 60000 here
	while [ ${#fds[@]} -lt 120 ]; do
		exec {fd}<>"/dev/tcp/${at%:*}/${at##*:}"
		fds+=("$fd")
	done
	await server.err '^ddprdzv: warning: no descriptors for more clients \(70, ulimit -n\): refusing new ones, serving the connected ones$'
	# the places of silent clients are free after a second
	until run rdzv_client do "$at" a 0 0 get k &&
		[[ $output == *"accepts no more connections"* ]]; do :; done
	[[ $output == *"the rendezvous server at $at accepts no more connections: all of its 70 descriptors are in use (ulimit -n of that ddprdzv)"* ]]
	say a ping
	await a.out PONG
	say a 'exit 0 0'
	finish w
	has "$out" '^fate: rank 0'
	[ "$(grep -c 'no descriptors' server.err)" = 1 ]
	for fd in "${fds[@]}"; do
		exec {fd}>&-
	done
	# now there is room for new clients
	until rdzv_client do "$at" a 0 1 get here >got 2>&1; do :; done
	[ "$(<got)" = "1 '1'" ]
	say a 'exit 1 0'
	finish a
}

@test "when the last descriptor is taken, clients wait, and are refused after a while" {
	local fd fds=() limit
	command -v prlimit >/dev/null || skip "no prlimit here"
	# Without the descriptors that the tests inherited: their numbers decide how
	# many clients the server has room for.
	start server bash -c 'for fd in /proc/self/fd/*; do
			fd=${fd##*/}
			[ "$fd" -le 2 ] || exec {fd}>&-
		done
		exec ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 60 \
			--hello-timeout 60'
	await "$T/server.err" 'listening on'
	at=${line##* }
	node a a 1 1
	await a.out '^START'
	# room for a few clients, beside the descriptor that it keeps for refusals
	limit=$(($(ls "/proc/${pid[server]}/fd" | sort -n | tail -n 1) + 5))
	prlimit --pid "${pid[server]}" --nofile="$limit":
	until grep -q 'no descriptor left' server.err; do
		[ ${#fds[@]} -le "$limit" ]
		exec {fd}<>"/dev/tcp/${at%:*}/${at##*:}"
		fds+=("$fd")
	done
	await server.err "^ddprdzv: warning: the rendezvous server has no descriptor left for a connection: all $limit are in use; raise the limit of its process \\(ulimit -n, LimitNOFILE=\\); new clients wait$"
	for fd in "${fds[@]}"; do
		exec {fd}>&-
	done
	# they have left; it admits one more when it has noticed the last of them
	until rdzv_client do "$at" a 0 0 set k v >set.out 2>&1; do :; done
	# and is full again: how often it has said so depends on the order in
	# which it saw the others join and leave
	while run rdzv_client do "$at" a 0 0 get k && [ "$status" = 0 ]; do
		exec {fd}<>"/dev/tcp/${at%:*}/${at##*:}"
	done
	expect 1 rdzv_client do "$at" a 0 0 get k
	has "$out$err" "the rendezvous server at $at accepts no more connections: all of its $limit descriptors are in use"
	[ "$(grep -c 'no descriptor left' server.err)" -ge 2 ]
	start waits rdzv_client do "$at" a 0 0 get k
	prlimit --pid "${pid[server]}" --nofile=1000:
	finish waits -
	expect 0 rdzv_client do "$at" a 0 0 get k
	say a 'exit 0 0'
	finish a
}

@test "ddprun status shows users their own jobs, and all jobs to the server's user" {
	mkdir tokens
	echo 'the-token-of-alice-01' >tokens/alice
	echo 'the-token-of-robert-02' >tokens/bob
	chmod 600 tokens/*
	DDP_TOKEN=the-servers-own-token server --token-dir tokens
	DDP_TOKEN=the-token-of-alice-01 node a alice/x 2 2
	DDP_TOKEN=the-token-of-robert-02 node b bob/y 1 1
	await a.out '^WAITING'
	await b.out '^START'
	export DDP_TOKEN=the-token-of-alice-01
	status=(ddprun status --rdzv-endpoint "$at")
	expect 0 "${status[@]}" --job alice/x
	has "$out" "^job 'alice/x' at $at: gathering for "
	has "$out" '^  waiting [1-9][0-9]* s for 1 of 2 nodes$'
	[ "$(grep -c '^job ' <<<"$out")" = 1 ]
	for job in bob/y '' x; do
		start tool "${status[@]}" ${job:+--job "$job"}
		finish tool -
		[ "$status" != 0 ]
		[ "$(grep -c '^job ' <<<"$out")" = 0 ]
	done
	export DDP_TOKEN=the-servers-own-token
	status=(ddprun status --rdzv-endpoint "$at")
	expect 0 "${status[@]}" --json
	[ "$(python3 -c 'import json, sys
for j in sorted(json.load(sys.stdin)["jobs"], key=lambda j: j["job"]):
	w = j["waiting"]
	print(j["job"], j["state"], w and w["for"], w and w["seconds"] >= 1)
' <<<"$out")" = $'alice/x gathering 1 of 2 nodes True\nbob/y running None None' ]
}

@test "input exactly at a limit is accepted, and one byte more is refused" {
	server --max-keys 3 --max-bytes 1024
	node a a 1 1
	await a.out '^START'
	w() { rdzv_client do "$at" a 0 0 "$@"; }
	# bytes of keys and values: 1 and 1023
	w big k 1023
	run w set k2 ''
	[[ $output == *"the store of job 'a' is full: it holds 1024 of at most 1024 bytes (--max-bytes of its ddprdzv)" ]]
	run w append k x
	[[ $output == *"1024 of at most 1024 bytes"* ]]
	w delete k
	w mset 1 x 2 x mset 3 x 1 y
	run w set 4 x
	[[ $output == *"it has 3 keys, its limit (--max-keys of its ddprdzv)" ]]
	[ "$(w get 3)" = "1 'x'" ]
	# also for a name that somebody waits for
	w delete 3
	start waiter rdzv_client do "$at" a 0 0 set here 1 wait 60000 never
	finish waiter 1
	has "$out" "it has 3 keys, its limit"
}

# limited OPTION...: what a ddprun starts as its server
limited() {
	printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$DDPRDZV" "$*" >limited
	chmod +x limited
	export DDP_SERVER=$T/limited
}

@test "PyTorch's clients have the same limits; a client over a limit is closed, and logged" {
	limited --max-keys 2 --max-bytes 1024
	expect 0 ddprun --standalone bash -c '
		w_knock set a 1; w_knock add n 1; w_knock add more 1
		w_knock push more 1; w_knock get a
		x=$(printf "x%.0s" {1..1021})
		w_knock set a $x; w_knock get a; w_knock set a x$x; w_knock get a'
	has "$out" '\] n is 1$'
	[ "$(grep -c '\] closed$' <<<"$out")" = 2 ]
	has "$out" '\] a is 1$'
	[ "$(grep -c '\] a is x\{1021\}$' <<<"$out")" = 2 ]
	has "$err" "disconnected a client of PyTorch's store: the store of job '.*' is full: it has 2 keys, its limit"
	has "$err" "disconnected a client of PyTorch's store: the store of job '.*' is full: it holds 1024 of at most 1024 bytes"
}

@test "PyTorch's port accepts 64 clients per rank, at least 256, and no more" {
	expect 0 ddprun --standalone bash -c '
		ping="\0\xce\xf7\x85\x3c\x0d\1\2\3\4"
		for i in {1..256}; do
			exec {fd}<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT"
			printf "$ping" >&$fd
			read -rN 4 -u $fd answer
			[ "$answer" = "$(printf "\1\2\3\4")" ] || exit 4
		done
		w_knock ping
		exec {fd}>&-
		until [ "$(w_knock ping)" = answered ]; do :; done'
	[ "$out" = '[0] closed' ]
	[ "$(grep -c "PyTorch's store refuses connections: it has 256, more than its ranks can need" <<<"$err")" = 1 ]
}

@test "health reports stopping while a job is still being notified" {
	command -v curl >/dev/null || skip "no curl here"
	server --metrics-listen 0
	await server.err ' health and metrics at '
	node a a 1 1
	await a.out '^START'
	signal a STOP
	signal server TERM
	await server.err 'received SIGTERM'
	get health
	[ "$code $body" = '503 stopping' ]
	signal a CONT
	finish server
	finish a 69
}
