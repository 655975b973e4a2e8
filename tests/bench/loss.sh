# loss.sh: loses one of two nodes; until the other's workers run again, or its launcher
# has ended. By kill -9 of the agent (goal: 50 ms), and by power cut, after which no
# connection closes (goal: --heartbeat-timeout and 100 ms).

# within GOAL_MS FILE: the ratio of the median to the goal.
within() {
	awk -v goal="$1" '{ for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+$/) break
		printf "%-36s %26.2f  ratio to it %.2f\n", "goal", goal, $(i + 2) / goal }' "$2"
}

bench_loss_run() { # LABEL GOAL UNTIL BLOW COMMAND COMMAND2
	"$B/again" "$ROUNDS" "$1" 2 "$3" "$4" "$5" "$6" | tee "$work/loss"
	within "$2" "$work/loss"
}

# Two hosts with a cable between them; their pids are in $h1 and $h2.
bench_loss_hosts() {
	[ "$(id -u)" = 0 ] && command -v ip >/dev/null || return 1
	for i in 1 2; do
		echo "127.0.0.1 localhost" >"$work/hosts$i"
		"$O/tests/host" up "h$i" "$work/hosts$i" >"$work/h$i" 2>/dev/null &
		eval "host$i=$!"
		while [ ! -s "$work/h$i" ]; do
			kill -0 $! 2>/dev/null || return 1
		done
	done
	h1=$(cat "$work/h1") h2=$(cat "$work/h2")
	on1="nsenter --net=/proc/$h1/ns/net" on2="nsenter --net=/proc/$h2/ns/net"
	$on1 ip link add eth0 type veth peer name eth0 netns "$h2"
	$on1 ip addr add 10.79.0.1/24 dev eth0
	$on2 ip addr add 10.79.0.2/24 dev eth0
	$on1 ip link set eth0 up
	$on2 ip link set eth0 up
}

bench_loss() {
	say "a node of two is lost, 2 workers each (ms; --heartbeat-timeout 1)"
	printf '%-36s %4s %9s %9s %9s %9s\n' '' runs min median max launch
	at=127.0.0.1:$("$O/tests/w_port" free)
	# separate, so that it does not die with the killed agent
	"$O/ddprdzv" --auth none --listen "$at" 2>"$work/server" &
	server=$!
	until grep -qs listening "$work/server"; do
		kill -0 "$server" || return 1
	done
	job="$O/ddprun --nproc-per-node 2 --heartbeat-timeout 1 --rdzv-endpoint"
	for how in "1:2 lines run_again" "2 end job_ended"; do
		set -- $how
		bench_loss_run "kill -9 of its agent, $3" 50 "$2" second \
			"$job $at --auth none --nnodes $1 $B/sleeper" \
			"$job $at --auth none --nnodes $1 $B/sleeper"
	done
	kill "$server"
	if ! bench_loss_hosts; then
		echo "left out: power cut (needs root and network namespaces)"
		return
	fi
	after="$on1 ip link set eth0 up"
	export after
	for how in "1:2 lines run_again" "2 end job_ended"; do
		set -- $how
		bench_loss_run "power cut, $3" 1100 "$2" \
			"$on1 ip link set eth0 down" \
			"$O/tests/host exec $h1 $job 10.79.0.1:29400 --nnodes $1 $B/sleeper" \
			"$O/tests/host exec $h2 $job 10.79.0.1:29400 --nnodes $1 $B/sleeper"
	done
	unset after
	kill "$host1" "$host2"
}
bench_loss
