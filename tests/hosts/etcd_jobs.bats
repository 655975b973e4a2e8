# covers: etcd rendezvous/journal rendezvous/server rendezvous/election
load ../lib
load netns
load etcd

# Jobs with their rendezvous in a real etcd of three members: no host is special, and
# losing ddprdzvs or etcd members has the consequences that docs/etcd.md describes.

who='echo "rank $RANK of $WORLD_SIZE attempt $TORCHELASTIC_RESTART_COUNT"'
waiter="$who; exec tail -f /dev/null"

setup() {
	lib_setup
	# a lease in which pings of a loaded machine fit
	export PET_HEARTBEAT_TIMEOUT=3 PET_LAST_CALL_TIMEOUT=0.5
	export PET_RDZV_CONF=ttl=2
	hosts_up 3
	hosts_real # what kills all of a host must not see the machine's own
}

# nodes NNODES OPTIONS...: one on each host
nodes() {
	local h
	for h in h1 h2 h3; do
		node "$h" "$@"
	done
}

# ask [HOST] ARGS...: etcdctl on that host; its output in $out
ask() {
	start_on "$1" ask env ETCDCTL_API=3 etcdctl \
		--endpoints "${addr[$1]}:2379" "${@:2}"
	finish ask
}

# the host whose ddprdzv is the server into $server, the others into $others
find_server() {
	local h
	ask "${1:-h1}" get /ddprun/j/server --print-value-only
	server='' others=()
	for h in h1 h2 h3; do
		if [ "${out%:*}" = "${addr[$h]}" ]; then
			server=$h
		else
			others+=("$h")
		fi
	done
	[ -n "$server" ]
}

# No key in etcd is left, and no process.
# A ddprdzv outlives its ddprun while it cleans up, in an etcd that may be
# electing just then.
all_gone() {
	local h p
	for p in $(pgrep -x ddprdzv); do
		! grep -qsz "TEST_COOKIE=$TEST_COOKIE" "/proc/$p/environ" ||
			env -u TEST_COOKIE timeout 20 tail --pid="$p" -f /dev/null
	done
	ask "${1:-h1}" get --prefix / --keys-only
	[ -z "$out" ]
	for h in h1 h2 h3; do
		[ -z "${pid[etcd_$h]:-}" ] || signal "etcd_$h" TERM
		[ -z "${pid[etcd_$h]:-}" ] || finish "etcd_$h" -
	done
	nothing_left
}

