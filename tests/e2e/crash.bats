# A worker that crashes: what its signal meant, where it happened, and its stack,
# without a core file; and that the library for it changes nothing else.
# covers: launcher/crash launcher/failure launcher/inspect/crash_stack.c
load ../lib

# The page's first line, and its stack.
first() {
	sed -n "s/^ddprun: job 'none' failed: //p" <<<"$err"
}

unwinder_or_skip() {
	[ -z "${SAN:-}" ] || skip "sanitizers report crashes themselves"
	ldconfig -p | grep -q libdw.so.1 || skip "no libdw here"
}

# compile_or_skip FLAGS...: builds $T/prog from stdin.
compile_or_skip() {
	local cc
	cc=$(command -v gcc || command -v cc) || skip "no compiler here"
	"$cc" -x c -g -o "$T/prog" - "$@" 2>/dev/null || skip "$cc $* does not work here"
}

# ---- what the first line says

@test "a null pointer: the first line has the function and the line" {
	unwinder_or_skip
	expect 139 ddprun w_dies null
	has "$(first)" '^rank 0 .*, was killed by signal 11 \(SIGSEGV\): null pointer \(address 0x0\) in die_of_null at w_dies\.c:[0-9]+$'
	has "$err" '^\|  its stack when it died:$'
	has "$err" '^\|    #0 die_of_null at w_dies\.c:[0-9]+ \(w_dies\)$'
	has "$err" '^\|    #1 main at w_dies\.c:[0-9]+ \(w_dies\)$'
}

@test "a stack overflow is named, with its limit" {
	unwinder_or_skip
	expect 139 sh -c 'ulimit -s 1024; exec ddprun w_dies stack'
	has "$(first)" '\(SIGSEGV\): stack overflow: the stack size limit \(ulimit -s\) of 1024 KiB in die_of_stack at w_dies\.c:[0-9]+$'
	has "$err" '^\|    #3 die_of_stack at w_dies\.c:[0-9]+ \(w_dies\)$'
}

@test "a stack overflow in a thread is named, with the thread's stack" {
	unwinder_or_skip
	expect 139 ddprun w_dies deep
	has "$(first)" '\(SIGSEGV\): stack overflow: the thread.s stack size \(pthread_attr_setstacksize, or ulimit -s\) in die_of_stack at w_dies\.c:[0-9]+$'
	has "$err" '^\|    #3 die_of_stack at w_dies\.c:[0-9]+ \(w_dies\)$'
}

@test "a damaged heap: the first line has libc's words, the page the stack" {
	unwinder_or_skip
	expect 134 ddprun w_dies heap
	has "$(first)" '\(SIGABRT\): free\(\): double free detected'
	has "$err" '^\|    #[0-9]+ die_of_heap at w_dies\.c:[0-9]+ \(w_dies\)$'
}

@test "abort() in a thread: the first line has the thread's function" {
	unwinder_or_skip
	expect 134 ddprun w_dies thread
	has "$(first)" '\(SIGABRT\): abort\(\) in abort_here at w_dies\.c:[0-9]+$'
}

@test "a division by zero is named" {
	unwinder_or_skip
	[ "$(uname -m)" = x86_64 ] || skip "this processor's division does not fault"
	expect 136 ddprun w_dies divide
	has "$(first)" '\(SIGFPE\): integer division by zero in die_of_division at w_dies\.c:[0-9]+$'
}

@test "SIGBUS of a file that was truncated names the file" {
	unwinder_or_skip
	expect 135 ddprun w_dies truncated
	has "$(first)" "\(SIGBUS\): $T/w_dies\.truncated was truncated to 7 bytes while it was mapped in die_of_truncation at w_dies\.c:[0-9]+\$"
}

@test "SIGBUS names the file system that is full in the worker's mount namespace" {
	unwinder_or_skip
	unshare -m true || skip "no mount namespaces"
	cat >batch.py <<-'END'
		import ctypes, mmap, os, sys
		libc = ctypes.CDLL(None)
		assert libc.unshare(0x20000) == 0  # CLONE_NEWNS
		os.system("mount --make-rprivate / && mount -t tmpfs -o size=1m none /dev/shm")
		f = open("/dev/shm/batch", "w+b")
		f.truncate(4 << 20)
		m = mmap.mmap(f.fileno(), 0)
		if sys.argv[1] == "unlinked":
		    os.unlink("/dev/shm/batch")
		m.write(b"x" * (4 << 20))
	END
	for how in kept unlinked; do
		expect 135 ddprun python3 batch.py "$how"
		has "$(first)" '\(SIGBUS\): /dev/shm is full \(1 of 1 MiB\): /dev/shm/batch'
	done
}

