# A job that succeeds: environment, exit codes, programs.
# covers: launcher/agent launcher/plan launcher/worker
load ../lib

# lacks TEXT ERE: no line of TEXT matches.
lacks() {
	! grep -E -e "$2" <<<"$1"
}

@test "one worker's output is printed, and the exit code is 0" {
	expect 0 ddprun echo hello
	[ "$out" = "[0] hello" ]
	# only a machine that is too busy for a start within a second says more
	[ -z "$err" ] || ! grep -v '^ddprun: waiting [0-9]* s for an answer' <<<"$err"
}

@test "every worker gets exactly torchrun's variables and ours" {
	export TORCHELASTIC_RESTART_COUNT=9 RANK=7 MASTER_ADDR=
	expect 0 ddprun --standalone --nproc-per-node 3 --max-restarts 5 \
		sh -c 'env >'"$T"'/env.$LOCAL_RANK'
	local i name
	for i in 0 1 2; do
		for want in RANK=$i LOCAL_RANK=$i ROLE_RANK=$i WORLD_SIZE=3 \
			LOCAL_WORLD_SIZE=3 ROLE_WORLD_SIZE=3 GROUP_RANK=0 \
			GROUP_WORLD_SIZE=1 ROLE_NAME=default \
			MASTER_ADDR=127.0.0.1 OMP_NUM_THREADS=1 \
			TORCHELASTIC_RESTART_COUNT=0 \
			TORCHELASTIC_MAX_RESTARTS=5 \
			TORCHELASTIC_USE_AGENT_STORE=True \
			TORCH_NCCL_ASYNC_ERROR_HANDLING=1 \
			DDP_NODE_ADDR=127.0.0.1 DDP_ROUND=0; do
			grep -qx "$want" env.$i || {
				echo "rank $i: no $want"
				cat env.$i
				false
			}
		done
		grep -qxE 'TORCHELASTIC_ERROR_FILE=/.+' env.$i
		grep -qxE 'MASTER_PORT=[1-9][0-9]*' env.$i
		grep -qxE 'DDP_RDZV_ENDPOINT=127.0.0.1:[1-9][0-9]*' env.$i
		grep -qxE 'DDP_AGENT_ID=[0-9a-f]{16}' env.$i
		lacks "$(<env.$i)" DDP_TERMINAL
	done
	for name in DDP_JOB_ID TORCHELASTIC_RUN_ID; do
		grep -hE "^$name=" env.* | sort -u >ids
		[ "$(wc -l <ids)" = 1 ]
		lacks "$(<ids)" '=none$'
	done
}

@test "MASTER_PORT is free for rank 0 and different in jobs side by side" {
	mkfifo go
	start a ddprun --standalone sh -c 'echo $MASTER_PORT; read _ <'"$T"'/go'
	start b ddprun --standalone sh -c 'echo $MASTER_PORT; read _ <'"$T"'/go'
	await a.out '^\[0\] '
	local a=$line
	await b.out '^\[0\] '
	[ "$a" != "$line" ]
	exec 9<>go
	echo >&9
	echo >&9
	finish a
	finish b
	exec 9>&-
}

