# Why a job died: what the kernel, the worker and the other workers have to say.
# covers: launcher/failure
load ../lib

# lacks TEXT ERE: no line of TEXT matches.
lacks() {
	! grep -E -e "$2" <<<"$1"
}

# ---- memory cgroups

cgroup=

# A memory cgroup of 256 MiB below our own: its files are in $cgroup, what the
# kernel calls it in $cgroup_path. Skips where none can be made.
make_cgroup() {
	local at own limit=memory.max
	[ "$(id -u)" = 0 ] || skip "needs root"
	own=$(sed -n 's/^[0-9]*:\([^:]*,\)\{0,1\}memory\(,[^:]*\)\{0,1\}://p' \
		/proc/self/cgroup)
	if [ -n "$own" ]; then
		at=$(findmnt -no TARGET -t cgroup -O memory | head -n 1)
		limit=memory.limit_in_bytes
	else
		own=$(sed -n 's/^0:://p' /proc/self/cgroup)
		at=$(findmnt -no TARGET -t cgroup2 | head -n 1)
	fi
	[ -n "$at" ] && [ -n "$own" ] || skip "no memory cgroup here"
	cgroup_path=${own%/}/ddprun_test.$$.$BATS_TEST_NUMBER
	cgroup=$at$cgroup_path
	mkdir "$cgroup" 2>/dev/null || {
		cgroup=
		skip "no cgroup can be made in $at$own"
	}
	[ -w "$cgroup/$limit" ] || skip "$cgroup has no memory controller"
	echo 268435456 >"$cgroup/$limit"
	echo 0 >"$cgroup/memory.swap.max" 2>/dev/null || true
}

in_cgroup() {
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$cgroup" "$@"
}

teardown() {
	local i
	lib_teardown || return 1
	[ -n "$cgroup" ] || return 0
	# those that have gone may be counted for a moment still
	for ((i = 0; i < 2000; i++)); do
		rmdir "$cgroup" 2>/dev/null && return 0
	done
	rmdir "$cgroup"
}

@test "the page names the job's cgroup and its limit when a worker runs out of memory" {
	make_cgroup
	expect 137 in_cgroup ddprun --nproc-per-node 2 sh -c '
		[ $RANK = 1 ] || exec sleep 1000
		exec w_dies memory'
	has "$err" "failed: rank 1 .*, was killed by signal 9 \(SIGKILL\)"
	local flat=$(sed 's/^| *//' <<<"$err" | tr '\n' ' ')
	has "$flat" "killed by the kernel: out of memory in cgroup $cgroup_path \(limit 256 MiB\)"
	has "$err" '^\|  peak memory  [0-9]+ MiB$'
	lacks "$err" 'see dmesg'
}

@test "the page reports that a worker's child was killed for lack of memory" {
	make_cgroup
	expect 9 in_cgroup ddprun sh -c 'w_dies memory; exit 9'
	local flat=$(sed 's/^| *//' <<<"$err" | tr '\n' ' ')
	has "$flat" "exited with code 9 while it ran, the kernel killed 1 process of cgroup $cgroup_path: out of memory"
}

@test "the page names the kernel when a worker's own cgroup runs out of memory" {
	make_cgroup
	export cgroup
	expect 137 ddprun sh -c '
		echo $$ >$cgroup/cgroup.procs; exec w_dies memory'
	# where the log may be read it says so, else the host's count does
	has "$err" 'killed by the kernel'
}

@test "the page names the kernel when memory runs out while workers are being started" {
	local limit
	make_cgroup
	for limit in "$cgroup"/memory.max "$cgroup"/memory.limit_in_bytes; do
		[ ! -w "$limit" ] || echo 4194304 >"$limit"
	done
	export cgroup
	expect 137 ddprun --nproc-per-node 200 sh -c '
		[ $RANK = 0 ] || exec sleep 1000
		echo $$ >$cgroup/cgroup.procs; exec w_dies memory'
	has "$err" "failed: rank 0 .*, was killed by signal 9 \(SIGKILL\)"
	has "$err" 'killed by the kernel'
}

