# covers: launcher/membership rendezvous/round rendezvous/server launcher/preload
load ../lib
load netns
load ../backend

# Nodes that join and leave, on separate hosts: the others continue, and a node that
# cannot take part reports why.

# Prints its rank and the world size, then waits to be killed.
who='rank $RANK of $WORLD_SIZE attempt $TORCHELASTIC_RESTART_COUNT'
who+=' round $DDP_ROUND'
waiter="echo \"$who\"; exec tail -f /dev/null"

setup() {
	lib_setup
	# no lease ends but where a test says so: by $lease, in which twenty
	# pings fit, so that a loaded machine gets one through
	export PET_HEARTBEAT_TIMEOUT=60 PET_LAST_CALL_TIMEOUT=0.5
	lease=3
}

hosts() {
	hosts_up "$1"
	meets "${at[h1]}:29400"
}

# node HOST NNODES OPTIONS... : a ddprun of the job, named for its host
node() {
	local h=$1 nnodes=$2
	shift 2
	start_on "$h" "on_$h" ddprun --nnodes "$nnodes" \
		--rdzv-endpoint "$meet" "$@"
}

# goes_on NAME: with the first host went the server, and so the job; where etcd
# has another, enough others continue, until one of them gets it as well.
goes_on() {
	[ "${DDP_TEST_BACKEND:-}" != etcd ] || signal "$1" TERM
}

# await_world N ATTEMPT ROUND HOSTS: until each of HOSTS runs one of N workers.
await_world() {
	local want="of $1 attempt $2 round $3\$" h
	shift 3
	for h in "$@"; do
		await "$T/on_$h.out" "$want"
	done
}

# bats test_tags=etcd
@test "a job of 1 to 3 hosts grows as they join and shrinks as they die" {
	hosts 3
	hosts_real
	PET_HEARTBEAT_TIMEOUT=$lease
	node h1 1:3 sh -c "$waiter"
	await_world 1 0 0 h1
	node h2 1:3 sh -c "$waiter"
	await_world 2 0 1 h1 h2
	node h3 1:3 sh -c "$waiter"
	await_world 3 0 2 h1 h2 h3
	has "$(<"$T/on_h1.err")" '^ddprun: regrouping: h2 joined'
	# the agent of a host, then the cable of another
	signal on_h3 KILL
	finish on_h3 137
	await "$T/on_h1.err" '^ddprun: regrouping: node 2 \(h3\) was lost: its connection closed'
	await "$T/on_h2.err" '^ddprun: running again after [0-9.]+ ms \(stop .*, rendezvous .*, start '
	await_world 2 0 3 h1 h2
	cable_cut h2
	await "$T/on_h1.err" '^ddprun: regrouping: node 1 \(h2\) was lost: not heard from for 3.0 s'
	await_world 1 0 4 h1
	# cut off as it is, it knows and stops its own
	finish on_h2 69
	has "$err" "server at (h1|[0-9.]+):[0-9]+ has been silent for 3 s.*; stopping this node's workers\$"
	signal on_h1 TERM
	finish on_h1 143
	nothing_left
}

# bats test_tags=etcd
@test "a host that returns gets its old node rank back" {
	hosts 3
	hosts_real
	node h1 2:3 sh -c "$waiter"
	node h2 2:3 sh -c "$waiter"
	await_world 2 0 0 h1 h2
	node h3 2:3 sh -c "$waiter"
	await "$T/on_h3.out" 'rank 2 of 3 '
	signal on_h2 KILL
	finish on_h2 137
	await_world 2 0 2 h3
	node h2 2:3 sh -c "$waiter"
	await "$T/on_h2.out" 'rank 1 of 3 '
	signal on_h1 TERM
	finish on_h1 143
	goes_on on_h2
	finish on_h2 -
	finish on_h3 -
	nothing_left
}

# bats test_tags=etcd
@test "fewer nodes than the minimum wait for more, and continue with them" {
	hosts 3
	hosts_real
	node h1 2:3 sh -c "$waiter"
	node h2 2:3 sh -c "$waiter"
	await_world 2 0 0 h1 h2
	signal on_h2 KILL
	finish on_h2 137
	await "$T/on_h1.err" '^ddprun: waiting [0-9]+ s at '"$where"' for 1 more of 2 to 3 nodes to come back'
	node h3 2:3 sh -c "$waiter"
	await_world 2 0 1 h1 h3
	signal on_h1 TERM
	finish on_h1 143
	finish on_h3 -
	nothing_left
}