@test "a child that crashed comes before its parent's words about it" {
	unwinder_or_skip
	cat >pool.py <<-'END'
		import ctypes, os
		child = os.fork()
		if child == 0:
		    ctypes.string_at(0)
		os.waitpid(child, 0)
		raise RuntimeError("DataLoader worker (pid(s) %d) exited unexpectedly" % child)
	END
	expect 1 ddprun python3 pool.py
	has "$(first)" 'exited with code 1: its process [0-9]+ \(python3[^)]*\) was killed by signal 11 \(SIGSEGV\): null pointer .*\(pool\.py:4\), then RuntimeError: DataLoader worker \(pid\(s\) [0-9]+\) exited unexpectedly \(pool\.py:6\)$'
}

@test "SIGSYS names the system call that a filter forbids, and its place" {
	unwinder_or_skip
	expect 159 ddprun w_dies seccomp
	has "$(first)" '\(SIGSYS\): a seccomp filter forbids system call [0-9]+ in die_of_filter at w_dies\.c:[0-9]+$'
	expect 159 ddprun --no-crash-stacks w_dies seccomp
	has "$(first)" "\(SIGSYS\): a seccomp filter \(the container's, or the program's own\) forbids a system call\$"
}

@test "SIGXCPU and SIGXFSZ name the worker's own limit" {
	unwinder_or_skip
	expect 152 ddprun sh -c 'ulimit -c 0; ulimit -S -t 1; exec w_dies spin'
	has "$(first)" '\(SIGXCPU\): the CPU time limit \(ulimit -t\) of 1 s in die_of_time at w_dies\.c:[0-9]+$'
	expect 153 ddprun sh -c 'ulimit -f 2048; exec head -c 4000000 /dev/zero >"$0/f"' "$T"
	has "$(first)" '\(SIGXFSZ\): the file size limit \(ulimit -f\) of 1 MiB'
}

@test "a signal of another process names the process" {
	[ -z "${SAN:-}" ] || skip "sanitizers report crashes themselves"
	expect 139 ddprun sh -c 'sh -c "kill -SEGV $$; sleep 1000" & wait'
	has "$(first)" '\(SIGSEGV\): sent by process [0-9]+ \(sh\)$'
}

@test "SIGTERM of another process names the process and its user" {
	local python
	[ -z "${SAN:-}" ] || skip "sanitizers report crashes themselves"
	python=$(command -v python3) || skip "no python3 here"
	expect 143 ddprun sh -c 'sh -c "kill $$; sleep 1000" & wait'
	has "$(first)" "\(SIGTERM\): sent by process [0-9]+ \((sh|sleep)\) of uid $(id -u)\$"
	expect 138 ddprun "$python" -c 'import os, signal; os.kill(os.getpid(), signal.SIGUSR1)'
	has "$(first)" '\(SIGUSR1\): sent by the process itself$'
	# of a child, on the page of the rank that fails for that; the sender may be gone
	expect 1 ddprun "$python" -c 'import os, sys, subprocess
p = subprocess.Popen(["sleep", "1000"])
caught = 0  # before ld.so has run, no library can note the sender
while not caught >> 14 & 1:
    status = open(f"/proc/{p.pid}/status").read()
    caught = int(status.split("SigCgt:")[1].split()[0], 16)
subprocess.run(["sh", "-c", f"kill {p.pid}"])
sys.exit(p.wait() and "no answer")'
	has "$(first)" "exited with code 1: its process [0-9]+ \(sleep\) was killed by signal 15 \(SIGTERM\), sent by process [0-9]+( \(sh\))? of uid $(id -u), then no answer\$"
}

