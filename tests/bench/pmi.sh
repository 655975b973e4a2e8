# pmi.sh: PMI-1's exchange of 1,024 to 4,096 simulated ranks on 64 nodes of this host: CPU
# time of the server, and what it writes, between the ranks' first command and the end of
# their second barrier. Beside it hydra's mpiexec with 64 proxies; it encrypts nothing, as
# ddprdzv with --auth none. Goal: linear in ranks.

PMI_NODES=64

# pmi_server AUTH: its pid in server, its address in at
pmi_server() {
	rm -f "$work/server"
	"$O/ddprdzv" --auth "$1" --listen 127.0.0.1:0 >"$work/server" 2>&1 &
	server=$!
	timeout 20 tail -n +1 -F "$work/server" 2>/dev/null |
		grep -q -m 1 'listening on'
	at=$(sed -n 's/.*listening on //p' "$work/server")
}

# pmi_job RANKS AUTH: the line of rank 0 under ddprun
pmi_job() {
	pmi_server "$2"
	agents=
	for i in $(seq $PMI_NODES); do
		WATCH_PID=$server "$O/ddprun" --mpi pmi --nnodes $PMI_NODES --auth "$2" \
			--rdzv-endpoint "$at" --nproc-per-node $(($1 / PMI_NODES)) \
			--log-line-prefix-template '' "$B/pmi_rank" >"$work/out.$i" 2>&1 &
		agents="$agents $!"
	done
	for pid in $agents; do
		wait "$pid" || cat "$work"/out.*
	done
	kill $server
	wait $server 2>/dev/null || true
	# without what ddprun says of ranks that end late
	grep -h '^[0-9]' "$work"/out.*
}

# pmi_hydra RANKS: the same under hydra
pmi_hydra() {
	sh -c 'export WATCH_PID=$$; exec mpiexec.hydra "$@"' - -launcher fork \
		-hosts "$(seq -s , -f '127.0.0.%g' $PMI_NODES)" \
		-ppn $(($1 / PMI_NODES)) -n "$1" "$B/pmi_rank"
}

# pmi_row NAME COMMAND [AUTH]: medians for each number of ranks
pmi_row() {
	for n in 1024 2048 4096; do
		for r in $(seq "$ROUNDS"); do
			$2 $n ${3:-}
		done >"$work/$2.$n"
		printf '%-24s %6d %9.1f ms %7.2f us a rank %8.2f MiB %7.2f KiB a rank\n' "$1" $n \
			$(awk -v n=$n '{ print $1, $2 }' "$work/$2.$n" | sort -g |
				awk -v n=$n '{ ms[NR] = $1; mib[NR] = $2 } END {
				m = int((NR + 1) / 2)
				print ms[m], ms[m] * 1000 / n, mib[m], mib[m] * 1024 / n }')
	done
}

bench_pmi() {
	say "PMI-1: puts, a barrier, gets, a barrier: the server's CPU time and bytes, $PMI_NODES nodes"
	export DDP_TOKEN=sixteen-bytes-and-more
	pmi_row ddprdzv pmi_job secret
	pmi_row 'ddprdzv, --auth none' pmi_job none
	have mpiexec.hydra "hydra (mpich)" && pmi_row hydra pmi_hydra
}
bench_pmi
