# Warnings of programs whose processes would be worlds of one, and the variables that
# mislead them.
# covers: launcher/plan/mpi_program.c launcher/preload/mpi4py.c
# covers: launcher/plan/lone_script.c launcher/plan/script_modules.c launcher/plan/framework.c launcher/config/preflight.c
load ../lib
load ../mpich

# A program that needs LIBRARY, which has nothing in it.
link_with() { # LIBRARY
	echo 'int nothing(void) { return 0; }' >"$T/l.c"
	echo 'int nothing(void); int main(void) { return nothing(); }' >"$T/p.c"
	cc -shared -fPIC -Wl,-soname,"$1" -o "$T/$1" "$T/l.c"
	cc -o "$T/prog" "$T/p.c" "$T/$1" -Wl,-rpath,"$T"
}

@test "ddprun warns once if N MPI processes would be N worlds of one" {
	link_with libmpi.so.20
	expect 0 ddprun --nproc-per-node 3 "$T/prog"
	has "$err" "^ddprun: warning: $T/prog is an MPI program \(it needs libmpi\.so\.20\), and its 3 processes are 3 MPI worlds of one process: ddprun does not know whether it starts up by PMI-1 or PMIx; try --mpi pmi or --mpi pmix, or start it with mpirun or srun"
	[ "$(grep -c 'MPI program' <<<"$err")" = 1 ]
	expect 0 ddprun --mpi none --nproc-per-node 2 "$T/prog"
	[ -z "$err" ]
	link_with libmpi.so.12
	expect 0 ddprun --nproc-per-node 2 "$T/prog"
	[ -z "$err" ]
}

@test "a program that contains MPICH is served, unless it has been stripped" {
	static_mpich_or_skip
	cat >m.c <<-'E'
		#include <mpi.h>
		#include <stdio.h>

		int main(int argc, char **argv)
		{
			int n, sum, one = 1;

			MPI_Init(&argc, &argv);
			MPI_Comm_size(MPI_COMM_WORLD, &n);
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			printf("%d of %d\n", sum, n);
			return MPI_Finalize();
		}
	E
	static_mpich -o m m.c
	! readelf -d m | grep libmpi
	expect 0 ddprun --nproc-per-node 3 ./m
	[ "$(grep -c '3 of 3$' <<<"$out")" = 3 ]
	[ -z "$err" ]
	strip m
	expect 0 ddprun --nproc-per-node 3 ./m
	[ "$(grep -c '1 of 1$' <<<"$out")" = 3 ]
	expect 0 ddprun --mpi auto --nproc-per-node 3 ./m
	has "$err" 'warning: ./m has no MPI library that ddprun can see'
}

@test "one MPI process is a world of one, and causes no warning" {
	link_with libmpi.so.20
	expect 0 ddprun "$T/prog"
	! grep -q 'MPI program' <<<"$err"
}

@test "a program that needs no MPI library causes no warning" {
	link_with libmpi_tools.so.1
	expect 0 ddprun --nproc-per-node 2 "$T/prog"
	! grep -q 'MPI program' <<<"$err"
}

# Their calls come after the exit: they need not be installed here.
@test "a script that meets by JAX, TensorFlow, Paddle or mpi4py gets a line that says how" {
	local ends='import sys; sys.exit(0)'
	printf '%s\n' "$ends" 'from mpi4py import MPI' >m.py
	printf '%s\n' "$ends" 'MultiWorkerMirroredStrategy()' >t.py
	printf '%s\n' '#!/usr/bin/env python3' "$ends" 'import paddle' 'init_parallel_env()' >p.py
	printf '%s\n' "$ends" 'jax.distributed.initialize()' >j.py
	chmod +x p.py
	local mpi='imports mpi4py, which ddprun does not serve unless asked: its 2 processes are 2 worlds of one; give --mpi pmix \(mpi4py on Open MPI\), --mpi pmi \(on MPICH or Intel MPI\), or --mpi none'
	for program in m.py 'python3 -u m.py'; do
		expect 0 ddprun --nproc-per-node 2 $program
		has "$err" "^ddprun: warning: m\.py $mpi"
		[ "$(wc -l <<<"$err")" = 1 ]
	done
	expect 0 ddprun -n 1 true : -n 1 m.py
	has "$err" "^ddprun: warning: m\.py $mpi"
	expect 0 ddprun --nproc-per-node 2 --mpi none m.py
	[ -z "$err" ]
	expect 0 ddprun m.py
	[ -z "$err" ]
	expect 0 ddprun --nproc-per-node 2 t.py
	has "$err" '^ddprun: warning: t\.py creates a MultiWorkerMirroredStrategy without TF_CONFIG: its 2 processes are 2 worlds of one; give --env tf'
	expect 0 ddprun --nproc-per-node 2 ./p.py
	has "$err" '^ddprun: warning: \./p\.py starts paddle\.distributed .*; give --env paddle'
	expect 0 ddprun --nproc-per-node 2 --env tf t.py
	[ -z "$err" ]
	expect 0 ddprun --nproc-per-node 2 j.py # JAX reports that error itself
	[ -z "$err" ]
	# with Slurm's job ID, ddprun itself would take it for a job of Slurm
	SLURM_PROCID=0 expect 0 ddprun --nproc-per-node 2 j.py
	has "$err" "^ddprun: warning: j\.py calls jax\.distributed\.initialize\(\), which reads this Slurm step's rank: its 2 processes are 2 worlds of one; give --env jax"
}