@test "a Python worker: the first line has Python's own line, the page its frames" {
	local python
	unwinder_or_skip
	python=$(command -v python3) || skip "no python3 here"
	printf '%s\n' 'import ctypes' 'def load(n):' '    ctypes.string_at(n)' \
		'load(0)' >"$T/train.py"
	expect 139 ddprun --log-dir logs "$python" "$T/train.py"
	has "$(first)" '\(SIGSEGV\): null pointer \(address 0x0\).* \(train\.py:3\)$'
	has "$err" "^\\|    #py[0-9]+ load at $T/train\.py:3\$"
	has "$err" "^\\|    #py[0-9]+ <module> at $T/train\.py:4\$"
	has "$(cat logs/none_*/attempt_0/report.json)" "^		\"python_stack\":	\[.*\"#py[0-9]+ load at $T/train\.py:3\""
}

@test "a Python worker that aborts in C without the GIL has Python's frames as well" {
	local python
	unwinder_or_skip
	python=$(command -v python3) || skip "no python3 here"
	printf '%s\n' 'import ctypes, threading' 'def spin():' '    while True: pass' \
		'threading.Thread(target=spin, daemon=True).start()' \
		'def save():' '    ctypes.CDLL(None).abort()' 'save()' >"$T/train.py"
	expect 134 ddprun "$python" "$T/train.py"
	has "$(first)" '\(SIGABRT\): abort\(\) in .* \(train\.py:6\)$'
	has "$err" "^\\|    #py[0-9]+ save at $T/train\.py:6\$"
}

@test "a Python worker whose GIL another thread keeps still dies, by its signal" {
	local python
	python=$(command -v python3) || skip "no python3 here"
	printf '%s\n' 'import ctypes, threading' 'def keep():' \
		'    ctypes.PyDLL(None).system(b"kill -ABRT $PPID; exec sleep 1000")' \
		'threading.Thread(target=keep, daemon=True).start()' \
		'ctypes.CDLL(None).sleep(1000)' >"$T/train.py"
	expect 134 ddprun "$python" "$T/train.py"
	has "$(first)" 'was killed by signal 6 \(SIGABRT\)'
}

@test "a Python worker with faulthandler: its report, and the fault's own stack" {
	local python
	unwinder_or_skip
	python=$(command -v python3) || skip "no python3 here"
	printf '%s\n' 'import ctypes' 'ctypes.string_at(0)' >"$T/train.py"
	expect 139 env PYTHONFAULTHANDLER=1 ddprun "$python" "$T/train.py"
	has "$out$err" 'Fatal Python error: Segmentation fault'
	has "$(first)" '\(SIGSEGV\): null pointer \(address 0x0\) in .* \(train\.py:2\)$'
	has "$err" '^\|    #[0-9]+ _?PyEval_Eval'
}

@test "a C++ exception: the first line has its text, the page a readable stack" {
	unwinder_or_skip
	command -v g++ >/dev/null || skip "no g++ here"
	printf '%s\n' '#include <stdexcept>' 'struct loader { void open(int); };' \
		'void loader::open(int n) { throw std::runtime_error("no such file"); }' \
		'int main() { loader().open(3); }' >"$T/throws.cc"
	g++ -g -o "$T/prog" "$T/throws.cc" || skip "g++ does not work here"
	expect 134 ddprun "$T/prog"
	has "$(first)" "\(SIGABRT\): terminate called after throwing 'std::runtime_error': no such file\$"
	has "$err" '^\|    #[0-9]+ loader::open\(int\) at throws\.cc:3 \(prog\)$'
}

# Libraries block all signals in the threads that they start.
@test "a crash in a thread that blocks all signals has its stack, and the cause" {
	unwinder_or_skip
	compile_or_skip -pthread <<-'END'
		#include <pthread.h>
		#include <signal.h>
		#include <string.h>
		static void work(int *item) { *item = 1; }
		static void *run(void *arg) { work(arg); return arg; }
		int main(int n, char **v)
		{
			sigset_t all, old;
			pthread_t thread;
			sigfillset(&all);
			if (pthread_sigmask(SIG_SETMASK, &all, &old) || sigismember(&old, SIGTERM) ||
			    sigprocmask(SIG_BLOCK, &all, &old) || !sigismember(&old, SIGTERM) ||
			    sigprocmask(9, &all, &old) != -1 || pthread_sigmask(9, &all, &old) <= 0)
				return 3;
			if (n == 1)
				work(0);
			pthread_create(&thread, 0, run, 0);
			return pthread_join(thread, 0);
		}
	END
	expect 139 ddprun "$T/prog"
	has "$(first)" '\(SIGSEGV\): null pointer \(address 0x0\) in work at .*:4$'
	expect 139 ddprun "$T/prog" thread
	has "$(first)" '\(SIGSEGV\): null pointer \(address 0x0\) in work at .*:4$'
	has "$err" '^\|    #1 run at .*:5 \(prog\)$'
	lacks "$err" 'crash-library'
}

