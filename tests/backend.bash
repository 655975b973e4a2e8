# backend.bash: where the jobs of a test meet: at ddprun's own server, or, the very
# same tests once more, where a real etcd says (DDP_TEST_BACKEND=etcd, which
# tests/run sets for the tests with `# bats test_tags=etcd` of a file FILE@etcd).
# Loaded after lib, and after netns where hosts are.
#
#   meets ENDPOINT   $meet is what --rdzv-endpoint is to say: ENDPOINT, or an etcd
#                    that has been started; what else it needs is in PET_ variables.
#                    $where is an ERE of how ddprun calls the place

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
