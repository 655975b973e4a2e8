# A worker fails: the page, ddprun's exit code, and how the other workers end.
# covers: launcher/failure launcher/agent rendezvous/round
load ../lib

# lacks TEXT ERE: no line of TEXT matches.
lacks() {
	! grep -E -e "$2" <<<"$1"
}

# The child of process $1 whose name is $2.
child_named() {
	local p
	for p in $(<"/proc/$1/task/$1/children"); do
		[ "$(<"/proc/$p/comm")" != "$2" ] || echo "$p"
	done
}

@test "the exit code is the worker's" {
	local code
	for code in 1 3 42 255; do
		expect $code ddprun sh -c "exit $code"
		has "$err" "^ddprun: job 'none' failed: rank 0 .* exited with code $code\$"
	done
}

@test "the failure page names rank, local rank, host, pid, cause and last lines" {
	expect 3 ddprun --nproc-per-node 3 sh -c '
		[ $RANK = 1 ] || exec sleep 1000
		echo $$ >'"$T"'/pid
		echo to stdout
		for i in $(seq 30); do echo "line $i" >&2; done
		printf "the last words" >&2
		exit 3'
	local pid=$(<pid) host=$(hostname)
	has "$err" "^ddprun: job 'none' failed: rank 1 \(local rank 1\) on $host, pid $pid, exited with code 3: the last words\$"
	has "$err" "^\|  rank +1 of 3 \(local rank 1\)\$"
	has "$err" "^\|  node +0, host $host\$"
	has "$err" "^\|  pid +$pid\$"
	has "$err" "^\|  cause +exited with code 3\$"
	has "$err" "^\|  attempt +1 of 1\$"
	has "$err" "^\|    line 12\$"
	has "$err" "^\|    line 30\$"
	has "$err" "^\|    the last words\$"
	has "$err" "^\|  ddprun exits with 3\$"
	lacks "$err" '^\|    line 11$'
	# the last line also appears as a worker's line, before the page
	grep -n '^\[1\] the last words$' <<<"$err" | cut -d: -f1 >at
	grep -n '^ddprun: job' <<<"$err" | cut -d: -f1 >page
	[ "$(<at)" -lt "$(<page)" ]
	[ "$(grep -c '^ddprun: job' <<<"$err")" = 1 ]
}

@test "a worker killed with -9 stops the others, and the exit code is 137" {
	start job ddprun --nproc-per-node 4 \
		sh -c 'echo $$ >'"$T"'/pid.$RANK; echo up; exec sleep 1000'
	local i
	for i in 0 1 2 3; do
		await job.out "^\[$i\] up"
	done
	kill -KILL "$(<pid.2)"
	finish job 137
	has "$err" "failed: rank 2 .*, pid $(<pid.2), was killed by signal 9 \(SIGKILL\)\$"
	has "$err" "cause +killed by signal 9 \(SIGKILL\)"
	nothing_left 0
}

@test "signals are named, and set the exit code: SIGSEGV 139, SIGABRT 134" {
	expect 139 ddprun sh -c 'ulimit -c 0; kill -SEGV $$'
	has "$err" "was killed by signal 11 \(SIGSEGV\)"
	expect 134 ddprun sh -c 'ulimit -c 0; kill -ABRT $$'
	has "$err" "was killed by signal 6 \(SIGABRT\)"
}

@test "the cause is the first failure, not those that follow from it" {
	expect 5 ddprun --nproc-per-node 4 bash -c '
		trap "exit 9" TERM
		[ $RANK != 3 ] || exit 5
		eval "$IDLE"'
	has "$err" "failed: rank 3 .* exited with code 5\$"
	[ "$(grep -c '^|  rank ' <<<"$err")" = 1 ]
}

@test "a rank that exits with 0 in mid-job is the first failure, not a rank that missed it" {
	expect 1 ddprun --nproc-per-node 3 --max-restarts 1 --log-dir logs \
		c_fault early 1 10000
	has "$err" '^ddprun: restarting \(1 of 1\): rank 1 .* left early with code 0 while others were in all_reduce #3 '
	has "$err" "^ddprun: job 'none' failed: rank 1 .* left early with code 0 while others were in all_reduce #3 "
	has "$err" '^\|  rank         1 of 3 \(local rank 1\)$'
	has "$err" '^\|  cause        left early with code 0$'
	has "$err" '^\|               it exited without ddp_finalize while others were in all_reduce$'
	has "$err" '^\|  attempt 1    [0-9-]+ [0-9:]+ UTC, rank 1 on .* left early with code 0'
	has "$err" '^\|  victims      rank [02] '
	err=$(grep -A 8 '"first_failure":' logs/none_*/attempt_1/report.json)
	has "$err" '"rank":[[:space:]]*1,'
	has "$err" '"exitcode":[[:space:]]*0,'
}