# The signal comes when the handler has returned to the fault.
@test "a program's handler that raises the signal again: the fault's stack and cause" {
	unwinder_or_skip
	[ "$(uname -m)" = x86_64 ] || skip "this processor's context has no cause"
	compile_or_skip -pthread <<-'END'
		#include <pthread.h>
		#include <signal.h>
		static void again(int n) { signal(n, SIG_DFL); raise(n); }
		static void work(int *item) { *item = 1; }
		static void *run(void *arg) { signal(SIGSEGV, again); work(arg); return arg; }
		int main(int n, char **v)
		{
			pthread_t thread;
			return n > 1 ? raise(SIGSEGV) : pthread_create(&thread, 0, run, 0) ||
				pthread_join(thread, 0);
		}
	END
	expect 139 ddprun "$T/prog"
	has "$(first)" '\(SIGSEGV\): null pointer \(address 0x0\) in work at .*:4$'
	has "$err" '^\|    #1 run at .*:5 \(prog\)$'
	expect 139 ddprun "$T/prog" raise
	lacks "$(first)" 'null pointer'
}

# ---- whose crash it is

@test "a shell's child that crashes is the cause of the shell's exit code" {
	unwinder_or_skip
	expect 139 ddprun sh -c 'w_dies null; exit $?'
	has "$(first)" 'exited with code 139: its process [0-9]+ \(w_dies\) was killed by signal 11 \(SIGSEGV\): null pointer \(address 0x0\) in die_of_null at w_dies\.c:[0-9]+$'
	has "$err" '^\|    #1 main at w_dies\.c:[0-9]+ \(w_dies\)$'
}

@test "a forked child that crashes before its parent fails is on the page" {
	unwinder_or_skip
	expect 3 ddprun w_dies child
	has "$(first)" 'exited with code 3: its process [0-9]+ \(w_dies\) was killed by signal 11 \(SIGSEGV\): null pointer'
	expect 3 ddprun sh -c 'w_dies child; echo "loader 2 is gone" >&2; exit 3'
	has "$(first)" 'exited with code 3: loader 2 is gone$'
	has "$err" '^\|    #0 die_of_null at w_dies\.c:[0-9]+ \(w_dies\)$'
}

@test "on two nodes both pages and report.json have the stack" {
	local port job report
	unwinder_or_skip
	port=$(w_port free)
	job="ddprun --nnodes 2 --rdzv-endpoint localhost:$port"
	start one $job --node-rank 0 --log-dir logs sleep 1000
	start two $job --node-rank 1 w_dies null
	finish one 139
	has "$err" '^\|    #0 die_of_null at w_dies\.c:[0-9]+ \(w_dies\)$'
	finish two 139
	has "$err" '^\|    #0 die_of_null at w_dies\.c:[0-9]+ \(w_dies\)$'
	report=$(cat logs/none_*/attempt_0/report.json)
	has "$report" '^		"why":	"null pointer \(address 0x0\) in die_of_null at w_dies\.c:[0-9]+'
	has "$report" '^		"stack":	\["#0 die_of_null at w_dies\.c:[0-9]+ \(w_dies\)", "#1 main at'
}

# ---- programs without what the stack needs

@test "a program without symbols has offsets in its stack" {
	unwinder_or_skip
	strip -o "$T/w_bare" "$(command -v w_dies)" || skip "no strip here"
	expect 139 ddprun "$T/w_bare" null
	has "$(first)" 'null pointer \(address 0x0\) in \? \(w_bare\+0x[0-9a-f]+\)$'
	has "$err" '^\|    #0 \? \(w_bare\+0x[0-9a-f]+\)$'
}