@test "a SIGKILL from a user is not attributed to the kernel" {
	make_cgroup
	expect 137 in_cgroup ddprun sh -c 'kill -KILL $$'
	lacks "$err" 'out of memory in cgroup'
}

@test "after a SIGBUS the page reports that /dev/shm is full" {
	unshare -m mount -t tmpfs -o size=1m none /dev/shm 2>/dev/null ||
		skip "no mount namespace here"
	# a sanitizer would make it a SIGABRT
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:handle_sigbus=0
	expect 135 unshare -m sh -c '
		mount -t tmpfs -o size=1m none /dev/shm
		exec ddprun sh -c "ulimit -c 0; exec w_dies shm"'
	has "$err" '\(SIGBUS\)$'
	has "$err" '^\|  +/dev/shm is full \(1 of 1 MiB\)'
	has "$err" 'failed: rank 0 .* \(SIGBUS\): /dev/shm is full \(1 of 1 MiB\): /dev/shm/w_dies in die_of_shm at w_dies\.c:[0-9]+$'
	expect 135 unshare -m sh -c '
		mount -t tmpfs -o size=1m none /dev/shm
		exec ddprun --no-crash-stacks sh -c "ulimit -c 0; exec w_dies shm"'
	has "$err" 'failed: rank 0 .* \(SIGBUS\): /dev/shm is full \(1 of 1 MiB\)$'
}

# ---- core files

