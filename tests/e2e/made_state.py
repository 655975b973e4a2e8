"""Serves the page with a made state of any number of ranks, as ddprdzv does."""
import http.server
import json
import os
import sys
import threading

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; "
       "connect-src 'self'; img-src data:; base-uri 'none'; "
       "form-action 'none'; frame-ancestors 'none'")
# a name may be anything
HOSTILE = "<img src=x onerror=\"document.title='owned'\">\u202e\u001b[31m&amp;"
DOES = ["computes", "works", "in_call", "in_call", "computes", "blocked",
        "sleeps", "starts"]


def made_job(name, ranks, turn, host="node"):
    per_node = min(8, ranks)
    nodes = [{
        "node_rank": i, "host": f"{host}{i:03}", "address": f"10.0.{i // 250}.{i % 250}",
        "role": None, "state": "runs", "workers": per_node,
        "first_rank": i * per_node, "connected": per_node, "ended": 0,
        "silent_seconds": 0.4} for i in range(ranks // per_node)]
    list_ = [{
        "rank": i, "pid": 4000 + i, "does": DOES[i % 8], "words": "",
        "call": "all_reduce of 1048576 float32", "progress_seconds":
            90.0 if i % 511 == 510 else 0.2, "step": 100 + turn,
        "steps_per_second": 3.0 + (i % 7) / 10 + turn % 5 / 5,
        "collective_percent": 5.0 if i == 3 else 40.0 + i % 9,
        "cpu_percent": 98.5, "memory_bytes": 3 << 30}
        for i in range(ranks)]
    return {
        "job": name, "server": "10.0.0.1:29400", "state": "running",
        "state_seconds": 300.0 + turn, "round": 2, "restarts": 1,
        "max_restarts": 3, "changes": 1, "min_nodes": len(nodes),
        "max_nodes": len(nodes), "joined": len(nodes), "spares": 0,
        "world_size": ranks, "connected": ranks, "ended": 0,
        "store_keys": 12, "store_bytes": 3456, "waiting": None,
        "last_end": "rank 3 on node000, pid 77, exited with code 1",
        "roles": [], "nodes": nodes, "ranks": list_, "gpus": [{
            "node_rank": i // 8, "host": f"{host}{i // 8:03}", "index": i % 8,
            "uuid": "GPU-1", "name": "NVIDIA H200", "temperature": 55,
            "utilization": 93, "memory_used": 70 << 30,
            "memory_total": 141 << 30, "throttle": 0, "ecc_volatile": 0,
            "ecc_aggregate": 0, "remap_pending": 0, "remap_failed": 0,
            "nvlinks": 18, "nvlinks_inactive": 1 if i == 5 else 0,
            "nvlink_errors": 0, "instances": 0, "is_lost": 0}
            for i in range(min(ranks, 16))]}


def made_state(name, ranks, turn, host="node"):
    full = made_job(name, ranks, turn, host)
    short = {k: full[k] for k in ("job", "state", "state_seconds", "round",
                                  "restarts", "joined", "world_size",
                                  "connected", "ended")}
    rounds = [
        {"round": 0, "nodes": 4, "world_size": ranks,
         "began_seconds_ago": 1000.0 + turn, "lasted_seconds": 400.0,
         "end": "restart", "cause": "rank 3 on node000 exited with code 1"},
        {"round": 1, "nodes": 4, "world_size": ranks,
         "began_seconds_ago": 590.0 + turn, "lasted_seconds": 280.0,
         "end": "regroup", "cause": "node 3 left"},
        {"round": 2, "nodes": 4, "world_size": ranks,
         "began_seconds_ago": 300.0 + turn, "lasted_seconds": 300.0 + turn,
         "end": None, "cause": None}]
    return {"version": 1, "server": "10.0.0.1:29400", "jobs": [short],
            "more_jobs": 0, "rounds": rounds,
            "status": {"version": 1, "jobs": [full]}}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        files = {"/": ("page.html", "text/html"),
                 "/page.css": ("page.css", "text/css"),
                 "/page.js": ("page.js", "text/javascript")}
        if self.path in files:
            name, kind = files[self.path]
            with open(f"{TREE}/rendezvous/web/{name}", "rb") as f:
                body = f.read()
        else:
            kind = "application/json"
            self.server.turn += 1
            state = made_state(self.server.name, self.server.ranks,
                               self.server.turn, self.server.host)
            if not self.server.reports:
                for rank in state["status"]["jobs"][0]["ranks"]:
                    rank.update(step=None, steps_per_second=None, call=None,
                                collective_percent=None, does="computes")
            body = json.dumps(state).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind + "; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", CSP)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def serve(ranks, name="resnet50", host="node", reports=True):
    """Returns the URL of a server in a thread that ends with the program. With
    reports=False the ranks have no steps and make no calls."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.ranks, server.name, server.turn, server.host = ranks, name, 0, host
    server.reports = reports
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/"


if __name__ == "__main__":
    print(serve(int(sys.argv[1])), flush=True)
    threading.Event().wait()
