# A file server that has stopped: the agent goes on, and names the file system.
# covers: base/file_wait.c base/file_queue.c launcher/output/log_writer.c launcher/output/logdir.c
# covers: launcher/watch/loop_watchdog.c launcher/watch/step_files.c launcher/failure/error_file.c
load ../lib

# A worker in the file system's namespace of mounts: $1 is a file of it, and
# its command begins when that file is the worker's. Stops the server then.
on_stopped_server() { # VARIABLE
	local python
	python=$(command -v python3) || skip "no python3 here"
	unshare -m true 2>/dev/null && [ -w /dev/fuse ] || skip "no FUSE here"
	# LeakSanitizer would wait for the thread that waits for the server
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	export DDP_TEST_WATCH_MS=3000
	mkdir fs
	mkfifo go
	start fs unshare -m "$python" "$lib_tests/e2e/folder_fs.py" fs err
	await fs.out '^mounted$' || skip "FUSE does not work here"
	start a nsenter --mount --target "${pid[fs]}" sh -c 'cd "$0" && exec "$@"' "$T" \
		ddprun --nproc-per-node 2 --log-dir logs --tee 3 sh -c '
		eval "file=\$$0"
		[ $RANK = 0 ] || exec sleep 1000
		echo 7 >fs/err
		touch "$file"
		mount --bind fs/err "$file" || exit 9
		echo up
		read -r _ <go
		echo "ValueError: bad shard 7" >&2
		exit 3' "$1"
	await a.out '^\[0\] up'
	signal fs STOP
}

end_server() {
	signal fs KILL
	finish fs -
}

@test "step files on a file server that has stopped do not stop the agent, which names it" {
	on_stopped_server DDP_STEP_FILE
	await a.err '^ddprun: warning: the file system of the step files \(fuse[^ ]* at [^ ]+/steps, [^ ]+\) has not answered for [0-9]+ s: the steps of this node.s ranks are not known$' 30
	echo >go
	finish a 3
	has "$err" 'failed: rank 0 .* exited with code 3: ValueError: bad shard 7$'
	end_server
}

@test "an error file on a file server that has stopped: the page says so, and the job ends" {
	on_stopped_server TORCHELASTIC_ERROR_FILE
	echo >go
	finish a 3
	has "$err" 'failed: rank 0 .* exited with code 3: '
	tr -d '|\n' <<<"$err" | tr -s ' ' |
		grep -q 'error\.json cannot be read: its file system (fuse[^ ]* at [^ ]*/error\.json, [^ ]*) does not answer'
	end_server
}

@test "a log folder on a file server that has stopped: ddprun says what it is stuck in" {
	local python run
	python=$(command -v python3) || skip "no python3 here"
	unshare -m true 2>/dev/null && [ -w /dev/fuse ] || skip "no FUSE here"
	mkdir fs
	mkfifo go
	start fs unshare -m "$python" "$lib_tests/e2e/folder_fs.py" fs err
	await fs.out '^mounted$' || skip "FUSE does not work here"
	export DDP_TEST_STUCK_MS=2000
	start a nsenter --mount --target "${pid[fs]}" sh -c 'cd "$0" && exec "$@"' "$T" \
		ddprun --nproc-per-node 1 --log-dir logs --max-restarts 1 sh -c '
		mount --bind fs logs/* || exit 9
		echo up
		read -r _ <go
		exit 3'
	await a.out '^\[0\] up'
	signal fs STOP
	echo >go # the next attempt needs a folder
	await a.err '^ddprun: warning: ddprun itself \(pid [0-9]+\) has been stuck for [2-9] s in (mkdir|open|stat) of .[^ ]*/logs/none_[^ ]*. \(fuse[^ ]* at [^ ]*/logs/none_[^ /]*, [^ ]+\); if it does not go on, kill -9 [0-9]+ ends it and this node.s workers$' 30
	signal fs CONT
	await a.err '^ddprun: goes on; it was stuck for about [0-9]+ s$' 30
	echo >go || true
	finish a -
	end_server
}

# ---- a log folder that is on the server from the beginning ----

# A job with --log-dir there, whose workers are sh scripts that read "go" (rank 0) or sleep.
start_on_server() { # OPTION... SCRIPT
	local python script=${*: -1}
	python=$(command -v python3) || skip "no python3 here"
	unshare -m true 2>/dev/null && [ -w /dev/fuse ] || skip "no FUSE here"
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	mkdir fs
	mkfifo go
	start fs unshare -m "$python" "$lib_tests/e2e/folder_fs.py" fs
	await fs.out '^mounted$' || skip "FUSE does not work here"
	start a nsenter --mount --target "${pid[fs]}" sh -c 'cd "$0" && exec "$@"' "$T" \
		ddprun --nproc-per-node 2 --log-dir fs/logs "${@:1:$#-1}" sh -c '
		# the end of the last writer is no answer
		next() { until read -r _ <go; do :; done; }
		[ $RANK = 0 ] || exec sleep 1000
		'"$script"
	await a.out '^\[0\] up$'
}

