# bridge.sh: N hosts as network namespaces on one bridge, 10.80.0.1 to 10.80.0.N, each
# with its own name (s1, ...), for benchmarks of many hosts. Sourced; needs root.
#
#   bridge_up N [RATE]   returns 0, or prints why it cannot; RATE limits what each
#                        host sends (tc's words: 1gbit)
#   on_bridge I CMD...   runs CMD on host I
#   bridge_down

bridge_pid() {
	eval "echo \"\$bridge_pid_$1\""
}

bridge_up() {
	if [ "$(id -u)" != 0 ] || ! have tc "tc (iproute2)"; then
		echo "no hosts of one's own without root and tc, left out: $name"
		return 1
	fi
	echo '127.0.0.1 localhost' >"$work/etc_hosts"
	for i in $(seq 1 "$1"); do
		echo "10.80.0.$i s$i" >>"$work/etc_hosts"
	done
	bridge_hosts=
	for i in switch $(seq 1 "$1"); do
		mkfifo "$work/up.$i"
		"$O/tests/host" up "s$i" "$work/etc_hosts" >"$work/up.$i" &
		bridge_hosts="$bridge_hosts $!"
		read -r line <"$work/up.$i"
		eval "bridge_pid_$i=$line"
	done
	switch=$(bridge_pid switch)
	nsenter --net="/proc/$switch/ns/net" ip link add bridge type bridge
	nsenter --net="/proc/$switch/ns/net" ip link set bridge up
	for i in $(seq 1 "$1"); do
		p=$(bridge_pid "$i")
		nsenter --net="/proc/$switch/ns/net" ip link add "to$i" type veth \
			peer name eth0 netns "$p"
		nsenter --net="/proc/$switch/ns/net" ip link set "to$i" master bridge up
		nsenter --net="/proc/$p/ns/net" ip addr add "10.80.0.$i/24" dev eth0
		nsenter --net="/proc/$p/ns/net" ip link set eth0 up
		[ -z "${2:-}" ] || nsenter --net="/proc/$p/ns/net" tc qdisc add dev eth0 \
			root tbf rate "$2" burst 1mb latency 50ms
	done
}

bridge_down() {
	kill $bridge_hosts 2>/dev/null || true
	wait $bridge_hosts 2>/dev/null || true
	rm -f "$work"/up.*
}

on_bridge() {
	p=$(bridge_pid "$1")
	shift
	"$O/tests/host" exec "$p" "$@"
}
