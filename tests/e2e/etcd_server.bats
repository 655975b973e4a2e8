# covers: etcd rendezvous/journal rendezvous/server rendezvous/election
# covers: rendezvous/recovery
load ../lib
load ../hosts/etcd

# ddprdzvs of which a real etcd elects one: what the standbys answer, what delays the
# leader, which one takes over, and what is left.

setup() {
	lib_setup
	export DDP_TOKEN=0123456789abcdef ETCDCTL_API=3
}

# start, without holding the end of a parent's pipe
begin() {
	start "$@" 6>&-
}

# candidate NAME TTL [OPTION...]: a ddprdzv of job j; its address is ${at[NAME]}
declare -gA at
candidate() {
	local name=$1 ttl=$2
	shift 2
	begin "$name" ddprdzv --listen "${at[$name]:-127.0.0.1:0}" --job j \
		--etcd "$etcd" --etcd-ttl "$ttl" "$@"
	await "$T/$name.err" 'listening on'
	at[$name]=${line##* }
}

serves() {
	await "$T/$1.err" 'serving job'
}

# two TTL_A TTL_B: a is the server, b stands by
two() {
	etcd_here
	candidate a "$1"
	serves a
	candidate b "$2"
	await "$T/b.err" "standing by: the server of job 'j' is at ${at[a]}"
}

# agent AT: a node of two ranks, whose round runs
agent() {
	[ -p agent.in ] || mkfifo agent.in
	begin agent bash -c 'exec rdzv_client agent "$@" <"$0"' "$T/agent.in" \
		"$1" j 2 node 1 -1 0
	exec 7>agent.in
	await agent.out START
}

# worker NAME AT REQUEST...: as rank 0; a line of fd 8 is one for its `line`
worker() {
	local name=$1
	[ -p worker.in ] || mkfifo worker.in
	exec 8<>worker.in
	begin "$name" bash -c 'exec rdzv_client do "$@" <"$0"' "$T/worker.in" \
		"$2" j 0 0 "${@:3}"
}

etcdctl_() {
	expect 0 etcdctl --endpoints "$etcd" "$@"
}

nothing_in_etcd() {
	etcdctl_ get --prefix / --keys-only
	[ -z "$out" ]
}

told() { # ROLE NAME ERE
	expect 0 rdzv_client told "$1" "${at[$2]}" j
	has "$out" "$3"
}

metric() { # NAME METRIC
	curl -s "$(sed -n 's|.*health and metrics at \(http://.*\)/$|\1|p' \
		"$1.err")/metrics" | sed -n "s/^ddprdzv_$2 //p"
}

@test "a standby redirects agents, workers and tools to the server" {
	local role
	etcd_here
	candidate a 600 --metrics-listen 0
	serves a
	candidate b 600 --metrics-listen 0
	await b.err "standing by: the server of job 'j' is at ${at[a]}"
	[ "$(metric a serving) $(metric b serving)" = '1 0' ]
	for role in agent worker tool; do
		told $role b "^the job's server is elsewhere ${at[a]}\$"
	done
	told agent a '^welcome'
	# and a client without a proof learns nothing
	DDP_TOKEN=another-token-0000 expect 1 rdzv_client told agent "${at[b]}" j
	has "$out" 'closed'
	# a refusal by the server that b names is not tried again
	local before
	before=$(metric a connections_accepted_total)
	expect 1 rdzv_client do "${at[b]}" j 0 0 get k
	has "$out" "round 0 of job 'j' is over: "
	[ $(($(metric a connections_accepted_total) - before)) -le 2 ]
	signal b TERM
	finish b
	signal a TERM
	finish a
	nothing_in_etcd
}

@test "without an etcd the server reports why, and serves once there is one" {
	etcd_or_skip
	etcd=127.0.0.1:$(w_port free)
	candidate a 1
	told agent a "^etcd does not answer no member of etcd \\($etcd\\) answers: .*ould(n't| not) connect"
	start etcd etcd --data-dir "$T/etcd" \
		--listen-peer-urls "http://127.0.0.1:0" \
		--initial-advertise-peer-urls "http://127.0.0.1:2380" \
		--initial-cluster default=http://127.0.0.1:2380 \
		--listen-client-urls "http://$etcd" \
		--advertise-client-urls "http://$etcd"
	serves a
	told agent a '^welcome'
}

# gate WORD...: a proxy to etcd that holds a request with these words; a line of fd 9
# lets it through. $gate is where it is
gate() {
	mkfifo gate.in
	exec 9<>gate.in
	begin gate bash -c 'exec python3 "$@" <"$0"' "$T/gate.in" \
		"$BATS_TEST_DIRNAME/../programs/peers/etcd_gate.py" "$etcd" "$@"
	await gate.out :
	gate=$line
}

key64() {
	printf %s "$1" | base64
}

@test "clients learn why there is no server yet, and wait for one" {
	local of role
	etcd_here
	gate /kv/range "\"$(key64 /ddprun/j/head)\""
	etcd=$gate candidate a 600
	await gate.out held
	of="the server of job 'j', ${at[a]}, is still loading the job from etcd \\($gate\\)"
	# its own ddprdzv stands by, and redirects it
	begin node ddprun --rdzv-backend etcd --rdzv-endpoint "$etcd" \
		--rdzv-id j --local-addr 127.0.0.1 --rdzv-timeout 2.5 true
	for role in agent worker tool; do
		begin "$role" rdzv_client told "$role" "${at[a]}" j
	done
	for role in agent worker tool; do
		finish "$role"
		has "$out" "^the job has no server yet $of\$"
	done
	finish node 75
	has "$err" "no node became the server of job 'j' at etcd .*: $of"
	begin waiting rdzv_client told agent "${at[a]}" j
	echo >&9
	finish waiting
	[ "$out" = 'welcome ' ]
}

@test "no reply is sent before etcd has stored its change, or after the lease" {
	two 2 600
	agent "${at[a]}"
	worker w "${at[a]}" append l x line append l y
	await w.out '^1$'
	signal etcd STOP
	echo >&8
	# all this time it has the request, and must not answer it
	finish a 75
	has "$err" "job 'j' is no longer served at ${at[a]}: etcd .* expired this server's lease"
	finish w 1
	[ "$(grep -c '^[0-9]' <<<"$out")" = 1 ]
	signal etcd CONT
	serves b
	DDP_RECONNECT_TIMEOUT=20 worker w "${at[b]}" append l z
	finish w
	has "$out" '^[23]$' # y came to etcd, or did not
}

@test "while etcd is slow the server is silent, but not dead" {
	etcd_here
	gate /kv/txn "\"request_put\":{\"key\":\"$(key64 /ddprun/j/ended)\""
	etcd=$gate candidate a 600
	serves a
	agent "${at[a]}"
	printf '%s\n' 'exit 0 0' 'exit 1 0' >&7
	await gate.out held
	echo ping >&7
	await agent.out PONG
	! grep END agent.out
	echo >&9
	await agent.out END
	finish agent
}

@test "a server that was stopped while another was elected sends nothing more" {
	two 1 1
	agent "${at[a]}"
	worker w "${at[a]}" set k old get k line get k
	await w.out "^1 'old'\$"
	signal a STOP
	serves b
	worker v "${at[b]}" set k new get k
	finish v
	has "$out" "'new'"
	echo >&8
	signal a CONT
	finish a 75
	finish w 1
	[ "$(grep -c "'" <<<"$out")" = 1 ]
}

@test "a server whose parent has died hands over its state at once" {
	mkfifo parent
	etcd_here
	start a bash -c 'exec ddprdzv --listen 127.0.0.1:0 --parent-fd 5 --job j \
		--etcd "$1" --etcd-ttl 600 5<"$0"' "$T/parent" "$etcd"
	exec 6>parent
	until etcdctl_ get /ddprun/j/server --print-value-only && [ -n "$out" ]; do :; done
	at[a]=$out
	candidate b 600
	await b.err 'standing by'
	agent "${at[a]}"
	worker w "${at[a]}" set k v add n 5 line get k
	await w.out '^5$'
	exec 6>&-
	finish a
	[ -z "$err" ]
	serves b
	echo >&8
	finish w 1
	has "$out" 'closed|broke|reset'
	worker w "${at[b]}" get k add n 1
	finish w
	[ "$out" = "1 'v'
6" ]
}

@test "a server that is restarted within the same lease resumes at once" {
	etcd_here
	candidate a 600 --etcd-lease 77
	serves a
	agent "${at[a]}"
	worker w "${at[a]}" set k v
	finish w
	signal a KILL
	finish a 137
	candidate a 600 --etcd-lease 77
	serves a
	worker w "${at[a]}" get k set k w get k
	finish w
	[ "$out" = "1 'v'
1 'w'" ]
	# and a third server finds what that one has written
	signal a KILL
	finish a 137
	candidate a 600 --etcd-lease 77
	serves a
	worker w "${at[a]}" get k
	finish w
	[ "$out" = "1 'w'" ]
}

@test "the server survives an etcd that goes away and returns with its data" {
	local client
	two 1 1
	agent "${at[a]}"
	worker w "${at[a]}" set k v
	finish w
	signal etcd KILL
	finish etcd 137
	finish a 75
	start etcd etcd --data-dir "$T/etcd" --listen-peer-urls http://127.0.0.1:0 \
		--listen-client-urls "http://$etcd" \
		--advertise-client-urls "http://$etcd"
	serves b
	worker w "${at[b]}" get k
	finish w
	has "$out" "1 'v'"
}

# A value in etcd differs from what a ddprdzv wrote.
@test "a torn journal in etcd is refused, with a remedy" {
	etcd_here
	candidate a 600 --etcd-lease 77
	serves a
	agent "${at[a]}"
	worker w "${at[a]}" set k v set l v
	finish w
	signal a KILL
	finish a 137
	etcdctl_ get --prefix /ddprun/j/journal --keys-only
	piece=$(grep -m 1 '0000000000000001$' <<<"$out")
	etcdctl_ del "$piece"
	candidate a 600 --etcd-lease 77
	told agent a 'the journal in etcd .* has /ddprun/j/journal/.* in place of piece 1'
	etcdctl_ put "${piece%1}0" garbage
	etcdctl_ del --from-key "$piece"
	await a.err 'its first batch is damaged, or of another version: remove all keys below /ddprun/j/'
	told worker a 'its first batch is damaged, or of another version'
	etcdctl_ del --prefix /ddprun/j/head
	serves a
	told agent a '^welcome'
}

@test "etcd removes a job without servers automatically" {
	etcd_here
	candidate a 1 --etcd-keep 2
	serves a
	agent "${at[a]}"
	start watch etcdctl --endpoints "$etcd" watch /ddprun/j/head
	signal a KILL
	finish a 137
	await watch.out DELETE
	signal watch TERM
	finish watch -
	nothing_in_etcd
}

# 33 bytes: methods, with bit 7 for a key, and the secret or the key.
@test "a standby admits workers by the key that it gets through its pipe" {
	local key=$(printf '42%.0s' {1..32})
	etcd_here
	candidate s 600
	serves s
	mkfifo parent
	at[a]=127.0.0.1:$(w_port free)
	start a bash -c 'exec ddprdzv --listen "$2" --parent-fd 5 --auth parent \
		--job j --etcd "$1" --etcd-ttl 600 5<"$0"' "$T/parent" "$etcd" \
		"${at[a]}"
	exec 6>parent
	{ printf '\x02'; printf 's%.0s' {1..32}; } >&6
	until : 2>/dev/null <>"/dev/tcp/${at[a]/://}"; do :; done
	DDP_JOB_KEY=$key expect 1 rdzv_client told worker "${at[a]}" j
	has "$out" closed
	{ printf '\x82'; printf 'B%.0s' {1..32}; } >&6
	DDP_JOB_KEY=$key told worker a "is elsewhere ${at[s]}"
	exec 6>&-
	finish a
}

# The next server never had an agent that knows the key.
@test "with munge the next server has the first one's key, and etcd cannot reveal it" {
	local key server
	command -v munged >/dev/null || skip 'no munged here'
	unset DDP_TOKEN
	head -c 1024 /dev/urandom >munge.key
	chmod 600 munge.key
	start munged munged --foreground --force --key-file="$T/munge.key" \
		--socket="$T/munge.sock" --pid-file="$T/munge.pid" \
		--log-file="$T/munge.log" --seed-file="$T/munge.seed"
	await munged.err 'Created .* work threads'
	export DDP_MUNGE_SOCKET=$T/munge.sock DDP_AUTH=munge
	etcd_here
	mkfifo go
	exec 8<>go
	begin on ddprun --nnodes 1 --rdzv-backend etcd --rdzv-endpoint "$etcd" \
		--rdzv-id j --rdzv-conf ttl=1 --local-addr 127.0.0.1 bash -c '
		echo "key $DDP_JOB_KEY $PPID"; read -r _ <'"$T"'/go
		exec rdzv_client do $DDP_RDZV_ENDPOINT j 0 0 add n 1'
	await on.out '\] key '
	key=${line#*key } key=${key% *}
	server=$(pgrep -x -P "${line##* }" ddprdzv)
	candidate b 1
	await b.err 'standing by'
	etcdctl_ get --prefix /ddprun/j/journal
	grep -aq 'MUNGE:' program.out
	[ "${#key}" = 64 ]
	! xxd -p program.out | tr -d '\n' | grep -F "$key"
	kill -STOP "$server"
	serves b
	kill -CONT "$server"
	echo >&8
	finish on
	has "$out" '^\[0\] 1$'
	signal b TERM
	finish b
	nothing_in_etcd
}

# The first is the server, and reaches etcd through a gate that holds its
# removal. The nodes that leave the job ensure the removal.
@test "if the server dies between its job's end and the clean-up, others clean up" {
	local server name
	etcd_here
	gate /kv/txn "$(key64 /ddprun/j/journal0)"
	export PET_RDZV_BACKEND=etcd PET_RDZV_ID=j PET_LOCAL_ADDR=127.0.0.1
	export PET_NNODES=3 PET_RDZV_CONF=ttl=1
	begin a ddprun --rdzv-endpoint "$gate" true
	until etcdctl_ get /ddprun/j/server --print-value-only && [ -n "$out" ]; do :; done
	server=$(pgrep -x -P "${pid[a]}" ddprdzv)
	begin b ddprun --rdzv-endpoint "$etcd" true
	begin c ddprun --rdzv-endpoint "$etcd" true
	await gate.out held
	kill -KILL "$server"
	for name in a b c; do
		finish "$name"
		[ -z "$err" ]
	done
	for server in $(pgrep -x ddprdzv); do
		! grep -qsz "TEST_COOKIE=$TEST_COOKIE" "/proc/$server/environ" ||
			env -u TEST_COOKIE timeout 20 tail --pid="$server" -f /dev/null
	done
	nothing_in_etcd
}

@test "a stopped ddprdzv is named and replaced, and its node continues" {
	local server name
	mkfifo go
	exec 8<>go
	etcd_here
	export PET_RDZV_BACKEND=etcd PET_RDZV_ID=j PET_LOCAL_ADDR=127.0.0.1
	export PET_NNODES=2 PET_RDZV_CONF=ttl=1 PET_HEARTBEAT_TIMEOUT=2
	export PET_RDZV_ENDPOINT=$etcd
	for name in a b; do
		begin "$name" ddprun bash -c 'echo up; read -r _ <'"$T"'/go
			exec c_init'
	done
	await a.out up
	await b.out up
	etcdctl_ get /ddprun/j/server --print-value-only
	name=a
	server=$(pgrep -x -P "${pid[a]}" ddprdzv)
	ss -Hltnp "src $out" | grep -q "pid=$server," || name=b
	server=$(pgrep -x -P "${pid[$name]}" ddprdzv)
	kill -STOP "$server"
	await "$name.err" "this node's ddprdzv \(pid $server\) is stopped"
	await "$name.err" "pid $server\) was killed by SIGKILL: restarted it; the job continues"
	await "$name.err" "the job's server is at 127\.0\.0\.1:[0-9]+ after"
	printf '\n\n' >&8
	finish a
	finish b
	nothing_in_etcd
}

@test "invalid combinations of etcd options are named" {
	expect 2 ddprdzv --listen 127.0.0.1:0 --etcd h1:2379
	has "$err" '--etcd needs --job'
	expect 2 ddprdzv --listen 127.0.0.1:0 --etcd h1:2379 --job j --journal f
	has "$err" '--etcd cannot be combined with --journal'
	expect 2 ddprdzv --listen 127.0.0.1:0 --etcd-ttl 5 --etcd-https --job j
	has "$err" 'need --etcd'
	expect 2 ddprdzv --listen 0.0.0.0:0 --etcd 127.0.0.1:1 --job j
	has "$err" 'listen on an address of this host'
}
