# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What the scripts of this directory share: sourced, never run. Sets $top, the source tree.
# shellcheck disable=SC2034 # variables are for those who source this

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 2
me=${0##*/}

# The folders of prov/p2p/src, from the lowest to the highest: a folder is a rank.
src_folders="base dev mem path xfer proto fid gpu buffer"

say() {
	printf '%s\n' "$*"
}

die() {
	echo "$me: $*" >&2
	exit 2
}

# need_value "$@": ends the script when option $1 has no value
need_value() {
	[ $# -ge 2 ] || die "option $1 needs a value"
}

# Packages of Debian and Ubuntu, each with the command or the header that shows that it is
# there, whoever put it there.
required_packages='
	gcc            gcc
	libc6-dev      stdlib.h
	make           make
	autoconf       autoreconf
	automake       automake
	libtool        libtoolize
	pkg-config     pkg-config
	libfabric-dev  rdma/providers/fi_prov.h
	uthash-dev     uthash.h
'
# Without these some tests are skipped, and fi_p2p_info knows less
optional_packages='
	libfabric-bin  fi_info
	libcmocka-dev  cmocka.h
	libhwloc-dev   hwloc.h
	libjson-c-dev  json-c/json.h
	libibverbs-dev infiniband/verbs.h
	systemtap-sdt-dev  sys/sdt.h
	g++            g++
'
# Without these the tests that want an MPI are skipped
mpi_packages='
	openmpi-bin    ompi_info
	libopenmpi-dev mpi.h
'
check_packages='
	clang          clang
	clang-format   clang-format
	universal-ctags  ctags
	shellcheck     shellcheck
	mandoc         mandoc
	libhsa-runtime-dev  hsa/hsa.h
	libamdhip64-dev     hip/hip_version.h
'
# For tarballs, and for Debians to try them in
userland_packages='
	xz-utils       xz
	mmdebstrap     mmdebstrap
	gdb            gdb
	bpftrace       bpftrace
	python3        python3
'
# What contrib/vm wants
vm_packages='
	qemu-system-x86  qemu-system-x86_64
	mmdebstrap       mmdebstrap
'

# there COMMAND-OR-HEADER
there() {
	local compiler=${CC:-gcc}

	case $1 in
	mpi.h)
		# Only the wrapper knows where it is
		compiler=${MPICC:-$(command -v mpicc.openmpi || command -v mpicc)}
		[ -n "$compiler" ] || return 1
		;;&
	*.h)
		# cmocka.h wants others before it
		# shellcheck disable=SC2086 # it may have arguments, and a cache before it
		printf '%s\n' '#include <stdarg.h>' '#include <stddef.h>' '#include <setjmp.h>' \
			'#include <stdint.h>' "#include <$1>" |
			$compiler -E -x c - >/dev/null 2>&1
		;;
	*) command -v "$1" >/dev/null ;;
	esac
}

# missing LIST: the packages of LIST that are not there
missing() {
	local package shown

	while read -r package shown; do
		if [ -n "$package" ] && ! there "$shown"; then
			echo "$package"
		fi
	done <<<"$1"
}

