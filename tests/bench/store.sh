# store.sh: the server's CPU time for an operation of the store, ours in both of
# its protocols, PyTorch's TCPStore and redis, each beside a bare epoll echo server
# with the same message sizes: 64 and 1,000 clients with one pending request each, then
# pipelined. Servers run on CPU 0, the load on CPU 1.

say "store: server CPU per operation against an epoll echo (goal 1.15)"

# store_server NAME COMMAND...: on CPU 0; its pid in store_pid
store_server() {
	name=$1
	shift
	taskset -c 0 "$@" >"$work/$name.out" 2>&1 &
	store_pid=$!
}

# store_await FILE PATTERN: waits for a server's line that it listens
store_await() {
	timeout 20 tail -n +1 -F "$1" 2>/dev/null | grep -q -m 1 "$2"
}

store_server ddprdzv "$O/ddprdzv" --auth none --listen 127.0.0.1:0
store_ours=$store_pid
store_await "$work/ddprdzv.out" 'listening on'
at=$(sed -n 's/.*listening on //p' "$work/ddprdzv.out")
store_all=ddprdzv=$at/$store_ours
store_pids=$store_ours

py=$(torch_python)
if [ -n "$py" ]; then
	store_server tcpstore "$py" -c 'import signal, torch.distributed as d
s = d.TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False)
print("listening on 127.0.0.1:%d version %s" % (s.port, d.__file__), flush=True)
signal.pause()'
	store_pids="$store_pids $store_pid"
	store_await "$work/tcpstore.out" 'listening on'
	case $("$py" -c 'import torch; print(torch.__version__)') in
	1.*) at=$(sed -n 's/.*listening on \([^ ]*\).*/\1/p' \
		"$work/tcpstore.out")
		store_all="$store_all tcpstore=$at/$store_pid" ;;
	*) echo "left out: TCPStore (this needs that of PyTorch 1.13)" ;;
	esac
else
	echo "not installed, left out: PyTorch's TCPStore (python3-torch)"
fi
if have redis-server "redis (redis-server)"; then
	store_server redis redis-server --port 29379 --bind 127.0.0.1 \
		--save "" --appendonly no --daemonize no --maxclients 4000
	store_pids="$store_pids $store_pid"
	store_await "$work/redis.out" 'eady to accept'
	store_all="$store_all redis=127.0.0.1:29379/$store_pid"
fi

for n in 64 1000; do
	# shellcheck disable=SC2086
	DDP_AUTH=none "$O/bench/bench_store" "$ROUNDS" 150 $n $store_all
done
# the same with a proof, hence encrypted
export DDP_TOKEN=sixteen-bytes-and-more
store_server encrypted "$O/ddprdzv" --auth secret --listen 127.0.0.1:0
store_pids="$store_pids $store_pid"
store_await "$work/encrypted.out" 'listening on'
store_keys=ddprdzv=$(sed -n 's/.*listening on //p' "$work/encrypted.out")/$store_pid
say "store: encrypted, against the same echo (goal 1.3)"
for n in 64 1000; do
	"$O/bench/bench_store" "$ROUNDS" 150 $n "$store_keys"
done
say "store: encrypted, 128 requests at a time on 8 connections"
"$O/bench/bench_store" pipelined "$ROUNDS" 150 "$store_keys"
unset DDP_TOKEN
say "store: 128 requests at a time on 8 connections (goal 1 M ops/s a core)"
DDP_AUTH=none "$O/bench/bench_store" pipelined "$ROUNDS" 150 "${store_all%% *}"
# shellcheck disable=SC2086
kill $store_pids
wait $store_pids 2>/dev/null || true
