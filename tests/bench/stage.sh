# stage.sh: --stage to 8 hosts (namespaces on a bridge, what each sends limited to
# STAGE_RATE, 1gbit), beside one copy of the same bytes over one such link; a plain
# chain of the hosts, which neither encrypts nor checks; 8 hosts that each copy from
# one server, as from a shared folder, where the server's link is the bottleneck; and
# Slurm's sbcast to the memory of 8 hosts. The bytes are random: zstd gains nothing.
# STAGE_MIB=1024, STAGE_HOSTS=8. The hosts' disks are this machine's memory, if it has
# enough. All hosts share its CPUs: their CPU time divided by the CPUs is the least
# time that 8 hosts can take here, which 8 machines would not have.
. "$here/bridge.sh"

stage_mib=${STAGE_MIB:-1024} stage_rate=${STAGE_RATE:-1gbit} stage_n=${STAGE_HOSTS:-8}

# Serves the file once to each of N clients, and one of them.
cat >"$work/serve.py" <<'END'
import os, socket, sys
path, n = sys.argv[1], int(sys.argv[2])
s = socket.create_server(("", 7000), backlog=64)
print("ready", flush=True)
children = []
for _ in range(n):
    c, _ = s.accept()
    if not os.fork():
        with open(path, "rb") as f:
            c.sendfile(f)
        os._exit(0)
    c.close()
for _ in range(n):
    os.wait()
END
cat >"$work/get.py" <<'END'
import socket, sys
c = socket.create_connection(("10.80.0.1", 7000))
with open(sys.argv[1], "wb") as f:
    b = bytearray(1 << 20)
    while n := c.recv_into(b):
        f.write(memoryview(b)[:n])
END

# Passes the file on while it comes: relay.py FROM FILE serves host TO, or none.
cat >"$work/relay.py" <<'END'
import socket, sys, threading
source, path, serves = sys.argv[1:]
listener = socket.create_server(("", 7001))
print("ready", flush=True)
above = below = None
if serves == "1":
    below = listener.accept()[0]
b = bytearray(1 << 20)
f = open(path, "rb" if source == "file" else "wb", buffering=0)
if source != "file":
    above = socket.create_connection((source, 7001))
while n := above.recv_into(b) if above else f.readinto(b):
    if above:
        f.write(memoryview(b)[:n])
    if below:
        below.sendall(memoryview(b)[:n])
END

