# sbcast_rounds.bash FILE HOSTS RATE ROUNDS OUT: brings a Slurm of HOSTS nodes up, whose
# links send at most RATE, and writes a line to OUT for each copy of FILE with sbcast
# from the login host to the memory of all nodes: the seconds it took. Fails, saying
# why last, where that cannot be.
set -eu
file=$1 nodes=$2 rate=$3 rounds=$4 result=$5
# what the tests' cluster needs of bats
BATS_FILE_TMPDIR=$(mktemp -d)
export BATS_FILE_TMPDIR BATS_RUN_TMPDIR=$BATS_FILE_TMPDIR BATS_ROOT_PID=$$ \
	BATS_TEST_NUMBER=0 \
	BATS_TEST_COMPLETED=1 CLUSTER_NODES=$nodes
exec 3>&2
. "$(dirname "$0")/../cluster/cluster.bash"

skip() {
	echo "$*" >&2
	exit 1
}

trap '[ -z "${SLURM_CONF:-}" ] || cluster_down || true; rm -rf "$BATS_FILE_TMPDIR"' EXIT
command -v sbcast >/dev/null || skip "sbcast is missing"
cluster_up
[ ! -e "$CLUSTER/why" ] || skip "$(<"$CLUSTER/why")"
[ "$HOSTS" = namespaces ] || skip "namespaces are not allowed"
for ((i = 1; i <= nodes + 1; i++)); do
	in_net "h$i" tc qdisc add dev eth0 root tbf rate "$rate" burst 1mb latency 50ms
done
# Every host has a /dev/shm of its own. With sbcast's own block size, nodes beyond such
# links do not answer in time.
cat >rounds.sh <<-END
for ((r = 0; r < $rounds; r++)); do
	began=\${EPOCHREALTIME/./}
	sbcast -f -s 256k -F 2 -t 300 "$file" /dev/shm/copy || exit 1
	awk -v t="\$began" -v now="\${EPOCHREALTIME/./}" \\
		'BEGIN {printf "%.3f\n", (now - t) / 1e6}' >>"$result"
done
srun -N $nodes --mpi=none cmp "$file" /dev/shm/copy
END
: >"$result"
DEADLINE=1800
slurm 0 salloc -N "$nodes" bash rounds.sh || skip "$err"
