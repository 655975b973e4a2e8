# A file server that has stopped: the agent goes on, and names the file system.
# covers: base/file_wait.c launcher/watch/loop_watchdog.c launcher/watch/step_files.c launcher/failure/error_file.c
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
	start fs unshare -m "$python" "$lib_tests/e2e/one_file_fs.py" fs
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
	start fs unshare -m "$python" "$lib_tests/e2e/one_file_fs.py" fs
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
