# Binding workers to CPUs, --dry-run's account of it, and wrappers around workers.
# covers: launcher/plan
load ../lib

# The CPUs that rank $2 may use, from $1: what grep Cpus_allowed_list wrote.
cpus() {
	sed -n "s/^\[$2\] Cpus_allowed_list:[[:blank:]]*//p" <<<"$1"
}

# What --dry-run ($1) prints for rank $2 and word $3, without notes after it.
planned() {
	awk -v rank="$2" -v word="$3" '
		/^rank / {here = $2 == rank ","}
		here && $1 == word {sub(/^ *[a-z]+ +/, ""); print}' <<<"$1"
}

two_cpus() {
	[ "$(nproc)" -gt 1 ] || skip "one CPU cannot be divided"
}

@test "in every mode workers run where the dry run shows" {
	local mode i plan n=2
	[ "$(nproc)" -gt 1 ] || n=1
	for mode in none node socket exclusive core-complex cores; do
		expect 0 ddprun --nproc-per-node $n --cpu-bind $mode --dry-run \
			grep Cpus_allowed_list /proc/self/status
		plan=$out
		expect 0 ddprun --nproc-per-node $n --cpu-bind $mode \
			grep Cpus_allowed_list /proc/self/status
		for ((i = 0; i < n; i++)); do
			[ -n "$(cpus "$out" $i)" ]
			planned "$plan" $i cpus
			[ "$(planned "$plan" $i cpus | sed 's/ (.*//')" = \
				"$(cpus "$out" $i)" ]
		done
	done
}

@test "cores and exclusive give all CPUs to workers, and each CPU to one" {
	two_cpus
	local mode a b both
	for mode in cores exclusive; do
		expect 0 ddprun --nproc-per-node 2 --numa-binding $mode \
			sed -n 's/^Cpus_allowed:[^0-9a-f]*//p' /proc/self/status
		a=0x$(sed -n 's/^\[0\] //p' <<<"$out" | tr -d ,)
		b=0x$(sed -n 's/^\[1\] //p' <<<"$out" | tr -d ,)
		both=0x$(taskset -p $$ | sed 's/.*: //')
		[ $((a & b)) = 0 ]
		[ $((a)) != 0 ]
		[ $((b)) != 0 ]
		[ $((a | b)) = $((both)) ]
	done
}

@test "only CPUs that ddprun itself may use are assigned" {
	two_cpus
	local last=$(sed -n 's/^Cpus_allowed_list:.*[^0-9]//p' /proc/self/status)
	local mode
	for mode in node socket exclusive core-complex cores none; do
		expect 0 taskset -c "$last" ddprun --cpu-bind $mode \
			grep Cpus_allowed_list /proc/self/status
		[ "$(cpus "$out" 0)" = "$last" ]
	done
	# more workers than cores share them
	expect 0 taskset -c "$last" ddprun --cpu-bind cores --nproc-per-node 3 \
		grep Cpus_allowed_list /proc/self/status
	[ "$(cpus "$out" 2)" = "$last" ]
	expect 2 taskset -c "$last" ddprun --cpu-bind exclusive \
		--nproc-per-node 3 touch "$T/started"
	has "$err" 'exclusive: 3 workers, but this process may use only 1 core; '
	[ ! -e started ]
}

@test "after a restart workers run where they ran before" {
	two_cpus
	local i plan
	expect 0 ddprun --dry-run --nproc-per-node 2 --cpu-bind cores true
	plan=$out
	# the first failure may end the other rank before it has written
	expect 0 ddprun --nproc-per-node 2 --cpu-bind cores --max-restarts 1 \
		sh -c '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1
			grep Cpus_allowed_list /proc/self/status'
	for i in 0 1; do
		[ "$(cpus "$out" $i)" = "$(planned "$plan" $i cpus)" ]
	done
}

@test "hwloc is only loaded when it is needed, and named when it is missing" {
	expect 0 env LD_DEBUG=files LD_DEBUG_OUTPUT="$T/ld" ddprun true
	cat ld.* | grep -q libc.so
	lacks "$(cat ld.*)" hwloc
	expect 0 env LD_DEBUG=files LD_DEBUG_OUTPUT="$T/ld" ddprun \
		--cpu-bind node true
	cat ld.* | grep -q hwloc
	mkdir lib
	: >lib/libhwloc.so.15
	expect 71 env LD_LIBRARY_PATH="$T/lib" ddprun --cpu-bind node \
		touch "$T/started"
	has "$err" 'libhwloc.so.15 .*install it \(Debian, Ubuntu: libhwloc15'
	[ ! -e started ]
	expect 0 env LD_LIBRARY_PATH="$T/lib" ddprun --dry-run true
	lacks "$out" memory
}

