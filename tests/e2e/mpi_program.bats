# Covers MPI programs under ddprun: the warning, and the variables that mislead them.
load ../lib

# A program that needs LIBRARY, which has nothing in it.
link_with() { # LIBRARY
	echo 'int nothing(void) { return 0; }' >"$T/l.c"
	echo 'int nothing(void); int main(void) { return nothing(); }' >"$T/p.c"
	cc -shared -fPIC -Wl,-soname,"$1" -o "$T/$1" "$T/l.c"
	cc -o "$T/prog" "$T/p.c" "$T/$1" -Wl,-rpath,"$T"
}

@test "ddprun warns once if N MPI processes would be N worlds of one" {
	link_with libmpi.so.12
	expect 0 ddprun --nproc-per-node 3 "$T/prog"
	has "$err" "^ddprun: warning: $T/prog is an MPI program \(it needs libmpi\.so\.12\), but ddprun does not support MPI: its 3 processes are 3 MPI worlds of one process; start it with mpirun or srun instead"
	[ "$(grep -c 'MPI program' <<<"$err")" = 1 ]
	link_with libmpi.so.40
	expect 0 ddprun --nproc-per-node 2 "$T/prog"
	has "$err" 'it needs libmpi\.so\.40'
}

@test "one MPI process is a world of one, and causes no warning" {
	link_with libmpi.so.12
	expect 0 ddprun "$T/prog"
	! grep -q 'MPI program' <<<"$err"
}

@test "a program that needs no MPI library causes no warning" {
	link_with libmpi_tools.so.1
	expect 0 ddprun --nproc-per-node 2 "$T/prog"
	! grep -q 'MPI program' <<<"$err"
}

@test "the MPI world of a surrounding job is hidden from workers" {
	export TF_CONFIG='{"task": {"index": 0}}' PADDLE_TRAINER_ID=0 HOROVOD_GLOO_IFACE=lo
	expect 0 ddprun --nproc-per-node 2 sh -c 'echo "${TF_CONFIG-none} ${PADDLE_TRAINER_ID-none} ${HOROVOD_GLOO_IFACE-none}"'
	[ "$(grep -c 'none none none' <<<"$out")" = 2 ]
}
