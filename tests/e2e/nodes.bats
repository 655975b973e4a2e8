# Two and more ddpruns on this machine that form one job.
# covers: launcher/membership launcher/agent rendezvous/round
load ../lib
load ../backend

# node NAME OPTIONS...: a ddprun of the job at $meet
node() {
	local name=$1
	shift
	start "$name" ddprun --rdzv-endpoint "$meet" "$@"
}

# first NAME OPTIONS...: the same, and it is in the job and waits for the others
first() {
	DDP_LOG=debug node "$@"
	await "$T/$1.err" 'debug: 1 of [0-9]+ nodes have joined'
}

port() {
	port=$(w_port free)
	meets "127.0.0.1:$port"
}

# bats test_tags=etcd
@test "the same command on two nodes forms one job" {
	port
	node a --nnodes 2 --nproc-per-node 2 sh -c 'echo $RANK $GROUP_RANK $WORLD_SIZE $MASTER_ADDR'
	node b --nnodes 2 --nproc-per-node 2 sh -c 'echo $RANK $GROUP_RANK $WORLD_SIZE $MASTER_ADDR'
	finish a
	local first=$out
	finish b
	[ "$(printf '%s\n%s\n' "$first" "$out" | sort)" = "[0] 0 0 4 127.0.0.1
[1] 1 0 4 127.0.0.1
[2] 2 1 4 127.0.0.1
[3] 3 1 4 127.0.0.1" ]
}

@test "nodes meet at localhost:29400 without any option but --nnodes" {
	# the default port may be in use on this machine; then the test is skipped
	if (exec 3<>/dev/tcp/127.0.0.1/29400) 2>/dev/null; then
		skip "port 29400 is in use"
	fi
	start a ddprun --nnodes 2 sh -c 'echo $WORLD_SIZE'
	await a.err '^ddprun: waiting [0-9]+ s at localhost:29400 for 1 of 2 nodes \(job .none.\); start the other with the same command, on another host add --rdzv-endpoint HOST:29400$'
	start b ddprun --nnodes 2 sh -c 'echo $WORLD_SIZE'
	finish a
	finish b
}

@test "node 0 stays for its server, which waits for a stopped node" {
	local server
	port
	mkfifo go
	first a --nnodes 2 --node-rank 0 sh -c 'echo up; read -r _ <go; exit 3'
	node b --nnodes 2 --node-rank 1 sh -c 'echo up; exec sleep 1000'
	await a.out 'up$'
	await b.out 'up$'
	server=$(pgrep -P "${pid[a]}" -x ddprdzv)
	signal b STOP
	echo >go
	finish a 3
	[ ! -e "/proc/$server" ]
	signal b CONT
	finish b -
}

@test "MASTER_ADDR and MASTER_PORT name the endpoint" {
	port
	export MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
	start a ddprun --nnodes 2 sh -c 'echo $DDP_RDZV_ENDPOINT $MASTER_PORT'
	start b ddprun --nnodes 2 sh -c 'echo $DDP_RDZV_ENDPOINT $MASTER_PORT'
	finish a
	has "$out" "^\[.\] 127.0.0.1:$port $port\$"
	finish b
	has "$out" "^\[.\] 127.0.0.1:$port $port\$"
}

@test "MASTER_ADDR and MASTER_PORT do not join two jobs of one node each" {
	# which all workers of a ddprun are given
	expect 0 ddprun --nproc-per-node 2 ddprun --nproc-per-node 2 \
		sh -c 'echo of $WORLD_SIZE; exit 0'
	[ "$(grep -c 'of 2$' <<<"$out")" = 4 ]
	[ -z "$err" ]
}

# bats test_tags=etcd
@test "with different numbers of workers, ranks are prefix sums" {
	port
	node a --nnodes 3 --node-rank 0 --nproc-per-node 1 sh -c 'echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE'
	node b --nnodes 3 --node-rank 1 --nproc-per-node 3 sh -c 'echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE'
	node c --nnodes 3 --node-rank 2 --nproc-per-node 2 sh -c 'echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE'
	finish a
	[ "$out" = "[0] 0 0 1" ]
	finish b
	[ "$(sort <<<"$out")" = "[1] 1 0 3
[2] 2 1 3
[3] 3 2 3" ]
	finish c
	[ "$(sort <<<"$out")" = "[4] 4 0 2
[5] 5 1 2" ]
}

@test "a client that starts before the host waits for it" {
	port
	# no ddprun can host at this address: it is in use by a silent process
	first a --nnodes 2 true
	node b --nnodes 2 true
	finish a
	finish b
}

# bats test_tags=etcd
@test "the failure page is printed on every node, with the same exit code" {
	port
	node a --nnodes 2 --node-rank 0 sh -c 'exec tail -f /dev/null'
	node b --nnodes 2 --node-rank 1 sh -c 'echo last words >&2; exit 7'
	finish a 7
	local first
	first=$(sed -n '/^ddprun: job/,/exits with/p' <<<"$err")
	finish b 7
	[ "$first" = "$(sed -n '/^ddprun: job/,/exits with/p' <<<"$err")" ]
	has "$first" '^\|  rank +1 of 2 \(local rank 0\)$'
	has "$first" '^\|  node +1, host '
	has "$first" '^\|    last words$'
}

# bats test_tags=etcd
@test "restarts count once for the whole job, on every node" {
	port
	local script='echo attempt $TORCHELASTIC_RESTART_COUNT
		[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0
		[ $RANK = $TORCHELASTIC_RESTART_COUNT ] && exit 1
		exec tail -f /dev/null'
	node a --nnodes 2 --node-rank 0 --max-restarts 2 sh -c "$script"
	node b --nnodes 2 --node-rank 1 --max-restarts 2 sh -c "$script"
	finish a
	# a worker that does not fail may be ended before it prints anything
	has "$out" 'attempt 0'
	has "$out" 'attempt 2'
	finish b
	has "$out" 'attempt 1'
	has "$out" 'attempt 2'
	has "$err" 'restarting \(1 of 2\): rank 0'
	has "$err" 'restarting \(2 of 2\): rank 1'
}

# bats test_tags=etcd
@test "a signal to one node ends the others, which name that node" {
	port
	node a --nnodes 2 --node-rank 0 sh -c 'echo up; exec tail -f /dev/null'
	node b --nnodes 2 --node-rank 1 sh -c 'echo up; exec tail -f /dev/null'
	await a.out up
	await b.out up
	signal b TERM
	finish b 143
	finish a 143
	has "$err" "^ddprun: job 'none' ended: node 1 .* received SIGTERM\$"
	nothing_left
}

# Its server, which it hosts itself, has given it up when it reads what happened.
@test "a node that was stopped meanwhile also names the node that got the signal" {
	port
	set -- --nnodes 2 --heartbeat-timeout 2 --shutdown-timeout 0.5
	node a "$@" --node-rank 0 sh -c 'echo up; exec tail -f /dev/null'
	node b "$@" --node-rank 1 sh -c 'echo up; exec tail -f /dev/null'
	await a.out up
	await b.out up
	signal a STOP
	signal b TERM
	finish b 143
	signal a CONT
	finish a 143
	has "$err" '^ddprun: error: node 1 .* received SIGTERM; .*not heard from'
	nothing_left
}

# bats test_tags=etcd
@test "if a node's ddprun is killed, the others end with 69" {
	port
	first a --nnodes 2 --node-rank 0 sh -c 'echo up; exec tail -f /dev/null'
	node b --nnodes 2 --node-rank 1 sh -c 'echo up; exec tail -f /dev/null'
	await b.out up
	signal b KILL
	finish b 137
	finish a 69
	has "$err" "^ddprun: job 'none' failed: node 1 .* was lost"
	nothing_left
}

# server: a ddprdzv at $port, which logs spares in server.err
server() {
	port
	export DDP_LOG=debug
	start server ddprdzv --listen "127.0.0.1:$port"
	unset DDP_LOG
	await server.err 'listening'
}

@test "a third node in a job of two is a spare, and ends as the others do" {
	server
	mkfifo go
	exec 9<>go
	node a --nnodes 2 sh -c 'read _ <'"$T"'/go'
	node b --nnodes 2 sh -c 'echo up; read _ <'"$T"'/go; exit 3'
	await b.out up
	node c --nnodes 2 echo never
	await server.err 'is a spare$'
	printf '\n\n' >&9
	finish a 3
	finish b 3
	finish c 3
	lacks "$out" never
	# it was never in a world, so it does not know its size
	has "$err" '^\|  rank         [01] \(local rank 0\)$'
	has "$err" '^\|  attempt      1 of 1$'
	exec 9>&-
	signal server TERM
	finish server
}

@test "a last call of fifty days, longer than 32 bits of milliseconds, waits" {
	port # 2^32 ms and 104
	node a --nnodes 1:2 --last-call-timeout 4294967.4 sh -c 'echo of $WORLD_SIZE'
	await "$T/a.err" '1 of 1 to 2 nodes have joined .*--last-call-timeout'
	node b --nnodes 1:2 --last-call-timeout 4294967.4 sh -c 'echo of $WORLD_SIZE'
	finish a
	finish b
	has "$out" 'of 2$'
}

@test "a lease that does not fit the protocol is refused, not truncated" {
	expect 77 ddprun --heartbeat-timeout 4294968 true
	has "$err" 'to a day'
}

@test "the next job at an endpoint waits while the previous job's server ends" {
	port
	mkfifo held ready
	# node 0's ddprun stays for what its worker left behind
	# and it has the server
	first a --nnodes 2 --node-rank 0 bash -c \
		'(trap "" TERM; exec 3<>held; echo >ready; read -r _ <&3) &
		read -r _ <ready'
	node b --nnodes 2 --node-rank 1 true
	finish b
	node b2 --nnodes 2 sh -c 'echo of $WORLD_SIZE'
	await "$T/b2.err" '^ddprun: waiting [0-9]+ s .* is stopping'
	echo >held
	finish a
	node a2 --nnodes 2 sh -c 'echo of $WORLD_SIZE'
	finish a2
	finish b2
	has "$out" 'of 2$'
}

# bats test_tags=etcd
@test "the second of two nodes with the same --node-rank is refused" {
	port
	first a --nnodes 2 --node-rank 1 true
	expect 77 ddprun --rdzv-endpoint "$meet" --nnodes 2 \
		--node-rank 1 true
	has "$err" '^ddprun: error: .*rank 1'
	node b --nnodes 2 --node-rank 0 true
	finish a
	finish b
}

# bats test_tags=etcd
@test "nodes with different --nnodes are refused" {
	port
	first a --nnodes 2 true
	expect 77 ddprun --rdzv-endpoint "$meet" --nnodes 3 true
	has "$err" '^ddprun: error: .*3'
	node b --nnodes 2 true
	finish a
	finish b
}

# bats test_tags=etcd
@test "--rdzv-timeout ends the wait and names the missing node" {
	port
	expect 75 ddprun --rdzv-endpoint "$meet" --nnodes 2 \
		--rdzv-timeout 2 true
	has "$err" "^ddprun: error: gave up after 2 s: only 1 of 2 nodes joined at $where \(job 'none'\)"
	nothing_left
}

@test "a host whose own name is 127.0.1.1 (Debian) also listens for others" {
	unshare -m -u true 2>/dev/null || skip "no mount and UTS namespaces here"
	port
	printf '127.0.0.1 localhost\n127.0.1.1 own-name\n' >hosts
	start a unshare -m -u sh -c 'mount --bind hosts /etc/hosts &&
		echo own-name >/proc/sys/kernel/hostname && exec "$@"' \
		sh ddprun --rdzv-endpoint "own-name:$port" --nnodes 2 \
		--node-rank 0 sh -c 'echo $MASTER_ADDR'
	await a.err "^ddprun: waiting [0-9]+ s at own-name:$port .*with the same command there, with --rdzv-endpoint own-name:$port\$"
	node b --nnodes 2 --node-rank 1 sh -c 'echo $MASTER_ADDR'
	finish a
	[ "$out" = "[0] own-name" ]
	finish b
	[ "$out" = "[1] own-name" ]
}

@test "two jobs, each with its own id, meet at one server" {
	port
	"$DDPRDZV" --listen "127.0.0.1:$port" 2>server.log 3>&- 4>&- &
	local server=$! i
	await server.log 'listening'
	for i in 1 2; do
		node "a$i" --nnodes 2 --rdzv-id "job$i" sh -c 'echo $DDP_JOB_ID'
		node "b$i" --nnodes 2 --rdzv-id "job$i" sh -c 'echo $DDP_JOB_ID'
	done
	for i in 1 2; do
		finish "a$i"
		has "$out" "^\[.\] job$i\$"
		finish "b$i"
	done
	kill "$server"
	wait "$server" || true
}

@test "an id is free again when its job has ended" {
	server
	node a --rdzv-id same sh -c 'exit 3'
	finish a 3
	node b --rdzv-id same true
	finish b
	signal server TERM
	finish server
}

@test "standalone jobs side by side never meet" {
	local i
	for i in 1 2 3 4 5 6; do
		start "j$i" ddprun --standalone --nproc-per-node 2 \
			sh -c 'echo $WORLD_SIZE'
	done
	for i in 1 2 3 4 5 6; do
		finish "j$i"
		[ "$(sort -u <<<"$out")" = "[0] 2
[1] 2" ]
	done
}

# With a kernel that has few ports to give: else it happens in one of 14,000 tries.
@test "a node that waits for a server on its host does not take the server's port" {
	unshare -n true 2>/dev/null || skip "needs root for a network of its own"
	mkfifo go
	start job unshare -n bash -c 'ip link set lo up
		ports=/proc/sys/net/ipv4/ip_local_port_range
		echo "29410 29411" >$ports
		ddprun --rdzv-endpoint 127.0.0.1:29410 --rdzv-conf is_host=0 \
			echo met &
		read -r _ <go
		echo "29410 30000" >$ports
		ddprdzv --listen 127.0.0.1:29410 &
		wait %1 && kill %2 && wait %2'
	await job.err '^ddprun: waiting 1 s for the rendezvous at .*refused'
	echo >go
	finish job
	[ "$out" = '[0] met' ]
}