@test "bad usage of these options is the same with --dry-run" {
	local dry
	for dry in "" --dry-run; do
		expect 2 ddprun $dry --cpu-bind nods touch "$T/started"
		has "$err" "unknown --cpu-bind 'nods'; did you mean node\?"
		expect 2 env PET_CPU_BIND=sock ddprun $dry touch "$T/started"
		has "$err" "unknown --cpu-bind 'sock'; did you mean socket\?"
		expect 2 ddprun $dry --wrap "gdb 'x" touch "$T/started"
		has "$err" "--wrap 'gdb 'x': a quote is opened and never closed"
		expect 2 ddprun $dry --wrap ' ' touch "$T/started"
		has "$err" '--wrap names no command'
		expect 2 ddprun $dry --wrap-ranks 0 touch "$T/started"
		has "$err" "--wrap-ranks '0' needs a --wrap COMMAND"
		expect 2 ddprun $dry --wrap env --wrap-ranks 0-x \
			touch "$T/started"
		has "$err" "--wrap-ranks '0-x': '0-x' is neither a rank"
		expect 2 ddprun $dry --nproc-per-node 2 --wrap env \
			--wrap-ranks 1-2 touch "$T/started"
		has "$err" 'there is no rank 2: this job has 2 workers'
		expect 127 ddprun $dry --wrap no-such-wrapper touch "$T/started"
		has "$err" "cannot run 'no-such-wrapper'"
		expect 126 ddprun $dry --wrap /dev/null touch "$T/started"
		expect 127 ddprun $dry ./no-such-program
		has "$err" "cannot run './no-such-program'"
		expect 2 ddprun $dry --nproc-per-node x touch "$T/started"
	done
	[ ! -e started ]
}

@test "a dry run starts and creates nothing, and its output can be pasted" {
	expect 0 ddprun --dry-run --nproc-per-node 2 --log-dir "$T/logs" \
		sh -c 'echo "it'\''s" $1 >$2; touch "$T/started"' sh 'a  *b' \
		"$T/a file"
	[ -z "$err" ]
	[ ! -e started ]
	[ ! -e logs ]
	[ ! -e "a file" ]
	[ "$(grep -c '^rank [01], local rank [01], host ' <<<"$out")" = 2 ]
	export T
	eval "$(planned "$out" 1 argv)"
	[ -e started ]
	[ "$(<"a file")" = "it's a *b" ]
}

@test "the changes of the environment are those of a real run" {
	local base=(PATH="$PATH" TEST_COOKIE="$TEST_COOKIE" TMPDIR="$T" RANK=7
		OMP_NUM_THREADS=3 DDP_TERMINAL=80x24 KEPT=1)
	local plan later
	expect 0 env -i "${base[@]}" ddprun --dry-run --nproc-per-node 2 \
		--max-restarts 3 env
	plan=$out
	later=$(planned "$plan" 1 later | sed 's/ (.*//; s/ /|/g')
	expect 0 env -i "${base[@]}" ddprun --nproc-per-node 2 \
		--max-restarts 3 env
	printf '%s\n' "${base[@]}" | sort >before
	sed -n 's/^\[1\] //p' <<<"$out" | grep -vE "^($later)=" | sort >after
	comm -13 before after >new
	{
		planned "$plan" 1 added
		planned "$plan" 1 changed
	} | sed "s/=''$/=/" | sort | diff - new
	[ "$(planned "$plan" 1 changed)" = RANK=1 ]
	[ "$(planned "$plan" 1 removed)" = DDP_TERMINAL ]
	# nothing else is gone
	cut -d= -f1 before | sort >had
	cut -d= -f1 after | sort >have
	[ "$(comm -23 had have)" = DDP_TERMINAL ]
}

@test "another machine's CPUs can be inspected, but not bound to" {
	export HWLOC_SYNTHETIC='package:2 [numa] l3:2 core:4 pu:2'
	expect 0 ddprun --dry-run --nproc-per-node 4 --cpu-bind exclusive true
	[ "$(planned "$out" 2 cpus)" = 16-23 ]
	[ "$(planned "$out" 2 memory)" = "NUMA node 1" ]
	expect 2 ddprun --nproc-per-node 4 --cpu-bind exclusive \
		touch "$T/started"
	has "$err" 'HWLOC_SYNTHETIC in the environment describes another machine'
	[ ! -e started ]
}

@test "a dry run of several nodes lists the values that only the rendezvous decides" {
	# nobody has 192.0.2.1: a connection there waits
	expect 0 ddprun --dry-run --nnodes 2 --rdzv-endpoint 192.0.2.1:29400 \
		--wrap 'env A=1' --wrap-ranks 0,5 /bin/true
	has "$out" '^local rank 0, host .* \(node rank comes from the rendezvous\)$'
	has "$out" '^  argv     /bin/true$'
	has "$out" "^  argv     env 'A=1' /bin/true   # if its rank is in 0,5$"
	has "$out" '^  later    RANK WORLD_SIZE GROUP_RANK .*MASTER_ADDR'
	has "$out" '^  added    LOCAL_RANK=0$'
	lacks "$out" '^  added    (RANK|WORLD_SIZE|MASTER_ADDR)='
}