@test "a rank that makes another call than most is the first failure" {
	local mode rank
	for mode in differ differ-count; do
		for rank in 0 1 3; do
			expect 1 ddprun --nproc-per-node 4 c_fault $mode $rank \
				10000
			has "$err" "^ddprun: job 'none' failed: rank $rank .* (made another call than the others: it|exited with code 1:.* rank $rank on [^ ]+) called "
		done
	done
}

@test "a rank that makes another call than most is named, on whichever node it is" {
	local at rank node
	for rank in 0 2 3; do
		at=127.0.0.1:$(w_port free)
		for node in 0 1; do
			start $node ddprun --nnodes 2 --node-rank $node --nproc-per-node 2 \
				--rdzv-endpoint "$at" c_fault differ $rank 10000
		done
		for node in 0 1; do
			finish $node 1
			has "$err" "^ddprun: job 'none' failed: rank $rank .* (made another call than the others: it|exited with code 1:.* rank $rank on [^ ]+) called "
		done
	done
}

@test "a rank that exits with 0 too early is named on both nodes" {
	local at
	at=127.0.0.1:$(w_port free)
	for node in 0 1; do
		start $node ddprun --nnodes 2 --node-rank $node \
			--rdzv-endpoint "$at" c_fault early 1 10000
	done
	for node in 0 1; do
		finish $node 1
		has "$err" '^\|  rank         1 of 2 \(local rank 0\)$'
		has "$err" '^\|  cause        left early with code 0$'
	done
}

@test "a rank that exits with 0 while others are in ddp_init is the first failure" {
	expect 1 ddprun --nproc-per-node 3 bash -c '[ $RANK != 1 ] || exit 0; exec c_init'
	has "$err" "^ddprun: job 'none' failed: rank 1 .* exited with code 0 while others were in ddp_init$"
	has "$err" '^\|  rank         1 of 3 \(local rank 1\)$'
	has "$err" '^\|               it exited without ddp_init, which returns once all ranks have$'
}

@test "a rank that leaves with ddp_finalize and 0 while others are in a call is the first failure" {
	expect 1 ddprun --nproc-per-node 2 c_fault done 1 10000
	has "$err" "^ddprun: job 'none' failed: rank 1 .* left early with code 0 while others were in all_reduce #3 "
	has "$err" '^\|  rank         1 of 2 \(local rank 1\)$'
	has "$err" '^\|  cause        left early with code 0$'
	has "$err" '^\|               it left with ddp_finalize while others were in all_reduce #3$'
}

@test "a rank that fails a while after its ddp_finalize comes before those that missed it" {
	expect 3 ddprun --nproc-per-node 2 c_fault unwind 1 60000
	has "$err" "^ddprun: job 'none' failed: rank 1 .* exited with code 3: cannot open shard 7$"
	has "$err" '^\|  rank         1 of 2 \(local rank 1\)$'
}

@test "a worker that ignores SIGTERM is killed after --shutdown-timeout" {
	expect 4 ddprun --nproc-per-node 2 --shutdown-timeout 0.3 sh -c '
		trap "" TERM
		[ $RANK = 1 ] || { mkfifo '"$T"'/f; : >'"$T"'/f; exec sleep 1000; }
		until [ -p '"$T"'/f ]; do :; done; read _ <'"$T"'/f
		exit 4'
	has "$err" '^ddprun: killing 1 worker$'
	has "$err" 'failed: rank 1'
}

@test "grandchildren in the worker's group and in their own sessions are ended" {
	mkfifo up.0 up.1
	expect 6 ddprun --nproc-per-node 2 --shutdown-timeout 0.3 sh -c '
		sleep 1000 &
		setsid sleep 1001 </dev/null >/dev/null 2>&1 &
		setsid sh -c "trap \"\" TERM HUP; echo >'"$T"'/up.$RANK
			sleep 1002 & wait" </dev/null >/dev/null 2>&1 &
		read _ <'"$T"'/up.$RANK
		[ $RANK = 0 ] || exit 6
		wait'
	nothing_left 0
}

@test "processes that workers leave behind are also ended after success" {
	expect 0 ddprun sh -c '
		setsid sleep 1003 </dev/null >/dev/null 2>&1 &
		sleep 1004 & exit 0'
	nothing_left 0
}

