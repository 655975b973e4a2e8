# two_hosts.sh: two hosts, b1 and b2, as network namespaces on one machine, for
# the benchmarks between hosts. Sourced; needs root.
#
#   two_hosts_up       returns 0, or prints why it cannot
#   on_host b1 CMD...  runs CMD there
#   wire RATE          shapes what each host sends (tc's words: 1gbit); "" frees
#   two_hosts_down

two_hosts_up() {
	if [ "$(id -u)" != 0 ] || ! have ip "ip (iproute2)"; then
		echo "no hosts of one's own without root and ip, left out: hosts"
		return 1
	fi
	printf '%s\n' '127.0.0.1 localhost' '10.79.0.1 b1' '10.79.0.2 b2' \
		>"$work/etc_hosts"
	for h in b1 b2; do
		mkfifo "$work/up.$h"
		"$O/tests/host" up $h "$work/etc_hosts" >"$work/up.$h" &
		eval "host_$h=$!"
		read -r line <"$work/up.$h"
		eval "pid_$h=$line"
	done
	ip link add dev bench_b1 type veth peer name eth0 netns "$pid_b1" &&
		ip link set bench_b1 netns "$pid_b2" name eth0 &&
		for h in b1 b2; do
			eval "p=\$pid_$h"
			nsenter --net="/proc/$p/ns/net" ip addr add \
				"10.79.0.${h#b}/24" dev eth0
			nsenter --net="/proc/$p/ns/net" ip link set eth0 up
		done || {
		two_hosts_down
		return 1
	}
}

two_hosts_down() {
	kill "$host_b1" "$host_b2" 2>/dev/null || true
	wait "$host_b1" "$host_b2" 2>/dev/null || true
	rm -f "$work/up.b1" "$work/up.b2"
}

on_host() {
	eval "p=\$pid_$1"
	shift
	"$O/tests/host" exec "$p" "$@"
}

wire() {
	for h in b1 b2; do
		eval "p=\$pid_$h"
		nsenter --net="/proc/$p/ns/net" tc qdisc del dev eth0 root \
			2>/dev/null || true
		[ -z "$1" ] || nsenter --net="/proc/$p/ns/net" tc qdisc add \
			dev eth0 root tbf rate "$1" burst 256k latency 100ms
	done
}

# both_hosts N CMD...: as ranks of ddprun, N a host; b1's output is printed
both_hosts() {
	n=$1
	shift
	on_host b2 timeout -k 1 120 "$O/ddprun" --nnodes 2 \
		--nproc-per-node "$n" --rdzv-endpoint b1:29400 "$@" \
		>/dev/null 2>&1 </dev/null &
	other=$!
	on_host b1 timeout -k 1 120 "$O/ddprun" --nnodes 2 \
		--nproc-per-node "$n" --rdzv-endpoint b1:29400 "$@" </dev/null
	wait "$other" || true
}
