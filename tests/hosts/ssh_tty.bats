# covers: launcher/ssh launcher/worker
load ../lib
load netns
load sshd

# ddprun -H --tty: a worker on another host has the head's terminal.

setup() {
	lib_setup
	unset PYTHON_EXEC
	export PYTHON_COLORS=0 TERM=xterm COLORTERM=truecolor
}

# at STATUS STEP... -- OPTIONS... PROGRAM...: ddprun on a terminal of h1; see terminal.py
at() {
	local status=$1 steps=()
	shift
	while [ "$1" != -- ]; do
		steps+=("$1")
		shift
	done
	start_on h1 at python3 "$BATS_TEST_DIRNAME/../e2e/terminal.py" "${steps[@]}" \
		-- ddprun --ssh-args "$SSH_ARGS" "${@:2}"
	finish at "$status"
	out=${out//$'\r'/}
}

@test "a worker in pdb on another host has the terminal, and the others run" {
	sshd_up 3
	mkfifo go
	cat >work.py <<-'EOF2'
		import os, socket, sys
		rank = int(os.environ["RANK"])
		if rank == 2:
		    breakpoint()
		else:
		    if rank == 0:
		        open("go").read()
		    print("on", socket.gethostname(), sys.stdin.read() == "")
	EOF2
	# lines of the others come while it waits, each on a line of its own
	at 0 'expect:\(Pdb\) ' 'send:p 6 * 7, rank, socket.gethostname()\r' \
		"expect:\\(42, 2, 'h3'\\)" 'send:open("go", "w").close()\r' \
		'expect:^\[0\] on h1 True' 'send:c\r' \
		-- -H h1,h2,h3 --nproc-per-node 1 --tty 2 work.py
	has "$out" '^\[1\] on h2 True$'
	nothing_left
}

@test "the worker's terminal has the window's size and kind, here and after a change" {
	sshd_up 2
	cat >work.py <<-'EOF2'
		import os, signal
		if os.environ["RANK"] == "0":
		    raise SystemExit
		signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
		controlled = os.tcgetpgrp(os.open("/dev/tty", os.O_RDWR))
		print([os.isatty(fd) for fd in (0, 1, 2)], controlled == os.getpid())
		print(os.environ["TERM"], os.environ["COLORTERM"])
		print("size %dx%d" % os.get_terminal_size(0), flush=True)
		signal.sigwait({signal.SIGWINCH})
		print("size %dx%d" % os.get_terminal_size(0), flush=True)
		print("got", input("more? "))
	EOF2
	at 0 'expect:size 80x24' size:70x20 'expect:size 70x20' 'expect:more\? ' \
		'send:n\xc4\x7fo\r' 'expect:got no' -- -H h1:1,h2:1 --tty 1 work.py
	has "$out" '^\[True, True, True\] True$'
	has "$out" '^xterm truecolor$'
	# echoed once, by the worker's terminal
	[ "$(grep -c '^more?' <<<"$out")" = 1 ]
	nothing_left
}

@test "Ctrl-C and Ctrl-Z are the worker's, and Ctrl-] ends the job on all hosts" {
	sshd_up 2
	cat >work.py <<-'EOF2'
		import os, signal
		if os.environ["RANK"] == "0":
		    signal.pause()
		signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTSTP})
		print("ready", flush=True)
		signal.sigwait({signal.SIGTSTP})
		print("suspended", flush=True)
		signal.sigwait({signal.SIGINT})
		print("interrupted", flush=True)
		signal.sigwait({signal.SIGINT})
	EOF2
	at 130 'expect:ready' 'send:\x1a' 'expect:suspended' 'send:\x03' \
		'expect:interrupted' 'send:\x1d' -- -H h1:1,h2:1 --tty 1 work.py
	has "$out" '^ddprun: got SIGINT'
	nothing_left
}

@test "each attempt has the terminal, and it is as it was after any end" {
	sshd_up 2
	cat >work.py <<-'EOF2'
		import os, sys, tty
		n = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
		if os.environ["RANK"] == "0":
		    sys.exit()
		print("answer", input("attempt %d? " % n))
		tty.setraw(0)
		if n:
		    os.kill(os.getpid(), 9)
		sys.exit(1)
	EOF2
	at 137 'expect:attempt 0\? ' 'send:a\r' 'expect:answer a' 'expect:attempt 1\? ' \
		'send:b\r' 'expect:answer b' \
		-- -H h1:1,h2:1 --max-restarts 1 --tty 1 work.py
	has "$out" '^\|  cause +killed by signal 9'
	# the page begins on a line of its own
	cat >work.py <<-'EOF2'
		import os, sys
		if os.environ["RANK"] == "1":
		    sys.stdout.write("prompt> ")
		    sys.stdout.flush()
		    sys.exit(3)
		sys.stdin.read()
	EOF2
	at 3 -- -H h1:1,h2:1 --tty 1 work.py
	has "$out" '^prompt> $'
	has "$out" '^\+- first failure'
	nothing_left
}

@test "keys that the worker does not read yet are kept, and long output arrives whole" {
	sshd_up 1
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
		for i in range(20000):
		    print("line", i)
		print("end")
	EOF2
	at 0 'expect:ready' paste:300000 'expect:read 300000' 'expect:^.*end' \
		-- -H h1:1 --tty 0 work.py
	[ "$(grep -c 'line [0-9]*$' <<<"$out")" = 20000 ]
	nothing_left
}
