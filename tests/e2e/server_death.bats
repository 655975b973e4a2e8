# kill -9 of ddprdzv in each phase of a job. ddprun restarts its own server; the test
# restarts a server that was started by hand, with and without a journal. The workers
# are the same processes throughout.
# covers: rendezvous/journal rendezvous/server launcher/membership
# covers: rendezvous/client rendezvous/recovery
load ../lib
load ../backend

# The ddprdzv of the started program NAME; $server.
server_of() {
	server=$(child_named "${pid[$1]}" ddprdzv)
}

# kill_server_of NAME: returns when the next server runs
kill_server_of() {
	local before
	server_of "$1"
	before=$server
	kill -KILL "$before"
	while server_of "$1"; [ -z "$server" ] || [ "$server" = "$before" ]; do
		read -rt 0.01 _ <> <(:) || true
	done
}

child_named() { # PID NAME
	local child
	for child in $(<"/proc/$1/task/$1/children"); do
		[ "$(<"/proc/$child/comm")" != "$2" ] || echo "$child"
	done
}

# by_hand [OPTION...]: a server at $at, the first time a new one. Once more with
# etcd: the job's server, and another at $at, which says where that one is, and
# takes its place when it is gone; $id is the job's then.
by_hand() {
	[ "${DDP_TEST_BACKEND:-}" = etcd ] || {
		alone "$@"
		return
	}
	if [ -z "${at:-}" ]; then
		etcd_here
		candidate server
		await "$T/server.err" 'serving job'
		candidate next
		at=$(sed -n 's/.*listening on //p' next.err)
		await "$T/next.err" 'standing by'
	fi
	[ -n "${pid[server]:-}" ] || await "$T/next.err" 'serving job'
}

candidate() {
	start "$1" ddprdzv --listen 127.0.0.1:0 --etcd "$etcd" --etcd-ttl 1 \
		--job "${id:-none}"
	await "$T/$1.err" 'listening on'
}

