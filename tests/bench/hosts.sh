# hosts.sh: collectives over two hosts (namespaces, one cable between them), two
# ranks on each, beside Open MPI over TCP; then collectives and messages with
# --encrypt-data, beside the cipher's own speed.
. "$here/two_hosts.sh"

host_row() {
	sed -n "s|^\(\[0\] \)*$2 $3 out \([0-9.]*\) 0\$|\2|p" >>"$work/hosts.$1"
}

# Open MPI starts its daemon on the other host through this instead of ssh. It must see
# both hosts, so its processes only enter their networks and names. It cannot know that
# both share the CPUs: it gets the option to yield while it waits.
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

# Both hosts' cost of 64 MiB, in plain (0) and encrypted (1), and the cipher alone.
encrypted_round() {
	for e in 0 1; do
		DDP_ENCRYPT_DATA=$e both_hosts 1 "$O/bench/bench_encrypted" \
			2>"$work/hosts.err" >>"$work/hosts.cost.$e"
	done
	"$O/bench/bench_cipher" >>"$work/hosts.cipher"
}

host_rounds() {
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		for row in 'all_reduce 4' 'all_reduce 1048576' \
			'all_reduce 67108864'; do
			set -- $row
			both_hosts 2 "$O/bench/bench_collectives" $row \
				2>"$work/hosts.err" |
				host_row "ours.$2" $row
			DDP_ENCRYPT_DATA=1 both_hosts 2 \
				"$O/bench/bench_collectives" $row \
				2>"$work/hosts.err" |
				host_row "encrypted.$2" $row
			[ ! -x "$work/hosts_openmpi" ] ||
				mpi_hosts "$work/hosts_openmpi" $row \
					2>"$work/hosts.err" |
				host_row "openmpi.$2" $row
		done
		encrypted_round
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

# cost E OPERATION FIELD: the median over the rounds; 2 microseconds, 3 of CPU
cost() {
	sed 's|^\[0\] ||' "$work/hosts.cost.$1" | awk -v op="$2" -v f="$3" \
		'$1 == op { print $f }' | median
}

# encrypted_row OPERATION HOSTS SEAL OPEN: its CPU time, and the sum of its time in
# plain and of the cipher's, if HOSTS hosts encrypt all of it and as many decrypt it.
encrypted_row() {
	awk -v op="$1" -v n="$2" -v seal="$3" -v opens="$4" \
		-v wall0="$(cost 0 "$1" 2)" -v wall1="$(cost 1 "$1" 2)" \
		-v cpu0="$(cost 0 "$1" 3)" -v cpu1="$(cost 1 "$1" 3)" 'BEGIN {
		bytes = 67108864
		floor = cpu0 + n * (bytes / seal + bytes / opens) / 1000
		printf "%-10s %10d B   plain %.2f GB/s, CPU %.1f ms   " \
			"encrypted %.2f GB/s, CPU %.1f ms   plain and " \
			"cipher alone %.1f ms, %.2f of encrypted (goal: " \
			"0.90)\n", op, bytes, bytes / wall0 / 1000,
			cpu0 / 1000, bytes / wall1 / 1000, cpu1 / 1000,
			floor / 1000, floor / cpu1
	}'
}

encrypted_table() {
	seal=$(cut -d' ' -f2 "$work/hosts.cipher" | median)
	opens=$(cut -d' ' -f3 "$work/hosts.cipher" | median)
	say "the same hosts with --encrypt-data, one rank each; libsodium's own" \
		"$(head -n 1 "$work/hosts.cipher" | cut -d' ' -f1) encrypts" \
		"$seal GB/s and decrypts $opens GB/s on one CPU"
	for bytes in 4 1048576 67108864; do
		[ -s "$work/hosts.encrypted.$bytes" ] || continue
		printf 'all_reduce %10d B   encrypted, two ranks each %12.1f us\n' \
			$bytes "$(median <"$work/hosts.encrypted.$bytes")"
	done
	encrypted_row all_reduce 2 "$seal" "$opens"
	encrypted_row send/recv 1 "$seal" "$opens"
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
