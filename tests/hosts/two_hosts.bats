# covers: launcher/membership launcher/agent rendezvous/round
load ../lib
load netns

# The same command on each of two hosts: it trains as on one host, and when something
# dies, every terminal reports it, and nothing waits for it.

# A worker of these tests: prints its rank, then waits to be killed.
waiter='echo "worker $RANK pid $$"; echo "last words of $RANK" >&2;
	exec tail -f /dev/null'

setup() {
	lib_setup
	hosts_up 2
	endpoint=${at[h1]}:29400
	job=(ddprun --nnodes 2 --nproc-per-node 2 --rdzv-endpoint "$endpoint")
}

# few_data N: N samples in $T/data; the trainers' own 60,000 take seconds per host
few_data() {
	mkdir data
	t_idx data "$1" 640
}

trains_as_on_one_host() { # MODEL [OPTIONS...]
	local want
	export OMP_NUM_THREADS=1
	expect 0 ddprun --standalone --nproc-per-node 4 "$@" --epochs 1
	want=$(grep -oE 'test (accuracy|loss) .*' <<<"$out" | tail -n 1)
	[ -n "$want" ]
	start_on h1 on_h1 "${job[@]}" "$@" --epochs 1
	start_on h2 on_h2 "${job[@]}" "$@" --epochs 1
	finish on_h1
	[ "$HOSTS" = loopback ] || has "$out" "$want"
	finish on_h2
	[ "$(grep -ohE 'test (accuracy|loss) .*' "$T/on_h1.out" "$T/on_h2.out" |
		tail -n 1)" = "$want" ]
}

@test "the classifier trains over two hosts as on one" {
	few_data 6400
	trains_as_on_one_host mnist_mlp --data "$T/data"
}

@test "the auto-encoder trains over two hosts as on one" {
	few_data 6400
	trains_as_on_one_host mnist_ae --data "$T/data"
}

@test "the ranks of a host are adjacent, and rank 0 is on the endpoint's host" {
	start_on h2 on_h2 "${job[@]}" sh -c 'echo "$RANK $GROUP_RANK $(hostname)"'
	# the host without the endpoint may start first: it prints where it waits
	await "$T/on_h2.err" "$endpoint"
	start_on h1 on_h1 "${job[@]}" sh -c 'echo "$RANK $GROUP_RANK $(hostname)"'
	finish on_h1
	hosts_real
	[ "$(sort <<<"$out")" = $'[0] 0 0 h1\n[1] 1 0 h1' ]
	finish on_h2
	[ "$(sort <<<"$out")" = $'[2] 2 1 h2\n[3] 3 1 h2' ]
}

@test "a worker killed on one host gives the same page and code 137 on both" {
	start_on h1 on_h1 "${job[@]}" sh -c "$waiter"
	start_on h2 on_h2 "${job[@]}" sh -c "$waiter"
	await "$T/on_h1.out" 'worker [13]'
	await "$T/on_h2.out" 'worker [13] pid [0-9]+'
	victim=${line##* }
	rank=${line:1:1} # 3, where hosts are not only addresses
	start_on h2 killer kill -9 "$victim"
	finish on_h2 137
	page=$err
	finish on_h1 137
	has "$err" "rank +$rank of 4 \(local rank 1\)"
	has "$err" "pid +$victim\$"
	has "$err" 'killed by signal 9 \(SIGKILL\)'
	has "$err" "last words of $rank"
	[ "$(sed -n '/first failure/,/exits with/p' <<<"$err")" = \
		"$(sed -n '/first failure/,/exits with/p' <<<"$page")" ]
	if [ "$HOSTS" = namespaces ]; then
		[ "$rank" = 3 ]
		has "$err" 'host h2$'
	fi
	nothing_left
}

@test "when a host's agent is killed with -9, the other ends at once and names the host" {
	hosts_real
	# no lease ends within this test: the closed connection shows it
	export PET_HEARTBEAT_TIMEOUT=1000
	start_on h1 on_h1 "${job[@]}" sh -c "$waiter"
	start_on h2 on_h2 "${job[@]}" sh -c "$waiter"
	await "$T/on_h1.out" 'worker 1'
	await "$T/on_h2.out" 'worker 3'
	signal on_h2 KILL
	finish on_h1 69
	has "$err" 'node 1 \(h2\) was lost: its connection closed'
	finish on_h2 137
	nothing_left
}

@test "a host whose cable is cut is lost within the lease, and both sides report it" {
	hosts_real
	start_on h1 on_h1 "${job[@]}" sh -c "$waiter"
	start_on h2 on_h2 "${job[@]}" sh -c "$waiter"
	await "$T/on_h1.out" 'worker 1'
	await "$T/on_h2.out" 'worker 3'
	cable_cut h2
	finish on_h1 69
	has "$err" 'node 1 \(h2\) was lost: not heard from for 5.0 s'
	finish on_h2 -
	[ "$status" -ge 64 ]
	has "$err" "server at h1:29400 has been silent"
	nothing_left
}

@test "a host that is cut off while it trains is not waited for" {
	hosts_real
	few_data 6400
	# long enough never to end on its own
	local mlp=(mnist_mlp --data "$T/data" --epochs 100000)
	start_on h1 on_h1 "${job[@]}" --heartbeat-timeout 3 "${mlp[@]}"
	start_on h2 on_h2 "${job[@]}" --heartbeat-timeout 3 "${mlp[@]}"
	await "$T/on_h1.out" 'epoch 2'
	cable_cut h2
	finish on_h1 -
	[ "$status" -ge 64 ]
	has "$err" 'node 1 \(h2\) was lost'
	finish on_h2 -
	[ "$status" -ge 64 ]
	nothing_left
}

@test "a cable that is back before the lease ends has no effect" {
	hosts_real
	few_data 6400
	# some seconds' worth: it is cut while they train
	start_on h1 on_h1 "${job[@]}" mnist_mlp --data "$T/data" --epochs 40
	start_on h2 on_h2 "${job[@]}" mnist_mlp --data "$T/data" --epochs 40
	await "$T/on_h1.out" 'epoch 2/'
	cable_cut h2
	cable_heal h2
	finish on_h1
	finish on_h2
}

@test "SIGTERM on one host ends the job on both, and both report it" {
	hosts_real
	start_on h1 on_h1 "${job[@]}" sh -c "$waiter"
	start_on h2 on_h2 "${job[@]}" sh -c "$waiter"
	await "$T/on_h1.out" 'worker 1'
	await "$T/on_h2.out" 'worker 3'
	signal on_h1 TERM
	finish on_h1 143
	finish on_h2 -
	[ "$status" != 0 ]
	has "$err" 'SIGTERM'
	nothing_left
}