# stage_plain FIRST LAST: seconds until the hosts have it from host 1
stage_plain() {
	mkfifo "$work/ready"
	on_bridge 1 python3 "$work/serve.py" "$work/source/file" $(($2 - $1 + 1)) \
		>"$work/ready" &
	server=$!
	read -r line <"$work/ready"
	rm "$work/ready"
	began=$(date +%s.%N)
	clients=
	for i in $(seq "$1" "$2"); do
		on_bridge "$i" python3 "$work/get.py" "$work/disk/$i.copy" &
		clients="$clients $!"
	done
	wait $clients
	date +%s.%N | awk -v b="$began" '{ print $1 - b }'
	wait $server
	rm -f "$work"/disk/*.copy
}

# The CPU seconds of all processes that this shell has waited for. `times` must not
# run in a pipe, whose shell has waited for none.
stage_cpu() {
	times >"$work/times"
	tail -n 1 "$work/times" | tr 'ms' '  ' |
		awk '{ printf "%.2f", $1 * 60 + $2 + $3 * 60 + $4 }'
}

# Appends the CPU seconds since $work/before to the file $1.
stage_spent() {
	stage_cpu >"$work/after"
	paste "$work/before" "$work/after" | awk '{ print $2 - $1 }' >>"$work/$1"
}

# Prints CPU seconds, what they are for each byte and host, and what they take here.
stage_print_cpu() {
	awk -v cpu="$1" -v one="$one" -v n="$stage_n" -v mib="$stage_mib" -v p="$(nproc)" \
		'BEGIN { printf "  CPU time of all hosts    %8.2f s   a byte, host %.2f ns; " \
			"on %d CPUs at least %.2f s, %.2f of one copy\n", cpu, \
			cpu * 1e9 / n / mib / 1048576, p, cpu / p, cpu / p / one }'
}

# Seconds from the start of the last ddprun to the end of the job; the CPU seconds of
# its processes go to the file cpu.
stage_ours() {
	stage_cpu >"$work/before"
	began=$(date +%s.%N)
	nodes=
	for i in $(seq 1 "$stage_n"); do
		mkdir "$work/disk/$i"
		TMPDIR=$work/disk/$i on_bridge "$i" ddprun --nnodes "$stage_n" --auth secret \
			--rdzv-endpoint 10.80.0.1:29400 \
			--stage "$work/source/file" true \
			2>"$work/err.$i" &
		nodes="$nodes $!"
	done
	for p in $nodes; do
		wait "$p" || head -n 3 "$work"/err.* >&2
	done
	date +%s.%N | awk -v b="$began" '{ print $1 - b }'
	stage_spent cpu
	cmp "$work/source/file" "$work/disk/$stage_n"/*/*/file
	rm -rf "$work"/disk/*
}

# stage_chain: seconds of a chain of relays, with no CPU time for cryptography; the
# first one, unlike that of --stage, does not copy the file for itself.
stage_chain() {
	stage_cpu >"$work/before"
	mkfifo "$work/ready"
	began=$(date +%s.%N)
	chain=
	for i in $(seq 1 "$stage_n"); do
		from=10.80.0.$((i - 1)) file=$work/disk/$i.copy serves=1
		[ "$i" != 1 ] || from=file file=$work/source/file
		[ "$i" != "$stage_n" ] || serves=0
		on_bridge "$i" python3 "$work/relay.py" $from "$file" $serves >"$work/ready" &
		chain="$chain $!"
		read -r line <"$work/ready"
	done
	rm "$work/ready"
	wait $chain
	date +%s.%N | awk -v b="$began" '{ print $1 - b }'
	stage_spent chain_cpu
	cmp "$work/source/file" "$work/disk/$stage_n.copy"
	rm -f "$work"/disk/*.copy
}

stage_sbcast() {
	have sbcast "Slurm" || return 0
	if bash "$here/sbcast_rounds.bash" "$work/source/file" "$stage_n" \
		"$stage_rate" "${STAGE_ROUNDS:-3}" "$work/sbcast" \
		2>"$work/sbcast.err"; then
		sbcast=$(median <"$work/sbcast")
		printf 'sbcast                     %8.2f s   /ours     %s\n' \
			"$sbcast" "$(ratio "$sbcast" "$ours")"
	else
		echo "no Slurm of one's own here, left out:" \
			"$(tail -n 1 "$work/sbcast.err")"
	fi
}

# The disks are in memory, if that has room for all copies and as much again.
stage_disk() {
	mkdir "$work/disk"
	room=$(awk '$1 == "MemAvailable:" { print int($2 / 2048) }' /proc/meminfo)
	[ $((stage_mib * (stage_n + 1))) -lt "$room" ] &&
		mount -t tmpfs -o size="$room"m none "$work/disk" 2>/dev/null
}

disks="in one folder"
! stage_disk || disks="in memory"
if bridge_up "$stage_n" "$stage_rate"; then
	mkdir "$work/source"
	head -c "${stage_mib}M" /dev/urandom >"$work/source/file"
	say "$stage_mib MiB to $stage_n hosts over links of $stage_rate; disks $disks;" \
		"$(nproc) CPUs in all; load average $(cut -d' ' -f1 /proc/loadavg)"
	r=0
	while [ $r -lt "${STAGE_ROUNDS:-3}" ]; do
		stage_plain 2 2 >>"$work/one"
		stage_ours >>"$work/ours"
		stage_chain >>"$work/chain"
		stage_plain 2 "$stage_n" >>"$work/each"
		r=$((r + 1))
	done
	one=$(median <"$work/one") ours=$(median <"$work/ours")
	each=$(median <"$work/each") chain=$(median <"$work/chain")
	printf 'one copy over one link     %8.2f s\n' "$one"
	printf 'ddprun --stage             %8.2f s   /one copy %s   goal: 1.40\n' \
		"$ours" "$(ratio "$ours" "$one")"
	stage_print_cpu "$(median <"$work/cpu")"
	printf 'plain chain, unencrypted   %8.2f s   /one copy %s\n' "$chain" \
		"$(ratio "$chain" "$one")"
	stage_print_cpu "$(median <"$work/chain_cpu")"
	printf 'each host from one server  %8.2f s   /ours     %s\n' "$each" \
		"$(ratio "$each" "$ours")"
	bridge_down
	stage_sbcast
fi
umount "$work/disk" 2>/dev/null || true