@test "rank 0 can listen on MASTER_PORT" {
	expect 0 ddprun --nproc-per-node 2 sh -c \
		'[ $RANK != 0 ] || w_port take $MASTER_PORT; echo $MASTER_PORT'
	local port=${out##* }
	has "$out" "^\[0\] $port\$"
	has "$out" "^\[1\] $port\$"
}

@test "OMP_NUM_THREADS is inherited, or unset for a lone worker" {
	OMP_NUM_THREADS=6 expect 0 ddprun --nproc-per-node 2 \
		sh -c 'echo $OMP_NUM_THREADS'
	[ "$(sort -u <<<"$out")" = "[0] 6
[1] 6" ]
	expect 0 ddprun sh -c 'echo ${OMP_NUM_THREADS-unset}'
	[ "$out" = "[0] unset" ]
}

@test "arguments after the program belong to the program" {
	expect 0 ddprun --nproc-per-node 1 -- printf '%s.' --nnodes 3 -- --help ''
	[ "$out" = "[0] --nnodes.3.--.--help.." ]
}

@test "options accept both spellings, --x=v, prefixes, and PET_ variables" {
	expect 0 ddprun --nproc_per_node=2 --max_restarts 1 --rdzv-i=j \
		sh -c 'echo $WORLD_SIZE $TORCHELASTIC_RUN_ID'
	[ "$(sort -u <<<"$out")" = "[0] 2 j
[1] 2 j" ]
	PET_NPROC_PER_NODE=3 PET_RDZV_ID=e expect 0 ddprun \
		sh -c 'echo $WORLD_SIZE $TORCHELASTIC_RUN_ID'
	[ "$(wc -l <<<"$out")" = 3 ]
	has "$out" '^\[2\] 3 e$'
	PET_NPROC_PER_NODE=3 expect 0 ddprun --nproc-per-node 1 true
}

@test "--nproc-per-node cpu counts the CPUs that ddprun may use" {
	expect 0 taskset -c 0 ddprun --nproc-per-node cpu \
		sh -c 'echo $WORLD_SIZE'
	[ "$out" = "[0] 1" ]
	CUDA_VISIBLE_DEVICES= expect 0 taskset -c 0 ddprun \
		--nproc-per-node auto sh -c 'echo $WORLD_SIZE'
	[ "$out" = "[0] 1" ]
}

@test "a .py program runs under the interpreter, unless --no-python is given" {
	printf '#!/bin/sh\necho interpreter "$@"\n' >interpreter
	printf '#!/bin/sh\necho itself "$@"\n' >train.py
	chmod +x interpreter train.py
	PYTHON_EXEC=./interpreter expect 0 ddprun train.py --lr 1
	[ "$out" = "[0] interpreter -u train.py --lr 1" ]
	expect 0 ddprun --no-python ./train.py --lr 1
	[ "$out" = "[0] itself --lr 1" ]
}

@test "the first -- behind the program is not passed on, as with torchrun" {
	expect 0 ddprun echo -- --depth=2 -- x
	[ "$out" = "[0] --depth=2 -- x" ]
	printf 'import sys\nprint(sys.argv[1:])\n' >show.py
	expect 0 ddprun --run-path show.py -- -- x
	[ "$out" = "[0] ['--', 'x']" ]
	expect 0 ddprun -m show -- x
	[ "$out" = "[0] ['x']" ]
	expect 0 ddprun -- show.py -- x
	[ "$out" = "[0] ['--', 'x']" ]
	expect 0 ddprun show.py a -- x
	[ "$out" = "[0] ['a', '--', 'x']" ]
}

@test "Python runs .PY, .pyw and .pyz files, and folders with a __main__.py" {
	local name
	mkdir app
	for name in train.PY train.pyw; do
		echo 'print(__name__)' >"$name"
		expect 0 ddprun "$name"
		[ "$out" = "[0] __main__" ]
	done
	echo 'print(__file__)' >app/__main__.py
	expect 0 ddprun app
	has "$out" '/?app/__main__\.py$'
	expect 0 ddprun --run-path app
	has "$out" '/?app/__main__\.py$'
	python3 -m zipapp app
	expect 0 ddprun ./app.pyz
	has "$out" 'app\.pyz/__main__\.py$'
}

@test "a script whose first line starts torchrun or ddprun runs under Python, once" {
	local name
	printf 'import os\nprint("once", os.environ["WORLD_SIZE"])\n' >body
	ln -s "$DDPRUN" torchrun
	for name in 'torchrun' 'ddprun' 'python3 -m torch.distributed.run'; do
		{ echo "#!/usr/bin/env -S $name --nproc_per_node 2"; cat body; } >train
		chmod +x train
		expect 0 ddprun --nproc-per-node 2 ./train
		[ "$out" = "[0] once 2"$'\n'"[1] once 2" ] ||
			[ "$out" = "[1] once 2"$'\n'"[0] once 2" ]
		# found in $PATH: Python gets its path
		mkdir -p bin
		cp train bin/found
		PATH=$T/bin:$PATH expect 0 ddprun found
		[ "$out" = "[0] once 1" ]
	done
	# started by that line: the kernel runs torchrun, and that this file
	{ echo "#!/usr/bin/env -S torchrun --nproc_per_node 1"; cat body; } >train
	PATH=$T:$PATH expect 0 ./train
	[ "$out" = "[0] once 1" ]
	expect 126 ddprun --no-python ./train
	has "$err" "^ddprun: error: cannot run './train' with --no-python: its first line starts torchrun or ddprun again"
}

@test "workers get no input and none of our descriptors" {
	expect 0 ls -C /proc/self/fd
	local without=$out
	expect 0 ddprun sh -c 'cat; exec ls -C /proc/self/fd'
	[ "$out" = "[0] $without" ]
}

@test "workers inherit the signals of ddprun's caller" {
	local ignored
	expect 0 sed -n 's/^SigIgn:.//p' /proc/self/status
	# except SIGINT and SIGQUIT, which `command &` ignores
	ignored=$(printf '%016x' $((0x$out & ~6)))
	expect 0 ddprun grep -E '^Sig(Blk|Ign)' /proc/self/status
	has "$out" 'SigBlk:.0000000000000000$'
	has "$out" "SigIgn:.$ignored\$"
}

@test "a signal mask and an ignored SIGCHLD do not affect ddprun, and workers inherit them" {
	start job env --block-signal=CHLD,TERM,INT,USR1 --ignore-signal=CHLD \
		ddprun --nproc-per-node 2 grep -E '^Sig(Blk|Ign)' \
		/proc/self/status
	DEADLINE=20 finish job 0
	# 2 INT, 10 USR1, 15 TERM, 17 CHLD
	has "$out" '^\[0\] SigBlk:.0000000000014202$'
	has "$out" '^\[1\] SigIgn:.*[13579bdf][0-9a-f]{4}$'
	start job env --block-signal=CHLD,TERM ddprun --shutdown-timeout 0.1 \
		sh -c 'echo up; exec sleep 1000'
	await job.out '^\[0\] up'
	signal job TERM
	DEADLINE=20 finish job 143
	has "$err" '^ddprun: killing 1 worker$'
}

@test "a worker may exit with 0 and leave a child that ends later" {
	expect 0 ddprun sh -c 'sleep 0.05 & echo parent'
	[ "$out" = "[0] parent" ]
}

@test "ddprun works with closed stdin, stdout and stderr" {
	local rc=0
	ddprun --nproc-per-node 2 sh -c 'echo out; echo err >&2' \
		<&- >&- 2>&- 3>&- 4>&- || rc=$?
	[ $rc = 0 ]
}

@test "LOGLEVEL and DDP_LOG set the log level" {
	DDP_LOG=debug expect 0 ddprun true
	has "$err" 'agent: JOINING -> RUNNING, start'
	LOGLEVEL=ERROR expect 1 ddprun --max-restarts 1 false
	lacks "$err" restarting
}

@test "256 workers need less than 8 MiB of the agent's memory" {
	[ -z "${SAN:-}" ] || skip "the sanitizers' own memory"
	# for which machine the two programs are
	cmp -s -i 18 -n 2 "$DDPRUN" /proc/self/exe || skip "the emulator's own memory"
	mkfifo go
	start job ddprun --nproc-per-node 256 \
		sh -c 'echo up; read _ <'"$T"'/go'
	await job.out '^\[255\] up'
	awk '/^VmHWM/ { print; exit !($2 < 8192) }' "/proc/${pid[job]}/status"
	exec 9<>go
	printf '%0256d' 0 | tr 0 '\n' >&9
	finish job
	exec 9>&-
}
