# pod.sh DIR NAME CMD...: runs CMD in what Kubernetes gives a container: it is process 1,
# its host name is NAME, /dev is its own and has a termination-log, which is
# DIR/termination-log, and the files of DIR/secret, if there are any, are mounted at
# /var/run/secrets/ddprun. Needs root, in namespaces of its own:
#     unshare --mount --uts --pid --fork --kill-child sh pod.sh DIR NAME CMD...
set -eu
dir=$1
hostname "$2"
shift 2
mount --make-rprivate /
dev=$dir/dev
mkdir -p "$dev"
mount -t tmpfs -o mode=755 tmpfs "$dev"
for file in null zero full random urandom; do
	touch "$dev/$file"
	mount --bind "/dev/$file" "$dev/$file"
done
mkdir -m 1777 "$dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$dev/shm"
ln -s /proc/self/fd "$dev/fd"
: >"$dir/termination-log"
touch "$dev/termination-log"
mount --bind "$dir/termination-log" "$dev/termination-log"
mount --rbind "$dev" /dev
mount -t proc proc /proc
# no munged of the machine's
mount -t tmpfs tmpfs /run
if [ -d "$dir/secret" ]; then
	mkdir -p /var/run/secrets/ddprun
	mount --bind "$dir/secret" /var/run/secrets/ddprun
fi
exec "$@"
