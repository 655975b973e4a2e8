#!/bin/sh
# Installs the missing packages that building and the demo need, on Debian and its
# derivatives. `sh deps.sh tests` also installs what the tests start, including other
# launchers. `sh deps.sh roots` installs what creates root file systems of other Debian
# releases, `sh deps.sh cluster` what is needed inside one (tests/run-roots), `sh deps.sh
# image` and `sh deps.sh apptainer` what builds images (tests/run-image, run-apptainer), `sh
# deps.sh upgrade` what upgrades a service (tests/run-upgrade), `sh deps.sh arm64` what builds
# for arm64 and runs it here (tests/run-arm64), `sh deps.sh site` what `make site` and
# `make pictures` need, and `sh deps.sh browser` the browser without
# which tests of the page (`--web`) are skipped. make runs this script; on a machine without
# make, run it yourself. DEPS=0 skips it.
set -eu

[ "${DEPS:-1}" != 0 ] || exit 0

build='make gcc libc6-dev pkg-config libuv1-dev libcjson-dev zlib1g-dev libhwloc-dev libdw-dev libmicrohttpd-dev libsodium-dev libmunge-dev libcurl4-openssl-dev liblzma-dev libdnnl-dev libpng-dev libjpeg-dev'
tests='check bats python3-prometheus-client python3-yaml procps util-linux curl xz-utils gnuplot-nox g++ locales etcd-server etcd-client openssl ca-certificates clang libclang-rt-dev libjemalloc2 cmake debhelper rpm cpio lmod bubblewrap'
hosts='iproute2 iptables netbase faketime openssh-server openssh-client'
# other launchers; only the tests start slurmd and munged, and srun --mpi=pmix loads
# libpmix.so, which is in the -dev package
slurm='slurmctld slurmd slurm-client munge libpmix-dev'
launchers="mpich libmpich-dev openmpi-bin libopenmpi-dev $slurm"
cluster="bats procps util-linux curl openssl etcd-server etcd-client iproute2 netbase python3-venv $slurm"

case ${1:-} in
tests) wanted="$build $tests $hosts $launchers" ;;
roots | fresh) wanted=debootstrap ;;
browser) wanted='chromium chromium-driver' ;;
arm64) wanted='gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static' ;;
image) wanted='debootstrap buildah crun' ;;
apptainer) wanted='debootstrap debhelper' ;;
upgrade) wanted='debootstrap debhelper systemd-container' ;;
site) wanted='mkdocs mandoc python3-pyte' ;;
cluster) wanted="$build $cluster" ;;
*) wanted=$build ;;
esac
installed=$(dpkg-query -W -f ' ${Package} ${db:Status-Status} ' $wanted 2>/dev/null || true)
missing=
for p in $wanted; do
	case $installed in *" $p installed "*) ;; *) missing="$missing $p" ;; esac
done
[ -n "$missing" ] || exit 0

# The same packages elsewhere: Debian, Fedora, Alpine, Arch, Homebrew; - is none.
elsewhere='
gcc gcc gcc gcc gcc
make make make make make
pkg-config pkgconf-pkg-config pkgconf pkgconf pkgconf
libc6-dev glibc-devel musl-dev - -
libuv1-dev libuv-devel libuv-dev libuv libuv
libcjson-dev cjson-devel cjson-dev cjson cjson
zlib1g-dev zlib-devel zlib-dev zlib zlib
libhwloc-dev hwloc-devel hwloc-dev hwloc hwloc
libdw-dev elfutils-devel elfutils-dev libelf -
libmicrohttpd-dev libmicrohttpd-devel libmicrohttpd-dev libmicrohttpd libmicrohttpd
libsodium-dev libsodium-devel libsodium-dev libsodium libsodium
libmunge-dev munge-devel munge-dev - munge
libcurl4-openssl-dev libcurl-devel curl-dev curl curl
liblzma-dev xz-devel xz-dev xz xz
libdnnl-dev onednn-devel onednn-dev onednn onednn
libpng-dev libpng-devel libpng-dev libpng libpng
libjpeg-dev libjpeg-turbo-devel libjpeg-turbo-dev libjpeg-turbo jpeg-turbo
'

# print_elsewhere COLUMN COMMAND...: the command that installs what building needs
print_elsewhere() {
	column=$1
	shift
	names=$(echo "$elsewhere" | awk -v c="$column" 'NF && $c != "-" { print $c }' |
		sort -u | tr '\n' ' ')
	echo "deps.sh: this is not Debian; building needs:" >&2
	echo "    $* ${names% }" >&2
	echo "deps.sh: then run make with DEPS=0" >&2
	exit 1
}

if ! command -v apt-get >/dev/null 2>&1; then
	! command -v dnf >/dev/null 2>&1 || print_elsewhere 2 dnf install
	! command -v apk >/dev/null 2>&1 || print_elsewhere 3 apk add
	! command -v pacman >/dev/null 2>&1 || print_elsewhere 4 pacman -S --needed
	! command -v brew >/dev/null 2>&1 || print_elsewhere 5 brew install
	echo "deps.sh: this is not Debian; install the contents of these packages:$missing" >&2
	echo "deps.sh: then run again with DEPS=0" >&2
	exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
	sudo=sudo
	if ! command -v sudo >/dev/null 2>&1; then
		echo "deps.sh: neither root nor sudo; run as root: apt-get install$missing" >&2
		exit 1
	fi
fi
run() {
	echo "+ $*"
	"$@"
}
run $sudo apt-get update -qq
run $sudo env DEBIAN_FRONTEND=noninteractive \
	apt-get install -y -qq --no-install-recommends $missing
