# The page of a server: which requests it answers, what it shows, and how it bears clients
# that misbehave; then the page in a browser.
# covers: rendezvous/web rendezvous/status rendezvous/net/http_server.c rendezvous/query/dump.c launcher/membership/server_supervisor.c
load ../lib

# begin_server [OPTION...]: a server with a page, whose URL is in $url
begin_server() {
	start server ddprdzv --listen 127.0.0.1:0 --web 0 --heartbeat-timeout 600 "$@"
	await server.err ' listening on'
	at=${line##* }
	await_url server.err
}

await_url() {
	await "$1" 'the page is at (http://[^ ]+)'
	url=${line##* }
}

# begin_job NAME [HOST [RESTARTS]]: a job of one node with two workers, or WORKERS
begin_job() {
	mkfifo "$T/agent.in"
	start agent bash -c 'exec rdzv_client "$@" <>"$0"' "$T/agent.in" \
		agent "$at" "$1" "${WORKERS:-2}" a 1 -1 "${3:-0}" 0 600000 default "${2:-h1}"
	await agent.out '^START'
}

# try: a Python program, in which `page` is the page at $url
try() {
	{
		cat <<-EOF
			import sys
			sys.path.insert(0, "$BATS_TEST_DIRNAME")
			from page_client import *
			page = Page("$url")
		EOF
		cat
	} >try.py
	expect 0 python3 try.py "$@"
}

browser_or_skip() {
	command -v chromedriver >/dev/null && command -v chromium >/dev/null ||
		skip "no chromium and chromedriver (deps.sh browser)"
	[ -z "${SAN:-}" ] || skip "the browser is not what is tested there"
	export HOME=$T # its crash reporter and caches
}

@test "each request needs the token, the cookie for it, or a bearer token" {
	begin_server
	try <<-'EOF'
		for path in ("/", "/page.js", "/page.css", "/api/state", "/api/dump?job=a&id=1",
		             "/api/output?job=a&rank=0"):
		    assert page.get(path, token=False).status == 401, path
		    assert page.get(path, Authorization="Bearer x").status == 401
		    assert page.get(path, token=False, Cookie="ddprun-1=x").status == 401
		for wrong in ("", "x", page.token[:-1], page.token + "0", "0" * 32):
		    r = page.get("/?token=" + wrong, token=False)
		    assert r.status == 403 and not r.getheader("Set-Cookie"), wrong
		# a token in the URL is for the page alone
		assert page.get("/api/state?token=" + page.token, token=False).status == 401
		r = page.get("/?token=" + page.token, token=False)
		assert r.status == 303 and r.getheader("Location") == "/"
		cookie = r.getheader("Set-Cookie")
		assert "; HttpOnly" in cookie and "; SameSite=Strict" in cookie, cookie
		assert page.token not in cookie
		cookie = cookie.split(";")[0]
		for path in ("/", "/page.js", "/page.css", "/api/state"):
		    assert page.get(path, token=False, Cookie="a=b; " + cookie).status == 200
		    assert page.get(path).status == 200
	EOF
	# each start has a new token
	local old=$url
	signal server TERM
	finish server
	start server ddprdzv --listen 127.0.0.1:0 --web "$(grep -oE '[0-9]+/' <<<"$old" | head -n 1 | tr -d /)"
	await_url server.err
	[ "$old" != "$url" ]
}

@test "another Host, another site's page and other methods are refused" {
	begin_server
	try <<-'EOF'
		for host in ("evil.example", f"evil.example:{page.port}", "localhost.evil.example"):
		    for path in ("/", "/api/state", "/?token=" + page.token):
		        assert page.get(path, Host=host).status == 421, host
		for host in ("localhost", f"localhost:{page.port}", "127.0.0.1:1", "[::1]:7"):
		    assert page.get("/", Host=host).status == 200, host
		for site in ("cross-site", "same-site"):
		    assert page.get("/api/state", Sec_Fetch_Site=site).status == 403
		for site in ("same-origin", "none"):
		    assert page.get("/api/state", Sec_Fetch_Site=site).status == 200
		for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
		    assert page.get("/api/state", method=method).status == 405
		for path in ("/page.html", "/api", "/api/", "/../page.js", "//", "/api/jobs"):
		    assert page.get(path).status == 404, path
		for path in ("/", "/page.js", "/api/state", "/nothing"):
		    r = page.get(path)
		    csp = r.getheader("Content-Security-Policy")
		    assert csp.startswith("default-src 'none'; script-src 'self'"), csp
		    assert "unsafe" not in csp and "frame-ancestors 'none'" in csp
		    assert r.getheader("X-Content-Type-Options") == "nosniff"
		    assert r.getheader("Referrer-Policy") == "no-referrer"
		    assert r.getheader("Cache-Control") == "no-store"
		    assert not r.getheader("Access-Control-Allow-Origin")
		html = page.get("/").text
		assert "<script src=\"/page.js\"" in html and "style=" not in html
		assert "http://" not in html and "https://" not in html
		script = page.get("/page.js").text
		for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval(", "document.write", "http:", "https:"):
		    assert word not in script, word
	EOF
}

@test "the state has the jobs, and of one job its rounds and what ddprun status has" {
	begin_server
	begin_job a h1 3
	try <<-'EOF'
		s = page.state()
		assert [j["job"] for j in s["jobs"]] == ["a"] and s["status"] is None
		assert s["version"] == 1 and s["more_jobs"] == 0 and s["rounds"] == []
		job = s["jobs"][0]
		assert job["state"] == "running" and job["world_size"] == 2
		full = page.state("a")
		assert full["status"]["jobs"][0]["job"] == "a"
		assert full["status"]["jobs"][0]["nodes"][0]["host"] == "h1"
		assert len(full["rounds"]) == 1 and full["rounds"][0]["end"] is None
		assert page.state("b")["status"] is None
		# the same state has the same tag, and is not sent again
		r = page.get("/api/state?job=a")
		again = page.get("/api/state?job=a", If_None_Match=r.getheader("ETag"))
		assert again.status in (200, 304)
		if again.status == 304:
		    assert not again.text
		else: # a second has passed
		    assert again.getheader("ETag") != r.getheader("ETag")
	EOF
	echo exit 1 1 >"$T/agent.in"
	await agent.out '^END'
	echo join >"$T/agent.in"
	await agent.out '^START' 20 3
	try <<-'EOF'
		import time
		while len(page.state("a")["rounds"]) < 2: # a state is kept for a second
		    time.sleep(0.1)
		first, second = page.state("a")["rounds"]
		assert first["end"] == "restart" and second["end"] is None
		assert first["cause"].startswith("rank 1"), first
		assert first["world_size"] == 2 and first["nodes"] == 1
		assert first["began_seconds_ago"] > second["began_seconds_ago"]
		shown = page.state("a")["status"]["jobs"][0]
	EOF
}

@test "hostile names arrive as text in valid JSON" {
	begin_server
	begin_job '<script>alert(1)</script>"\&' '<b>&"host'\''`${x}'
	try <<-'EOF'
		s = page.state()
		name = s["jobs"][0]["job"]
		assert name == "<script>alert(1)</script>\"\\&", ascii(name)
		host = page.state(name)["status"]["jobs"][0]["nodes"][0]["host"]
		assert host == "<b>&\"host'`${x}", ascii(host)
		r = page.get("/api/state")
		assert r.getheader("Content-Type") == "application/json"
		r = page.get("/api/state?job=%00%ff%3Cb%3E")
		assert r.status == 200 and json.loads(r.text)["status"] is None
	EOF
}

@test "a dump is made once for each id, one at a time, and of jobs that exist" {
	start job ddprun --web 0 --nproc-per-node 2 sh -c 'echo up; sleep 1000'
	await_url job.err
	await job.out up
	try <<-'EOF'
		import time
		assert page.get("/api/dump?job=none").status == 400
		assert page.get("/api/dump?id=1").status == 400
		assert page.get("/api/dump?job=none&id=" + "1" * 65).status == 400
		r = page.get("/api/dump?job=other&id=1")
		assert r.status == 404 and "other" in r.text, r.text
		ends = time.monotonic() + 60
		while (r := page.get("/api/dump?job=none&id=7")).status != 200:
		    assert r.status == 202 and time.monotonic() < ends, r.text
		    other = page.get("/api/dump?job=none&id=8")
		    if other.status != 409: # the first had ended meanwhile
		        assert other.status in (200, 202)
		        break
		while (r := page.get("/api/dump?job=none&id=9")).status != 200:
		    assert r.status in (202, 409) and time.monotonic() < ends, r.text
		    time.sleep(0.05)
		assert r.text.startswith("== node 0 ("), r.text
		assert "rank 1 (local rank 1)" in r.text
		assert page.get("/api/dump?job=none&id=9").text == r.text
	EOF
	signal job TERM
	finish job -
	nothing_left
}

@test "the last lines of a rank come from its agent, which is asked once for all clients" {
	begin_server
	begin_job a
	try <<-'EOF'
		for query in ("job=a", "rank=0", "job=a&rank=", "job=a&rank=-1", "job=a&rank=1x",
		              "job=a&rank=4294967296"):
		    assert page.get("/api/output?" + query).status == 400, query
		r = page.get("/api/output?job=a&rank=2")
		assert r.status == 404 and r.text == "no rank 2 of job 'a' runs now\n", r.text
		assert page.get("/api/output?job=b&rank=0").status == 404
		assert page.get("/api/output?job=a&rank=0", token=False).status == 401
		for i in range(100):
		    assert page.get("/api/output?job=a&rank=0").status == 202
		# this agent never answers; the page says so
		import time
		while page.get("/api/output?job=a&rank=0").status == 202:
		    time.sleep(0.1)
		r = page.get("/api/output?job=a&rank=0")
		assert r.status == 200, r.text
		assert json.loads(r.text) == {"rank": 0, "host": "h1", "stdout": [], "stderr": [],
		                              "error": "its agent does not answer"}, r.text
	EOF
	echo ping >"$T/agent.in"
	await agent.out PONG
	# a second question may follow the answer
	[ "$(grep -c '^DUMP_REQUEST' agent.out)" -le 2 ]
}

@test "the lines of at most sixteen ranks are asked for at a time" {
	begin_server
	WORKERS=18 begin_job a
	try <<-'EOF'
		import time
		def status(rank):
		    return page.get("/api/output?job=a&rank=%d" % rank).status
		assert [status(rank) for rank in range(18)] == [202] * 16 + [409] * 2
		while status(17) == 409:
		    time.sleep(0.1)
		assert status(17) == 202
	EOF
}

@test "clients that never read, or send nothing, delay nobody" {
	begin_server
	begin_job a
	try <<-'EOF'
		import socket
		at = page.host, page.port
		ask = (f"GET /api/state?job=a HTTP/1.1\r\nHost: localhost\r\n"
		       f"Authorization: Bearer {page.token}\r\n\r\n").encode()
		slow = [socket.create_connection(at) for i in range(16)]
		for s in slow[:8]:
		    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
		    s.sendall(ask)
		for i in range(20):
		    assert page.state("a")["status"]["jobs"][0]["job"] == "a"
		for s in slow:
		    s.settimeout(60)
		    try:
		        while s.recv(65536):
		            pass
		    except ConnectionResetError:
		        pass
	EOF
	echo ping >"$T/agent.in"
	await agent.out PONG
}

@test "a thousand clients at once are answered or closed, and leave nothing behind" {
	begin_server
	begin_job a
	try "${pid[server]}" <<-'EOF'
		import os, resource, socket
		limit = resource.getrlimit(resource.RLIMIT_NOFILE)
		resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
		fds = lambda: len(os.listdir(f"/proc/{sys.argv[1]}/fd"))
		page.state("a")
		before = fds()
		ask = (f"GET /api/state?job=a HTTP/1.1\r\nHost: localhost\r\n"
		       f"Authorization: Bearer {page.token}\r\n\r\n").encode()
		all = []
		for i in range(1000):
		    s = socket.create_connection((page.host, page.port))
		    s.settimeout(60)
		    s.sendall(ask)
		    all.append(s)
		answered = 0
		for s in all:
		    reply = b""
		    try:
		        while part := s.recv(65536):
		            reply += part
		    except ConnectionResetError:
		        pass
		    answered += reply.startswith(b"HTTP/1.1 200") and reply.endswith(b"}\n")
		    s.close()
		print(answered)
		assert answered >= 500, answered
		assert page.state("a")["status"]["jobs"][0]["job"] == "a"
		assert fds() < before + 20, (before, fds())
	EOF
	echo ping >"$T/agent.in"
	await agent.out PONG
}

@test "a thousand followers of one rank's lines all get each line" {
	mkfifo go end
	start job ddprun --standalone --web 0 sh -c '
		echo "first of $RANK"; read _ <go; echo "second of $RANK"; read _ <end'
	await_url job.err
	await job.out '^\[0\] first of 0'
	try <<-'EOF'
		import socket
		job = page.state()["jobs"][0]["job"]
		ask = (f"GET /api/output?job={job}&rank=0 HTTP/1.1\r\nHost: localhost\r\n"
		       f"Authorization: Bearer {page.token}\r\n\r\n").encode()
		def read(s):
		    reply = b""
		    try:
		        while part := s.recv(65536):
		            reply += part
		    except ConnectionResetError:
		        pass
		    s.close()
		    return reply
		def follow(line):
		    """All clients ask until they have the line. One that the server closes asks again."""
		    waiting, asked = 1000, 0
		    while waiting:
		        all = []
		        for i in range(waiting):
		            all.append(socket.create_connection((page.host, page.port), 60))
		            all[-1].sendall(ask)
		        asked += waiting
		        waiting -= sum(line in read(s) for s in all)
		    return asked
		follow(b"first of 0")
		with open("go", "w") as f:
		    f.write("x\n")
		follow(b"second of 0")
		with open("end", "w") as f:
		    f.write("x\n")
	EOF
	finish job 0
	nothing_left
}

@test "only node 0 of a ddprun job serves a page, and a bad address is an error" {
	expect 0 ddprun --web 0 --nproc-per-node 1 true
	has "$err" 'the page is at http://127.0.0.1:[0-9]+/\?token=[0-9a-f]{32}$'
	expect 0 ddprun --nproc-per-node 1 true
	lacks "$err" 'the page is at'
	expect 2 ddprdzv --listen 127.0.0.1:0 --web somewhere
	has "$err" 'web somewhere: give PORT .on loopback. or ADDRESS:PORT'
	start server ddprdzv --listen 127.0.0.1:0 --web 0.0.0.0:0
	await server.err 'HTTP is not encrypted'
}

# ---- in a browser

@test "the page shows a running job, and nothing that its policy forbids" {
	browser_or_skip
	start job ddprun --web 0 --nproc-per-node 3 sh -c 'echo up; sleep 1000'
	await_url job.err
	await job.out up
	try "$url" <<-'EOF'
		from browser import Browser
		with Browser() as b:
		    b.open(sys.argv[1])
		    b.until("!document.querySelector('#shown').hidden")
		    assert "token" not in b.run("return location.href")
		    assert not b.run("return document.cookie")
		    b.until("document.querySelector('#verdict').textContent === 'All 3 ranks run; the program reports no steps'")
		    b.until("page.ranks.length === 3")
		    assert b.run("return document.querySelectorAll('#rounds li').length") == 1
		    # a dump, by the keyboard alone
		    b.run("document.querySelector('#dump').focus()")
		    b.press("\ue007")
		    b.until("document.querySelector('#dump-text').textContent.includes('rank 2 (local rank 2)')")
		    b.press("\ue00c")
		    b.until("!document.querySelector('#dump-dialog').open")
		    assert b.run("return document.activeElement.id") == "dump"
		    assert b.problems() == [], b.problems()
	EOF
	signal job TERM
	finish job -
	nothing_left
}

@test "the last lines of a rank are a click away, follow it, and stay text" {
	browser_or_skip
	mkfifo go
	start job ddprun --web 0 --nproc-per-node 2 bash -c 'printf "\e[31m<img src=x onerror=document.title=1>\e[m %d\n" $RANK
		printf "bad \xff\n" >&2
		[ $RANK = 0 ] || { read -r word <go; echo "$word"; }
		exec sleep 1000'
	await_url job.err
	await job.out 'img.* 1$'
	exec 6<>go
	try "$url" <<-'EOF'
		from browser import Browser
		with Browser() as b:
		    b.open(sys.argv[1])
		    b.until("page.ranks.length === 2")
		    b.keys("#grid", "\ue010") # end: rank 1
		    b.run("document.querySelector('#output').focus()")
		    b.press("\ue007")
		    b.until("document.querySelector('#output-stdout').textContent.includes('onerror')")
		    text = b.run("return document.querySelector('#output-stdout').textContent")
		    assert text == "<img src=x onerror=document.title=1> 1", ascii(text)
		    assert b.run("return document.querySelector('#output-stderr').textContent") == "bad \ufffd"
		    assert b.run("return document.querySelector('#output-title').textContent") == "Last lines of rank 1"
		    assert b.run("return document.images.length") == 0
		    open("go", "w").write("more\n")
		    b.until("document.querySelector('#output-stdout').textContent.endsWith('more')")
		    b.press("\ue00c")
		    b.until("!document.querySelector('#output-dialog').open")
		    assert b.run("return document.activeElement.id") == "output"
		    assert b.problems() == [], b.problems()
	EOF
	exec 6>&-
	signal job TERM
	finish job -
	nothing_left
}

@test "hostile names stay text in the browser" {
	browser_or_skip
	url="http://x/?token=x"
	try <<-'EOF'
		from browser import Browser
		from made_state import *
		with Browser() as b:
		    b.open(serve(8, HOSTILE, HOSTILE))
		    b.until("page.samples.length > 1 && document.title !== 'ddprun'")
		    title = b.run("return document.title")
		    assert title.startswith("<img src=x") and "owned" != title, title
		    assert b.run("return document.images.length") == 0
		    name = b.run("return document.querySelector('#name').textContent")
		    assert name.endswith("\\u202e\\u001b[31m&amp;"), ascii(name)
		    assert b.problems() == [], b.problems()
	EOF
}

@test "the page's first sentence names the ranks that need attention" {
	browser_or_skip
	url="http://x/?token=x"
	try <<-'EOF'
		from browser import Browser
		from made_state import *
		with Browser() as b:
		    for state, said in (
		            (dict(ranks=64), "Rank 3 on node000 is slow: the others wait for it"),
		            (dict(ranks=512), "Rank 510 on node063 makes no progress"),
		            (dict(ranks=1024), "2 ranks make no progress: 510 and 1021"),
		            (dict(ranks=2560), "5 ranks make no progress: 510, 1021, 1532 and 2 more"),
		            (dict(ranks=2), "All 2 ranks make progress"),
		            (dict(ranks=1), "The rank makes progress"),
		            # nobody can know whether such a program makes progress
		            (dict(ranks=1024, reports=False), "All 1024 ranks run; the program reports no steps")):
		        b.open(serve(**state))
		        b.until("page.samples.length")
		        b.until("document.querySelector('#verdict').textContent")
		        got = b.run("return document.querySelector('#verdict').textContent")
		        assert got == said, (state, got)
		    assert b.problems() == [], b.problems()
	EOF
}

@test "a page of 1 and of 4096 ranks is drawn, in light and dark, wide and narrow" {
	browser_or_skip
	url="http://x/?token=x"
	try <<-'EOF'
		from browser import Browser
		from made_state import *
		DRAWN = "performance.getEntriesByName('draw').length && page.samples.length > %d"
		with Browser() as b:
		    for ranks in (1, 4096):
		        b.open(serve(ranks))
		        times = []
		        for turn in range(5): # other programs may delay one
		            b.until(DRAWN % turn)
		            times.append(b.run("return performance.getEntriesByName('draw')[0].duration"))
		        print(f"drawn: {ranks} ranks in {min(times):.1f} ms (goal: 50)")
		        assert b.run("return page.ranks.length") == ranks
		    color = "return getComputedStyle(document.body).backgroundColor"
		    light = b.run(color)
		    b.devtools("Emulation.setEmulatedMedia", features=[
		        {"name": "prefers-color-scheme", "value": "dark"}])
		    assert b.run(color) != light
		    b.devtools("Emulation.setDeviceMetricsOverride", width=320, height=800,
		               deviceScaleFactor=2, mobile=True)
		    b.until("page.grid.columns * page.grid.cell <= 320")
		    assert b.run("return document.documentElement.scrollWidth") <= 320
		    assert b.problems() == [], b.problems()
	EOF
	has "$out" '^drawn: 4096 ranks '
	sed -n 's/^drawn: /# /p' <<<"$out" >&3
}

@test "ranks are reached by keys, and screen readers get roles and names" {
	browser_or_skip
	url="http://x/?token=x"
	try <<-'EOF'
		from browser import Browser
		from made_state import *
		with Browser() as b:
		    b.open(serve(64))
		    b.until("page.samples.length > 1")
		    for css, role in (("main", "main"), ("nav", "navigation"), ("header", "banner"),
		                      ("#grid", "slider"), ("#connection", "status"),
		                      ("#dump", "button"), ("#rounds", "list"), ("#nodes", "table"),
		                      ("#rate", "image")):
		        got = b.role(css)
		        assert got == role or (got, role) == ("img", "image"), (css, got)
		    assert b.label("nav") == "Jobs" and b.label("#grid") == "Rank"
		    assert b.label("#rate").startswith("Steps per second: median")
		    b.keys("#grid", "\ue014") # right
		    assert b.run("return page.chosen") == 1
		    b.keys("#grid", "\ue010") # end
		    assert b.run("return page.chosen") == 63
		    b.keys("#grid", "\ue014")
		    assert b.run("return page.chosen") == 63
		    b.keys("#grid", "\ue011\ue014\ue014\ue014") # home, right
		    said = b.run("return document.querySelector('#grid').getAttribute('aria-valuetext')")
		    assert said.startswith("rank 3, node 0 (node000)") and "slow" in said, said
		    # each thing that can be used is reached by the tab key
		    b.run("document.activeElement.blur(); window.scrollTo(0, 0)")
		    seen = []
		    for i in range(12):
		        b.press("\ue004")
		        seen.append(b.run("return document.activeElement.id || document.activeElement.className || document.activeElement.tagName"))
		    for name in ("BUTTON", "dump", "grid"):
		        assert name in seen, seen
		    assert b.problems() == [], b.problems()
	EOF
}