@test "the page names the core file" {
	local pattern=$(</proc/sys/kernel/core_pattern)
	case $pattern in
	'|'* | */*) skip "the kernel's core_pattern is $pattern" ;;
	esac
	ulimit -c unlimited 2>/dev/null || skip "no core files allowed here"
	# a sanitizer would set the limit to 0
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:disable_coredump=0
	expect 139 ddprun sh -c 'kill -SEGV $$'
	has "$err" "^\|  +core file $T/[^ ]+\$"
	[ -s "$(sed -n 's/^| *core file //p' <<<"$err")" ]
}

@test "the first line quotes a worker's last words, not that it left no core" {
	ulimit -c 0
	expect 134 ddprun sh -c 'echo step 7 >&2
		echo "w: w.c:62: main: Assertion \`n > 0'"'"' failed." >&2; kill -ABRT $$'
	has "$err" "failed: .* \(SIGABRT\): w.c:62: main: Assertion \`n > 0' failed\.$"
	has "$err" '^\|  +(no core file: ulimit -c is 0|core dumped, piped to )'
	expect 139 ddprun sh -c 'echo step 1700 loss 0.113 >&2; kill -SEGV $$'
	has "$err" 'failed: rank 0 .*, was killed by signal 11 \(SIGSEGV\)$'
	has "$err" '^\|  +(no core file: ulimit -c is 0|core dumped, piped to )'
}

@test "the first line has the Python exception and the user's own line" {
	local python
	python=$(command -v python3) || skip "no python3 here"
	printf '%s\n' 'def load(n):' '    raise RuntimeError(f"cannot decode image {n}\nexpected JPEG")' \
		'load(17)' >"$T/train.py"
	expect 1 env -u DDP_LOG ddprun "$python" "$T/train.py"
	has "$err" 'exited with code 1: RuntimeError: cannot decode image 17 \(train.py:2\)$'
}

@test "a signal that a limit causes names the limit" {
	expect 153 ddprun sh -c 'ulimit -c 0; ulimit -f 1; exec head -c 1000000 /dev/zero >"$0/f"' "$T"
	has "$err" 'failed: .* \(SIGXFSZ\): the file size limit \(ulimit -f\)'
}

@test "the first line tells a stack overflow from a null pointer by the kernel's log as well" {
	local pid
	[ -r /dev/kmsg ] && [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ] &&
		[ "$(cat /proc/sys/debug/exception-trace 2>/dev/null)" = 1 ] &&
		head -c 0 /dev/kmsg 2>/dev/null || skip "the kernel's log cannot be read, or has no faults"
	[ -z "${SAN:-}" ] || skip "sanitizers report such faults themselves"
	expect 139 ddprun --no-crash-stacks w_dies stack
	has "$err" 'failed: .* \(SIGSEGV\): stack overflow: the stack size limit \(ulimit -s\)'
	expect 139 ddprun --no-crash-stacks w_dies null
	has "$err" 'failed: .* \(SIGSEGV\): null pointer \(address 0x0\)$'
}

@test "the page says why there is no core file" {
	ulimit -c 0
	expect 134 ddprun sh -c 'kill -ABRT $$'
	has "$err" '^\|  +(no core file: ulimit -c is 0|core dumped, piped to )'
	expect 143 ddprun sh -c 'kill -TERM $$'
	lacks "$err" 'core'
}

# ---- what the worker says itself

flat='{"message": "the GPU is on fire", "timestamp": 17}'
nested='{"message": {"message": "ValueError: boom", "extraInfo":
	{"py_callstack": "Traceback:\n  File x.py\n", "timestamp": "17"}}}'

@test "the page shows the error file, in both of torchrun's forms" {
	export flat nested
	expect 7 ddprun sh -c 'echo "$flat" >"$TORCHELASTIC_ERROR_FILE"; exit 7'
	has "$err" '^\|  error        the GPU is on fire$'
	expect 7 ddprun sh -c 'echo "$nested" >"$TORCHELASTIC_ERROR_FILE"; exit 7'
	has "$err" '^\|  error        ValueError: boom$'
	has "$err" '^\|      File x.py$'
}

@test "an error file that is empty, truncated or not a file is reported" {
	expect 7 ddprun sh -c ': >"$TORCHELASTIC_ERROR_FILE"; exit 7'
	has "$err" 'its error file .* is empty'
	expect 7 ddprun sh -c 'printf "{\"mess" >"$TORCHELASTIC_ERROR_FILE"; exit 7'
	has "$err" 'its error file .* is truncated or not JSON$'
	expect 7 ddprun sh -c 'rm -f "$TORCHELASTIC_ERROR_FILE"
		mkfifo "$TORCHELASTIC_ERROR_FILE"; exit 7'
	has "$err" 'its error file .* is not a regular file$'
	expect 0 ddprun sh -c 'echo junk >"$TORCHELASTIC_ERROR_FILE"'
	[ -z "$err" ]
}

@test "the failure page on the other node also shows the error file" {
	local port job
	export flat
	port=$(w_port free)
	job="ddprun --nnodes 2 --rdzv-endpoint localhost:$port"
	start one $job --node-rank 0 sleep 1000
	start two $job --node-rank 1 sh -c \
		'echo "$flat" >"$TORCHELASTIC_ERROR_FILE"; ulimit -c 0; kill -ABRT $$'
	finish one 134
	has "$err" '^\|  node         1, host '
	has "$err" '^\|  error        the GPU is on fire$'
	has "$err" '^\|  stopped      1 worker, by ddprun$'
	finish two 134
	has "$err" '^\|  error        the GPU is on fire$'
	lacks "$err" 'on this node'
}

@test "the page shows what torch's @record has written" {
	torch_or_skip
	cat >fails.py <<-'END'
	from torch.distributed.elastic.multiprocessing.errors import record

	@record
	def main():
	    raise ValueError("boom at step 3")

	main()
	END
	expect 1 ddprun fails.py
	has "$err" '^\|  error        ValueError: boom at step 3$'
	has "$err" '^\|    ValueError: boom at step 3$'
}

@test "our trainers report why they fail" {
	expect 2 ddprun --nproc-per-node 2 mnist_mlp --batch-size 3
	has "$err" '^\|  error        --batch-size 3 cannot be split evenly'
}

# ---- the others

ended() { # PID: it is a zombie, or gone
	local state
	while read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" &&
		[ "$state" != Z ]; do
		:
	done
}

@test "the page lists victims apart from the first failure" {
	local i
	mkfifo go.0 go.2
	start job ddprun --nproc-per-node 4 sh -c 'echo $$ >'"$T"'/pid.$RANK
		echo up
		case $RANK in
		0 | 2) read _ <'"$T"'/go.$RANK; exit $((5 + RANK)) ;;
		esac
		exec sleep 1000'
	for i in 0 1 2 3; do
		await job.out "^\[$i\] up"
	done
	# all of it happens before ddprun can look
	signal job STOP
	kill -KILL "$(<pid.1)"
	echo >go.0
	echo >go.2
	for i in 0 1 2; do
		ended "$(<pid.$i)"
	done
	signal job CONT
	finish job 137
	has "$err" "failed: rank 1 .*, was killed by signal 9 \(SIGKILL\)"
	has "$err" "^\|  victims      rank 0 \(local rank 0\), pid $(<pid.0): exited with code 5, [0-9]+ ms later\$"
	has "$err" "^\|               rank 2 \(local rank 2\), pid $(<pid.2): exited with code 7, [0-9]+ ms later\$"
	has "$err" '^\|  stopped      1 worker, by ddprun$'
}

@test "the page names a worker that did not stop" {
	mkfifo ready
	expect 4 ddprun --nproc-per-node 2 --shutdown-timeout 0.3 bash -c '
		[ $RANK = 0 ] || { read _ <'"$T"'/ready; exit 4; }
		trap "" TERM
		echo $$ >'"$T"'/pid; echo >'"$T"'/ready
		exec sleep 1000'
	has "$err" "^\|  killed       rank 0 \(local rank 0\), pid $(<pid): ignored the signal to stop\$"
}

@test "the page has a line for each of the last ten attempts" {
	expect 22 ddprun --max-restarts 12 \
		sh -c 'exit $((10 + TORCHELASTIC_RESTART_COUNT))'
	has "$err" '^\|  \(3 before these\)$'
	lacks "$err" '^\|  attempt 3 '
	has "$err" '^\|  attempt 4    [0-9-]+ [0-9:]+ UTC, rank 0 on [^ ]+ exited with code 13$'
	has "$err" '^\|  attempt 13   [0-9-]+ [0-9:]+ UTC, rank 0 on [^ ]+ exited with code 22$'
	[ "$(grep -cE '^\|  attempt +[0-9]+ +[0-9]+-' <<<"$err")" = 10 ]
}

# ---- for programs

server_of() { # PID of a ddprun
	local p
	for p in $(<"/proc/$1/task/$1/children"); do
		[ "$(<"/proc/$p/comm")" != ddprdzv ] || echo "$p"
	done
}

@test "report.json has the facts of the page" {
	local report began ended
	export flat
	began=$(date +%s)
	expect 7 ddprun --nproc-per-node 2 --log-dir logs --max-restarts 1 sh -c '
		[ $RANK = 1 ] || exec sleep 1000
		echo "last words" >&2
		echo "$flat" >"$TORCHELASTIC_ERROR_FILE"; exit 7'
	report=$(cat logs/none_*/attempt_1/report.json)
	has "$report" '^	"exit_code":	7,$'
	has "$report" '^		"rank":	1,$'
	has "$report" '^		"exitcode":	7,$'
	has "$report" '^		"message":	"the GPU is on fire",$'
	has "$report" '^		"last_lines":	\["last words"\],$'
	has "$report" '"fate":	"stopped"'
	has "$report" '^	"time":	"[0-9-]+T[0-9:.]+Z",$'
	has "$report" '"text":	"rank 1 .*exited with code 7: the GPU is on fire"'
	ended=$(grep -A 2 '"earlier_attempts":' <<<"$report" |
		sed -n 's/.*"timestamp":	\([0-9]*\),$/\1/p')
	[ "$began" -le "$ended" ]
	[ "$ended" -le "$(date +%s)" ]
	[ ! -e logs/none_*/attempt_0/report.json ]
	expect 0 ddprun --log-dir logs2 true
	[ -z "$(find logs2 -name report.json)" ]
}

