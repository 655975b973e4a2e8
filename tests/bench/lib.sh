# lib.sh: functions that the benchmarks share. tests/bench/run sources it.

ROUNDS=${ROUNDS:-7}
export LC_ALL=C
B=$O/bench

say() {
	printf '\n== %s\n' "$*"
}

# have COMMAND NAME: 0 if it is installed, else prints that once.
have() {
	command -v "$1" >/dev/null 2>&1 && return 0
	echo "not installed, left out: $2"
	return 1
}

# with_mpi NAME PROGRAM OUT: tests/bench/PROGRAM.c built with NAME's mpicc, where
# there is one with its headers; else prints what is missing.
with_mpi() {
	have "mpicc.$1" "$1 (lib$1-dev)" || return 1
	"mpicc.$1" -std=gnu11 -O2 -DWITH_MPI -o "$3" \
		"$here/$2.c" 2>"$work/mpicc.$1" && return 0
	echo "left out: $1, whose mpicc fails (is lib$1-dev there?):" \
		"$(head -n 1 "$work/mpicc.$1")"
	return 1
}

# Prints the python that has torch, or nothing.
torch_python() {
	for p in ${DDP_TEST_PYTHON:-} ${PYTHON:-} python3 /usr/bin/python3; do
		if "$p" -c 'import torch' 2>/dev/null; then
			echo "$p"
			return
		fi
	done
}

# torch_with_blas: the same, unless its dense products use the reference BLAS, which is
# ten times slower: beating that would prove nothing.
torch_with_blas() {
	p=$(torch_python)
	if [ -z "$p" ]; then
		echo "not installed, left out: PyTorch (python3-torch)" >&2
	elif "$p" -c 'import sys, torch
maps = open("/proc/self/maps").read()
sys.exit(not torch.backends.mkl.is_available() and
         not any(name in maps for name in ("openblas", "mkl", "blis")))'; then
		echo "$p"
	else
		echo "PyTorch has no fast BLAS here, left out; install" \
			"libopenblas0-pthread" >&2
	fi
}

median() {
	sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

# ratio A B: A/B with two digits
ratio() {
	awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "-" }'
}
