# notice.sh: on hosts that are namespaces: from a signal at one of four ddpruns until
# all ranks know that they must stop, with steps of 1 ms; and from a power cut of a
# node of an elastic job until its ranks train again, with a spare and without.

CUT_S=2 # --heartbeat-timeout

# Hosts n1..nN on a bridge.
many_up() {
	n=$1
	echo '127.0.0.1 localhost' >"$work/etc_hosts"
	i=1
	while [ $i -le "$n" ]; do
		echo "10.80.0.$i n$i" >>"$work/etc_hosts"
		i=$((i + 1))
	done
	for h in switch $(seq -f n%.0f "$n"); do
		mkfifo "$work/up.$h"
		"$O/tests/host" up "$h" "$work/etc_hosts" >"$work/up.$h" &
		eval "host_$h=$!"
		read -r line <"$work/up.$h"
		eval "pid_$h=$line"
	done
	in_switch ip link add bridge type bridge stp_state 0 forward_delay 0
	in_switch ip link set bridge up
	for i in $(seq "$n"); do
		eval "p=\$pid_n$i"
		in_switch ip link add "to_n$i" type veth peer name eth0 netns "$p"
		in_switch ip link set "to_n$i" master bridge up
		nsenter --net="/proc/$p/ns/net" ip addr add "10.80.0.$i/24" \
			dev eth0
		nsenter --net="/proc/$p/ns/net" ip link set eth0 up
	done
}

many_down() {
	for h in switch $(seq -f n%.0f "$1"); do
		eval "kill \$host_$h 2>/dev/null || true; wait \$host_$h 2>/dev/null || true"
		rm -f "$work/up.$h"
	done
}

in_switch() {
	nsenter --net="/proc/$pid_switch/ns/net" "$@"
}

# node I OPTIONS...: a ddprun on host I, whose pid is then in node_I
node() {
	i=$1
	shift
	eval "p=\$pid_n$i"
	: >"$work/node.$i"
	"$O/tests/host" exec "$p" timeout -k 1 60 "$O/ddprun" \
		--rdzv-endpoint n1:29400 "$@" "$O/tests/w_asks" 0 \
		>>"$work/node.$i" 2>"$work/node.$i.err" </dev/null &
	eval "node_$i=$!"
}

# lines N WORDS FILE...: until N lines with them are in these together, as
# tail hears of them; 30 s at most
lines() {
	want=$1 words=$2
	shift 2
	mkfifo "$work/heard"
	timeout 30 tail -q -n +1 -f "$@" >"$work/heard" &
	tail=$!
	got=$(grep -c -m "$want" "$words" "$work/heard") || true
	kill $tail 2>/dev/null || true
	wait $tail 2>/dev/null || true
	rm "$work/heard"
	[ "$got" -ge "$want" ]
}

# The ms from $1 to the last of the lines with $2.
until_last() {
	cat "$work"/node.[0-9] | sed -n "s/^.*$2.*, \([0-9]*\)\$/\1/p" | sort -n |
		tail -n 1 | awk -v from="$1" '{ printf "%.2f\n", ($1 - from) / 1e6 }'
}

all_gone() {
	for i in $(seq "$1"); do
		eval "wait \$node_$i 2>/dev/null || true"
	done
	rm -f "$work"/node.*
}

notice_round() {
	for i in 1 2 3 4; do
		node $i --nnodes 4 --nproc-per-node 2
	done
	lines 8 'up . of 8' "$work"/node.[0-9] || return 0
	at=$("$B/nudge" 15 "$node_3")
	lines 8 'told at' "$work"/node.[0-9] || return 0
	until_last "$at" 'told at' >>"$work/notice"
	all_gone 4
}

# cut_round HOSTS NAME AFTER: HOSTS hosts of a job of 3 to 4; AFTER ranks are
# left, or are again, when the third has lost its power
cut_round() {
	for i in 1 2 3 4; do
		node $i --nnodes 3:4 --nproc-per-node 1 --last-call-timeout 0.5 \
			--heartbeat-timeout $CUT_S
	done
	lines 4 'up . of 4' "$work"/node.[0-9] || return 0
	[ "$1" = 4 ] || node 5 --nnodes 3:4 --nproc-per-node 1 \
		--heartbeat-timeout $CUT_S
	[ "$1" = 4 ] || lines 1 spare "$work/node.5.err" || return 0
	for i in 1 2 4; do
		: >"$work/node.$i"
	done
	at=$("$B/nudge" nsenter --net="/proc/$pid_switch/ns/net" \
		ip link set to_n3 down)
	mv "$work/node.3" "$work/lost"
	lines "$3" "up . of $3" "$work"/node.[0-9] || return 0
	until_last "$at" "up . of $3" >>"$work/$2"
	kill "$node_1" "$node_3" 2>/dev/null || true
	all_gone "$1"
	in_switch ip link set to_n3 up
}

notice_row() { # FILE WORDS GOAL
	m=$(median <"$work/$1")
	printf '%-58s %9.2f ms   goal %s ms   ratio to it %s\n' "$2" "$m" "$3" \
		"$(ratio "$m" "$3")"
}

bench_notice() {
	say "a job gets a stop signal, or loses a node; medians of $ROUNDS;" \
		"load average $(cut -d' ' -f1 /proc/loadavg)"
	if [ "$(id -u)" != 0 ] || ! have ip "ip (iproute2)"; then
		echo "no hosts of one's own without root and ip, left out: notice"
		return 0
	fi
	many_up 5
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		notice_round
		cut_round 5 spare 4
		cut_round 4 fewer 3
		r=$((r + 1))
	done
	many_down 5
	notice_row notice 'SIGTERM at one of 4 ddpruns, until all 8 ranks know' 50
	for i in spare fewer; do
		notice_row $i "power cut of a node of 4, until all train: $i" \
			$((CUT_S * 1000 + 1000))
	done
}
bench_notice