# What a file of the log folder has, read through the server.
on_server() { # PATTERN
	nsenter --mount --target "${pid[fs]}" sh -c 'cd "$0" && cat fs/logs/*/'"$1" "$T"
}

@test "a job goes on and restarts while its log folder's server is stopped; nothing is lost" {
	start_on_server --tee 1 --redirects 2 --max-restarts 1 '
		[ $TORCHELASTIC_RESTART_COUNT = 0 ] || { echo again; next; exit 4; }
		echo up
		next
		seq 3000
		echo words >&2
		next
		exit 3'
	signal fs STOP
	echo >go
	await a.out '^\[0\] 3000$'
	await a.err "^ddprun: warning: [^ ]+: a write to '[^ ]*/logs/none_[^ ]*/attempt_0/0/std(out|err).log' has waited since [0-9:]{8}: its file system \\(fuse[^ ]* at [^ ]*/fs, folders\\) does not answer\\. The job continues; what it writes to the log folder waits in memory$"
	echo >go
	await a.out '^\[0\] again$'
	has "$(<a.err)" 'restarting \(1 of 1\): rank 0 '
	lacks "$(<a.err)" 'has been stuck'
	signal fs CONT
	await a.err "^ddprun: [^ ]+: the log folder's file system answers again, after [0-9]+ s; nothing is lost$"
	echo >go
	finish a 4
	[ "$(on_server attempt_0/0/stdout.log)" = "$(echo up; seq 3000)" ]
	[ "$(on_server attempt_0/0/stderr.log)" = words ]
	[ "$(on_server attempt_1/0/stdout.log)" = again ]
	on_server attempt_1/node.json | grep -q '"world_size":2'
	end_server
}

@test "a job ends in time while its log folder's server is stopped, and names what is not written" {
	local began=$SECONDS
	start_on_server --tee 1 --redirects 2 '
		echo up; next; echo stop here; next; echo more; echo "ValueError: bad" >&2; exit 3'
	echo >go
	await a.out 'stop here'
	lib_stopped "${pid[fs]}"
	echo >go
	finish a 3
	[ $((SECONDS - began)) -lt 60 ]
	has "$err" 'failed: rank 0 .* exited with code 3: '
	has "$err" 'ValueError: bad$'
	has "$err" '^ddprun: warning: [^ ]+: not written, because the file system \(fuse[^ ]* at [^ ]*/fs, folders\) has not answered for [0-9]+ s: .*/attempt_0/0/stdout.log \(15 bytes\).*/attempt_0/0/stderr.log \(16 bytes\).*/attempt_0/report.json'
	end_server
	nothing_left
}

@test "output that does not fit in memory while the server is stopped is reported and marked" {
	export DDP_TEST_LOG_QUEUE=200000
	start_on_server --redirects 3 --tee 0:1 '
		echo up; next; seq 100000; echo "end of part 1" >&2; next; echo after; next; exit 3'
	signal fs STOP
	echo >go
	await a.err "^ddprun: warning: [^ ]+: too much output waits for the log folder's file system: what does not fit is lost: [^ ]*/attempt_0/0/stdout.log \\([0-9]+ bytes\\)$"
	await a.out '^\[0\] 100000$'
	await a.err '^ddprun: warning: [^ ]+: a write to '
	signal fs CONT
	await a.err "^ddprun: warning: [^ ]+: lost in all: [^ ]*/attempt_0/0/stdout.log \\([0-9]+ bytes\\)"
	echo >go
	await a.out '^\[0\] after$'
	echo >go
	finish a 3
	on_server attempt_0/0/stdout.log >have
	[ "$(tail -n 1 have)" = after ]
	# each mark is a line, and has a newline before it
	awk -v all="$({ echo up; seq 100000; echo after; } | wc -c)" '
		/^\[ddprun: [0-9]+ bytes are lost: the file system did not answer\]$/ {
			n += $2 - 1; marks++; next }
		{ n += length + 1 }
		END { print n, marks; exit n != all || !marks }' have
	on_server attempt_0/report.json | grep -q '"exit_code":[[:space:]]*3'
	end_server
}