# The next server finds the port free, which is reserved meanwhile.
alone() {
	start server ddprdzv --listen "${at:-127.0.0.1:$(w_port free)}" "$@"
	await "$T/server.err" 'listening on'
	at=${line##* }
}

# die_and_return [OPTION...]: kill -9, and another server at the same place.
die_and_return() {
	signal server KILL
	finish server -
	by_hand "$@"
}

# job NAME OPTION... -- WORDS: a ddprun whose workers say "up RANK PID", do
# WORDS, wait for a line in $T/go.RANK (with `line`), and say "down RANK".
requests='rdzv_client do $DDP_RDZV_ENDPOINT $DDP_JOB_ID $DDP_ROUND $RANK'
job() {
	local name=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	start "$name" ddprun "${options[@]}" bash -c "echo up \$RANK \$\$
		$2
		echo down \$RANK \$\$"
}

# Each worker reads one line of a fifo of its own.
gate='read -r go <"$T/go.$RANK"'
gates() {
	for rank; do
		mkfifo "$T/go.$rank"
	done
}
open_gate() {
	for rank; do
		echo go >"$T/go.$rank"
	done
}

same_workers() { # NAME N
	local ups downs
	ups=$(grep -oE 'up [0-9]+ [0-9]+' "$T/$1.out" | cut -c4- | sort)
	downs=$(grep -oE 'down [0-9]+ [0-9]+' "$T/$1.out" | cut -c6- | sort)
	[ "$(wc -l <<<"$ups")" = "$2" ]
	[ "$ups" = "$downs" ]
}

@test "a server killed during a round is restarted, and the workers notice nothing" {
	gates 0 1
	export T
	job j --standalone --nproc-per-node 2 -- "$gate"
	await j.out 'up 0'
	await j.out 'up 1'
	server_of j
	kill -9 "$server"
	await j.err "rendezvous server \(ddprdzv, pid $server\) was killed by .*SIGKILL.*: restarted it"
	open_gate 0 1
	finish j 0
	same_workers j 2
	[ "$(grep -c . j.err)" = 1 ]
}

@test "a failure after the server's death restarts the job" {
	gates 0 1
	export T
	start j ddprun --standalone --max-restarts 1 --nproc-per-node 2 \
		bash -c 'echo up $RANK of $TORCHELASTIC_RESTART_COUNT
		[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0
		read -r go <"$T/go.$RANK"; exit 5'
	await j.out 'up 0 of 0'
	await j.out 'up 1 of 0'
	server_of j
	kill -9 "$server"
	await j.err 'restarted it'
	open_gate 1
	await j.err 'restarting \(1 of 1\): rank 1 .*exited with code 5'
	finish j 0
	has "$(<j.out)" 'up 1 of 1'
}

@test "workers in a gather continue when the server is back, and get its result" {
	gates 1
	export T
	job j --standalone --nproc-per-node 2 -- \
		"[ \$RANK = 0 ] || $gate
		$requests add n 1 gather g 2 60000 v\$RANK add n 1"
	await j.out 'up 1'
	await j.out '^\[0\] 1$'
	server_of j
	kill -9 "$server"
	await j.err 'restarted it'
	open_gate 1
	finish j 0
	same_workers j 2
	has "$(<j.out)" "^\[0\] v0 v1"
	has "$(<j.out)" "^\[1\] v0 v1"
	# each add was done once
	has "$(<j.out)" '\] 4$'
}

# Its server dies between accepting it and the proof: here, its way to it does.
@test "a worker whose first connection is reset retries" {
	cat >once.py <<-'EOF'
		import os, socket, struct, sys, threading
		def relay(a, b):
		    while data := a.recv(65536):
		        b.sendall(data)
		    b.shutdown(socket.SHUT_WR)
		host, port = os.environ["DDP_RDZV_ENDPOINT"].rsplit(":", 1)
		s = socket.create_server(("127.0.0.1", 0))
		s.settimeout(20)
		if os.fork() == 0:
		    os.environ["DDP_RDZV_ENDPOINT"] = "127.0.0.1:%d" % s.getsockname()[1]
		    os.execvp(sys.argv[1], sys.argv[1:])
		c = s.accept()[0]
		c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
		c.close()
		c = s.accept()[0]
		up = socket.create_connection((host, int(port)))
		threading.Thread(target=relay, args=(up, c)).start()
		relay(c, up)
		sys.exit(os.wait()[1] != 0)
	EOF
	expect 0 ddprun --standalone --nproc-per-node 2 sh -c \
		'[ $RANK = 0 ] || exec python3 once.py c_init; exec c_init'
	has "$out" '^\[1\] rank 1 of 2'
}

@test "workers in a barrier continue when the server is back" {
	gates 1
	export T
	job j --standalone --nproc-per-node 2 -- \
		"[ \$RANK = 0 ] || $gate
		$requests set k\$RANK v\$RANK add n 1 barrier b 2 60000 get k0 get k1"
	await j.out 'up 1'
	await j.out '^\[0\] 1$'
	server_of j
	kill -9 "$server"
	await j.err 'restarted it'
	open_gate 1
	finish j 0
	same_workers j 2
	[ "$(grep -c "'v[01]'" j.out)" = 4 ]
}

# bats test_tags=etcd
@test "a job whose server dies while nodes join starts when all have joined" {
	by_hand --journal "$T/j"
	job a --nnodes 2 --rdzv-endpoint "$at" --node-rank 1 -- :
	await a.err 'waiting .* for 1 of 2 nodes'
	die_and_return --journal "$T/j"
	await a.err 'is back after'
	job b --nnodes 2 --rdzv-endpoint "$at" --node-rank 0 -- :
	finish a 0
	finish b 0
	has "$(<a.out)" 'down 1'
}

# bats test_tags=etcd
@test "a server killed repeatedly during the last call resumes, and the job starts" {
	local times name
	at=127.0.0.1:$(w_port free)
	for name in a b; do
		start $name ddprun --nnodes 2:4 --last-call-timeout 4 \
			--rdzv-endpoint "$at" sh -c 'echo "of $WORLD_SIZE"'
		[ $name = b ] || await a.err 'waiting'
	done
	await a.err '2 of 2 to 4 nodes have joined'
	for times in 1 2 3; do
		kill_server_of a
	done
	finish a
	has "$out" 'of 2$'
	finish b
	has "$out" 'of 2$'
}

@test "a server restarted by hand with its journal has the same round, nodes, keys and waiters" {
	gates 0 1 2
	export T
	by_hand --journal "$T/j"
	job a --nnodes 2 --node-rank 0 --nproc-per-node 2 --rdzv-endpoint "$at" \
		-- "$requests set k\$RANK v\$RANK append l x
		$gate
		$requests get k2 append l x barrier b 3 60000 add n 1 gather g 3 60000 g\$RANK"
	job b --nnodes 2 --node-rank 1 --rdzv-endpoint "$at" \
		-- "$requests set k\$RANK v\$RANK append l x
		$gate
		$requests get k0 append l x barrier b 3 60000 add n 1 gather g 3 60000 g\$RANK"
	await a.out '^\[0\] [123]$'
	await a.out '^\[1\] [123]$'
	await b.out '^\[2\] [123]$'
	open_gate 0
	await a.out "^\[0\] 1 'v2'"
	die_and_return --journal "$T/j"
	await a.err 'is back after'
	await b.err 'is back after'
	open_gate 1 2
	finish a 0
	finish b 0
	same_workers a 2
	same_workers b 1
	has "$(<b.out)" "^\[2\] g0 g1 g2"
	has "$(<a.out)$(<b.out)" '\] 6$' # appended: none twice, none lost
	has "$(<a.out)$(<b.out)" '\] 3$'
}

# bats test_tags=etcd
@test "a server restarted by hand while workers stop for a restart starts the next round" {
	gates 0
	export T
	by_hand --journal "$T/j"
	start j ddprun --max-restarts 1 --nproc-per-node 2 --rdzv-endpoint "$at" \
		bash -c 'echo up $RANK of $TORCHELASTIC_RESTART_COUNT
		[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0
		[ $RANK = 1 ] && { until [ -e "$T/deaf" ]; do read -rt 0.05 _; done <> <(:)
			exit 5; }
		trap "" TERM; : >"$T/deaf"; read -r go <"$T/go.0"'
	await j.err 'restarting \(1 of 1\)'
	die_and_return --journal "$T/j"
	await j.err 'is back after'
	open_gate 0
	finish j 0
	has "$(<j.out)" 'up 0 of 1'
}

# bats test_tags=etcd
@test "a server restarted by hand after a job's end tells late nodes why it ended" {
	id=over
	by_hand --journal "$T/j"
	expect 3 ddprun --rdzv-endpoint "$at" --rdzv-id over sh -c 'exit 3'
	die_and_return --journal "$T/j"
	expect 1 rdzv_client do "$at" over 0 0 get k
	has "$out" 'round 0 of job .over. is over: rank 0 .* exited with code 3'
	# and round numbers go on, or begin again: the name is free
	expect 0 ddprun --rdzv-endpoint "$at" --rdzv-id over true
}

# bats test_tags=etcd
@test "an exit that a dead server missed is reported when it is back" {
	gates 0 1
	export T
	by_hand --journal "$T/j"
	job j --nproc-per-node 2 --rdzv-endpoint "$at" -- "$gate; exit \$RANK"
	await j.out 'up 0'
	await j.out 'up 1'
	signal server KILL
	finish server -
	await j.err 'lost|closed|broke'
	open_gate 0 1
	by_hand --journal "$T/j"
	finish j 1
	has "$err" 'job .none. failed: rank 1 .* exited with code 1'
}

@test "without a journal the workers continue until one fails, with the reason" {
	gates 0
	export T
	by_hand
	job j --rdzv-endpoint "$at" --rdzv-conf reconnect_timeout=60 -- \
		"$gate; exit 4"
	await j.out 'up 0'
	die_and_return
	await j.err 'came back without its state'
	open_gate 0
	finish j 69
	has "$err" 'rendezvous server at .* was lost at [0-9:]{8}: .*came back without its state'
}

@test "without a server the workers continue until one fails" {
	gates 0
	export T
	by_hand
	job j --rdzv-endpoint "$at" --rdzv-conf reconnect_timeout=0.2 -- \
		"$gate; exit 4"
	await j.out 'up 0'
	signal server KILL
	finish server -
	await j.err 'did not come back within 0.2 s .*the workers continue'
	open_gate 0
	finish j 69
	has "$err" 'was lost at [0-9:]{8}: .*did not come back within 0.2 s'
}

# One dies of the signal, one is slow and succeeds, or is killed when the grace
# is over.
@test "without a server a node that gets a stop signal stops gracefully" {
	gates 0
	export T gate
	by_hand
	for grace in 60 0.2; do
		job j --nproc-per-node 2 --rdzv-endpoint "$at" --rdzv-conf \
			reconnect_timeout=0.2 --shutdown-timeout $grace -- \
			'[ $RANK = 1 ] || trap "$gate; exit 0" TERM; eval "$IDLE"'
		await j.out 'up 0'
		await j.out 'up 1'
		signal server KILL
		finish server -
		await j.err 'did not come back'
		signal j TERM
		await j.err 'got SIGTERM: stopping 2 workers'
		[ $grace != 60 ] || open_gate 0
		finish j 143
		! grep -q 'was lost at' j.err
		by_hand
	done
}

@test "without a server a node whose workers all succeed succeeds" {
	gates 0 1
	export T
	by_hand
	job j --nproc-per-node 2 --rdzv-endpoint "$at" \
		--rdzv-conf reconnect_timeout=0.2 -- "$gate"
	await j.out 'up 0'
	await j.out 'up 1'
	signal server KILL
	finish server -
	await j.err 'did not come back'
	open_gate 0 1
	finish j 0
	same_workers j 2
	has "$err" 'all workers of this node exited with code 0; the rendezvous server is lost, so the result of the other nodes is unknown$'
}

# A server's first snapshot contains what was appended before, so it dies twice. The
# port opens when the agent is back, not when the agent would count as lost.
@test "PyTorch's clients that reconnect find their port and their keys again" {
	gates 0
	export T DDP_LOG=debug
	job j --standalone --heartbeat-timeout 300 -- "w_knock set key value; w_knock add n 5
		w_knock push q one; w_knock push q two; w_knock push q three
		w_knock pop q; $gate
		w_knock get key; w_knock add n 2; w_knock pop q; $gate
		w_knock get key; w_knock add n 2; w_knock pop q; w_knock pop q"
	await j.out 'q is one'
	for i in 1 2; do
		server_of j; from=$(($(wc -l <j.err) + 1))
		kill -9 "$server"
		await j.err "pid $server\) was killed by .*restarted it"
		# the new server has opened the port before it answers an agent
		await j.err 'membership: RECONNECTING -> RUNNING, resumed' 60 "$from"
		open_gate 0
		[ $i = 2 ] || await j.out 'q is two'
	done
	finish j 0
	[ "$(grep -c 'key is value' <<<"$out")" = 2 ]
	has "$out" 'n is 7$'
	has "$out" 'n is 9$'
	has "$out" 'q is three$'
	has "$out" '\] empty$'
	[ "$(grep -vc ': debug: ' j.err)" = 2 ]
}

@test "the port of a round that is over is not opened again" {
	gates 0
	export T DDP_LOG=debug
	start j ddprun --standalone --max-restarts 1 bash -c '
		[ $TORCHELASTIC_RESTART_COUNT = 1 ] ||
			{ echo $MASTER_PORT >"$T/port"; w_knock set key value; exit 1; }
		w_knock add n 1; read -r go <"$T/go.0"; w_knock get key
		w_knock add n 1; exec 3<>/dev/tcp/127.0.0.1/$(<"$T/port")'
	await j.out 'n is 1'
	server_of j
	kill -9 "$server"
	await j.err 'membership: RECONNECTING -> RUNNING, resumed'
	open_gate 0
	finish j 1
	has "$out" 'key is $'
	has "$out" 'n is 2$'
	has "$err" 'Connection refused'
}

@test "with --journal none the server is not restarted, and the workers continue" {
	gates 0
	export T
	job j --standalone --journal none -- "$gate"
	await j.out 'up 0'
	server_of j
	kill -9 "$server"
	await j.err "$server\) was killed by .*it is not restarted; the workers continue"
	open_gate 0
	finish j 0
}

@test "a server that dies repeatedly is not restarted forever" {
	local server i
	gates 0
	export T
	job j --standalone -- "$gate"
	await j.out 'up 0'
	for i in 1 2 3; do
		server_of j
		kill -9 "$server"
		await j.err "pid $server\) was killed by .*restarted it"
	done
	server_of j
	kill -9 "$server"
	await j.err "$server\) was killed by .*it is not restarted"
	open_gate 0
	finish j 0
}

# bats test_tags=etcd
@test "SIGTERM ends a server with a journal, and not its jobs" {
	gates 0
	export T
	by_hand --journal "$T/j"
	job j --rdzv-endpoint "$at" -- "$gate"
	await j.out 'up 0'
	signal server TERM
	finish server 0
	by_hand --journal "$T/j"
	await j.err 'is back after'
	open_gate 0
	finish j 0
	same_workers j 1
}

@test "ddprun --journal FILE: the restarted server reads it" {
	gates 0
	export T
	job j --standalone --journal "$T/j" -- "$requests set k v; $gate
		$requests get k"
	await j.out 'up 0'
	server_of j
	[ "$(head -c 7 j)" = DDPJRNL ]
	kill -9 "$server"
	await j.err 'restarted it'
	open_gate 0
	finish j 0
	has "$out" "1 'v'"
}

@test "the second of two servers on one journal is refused, with the first's pid" {
	by_hand --journal "$T/j"
	expect 71 ddprdzv --listen 127.0.0.1:0 --journal "$T/j"
	has "$err" "journal $T/j: another ddprdzv uses it \(pid ${pid[server]} on"
	signal server KILL
	finish server -
	by_hand --journal "$T/j"
}

@test "a full disk is reported once, and the job continues" {
	unshare -m true 2>/dev/null || skip "needs root for a mount of its own"
	mkdir disk
	start server unshare -m bash -c 'mount -t tmpfs -o size=300k none disk
		exec ddprdzv --listen 127.0.0.1:0 --journal disk/j'
	await server.err 'listening on'
	at=${line##* }
	expect 0 ddprun --rdzv-endpoint "$at" bash -c "$requests big k 200000 big l 200000
		$requests big m 1000 get none"
	has "$(<server.err)" 'journal disk/j: .*No space left.*continuing without it'
	[ "$(grep -c 'continuing without' server.err)" = 1 ]
}

@test "if no client reconnects, the nodes are lost, and the journal does not hang" {
	by_hand --journal "$T/j" --heartbeat-timeout 0.1
	job j --rdzv-endpoint "$at" --rdzv-id gone -- 'exec tail -f /dev/null'
	await j.out 'up 0'
	signal server KILL
	finish server -
	signal j KILL
	finish j -
	export DDP_LOG=debug
	by_hand --journal "$T/j" --heartbeat-timeout 0.1
	unset DDP_LOG
	await server.err "its agent did not reconnect"
}

# A real journal, with every kind of record, truncated anywhere.
@test "a truncated journal is read up to the cut, wherever it was cut" {
	local cut size n=0
	gates 0
	export T
	by_hand --journal "$T/j"
	job j --nproc-per-node 2 --rdzv-endpoint "$at" -- "[ \$RANK = 1 ] || {
		$requests set k v add n 1 append l x mset a 1 b 2 delete a cas c '' d
		$gate; }
		$requests gather g 2 60000 v\$RANK barrier b 2 60000"
	await j.out 'up 0'
	open_gate 0
	finish j 0
	signal server KILL
	finish server -
	size=$(od -An -v -t u1 -w1 j | awk '$1 { n = NR } END { print n }')
	[ "$size" -gt 5000 ]
	install -m 600 /dev/null k
	for ((cut = 4096; cut <= size + 53; cut += 53)); do
		head -c $cut j >k
		# its parent is gone: it ends when it has read its input
		: | ddprdzv --listen 127.0.0.1:0 --journal k --parent-fd 0
		n=$((n + 1))
	done
	[ $n -gt 15 ]
}

# The clock on the wall goes ten years ahead and back while a round runs, and
# while the server is away; nobody's lease, timeout or backoff is by that clock.
@test "clocks that jump change nothing" {
	# its program would leave a semaphore named for its pid, and fail where one is
	local preload
	preload=$(ls /usr/lib*/*/faketime/libfaketime.so.1 2>/dev/null) ||
		skip "no libfaketime here"
	[ -z "${SAN:-}" ] || skip "faketime must be loaded before the sanitizers"
	gates 0 1
	export T
	echo '+0' >clock
	export LD_PRELOAD=$preload FAKETIME_TIMESTAMP_FILE=$T/clock \
		FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1 FAKETIME_DONT_FAKE_MONOTONIC=1
	by_hand --journal "$T/j"
	job j --nproc-per-node 2 --rdzv-endpoint "$at" --heartbeat-timeout 1 -- \
		"$requests set k v
		date +year%Y; $gate; date +year%Y; $requests barrier b 2 60000 get k"
	await j.out 'year'
	local year=${line##*year}
	await j.out '^\[1\] year'
	echo '+10y' >clock
	die_and_return --journal "$T/j"
	await j.err 'is back after [0-9]\.'
	open_gate 0
	await j.out "^\[0\] year$((year + 10))"
	echo '-10y' >clock
	open_gate 1
	finish j 0
	has "$out" "^\[1\] year$((year - 10))"
	same_workers j 2
	[ "$(grep -c "1 'v'" <<<"$out")" = 2 ]
}

@test "DDP_LOG=debug prints each edge of the membership" {
	gates 0
	export T
	DDP_LOG=debug job j --standalone -- "$gate"
	await j.out 'up 0'
	kill_server_of j
	await j.err 'membership: RECONNECTING -> RUNNING, resumed'
	open_gate 0
	finish j 0
	[ "$(sed -n 's/.*membership: \([^:]*\).*/\1/p' <<<"$err" | paste -sd/)" = "IDLE -> CONNECTING, join/CONNECTING -> WAITING, greeted/WAITING -> RUNNING, start/RUNNING -> RECONNECTING, away/RECONNECTING -> RECONNECTING, greeted/RECONNECTING -> RUNNING, resumed/RUNNING -> CLOSED, job-end/CLOSED -> CLOSED, close" ]
}
