# --preload: workers that are forked from a template process. PYTHON_EXEC is
# python3; no test needs a package.
# covers: launcher/preload launcher/crash launcher/agent
bats_require_minimum_version 1.5.0
load ../lib

setup() {
	lib_setup
	export PYTHONPATH=$T/site PYTHONDONTWRITEBYTECODE=1
	unset PYTHON_EXEC
	mkdir site
	# a package that is slow to import would do this once as well
	cat >site/counted.py <<-'EOF2'
		import os
		with open(os.environ["TMPDIR"] + "/imports", "a") as f:
		    f.write("%d\n" % os.getpid())
		value = 1
	EOF2
	echo 'import counted, os; print("ran", counted.value)' >script.py
	state=$BATS_TEST_DIRNAME/../programs/workers/python_state.py
}

# imports N: counted was imported N times.
imports() {
	[ "$(wc -l <imports)" = "$1" ] || {
		echo "imported $(wc -l <imports) times, not $1"
		return 1
	}
}

# refused ERE: the last job's workers were started without a fork, for that reason.
refused() {
	has "$err" "warning: --preload: $1; starting the workers of this node without a fork"
	[ "$(grep -c 'without a fork' <<<"$err")" = 1 ]
}

# same OPTIONS...: a job's workers are in the same state with --preload and without
same() {
	expect 0 ddprun --standalone --nproc-per-node 2 "$@"
	sort <<<"$out" >plain
	expect 0 ddprun --standalone --nproc-per-node 2 --preload counted,json "$@"
	sort <<<"$out" >forked
	lacks "$err" "warning: --preload"
	imports 1
	rm imports
	diff plain forked
}

@test "a forked worker has the state of a plainly started worker" {
	cp "$state" state.py
	same state.py --x 1 ''
	has "$out" '^\[1\] atexit: last of all$'
	same -m state --x
	same --no-python python3 -W error -X dev state.py
	same --no-python python3 -um state
	same --cpu-bind cores state.py
	printf '#!/usr/bin/env -S python3 -B\n' | cat - state.py >run-state
	chmod +x run-state
	same ./run-state y
	echo 'import sys; print("read", sys.stdin.read())' >script.py
	echo input | ddprun --standalone --preload counted script.py >piped
	has "$(<piped)" '^\[0\] read input$'
}

@test "modules are imported once for all starts and restarts" {
	cat >fails.py <<-'EOF2'
		import counted, os, sys
		print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"])
		sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] < "2")
	EOF2
	expect 0 ddprun --standalone --nproc-per-node 3 --max-restarts 2 \
		--preload counted fails.py
	has "$out" '^\[2\] attempt 2$'
	imports 1
}

@test "a restart runs the script as it is then, and imports changed modules again" {
	cat >first.py <<-'EOF2'
		import counted, os, sys
		here = os.path.dirname(os.path.abspath(__file__))
		os.replace(here + "/second.py", __file__)
		with open(counted.__file__, "a") as f:
		    f.write("value = 22\n")
		sys.exit(1)
	EOF2
	echo 'import counted; print("second", counted.value)' >second.py
	expect 0 ddprun --standalone --max-restarts 1 --preload counted first.py
	has "$out" '^\[0\] second 22$'
	has "$err" '--preload: .*/site/counted.py has changed: importing again$'
	imports 2
}

