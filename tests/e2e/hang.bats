# Ranks that hang, and ranks that only take long: which line every terminal gets,
# what --hang-timeout ends, and which rank is blamed. DDP_TEST_WATCH_MS is the half minute after
# which a line appears.
# covers: launcher/watch launcher/agent/agent_watch.c rendezvous/stall
# covers: rendezvous/query rendezvous/round/end_cause.c
# covers: rendezvous/status/rank_progress.c worker-sdk/api/agree.c
load ../lib

setup() {
	lib_setup
	export DDP_TEST_WATCH_MS=2000
}

lacks_lines() { # FILE: no line about progress
	! grep -E '(no progress|waiting) for' "$1"
}

report() { # a python expression about report.json, as r
	python3 -c "import glob, json
r = json.load(open(glob.glob('logs/*/attempt_*/report.json')[0]))
w = {x['rank']: x for x in r['workers']}
f = r['first_failure']
assert $1, r"
}

@test "a stopped rank is named on every terminal, with what waits for it" {
	local port want
	port=$(w_port free)
	start a ddprun --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" "${deaf[@]}" c_fault stop 1
	start b ddprun --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" "${deaf[@]}" c_fault stop 1
	want='^ddprun: no progress for [0-9.]+ s: rank 0 on [^ ]+ waits in all_reduce #3 \(f32 x 40000, avg\); rank 1 on [^ ]+, pid [0-9]+, has not arrived: it is stopped \(SIGSTOP\), last in all_reduce #2 '
	await a.err "$want" 30
	await b.err "$want" 30
	signal a KILL
	finish a -
	finish b -
}

@test "lines about a pause come at doubling intervals, and one when the job continues" {
	start job ddprun --nproc-per-node 3 c_pause sleep 2
	await job.err '^ddprun: no progress for [0-9.]+ s: 2 of 3 ranks wait in all_reduce #3 .*; rank 2 on [^ ]+, pid [0-9]+, has not arrived: it sleeps \(nanosleep\), last in all_reduce #2 ' 30
	await job.err '^ddprun: no progress for ' 30 2
	touch go
	await job.err '^ddprun: progress again, after ' 30
	finish job
	[ "$(grep -c 'no progress for' <<<"$err")" -le 3 ]
}

@test "the line says that an endless loop computes" {
	start job ddprun --nproc-per-node 2 c_pause loop 1
	await job.err '^ddprun: waiting for [0-9.]+ s: rank 0 on [^ ]+ waits in all_reduce #3 .*; rank 1 on [^ ]+, pid [0-9]+, has not arrived: it computes \([0-9]+ % CPU, no input or output\), last in all_reduce #2 ' 30
	signal job TERM
	finish job 143
}

@test "a rank that writes a checkpoint is given longer, and there is no line" {
	expect 0 ddprun --nproc-per-node 2 c_pause write 1 5000
	lacks_lines program.err
}

@test "a rank that reads a file again and again is named, with the file and its rate" {
	start job ddprun --nproc-per-node 2 c_pause read 1
	await job.err '^ddprun: waiting for [0-9.]+ s: rank 0 on [^ ]+ waits in all_reduce #3 .*; rank 1 on [^ ]+, pid [0-9]+, has not arrived: it reads [0-9.]+ [kM]B/s, [0-9.]+ [kMG]B so far \([0-9]+ % CPU\), file [^ ]*checkpoint \(1\.0 MB\), last in all_reduce #2 ' 30
	signal job TERM
	finish job 143
}

@test "ranks that compute and never communicate get no line" {
	expect 0 ddprun --nproc-per-node 2 c_pause alone 0 5000
	lacks_lines program.err
	expect 0 ddprun --nproc-per-node 1 c_pause loop 0 5000
	lacks_lines program.err
	expect 0 ddprun --nproc-per-node 2 sleep 5
	lacks_lines program.err
}

@test "--hang-timeout ends the job with the stacks of all ranks, and exit code 79" {
	expect 79 ddprun --nproc-per-node 2 --hang-timeout 3 --log-dir logs --tee 3 c_pause loop 1
	has "$err" "^ddprun: job 'none' failed: rank 1 \(local rank 1\) on [^ ]+, pid [0-9]+, hangs: it computes "
	has "$err" '^\|  cause +hangs$'
	has "$err" 'ddprun exits with 79'
	report "f['rank'] == 1 and f['hangs'] and f['exitcode'] is None and r['exit_code'] == 79"
	has "$(cat logs/*/attempt_0/dump.txt)" '^rank 0 \(local rank 0\), pid '
	has "$(cat logs/*/attempt_0/dump.txt)" '^rank 1 \(local rank 1\), pid '
	has "$(cat logs/*/attempt_0/dump.txt)" ' main at c_pause.c:'
}

