# simulate.sh: simulated agents on real sockets: N of them join one job, get their
# ranks, and one worker each passes a barrier. If a process cannot have descriptors for
# all of them, several servers serve a part each.

say "simulate: agents join, get ranks, their workers pass a barrier"

# simulate_servers N: that many, in sim_servers (HOST:PORT/PID...) and sim_pids
simulate_servers() {
	sim_servers='' sim_pids=''
	for i in $(seq "$1"); do
		rm -f "$work/server"
		"$O/ddprdzv" --auth secret --listen 127.0.0.1:0 >"$work/server" 2>&1 &
		sim_pids="$sim_pids $!"
		timeout 20 tail -n +1 -F "$work/server" 2>/dev/null |
			grep -q -m 1 'listening on'
		sim_servers="$sim_servers $(sed -n 's/.*listening on //p' \
			"$work/server")/$!"
	done
}

simulate_end() {
	# shellcheck disable=SC2086
	kill $sim_pids
	# shellcheck disable=SC2086
	wait $sim_pids 2>/dev/null || true
}

# simulate_column N FILE: the median of that column
simulate_column() {
	cut -d ' ' -f "$1" "$2" | median
}

# each authenticates to the server, and the server to each
export DDP_TOKEN=sixteen-bytes-and-more
files=$(ulimit -Hn)
for n in 250 1000 4000 16000; do
	# two connections an agent, and a few besides
	servers=1
	while [ "$files" != unlimited ] && [ $((2 * n / servers + 100)) -gt "$files" ]; do
		servers=$((servers + 1))
	done
	: >"$work/agents.$n"
	for r in $(seq "$ROUNDS"); do
		simulate_servers $servers
		# shellcheck disable=SC2086
		"$O/bench/bench_agents" "$n" $sim_servers >>"$work/agents.$n"
		simulate_end
	done
	printf '%6d agents, %d server(s): all have ranks after %7s ms, through the barrier after %7s ms, ended after %7s ms; %s bytes a connection\n' \
		$n $servers "$(simulate_column 3 "$work/agents.$n")" \
		"$(simulate_column 4 "$work/agents.$n")" \
		"$(simulate_column 5 "$work/agents.$n")" \
		"$(simulate_column 6 "$work/agents.$n")"
done
# the floor, and ours once more in turns with it
: >"$work/agents.1000"
for r in $(seq "$ROUNDS"); do
	"$O/bench/bench_floor" 1000 >>"$work/floor"
	simulate_servers 1
	# shellcheck disable=SC2086
	"$O/bench/bench_agents" 1000 $sim_servers >>"$work/agents.1000"
	simulate_end
done
floor=$(simulate_column 3 "$work/floor")
a=$(simulate_column 4 "$work/agents.1000")
b=$(simulate_column 4 "$work/agents.16000")
awk -v a="$a" -v b="$b" -v floor="$floor" 'BEGIN {
	printf "1,000 agents: %.0f ms (goal 100); 16,000: %.2f s (goal 2)\n", a, b / 1e3
	printf "the same messages between two bare epoll loops: %.0f ms; ours is %.2f times that\n",
		floor, a / floor
	printf "slope: %.1f us an agent from 1,000 to 16,000, after %.1f up to 1,000\n",
		(b - a) / 15, a }'
simulate_servers 1
# shellcheck disable=SC2086
"$O/bench/bench_agents" connects 98304 $sim_servers
simulate_end

say "simulate: a barrier of 1,000 while others send garbage, read nothing, say nothing"
simulate_servers 1
"$O/bench/bench_abuse" 1000 200 "$ROUNDS" "${sim_servers# }"
simulate_end

say "simulate: 256 bytes of every rank to every rank, by one ddprdzv and hosts of 8"
for ranks in 2048 4096 8192 16384; do
	if [ "$files" != unlimited ] && [ $((ranks * 9 / 8 + 100)) -gt "$files" ]; then
		echo "$ranks ranks are left out: a process may have $files files"
		continue
	fi
	simulate_servers 1
	"$O/bench/bench_exchange" $ranks 8 256 2 "${sim_servers# }"
	simulate_end
done
