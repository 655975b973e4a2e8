# lib.bash: loaded by every end-to-end test. It provides a private folder, a clean
# environment, and processes that it starts, awaits and, whatever happens, ends.
# It knows nothing about the behaviour of the programs that it starts.
#
#   $O $DDPRUN $DDPRDZV   the build folder and the two programs; PATH begins with
#                         $O and $O/tests, or, before them, $DDP_TEST_WORKERS if
#                         workers are from another build
#   $T                    this test's private folder, and its working folder
#   start NAME CMD...     starts CMD in the background; its output is in $T/NAME.out
#                         and $T/NAME.err, its pid in ${pid[NAME]}
#   finish NAME [STATUS]  waits for its end; fails, with the logs, if the exit
#                         status is not STATUS (0). `-` accepts any: see $status
#   expect STATUS CMD...  starts and finishes CMD; its output is in $out and $err
#   await FILE ERE [S] [N]  waits at most S seconds for a line in FILE that matches,
#                         from line N on; it is in $line. Fails early if FILE is
#                         the output of a started program that has ended
#   nothing_left [S]      fails if a process of this test, however it was orphaned,
#                         is alive after S seconds (10)
#   await_end PID...      waits for the end of these processes, at most 20 s each;
#                         kills them, and fails, if one has not ended
#   signal NAME SIG       kill -SIG of a started program
#   torch_or_skip         sets PYTHON_EXEC to a python with PyTorch, or skips the
#                         test
#   has TEXT ERE          fails, showing TEXT, unless one of its lines matches
#   lacks TEXT ERE        fails, showing TEXT, if one of its lines matches
#   let_others_in         lets other users reach the files in $T, but not list them
#   "${deaf[@]}" CMD...   runs CMD with workers that ignore the launcher's SIGTERM
#   $IDLE                 evaluated by bash, waits for a signal that it traps
#
# A file with its own setup or teardown calls lib_setup and lib_teardown.
#
# These functions are called thousands of times, so they fork little, and `local -;
# set +T` spares their commands the trap that bats runs before each one. A failure
# then shows the line that called the function.
# Deadlines only end what hangs: nothing here waits for time to pass.

lib_tests=${BASH_SOURCE[0]%/*} # bats loads it as /.../tests/FOLDER/../lib.bash
lib_tests=${lib_tests%/*/..}
: "${O:=${lib_tests%/*}/build}"
export O DDPRUN=$O/ddprun DDPRDZV=$O/ddprdzv
export PATH=$O:${DDP_TEST_WORKERS:+$DDP_TEST_WORKERS:}$O/tests:$PATH

declare -gA pid