@test "a dry run shows the GPUs that a worker sees" {
	expect 0 env CUDA_VISIBLE_DEVICES=3,5 ddprun --dry-run true
	[ "$(planned "$out" 0 gpus)" = 3,5 ]
	expect 0 env CUDA_VISIBLE_DEVICES= ddprun --dry-run true
	[ "$(planned "$out" 0 gpus)" = none ]
	expect 0 env CUDA_VISIBLE_DEVICES=4,5,6,7 ddprun --dry-run \
		--nproc-per-node 2 --gpus-per-proc 2 true
	[ "$(planned "$out" 0 gpus)" = 4,5 ]
	[ "$(planned "$out" 1 gpus)" = 6,7 ]
	[ "$(planned "$out" 1 changed)" = CUDA_VISIBLE_DEVICES=6,7 ]
	expect 0 env CUDA_VISIBLE_DEVICES=3,5 ddprun --dry-run \
		--nproc-per-node 2 --virtual-local-rank true
	[ "$(planned "$out" 1 gpus)" = 5 ]
	planned "$out" 1 added | grep -qx LOCAL_RANK=0
}

@test "GPUs are counted as CUDA shows them" {
	cat >nvml.c <<-'END'
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		int nvmlInit_v2(void) { return 0; }
		int nvmlShutdown(void) { return 0; }
		int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
		int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)
		{
			*d = (void *)(long)(i + 1);
			return 0;
		}
		int nvmlDeviceGetUUID(void *d, char *out, unsigned size)
		{
			snprintf(out, size, "GPU-%ldf3a", (long)d);
			return 0;
		}
		/* FAKE_MIG: a letter for each GPU, w whole, m MIG mode, i instance */
		static char kind(void *d)
		{
			const char *all = getenv("FAKE_MIG");
			return all && strlen(all) >= (long)d ? all[(long)d - 1] : 'w';
		}
		int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *later)
		{
			*now = *later = kind(d) != 'w';
			return 0;
		}
		int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n)
		{
			*n = 7;
			return 0;
		}
		int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **mig)
		{
			return kind(d) != 'i' || i != 3; /* NOT_FOUND */
		}
	END
	mkdir driver
	${CC:-gcc} -shared -fPIC -o driver/libnvidia-ml.so.1 nvml.c
	export LD_LIBRARY_PATH=$T/driver
	workers() { # LIST N: as many workers with --nproc-per-node gpu
		expect 0 env CUDA_VISIBLE_DEVICES="$1" ddprun --dry-run \
			--nproc-per-node gpu true
		[ "$(grep -c '^rank [0-9]' <<<"$out")" = "$2" ]
	}
	workers 0,1,2 3
	workers 2,GPU-1f3a 2
	# a UUID may be shortened, and an unknown one ends the list
	workers GPU-2,GPU-7f3a,GPU-3f3a 1
	# an entry that comes twice hides all
	expect 2 env CUDA_VISIBLE_DEVICES=0,1,0 ddprun --dry-run \
		--nproc-per-node gpu true
	has "$err" 'CUDA_VISIBLE_DEVICES hides all of them'
	# CUDA shows one instance of MIG, and then no whole GPU
	FAKE_MIG=wiw workers 0,1,2 1
	FAKE_MIG=wiw workers 0,2 2
	unset CUDA_VISIBLE_DEVICES
	whole() { # KINDS N
		FAKE_MIG=$1 expect 0 ddprun --dry-run --nproc-per-node gpu true
		[ "$(grep -c '^rank [0-9]' <<<"$out")" = "$2" ]
	}
	whole www 3
	whole wwi 1
	whole iii 1
	# one in MIG mode without instances is not shown
	whole wmw 2
	FAKE_MIG=mmm expect 2 ddprun --dry-run --nproc-per-node gpu true
	has "$err" 'all are in MIG mode and have no instances'
}

@test "with NVIDIA's GPUs, workers are on the NUMA nodes of their GPUs" {
	unset CUDA_VISIBLE_DEVICES
	command -v nvidia-smi >/dev/null || skip "no NVIDIA driver here"
	local buses bus node i=0
	buses=$(nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader)
	[ -n "$buses" ] || skip "no NVIDIA GPU here"
	expect 0 ddprun --dry-run --nproc-per-node gpu --cpu-bind node true
	for bus in $buses; do
		bus=${bus,,}
		node=$(<"/sys/bus/pci/devices/${bus#0000}/numa_node")
		if [ "$node" -ge 0 ]; then
			[ "$(planned "$out" $i memory)" = "NUMA node $node" ]
		fi
		i=$((i + 1))
	done
}

