# backend.bash: lets the same tests run with ddprun's own server and, a second time,
# with a real etcd (DDP_TEST_BACKEND=etcd, which tests/run sets for the tests of
# FILE@etcd that have `# bats test_tags=etcd`). Load it after lib, and after netns in
# tests with hosts.
#
#   meets ENDPOINT   sets $meet to the value for --rdzv-endpoint: ENDPOINT, or an etcd
#                    that it starts; other options are in PET_ variables. $where is
#                    an ERE of ddprun's name for the endpoint

load "${BASH_SOURCE[0]%/*}/hosts/etcd"

meets() {
	meet=$1
	where=${1//./\\.}
	[ "${DDP_TEST_BACKEND:-}" = etcd ] || return 0
	if [ "${HOSTS:-loopback}" = namespaces ]; then
		in_net switch ip addr add 10.78.0.254/24 dev bridge
		addr[switch]=10.78.0.254
		etcd_here switch
	else
		etcd_here
		export PET_LOCAL_ADDR=127.0.0.1
	fi
	meet=$etcd
	where="etcd \\(${etcd//./\\.}\\)"
	export PET_RDZV_BACKEND=etcd PET_RDZV_ID=none
	export PET_RDZV_CONF=ttl=2,reconnect_timeout=5
}
