# slurm_rounds.bash ROUNDS OUT: brings a Slurm of four nodes and their sshds up and
# writes a line "KIND MILLISECONDS" to OUT for each start of workers, the kinds
# interleaved. Fails, saying why last, where that cannot be.
set -eu
rounds=$1 result=$2
# what the tests' cluster needs of bats
BATS_FILE_TMPDIR=$(mktemp -d)
export BATS_FILE_TMPDIR BATS_RUN_TMPDIR=$BATS_FILE_TMPDIR BATS_ROOT_PID=$$ \
	BATS_TEST_NUMBER=0 BATS_TEST_COMPLETED=1 CLUSTER_NODES=4
exec 3>&2
. "$(dirname "$0")/../cluster/cluster.bash"

skip() {
	echo "$*" >&2
	exit 1
}

ssh_up() {
	local i
	mkdir -p "$T/ssh" /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f "$T/ssh/id"
	ssh-keygen -q -t ed25519 -N '' -f "$T/ssh/host"
	cat >"$T/ssh/config" <<-END
	IdentityFile $T/ssh/id
	IdentitiesOnly yes
	UserKnownHostsFile $T/ssh/known_hosts
	StrictHostKeyChecking yes
	END
	echo "* $(cut -d' ' -f1,2 "$T/ssh/host.pub")" >"$T/ssh/known_hosts"
	for ((i = 1; i <= CLUSTER_NODES; i++)); do
		start_on "h$i" "sshd$i" /usr/sbin/sshd -D -e -f /dev/null \
			-h "$T/ssh/host" -o "AuthorizedKeysFile=$T/ssh/id.pub" \
			-o StrictModes=no -o PermitRootLogin=yes -o UsePAM=no \
			-o PidFile=none
		await "$T/sshd$i.err" 'Server listening on 0' 20
	done
}

# What runs on the login node, in an allocation or outside: $1 is where, the rest
# are kinds.
write_rounds() {
	cat >rounds.sh <<-END
	where=\$1
	shift
	stamp() { # KIND WORKERS CMD...
		local kind=\$1 want=\$2 began
		shift 2
		: >"$T/stamps"
		began=\${EPOCHREALTIME/./}
		"\$@" "$O/bench/stamp" "$T/stamps" >"$T/last" 2>&1 </dev/null ||
			{ cat "$T/last" >&2; exit 1; }
		[ "\$(wc -l <"$T/stamps")" = "\$want" ] || exit 1
		sort -n "$T/stamps" | tail -n 1 | awk -v t="\$began" -v k="\$where\$kind" \\
			'{printf "%s %.3f\n", k, (\$1 - t) / 1000}' >>"$result"
	}
	mpi="mpirun.openmpi --allow-run-as-root --bind-to none --oversubscribe"
	for ((r = 0; r < $rounds; r++)); do
		stamp srun 4 srun -N 4 -n 4 --mpi=none
		stamp srun_ddprun 8 srun -N 4 -n 4 --mpi=none ddprun --nproc-per-node 2
		[ -z "\$where" ] || continue
		stamp ddprun 8 ddprun --nproc-per-node 2
		command -v mpirun.openmpi >/dev/null || continue
		stamp mpirun_over_Slurm 8 \$mpi --map-by ppr:2:node -np 8
		stamp mpirun_over_ssh 8 env -i PATH="\$PATH" HOME="$T" \\
			\$mpi --host h1:2,h2:2,h3:2,h4:2 --mca plm rsh \\
			--mca plm_rsh_args "-F $T/ssh/config" -np 8
	done
	END
}

trap '[ -z "${SLURM_CONF:-}" ] || cluster_down || true; rm -rf "$BATS_FILE_TMPDIR"' EXIT
cluster_up
[ ! -e "$CLUSTER/why" ] || skip "$(<"$CLUSTER/why")"
[ "$HOSTS" = namespaces ] || skip "namespaces are not allowed"
ssh_up
write_rounds
: >"$result"
DEADLINE=300
slurm 0 salloc -N 4 bash rounds.sh '' ||
	skip "$err"
slurm 0 bash rounds.sh job_ ||
	skip "$err"