@test "a dry run shows where each worker's output would go" {
	expect 0 ddprun --dry-run --nproc-per-node 3 --log-dir "$T/logs" \
		--rdzv-id j --redirects 1:1,2:3 --tee 0:2 \
		--local-ranks-filter 0,1 true
	[ "$(planned "$out" 0 stdout)" = console ]
	[[ "$(planned "$out" 0 stderr)" = \
		"console, $T/logs/j_XXXXXX/attempt_0/0/stderr.log" ]]
	[[ "$(planned "$out" 1 stdout)" = \
		"$T/logs/j_XXXXXX/attempt_0/1/stdout.log" ]]
	[ "$(planned "$out" 1 stderr)" = console ]
	[[ "$(planned "$out" 2 stderr)" = \
		"$T/logs/j_XXXXXX/attempt_0/2/stderr.log" ]]
	[ ! -e logs ]
	expect 0 ddprun --dry-run --log-dir /dev/null --ranks-filter 1 true
	[ "$(planned "$out" 0 stdout)" = nowhere ]
}

@test "a dry run of what cannot be printed is an error" {
	local status=0
	ddprun --dry-run true >/dev/full 2>full.txt || status=$?
	[ $status = 71 ]
	has "$(<full.txt)" 'cannot print what would be started: No space left'
}

@test "a wrapper runs the program for the ranks that were named" {
	expect 0 ddprun --nproc-per-node 4 --wrap 'env WRAPPED=yes' \
		--wrap-ranks 1,3 sh -c 'echo "$RANK ${WRAPPED:-no}"'
	[ "$(sort <<<"$out")" = "[0] 0 no
[1] 1 yes
[2] 2 no
[3] 3 yes" ]
	expect 0 ddprun --nproc-per-node 2 --wrap 'env WRAPPED=yes' \
		sh -c 'echo "$WRAPPED"'
	[ "$(sort <<<"$out")" = "[0] yes
[1] yes" ]
}

@test "a wrapper is split as a shell does, and nothing in it is expanded" {
	expect 0 ddprun --wrap "sh -c 'echo \"\$1|\$2\"; shift; exec \"\$@\"' \
		sh a\ b\"\$HOME\"" echo 'one  two'
	[ "$out" = '[0] a b$HOME|'"$(type -P echo)"'
[0] one  two' ]
}

@test "a wrapper's exit code and signals are its worker's" {
	expect 7 ddprun --wrap "sh -c '\"\$@\"; exit 7' sh" false
	expect 137 ddprun --wrap "sh -c 'kill -9 \$\$'" true
	expect 0 ddprun --wrap "sh -c '\"\$@\" || true' sh" false
	expect 3 ddprun --wrap 'env A=1' sh -c 'exit 3'
}

@test "Python programs are wrapped with their interpreter" {
	command -v python3 >/dev/null || skip "no python3"
	cat >hello.py <<-'X'
		import os, sys
		print(os.environ["A"], sys.argv[1:])
	X
	expect 0 ddprun --wrap 'env A=1' hello.py --x '1 2'
	[ "$out" = "[0] 1 ['--x', '1 2']" ]
	expect 0 ddprun --wrap 'env A=1' -m hello --x
	[ "$out" = "[0] 1 ['--x']" ]
	expect 0 ddprun --nproc-per-node 2 --wrap 'env A=1' --wrap-ranks 0 \
		sh -c 'echo $1 ${A:-no}' sh '${local_rank}'
	[ "$(sort <<<"$out")" = "[0] 0 1
[1] 1 no" ]
	expect 0 ddprun --dry-run --wrap 'env A=1' hello.py
	has "$out" "^  argv     env 'A=1' /.*python3 -u hello.py$"
}

@test "workers run under gdb and valgrind" {
	local some=
	if command -v gdb >/dev/null &&
		gdb -nx -batch -ex run --args true >/dev/null 2>&1; then
		some=1
		expect 0 ddprun --nproc-per-node 2 --wrap-ranks 1 \
			--wrap 'gdb -nx -batch -ex run -ex "p 40 + 2" --args' \
			sh -c 'exit $((3 * RANK))'
		has "$out" '^\[1\] .*exited with code 03'
		has "$out" '^\[1\] \$1 = 42'
		lacks "$out" '^\[0\]'
	fi
	if command -v valgrind >/dev/null; then
		some=1
		expect 0 ddprun --wrap valgrind true
		has "$err" '^\[0\] .*ERROR SUMMARY: 0 errors'
	fi
	[ -n "$some" ] || skip "neither gdb nor valgrind is installed"
}
