# etcd.bash: a real etcd cluster, a member on each host. Loaded after netns.
#
#   etcd_up N      members on h1..hN, which serve when it returns; skips the test
#                  where there is no etcd, or no namespaces
#   $etcd          their endpoints, "h1:2379,h2:2379"; its log is
#                  $T/etcd_h1.log
#   signal etcd_h1 KILL   ends one, as any started program

etcd_up() {
	local i cluster=
	command -v etcd >/dev/null || skip 'no etcd here (apt-get install etcd-server)'
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