# bats test_tags=etcd
@test "a host that the job does not need is a spare, reports it, and takes over" {
	hosts 3
	hosts_real
	node h1 2 sh -c "$waiter"
	node h2 2 sh -c "$waiter"
	await_world 2 0 0 h1 h2
	node h3 2 --rdzv-timeout 2 sh -c "$waiter"
	await "$T/on_h3.err" "^ddprun: this node waits as a spare: job 'none' at $where has its 2 nodes .* give it its own --rdzv-id\$"
	# it waits longer than a missing node would: this one is a clock
	start_on h3 clock ddprun --nnodes 2 --rdzv-endpoint "$meet" \
		--rdzv-id other --rdzv-timeout 2 true
	finish clock 75
	signal on_h2 KILL
	finish on_h2 137
	await "$T/on_h3.out" 'rank 1 of 2 attempt 0 round 1$'
	signal on_h1 TERM
	finish on_h1 143
	finish on_h3 143
	nothing_left
}

# warm_imports HOST N: counted was imported N times on this host
warm_imports() {
	[ "$(grep -cx "$1" imports)" = "$2" ] || {
		sort imports | uniq -c
		return 1
	}
}

@test "a spare with --preload imports while it waits, and forks its workers" {
	local h
	hosts 3
	hosts_real
	export PYTHONPATH=$T/site PYTHONDONTWRITEBYTECODE=1
	mkdir site
	cat >site/counted.py <<-'EOF2'
		import os, socket
		with open(os.environ["TMPDIR"] + "/imports", "a") as f:
		    f.write(socket.gethostname() + "\n")
		template = os.getpid()
	EOF2
	cat >script.py <<-'EOF2'
		import counted, os, signal
		print("rank", os.environ["RANK"], "round", os.environ["DDP_ROUND"],
		      "forked" if counted.template != os.getpid() else "plain", flush=True)
		signal.pause()
	EOF2
	for h in h1 h2; do
		node $h 2 --nproc-per-node 2 --preload counted script.py
	done
	await "$T/on_h1.out" 'round 0 forked$'
	await "$T/on_h2.out" 'round 0 forked$'
	node h3 2 --nproc-per-node 2 --preload counted script.py
	await "$T/on_h3.err" '^ddprun: this node waits as a spare: '
	# its template process imports although no worker is needed
	await imports '^h3$'
	signal on_h2 KILL
	finish on_h2 137
	await "$T/on_h3.out" 'rank 2 round 1 forked$'
	await "$T/on_h3.out" 'rank 3 round 1 forked$'
	await "$T/on_h1.out" 'rank 0 round 1 forked$'
	for h in h1 h3; do
		warm_imports $h 1
		lacks "$(<"$T/on_$h.err")" 'without a fork'
	done
	signal on_h1 TERM
	finish on_h1 143
	finish on_h3 143
	nothing_left
}

@test "the fifth node for --nnodes 4 ends with the job, and reports that it was not needed" {
	local i
	hosts 1
	mkfifo go
	exec 9<>go
	for i in 1 2 3 4; do
		start_on h1 "n$i" ddprun --nnodes 4 --rdzv-endpoint "$meet" \
			sh -c 'echo up; read -r code <go; exit $code'
	done
	for i in 1 2 3 4; do
		await "$T/n$i.out" up
	done
	start_on h1 n5 ddprun --nnodes 4 --rdzv-endpoint "$meet" false
	await "$T/n5.err" 'this node waits as a spare'
	printf '0\n0\n0\n0\n' >&9
	for i in 1 2 3 4; do
		finish "n$i"
	done
	finish n5
	has "$err" "^ddprun: job 'none' is over, and this spare node was not needed: "
	[ -z "$out" ]
	exec 9>&-
	nothing_left
}

# bats test_tags=etcd
@test "a failure counts as a restart, and a leaving node does not" {
	hosts 3
	hosts_real
	mkfifo go
	exec 9<>go
	local script='echo "'"$who"'"
		[ $RANK = 0 ] || exec tail -f /dev/null
		read -r code <go; exit $code'
	node h1 1:2 --max-restarts 1 sh -c "$script"
	await_world 1 0 0 h1
	node h2 1:2 --max-restarts 1 sh -c "$script"
	await_world 2 0 1 h1 h2
	echo 3 >&9
	await_world 2 1 2 h1 h2
	has "$(<"$T/on_h2.err")" '^ddprun: restarting \(1 of 1\): rank 0 .* exited with code 3'
	signal on_h2 KILL
	finish on_h2 137
	await_world 1 1 3 h1
	echo 4 >&9
	finish on_h1 4
	exec 9>&-
	nothing_left
}