@test "a page whose unwinder was killed says why there is no stack" {
	unwinder_or_skip
	compile_or_skip -shared -fPIC <<-'END'
		#include <signal.h>
		#include <string.h>
		__attribute__((constructor)) static void start(int n, char **v)
		{
			if (n > 1 && strcmp(v[1], "--crash-stack") == 0)
				raise(SIGKILL);
		}
	END
	expect 139 env LD_PRELOAD="$T/prog" ddprun w_dies null
	has "$err" '^\|.*its stack is not shown: its unwinder was killed by signal 9$'
}

@test "a static program: the first line says what is known without a record" {
	echo 'int main(void) { *(volatile int *)0 = 1; }' | compile_or_skip -static
	expect 139 ddprun "$T/prog"
	has "$(first)" 'was killed by signal 11 \(SIGSEGV\)(: null pointer \(address 0x0\))?$'
	lacks "$err" 'its stack'
}

@test "any amount of stderr before a crash hides no part of the cause" {
	unwinder_or_skip
	expect 139 ddprun sh -c 'head -c 16000000 /dev/zero | tr "\0" x >&2; exec w_dies null'
	has "$(first)" '\(SIGSEGV\): null pointer \(address 0x0\) in die_of_null at w_dies\.c:[0-9]+$'
	expect 1 ddprun --log-dir logs sh -c 'printf "\377\376 is no text\n" >&2; exit 1'
	has "$(cat logs/none_*/attempt_0/report.json)" '^	"text":	"rank 0 .*exited with code 1: �� is no text",$'
}

# ---- what the library must not change

@test "a healthy program sees the default actions, and keeps what it sets" {
	[ -z "${SAN:-}" ] || skip "sanitizers catch these signals themselves"
	expect 0 ddprun w_dies looks
	[ -z "$err" ]
}

@test "a small alternate stack of the program is large enough" {
	unwinder_or_skip
	expect 134 ddprun w_dies narrow
	has "$(first)" '\(SIGABRT\): abort\(\) in die_on_narrow_stack.* at w_dies\.c:[0-9]+$'
}

# The number may be another file's when a process of an earlier round dies.
@test "a file that is not the agent's stays as it is, and the signal too" {
	local size
	[ -z "${SAN:-}" ] || skip "sanitizers report crashes themselves"
	for size in 7 9M; do
		truncate -s 0 f && truncate -s "$size" f && cp f before
		expect 134 ddprun sh -c 'exec 9<>f
			DDP_CRASH_RECORD=/proc/$$/fd/9:1 exec w_dies heap'
		cmp f before
	done
}

@test "a slot beyond the file of records changes no signal" {
	[ -z "${SAN:-}" ] || skip "sanitizers report crashes themselves"
	expect 134 ddprun sh -c \
		'DDP_CRASH_RECORD=${DDP_CRASH_RECORD%:*}:3000 exec w_dies heap'
}

# What Python 3.13 does if another thread keeps the GIL.
@test "a Python without the GIL and without signals left dies by its signal" {
	[ -z "${SAN:-}" ] || skip "sanitizers report crashes themselves"
	compile_or_skip -rdynamic <<-'END'
		#include <stdlib.h>
		#include <sys/resource.h>
		#include <unistd.h>
		void *PyGILState_GetThisThreadState(void) { return ""; }
		int PyGILState_Check(void) { return 0; }
		void PyEval_RestoreThread(void *t) { for (;;) pause(); }
		void *PyThreadState_GetFrame(void *t) { return 0; }
		void *PyFrame_GetBack(void *f) { return 0; }
		void *PyFrame_GetCode(void *f) { return 0; }
		int PyFrame_GetLineNumber(void *f) { return 0; }
		void *PyObject_GetAttrString(void *o, const char *n) { return 0; }
		const char *PyUnicode_AsUTF8(void *o) { return 0; }
		int main(void)
		{
			struct rlimit none = {0, 0};
			return setrlimit(RLIMIT_SIGPENDING, &none) ? 3 : (abort(), 4);
		}
	END
	expect 134 ddprun "$T/prog"
}

@test "a program's own handler is left alone" {
	[ -z "${SAN:-}" ] || skip "sanitizers catch these signals themselves"
	expect 5 ddprun w_dies caught
	has "$(first)" 'exited with code 5$'
	lacks "$err" 'its stack'
}