@test "under another launcher ddprun writes the cause to its error file" {
	local up=$T/up.json
	export flat nested
	TORCHELASTIC_ERROR_FILE=$up expect 3 ddprun sh -c 'exit 3'
	has "$(<"$up")" '"message":"rank 0 .* exited with code 3"'
	has "$(<"$up")" '"errorCode":3\}'
	TORCHELASTIC_ERROR_FILE=$up expect 137 ddprun sh -c '
		echo "$nested" >"$TORCHELASTIC_ERROR_FILE"; kill -KILL $$'
	has "$(<"$up")" '"message":"ValueError: boom"'
	has "$(<"$up")" '"errorCode":-9\}'
	rm "$up"
	# the server's end is a failure as well
	TORCHELASTIC_ERROR_FILE=$up start job ddprun \
		--rdzv-conf reconnect_timeout=0 sh -c '
		echo up; exec tail -f /dev/null'
	await job.out '^\[0\] up|^up'
	kill -KILL "$(server_of "${pid[job]}")"
	finish job 69
	has "$(<"$up")" '"message":".*server'
	has "$(<"$up")" '"errorCode":69\}'
	rm "$up"
	TORCHELASTIC_ERROR_FILE=$up expect 0 ddprun true
	[ ! -e "$up" ]
	# and the one above may be ddprun
	expect 3 ddprun ddprun sh -c 'exit 3'
	has "$err" '^\|  error        rank 0 '
}

