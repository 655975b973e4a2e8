# roots.sh: root folders of Debian releases, and namespaces to run commands in them.
# Source it in the top folder of the tree, with these set:
#
#   top         the top folder's path
#   ROOTS_DIR   the roots are made there

die() {
	echo "$0: $*" >&2
	exit 1
}

# Both need root and debootstrap.
roots_check() {
	[ "$(id -u)" = 0 ] || die "not root: roots and namespaces need it"
	command -v debootstrap >/dev/null ||
		die "debootstrap is missing: sh deps.sh roots installs it"
}

# Debian's own archive in apt's sources, without updates and other archives.
mirror() {
	apt-get indextargets --format '$(REPO_URI) $(LABEL)' \
		'Created-By: Packages' | sed -n 's/ Debian$//p' | head -n 1
}

# enter ROOT SHARED CMD...: runs CMD in namespaces of its own, so that no mount and no
# process is left. SHARED is a list of folders, separated by spaces, which are mounted
# inside; CMD starts in the first one, or in / if the list is empty. ROOT becomes the
# root of the mount namespace, not a chroot: tests enter their hosts by their mount
# namespaces, and would leave a chroot. Process 1 is a shell, which reaps orphans. With
# NET=none, CMD has only a loopback.
enter() {
	unshare --mount --pid ${NET:+--net} --fork --kill-child sh -euc '
		root=$1 all=$2
		shift 2
		[ -z "${NET:-}" ] || ip link set lo up
		mount --make-rprivate /
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount --rbind /sys "$root/sys"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
		mount -t tmpfs -o mode=755 tmpfs "$root/run"
		for shared in $all; do
			mkdir -p "$root$shared"
			mount --bind "$shared" "$root$shared"
		done
		cd "$root"
		pivot_root . .
		umount -l .
		cd "${all%% *}/"
		status=0
		HOME=/root "$@" || status=$?
		exit "$status"' enter "$@"
}

# make_root RELEASE ROOT: a minimal system; all or nothing
make_root() {
	new=$2.new script=/usr/share/debootstrap/scripts/$1
	from=$(mirror)
	[ -n "$from" ] || die "apt here has no mirror of Debian"
	[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
	rm -rf "$new"
	mkdir -p "$new"
	debootstrap --variant=minbase "$1" "$new" "$from" "$script" || return 1
	# the mirror may need apt's configuration on this machine
	apt-config dump Acquire >"$new/etc/apt/apt.conf.d/00host"
	cp /etc/resolv.conf "$new/etc/resolv.conf"
	# installing a daemon must not start it
	printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d"
	chmod +x "$new/usr/sbin/policy-rc.d"
	mv "$new" "$2"
}

# need_root RELEASE ROOT: makes it if it is not there
need_root() {
	[ ! -d "$2" ] || return 0
	echo "roots: making $2"
	make_root "$1" "$2" >"$2.log" 2>&1 || {
		tail -n 20 "$2.log" >&2
		die "no root of $1; all of it: $2.log"
	}
}