@test "a template process that is killed is replaced, and takes no worker with it" {
	local first
	cat >waits.py <<-'EOF2'
		import counted, os, sys
		print("runs", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
		with open(os.environ["TMPDIR"] + "/gate") as f:
		    sys.exit(int(f.read()))
	EOF2
	mkfifo gate
	start job ddprun --standalone --max-restarts 1 --preload counted waits.py
	await job.out 'runs 0'
	first=$(<imports)
	kill -KILL "$first"
	await job.err "--preload: the template process \(pid $first\) was killed by SIGKILL; starting another"
	echo 1 >gate
	await job.out 'runs 1'
	imports 2
	echo 0 >gate
	finish job 0
}

@test "a template process killed while it imports is replaced; the wait is named" {
	cat >site/slow.py <<-'EOF2'
		import os
		with open(os.environ["TMPDIR"] + "/gate") as f:
		    f.read()
	EOF2
	mkfifo gate
	echo 'import slow; print("ran")' >script.py
	start job ddprun --standalone --nproc-per-node 2 --preload slow script.py
	await job.err '--preload: waiting [0-9]+ s for the import of slow \(pid [0-9]+\)'
	[[ $line =~ pid\ ([0-9]+) ]]
	kill -KILL "${BASH_REMATCH[1]}"
	await job.err 'was killed by SIGKILL while it imported slow; starting another'
	: >gate
	finish job 0
	[ "$(grep -c ran <<<"$out")" = 2 ]
}

@test "a signal ends a job whose modules are still being imported" {
	mkfifo gate
	echo 'open(__import__("os").environ["TMPDIR"] + "/gate")' >site/slow.py
	start job ddprun --standalone --nproc-per-node 2 --preload slow script.py
	await job.err 'for the import of slow'
	signal job INT
	finish job 130
	nothing_left
}

@test "an import with lasting side effects makes the workers start without a fork" {
	local name
	declare -A code=(
		[threads]='import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()'
		[sockets]='import socket; kept = socket.socket()'
		[forks]='import os; os.fork() or os._exit(0)'
		[child]='import subprocess; kept = subprocess.Popen(["sleep", "1000"])'
		[handler]='import signal; signal.signal(signal.SIGUSR1, print)'
		[file]='kept = open(__file__)'
		[memory]='import mmap; kept = mmap.mmap(-1, 4096)'
		[folder]='import os; os.chdir("/")'
		[rank]='import os; r = os.environ.get("RANK")'
		[raises]='raise KeyError("x")'
		[exits]='import sys; sys.exit(3)'
		[dies]='import os; os._exit(4)'
	)
	declare -A why=(
		[threads]='the import of threads left a thread .*'
		[sockets]='the import of sockets left a socket open'
		[forks]='the import of forks left a child process'
		[child]='the import of child left a child process'
		[handler]='the import of handler set a handler of signal 10 .*'
		[file]='the import of file left .*/site/file.py open'
		[memory]='the import of memory left a device or shared memory mapped .*'
		[folder]='the import of folder changed the working directory'
		[rank]='rank reads the variable RANK when it is imported, and each worker has its own'
		[raises]='the import of raises raises KeyError: .x.'
		[exits]='the import of exits calls sys.exit\(3\)'
		[dies]='the import of dies ended the template process with code 4'
	)
	for name in "${!code[@]}"; do
		echo "${code[$name]}" >"site/$name.py"
		expect 0 ddprun --standalone --nproc-per-node 2 \
			--preload "counted,$name" script.py
		[ "$(grep -c 'ran 1' <<<"$out")" = 2 ]
		refused "${why[$name]}"
	done
	expect 0 ddprun --standalone --preload no_such_module script.py
	refused "cannot import no_such_module: No module named 'no_such_module'"
	nothing_left
}

@test "a module that reads all variables, as tqdm does, does not prevent a fork" {
	echo 'import os; FOUND = [k for k, v in os.environ.items() if k == v]' \
		>looks.py
	echo 'import looks, os; print(os.environ["RANK"])' >script.py
	expect 0 ddprun --standalone --nproc-per-node 2 --preload looks script.py
	[ -z "$err" ]
	[ "$(sort <<<"$out")" = $'[0] 0\n[1] 1' ]
}

@test "threads that a library stops before a fork do not prevent it" {
	cat >site/pool.py <<-'EOF2'
		import os, threading
		stop = threading.Event()
		one = threading.Thread(target=stop.wait)
		one.start()
		def end():
		    stop.set()
		    one.join()
		os.register_at_fork(before=end)
	EOF2
	expect 0 ddprun --standalone --preload counted,pool script.py
	lacks "$err" "warning: --preload"
	imports 1
}

@test "a variable that a module sets itself before it reads it is no reason" {
	cat >site/sets.py <<-'EOF2'
		import os
		os.environ["SET_HERE"] = "1"
		assert os.environ["SET_HERE"] == "1"
		del os.environ["SET_HERE"]
	EOF2
	expect 0 ddprun --standalone --preload counted,sets script.py
	lacks "$err" "warning: --preload"
	imports 1
}

@test "a file that only a dead object has open is no reason" {
	cat >site/cycle.py <<-'EOF2'
		class Dead:
		    def __init__(self):
		        self.me, self.file = self, open(__file__)
		Dead()
	EOF2
	expect 0 ddprun --standalone --preload counted,cycle script.py
	lacks "$err" 'without a fork'
	imports 1
}

@test "a module may choose when gc runs" {
	cat >site/choosy.py <<-'EOF2'
		import gc
		gc.set_threshold(123, 4, 5)
		gc.disable()
	EOF2
	echo 'import gc; print(gc.isenabled(), gc.get_threshold()[0])' >script.py
	expect 0 ddprun --standalone --preload choosy script.py
	has "$out" '^\[0\] False 123$'
	lacks "$err" 'without a fork'
}

@test "jemalloc's background threads are no reason" {
	local lib
	lib=$(/sbin/ldconfig -p | awk '/libjemalloc.so.2/ { print $NF; exit }')
	[ -n "$lib" ] || skip "libjemalloc.so.2 is not here (apt-get install libjemalloc2)"
	[ -z "${SAN:-}" ] || skip "sanitizers replace malloc themselves"
	cat >site/lists.py <<-'EOF2'
		import os
		names = [open(f"/proc/self/task/{t}/comm").read().strip()
		         for t in os.listdir("/proc/self/task")]
		assert "jemalloc_bg_thd" in names, names
	EOF2
	LD_PRELOAD=$lib MALLOC_CONF=background_thread:true \
		expect 0 ddprun --standalone --preload counted,lists script.py
	lacks "$err" "warning: --preload"
	imports 1
}

@test "a worker that cannot be forked is started without a fork" {
	cat >site/unlucky.py <<-'EOF2'
		import os
		template = os.getpid()
		def end():
		    if os.getppid() != template:
		        os._exit(1)
		os.register_at_fork(after_in_child=end)
	EOF2
	expect 0 ddprun --standalone --nproc-per-node 2 --preload unlucky script.py
	[ "$(grep -c 'ran 1' <<<"$out")" = 2 ]
	has "$err" '--preload: cannot fork a worker: the new process has ended; starting it without a fork'
}

@test "output of modules as they are imported appears once" {
	echo 'import sys; print("hello"); print("no end", end="", file=sys.stderr)' \
		>site/prints.py
	expect 0 ddprun --standalone --nproc-per-node 2 --preload prints script.py
	[ "$(grep -c 'ddprun: --preload: hello' <<<"$err")" = 1 ]
	[ "$(grep -c 'ddprun: --preload: no end' <<<"$err")" = 1 ]
	lacks "$out" hello
}

@test "auto finds the packages that the program and the modules beside it import" {
	mkdir -p beside site/pack
	echo 'import json' >site/pack/__init__.py
	cp site/counted.py site/pack/deep.py
	cp site/counted.py site/unused.py
	echo 'from pack import deep' >beside/__init__.py
	cat >script.py <<-'EOF2'
		import sys, beside
		from typing import TYPE_CHECKING
		if TYPE_CHECKING:
		    import unused
		def f():
		    import unused
		try:
		    import not_installed
		except ImportError:
		    pass
		print("pack.deep" in sys.modules, "unused" in sys.modules)
	EOF2
	expect 0 ddprun --standalone --nproc-per-node 2 --preload auto script.py
	has "$out" '^\[1\] True False$'
	lacks "$err" "warning: --preload"
	imports 1
	rm imports
	mkdir program
	mv script.py program/__main__.py
	mv beside program/
	sed -i 's/import sys, beside/import sys; from . import beside/' program/__main__.py
	expect 0 ddprun --standalone --nproc-per-node 2 --preload auto -m program
	has "$out" '^\[1\] True False$'
	imports 1
	echo 'import json; print("ran")' >script.py
	expect 0 ddprun --standalone --preload auto script.py
	refused 'auto: script.py imports no installed package'
}

@test "tracebacks, exit codes and signals are those of a plain start" {
	local end
	for end in 'raise KeyError("bad")' 'sys.exit(7)' 'sys.exit("text")' \
		'1 +' 'raise KeyboardInterrupt' 'os.kill(os.getpid(), 15)' \
		'os.execv("/bin/sh", ["sh", "-c", "echo $RANK; exit 9"])' \
		'warnings.warn("careful")'; do
		printf 'import os, sys, warnings\ndef f():\n    print(end="x\\n")\nf()\n%s\n' \
			"$end" >script.py
		start plain ddprun --standalone script.py
		finish plain -
		printf '%s\n' "$status" "$out" "$(grep '^\[' <<<"$err")" >was
		start forked ddprun --standalone --preload counted script.py
		finish forked -
		printf '%s\n' "$status" "$out" "$(grep '^\[' <<<"$err")" >is
		diff was is
	done
	imports 8
}

@test "a forked worker's crash is recorded with its Python frames" {
	echo 'import ctypes; ctypes.string_at(0)' >script.py
	start job ddprun --standalone --nproc-per-node 2 --preload ctypes script.py
	finish job 139
	has "$err" 'SIGSEGV.*script.py:1'
}

@test "random numbers differ between workers" {
	cat >site/draws.py <<-'EOF2'
		import random, tempfile, uuid, multiprocessing
		own = random.Random()
		fixed = random.Random(5)
	EOF2
	cat >script.py <<-'EOF2'
		import draws, random, tempfile, uuid, multiprocessing, os
		print(random.random(), draws.own.random(), uuid.uuid4(),
		      next(tempfile._get_candidate_names()),
		      multiprocessing.current_process().authkey.hex())
		print("fixed", draws.fixed.random())
	EOF2
	expect 0 ddprun --standalone --nproc-per-node 3 --preload draws script.py
	[ "$(grep -v fixed <<<"$out" | cut -d' ' -f2- | tr ' ' '\n' | sort -u |
		wc -l)" = 15 ]
	[ "$(grep fixed <<<"$out" | cut -d' ' -f2- | sort -u | wc -l)" = 1 ]
}

@test "multiprocessing finds the program's main module again" {
	cat >script.py <<-'EOF2'
		import counted, multiprocessing, os, pickle
		class Item:
		    def __init__(self, n):
		        self.n = n
		def double(item):
		    return Item(2 * item.n)
		if __name__ == "__main__":
		    for how in "spawn", "forkserver", "fork":
		        with multiprocessing.get_context(how).Pool(1) as pool:
		            print(how, pool.map(double, [Item(4)])[0].n)
		    print(pickle.loads(pickle.dumps(Item(3))).n)
	EOF2
	expect 0 ddprun --standalone --preload counted script.py
	[ "$out" = $'[0] spawn 8\n[0] forkserver 8\n[0] fork 8\n[0] 3' ]
	nothing_left
}

@test "a worker may execute another program" {
	cat >execs.py <<-'EOF2'
		import counted, os, sys
		print("before", os.getpid(), flush=True)
		os.environ["ADDED"] = "yes"
		os.execv(sys.argv[1], sys.argv[1:])
	EOF2
	cat >other.sh <<-'EOF2'
		echo "after $$ $RANK $ADDED $(cat)"
		echo "to stderr" >&2
		# rank 1's end, later, is the job's
		[ $RANK = 1 ] || exec sh -c ': >gate'
		read -r _ <gate
		exit 7
	EOF2
	mkfifo gate
	echo input >input
	# expect's program has no input
	expect 7 sh -c 'exec ddprun "$@" <input' sh --standalone --nproc-per-node 2 \
		--stdin all --preload counted execs.py /bin/sh other.sh
	for rank in 0 1; do
		pid=$(sed -n "s/^\[$rank\] before //p" <<<"$out")
		has "$out" "^\[$rank\] after $pid $rank yes input\$"
		has "$err" "^\[$rank\] to stderr\$"
	done
	has "$err" 'rank 1 .*exited with code 7'
	lacks "$err" 'warning: --preload:'
	imports 1
	nothing_left
}

@test "256 workers are forked, and ddprun's death leaves none of them" {
	printf '%s\n' 'import os, time' 'print("runs", flush=True)' \
		'time.sleep(1000)' >script.py
	start job ddprun --standalone --nproc-per-node 256 --preload counted script.py
	await job.out '^\[255\] runs'
	signal job KILL
	finish job 137
	nothing_left 30
}

@test "each node has its own interpreter, and its own modules" {
	python3 -m venv --without-pip venv
	echo 'import counted, sys; print("prefix", sys.prefix)' >script.py
	start server ddprdzv --listen 127.0.0.1:0
	await server.err 'listening on (127.0.0.1:[0-9]+)'
	start one env PYTHON_EXEC="$T/venv/bin/python3" ddprun --nnodes 2 \
		--rdzv-endpoint "$(cut -d' ' -f4 <<<"$line")" --preload counted script.py
	start two ddprun --nnodes 2 \
		--rdzv-endpoint "$(cut -d' ' -f4 <<<"$line")" --preload missing script.py
	finish one 0
	has "$out" "prefix $T/venv\$"
	lacks "$err" "warning: --preload"
	finish two 0
	lacks "$out" "prefix $T/venv"
	refused "cannot import missing: .*"
	signal server TERM
	finish server -
}

@test "with too little memory for the imports the workers start without a fork" {
	echo 'kept = bytearray(1 << 40)' >site/large.py
	expect 0 ddprun --standalone --nproc-per-node 2 --preload counted,large script.py
	[ "$(grep -c 'ran 1' <<<"$out")" = 2 ]
	refused 'the import of large raises MemoryError: .*'
}

@test "a template process that is killed again and again is given up" {
	# as the kernel does if memory does not suffice
	echo 'import os; os.kill(os.getpid(), 9)' >site/large.py
	expect 0 ddprun --standalone --nproc-per-node 2 --preload counted,large script.py
	[ "$(grep -c 'was killed by SIGKILL while it imported large; starting another' \
		<<<"$err")" = 5 ]
	has "$err" 'was killed by SIGKILL while it imported large; starting the workers'
	[ "$(grep -c 'ran 1' <<<"$out")" = 2 ]
}

@test "a site-packages folder may be read-only, and may be lost before a restart" {
	unshare -m true 2>/dev/null || skip "needs root"
	cat >script.py <<-'EOF2'
		import os, shutil, subprocess, sys
		if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
		    import counted
		    site = os.path.dirname(counted.__file__)
		    with open("/proc/mounts") as f:
		        assert any(line.split()[1] == site and
		                   "ro" in line.split()[3].split(",") for line in f)
		    subprocess.check_call(["umount", site])
		    shutil.rmtree(site)
		    sys.exit(1)
		print("ran", "counted" in sys.modules)
	EOF2
	expect 0 unshare -m sh -c 'unset PYTHONDONTWRITEBYTECODE
		mount --bind site site && mount -o remount,bind,ro site && exec "$@"' sh \
		ddprun --standalone --max-restarts 1 --preload counted script.py
	[ "$out" = '[0] ran False' ]
	has "$err" '--preload: .*/site/counted.py has changed: importing again'
	refused "cannot import counted: No module named 'counted'"
}

@test "workers are forked without privileges, and where nothing may trace" {
	local why='not root, or no setpriv'
	[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || skip "$why"
	cp "$state" state.py
	let_others_in
	chmod -R a+rX site state.py
	chmod 777 .
	# no new privileges, no capability, another user: ptrace and PR_SET_MM are as
	# restricted as in a container
	local as=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs
		--bounding-set=-all --inh-caps=-all)
	local python=(env PYTHON_EXEC=/usr/bin/python3 HOME="$T")
	[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
	expect 0 "${python[@]}" "${as[@]}" "$DDPRUN" --standalone --nproc-per-node 2 state.py
	sort <<<"$out" >plain
	expect 0 "${python[@]}" "${as[@]}" "$DDPRUN" --standalone --nproc-per-node 2 \
		--preload counted,json state.py
	sort <<<"$out" >forked
	lacks "$err" 'without a fork'
	imports 1
	diff plain forked
}

@test "a job of two nodes outlasts an import that is longer than its timeouts" {
	echo 'open(__import__("os").environ["TMPDIR"] + "/gate").read()' >site/slow.py
	mkfifo gate
	start server ddprdzv --listen 127.0.0.1:0
	await server.err 'listening on (127.0.0.1:[0-9]+)'
	local common=(--nnodes 2 --rdzv-endpoint "$(cut -d' ' -f4 <<<"$line")"
		--rdzv-timeout 2 --heartbeat-timeout 1)
	start one ddprun "${common[@]}" --preload slow script.py
	start two ddprun "${common[@]}" script.py
	await one.err 'waiting [5-9] s for the import of slow'
	: >gate
	finish one
	[[ $out == *'ran 1'* ]]
	finish two
	[[ $out == *'ran 1'* ]]
	signal server TERM
	finish server -
}

@test "a module that makes CUDA unusable in a fork makes the workers start without one" {
	# what torch.cuda says in a process that is forked after its initialisation
	mkdir site/torch
	cat >site/torch/__init__.py <<-'EOF2'
		from . import cuda
	EOF2
	cat >site/torch/cuda.py <<-'EOF2'
		import os
		_initialized_in = os.getpid()
		def _is_in_bad_fork():
		    return os.getpid() != _initialized_in
	EOF2
	expect 0 ddprun --standalone --nproc-per-node 2 --preload torch script.py
	refused 'the imports have initialised torch.cuda, which does not work in a forked process'
	[ "$(grep -c 'ran 1' <<<"$out")" = 2 ]
}

@test "the nodes of a job may have different versions of Python" {
	local other='' candidate mine
	mine=$(python3 -c 'import sys; print(sys.version_info[:2])')
	for candidate in python3.{9..15} "$HOME"/.pyenv/versions/3.*/bin/python3; do
		"$candidate" -c "import sys; v = sys.version_info[:2]
sys.exit(v < (3, 9) or v == $mine)" 2>/dev/null && other=$candidate
	done
	[ -n "$other" ] || skip "no second version of Python from 3.9 on"
	echo 'import counted, sys; print("version", sys.version_info[:2])' >script.py
	start server ddprdzv --listen 127.0.0.1:0
	await server.err 'listening on (127.0.0.1:[0-9]+)'
	local common=(--nnodes 2 --rdzv-endpoint "$(cut -d' ' -f4 <<<"$line")"
		--preload counted script.py)
	start one ddprun "${common[@]}"
	start two env PYTHON_EXEC="$other" ddprun "${common[@]}"
	finish one
	[[ $out == *"version $mine" ]]
	lacks "$err" 'without a fork'
	finish two
	has "$out" 'version \(3, '
	[[ $out != *"version $mine" ]]
	lacks "$err" 'without a fork'
	imports 2
	signal server TERM
	finish server -
}

@test "a program that is not Python starts without a fork, and a bad module name is an error" {
	expect 0 ddprun --standalone --preload json sh -c 'echo ran'
	refused "'.*/sh' is not a Python program"
	expect 0 ddprun --standalone --preload json --no-python python3 -c 'print(1)'
	refused "the interpreter's '-c' is not for a script or a module"
	expect 0 ddprun --standalone --preload json --wrap 'nice -n 1' script.py
	refused '--wrap starts all workers'
	expect 2 ddprun --standalone --preload 'json;' script.py
	has "$err" "--preload 'json;': give the names of Python modules"
	expect 2 ddprun --standalone --preload '' script.py
	expect 0 ddprun --standalone --preload json,os.path --dry-run script.py
	has "$out" '^preload: json,os.path, imported once by .*python3'
}