@test "the first line quotes the worker: its error message, else its last line" {
	expect 3 ddprun --nproc-per-node 2 sh -c '
		[ $RANK = 1 ] || exec tail -f /dev/null
		echo "opening data" >&2
		echo "  cannot open data/train: no such file" >&2
		echo >&2
		exit 3'
	has "$err" '^ddprun: job .* failed: rank 1 .* exited with code 3: cannot open data/train: no such file$'
	[ "$(grep -c 'cannot open' <<<"$err")" = 3 ]
	expect 4 ddprun --nproc-per-node 1 sh -c '
		echo "{\"message\": \"loss is nan\"}" >$TORCHELASTIC_ERROR_FILE
		echo bye >&2
		exit 4'
	has "$err" '^ddprun: job .* failed: rank 0 .* exited with code 4: loss is nan$'
}

@test "an error that a worker wrote to its stdout is the cause, an ordinary line is not" {
	local where
	for where in '' '--log-dir logs' '--log-dir logs --redirects 3'; do
		expect 3 ddprun $where sh -c '
			echo "ERROR: cannot open mesh.dat"; echo "step 7"; exit 3'
		has "$err" '^ddprun: job .* exited with code 3: ERROR: cannot open mesh.dat$'
	done
	expect 3 ddprun sh -c 'echo "ERROR: trying again"; echo "bad shard" >&2; exit 3'
	has "$err" '^ddprun: job .* exited with code 3: ERROR: trying again$'
	expect 3 ddprun sh -c '
		echo "ERROR: trying again"; echo "x: Permission denied" >&2; exit 3'
	has "$err" '^ddprun: job .* exited with code 3: x: Permission denied$'
	expect 3 ddprun sh -c 'echo "step 7"; echo "bad shard" >&2; exit 3'
	has "$err" '^ddprun: job .* exited with code 3: bad shard$'
	expect 3 ddprun sh -c 'echo "step 7"; exit 3'
	has "$err" '^ddprun: job .* exited with code 3$'
}

@test "the first line explains the exit code of timeout" {
	expect 124 ddprun timeout 0.2 sh -c 'echo "step 7" >&2; sleep 1000'
	has "$err" '^ddprun: job .* exited with code 124: the code with which timeout\(1\) ends a command that takes too long$'
}

@test "the page shows the last libddp call of the first failure and of the victims" {
	local last='all_reduce #2 \(f32 x 40000, avg\), entered [0-9.]+ s earlier' report
	expect 137 ddprun --nproc-per-node 3 --log-dir logs c_fault kill 1
	has "$err" "^ddprun: .* rank 1 .* \(SIGKILL\): between calls; last: $last\$"
	has "$err" '^\|  last call    between calls; last: all_reduce #2 \(f32 x 40000, avg\), entered$'
	report=$(cat logs/none_*/attempt_0/report.json)
	has "$report" "^		\"last_call\":	\"between calls; last: $last\",\$"
	has "$report" '"last_call":	"all_reduce #3 .* earlier, failed"'
	# who does not use libddp has none
	expect 7 ddprun --nproc-per-node 2 --log-dir none sh -c 'exit 7'
	lacks "$err" 'last call'
	has "$(cat none/none_*/attempt_0/report.json)" '"last_call":	null'
	# nor does who wants none
	DDP_RECORDER=off expect 137 ddprun --nproc-per-node 2 c_fault kill 1
	lacks "$err" 'last call'
}