# bats test_tags=etcd
@test "if a node is lost during a restart, the others restart without it" {
	hosts 3
	hosts_real
	# rank 0 fails; the workers of h3 take their time, and then h3 dies
	local script='[ $RANK != 2 ] || trap "echo asked; sleep 1000" TERM
		echo "'"$who"'"
		case $RANK$TORCHELASTIC_RESTART_COUNT in
		00) read -r _ <go; exit 9 ;;
		20) eval "$IDLE" ;;
		*) exec tail -f /dev/null ;;
		esac'
	mkfifo go
	exec 9<>go
	node h1 1:3 --max-restarts 2 bash -c "$script"
	await_world 1 0 0 h1
	node h2 1:3 --max-restarts 2 bash -c "$script"
	await_world 2 0 1 h1 h2
	node h3 1:3 --max-restarts 2 bash -c "$script"
	await_world 3 0 2 h1 h2 h3
	echo >&9
	await "$T/on_h3.out" '^\[2\] asked'
	signal on_h3 KILL
	finish on_h3 137
	await_world 2 1 3 h1 h2
	signal on_h1 TERM
	finish on_h1 143
	goes_on on_h2
	finish on_h2 -
	exec 9>&-
	nothing_left
}

@test "an agent that was stopped beyond its lease reports that its node was lost" {
	local agent
	hosts 2
	hosts_real
	PET_HEARTBEAT_TIMEOUT=$lease
	node h1 1:2 sh -c "$waiter"
	await_world 1 0 0 h1
	# its pid there, for what starts it here passes no SIGSTOP on
	node h2 1:2 sh -c 'echo "agent $PPID"; exec tail -f /dev/null'
	await "$T/on_h2.out" 'agent [0-9]+'
	agent=${line##* }
	start_on h2 stop kill -STOP "$agent"
	finish stop
	await "$T/on_h1.err" 'regrouping: node 1 \(h2\) was lost: not heard from'
	start_on h2 cont kill -CONT "$agent"
	finish cont
	finish on_h2 69
	has "$err" "this node was not heard from for .* s; was it stopped.*; stopping this node's workers\$"
	signal on_h1 TERM
	finish on_h1 143
	nothing_left
}

@test "when the server's host is lost, the others end with 69 and name it" {
	hosts 2
	hosts_real
	PET_HEARTBEAT_TIMEOUT=$lease
	node h1 2 sh -c "$waiter"
	node h2 2 sh -c "$waiter"
	await_world 2 0 0 h1 h2
	cable_cut h1
	finish on_h2 69
	has "$err" "the rendezvous server at h1:29400 has been silent for 3 s"
	finish on_h1 69
	has "$err" 'node 1 \(h2\) was lost: not heard from'
	nothing_left
}

@test "a program missing on one host ends the job on both at once, with that reason" {
	hosts 2
	hosts_real
	cp "$(type -P true)" there
	chmod -x there
	node h1 2 sh -c "$waiter"
	node h2 2 ./not-there
	finish on_h2 127
	has "$err" "^ddprun: error: cannot run './not-there': .*; notifying the other nodes \(Ctrl-C aborts this\)\$"
	finish on_h1 127
	has "$err" "node 1 \(h2\).*cannot run './not-there'"
	node h1 2 sh -c "$waiter"
	node h2 2 ./there
	finish on_h2 126
	finish on_h1 126
	has "$err" "cannot run './there'"
	# Ctrl-C while it waits to tell them
	node h2 2 ./not-there
	await "$T/on_h2.err" 'waiting [0-9]+ s'
	signal on_h2 INT
	finish on_h2 130
	nothing_left
}

@test "as process 1 of a container, ddprun reaps and ends orphans" {
	unshare --pid --fork --mount-proc true 2>/dev/null ||
		skip "no namespaces here"
	start job unshare --pid --fork --kill-child --mount-proc ddprun \
		--nproc-per-node 2 --max-restarts 1 --shutdown-timeout 1 bash -c '
		trap "" TERM
		(setsid bash -c "trap \"\" TERM HUP; exec sleep 1000" </dev/null >/dev/null 2>&1 &)
		true & wait
		echo "up $TORCHELASTIC_RESTART_COUNT"
		[ $RANK.$TORCHELASTIC_RESTART_COUNT != 0.0 ] || exit 5
		[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 1000
		exit 0'
	finish job
	has "$out" '^\[0\] up 1$'
	has "$out" '^\[1\] up 1$'
	nothing_left
}

@test "as process 1 of a container, ddprun still ends on SIGTERM" {
	unshare --pid --fork --mount-proc true 2>/dev/null ||
		skip "no namespaces here"
	start job unshare --pid --fork --kill-child --mount-proc \
		sh -c 'echo "$$" >inner; exec ddprun --nproc-per-node 2 sh -c \
		"echo up; exec sleep 1000"'
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
	local child
	child=$(<"/proc/${pid[job]}/task/${pid[job]}/children")
	[ "$(<inner)" = 1 ]
	kill -TERM $child
	finish job 143
	nothing_left
}

@test "a limit of processes is named in the error, and nothing is left" {
	# another user's processes would be counted
	local uid=61357
	setpriv --reuid "$uid" --clear-groups true 2>/dev/null ||
		skip "needs root, to be somebody else"
	chmod 755 "$T"
	# root is not bound by the limit
	[ -x "$(setpriv --reuid "$uid" --clear-groups sh -c 'command -v ddprun')" ] ||
		skip "the build folder is closed to others"
	expect 71 setpriv --reuid "$uid" --clear-groups bash -c \
		'ulimit -u 50; exec ddprun --nproc-per-node 100 true'
	has "$err" 'this user is limited to 50 processes; raise the limit \(ulimit -u\)'
	nothing_left
}

# bats test_tags=etcd
@test "restarts that reach no further step end the job, and each host reports it" {
	local h
	hosts 2
	hosts_real
	mkfifo met
	for h in h1 h2; do
		node $h 2 --max-restarts 20 sh -c '
			[ $RANK = 0 ] || { read -r _ <met; exit 7; }
			echo 41 >>"$DDP_STEP_FILE"
			echo >met
			exec tail -f /dev/null'
	done
	for h in h1 h2; do
		finish on_$h 7
		has "$err" "^ddprun: job 'none' failed: 3 restarts in a row reached no step beyond 41 .*: rank 1 "
	done
	nothing_left
}

# bats test_tags=etcd
@test "a host that fails at the start is replaced by the spare, and all pages report it" {
	local h swap='node 1 \(h2\) was the first to fail 2 times in a row at the start \(--swap-after\): the spare h3 takes its place, and it waits as a spare$'
	hosts 3
	hosts_real
	mkfifo came
	local worker='case $ROLE_NAME in
		bad)	[ $TORCHELASTIC_RESTART_COUNT != 0 ] || read -r _ <came
			exit 7 ;;
		spare)	exit 5 ;;
		*)	echo up; exec tail -f /dev/null ;;
		esac'
	node h1 2 --max-restarts 2 --swap-after 2 --log-dir logs sh -c "$worker"
	await "$T/on_h1.err" '^ddprun: waiting '
	node h2 2 --max-restarts 2 --swap-after 2 --role bad sh -c "$worker"
	await "$T/on_h1.out" 'up$'
	node h3 2 --max-restarts 2 --swap-after 2 --role spare sh -c "$worker"
	await "$T/on_h3.err" '^ddprun: this node waits as a spare: '
	echo >came
	for h in h1 h2; do
		finish on_$h 5
		has "$err" "^ddprun: $swap"
		has "$err" "^\|  then         $swap"
		has "$err" "^ddprun: job 'none' failed: rank 1 \(local rank 0\) on h3, "
	done
	finish on_h3 5
	has "$err" "^ddprun: job 'none' failed: rank 1 \(local rank 0\) on h3, "
	python3 -c '
import glob, json
r = json.load(open(glob.glob("logs/*/attempt_2/report.json")[0]))
swaps = [a["swap"] for a in r["attempts"]]
assert swaps[0] is None and swaps[2] is None, swaps
assert swaps[1].startswith("node 1 (h2) was the first to fail 2 times"), swaps
'
	nothing_left
}