# Workers inherit an ignored SIGTERM from their ddprun. With SIGTERM, ddprun sends
# SIGCONT, which cancels the SIGSTOP with which LeakSanitizer stops a process to
# examine it at exit, and then waits for ever: leak detection is off.
declare -ga deaf=(bash -c 'trap "" TERM
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 exec "$@"' bash)
# A rank that exits after an error without ddp_finalize keeps its memory.
declare -ga leaky=(bash -c \
	'ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 exec "$@"' bash)

lib_setup() {
	local - name
	set +T
	T=$BATS_TEST_TMPDIR
	export TMPDIR=$T XDG_CACHE_HOME=$T/cache DDP_CACHE=$T/cache
	export XDG_CONFIG_HOME=$T/config # the key that all programs of this test share
	# tests compare output of other programs, and awk computes
	unset LC_ALL LANGUAGE
	export LC_NUMERIC=C LC_MESSAGES=C LC_COLLATE=C NO_COLOR=1
	unset HOSTS_RUNNING LOGLEVEL OMP_NUM_THREADS DEPS MAKEFLAGS MAKELEVEL
	# threads that wait leave the CPU to other tests, as in tests/run
	export OMP_WAIT_POLICY=passive
	# not one by one: bats traces each command
	unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE ${!GROUP_*} ${!ROLE_*} \
		${!MASTER_*} ${!PET_*} ${!TORCHELASTIC_*} ${!SLURM_*} ${!OMPI_*} \
		${!PMI_*} ${!PMIX_*} ${!NCCL_*} ${!GLOO_*} ${!KUBERNETES_*} \
		${!AWS_BATCH_*} ${!SKYPILOT_*} ${!AZUREML_*} ${!SM_*} ${!VC_*} \
		${!FLUX_*} ${!JOBSET_*} CLUSTER_SPEC TF_CONFIG JOB_COMPLETION_INDEX \
		K_MPI_JOB_ROLE NODE_RANK
	for name in ${!DDP_*}; do
		[[ $name == DDP_TEST_* ]] || unset "$name"
	done
	export DDP_CACHE=$T/cache
	# for tests/mutants/reach.py, which records what each test reaches
	if [ -n "${DDP_TEST_REACHED:-}" ]; then
		export DDP_TEST_REACHED=$DDP_TEST_REACHED/$BATS_TEST_NUMBER
		mkdir -p -m 777 "$DDP_TEST_REACHED" # setup_file has none
	fi
	# marks every process that descends from this test, and only those
	export TEST_COOKIE=$BATS_ROOT_PID.$BATS_TEST_NUMBER.$RANDOM$RANDOM
	# A trap runs between two commands: a signal that arrives just before a
	# command waits for its end, so no command takes long.
	export IDLE='exec 8<> <(:); while :; do read -rt 0.2 -u 8 _; done'
	cd "$T"
}

setup() {
	lib_setup
}

start() {
	local - name=$1
	set +T
	shift
	: >"$T/$name.out"
	: >"$T/$name.err"
	"$@" >"$T/$name.out" 2>"$T/$name.err" </dev/null 3>&- 4>&- &
	pid[$name]=$!
}

signal() {
	kill "-$2" "${pid[$1]}"
	[ "$2" != STOP ] || lib_stopped "${pid[$1]}"
}

# On busy CPUs a process with threads continues for a while after its SIGSTOP, and
# only its parent can wait for the stop.
lib_stopped() {
	while grep -qsE '^State:[[:space:]]+[^TtZX]' "/proc/$1/task/"*/status; do :; done
}

# Kills process $1 unless it has ended within $2 seconds. The clock is a read of a
# pipe to which nobody writes, which leaves no process behind when it is killed.
lib_guard() {
	# the clock is not part of the test: without bats's traps
	local -
	set +TEe
	[ -p "$BATS_RUN_TMPDIR/clock" ] || mkfifo "$BATS_RUN_TMPDIR/clock"
	(
		read -rt "$2" _ <>"$BATS_RUN_TMPDIR/clock" || true
		kill -KILL "$1" && echo "killed after $2 s" >"$T/$3.late"
	) >/dev/null 2>&1 3>&- 4>&- &
}

# Assigns the content of file $2 to $1, as $1=$(<$2) does, which forks.
lib_read() {
	local text
	# true at the limit, and at a NUL
	if IFS= read -rd '' -n 4096 text <"$2"; then
		text=$(<"$2")
	else
		while [[ $text == *$'\n' ]]; do text=${text%$'\n'}; done
	fi
	printf -v "$1" %s "$text"
}

finish() {
	local - name=$1 want=${2:-0} guard
	set +T
	lib_guard "${pid[$name]}" "${DEADLINE:-120}" "$name"
	guard=$!
	status=0
	wait "${pid[$name]}" || status=$?
	# -KILL: a shell that was just forked would run the test's EXIT trap on TERM
	kill -KILL "$guard" 2>/dev/null || true
	wait "$guard" 2>/dev/null || true
	unset "pid[$name]"
	lib_read out "$T/$name.out"
	lib_read err "$T/$name.err"
	if [ -e "$T/$name.late" ]; then
		echo "$name: still running: $(<"$T/$name.late")"
		return 1
	fi
	[ "$want" = - ] || [ "$status" = "$want" ] && return
	echo "$name: exit status $status, not $want"
	return 1
}

expect() {
	local - want=$1
	set +T
	shift
	start program "$@"
	finish program "$want"
}

await() {
	local - file=$1 pattern=$2 limit=${3:-60} from=${4:-1} owner='' name fd tail
	set +T
	for name in "${!pid[@]}"; do
		case $file in
		"$T/$name.out" | "$T/$name.err") owner=--pid=${pid[$name]} ;;
		esac
	done
	exec {fd}< <(exec env -u TEST_COOKIE timeout "$limit" \
		tail -n +"$from" -s 0.1 $owner -F "$file" 2>/dev/null 3>&- 4>&-)
	tail=$!
	line=$(grep -m 1 -E -e "$pattern" <&"$fd") || line=
	exec {fd}<&-
	kill "$tail" 2>/dev/null || true
	[ -n "$line" ] && return
	echo "no line like '$pattern' in ${file##*/} (at most $limit s):"
	sed 's/^/| /' "$file"
	return 1
}

await_end() {
	local - p left=
	set +T
	for p; do
		timeout 20 tail --pid="$p" -f /dev/null || left+=" $p"
	done
	[ -z "$left" ] || kill -KILL $left
	[ -z "$left" ]
}

nothing_left() {
	local cookie=TEST_COOKIE=$TEST_COOKIE
	(
		unset TEST_COOKIE
		exec "$O/tests/leftovers" "$cookie" "${1:-10}"
	)
}

# Whether it is there; to import it takes seconds, on each try.
torch_or_skip() {
	local python
	for python in ${DDP_TEST_PYTHON:-python3 /usr/bin/python3}; do
		if "$python" -c 'import importlib.util as u
assert u.find_spec("torch")' 2>/dev/null; then
			export PYTHON_EXEC=$python
			return
		fi
	done
	skip "no PyTorch here"
}

has() {
	local -
	set +T
	grep -qE -e "$2" <<<"$1" && return
	echo "no line like '$2' in:"
	sed 's/^/| /' <<<"$1"
	return 1
}

lacks() {
	local -
	set +T
	! grep -E -e "$2" <<<"$1"
}

# The folders that bats made for this run, and none above.
let_others_in() {
	local at=$T
	while [ "${at%/*}" != "${BATS_RUN_TMPDIR%/*}" ]; do
		chmod 711 "$at"
		at=${at%/*}
	done
	chmod 711 "$at"
}

lib_teardown() {
	local - name file failed=0
	set +T
	for name in "${!pid[@]}"; do
		kill -KILL "${pid[$name]}" 2>/dev/null || true
		wait "${pid[$name]}" 2>/dev/null || true
	done
	nothing_left || failed=1
	if [ $failed = 1 ] || [ -z "${BATS_TEST_COMPLETED:-}" ]; then
		for file in "$T"/*.out "$T"/*.err; do
			[ -s "$file" ] || continue
			echo "---- ${file##*/}"
			tail -n 200 "$file"
		done
	fi
	return $failed
}

teardown() {
	lib_teardown
}