# A report of what NPROC ranks do arrives, made after this call.
reported() { # NPROC ARGUMENT...: of `ddprun status`
	local before now
	before=$(ddprun status --json "${@:2}" 2>/dev/null) || before=
	until now=$(ddprun status --json "${@:2}" 2>/dev/null) && [ "$now" != "$before" ] &&
		[ "$(grep -c '"does":' <<<"$now")" = "$1" ]; do
		kill -0 "${pid[a]}"
	done
}

# Their programs live until they have been looked at. The line of an earlier run is in
# the file.
redirected() { # NPROC SCRIPT: each rank, with its stderr in the file own.err
	local at r
	at=127.0.0.1:$(w_port free)
	export DDP_TEST_WATCH_MS=300
	echo 'OldError: of an earlier run' >own.err
	touch -d '1 hour ago' own.err
	for ((r = 0; r < $1; r++)); do
		mkfifo go.$r
	done
	start a ddprun --nproc-per-node "$1" --rdzv-id own --rdzv-endpoint "$at" sh -c '
		exec 2>>own.err; echo up; read -r _ <go.$RANK
		'"$2"
	for ((r = 0; r < $1; r++)); do
		await a.out "^\[$r\] up"
	done
	reported "$1" --job own --rdzv-endpoint "$at"
	for ((r = 0; r < $1; r++)); do
		echo >go.$r
	done
	finish a 3
}

@test "the cause of a worker that redirects its stderr is in the file's last lines" {
	redirected 1 'echo Traceback: >&2; echo "ValueError: bad shard 7" >&2; exit 3'
	has "$err" '^ddprun: job .* exited with code 3: ValueError: bad shard 7$'
	has "$err" '^\| +ValueError: bad shard 7'
	lacks "$err" OldError
}

@test "lines that were in a worker's stderr file before it started are not its cause" {
	redirected 1 'echo "no exception" >&2; exit 3'
	has "$err" '^\| +no exception$'
	lacks "$err" OldError
}

@test "a worker's cause is not taken from a file to which other ranks write" {
	mkfifo said
	redirected 2 'if [ $RANK = 0 ]; then read -r _ <said; exit 3; fi
		echo "ValueError: of rank 1" >&2; echo >said; exec sleep 60'
	lacks "$err" 'ValueError|OldError'
}

@test "a worker whose stderr is on a file server that has stopped: the page says so" {
	local at python
	at=127.0.0.1:$(w_port free)
	python=$(command -v python3) || skip "no python3 here"
	unshare -m true 2>/dev/null && [ -w /dev/fuse ] || skip "no FUSE here"
	export DDP_TEST_WATCH_MS=300
	# LeakSanitizer would wait for the thread that waits for the server
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	mkdir fs
	mkfifo go
	start fs unshare -m "$python" "$lib_tests/e2e/folder_fs.py" fs err
	await fs.out '^mounted$' || skip "FUSE does not work here"
	start a nsenter --mount --target "${pid[fs]}" sh -c 'cd "$0" && exec "$@"' "$T" \
		ddprun --rdzv-id own --rdzv-endpoint "$at" sh -c '
		exec 2>fs/err; echo "ValueError: bad shard 7" >&2; echo up
		read -r _ <go; exit 3'
	await a.out '^\[0\] up'
	reported 1 --job own --rdzv-endpoint "$at"
	signal fs STOP
	echo >go
	finish a 3
	has "$err" 'failed: rank 0 .* exited with code 3$'
	has "$err" '^\| +the file with its stderr cannot be read: the file server does$'
	has "$err" '^\| +not answer$'
	signal fs KILL
	finish fs -
}