@test "a restart starts all workers again with the number of the attempt" {
	mkfifo said
	expect 0 ddprun --nproc-per-node 2 --max-restarts 3 sh -c '
		echo "attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS round $DDP_ROUND"
		[ $TORCHELASTIC_RESTART_COUNT != 2 ] || exit 0
		[ $RANK = 0 ] || { read _ <said; exit 8; }
		echo >said; exec sleep 1000'
	local i
	for i in 0 1 2; do
		has "$out" "^\[0\] attempt $i of 3 round $i\$"
		has "$out" "^\[1\] attempt $i of 3 round $i\$"
	done
	has "$err" '^ddprun: restarting \(1 of 3\): rank 1 .* exited with code 8$'
	has "$err" '^ddprun: restarting \(2 of 3\): rank 1'
	[ "$(grep -c restarting <<<"$err")" = 2 ]
}

@test "after the last restart the last failure decides the exit code" {
	expect 12 ddprun --max-restarts 2 \
		sh -c 'exit $((10 + TORCHELASTIC_RESTART_COUNT))'
	has "$err" '^\|  attempt +3 of 3$'
	has "$err" 'exited with code 12$'
}

@test "the page and report.json list all attempts with their causes" {
	expect 12 ddprun --nproc-per-node 2 --max-restarts 2 --log-dir logs \
		sh -c '[ $RANK = 1 ] || exec tail -f /dev/null
		echo "boom $TORCHELASTIC_RESTART_COUNT" >&2
		exit $((10 + TORCHELASTIC_RESTART_COUNT))'
	has "$err" '^\+- attempts -'
	for i in 0 1 2; do
		has "$err" "^\|  attempt $((i + 1))    [0-9-]+ [0-9:]+ UTC, rank 1 on [^ ]+ exited with code 1$i: boom $i\$"
	done
	python3 -c '
import glob, json, socket
r = json.load(open(glob.glob("logs/*/attempt_2/report.json")[0]))
a = r["attempts"]
assert [x["attempt"] for x in a] == [0, 1, 2], a
assert [x["exitcode"] for x in a] == [10, 11, 12], a
assert {(x["rank"], x["host"]) for x in a} == {(1, r["host"])}, a
assert a[0]["time"] <= a[1]["time"] <= a[2]["time"] == r["time"], a
assert a[2]["text"] == r["text"] and "boom 0" in a[0]["text"], a
assert len({x["pid"] for x in a}) == 3, a
'
}

@test "a job without restarts has no list of attempts on its page" {
	expect 3 ddprun --max-restarts 0 sh -c 'exit 3'
	lacks "$err" 'attempts -'
}

@test "each attempt has its own MASTER_PORT" {
	expect 0 ddprun --max-restarts 3 sh -c 'echo $MASTER_PORT
		exit $((TORCHELASTIC_RESTART_COUNT < 3))'
	[ "$(sort -u <<<"$out" | wc -l)" = 4 ]
}

@test "without reconnecting, the server's death stops the workers, exit code 69" {
	start job ddprun --rdzv-conf reconnect_timeout=0 --nproc-per-node 2 \
		sh -c 'echo up; exec sleep 1000'
	await job.out '^\[1\] up'
	kill -KILL "$(child_named "${pid[job]}" ddprdzv)"
	finish job 69
	has "$err" '^ddprun: error: .*rendezvous server'
	nothing_left 0
}

@test "a program that turns out not to be executable ends the job on all nodes" {
	printf 'no program\n' >odd
	chmod +x odd
	expect 66 ddprun --nproc-per-node 2 ./odd
	has "$err" "failed: .*could not start its workers: cannot execute './odd': Exec format error; it is neither"
	nothing_left 0
	cp /bin/true odd
	printf '\026' | dd of=odd bs=1 seek=18 conv=notrunc status=none # s390
	expect 66 ddprun ./odd
	has "$err" "failed: .*cannot execute './odd': Exec format error; it was built for s390x, and this host is $(uname -m)$"
}

@test "the rank whose data differs from that of the others is the first failure" {
	local odd
	mkdir digits
	t_idx digits 2000 32
	printf '#!/bin/sh\n[ $RANK = $ODD ] && lr=0.2 || lr=0.1\nexec "$@" --lr $lr\n' >other-rate
	chmod +x other-rate
	for odd in 0 1 3; do
		expect 1 env ODD=$odd ddprun --log-dir logs$odd --nproc-per-node 4 ./other-rate \
			mnist_mlp --data digits --batch-size 60 --epochs 1 --check-every 4
		has "$err" "^ddprun: job 'none' failed: rank $odd .* (has wrong numbers|exited with code 1): step 4: .* the data of rank $odd on "
		has "$(grep -A 3 '"first_failure":' logs$odd/none_*/attempt_0/report.json)" \
			"\"rank\":[[:space:]]*$odd,"
	done
}