# install_packages LIST...: what is missing, one by one, so that one that cannot be had
# does not keep the others out. What is still missing afterwards is for the caller.
install_packages() {
	local package packages log

	mapfile -t packages < <(missing "$*")
	[ ${#packages[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || return 0
	[ "$(id -u)" -eq 0 ] || return 0
	say "installing ${#packages[@]} packages:"
	log=$(mktemp) || exit 2
	apt-get -qq update >"$log" 2>&1 || cat "$log" >&2
	for package in "${packages[@]}"; do
		say "   $package"
		DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install \
			"$package" >"$log" 2>&1 </dev/null || cat "$log" >&2
	done
	rm -f "$log"
}

# how_to_install PACKAGE...: what to type, or have typed
how_to_install() {
	local sudo=''

	if ! command -v apt-get >/dev/null; then
		say "Install the packages with the same contents."
		return
	fi
	if [ "$(id -u)" -eq 0 ]; then
		say "Type:"
	elif command -v sudo >/dev/null; then
		sudo='sudo '
		say "Only root installs packages. Type, or ask an administrator to:"
	else
		say "Only root installs packages. Ask an administrator to type:"
	fi
	say "  ${sudo}apt-get update && ${sudo}apt-get install --no-install-recommends $*"
}

# require_packages LIST [RECOMMENDED]: ends the script if one of LIST is missing. RECOMMENDED are those that
# should not be missing either.
require_packages() {
	local packages recommended

	mapfile -t packages < <(missing "$1")
	[ ${#packages[@]} -gt 0 ] || return 0
	mapfile -t recommended < <(missing "${2-}")
	{
		say "$me: missing: ${packages[*]}"
		[ ${#recommended[@]} -eq 0 ] || say "  missing, and worth having: ${recommended[*]}"
		how_to_install "${packages[@]}" "${recommended[@]}" | sed 's/^/  /'
	} >&2
	exit 1
}

# setup_packages WITH_LIBFABRIC LIST...: installs LISTs and what a build requires; with
# "yes", configure's arguments name a libfabric, so that the system's is not needed
setup_packages() {
	local with=$1 required=$required_packages recommended

	shift
	[ "$with" = no ] || required=$(grep -v libfabric-dev <<<"$required")
	# a tarball has its configure; that of a checkout is made anew when what it is made from changes
	[ ! -x "$top/configure" ] || [ -e "$top/.git" ] || required=$(grep -v 'auto\|libtool' <<<"$required")
	[ -n "$no_install" ] || install_packages "$required" "$*"
	require_packages "$required" "$*"
	mapfile -t recommended < <(missing "$*")
	[ ${#recommended[@]} -gt 0 ] || return 0
	say "Some checks will be skipped without these packages: ${recommended[*]}"
	[ -n "$no_install" ] || how_to_install "${recommended[@]}"
}

# quietly LOG COMMAND...: the output goes to LOG; its end is shown when COMMAND fails
quietly() {
	local log=$1

	shift
	mkdir -p "$(dirname "$log")" || return 1
	"$@" >"$log" 2>&1 </dev/null && return
	show_failure "$log" "$@"
}

# show_failure LOG COMMAND...: what COMMAND has failed with. Fails
show_failure() {
	local log=$1

	shift
	echo "failed: $*" >&2
	grep -E 'error|Error' "$log" | head -n 5 >&2
	tail -n 8 "$log" >&2
	echo "(all of it in $log)" >&2
	return 1
}

jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
no_install=

# make_configure: a checkout has no configure yet
make_configure() {
	[ -x "$top/configure" ] && return
	quietly "$1/autogen.log" "$top/autogen.sh"
}

# run_configure SOURCE ARG...: here. It prefers bash, in which libtool takes twice as long as in
# dash: a third of a build
run_configure() {
	local source=$1

	shift
	[ ! -x /bin/dash ] || local -x CONFIG_SHELL=${CONFIG_SHELL:-/bin/dash}
	"$source/configure" "$@"
}

# configure_tree DIR ARG...: DIR is configured anew only when there are arguments or when
# it never was, or, with $look_again, as it was, for what has been installed since; later
# changes are make's business
look_again=
configure_tree() {
	local dir=$1

	shift
	mkdir -p "$dir" || return 1
	make_configure "$dir" || return 1
	if [ $# -gt 0 ] || [ ! -f "$dir/Makefile" ]; then
		(cd "$dir" && quietly "$dir/configure.log" run_configure "$top" "$@")
	elif [ -n "$look_again" ]; then
		(cd "$dir" && quietly "$dir/configure.log" ./config.status --recheck &&
			quietly "$dir/config.status.log" ./config.status)
	fi
}

# absolute DIR: its path, made if need be, where we may write
absolute() {
	mkdir -p "$1" || return
	[ -w "$1" ] || die "$1: not yours to write: another user has built there. Remove it, or name another directory"
	(cd "$1" && pwd)
}

# skip_all REASON: ends a script that cannot do here what it is for
skip_all() {
	echo "skip: $*"
	exit 77
}

# ---- the machine ----

# list_cpus SET: the CPUs of a set such as 0-3,8, one a line
list_cpus() {
	local range

	for range in ${1//,/ }; do
		seq "${range%-*}" "${range#*-}"
	done
}

# allowed_cpus: those that we may use, one a line
allowed_cpus() {
	list_cpus "$(sed -n 's/^Cpus_allowed_list:[ \t]*//p' /proc/self/status)"
}

# core_cpus CPU: the CPUs of its core, with commas
core_cpus() {
	list_cpus "$(cat "/sys/devices/system/cpu/cpu$1/topology/thread_siblings_list" \
		2>/dev/null)" | paste -s -d ,
}

# pick_cpus: two that we may use, on different cores if there are such
pick_cpus() {
	local cpu first='' second='' siblings

	for cpu in $(allowed_cpus); do
		if [ -z "$first" ]; then
			first=$cpu
			siblings=,$(core_cpus "$cpu"),
		elif [[ $siblings != *,$cpu,* ]]; then
			echo "$first,$cpu"
			return
		elif [ -z "$second" ]; then
			second=$cpu
		fi
	done
	[ -z "$second" ] || echo "$first,$second"
}

# halve_cpus: all that we may use, as two sets with a slash between them. The CPUs of a core stay
# together, but for one core if need be.
halve_cpus() {
	local cpu core both half

	mapfile -t both < <(for cpu in $(allowed_cpus); do
		core=$(core_cpus "$cpu")
		echo "${core%%,*} $cpu"
	done | sort -n -k 1,1 -k 2,2 | awk '{ print $NF }')
	half=$((${#both[@]} / 2))
	[ "$half" -eq 0 ] ||
		echo "$(set_of "${both[@]:0:half}")/$(set_of "${both[@]:half}")"
}

# set_of CPU...: the set that list_cpus takes
set_of() {
	printf '%s\n' "$@" | sort -n | awk '
		NR > 1 && $1 == last + 1 { last = $1; next }
		{ end_range(); first = last = $1 }
		END { end_range(); print sets }
		function end_range() {
			if (first != "")
				sets = sets (sets == "" ? "" : ",") first \
					(last > first ? "-" last : "")
		}'
}

# choose_gpu BUILD PROVIDER LOG: whether device memory can be used is asked of those who will use
# it, with FI_PROVIDER_PATH as it is. Sets $device, what there is in words, and $gpus, the
# options for fabtests/pair that give each process a GPU of its own; fails, with the reason
# in LOG, where there is none that can be used.
choose_gpu() {
	local build=$1 provider=$2 log=$3 name
	local probe=("$top/fabtests/pair" "$build/fabtests/fi_p2p_pingpong" -p "$provider" -D cuda
		-S 64 -I 1 -w 0)

	gpus=()
	if ! timeout -s KILL 60 "${probe[@]}" >"$log" 2>&1 </dev/null; then
		! nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || {
			cat "$log" >&2
			die "there is a GPU, but its memory could not be used (above);" \
				"--emulate does without"
		}
		return 1
	fi
	device="one GPU for both processes"
	if timeout -s KILL 60 "${probe[@]}" --server -i 0 --client -i 1 >"$log.two" 2>&1 </dev/null
	then
		gpus=(--server -i 0 --client -i 1)
		device="two GPUs, one for each process"
	fi
	if grep -q EMULATED "$log"; then
		emulated_gpu "$build"
	else
		name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
		device="real: $device${name:+ ($name)}"
	fi
}

# emulated_gpu BUILD: the same, with BUILD's emulated ones in the place of any others
emulated_gpu() {
	local settings

	settings=$("$top/contrib/env" --emulate "$1") || exit 2
	eval "$settings"
	emulate=yes
	device="EMULATED: a test device, whose figures would mean nothing"
	gpus=(--server -i 0 --client -i 1)
}

# ---- namespaces ----

# why_no_namespaces: nothing where in_namespaces works, else the reason
why_no_namespaces() {
	if [ "$(id -u)" -ne 0 ]; then
		echo "only root may"
	else
		unshare --mount --pid --fork mount -t proc proc /proc 2>&1
	fi
}

# in_namespaces COMMAND...: with processes and mounts of its own. All that runs in there ends with
# unshare: when we are killed, too, and with our signals, which the first process of a
# namespace would not hear.
in_namespaces() {
	local inside signal

	setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child "$@" <&0 &
	inside=$!
	for signal in INT TERM HUP; do
		# shellcheck disable=SC2064 # of now
		trap "kill -KILL $inside; wait $inside 2>/dev/null; trap - $signal; kill -$signal \$\$" $signal
	done
	wait "$inside"
}

# ---- userlands of Debian releases ----

# Where they are kept between runs
cache=${XDG_CACHE_HOME:-/var/cache}/p2p-fi

# debian_mirror: where apt has Debian's own packages from
debian_mirror() {
	# shellcheck disable=SC2016 # apt-get's own
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
		'Label: Debian' 2>/dev/null | sort -u | head -n 1 | grep .
}

# debian_tree TREE RELEASE VARIANT CONTENTS [FINISH]: makes TREE of packages, VARIANT of mmdebstrap
# with CONTENTS, separated by commas, unless it is there and of this recipe. FINISH, a
# function, does the rest, given the new tree.
debian_tree() {
	local tree=$1 release=$2 variant=$3 contents=$4 finish=${5-} recipe=$4 mirror new=$1.$$

	[ -z "$finish" ] || recipe+=$'\n'$(declare -f "$finish")
	! debian_tree_is "$tree" "$recipe" || return 0
	[ ! -e "$tree" ] || [ -e "$tree/.packages" ] || rmdir "$tree" 2>/dev/null ||
		die "$tree: there is something else"
	there mmdebstrap || skip_all "mmdebstrap is not installed"
	mirror=$(debian_mirror) ||
		{ apt-get -qq update >/dev/null 2>&1 && mirror=$(debian_mirror); } ||
		skip_all "apt knows no mirror of Debian here"
	mkdir -p "$(dirname "$tree")" || exit 2
	# shellcheck disable=SC2064 # of now
	trap "rm -rf --one-file-system '$new'" EXIT
	mmdebstrap --variant="$variant" --include="$contents" "$release" "$new" \
		"deb $mirror $release main" >"$tree.log" 2>&1 </dev/null ||
		skip_all "mmdebstrap: $(grep '^E: ' "$tree.log" | head -n 1) (log $tree.log)"
	[ -z "$finish" ] || "$finish" "$new" >>"$tree.log" 2>&1 ||
		die "$tree: cannot be finished (log $tree.log)"
	echo "$recipe" >"$new/.packages"
	[ ! -e "$tree/.packages" ] || rm -rf --one-file-system "$tree"
	# Another run may have been quicker.
	mv -T "$new" "$tree" 2>/dev/null || debian_tree_is "$tree" "$recipe" ||
		die "$tree: cannot be put there"
	rm -rf --one-file-system "$new"
	trap - EXIT
}

# debian_tree_is TREE RECIPE
debian_tree_is() {
	[ "$(cat "$1/.packages" 2>/dev/null)" = "$2" ]
}
