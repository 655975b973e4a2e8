# etcd.bash: real etcd clusters, with one member here, or one on each host (then load
# it after netns).
#
#   etcd_here [HOST] [OPTION...]   starts one member with these options, here at a
#                  loopback address of its own ($etcd_at, if set), or on HOST
#   etcd_up N      starts members on h1..hN, which serve when it returns; skips the
#                  test without etcd or namespaces
#   $etcd          their endpoints, "h1:2379,h2:2379"; the log of one is
#                  $T/etcd_h1.log
#   signal etcd_h1 KILL   ends one, like any started program
#   node HOST NNODES OPTION...   starts a ddprun of job j there: on_HOST
#   etcd_quiet     $err has at most waits for the start, which is slow on busy CPUs

etcd_or_skip() {
	command -v etcd >/dev/null || skip 'no etcd here (apt-get install etcd-server)'
}

etcd_here() {
	local at=127.0.0.1 port scheme=http host= start_etcd
	local cookie=$TEST_COOKIE
	etcd_or_skip
	# any client of 127.0.0.1 may get its ports
	at=${etcd_at:-127.$((RANDOM % 200 + 20)).$((RANDOM % 250)).1}
	if [ -n "${1:-}" ] && [ "${1#-}" = "$1" ]; then
		host=$1 at=${addr[$1]}
		shift
	fi
	[[ $* != *--cert-file* ]] || scheme=https
	port=$(w_port free)
	etcd=$at:$port
	: >"$T/etcd.log"
	start_etcd=(start)
	[ -z "$host" ] || start_etcd=(start_on "$host")
	unset TEST_COOKIE # no leftover of the test: it ends with it
	"${start_etcd[@]}" etcd bash -c \
		'exec etcd "$@" 2>"$0"' "$T/etcd.log" --data-dir "$T/etcd" \
		--heartbeat-interval 50 --election-timeout 500 \
		--listen-peer-urls http://127.0.0.1:0 \
		--initial-advertise-peer-urls http://127.0.0.1:2380 \
		--initial-cluster default=http://127.0.0.1:2380 \
		--listen-client-urls "$scheme://$etcd" \
		--advertise-client-urls "$scheme://$etcd" "$@"
	export TEST_COOKIE=$cookie
	await "$T/etcd.log" 'ready to serve client requests'
	await "$T/etcd.log" 'serving (insecure )?client'
}

etcd_up() {
	local i cluster=
	etcd_or_skip
	hosts_real
	etcd=
	for ((i = 1; i <= $1; i++)); do
		cluster+=,h$i=http://${addr[h$i]}:2380
		etcd+=,h$i:2379
	done
	etcd=${etcd#,}
	for ((i = 1; i <= $1; i++)); do
		etcd_start "h$i" "${cluster#,}" new
	done
	for ((i = 1; i <= $1; i++)); do
		await "$T/etcd_h$i.log" 'ready to serve client requests|serving insecure client'
	done
}

etcd_start() { # HOST CLUSTER new|existing
	: >"$T/etcd_$1.log"
	start_on "$1" "etcd_$1" bash -c \
		'exec etcd "$@" 2>"$0"' "$T/etcd_$1.log" --name "$1" \
		--data-dir "$T/etcd_$1" --initial-cluster "$2" \
		--initial-cluster-state "$3" --initial-cluster-token test \
		--listen-peer-urls "http://${addr[$1]}:2380" \
		--initial-advertise-peer-urls "http://${addr[$1]}:2380" \
		--listen-client-urls "http://${addr[$1]}:2379" \
		--advertise-client-urls "http://${addr[$1]}:2379"
}

node() {
	local h=$1 nnodes=$2
	shift 2
	start_on "$h" "on_$h" ddprun --nnodes "$nnodes" --rdzv-backend etcd \
		--rdzv-endpoint "$etcd" --rdzv-id j "$@"
}

etcd_quiet() {
	[ -z "$(grep -vE '^(ddprun: waiting [0-9]+ s (for|at) .*)?$' <<<"$err")" ] ||
		{ echo "$err"; return 1; }
}
