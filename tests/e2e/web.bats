# Misuse of the port for health and metrics: other protocols, slow and endless
# requests, unknown methods and paths, and hundreds of scrapes. The server's jobs
# notice nothing.
# covers: rendezvous/net rendezvous/daemon
load ../lib

setup() {
	lib_setup
	start server ddprdzv --listen 127.0.0.1:0 --metrics-listen 0 \
		--heartbeat-timeout 600
	await server.err ' listening on'
	at=${line##* }
	await server.err ' health and metrics at http://127.0.0.1:([0-9]+)/'
	web=$(grep -oE '[0-9]+/$' <<<"$line")
	web=${web%/}
	mkfifo a.in
	start a bash -c 'exec rdzv_client "$@" <>a.in' . agent "$at" a 1 a 1 -1 0
	await a.out '^START'
}

# The job exists, and the server answers.
fine() {
	echo ping 1<>a.in
	await a.out PONG
	rdzv_client do "$at" a 0 0 set k v
	[ "$(ask 'GET /health HTTP/1.1\r\nHost: x\r\n\r\n' | tail -n 1)" = ok ]
}

# ask BYTES: what is answered to these (as printf has them), until the end; the
# server may end it before it has read all of them
ask() {
	printf "$1" | python3 -c 'import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
try:
	s.sendall(sys.stdin.buffer.read())
	while b := s.recv(65536):
		sys.stdout.buffer.write(b.replace(b"\r", b""))
except ConnectionError:
	pass' "$web"
}

@test "unknown methods and paths are refused, and HEAD has no body" {
	local get
	for method in POST PUT DELETE OPTIONS BREW; do
		get=$(ask "$method /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
		has "$get" '^HTTP/1.1 405 '
	done
	get=$(ask 'HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n')
	has "$get" '^HTTP/1.1 200 '
	has "$get" '^Content-Length: 3$'
	[ "$(grep -c '^ok$' <<<"$get")" = 0 ]
	for path in / /health/ /health%%2f /%%00 /../metrics '/metrics\\' \
		"/$(printf 'x%.0s' {1..2000})" /gr%%C3%%BC%%C3%%9Fe //metrics; do
		get=$(ask "GET $path HTTP/1.1\r\nHost: x\r\n\r\n")
		has "$get" '^HTTP/1.1 404 '
	done
	has "$(ask 'GET /metrics?a=b HTTP/1.0\r\n\r\n')" '^ddprdzv_jobs'
	fine
}

@test "connections that are not HTTP are closed, and do no harm" {
	ask "GET /$(printf 'y%.0s' {1..70000}) HTTP/1.1\r\n\r\n" >three
	ask 'GET /health HTTP/9.9\r\n\r\n' >four
	ask 'GET\r\n\r\n' >five
	ask 'POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx' >six
	ask 'POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n' >seven
	fine
	for i in three four five six seven; do
		[ "$(grep -c ddprdzv_ $i)" = 0 ]
	done
}

# Sixteen may connect: they would keep all others out for ever.
@test "clients that send a byte now and then are closed after ten seconds" {
	cat >dribble.py <<-'EOF'
		import select, socket, sys, time
		all = [socket.create_connection(("127.0.0.1", int(sys.argv[1])))
		       for i in range(16)]
		began = time.monotonic()
		while all:
		    assert time.monotonic() - began < 60
		    for n, s in enumerate(all[:]):
		        try:
		            s.send([b"G", b"\0", b"\r\n", b"DDPR\3"][n % 4])
		            ended = s in select.select(all, [], [], 0.05)[0]
		        except ConnectionError:
		            ended = True
		        if ended:
		            all.remove(s)
		assert time.monotonic() - began > 9
	EOF
	expect 0 python3 dribble.py "$web"
	fine
}

@test "silent connections delay no health check" {
	cat >idle.py <<-'EOF'
		import socket, sys
		at = "127.0.0.1", int(sys.argv[1])
		idle = [socket.create_connection(at) for i in range(40)]
		for i in range(20):
		    s = socket.create_connection(at)
		    s.settimeout(5) # half of what each of them may stay
		    s.sendall(b"GET /health HTTP/1.0\r\n\r\n")
		    assert b" 200 " in s.recv(100)
		    s.close()
		print("fine")
	EOF
	expect 0 python3 idle.py "$web"
	[ "$out" = fine ]
	fine
}

@test "hundreds of scrapes, some incomplete, leave nothing behind" {
	[ -z "${SAN:-}" ] || skip "what is freed is kept for a while there"
	cat >scrape.py <<-'EOF'
		import http.client, os, socket, sys
		port, pid, n = map(int, sys.argv[1:])
		def there_is():
		    rss = int(open(f"/proc/{pid}/statm").read().split()[1])
		    return rss * 4096, len(os.listdir(f"/proc/{pid}/fd"))
		for i in range(n):
		    if i == 100:
		        memory, fds = there_is()
		    if i % 10 == 0:
		        s = socket.create_connection(("127.0.0.1", port))
		        s.sendall(b"GET /metrics HTTP/1.1\r\nHos")
		        s.close()
		    c = http.client.HTTPConnection("127.0.0.1", port)
		    c.request("GET", "/metrics")
		    assert b"ddprdzv_jobs" in c.getresponse().read()
		    c.close()
		now, fds_now = there_is()
		assert now < memory + (1 << 20), (memory, now)
		assert fds_now < fds + 16, (fds, fds_now)
		print("fine")
	EOF
	expect 0 python3 scrape.py "$web" "${pid[server]}" 500
	[ "$out" = fine ]
	fine
}

@test "promtool finds nothing to mend in the metrics of a job with a hostile name" {
	command -v promtool >/dev/null || skip "no promtool (Debian's prometheus)"
	mkfifo go
	start job ddprun --rdzv-endpoint "$at" --rdzv-id $'a"\\ <b>{}' sh -c 'echo up; read _ <go'
	await job.out up
	curl -s "http://127.0.0.1:$web/metrics" >metrics
	has "$(<metrics)" '^ddprdzv_job_workers\{job="a'
	promtool check metrics <metrics >found 2>&1
	[ ! -s found ]
	echo >go
	finish job
}