@test "Python sees the default actions" {
	local python
	python=$(command -v python3) || skip "no python3 here"
	expect 0 ddprun "$python" -c 'import signal
for s in (signal.SIGSEGV, signal.SIGABRT, signal.SIGXCPU, signal.SIGTERM,
          signal.SIGHUP, signal.SIGUSR1):
    assert signal.getsignal(s) == signal.SIG_DFL, (s, signal.getsignal(s))
    signal.signal(s, signal.signal(s, signal.SIG_IGN))'
	[ -z "$err" ]
}

@test "a program with AddressSanitizer starts, and prints its own report" {
	local code=1
	echo 'int main(int n, char **v) { if (n > 1) *(volatile int *)0 = 1; }' |
		compile_or_skip -fsanitize=address
	# ulimit -v leaves no room for its shadow memory
	"$T/prog" 2>/dev/null || skip "AddressSanitizer does not start here"
	expect 0 ddprun "$T/prog"
	[ -z "$err" ]
	# tests/run sets abort_on_error
	[ -z "${SAN:-}" ] || code=134
	expect "$code" ddprun "$T/prog" die
	has "$err" 'ERROR: AddressSanitizer: SEGV on unknown address'
	[ -n "${SAN:-}" ] || lacks "$err" 'its stack'
}

@test "the core file shows the place of the fault, as without the library" {
	local pattern=$(</proc/sys/kernel/core_pattern)
	unwinder_or_skip
	command -v gdb >/dev/null || skip "no gdb here"
	case $pattern in
	'|'* | */*) skip "the kernel's core_pattern is $pattern" ;;
	esac
	ulimit -c unlimited 2>/dev/null || skip "no core files allowed here"
	expect 139 ddprun w_dies null
	has "$(gdb -batch -ex bt "$(command -v w_dies)" \
		"$(sed -n 's/^| *core file //p' <<<"$err")" 2>/dev/null)" '^#0 .*die_of_null'
}

# xargs is none of the programs that hand the library on.
@test "shells and Python hand the library on to what they start, others do not" {
	local python
	[ -z "${SAN:-}" ] || skip "a sanitizer does not like to be preloaded over"
	expect 0 env LD_PRELOAD=libm.so.6 ddprun sh -c 'exec env sh -c "env; xargs env >below"'
	has "$out" '^\[0\] LD_PRELOAD=libm\.so\.6:/proc/[0-9]+/fd/[0-9]+$'
	has "$out" '^\[0\] DDP_CRASH_RECORD=/proc/'
	[ "$(grep LD_PRELOAD= below)" = LD_PRELOAD=libm.so.6 ]
	lacks "$(<below)" DDP_CRASH_RECORD
	expect 0 ddprun sh -c 'xargs env >below'
	lacks "$(<below)" LD_PRELOAD
	has "$(<below)" '^LOCAL_RANK=0$'
	python=$(command -v python3) || skip "no python3 here"
	expect 0 ddprun "$python" -c 'import os; os.execvp("env", ["env"])'
	has "$out" '^\[0\] LD_PRELOAD=/proc/'
}

@test "the loader does not complain in a program of another user" {
	[ "$(id -u)" = 0 ] || skip "not root: no other user"
	expect 0 ddprun sh -c 'setpriv --reuid 65534 --clear-groups env'
	[ -z "$err" ]
	lacks "$out" LD_PRELOAD
}

@test "--no-crash-stacks preloads nothing, and so does the variable" {
	expect 0 ddprun sh -c '[ -n "$LD_PRELOAD" ] && [ -n "$DDP_CRASH_RECORD" ]'
	expect 0 ddprun --no-crash-stacks sh -c '[ -z "${LD_PRELOAD+x}${DDP_CRASH_RECORD+x}" ]'
	expect 0 env PET_NO_CRASH_STACKS=1 ddprun sh -c '[ -z "${LD_PRELOAD+x}" ]'
	[ -z "${SAN:-}" ] || return 0 # the sanitizer reports the crash
	expect 139 ddprun --no-crash-stacks w_dies null
	lacks "$err" 'its stack'
}

@test "a ddprun below another preloads one library, its own" {
	expect 0 ddprun sh -c 'export outer=$LD_PRELOAD
		exec ddprun sh -c '"'"'case $LD_PRELOAD in "$outer"* | *:*) exit 1 ;; esac'"'"
	unwinder_or_skip
	expect 139 ddprun ddprun w_dies null
	has "$(first)" 'null pointer \(address 0x0\) in die_of_null at w_dies\.c'
}
