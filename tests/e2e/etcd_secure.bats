# An etcd that requires a user or a certificate: ddprun's errors for a missing or
# wrong one, before anything starts.
# covers: etcd launcher/config
load ../lib
load ../hosts/etcd

# refused PATTERN [VARIABLE=VALUE...]: a job ends with 69, having started nothing
refused() {
	local pattern=$1
	shift
	DEADLINE=12 expect 69 env "$@" "${job[@]}" sh -c 'echo never'
	[ -z "$out" ]
	has "$err" "^ddprun: error: .*$pattern"
	[ "$(grep -vc '^ddprun: waiting ' <<<"$err")" = 1 ]
}

job_at() {
	job=(ddprun --rdzv-backend etcd --rdzv-endpoint "$etcd" --rdzv-id j "$@")
}

ctl() {
	ETCDCTL_API=3 etcdctl --endpoints "$etcd" "$@" >/dev/null
}

@test "etcd accepts a user and password, and errors name a wrong one or missing rights" {
	etcd_here
	job_at
	ctl user add root:secret
	ctl user grant-role root root
	ctl role add ours
	ctl role grant-permission ours --prefix=true readwrite /ddprun/
	ctl role add theirs
	ctl role grant-permission theirs --prefix=true readwrite /theirs/
	ctl user add me:word
	ctl user grant-role me ours
	ctl user add you:word
	ctl user grant-role you theirs
	ctl auth enable
	expect 0 env ETCDCTL_USER=me:word "${job[@]}" echo up
	[ "$out" = '[0] up' ]
	expect 0 env ETCDCTL_USER=me ETCDCTL_PASSWORD=word "${job[@]}" echo up
	refused "$etcd.*(authentication|password)" \
		ETCDCTL_USER=me:wrong
	refused "$etcd.*(user|authentication)" A=b
	refused "$etcd.*permission denied" ETCDCTL_USER=you:word
}

# ca NAME: makes an authority; signed NAME CA SUBJECT: its certificate and key
ca() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$1.key" -out "$1.pem" -days 2 -subj "/CN=$1" 2>/dev/null
}

signed() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" \
		-CAcreateserial -out "$1.pem" -days 2 -extfile \
		<(echo "subjectAltName=IP:$etcd_at") 2>/dev/null
}

@test "https needs the right authority, and errors name what is wrong" {
	command -v openssl >/dev/null || skip 'no openssl here'
	etcd_at=127.9.$((RANDOM % 250)).1
	ca ours
	ca theirs
	signed server ours
	signed client ours
	etcd_here --cert-file server.pem --key-file server.key \
		--client-cert-auth --trusted-ca-file ours.pem
	local with=cert=client.pem,key=client.key
	job_at --rdzv-conf "protocol=https,cacert=ours.pem,$with"
	expect 0 "${job[@]}" echo up
	[ "$out" = '[0] up' ]
	[ -z "$err" ]
	job_at --rdzv-conf "protocol=https,cacert=theirs.pem,$with"
	refused "https://$etcd/.*certificate.*; is cacert=FILE the CA"
	lacks "$err" 'client port'
	job_at --rdzv-conf "protocol=https,$with"
	refused "https://$etcd/.*certificate"
	job_at --rdzv-conf protocol=https,cacert=ours.pem
	refused "https://$etcd/" # closed on, after the handshake
	job_at
	refused "http://$etcd/"
	job_at --rdzv-conf protocol=https,cacert=none.pem
	refused 'none.pem'
}

@test "https on a host without ca-certificates names what is missing" {
	unshare --mount true 2>/dev/null || skip "no namespaces here"
	[ -d /etc/ssl/certs ] || skip "no /etc/ssl/certs here"
	etcd_at=127.9.$((RANDOM % 250)).1
	ca ours
	signed server ours
	etcd_here --cert-file server.pem --key-file server.key
	job_at --rdzv-conf protocol=https
	job=(unshare --mount sh -c
		'mount -t tmpfs none /etc/ssl/certs && exec "$@"' sh "${job[@]}")
	refused "https://$etcd/.*install ca-certificates, or .*cacert=FILE"
	lacks "$err" 'client port'
}

@test "an etcd that speaks http instead of https is recognized by its reply or reset" {
	etcd_here
	job_at --rdzv-conf protocol=https
	refused "https://$etcd/.*(SSL|TLS|speak https, not http)"
	start reset rdzv_peer reset
	await reset.out '^at '
	etcd=$(sed -n 's/^at //p' reset.out)
	job_at --rdzv-conf protocol=https
	refused "https://$etcd/.*reset.*; does it speak https, not http\\?"
}

@test "a server that answers in JSON but is not etcd is named, with its reply" {
	start other python3 -uc '
import http.server
class Other(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(404)
        self.end_headers()
        self.wfile.write(b"{\"detail\": \"Not Found\"}")
    def log_message(self, *_):
        pass
s = http.server.HTTPServer(("127.0.0.1", 0), Other)
print("at 127.0.0.1:%d" % s.server_port)
s.serve_forever()'
	await other.out '^at '
	etcd=${line#at }
	job_at
	refused "http://$etcd \\(HTTP 404\\): unexpected reply, is this an etcd endpoint\\? .*Not Found"
}