# An mpi4py whose extension needs LIBRARY. The scripts exit before they import it.
mpi4py_with() { # LIBRARY
	link_with "$1"
	mkdir -p mpi4py
	: >mpi4py/__init__.py
	cc -shared -fPIC -o mpi4py/MPI.so "$T/p.c" "$T/$1" -Wl,-rpath,"$T"
}

@test "ranks that import mpi4py are served by the protocol of its library" {
	ldconfig -p | grep -q 'libpmix\.so\.2 ' || skip "libpmix is not installed (libpmix2)"
	local shows='import os; print("PMI", os.environ.get("PMI_RANK"), "PMIx", os.environ.get("PMIX_RANK"), flush=True); os._exit(0)'
	mkdir beside
	printf '%s\n' "$shows" 'from mpi4py import MPI' >m.py
	printf '%s\n' "$shows" 'import sys, beside.one' >far.py
	: >beside/__init__.py
	printf '%s\n' 'from . import two' >beside/one.py
	printf '%s\n' 'from mpi4py import MPI' >beside/two.py
	for program in m.py 'python3 -u m.py' 'python3 -m mpi4py m.py' far.py; do
		mpi4py_with libmpi.so.40
		cp m.py mpi4py/__main__.py
		expect 0 ddprun --nproc-per-node 2 $program
		[ "$(sort <<<"$out")" = $'[0] PMI None PMIx 0\n[1] PMI None PMIx 1' ]
		[ -z "$err" ]
		mpi4py_with libmpi.so.12
		expect 0 ddprun --nproc-per-node 2 $program
		[ "$(sort <<<"$out")" = $'[0] PMI 0 PMIx None\n[1] PMI 1 PMIx None' ]
		[ -z "$err" ]
	done
	expect 0 ddprun --nproc-per-node 2 --mpi none m.py
	[ "$(sort <<<"$out")" = $'[0] PMI None PMIx None\n[1] PMI None PMIx None' ]
	[ -z "$err" ]
	# two programs have one world
	expect 0 ddprun -n 1 m.py : -n 1 far.py
	[ "$(sort <<<"$out")" = $'[0] PMI 0 PMIx None\n[1] PMI 1 PMIx None' ]
}

@test "a script that imports mpi4py for some ranks is not served, and ddprun warns" {
	mpi4py_with libmpi.so.12
	printf '%s\n' 'import os; print(os.environ.get("PMI_RANK"), flush=True)' \
		'if os.environ["RANK"] == "2":' '    from mpi4py import MPI' >m.py
	echo 'import m' >far.py
	for program in m.py far.py; do
		expect 0 ddprun --nproc-per-node 2 $program
		[ "$(sort <<<"$out")" = $'[0] None\n[1] None' ]
		has "$err" "^ddprun: warning: $program imports mpi4py, which ddprun does not serve unless"
	done
}

@test "an interpreter that does not answer about mpi4py is left alone" {
	printf '%s\n' '#!/bin/sh' '[ "$1" != -c ] || exec sleep 1000' 'exec python3 "$@"' >python
	chmod +x python
	printf '%s\n' 'import sys; sys.exit(0)' 'from mpi4py import MPI' >m.py
	expect 0 ddprun --nproc-per-node 2 ./python m.py
	has "$err" '^ddprun: warning: m\.py imports mpi4py'
}

@test "python3 -m mpi4py gets that line as well" {
	mkdir mpi4py
	echo 'print("ran")' >mpi4py/__main__.py
	: >mpi4py/__init__.py
	expect 0 ddprun --nproc-per-node 2 python3 -m mpi4py x.py
	[ "$(sort <<<"$out")" = $'[0] ran\n[1] ran' ]
	has "$err" '^ddprun: warning: python3 -m mpi4py imports mpi4py, which ddprun does not serve'
}

show='echo "${TF_CONFIG-none} ${PADDLE_TRAINER_ID-none} ${HOROVOD_GLOO_IFACE-none}"'

@test "variables of another job are hidden from several workers, and ddprun reports it" {
	export TF_CONFIG='{"task": {"index": 0}}' PADDLE_TRAINER_ID=0 HOROVOD_GLOO_IFACE=lo
	expect 0 ddprun --nproc-per-node 2 sh -c "$show"
	[ "$(grep -c 'none none none' <<<"$out")" = 2 ]
	[ "$(grep -c 'not passed on to the workers: all 2 of this node' <<<"$err")" = 1 ]
	has "$err" 'warning: .*TF_CONFIG'
	has "$err" 'warning: .*PADDLE_TRAINER_ID'
	expect 0 ddprun --nproc-per-node 2 --dry-run sh -c "$show"
	has "$out" '^  removed  TF_CONFIG$'
}

@test "a single worker gets TF_CONFIG without a warning" {
	export TF_CONFIG=mine
	expect 0 ddprun sh -c "$show"
	[ "$out" = "[0] mine none none" ]
	[ -z "$err" ]
}

@test "one worker on each node gets its ddprun's TF_CONFIG, with a warning" {
	local port name both
	port=$(w_port free)
	for name in a b; do
		TF_CONFIG="place-$name" start $name ddprun --nnodes 2 \
			--rdzv-endpoint "127.0.0.1:$port" sh -c "$show"
	done
	finish a
	both=$out$'\n'
	finish b
	both+=$out
	[ "$(sed 's/^\[[01]\] //; s/ .*//' <<<"$both" | sort)" = $'place-a\nplace-b' ]
	[ "$(cat a.err b.err | grep -c 'warning: TF_CONFIG is passed on to the workers')" = 1 ]
}
