# etcd.sh: the cost of a rendezvous in etcd, with one member on this machine: a start,
# ddp_init, the death of the server, the loss of its host.

# bench_etcd_up [PREFIX...]: an etcd at $etcd, on $address, through PREFIX
bench_etcd_up() {
	rm -rf "$work/etcd"
	etcd=$address:2379
	peer=http://$address:2380
	"$@" etcd --data-dir "$work/etcd" --listen-peer-urls "$peer" \
		--initial-advertise-peer-urls "$peer" \
		--initial-cluster "default=$peer" \
		--listen-client-urls "http://$etcd" \
		--advertise-client-urls "http://$etcd" 2>"$work/etcd.log" &
	etcd_pid=$!
	until grep -qs 'serving insecure client' "$work/etcd.log"; do
		kill -0 "$etcd_pid" || return 1
	done
	by_etcd="--rdzv-backend etcd --rdzv-endpoint $etcd --rdzv-id bench"
}

bench_etcd_down() {
	kill "$etcd_pid"
	wait "$etcd_pid" || true
}

bench_etcd_start() {
	say "launch and return of 4 workers (ratio: to where etcd is not asked)"
	{
		printf 'loopback\t%s --rdzv-endpoint 127.0.0.1:0 --nproc-per-node 4 %s\n' \
			"$O/ddprun" "$B/noop"
		printf 'etcd\t%s %s --nproc-per-node 4 %s\n' \
			"$O/ddprun" "$by_etcd" "$B/noop"
	} | "$B/interleave" "$ROUNDS" loopback
	say "from exec to the end of ddp_init, 4 ranks; medians of $ROUNDS rounds"
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		for how in loopback etcd; do
			words=$by_etcd
			[ $how = etcd ] || words='--rdzv-endpoint 127.0.0.1:0'
			# shellcheck disable=SC2086
			timeout 60 "$O/ddprun" $words --nproc-per-node 4 \
				"$O/bench/bench_init" 2>/dev/null |
				sed 's/^\[[0-9]*\] //' | median >>"$work/init.$how"
		done
		r=$((r + 1))
	done
	for how in loopback etcd; do
		printf '%-12s %10.2f ms\n' $how "$(median <"$work/init.$how")"
	done
}

# Kills the server's process, with two nodes here: until the other's agent is back.
bench_etcd_kill() {
	say "kill -9 of the server's ddprdzv, until the other node's agent is back"
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		: >"$work/out"
		# shellcheck disable=SC2086
		for name in first second; do
			"$O/ddprun" $by_etcd --nnodes 2 "$B/sleeper" \
				>>"$work/out" 2>"$work/err.$name" &
			eval "$name=$!"
			while [ "$name" = first ] && [ -z "$(bench_etcd_server)" ]; do
				kill -0 "$first" || return 1
			done
		done
		until [ "$(grep -c pid "$work/out")" = 2 ]; do :; done
		kill -9 "$(pgrep -P "$first" ddprdzv)"
		until grep -q 'the job.s server is at' "$work/err.second"; do
			kill -0 "$second" || return 1
		done
		sed -n 's/.* after \([0-9.]*\) s$/\1/p' "$work/err.second" |
			awk '{ print $1 * 1000 }' >>"$work/kill"
		kill "$first"
		wait "$first" || true
		wait "$second" || true
		r=$((r + 1))
	done
	sort -g "$work/kill" | awk '{ v[NR] = $1 } END {
		printf "%d runs: min %.0f ms, median %.0f ms, max %.0f ms\n", NR,
			v[1], v[int((NR + 1) / 2)], v[NR] }'
}

bench_etcd_server() {
	ETCDCTL_API=3 etcdctl --endpoints "$etcd" get /ddprun/bench/server \
		--print-value-only
}

# Cuts off its host: until the other node, which has etcd, runs the next round.
bench_etcd_hosts() {
	. "$here/two_hosts.sh"
	two_hosts_up || return 0
	address=10.79.0.2
	bench_etcd_up on_host b2
	say "the server's host is cut off, until the other's workers run again (ms;" \
		"--heartbeat-timeout 1)"
	printf '%-36s %4s %9s %9s %9s %9s\n' '' runs min median max launch
	cut="nsenter --net=/proc/$pid_b1/ns/net ip link set eth0"
	after="$cut up"
	export after
	# the node with etcd starts second, so that the other one is the server
	cat >"$work/second" <<-EOF
		#!/bin/sh
		until [ -n "\$(ETCDCTL_API=3 etcdctl --endpoints $etcd get \
			/ddprun/bench/server --print-value-only)" ]; do :; done
		exec "\$@"
	EOF
	chmod +x "$work/second"
	for ttl in 2 10; do
		job="$O/ddprun $by_etcd --rdzv-conf ttl=$ttl,last_call_timeout=0.1"
		job="$job --heartbeat-timeout 1 --nnodes 1:2 $B/sleeper"
		"$B/again" 3 "ttl=$ttl" 1 lines "$cut down" \
			"$O/tests/host exec $pid_b2 $work/second $job" \
			"$O/tests/host exec $pid_b1 $job"
	done
	unset after
	bench_etcd_down
	two_hosts_down
}

bench_etcd() {
	have etcd "etcd (etcd-server)" || return 0
	have etcdctl "etcdctl (etcd-client)" || return 0
	address=127.84.$(($$ % 250)).1 # where nobody's connections take ports
	bench_etcd_up
	bench_etcd_start
	bench_etcd_kill
	bench_etcd_down
	bench_etcd_hosts
}
bench_etcd