@test "the line and the page of a rank that is idle have the error with which its stderr ends" {
	cat >loader.py <<-'END'
		import multiprocessing as mp
		import os
		import time


		def load(queue):
		    raise ValueError("cannot decode image 17")


		rank = int(os.environ["RANK"])
		with open(os.environ["DDP_STEP_FILE"], "a") as steps:
		    steps.write("%d\n" % (2 - rank))
		if rank == 1:
		    queue = mp.get_context("fork").Queue()
		    mp.get_context("fork").Process(target=load, args=(queue,)).start()
		    queue.get()
		time.sleep(1000)
	END
	expect 79 ddprun --nproc-per-node 2 --hang-timeout 4 --log-dir logs python3 loader.py
	has "$err" '^ddprun: no progress for .* rank 1 .* \(its stderr ends with: ValueError: cannot decode image 17 \(loader\.py:7\)\)'
	has "$err" "^ddprun: job 'none' failed: rank 1 .* hangs: .* \(its stderr ends with: ValueError: cannot decode image 17 "
}

@test "--hang-timeout restarts the job if restarts are left" {
	start job ddprun --nproc-per-node 2 --hang-timeout 3 --max-restarts 1 sh -c '
		[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec c_pause sleep 1 10
		exec c_pause sleep 1'
	finish job
	has "$err" '^ddprun: restarting \(1 of 1\): rank 1 .* hangs: it sleeps \(nanosleep\)'
}

@test "after a peer's timeout the rank that hangs is the first failure, not its victim" {
	expect 79 ddprun --nproc-per-node 2 --log-dir logs c_fault stop 1 4000
	has "$err" "^ddprun: job 'none' failed: rank 1 \(local rank 1\) on [^ ]+, pid [0-9]+, hangs: it is stopped \(SIGSTOP\), last in all_reduce #2 "
	has "$err" '^\| +so rank 0 failed: '
	report "f['rank'] == 1 and f['hangs'] and w[1]['fate'] == 'first_failure'"
	report "w[0]['fate'] != 'victim' or w[0]['victim_of'] == 1"
}

# The first reports are due after 10 s, so only a look after the failure can show what the ranks do.
@test "all nodes look at their ranks when a rank says that a peer failed to pass" {
	local port
	port=$(w_port free)
	mkfifo gate
	export DDP_TEST_WATCH_MS=300000
	cat >torchlike.py <<-'END'
		import os, sys, time
		if os.environ["RANK"] == "1":
		    print("[W1130 10:39:05.7 TCPStore.cpp:340] [c10d] The client socket has timed "
		          "out after 8000ms while trying to connect to (h1, 1).", file=sys.stderr,
		          flush=True)
		    open("gate", "w").close()
		    time.sleep(1000)
		open("gate").read()
		sys.exit("DistStoreError: wait timeout after 8000ms")
	END
	start a ddprun --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" python3 torchlike.py
	start b ddprun --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" python3 torchlike.py
	finish a 79
	finish b 79
	has "$(cat a.err)" "^ddprun: job 'none' failed: rank 1 .* hangs: .*while trying to connect to \(h1, 1\)"
	has "$(cat a.err)" '^\| +so rank 0 failed: .*wait timeout'
}

# progress_after CODE: prints how many PROGRESS messages there have been, after a job
# whose first rank ran CODE.
progress_after() {
	expect - ddprun --rdzv-endpoint "$at" --rdzv-id "$1" --nproc-per-node 2 sh -c "
		[ \$RANK = 0 ] && { $1; }; exec sleep 100"
	has "$err" 'failed: rank 0 '
	curl -s "${metrics}metrics" |
		sed -n 's/^ddprdzv_requests_total{type="progress"} //p'
}

@test "the agent looks at the other ranks only if one may be the cause of a failure" {
	local at metrics
	export DDP_TEST_WATCH_MS=3000000 # no look is due
	start server ddprdzv --listen 127.0.0.1:0 --metrics-listen 0
	await server.err ' listening on'
	at=${line##* }
	await server.err 'health and metrics at '
	metrics=${line##* }
	[ "$(progress_after 'kill -9 $$')" = 0 ]
	[ "$(progress_after 'echo timed out >&2; exit 1')" = 1 ]
}

@test "a rank that exited with 0 just before a peer lost its connection is named, with the time" {
	expect 1 ddprun --nproc-per-node 2 --log-dir logs sh -c '
		[ $RANK = 1 ] && { sleep 0.3; exit 0; }
		sleep 1; echo "Connection reset by peer" >&2; exit 1'
	has "$err" "^ddprun: job 'none' failed: rank 1 \(local rank 1\) on [^ ]+, pid [0-9]+, exited with code 0 [0-9.]+ s before rank 0 failed: Connection reset by peer"
	report "f['rank'] == 1 and w[0]['fate'] == 'victim' and w[0]['victim_of'] == 1"
}

# Rank 0 loses its connection once the server knows what the ranks do; rank 1 runs END
# when ddprun has seen the end of rank 0, which is then no process any more.
loses_peer() { # CODE END
	local tries=300 J=hang.$TEST_COOKIE
	mkfifo go pid
	start job ddprun --rdzv-id "$J" --nproc-per-node 2 --log-dir logs sh -c '
		[ $RANK = 0 ] || { read -r p <pid; while [ -d /proc/$p ]; do :; done; eval "$0"; }
		read -r _ <go
		echo $$ >pid
		echo "Connection closed by peer" >&2
		exit 1' "$2"
	until ddprun status --job "$J" | grep -q 'rank 1 .*last progress'; do
		[ $((tries -= 1)) -gt 0 ]
	done
	echo >go
	finish job "$1"
}

@test "a rank that exits with 0 after its peer lost the connection is named" {
	loses_peer 1 'exit 0'
	has "$err" "^ddprun: job '[^']*' failed: rank 1 \(local rank 1\) on [^ ]+, pid [0-9]+, exited with code 0 [0-9.]+ s (before|after) rank 0 failed: Connection closed by peer"
	report "f['rank'] == 1 and w[0]['fate'] == 'victim' and w[0]['victim_of'] == 1"
}

@test "a rank that is killed after its peer lost the connection is the first failure" {
	loses_peer 139 'kill -SEGV $$'
	has "$err" "^ddprun: job '[^']*' failed: rank 1 .*was killed by signal 11"
}

@test "a rank's own failure is not blamed on a rank that had exited with 0" {
	expect 1 ddprun --nproc-per-node 2 sh -c '
		[ $RANK = 1 ] && exit 0
		sleep 0.5; echo "cannot decode image 17" >&2; exit 1'
	has "$err" "^ddprun: job 'none' failed: rank 0 "
}

@test "status shows the step, the rate and the last progress of each rank" {
	local end=$((SECONDS + 60)) J=hang.$TEST_COOKIE
	start job ddprun --rdzv-id "$J" --nproc-per-node 2 sh -c '
		[ $RANK = 0 ] && exec c_pause step 0
		i=100; while :; do echo $((i = i + 1)) >>$DDP_STEP_FILE; sleep 0.1; done'
	out=
	while [ $SECONDS -lt $end ] && ! grep -qE 'rank 1 .*step 1[0-9]+, [0-9.]+ a second' <<<"$out"; do
		out=$(ddprun status --job "$J") || true
	done
	has "$out" '^  rank 1  pid [0-9]+  step 1[0-9]+, [0-9.]+ a second  last progress [0-9.]+ s ago  '
	has "$out" '^  rank 0  pid [0-9]+  '
	out=$(ddprun status --job "$J" --json)
	has "$out" '"steps_per_second":	[0-9.]+'
	signal job TERM
	finish job 143
}

@test "a rank that reported steps and stops doing so is named" {
	start job ddprun --nproc-per-node 1 sh -c '
		for i in 1 2 3; do echo $i >>$DDP_STEP_FILE; sleep 0.3; done; exec sleep 1000'
	await job.err '^ddprun: no progress for [0-9.]+ s: no rank reports a step; rank 0 on [^ ]+, pid [0-9]+, sleeps' 30
	signal job TERM
	finish job 143
}

@test "a rank that sleeps before its ddp_init is named, and a child that failed" {
	cat >late.py <<-'END'
		import multiprocessing, os
		pipe, other = multiprocessing.Pipe()
		child = os.fork()
		if child == 0:
		    os._exit(7)
		pipe.recv()
	END
	start job ddprun --nproc-per-node 2 sh -c '[ $RANK = 1 ] || exec c_pause sleep 2; exec python3 late.py'
	await job.err '^ddprun: no progress for [0-9.]+ s: rank 0 on [^ ]+ waits in ddp_init; rank 1 on [^ ]+, pid [0-9]+, has not arrived: it waits for a socket in late\.py:6 <module> \(its process [0-9]+ \(python3\) exited with code 7\)' 30
	signal job KILL
	finish job -
}

@test "where all are idle, a rank in no call of torch.distributed is named" {
	local torch=lib/python3/site-packages/torch/distributed
	mkdir -p $torch
	printf 'import time\n\n\ndef all_reduce():\n    time.sleep(1000)\n' >$torch/stand_in.py
	cat >idle.py <<-'END'
		import os, sys, time
		sys.path.insert(0, "lib/python3/site-packages")
		from torch.distributed.stand_in import all_reduce
		while time.process_time() < 1: # has started, by its CPU time
		    pass
		if os.environ["RANK"] == "1":
		    time.sleep(1000)
		all_reduce()
	END
	start job ddprun --nproc-per-node 2 python3 idle.py
	await job.err '^ddprun: no progress for [0-9.]+ s: all ranks are idle; rank 1 on [^ ]+, pid [0-9]+, sleeps \(nanosleep\) in idle\.py:7 <module>$' 60
	signal job KILL
	finish job -
}

@test "a rank that computes while all others are in torch.distributed is named" {
	local torch=lib/python3/site-packages/torch/distributed
	mkdir -p $torch
	printf 'import time\n\n\ndef all_reduce():\n    time.sleep(1000)\n' >$torch/stand_in.py
	cat >loops.py <<-'END'
		import os, sys, time
		sys.path.insert(0, "lib/python3/site-packages")
		from torch.distributed.stand_in import all_reduce
		while time.process_time() < 1 or os.environ["RANK"] == "1":
		    pass
		all_reduce()
	END
	start job ddprun --nproc-per-node 3 python3 loops.py
	await job.err '^ddprun: waiting for [0-9.]+ s: all others wait in torch\.distributed; rank 1 on [^ ]+, pid [0-9]+, computes \([0-9]+ % CPU, no input or output\) in loops\.py:[45] <module>$' 60
	signal job KILL
	finish job -
}

@test "a rank in the handler of its own fault is named, with the signal" {
	local how
	for how in fault again; do
		start job ddprun --nproc-per-node 3 "${deaf[@]}" c_pause $how 2
		await job.err '^ddprun: no progress for .* rank 2 on [^ ]+, pid [0-9]+, has not arrived: it is in its handler of signal 11 \(SIGSEGV\), last in all_reduce #2 ' 30
		signal job KILL
		finish job -
	done
}

@test "the failure page has the stack of the rank that another waited for" {
	local dir
	for dir in "" "--log-dir=logs"; do
		DDP_TIMEOUT=2 expect 79 ddprun --nproc-per-node 3 $dir \
			"${leaky[@]}" c_pause fault 2
		has "$err" "^ddprun: job 'none' failed: rank 2 .*, hangs: it is in its handler of signal 11 \(SIGSEGV\)"
		has "$err" '^\|    #[0-9]+ (on_fault|pause) '
		has "$err" '^\|    #[0-9]+ main at c_pause.c:[0-9]+ '
	done
	report "any('c_pause.c' in str(x) for x in f['stack'])"
	grep -q 'main at c_pause.c' logs/*/attempt_0/dump.txt
}

@test "the pages and reports of all nodes have the stack of the rank that hangs" {
	local name port
	port=$(w_port free)
	export DDP_TIMEOUT=2
	for name in a b; do
		start $name ddprun --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" --max-restarts 1 --log-dir $name "${leaky[@]}" c_pause sleep 1
	done
	finish a 79
	finish b 79
	for name in a b; do
		has "$(cat $name.err)" '^ddprun: restarting \(1 of 1\): rank 1 .* hangs: it sleeps'
		has "$(cat $name.err)" '^\|    #[0-9]+ main at c_pause.c:[0-9]+ '
		has "$(cat $name/*/attempt_1/report.json)" '#[0-9]+ main at c_pause.c:[0-9]+ '
	done
	# only that rank's node reads it
	[ "$(ls a/*/attempt_1/dump.txt b/*/attempt_1/dump.txt | wc -l)" = 1 ]
}

@test "a child of a rank that was killed is named when the rank waits, and when it fails" {
	cat >orphaned.py <<-'END'
		import multiprocessing, os, signal, sys, time
		def die():
		    os.kill(os.getpid(), signal.SIGKILL)
		if __name__ == "__main__":
		    while time.process_time() < 1: # has started, by its CPU time
		        pass
		    child = multiprocessing.Process(target=die)
		    answer = multiprocessing.Queue()
		    if os.environ["RANK"] == "1":
		        child.start()
		    answer.get(timeout=float(sys.argv[1]))
	END
	start job ddprun --nproc-per-node 2 python3 orphaned.py 1000
	await job.err '^ddprun: no progress for .*; rank 1 on [^ ]+, pid [0-9]+, .*\(its process [0-9]+ \(python3\) was killed by signal 9 \(SIGKILL\)\)' 60
	signal job KILL
	finish job -
	expect 1 ddprun --nproc-per-node 2 sh -c 'test $RANK = 1 || exec sleep 100; exec python3 orphaned.py 2'
	has "$err" "^ddprun: job 'none' failed: rank 1 .* exited with code 1: its process [0-9]+ \(python3\) was killed by signal 9 \(SIGKILL\), then _queue.Empty \(orphaned.py:11\)"
}

# multiprocessing.Pool waits for it at once, so that no zombie shows it.
@test "a process of a pool that was killed is named when the rank waits, and when it fails" {
	[ -z "${SAN:-}" ] || skip "a sanitizer does not like to be preloaded over"
	cat >pool.py <<-'END'
		import concurrent.futures, multiprocessing, os, signal, sys, time
		def work(item):
		    if item == 3:
		        os.kill(os.getpid(), signal.SIGKILL)
		if __name__ == "__main__":
		    while time.process_time() < 1: # has started, by its CPU time
		        pass
		    if os.environ["RANK"] == "0":
		        signal.pause()
		    if sys.argv[1] == "waits":
		        multiprocessing.Pool(2).map(work, range(8))
		    with concurrent.futures.ProcessPoolExecutor(2) as pool:
		        list(pool.map(work, range(8)))
	END
	start job ddprun --nproc-per-node 2 python3 pool.py waits
	await job.err '^ddprun: no progress for .*; rank 1 on [^ ]+, pid [0-9]+, .*\(its process [0-9]+ \(python3\) was killed by signal 9 \(SIGKILL\)\)' 60
	signal job KILL
	finish job -
	expect 1 ddprun --nproc-per-node 2 python3 pool.py fails
	has "$err" "^ddprun: job 'none' failed: rank 1 .* exited with code 1: its process [0-9]+ \(python3\) was killed by signal 9 \(SIGKILL\), then concurrent.futures.process.BrokenProcessPool: "
}

@test "an idle rank that tries to connect to another server is named with its address" {
	cat >connect.py <<-'END'
		import socket, time
		while time.process_time() < 0.7:
		    pass
		server = socket.socket()
		server.bind(("127.0.0.1", 0))
		server.listen(0)
		clients = [socket.socket() for i in range(4)]
		for c in clients[:3]:
		    c.setblocking(False)
		    c.connect_ex(server.getsockname())
		clients[3].connect(server.getsockname())
	END
	start job ddprun python3 connect.py
	await job.err '^ddprun: no progress for .*rank 0 on [^ ]+, pid [0-9]+, waits for .* in connect\.py:11 <module>, connecting to 127\.0\.0\.1:[0-9]+ without an answer: does a firewall drop it, or does the process that listens there accept no connections\?$' 60
	signal job KILL
	finish job -
}

@test "a child that its own rank killed, or a signal of a pipeline, explains no failure" {
	[ -z "${SAN:-}" ] || skip "a sanitizer does not like to be preloaded over"
	cat >own.py <<-'END'
		import multiprocessing, subprocess, time
		if __name__ == "__main__":
		    for end in "kill", "terminate":
		        child = multiprocessing.Process(target=time.sleep, args=(1000,))
		        child.start()
		        getattr(child, end)()
		        child.join()
		    subprocess.run("yes | head -1", shell=True, stdout=subprocess.DEVNULL)
		    raise RuntimeError("bad shard 7")
	END
	expect 1 ddprun python3 own.py
	has "$err" "^ddprun: job 'none' failed: rank 0 .* exited with code 1: RuntimeError: bad shard 7 \(own.py:9\)\$"
	lacks "$err" 'its process'
}
