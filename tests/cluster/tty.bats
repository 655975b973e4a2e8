# tty.bats: --tty under Slurm: in an allocation, ddprun reaches each node with an srun
# of its own, and any worker can have its terminal; srun --pty lends its terminal to the
# step's first node.
# covers: slurm launcher/env launcher/ssh launcher/worker

bats_require_minimum_version 1.5.0
load cluster

setup_file() { cluster_up; }
teardown_file() { cluster_down; }
setup() {
	cluster_join
	unset PYTHON_EXEC
	export PYTHON_COLORS=0 TERM=xterm
}
teardown() { cluster_leave; }

# at STATUS STEP... -- COMMAND...: on a terminal of the login host; see terminal.py
at() {
	local status=$1
	shift
	slurm "$status" python3 "$BATS_TEST_DIRNAME/../e2e/terminal.py" "$@"
	out=${out//$'\r'/}
}

@test "in salloc a worker in pdb on any node has the terminal, and the others run" {
	mkfifo go
	cat >work.py <<-'EOF2'
		import os, socket, sys
		rank = int(os.environ["RANK"])
		if rank == 3:
		    breakpoint()
		else:
		    if rank == 0:
		        open("go").read()
		    print("on", socket.gethostname(), sys.stdin.read() == "")
	EOF2
	# as many workers as the job's tasks, without an option, as in a step
	at 0 'expect:\(Pdb\) ' 'send:p 6 * 7, rank, socket.gethostname()\r' \
		"expect:\\(42, 3, 'h2'\\)" 'send:open("go", "w").close()\r' \
		'expect:^\[0\] on h1 True' 'send:c\r' \
		-- salloc -w h1,h2 -N 2 --ntasks-per-node 2 ddprun --tty 3 work.py
	has "$out" '^\[1\] on h1 True$'
	has "$out" '^\[2\] on h2 True$'
	has "$out" "^ddprun: taking the nodes of Slurm's job as -H h1,h2 --ssh srun\$"
	nothing_left
}

@test "keys, sizes and long output cross Slurm as they are" {
	cat >work.py <<-'EOF2'
		import array, fcntl, os, signal, sys, termios, tty
		if os.environ["RANK"] == "0":
		    raise SystemExit
		signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH, signal.SIGINT})
		print(os.environ["TERM"], [os.isatty(fd) for fd in (0, 1, 2)])
		print("size %dx%d" % os.get_terminal_size(0), flush=True)
		signal.sigwait({signal.SIGWINCH})
		print("size %dx%d" % os.get_terminal_size(0), flush=True)
		signal.sigwait({signal.SIGINT})
		tty.setraw(0)
		print("ready", flush=True)
		n, waiting = 0, array.array("i", [0])
		while waiting[0] < 4000:  # its terminal is full
		    os.sched_yield()
		    fcntl.ioctl(0, termios.FIONREAD, waiting)
		while n < 100000:
		    n += len(os.read(0, 4096))
		print("read", n)
		sys.stdout.buffer.write(bytes(range(256)) + b"\n")
		for i in range(5000):
		    print("line", i)
		print("end")
	EOF2
	at 0 'expect:size 80x24' size:70x20 'expect:size 70x20' 'send:\x03' 'expect:ready' \
		paste:100000 'expect:read 100000' 'expect:^.*end' \
		-- env SLURM_LABELIO=1 salloc -w h1,h2 -N 2 ddprun --tty 1 work.py
	has "$out" '^xterm \[True, True, True\]$'
	[ "$(grep -ac 'line [0-9]*$' <<<"$out")" = 5000 ]
	nothing_left
}

@test "a worker's exit code is ddprun's, each attempt has the terminal, and Ctrl-] ends all" {
	cat >work.py <<-'EOF2'
		import os, signal, sys
		# between its prompt and its wait for a key, Python notes SIGINT and waits
		signal.signal(signal.SIGINT, signal.SIG_DFL)
		n = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
		if os.environ["RANK"] == "0":
		    signal.pause()
		print("answer", input("attempt %d? " % n))
		sys.exit(7 + n)
	EOF2
	at 8 'expect:attempt 0\? ' 'send:a\r' 'expect:attempt 1\? ' 'send:b\r' \
		-- salloc -w h1,h2 -N 2 ddprun --max-restarts 1 --tty 1 work.py
	has "$out" 'rank 1 \(local rank 0\) on h2, .*exited with code 8'
	at 130 'expect:attempt 0\? ' 'send:\x1d' \
		-- salloc -w h1,h2 -N 2 ddprun --tty 1 work.py
	has "$out" '^ddprun: got SIGINT'
	nothing_left
}

@test "a ddprun that is killed leaves nothing behind" {
	cat >work.py <<-'EOF2'
		import os, signal
		if os.environ["RANK"] == "0":
		    signal.pause()
		print("ready")
		input("more? ")
	EOF2
	printf 'echo $$ >pid\nexec ddprun --tty 1 work.py\n' >run.sh
	on_login job python3 "$BATS_TEST_DIRNAME/../e2e/terminal.py" 'expect:more\? ' \
		-- salloc -w h1,h2 -N 2 sh run.sh
	await job.out '^ready'
	on_login kill sh -c 'kill -9 $(cat pid)'
	finish kill 0
	finish job - # salloc exits with 0
	nothing_left
}

@test "an allocation of one node, and --nnodes, use srun as well" {
	printf 'import socket\nprint("on", socket.gethostname(), input("more? "))\n' >work.py
	at 0 'expect:more\? ' 'send:yes\r' 'expect:on h3 yes' \
		-- salloc -w h3 -N 1 ddprun --tty 0 work.py
	at 0 'expect:more\? ' 'send:yes\r' 'expect:on h1 yes' \
		-- salloc -w h1,h2 -N 2 ddprun --nnodes 1 --tty 0 work.py
	nothing_left
}

@test "srun --pty lends its terminal to a worker of the step's first node" {
	cat >work.py <<-'EOF2'
		import os
		if os.environ["RANK"] == "1":
		    print("answer", input("more? "))
	EOF2
	at 0 'expect:more\? ' 'send:yes\r' 'expect:answer yes' \
		-- srun -w h1,h2 -N 2 -n 2 --pty ddprun --nproc-per-node 2 --tty 1 work.py
	nothing_left
}

@test "without a terminal --tty is refused with what to write" {
	batch 2 -w h1,h2 -N 2 <<<'ddprun --tty 1 true'
	has "$out" '--tty 1: standard input of ddprun is not a terminal; start it in one \(salloc, srun --pty, '
	slurm 66 srun -K0 -w h1,h2 -N 2 -n 2 ddprun --nproc-per-node 1 --tty 1 true
	has "$err" 'which starts rank 1, is not a terminal; .*srun --pty for the first node; in salloc, ddprun without srun'
}
