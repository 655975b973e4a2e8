# tty.bats: --tty: one worker has ddprun's terminal, while the others run.
# covers: launcher/worker launcher/output
load ../lib

setup() {
	lib_setup
	unset PYTHON_EXEC
	export PYTHON_COLORS=0 TERM=xterm
	jobs=(ddprun --standalone --nproc-per-node 2)
}

# at STATUS STEP... -- COMMAND...: the command on a terminal; see terminal.py
at() {
	local status=$1
	shift
	expect "$status" python3 "$BATS_TEST_DIRNAME/terminal.py" "$@"
	out=${out//$'\r'/}
}

@test "a worker in pdb has the terminal, and the others run" {
	mkfifo go
	cat >work.py <<-'EOF2'
		import os, sys
		rank = int(os.environ["RANK"])
		if rank == 1:
		    breakpoint()
		    open("go", "w").write("x")
		else:
		    open("go").read()
		    print("the other one", sys.stdin.read() == "")
	EOF2
	at 0 'expect:\(Pdb\) ' 'send:p 6 * 7, rank\r' 'expect:\(42, 1\)' 'send:c\r' \
		-- "${jobs[@]}" --tty 1 work.py
	has "$out" '^\[0\] the other one True$'
	printf 'x = 6\nx *= 7\n' >steps.py
	at 0 'expect:\(Pdb\) ' 'send:n\r' 'expect:\(Pdb\) ' 'send:n\r' 'expect:Pdb' \
		'send:x\r' 'expect:^42' 'send:q\r' \
		-- ddprun --standalone --tty 0 --no-python python3 -m pdb steps.py
}

@test "lines of the others appear while the worker waits for its user" {
	mkfifo go
	printf '%s\n' 'import os' 'if os.environ["RANK"] == "0":' '    breakpoint()' \
		'else:' '    open("go").read()' '    print("the other one")' >work.py
	at 0 'expect:\(Pdb\) ' 'send:open("go", "w").close()\r' \
		'expect:^\[1\] the other one' 'send:c\r' -- "${jobs[@]}" --tty 0 work.py
}

@test "the worker's terminal controls its session, and has the window's size" {
	cat >work.py <<-'EOF2'
		import os, signal
		terminals = str([os.isatty(fd) for fd in (0, 1, 2)])
		if os.environ["RANK"] == "1":
		    print(terminals)
		    raise SystemExit
		signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
		controlled = os.tcgetpgrp(os.open("/dev/tty", os.O_RDWR))
		print("%s %s %s" % (terminals, os.getsid(0) == os.getpid(),
		                    controlled == os.getpid()))
		print("size %dx%d" % os.get_terminal_size(0), flush=True)
		signal.sigwait({signal.SIGWINCH})
		print("size %dx%d" % os.get_terminal_size(0), flush=True)
		input("more? ")
	EOF2
	at 0 'expect:size 80x24' size:70x20 'expect:size 70x20' 'expect:more\? ' \
		'send:yes\r' -- "${jobs[@]}" --tty 0 work.py
	has "$out" '^\[True, True, True\] True True$'
	has "$out" '^\[1\] \[False, False, False\]$'
}

@test "Ctrl-C is the worker's, and Ctrl-] ends the job" {
	cat >work.py <<-'EOF2'
		import os, signal
		if os.environ["RANK"] == "1":
		    print("runs", flush=True)
		    open("go", "w").close()
		    signal.pause()
		open("go").read()
		signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
		print("ready", flush=True)
		signal.sigwait({signal.SIGINT})
		print("interrupted", flush=True)
		signal.sigwait({signal.SIGINT})
	EOF2
	mkfifo go
	at 130 'expect:ready' 'send:\x03' 'expect:interrupted' 'send:\x1d' \
		-- "${jobs[@]}" --tty 0 work.py
	has "$out" '^\[1\] runs$'
	has "$out" '^ddprun: got SIGINT'
	nothing_left
}

@test "Ctrl-Z suspends the job, unless the worker reads single keys" {
	cat >work.py <<-'EOF2'
		import sys, tty
		print("line", input("line? "))
		tty.setraw(0)
		sys.stdout.write("key? ")
		sys.stdout.flush()
		print("key", ord(sys.stdin.read(1)))
	EOF2
	at 0 'expect:line\? ' 'send:ab\x1a' stopped continue 'send:c\r' \
		'expect:line .*c' 'expect:key\? ' 'send:\x1a' 'expect:key 26' \
		-- ddprun --standalone --tty 0 work.py
}

@test "the terminal is as it was after any end" {
	cat >work.py <<-'EOF2'
		import os, tty
		tty.setraw(0)
		print("pid", os.getpid(), flush=True)
		os.kill(os.getpid(), 9)
	EOF2
	at 137 -- ddprun --standalone --tty 0 work.py
	has "$out" '^\|  cause +killed by signal 9'
	printf 'print("ready", flush=True)\nimport signal\nsignal.pause()\n' >work.py
	at 143 'expect:ready' kill:TERM -- "${jobs[@]}" --tty 0 work.py
	# the guard restores it if ddprun is killed; the shell then waits for a line
	printf 'import os\nos.kill(os.getppid(), 9)\n' >work.py
	at 137 'expect:Killed' restored 'send:\n' \
		-- sh -c '"$@"; code=$?; read -r _; exit $code' sh \
		ddprun --standalone --tty 0 work.py
	nothing_left
}

@test "each attempt has the terminal, and its output is in the log file" {
	cat >work.py <<-'EOF2'
		import os, sys
		n = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
		print("answer", input("attempt %d? " % n))
		sys.exit(1 - n)
	EOF2
	at 0 'expect:attempt 0\? ' 'send:a\r' 'expect:attempt 1\? ' 'send:b\r' \
		-- ddprun --standalone --max-restarts 1 --preload json --log-dir L \
		--tty 0 work.py
	has "$(tr -d '\r' <L/*/attempt_1/0/stdout.log)" '^answer b$'
	# what follows a prompt begins on a line of its own
	printf 'import sys\nsys.stdout.write("prompt> ")\nsys.stdout.flush()\nsys.exit(3)\n' \
		>work.py
	at 3 -- ddprun --standalone --tty 0 work.py
	has "$out" '^prompt> $'
	has "$out" '^\+- first failure'
}

@test "keys that the worker does not read yet are kept" {
	cat >work.py <<-'EOF2'
		import array, fcntl, os, sys, termios, tty
		tty.setraw(0)
		print("ready", flush=True)
		n, waiting = 0, array.array("i", [0])
		while waiting[0] < 4000:  # its terminal is full
		    os.sched_yield()
		    fcntl.ioctl(0, termios.FIONREAD, waiting)
		while n < 300000:
		    n += len(os.read(0, 4096))
		print("read", n)
	EOF2
	at 0 'expect:ready' paste:300000 'expect:read 300000' \
		-- ddprun --standalone --tty 0 work.py
}

@test "a terminal that cannot be lent is refused with the reason" {
	expect 2 ddprun --standalone --tty x true
	has "$err" "--tty 'x': give the rank of the worker"
	expect 2 "${jobs[@]}" --tty 2 true
	has "$err" "--tty 2: the job's ranks are 0 to 1"
	expect 2 "${jobs[@]}" --tty 0 --stdin 0 true
	has "$err" 'leave --stdin out'
	expect 2 ddprun -H a,b --tty 0 true
	has "$err" '--tty 0: standard input of ddprun is not a terminal; start it in one'
	# cluster/tty.bats has the jobs
	local allocation=(SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='n[1-2]'
		SLURM_TASKS_PER_NODE='1(x2)' SLURM_JOB_CPUS_PER_NODE='4(x2)')
	expect 2 env "${allocation[@]}" ddprun --tty 0 true
	has "$err" '--tty 0: standard input of ddprun is not a terminal; start it in one \(salloc, '
	expect 0 env "${allocation[@]}" SLURM_GPUS=4 ddprun --dry-run --tty 0 true
	has "$out" '^node 1: srun --gpus-per-node=2 n2 ddprun, workers: auto$'
	expect 2 env "${allocation[@]}" ddprun --requeue-on timeout --tty 0 true
	has "$err" '--requeue-on timeout: '
	expect 2 env "${allocation[@]}" SLURM_JOB_NODELIST= ddprun --tty 0 true
	has "$err" 'SLURM_JOB_NODELIST: it is not set'
	expect 2 env "${allocation[@]}" SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES_HET_GROUP_0=1 \
		SLURM_JOB_NUM_NODES_HET_GROUP_1=1 ddprun --tty 0 true
	has "$err" '--tty in a heterogeneous job .*: ddprun -H NODE,NODE --tty RANK'
	expect 2 "${jobs[@]}" --tty 0 true
	has "$err" '--tty 0: standard input of ddprun is not a terminal; start it in one'
	# with several nodes, each has the option, and only one the rank
	local nodes=(ddprun --nnodes 1:2 --rdzv-endpoint "127.0.0.1:$(w_port free)"
		--rdzv-conf last_call_timeout=0.1)
	expect 0 "${nodes[@]}" --tty 5 true
	expect 66 "${nodes[@]}" --tty 0 true
	has "$err" 'standard input or output of this ddprun, which starts rank 0, is not a terminal'
}
