# The Python frames of workers, in dumps and in the line about a pause.
# covers: launcher/python launcher/inspect/thread_snapshot.c launcher/watch/watch.c
load ../lib

setup() {
	lib_setup
	J=python.$TEST_COOKIE
	cat >train.py <<-'END'
		import os, sys, threading, time


		def spin():
		    while True:
		        pass


		def wait_för_it():
		    threading.Event().wait()


		class Trainer:
		    def step(self, n):
		        if n:
		            return self.step(n - 1)
		        print("up", flush=True)
		        while True:
		            time.sleep(1000)


		if "spin" in sys.argv:
		    threading.Thread(target=spin, daemon=True).start()
		if "threads" in sys.argv:
		    threading.Thread(target=wait_för_it, daemon=True).start()
		if "steps" in sys.argv:
		    n, end = 0, time.monotonic() + 1
		    while time.monotonic() < end:
		        n += sum(range(1000))
		    with open(os.environ["DDP_STEP_FILE"], "a") as f:
		        f.write("7\n")
		Trainer().step(2)
	END
}

# The test of python3 itself: its frames cannot be read everywhere.
needs_frames() {
	[ "$(uname -m)" = x86_64 ] || skip "not tried on this processor"
	python3 -c 'import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 15))' ||
		skip "python3 is not 3.9 to 3.14"
}

# until_dump ERE: dumps job $J until a line is like that; it is $out.
until_dump() {
	local end=$((SECONDS + 60))
	while [ $SECONDS -lt $end ]; do
		out=$(ddprun dump --job "$J" 2>&1) || true
		if grep -q 'no permission to trace it' <<<"$out"; then
			signal job TERM
			finish job 143
			skip "ptrace is forbidden here"
		fi
		! grep -qE -e "$1" <<<"$out" || return 0
	done
	echo "no line like $1, in:"
	echo "$out"
	return 1
}

end_job() {
	signal job TERM
	finish job 143
}

@test "dump shows the Python frames of each thread, with file and line" {
	needs_frames
	start job ddprun --rdzv-id "$J" --nproc-per-node 2 python3 "$T/train.py" threads
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
	until_dump 'Python: (Trainer\.)?step at .*/train\.py:19$'
	[ "$(grep -cE 'Python: (Trainer\.)?step at .*/train\.py:16$' <<<"$out")" -ge 2 ]
	[ "$(grep -cE 'Python: <module> at .*/train\.py:32$' <<<"$out")" = 2 ]
	until_dump 'Python: wait_för_it at .*/train\.py:10$'
	expect 0 ddprun dump --job "$J" --json
	python3 -c '
import json, sys
workers = json.load(sys.stdin)["here"]["jobs"][0]["workers"]
assert len(workers) == 2
for w in workers:
    main = [t for t in w["threads"] if t["tid"] == w["pid"]][0]
    frames = main["python"]
    assert frames[-1]["function"] == "<module>", frames
    assert frames[-1]["line"] == 32, frames
    assert frames[-1]["file"].endswith("/train.py"), frames
    assert main["holds_gil"] is False and main["changed"] is False
    assert w["no_python"] is None
' <<<"$out"
	# stacks are what --no-stacks leaves out
	expect 0 ddprun dump --job "$J" --no-stacks
	[ "$(grep -c Python <<<"$out")" = 0 ]
	end_job
}

@test "dump names the thread that holds Python's lock" {
	needs_frames
	start job ddprun --rdzv-id "$J" python3 "$T/train.py" spin
	await job.out up
	until_dump "^    holds Python's lock \(GIL\)\$"
	until_dump 'Python: spin at .*/train\.py:[56]$'
	end_job
}

@test "the line about a pause has the user's own line of Python" {
	needs_frames
	export DDP_TEST_WATCH_MS=2000
	start job ddprun --nproc-per-node 2 python3 "$T/train.py" steps
	await job.err '^ddprun: no progress for .* in train\.py:19 (Trainer\.)?step\(\)' 60
	end_job
}

@test "a Python of an unknown version is named, and the rest is shown" {
	needs_frames
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
		skip "python3 does not state its version in its memory"
	# it claims a version that is not out yet, in both places
	cat >newer.py <<-'END'
		import ctypes, time

		python, libc = ctypes.pythonapi, ctypes.CDLL(None)
		version = ctypes.c_uint32.in_dll(python, "Py_Version")
		at = ctypes.addressof(version) & ~4095
		assert libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(8192), 3) == 0
		version.value = 0x03FF00F0
		words = (ctypes.c_uint64 * 2).in_dll(python, "_PyRuntime")
		if words[0] == int.from_bytes(b"xdebugpy", "little"):
		    words[1] = 0x03FF00F0
		print("up", flush=True)
		time.sleep(1000)
	END
	start job ddprun --rdzv-id "$J" python3 "$T/newer.py"
	await job.out up
	until_dump '^  Python 3\.255: unknown layout; ddprun knows 3\.9 to 3\.14$'
	has "$out" '^  thread [0-9]+ \(python3'
	end_job
}

@test "a Python that runs without a pause has the frames that stay" {
	needs_frames
	cat >busy.py <<-'END'
		def leaf(n):
		    return n + 1


		def outer():
		    print("up", flush=True)
		    while True:
		        leaf(1)


		outer()
	END
	start job ddprun --rdzv-id "$J" python3 "$T/busy.py"
	await job.out up
	until_dump 'Python: outer at .*/busy\.py:[78]$'
	has "$out" 'Python: <module> at .*/busy\.py:11$'
	end_job
}

@test "a hang that is ended has its line of Python on the page, and its frames in the log" {
	needs_frames
	export DDP_TEST_WATCH_MS=2000
	expect 79 ddprun --nproc-per-node 2 --hang-timeout 4 --log-dir logs \
		python3 "$T/train.py" steps
	has "$err" 'hangs: .* in train\.py:19 (Trainer\.)?step\(\)'
	has "$err" '^\|    #py0 (Trainer\.)?step at .*/train\.py:19$'
	has "$err" '^\|    #py[0-9]+ <module> at .*/train\.py:[0-9]+$'
	python3 -c "import glob, json
f = json.load(open(glob.glob('logs/*/attempt_0/report.json')[0]))['first_failure']
assert any('step at ' in x for x in f['python_stack']) and f['hangs'], f"
	if ! grep -q 'no permission to trace it' logs/*/attempt_0/dump.txt; then
		has "$err" '^\|    #0 '
		[ "$(grep -cE 'Python: (Trainer\.)?step at .*/train\.py:19$' \
			logs/*/attempt_0/dump.txt)" = 2 ]
	fi
}

@test "a name in a worker's memory that is not what it claims to be is cut" {
	needs_frames
	cat >hostile.py <<-'END'
		import ctypes, sys, time


		def victim():
		    print("up", flush=True)
		    while True:
		        time.sleep(1000)


		name = "x" * 400
		code = victim.__code__.replace(co_name=name)
		if sys.version_info >= (3, 11):
		    code = code.replace(co_qualname=name)
		# ASCII has no such bytes
		ctypes.memset(id(name) + sys.getsizeof("") - 1, 0xFE, 400)
		exec(code)
	END
	start job ddprun --rdzv-id "$J" python3 "$T/hostile.py"
	await job.out up
	until_dump 'Python: .*þ at .*/hostile\.py:[567]$'
	end_job
}