# kill_on HOST ERE: all processes there of which the name matches, with -9. They
# stop first, so that none sees another one's end.
kill_on() {
	start_on "$1" killer bash -c 'pids=()
	for p in /proc/[0-9]*; do
		[[ ! $(cat $p/comm 2>/dev/null) =~ ^($0)$ ]] ||
			[ ${p#/proc/} = 1 ] || [ ${p#/proc/} = $$ ] ||
			pids+=(${p#/proc/})
	done
	kill -STOP "${pids[@]}"
	kill -KILL "${pids[@]}"' "$2"
	finish killer -
}

# up N: all hosts run one of N workers
up() {
	local h
	for h in h1 h2 h3; do
		await "$T/on_$h.out" "of $1 attempt ${2:-0}\$"
	done
}

@test "three hosts get ranks, the store and collectives, and nothing is left" {
	local h
	etcd_up 3
	for h in h3 h2 h1; do
		node "$h" 3 --nproc-per-node 2 bash -c "$who"'
			rdzv_client do $DDP_RDZV_ENDPOINT $DDP_JOB_ID $DDP_ROUND \
				$RANK add n 1 gather g 6 60000 v$RANK
			exec c_collectives 100'
	done
	for h in h1 h2 h3; do
		finish "on_$h"
		[ "$(grep -c 'v0 v1 v2 v3 v4 v5' <<<"$out")" = 2 ]
		[ "$(grep -c 'of 6: ok$' <<<"$out")" = 2 ]
		etcd_quiet
		# by address, because no node hosts the server
		has "$out" "rank $((2 * ${h#h} - 2)) of 6 attempt 0"
	done
	# the same id again
	node h1 2 sh -c "$who"
	node h2 2 sh -c "$who"
	finish on_h1
	finish on_h2
	has "$out" 'rank 1 of 2 attempt 0'
	all_gone
}

@test "when the server is killed, each node logs a line, and workers do not notice" {
	local h
	mkfifo go
	etcd_up 3
	nodes 3 bash -c "$who"'
		[ $RANK = 0 ] && read -r _ <'"$T"'/go
		rdzv_client do $DDP_RDZV_ENDPOINT $DDP_JOB_ID $DDP_ROUND \
			$RANK add n 1 gather g 3 60000 v$RANK'
	up 3
	await "$T/on_h2.out" '^\[1\] [12]$'
	await "$T/on_h3.out" '^\[2\] [12]$'
	find_server
	kill_on "$server" ddprdzv
	await "$T/on_$server.err" 'killed by SIGKILL: restarted it; the job continues'
	for h in "${others[@]}"; do
		await "$T/on_$h.err" "the job's server is at ${addr[$server]}:[0-9]+ after [0-9.]+ s"
	done
	echo >go
	for h in h1 h2 h3; do
		finish "on_$h"
		has "$out" 'v0 v1 v2'
		[ "$(wc -l <<<"$err")" = 1 ]
	done
	all_gone
}

@test "when the server's host dies at once, a static job ends and names it" {
	local h
	export PET_HEARTBEAT_TIMEOUT=2
	etcd_up 3
	nodes 3 sh -c "$waiter"
	up 3
	find_server
	start_on "$server" killer bash -c 'kill -9 -1'
	finish killer -
	finish "on_$server" -
	for h in "${others[@]}"; do
		finish "on_$h" 69
		has "$err" "^ddprun: job 'j' failed: node [0-2] \\($server\\) was lost"
	done
	unset "pid[etcd_$server]"
	all_gone "${others[0]}"
}

@test "when the server's host is cut off, an elastic job continues without it" {
	local h
	# as by default the others' leases end before the server's own place does
	export PET_HEARTBEAT_TIMEOUT=1.5
	export PET_RDZV_CONF=ttl=3,reconnect_timeout=7
	etcd_up 3
	nodes 2:3 --max-restarts 3 sh -c "$waiter"
	up 3
	find_server
	cable_cut "$server"
	for h in "${others[@]}"; do
		await "$T/on_$h.out" 'of 2 attempt 0$'
		has "$(<"$T/on_$h.err")" "regrouping: node [0-2] \\($server\\) was lost"
	done
	# cut off as it is, it also ends, and reports what it knows
	finish "on_$server" 69
	has "$err" 'etcd|silent'
	signal "on_${others[0]}" TERM
	finish "on_${others[0]}" 143
	finish "on_${others[1]}" -
	# not before: etcd elects again when a member comes back, and what is
	# removed just then goes with its lease instead
	cable_heal "$server"
	all_gone "${others[0]}"
}

@test "when the server's host dies at once, an elastic job continues with another" {
	local h
	export PET_HEARTBEAT_TIMEOUT=2
	etcd_up 3
	nodes 2:3 --max-restarts 3 sh -c "$waiter"
	up 3
	find_server
	kill_on "$server" 'ddprun|ddprdzv|tail|sh'
	finish "on_$server" -
	for h in "${others[@]}"; do
		await "$T/on_$h.out" 'of 2 attempt 0$'
	done
	# the host is back
	node "$server" 2:3 --max-restarts 3 sh -c "$who"' $DDP_ROUND; exec tail -f /dev/null'
	await "$T/on_$server.out" 'of 3 attempt 0 2$'
	signal "on_$server" TERM
	finish "on_$server" -
	for h in "${others[@]}"; do
		signal "on_$h" TERM
	done
	for h in "${others[@]}"; do
		finish "on_$h" -
	done
	all_gone
}

@test "a job does not notice the death of an etcd member" {
	local h
	# as by default; etcd's election takes time, and so do the server's replies
	export PET_RDZV_CONF=ttl=10 PET_HEARTBEAT_TIMEOUT=5
	mkfifo go
	etcd_up 3
	nodes 3 bash -c "$who"'
		[ $RANK = 0 ] && read -r _ <'"$T"'/go
		exec c_init'
	up 3
	find_server
	signal "etcd_$server" KILL
	finish "etcd_$server" 137
	echo >go
	for h in h1 h2 h3; do
		finish "on_$h"
		has "$out" 'rank [0-2] of 3, local 0'
		etcd_quiet
	done
	all_gone "${others[0]}"
}

@test "when all of etcd dies, the job runs until it needs the server, and reports why" {
	local h
	export PET_RDZV_CONF=ttl=2,reconnect_timeout=3
	mkfifo go
	exec 9<>go
	etcd_up 1
	node h2 2 sh -c "$who; read -r _ <$T/go; exit 7"
	node h3 2 sh -c "$waiter"
	await "$T/on_h2.out" 'of 2'
	await "$T/on_h3.out" 'of 2'
	signal etcd_h1 KILL
	finish etcd_h1 137
	await "$T/on_h2.err" 'the workers continue until one needs it'
	await "$T/on_h3.err" 'the workers continue until one needs it'
	echo >&9
	finish on_h2 69
	has "$err" 'the rendezvous server at .* was lost at [0-9:]+: .*etcd'
	signal on_h3 TERM
	finish on_h3 -
	exec 9>&-
	nothing_left
}

@test "without etcd at the start, the error names member and cause within 10 s" {
	etcd=${addr[h1]}:2379
	DEADLINE=12
	node h2 2 sh -c 'echo never'
	finish on_h2 69
	[ -z "$out" ]
	has "$err" "^ddprun: error: .*etcd \\(${addr[h1]}:2379\\).*ould(n't| not) connect"
	nothing_left
}

@test "two jobs of one etcd and a server outside both coexist" {
	etcd_up 1
	node h2 2 sh -c "$who"' of $DDP_JOB_ID'
	start_on h2 other ddprun --nnodes 1 --rdzv-backend etcd \
		--rdzv-endpoint "$etcd" --rdzv-id k sh -c 'echo of $DDP_JOB_ID'
	finish other
	[ "$out" = '[0] of k' ]
	node h3 2 sh -c "$who"' of $DDP_JOB_ID'
	finish on_h2
	has "$out" 'rank 0 of 2 attempt 0 of j'
	finish on_h3
	all_gone
}

@test "both sides report that one node has another secret" {
	etcd_up 1
	DDP_TOKEN=one-secret-for-all node h2 2 sh -c "$who"
	await "$T/on_h2.err" 'waiting .* for 1 of 2 nodes'
	DDP_TOKEN=quite-another-secret node h3 2 sh -c "$who"
	finish on_h3 77
	has "$err" 'it rejected our secret \(from DDP_TOKEN on h3\)'
	await "$T/on_h2.err" 'refused 10\.78\.0\.3:[0-9]+ \(claims host h3, job .j.\): it does not have this job.s secret'
	signal on_h2 TERM
	finish on_h2 143
	all_gone
}

# stop_on HOST, cont_on HOST: its ddprdzv
stop_on() {
	start_on "$1" stop pkill -${2:-STOP} -x ddprdzv
	finish stop
}

# Some of the workers' requests have an answer and some none: all have one, and
# one only, from the next server.
@test "a server that is stopped loses the election, sends nothing more, and stands by" {
	local h
	mkfifo go
	exec 9<>go
	etcd_up 3
	nodes 3 bash -c "$who"'
		ask() { rdzv_client do $DDP_RDZV_ENDPOINT $DDP_JOB_ID \
			$DDP_ROUND $RANK "$@"; }
		ask add n 1
		read -r _ <'"$T"'/go
		ask add n 1 gather g 3 60000 v$RANK get n'
	up 3
	for h in h1 h2 h3; do
		await "$T/on_$h.out" '\] [123]$'
	done
	find_server
	stop_on "$server"
	for h in "${others[@]}"; do
		await "$T/on_$h.err" "server is at 10\.78\.0\.[123]:[0-9]+ after"
	done
	printf '\n\n\n' >&9
	stop_on "$server" CONT
	await "$T/on_$server.err" '^ddprdzv: job .j. is no longer served at '
	for h in h1 h2 h3; do
		finish "on_$h"
		has "$out" 'v0 v1 v2'
		has "$out" "1 '6'"
	done
	exec 9>&-
	all_gone
}

@test "with munge the workers' key is the same whichever ddprdzv is the server" {
	local h
	command -v munged >/dev/null || skip 'no munged here'
	mkfifo go
	exec 9<>go
	head -c 1024 /dev/urandom >munge.key
	chmod 600 munge.key
	start munged munged --foreground --force --key-file="$T/munge.key" \
		--socket="$T/munge.sock" --pid-file="$T/munge.pid" \
		--log-file="$T/munge.log" --seed-file="$T/munge.seed"
	await "$T/munged.err" 'Created .* work threads'
	export DDP_MUNGE_SOCKET=$T/munge.sock DDP_AUTH=munge
	etcd_up 3
	nodes 3 bash -c "$who"'
		read -r _ <'"$T"'/go
		echo key ${DDP_JOB_KEY:0:8}
		exec c_init'
	up 3
	find_server
	# another host's ddprdzv takes over, with its own secret
	stop_on "$server"
	for h in "${others[@]}"; do
		await "$T/on_$h.err" "server is at 10\.78\.0\.[123]:[0-9]+ after"
	done
	stop_on "$server" CONT
	printf '\n\n\n' >&9
	for h in h1 h2 h3; do
		finish "on_$h"
		has "$out" 'rank [0-2] of 3, local 0'
	done
	[ "$(grep -h ' key ' on_h?.out | cut -d' ' -f2- | sort -u | wc -l)" = 1 ]
	exec 9>&-
	signal munged TERM
	finish munged -
	all_gone
}

@test "status and dump find the server from every node" {
	local h
	etcd_up 1
	for h in h2 h3; do
		node "$h" 2 sh -c "$waiter"
	done
	await "$T/on_h2.out" 'of 2'
	await "$T/on_h3.out" 'of 2'
	for h in h2 h3; do
		start_on "$h" asks ddprun status
		finish asks
		has "$out" '2 of 2 nodes, 2 workers'
		start_on "$h" asks ddprun dump
		finish asks
		has "$out" 'h2'
		has "$out" 'h3'
	done
	signal on_h2 TERM
	finish on_h2 143
	finish on_h3 143
	all_gone
}

@test "an unmodified DDP script of PyTorch runs on two hosts" {
	local h
	torch_or_skip
	etcd_up 1
	for h in h2 h3; do
		node "$h" 2 "$BATS_TEST_DIRNAME/../programs/workers/ddp_gloo.py" \
			"$T/snapshot" 1
	done
	finish on_h2
	has "$out" '^\[0\] rank 0 of 2: ok$'
	finish on_h3
	has "$out" '^\[1\] rank 1 of 2: ok$'
	all_gone
}
