# hosts.sh: collectives over two hosts (namespaces, one cable between them), two
# ranks on each, beside Open MPI over TCP; and these, and messages, with
# --encrypt-data, beside the cipher's own speed.
. "$here/two_hosts.sh"

host_row() {
	sed -n "s|^\(\[0\] \)*$2 $3 out \([0-9.]*\) 0\$|\2|p" >>"$work/hosts.$1"
}

# Open MPI starts its daemon on the other host through this, as through ssh. It
# must see both hosts, so its processes have their networks and names only. All
# share the CPUs, which it cannot know: it is told to yield while it waits.
write_agent() {
	cat >"$work/agent" <<END
#!/bin/sh
shift
exec nsenter --net=/proc/$pid_b2/ns/net --uts=/proc/$pid_b2/ns/uts sh -c "\$*"
END
	chmod +x "$work/agent"
}

mpi_hosts() {
	nsenter --net="/proc/$pid_b1/ns/net" --uts="/proc/$pid_b1/ns/uts" \
		timeout -k 1 120 mpirun.openmpi \
		--host 10.79.0.1:2,10.79.0.2:2 --bind-to none \
		--mca plm_rsh_agent "$work/agent" \
		--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
		--mca btl tcp,self,vader --mca mpi_yield_when_idle 1 -n 4 "$@" </dev/null
}

# A message from host to host, in plain (0) and encrypted (1), and the cipher alone.
message_round() {
	for e in 0 1; do
		DDP_ENCRYPT_DATA=$e both_hosts 1 "$O/tests/bench_collectives" \
			send/recv 67108864 2>"$work/hosts.err" |
			host_row "message.$e" send/recv 67108864
	done
	"$O/tests/bench_cipher" >>"$work/hosts.cipher"
}

host_rounds() {
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		for row in 'all_reduce 4' 'all_reduce 1048576' \
			'all_reduce 67108864'; do
			set -- $row
			both_hosts 2 "$O/tests/bench_collectives" $row \
				2>"$work/hosts.err" |
				host_row "ours.$2" $row
			DDP_ENCRYPT_DATA=1 both_hosts 2 \
				"$O/tests/bench_collectives" $row \
				2>"$work/hosts.err" |
				host_row "encrypted.$2" $row
			[ ! -x "$work/hosts_openmpi" ] ||
				mpi_hosts "$work/hosts_openmpi" $row \
					2>"$work/hosts.err" |
				host_row "openmpi.$2" $row
		done
		message_round
		r=$((r + 1))
	done
}

host_table() {
	say "two hosts, two ranks each, a veth between them, $(nproc) CPUs in all;" \
		"medians of $ROUNDS rounds;" \
		"load average $(cut -d' ' -f1 /proc/loadavg)"
	for bytes in 4 1048576 67108864; do
		[ -s "$work/hosts.ours.$bytes" ] || continue
		a=$(median <"$work/hosts.ours.$bytes") b=
		[ ! -s "$work/hosts.openmpi.$bytes" ] ||
			b=$(median <"$work/hosts.openmpi.$bytes")
		printf 'all_reduce %10d B %12.1f us' "$bytes" "$a"
		[ -z "$b" ] || printf '   Open MPI %12.1f us   Open MPI/ours %s' \
			"$b" "$(ratio "$b" "$a")"
		[ "$bytes" != 67108864 ] || printf '   goal: 1.2'
		echo
	done
}

# encrypted_row NAME BYTES PLAIN ENCRYPTED SEAL OPEN: files of us. At the
# cipher's speed an all_reduce takes what it does in plain, and as long as a host
# needs to encrypt all of it and to decrypt as much; of a message one host does the
# one while the other does the other.
encrypted_row() {
	[ -s "$work/$3" ] && [ -s "$work/$4" ] || return 0
	awk -v name="$1" -v bytes="$2" -v plain="$(median <"$work/$3")" \
		-v ours="$(median <"$work/$4")" -v seal="$5" -v opens="$6" 'BEGIN {
		s = bytes / seal / 1000
		o = bytes / opens / 1000
		floor = plain + (name == "all_reduce" ? s + o : s > o ? s : o)
		printf "%-10s %10d B   plain %.1f us   encrypted %.1f us", \
			name, bytes, plain, ours
		if (bytes > 1000)
			printf "; %.2f, %.2f GB/s   at the cipher'"'"'s speed" \
				" %.2f GB/s, of which %.2f",
				bytes / plain / 1000, bytes / ours / 1000,
				bytes / floor / 1000, floor / ours
		if (bytes == 67108864)
			printf "   goal: 0.90"
		print ""
	}'
}

encrypted_table() {
	seal=$(cut -d' ' -f2 "$work/hosts.cipher" | median)
	opens=$(cut -d' ' -f3 "$work/hosts.cipher" | median)
	say "the same with --encrypt-data; libsodium's own" \
		"$(head -n 1 "$work/hosts.cipher" | cut -d' ' -f1) encrypts" \
		"$seal GB/s and decrypts $opens GB/s on one CPU"
	for bytes in 4 1048576 67108864; do
		encrypted_row all_reduce $bytes "hosts.ours.$bytes" \
			"hosts.encrypted.$bytes" "$seal" "$opens"
	done
	encrypted_row send/recv 67108864 hosts.message.0 hosts.message.1 \
		"$seal" "$opens"
}

bench_hosts() {
	two_hosts_up || return 0
	with_mpi openmpi bench_collectives "$work/hosts_openmpi" || true
	write_agent
	host_rounds
	host_table
	encrypted_table
	two_hosts_down
}
bench_hosts
