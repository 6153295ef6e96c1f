# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The parts of contrib/check, which sources this: functions part_NAME, and what they share. They use
# its $base, $logs, $all, $only, $factor, $fuzz_seconds, $soak_seconds, $sim_seconds, $trixie, $libfabrics and $no_cmocka.
# shellcheck disable=SC2154 # those

# ---- building ----

# What of the programs make builds, as its variables; nothing for all of them
few=()

# build NAME ARG...: builds the tree and its test programs in $base/NAME, as one test. A failure
# ends the run: later tests would need what is missing.
build() {
	local name=$1

	shift
	test_that "build $name" build_all "$base/$name" "$@" || stop "the build failed"
}

# count_objects DIR: what a build there compiles
count_objects() {
	# shellcheck disable=SC2016 # make's
	make -s -C "$1" --eval='count: ; @echo objects $(words $(sort $(foreach \
		v,$(filter am_%_OBJECTS,$(.VARIABLES)),$($v))))' count
}

build_all() {
	local dir=$1

	shift
	# anew, so that what one run left behind is not taken for the next one's
	rm -rf "$dir"
	configure_tree "$dir" --enable-werror --disable-dependency-tracking "$@" || return
	[ ${#few[@]} -gt 0 ] || count_objects "$dir"
	make -C "$dir" -j "$jobs" "${few[@]}" &&
		make -C "$dir" -j "$jobs" check TESTS= CHECK_TREE=true "${few[@]}"
}

# ---- running ----

# What runs a build's programs, and how many times as long as others they take
personality=() slow=1

# count_tests DIR: the number of automake's tests
count_tests() {
	# shellcheck disable=SC2016 # make's
	make -s -C "$1" --eval='count: ; @echo tests $(words $(TESTS))' count
}

# unit_tests DIR [NAME...]: automake's own tests, or some of them. Many wait, for the emulator's time
unit_tests() {
	local dir=$1

	shift
	[ $# -gt 0 ] || count_tests "$dir"
	"${personality[@]}" make -C "$dir" -j "$((2 * jobs))" check CHECK_TREE=true \
		TEST_SECONDS=$((60 * slow * factor)) ${1:+TESTS="$*"} "${few[@]}"
}

# unit BUILD [NAME...]
unit() {
	local name="unit tests, $1" log counts

	log=$(log_of "$name")
	echo "-- $name"
	watched "$name" "$log" unit_tests "$base/$1" "${@:2}"
	grep -E '^(FAIL|SKIP|ERROR|XPASS): ' "$log"
	counts=$(awk '/^# (PASS|XFAIL):/ { pass += $3 } /^# SKIP:/ { skip += $3 }
		/^# (FAIL|XPASS|ERROR):/ { fail += $3 } /^# TOTAL:/ { total += $3 }
		END { if (total) print pass + 0, "passed,", fail + 0, "failed,", skip + 0,
			"skipped" }' "$log")
	if grep -q ', [1-9][0-9]* failed' <<<"$counts"; then
		cat "$base/$1/test-suite.log" >>"$log" 2>/dev/null
		grep -aE '^\[ +(ERROR|LINE|FAILED) +\]|Sanitizer: |^SUMMARY: ' "$log" | head -n 20
	fi
	echo "$counts" >>"$log"
	if [ -z "$counts" ] && [ -n "$no_cmocka" ]; then
		skip "$name: libcmocka-dev is not installed"
		return
	fi
	add_counts "$name" "$log"
	echo "$counts, $took s"
}

# use BUILD: run what follows with this build's providers and the emulator
use() {
	settings=$("$top/contrib/env" --emulate "$1" 2>&1) || return 1
	eval "$settings"
}

# What runs a command with another libfabric, and how the tests' names say so; nothing for
# the installed one
within=() where=''

# with_libfabric DIR COMMAND...
with_libfabric() {
	local dir=$1

	shift
	PATH=$dir/bin:$PATH LD_LIBRARY_PATH=$dir/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
}

# Three tests at a time, where there are processors for two: a third of their time they wait
lanes=$((jobs > 1 ? 3 : 1))

# Tests that repeat others: those that measure, and the twins, which run one in another setting
measured='^(pingpong|bw)-(msg|odd|to-)' twins='-(gdr|auto|staged|busy|shuffled|lanes)$'
repeated="$measured|$twins" repeated_but_stress="$measured|^([^s]|s[^t]).*$twins"

# What the core has no part in: the driver fails or resets, a peer lies, libraries come and go. It runs over
# tcp;ofi_rxm, plain and with the address sanitizer
any_core='^(unpinned|pinned|hostile|unload|calls|faults|gin-faults|touch|export|iface|owncontext|reset|lanes-host)'
# What kernels and benchmarks do is the same over every core; and programs made of what others try piece by piece
composed='^(jacobi|comd|alltoall|bench|scale|overhead)'
# Kernels, streams and works, and peers without the plugin. These tests wait long, and the simulator has more such peers. They
# run over tcp;ofi_rxm and over Debian 13's shm, which is a later release of the shm here
later_shm='^(xpu|pmem|kernel|stream|served|nccl|nixl|gin-comms|capture|settled|gpufails|foreign|silent-|silent$|kill-dead|example)'
# Descriptors and lanes run over Debian 13's tcp, too, which is a later release of the net here
later_core="$later_shm|^(descriptors|autoprogress|lanes)"
# Each kind of operation alone, over a core that has no room or is late, and over lanes. The simulated worlds have these in
# any order. Tests of several kinds stay: order, nccl, stress
simulated='^(sendrecv|inflight|middling|buffer|load|pingpong-(all|delivery)|multirecv|peek|cancel|rma|atomic|served|cntr|trigger|wait'
simulated+='|threads|closing|farewell|autoprogress|descriptors|gpufails)(-busy|-shuffled|-lanes)+$'

# What takes long, and has the same in another setting that runs, or in the simulated worlds
lengthy='^(foreign|xpu|xpu-rma|farewell|hostile|fork|kill-late|gpufails|descriptors|rma|comd|alltoall|jacobi)-staged$'
lengthy+='|^(xpu-gdr|unpinned-rma|rma-auto-staged|pingpong-all-busy-staged|fork-auto|lanes-auto|alltoall-slow)$'
# The same of those that run alone; and programs that contrib/bench runs
lengthy+='|^(xpu-death-staged|xpu-survivors-staged|peerdeath-(auto|staged)|autoprogress-shuffled|bench|bench-remote|overhead)$'

# Tests that wait more than they touch memory, tests that measure, and those that run in another setting as well
slow_alone='^(descriptors|installed|xpu-survivors|farewell|realloc|kill-dead|lanes|unpinned|silence|silent)'
slow_alone+='|^(bw|xpu-bench)|^stress-(busy|shuffled|[a-z]*-(auto|gdr)|auto)'

# Memory that is shared within a host, over cores that know of none: shm has all
ipc_far='^(pingpong|middling|path-ipc|bw|kinds|no-open)$'

# leave_out [PATTERN [NEVER]]: what the suites from here on leave out, as one before had it; with --all only NEVER, which
# cannot pass here
left_out=()
leave_out() {
	left_out=(${2:+-x "$2"})
	[ -n "$all" ] || left_out+=(${1:+-x "$1"})
}

# functional BUILD MODE MEMORY PROVIDERS [PATTERN]: or the suite "mpi", "ipc", "hosts", "containers", "kill" or "skew"; or
# connected endpoints
suite=functional endpoints=rdm
functional() {
	local log

	log=$(log_of "$suite $endpoints $1 $2 $3 $4$where")
	use "$base/$1" || return
	counted_args=(-m "$2" -D "$3" -p "$4" ${5:+-k "$5"} "${left_out[@]}")
	counted_args+=(-j "$lanes" -T $((slow * factor)))
	[ "$suite" = functional ] || counted_args+=(-f "$suite.list")
	[ "$endpoints" = rdm ] || counted_args+=(-e "$endpoints")
	"${within[@]}" "${personality[@]}" "$top/fabtests/runfabtests" "${counted_args[@]}" \
		-l "${log%.log}" "$base/$1"
}
run_functional() {
	counted "$suite $endpoints $1 $2 $3 $4$where" functional "$@"
}

# What the hook has hands in. It runs all its tests over tcp;ofi_rxm once, and elsewhere these; all with --all
hooked='^(hmem|sendrecv|inflight|order|late|av|cq|multirecv|rma|realloc|threads|kill|stress)'
run_hook() {
	run_functional "$1" hook "$2" "$3" "${all:+.|}$hooked"
}

# What runs in settings whose other tests run in one that is much like them: each kind of operation, and peers' ends; all
# with --all
run_some() {
	run_functional "$1" layered "$2" "$3" "${all:+.|}$hooked|^(pingpong-all|atomic|cntr|wait|peerdeath|farewell)"
}

# What connected endpoints do elsewhere than with the installed libfabric
over_connections='connect|sendrecv|inflight|order|multirecv|rma|cq|wait'

# connected BUILD MEMORY [PATTERN]: over connections by tcp, below ofi_p2p and with the hook
connected() {
	local build=$1 memory=$2

	shift 2
	endpoints=msg
	run_functional "$build" layered "$memory" "tcp;ofi_p2p" "$@"
	run_functional "$build" hook "$memory" tcp "$@"
	endpoints=rdm
}

# bench_gpu: contrib/bench-gpu runs, and nothing fails
bench_gpu() {
	"$top/contrib/bench-gpu" --build "$base/plain" --emulate --provider shm \
		--out "$base/bench-gpu" >"$base/bench-gpu.log" 2>&1 &&
		grep -q 'mean nothing' "$base/bench-gpu/gpu.md"
}

# bench: contrib/bench runs, and its records are complete
bench() {
	local out=$base/bench

	rm -rf "$out"
	"$top/contrib/bench" --build "$base/plain" --emulate --quick --time 1 --sizes 8,65536 \
		--lanes 2 --peers off --out "$out" || return 1
	[ "$(grep -c '"device":[0-9].*"floor":[0-9].*"n":[1-9]' "$out/bench.jsonl")" -eq 132 ] &&
		[ "$(grep -c '"lanes":2,"cpus":[1-9]' "$out/bench.jsonl")" -eq 16 ] &&
		grep -q 'NOTHING' "$out/bench.md"
}

# fi_info of the libfabric in use, with our providers. Its errors matter; its warnings too.
info() {
	FI_PROVIDER_PATH=$base/plain/.libs "${within[@]}" fi_info "$@"
}

listed() {
	info -l | grep -ax "$1:"
}

# The parameters are listed once, though both objects define them.
parameters_once() {
	local name count bad=0

	while read -r name; do
		count=$(info -e | grep -acE "^# FI_${name^^}: ")
		[ "$count" -eq 1 ] && continue
		echo "FI_${name^^} is listed $count times"
		bad=1
	done < <(sed -n 's/^	{"\(p2p_[a-z0-9_]*\)",.*/\1/p' "$top/prov/p2p/src/base/conf.c")
	return "$bad"
}

offered() {
	FI_PROVIDER=$1 info | grep -ax "provider: $1"
}

# The core provider that goes over TCP by itself: "net" was a part of 1.17 only, and tcp does
# what it did from then on
direct_provider() {
	if info -l | grep -aqx 'net:'; then
		echo net
	else
		echo tcp
	fi
}

# providers SUFFIX: all that we test over in the libfabric in use, for -p
providers() {
	echo "$(direct_provider)$1,shm$1,tcp;ofi_rxm$1"
}

# loads: whether the objects of the plain build work in the libfabric in use
loads() {
	local with=${where:- with the installed libfabric} name names

	test_that "ofi_p2p loads$with" listed ofi_p2p
	test_that "ofi_hook_p2p loads$with" listed ofi_hook_p2p
	test_that "parameters are listed once$with" parameters_once
	IFS=, read -r -a names < <(providers ';ofi_p2p')
	for name in "${names[@]}"; do
		test_that "$name is offered$with" offered "$name"
	done
}

# ---- the tarball, and what is installed from it ----

tarball() {
	rm -rf "$base/dist" "$base/dest" && mkdir -p "$base/dist" &&
		rm -f "$base"/plain/libfabric-p2p-*.tar.* &&
		make -C "$base/plain" dist &&
		tar -C "$base/dist" -xf "$base"/plain/libfabric-p2p-*.tar.xz &&
		mkdir "$base/dist/build"
}

# lacks_nothing: every file that git knows is in the tarball
lacks_nothing() {
	! comm -23 <(git -C "$top" ls-files | grep -vx .gitignore | sort) \
		<(cd "$base"/dist/libfabric-p2p-* && find . -type f | sed 's|^\./||' | sort) | grep .
}

# make_tarball TARGET...: of programs those that are installed, with --all others, too
make_tarball() {
	local few=()

	# shellcheck disable=SC2016 # make's
	[ -n "$all" ] || few=('PROGRAMS=$(bin_PROGRAMS)')
	make -C "$base/dist/build" -j "$jobs" "${few[@]}" "$@"
}

# It is the build with clang, too: of the provider and its tools, with --all of the tests as well. contrib/packages checks
# the tree of a tarball.
tarball_builds() {
	local source with=(CFLAGS=-O0)

	! there clang || with+=(CC=clang --with-cuda=own --with-rocm=own)
	source=$(cd "$base"/dist/libfabric-p2p-* && pwd) && cd "$base/dist/build" &&
		run_configure "$source" --enable-werror --disable-dependency-tracking --prefix=/usr \
			--libdir=/usr/lib "${with[@]}" &&
		make_tarball all &&
		{ [ -z "$all" ] || make_tarball check TESTS= CHECK_TREE=true; }
}

installs() {
	make_tarball install DESTDIR="$base/dest"
}

installed_files='
	lib/libfabric/libp2p-fi.so
	lib/libfabric/libp2p_as-fi.so
	lib/libfabric/libp2p_hook-fi.so
	lib/libp2p-buffer.so
	lib/libp2p-buffer.so.0
	lib/libp2p-buffer.so.0.0.1
	lib/pkgconfig/libfabric-p2p.pc
	include/rdma/fi_ext_p2p.h
	include/rdma/fi_p2p_buffer.h
	include/rdma/fi_p2p_xpu.h
	include/rdma/fi_p2p_xpu_abi.h
	include/rdma/fi_p2p_xpu_amo.h
	include/rdma/fi_p2p_xpu_device.h
	include/rdma/fi_p2p_xpu_mapped.h
	include/rdma/fi_p2p_xpu_port.h
	include/rdma/fi_p2p_xpu_ring.h
	include/rdma/fi_p2p_xpu_rma.h
	lib/libnccl-gin-p2p.so
	share/man/man3/fi_p2p_buffer.3
	share/man/man3/fi_p2p_stream.3
	share/man/man3/fi_p2p_xpu.3
	share/man/man7/fi_p2p.7
	share/man/man1/fi_p2p_bw.1
	share/man/man1/fi_p2p_info.1
	share/man/man1/fi_p2p_pingpong.1
	share/man/man1/fi_p2p_stress.1
	share/man/man1/mpirun-p2p.1
	bin/fi_p2p_bw
	bin/fi_p2p_info
	bin/fi_p2p_pingpong
	bin/fi_p2p_stress
	bin/mpirun-p2p
	share/bash-completion/completions/fi_p2p_bw
	share/bash-completion/completions/fi_p2p_info
	share/bash-completion/completions/fi_p2p_pingpong
	share/bash-completion/completions/fi_p2p_stress
	share/bash-completion/completions/mpirun-p2p
'

# Where there is an MPI
mpi_files='lib/libp2p-mpi.so lib/libp2p-mpi.so.0 lib/libp2p-mpi.so.0.0.0 share/man/man7/libp2p-mpi.7
	include/rdma/fi_p2p_mpi.h'

# No more and no less
only_these_installed() {
	local pages mpi=

	[ ! -e "$base/dist/build/libp2p-mpi.la" ] || mpi=$mpi_files

	pages=$(sed -n 's|^	\([a-z0-9_]*\.3\).*|share/man/man3/\1|p' "$top/man/Makefile.include")
	diff <(xargs -n 1 <<<"$installed_files $mpi $pages" | sort) \
		<(cd "$base/dest/usr" && find . ! -type d | sed 's|^\./||' | sort)
}

# nothing_stays: what is installed goes, all of it
nothing_stays() {
	make -C "$base/dist/build" uninstall DESTDIR="$base/dest" && ! find "$base/dest" ! -type d | grep .
}

# ---- fuzzers ----

# The shares of --fuzz: the protocols have more to try than parsers
declare -A fuzz_share=([board]=1 [share]=1 [text]=1 [wire]=1 [states]=3 [live]=3)

# fuzz BUILD NAME SECONDS: runs a fuzzer over its corpus, then for so long with what comes of that
fuzz() {
	local program=$base/$1/fabtests/fuzz/fuzz_$2 corpus=$top/fabtests/fuzz/corpus/$2 status
	local args=(-seed="${STRESS_SEED:-1}" -artifact_prefix="$logs/fuzz_$2-"
		-print_final_stats=1 -timeout=$((60 * factor)))

	rm -f "$logs/fuzz_$2-"*-*
	# its endpoints stay for several inputs, and to open them takes as long as thousands of messages
	[ "$2" != live ] || args+=(-detect_leaks=0 -len_control=0 -max_len=65536 -rss_limit_mb=4096)
	if [ "$3" -gt 0 ]; then
		mkdir -p "$base/fuzz/$2" || return
		args+=(-max_total_time="$3" "$base/fuzz/$2")
	else
		args+=(-runs=0)
	fi
	timeout -k 5 $(($3 + 120 * factor)) "$program" "${args[@]}" "$corpus"
	status=$?
	[ "$status" -eq 0 ] || ! compgen -G "$logs/fuzz_$2-*-*" >/dev/null ||
		echo "error: repeat it: $program $(compgen -G "$logs/fuzz_$2-*-*" | head -n 1)"
	return "$status"
}

# fuzz_all BUILD SECONDS
fuzz_all() {
	local name name_seconds all=0

	export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0
	export UBSAN_OPTIONS=print_stacktrace=1
	export LSAN_OPTIONS=suppressions=$top/fabtests/lsan.supp:print_suppressions=0
	for name in "${!fuzz_share[@]}"; do
		all=$((all + fuzz_share[$name]))
	done
	for name in board share text wire states live; do
		name_seconds=$(($2 * fuzz_share[$name] / all))
		if [ ! -x "$base/$1/fabtests/fuzz/fuzz_$name" ]; then
			skip "fuzz_$name: it wants libcmocka-dev"
			continue
		fi
		test_that "fuzz_$name" fuzz "$1" "$name" "$name_seconds"
		sed -nE 's/^(stat::number_of_executed_units|[a-z][a-z ]*): +([0-9]+)$/     \1: \2/p' \
			"$(log_of "fuzz_$name")"
	done
	unset ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS
}

# ---- the parts ----

# Neither uses two processors all the time
part_structure() {
	begin_aside "check-tree" "$top/contrib/check-tree" --source
	part_build
	count_aside "check-tree"
}

part_build() {
	build plain
}

part_unit() {
	counted "check-tree, built" "$top/contrib/check-tree" --built "$base/plain"
	unit plain
}

# simulate SEEDS [SECONDS]: the seeds from 1, in as many processes as there are tests at a time; or those that nobody
# has run, for so long
simulate() {
	local count=$(($1 / lanes)) first=1 lane pids=() seed status=0
	local each=$count

	if [ -n "${2-}" ]; then
		first=${STRESS_SEED:-$(date +%s)000} each=100000000 count=1
		echo "from seed $first on"
	fi
	for ((lane = 0; lane < lanes; lane++)); do
		seed=$((first + lane * each))
		"$base/plain/fabtests/sim/p2p_sim" --all ${2:+--seconds "$2"} \
			--seeds "$seed-$((seed + count - 1))" >"$logs/sim-$lane.log" 2>&1 &
		pids+=($!)
	done
	for ((lane = 0; lane < lanes; lane++)); do
		wait "${pids[lane]}" || status=1
		cat "$logs/sim-$lane.log"
	done
	return "$status"
}

# Simulated worlds, always the same: a processor runs some 25 seeds a second
part_sim() {
	local worlds=quick seeds=3000

	if [ "$only" = sim ]; then
		test_that "simulated worlds" simulate 0 "$sim_seconds"
		grep -aE '^(FAILED|seed .* fails$|[0-9]+ seeds)' "$(log_of "simulated worlds")"
		return
	fi
	[ -z "$all" ] || worlds=all
	[ "$only" != fast ] && [ -z "$all" ] || seeds=5000
	test_that "simulated worlds" simulate "$seeds"
	test_that "small worlds" "$base/plain/fabtests/sim/p2p_sim" --exhaust "$worlds"
	conform
}

# conform: the simulated cores do what those of the libfabric in use do
conform() {
	counted "models of cores$where" "${within[@]}" "$top/fabtests/sim/conform/run" "$base/plain"
}

part_load() {
	if there fi_info; then
		loads
	else
		skip "loading: libfabric-bin is not installed"
	fi
}

part_faults() {
	counted "faults" "$top/fabtests/faults/run" -j "$lanes" "$base/plain"
}

# soak SECONDS PROGRAM PROVIDER [VARIABLE=VALUE...]: one of the programs that go on as long as one likes
soak() {
	local run_seconds=$1 program=$2 provider=$3

	shift 3
	use "$base/plain" || return
	timeout -k 5 $((run_seconds + 120 * factor)) env "$@" "$base/plain/fabtests/$program" \
		-p "$provider" -D cuda --seconds "$run_seconds" --flat ${STRESS_SEED:+--seed "$STRESS_SEED"} \
		--timeout $((60 * factor))
}

part_soak() {
	local direct provider program variable runs=() run

	direct=$(direct)
	for provider in "tcp;ofi_rxm" "$direct" shm; do
		for program in fi_p2p_load fi_p2p_stress; do
			for variable in FI_P2P_PATH=auto FI_P2P_PATH=stage; do
				runs+=("$program $provider;ofi_p2p $variable")
			done
			runs+=("$program $provider FI_HOOK=p2p")
		done
	done
	for run in "${runs[@]}"; do
		# shellcheck disable=SC2086 # words
		test_that "soak $run" soak $((soak_seconds / ${#runs[@]} + 1)) $run
		grep -E ' operations, |^rank ' "$(log_of "soak $run")" | tail -n 3 | sed 's/^/     /'
	done
}

part_functional() {
	leave_out "$simulated|$lengthy"
	run_functional plain layered cuda "tcp;ofi_rxm;ofi_p2p"
	leave_out "$twins"
	run_functional plain hook cuda "tcp;ofi_rxm"
	connected plain cuda
	leave_out
	suite=ipc
	run_functional plain layered cuda "tcp;ofi_rxm;ofi_p2p" "${all:+.|}$ipc_far"
	run_functional plain layered cuda "shm;ofi_p2p"
	suite=functional
	test_that "contrib/bench" bench
	test_that "contrib/bench-gpu" bench_gpu
}

# Without the libraries of the device, which want a clang of their own release: nothing is linked.
compile_for_amd() {
	local source

	# shellcheck disable=SC2016 # the inner shell's
	for source in "$top"/fabtests/gpu/*.cc; do
		printf '%s\n' "device $source" "host $source"
	done |
		xargs -P "$jobs" -L 1 bash -c 'clang++ -x hip "--cuda-$1-only" -nogpulib --offload-arch=gfx90a \
			--rocm-path=/usr -std=c++17 -O1 -Wall -Wextra -Werror "-I$0/prov/p2p/include" \
			"-I$0/fabtests/common" "-I$0/fabtests/cudaemu" -S -o /dev/null "$2"' "$top"
}

part_builds() {
	# the first build takes the toolkit's headers where there are some, those for the address
	# sanitizer and of the tarball do without
	if [ -n "$all" ]; then
		build gcc-own-declarations --with-cuda=own --with-rocm=own
		build gcc-debug-no-rocm --enable-debug --without-rocm
	fi
	# what is there is nothing to other programs than this one, and unit tests
	[ -n "$all" ] || few=(PROGRAMS=util/info/fi_p2p_info)
	build gcc-debug-without-anything --enable-debug --without-cuda --without-rocm \
		--without-hwloc --without-json-c --without-verbs --disable-tracepoints
	few=()
	if there clang && there hip/hip_version.h; then
		test_that "kernels compile for AMD's GPUs" compile_for_amd
	else
		skip "kernels compile for AMD's GPUs: clang or libamdhip64-dev is not installed"
	fi
}

part_fuzz() {
	if ! there clang; then
		skip "fuzzers: clang is not installed"
	else
		build fuzz-build --enable-debug --enable-fuzz CC=clang CFLAGS=-O2
		fuzz_all fuzz-build "$fuzz_seconds"
	fi
}

part_tarball() {
	if there xz; then
		there clang || skip "a build with clang: it is not installed"
		test_that "make dist" tarball
		if git -C "$top" rev-parse >/dev/null 2>&1; then
			test_that "the tarball has every file" lacks_nothing
		fi
		test_that "the tarball builds" tarball_builds || stop "the build failed"
		test_that "make install" installs
		test_that "what is installed, and nothing else" only_these_installed
		test_that "make uninstall" nothing_stays
	else
		skip "make dist, and a build with clang: xz-utils is not installed"
	fi
}

# direct: direct_provider, if anybody can tell
direct() {
	if there fi_info; then
		direct_provider
	else
		echo tcp
	fi
}

part_elsewhere() {
	local direct memory

	direct=$(direct)
	leave_out "$repeated|$any_core|$composed|^(xpu|descriptors|installed|foreign|autoprogress|kill-dead|gin|fork|objects|waitset)"
	[ -z "$all" ] || connected plain system
	run_functional plain layered system "tcp;ofi_rxm;ofi_p2p"
	run_hook plain system "tcp;ofi_rxm"
	leave_out "$repeated"
	# what differs from CUDA is the backend: the unit tests have been through it already
	run_functional plain layered rocr "tcp;ofi_rxm;ofi_p2p" \
		'sendrecv|order|touch|badinput|inflight|-to-'
	run_functional plain hook rocr "tcp;ofi_rxm" 'sendrecv|order'
	leave_out "$repeated|$any_core|$composed|$later_core"
	# Debian 13 has later releases of both, and runs all
	for memory in cuda ${all:+system}; do
		run_some plain "$memory" "$direct;ofi_p2p,shm;ofi_p2p"
		run_hook plain "$memory" "$direct,shm"
	done
	leave_out
	suite=ipc
	run_functional plain layered cuda "$direct;ofi_p2p" "$ipc_far"
	suite=functional
}

part_hosts() {
	local direct few=()

	direct=$(direct)
	[ -n "$all" ] || few=('^(sendrecv|cut)$')
	suite=hosts
	leave_out '^(rma|foreign|peek|cancel|pingpong|bw-to|(late-link|lossy)-[^c])'
	run_functional plain layered cuda "tcp;ofi_rxm;ofi_p2p"
	leave_out
	run_functional plain hook cuda "tcp;ofi_rxm" "${few[@]}"
	run_functional plain layered cuda "$direct;ofi_p2p" "${few[@]}"
	if [ -n "$all" ]; then
		run_functional plain hook cuda "$direct"
		run_functional plain layered system "tcp;ofi_rxm;ofi_p2p"
		connected plain cuda
	fi
	suite=containers
	run_functional plain layered cuda "tcp;ofi_rxm;ofi_p2p"
	if [ -n "$all" ]; then
		run_functional plain layered cuda "$direct;ofi_p2p"
		# shm is for one /dev/shm, where its names are the processes' ids
		left_out=(-x '^ipc|number')
		run_functional plain layered cuda "shm;ofi_p2p"
		leave_out
	fi
	suite=functional
}

# The last commit that spoke wire version 8, as release 1.0.0 does
old_commit=58a796a

# build_old DIR: its plugins, in DIR/build/.libs, and programs, in DIR/build/fabtests
build_old() {
	rm -rf "$1" && mkdir -p "$1/build" &&
		git -C "$top" archive "$old_commit" | tar -C "$1" -xf - && "$1/autogen.sh" &&
		(cd "$1/build" && run_configure "$1" --disable-dependency-tracking) &&
		make -C "$1/build" -j "$jobs" libp2p-fi.la libp2p_hook-fi.la fabtests/fi_p2p_{bw,pingpong,xpu} \
			fabtests/cudaemu/lib/libcuda.so.1
}

part_skew() {
	if ! git -C "$top" cat-file -e "$old_commit^{commit}" 2>/dev/null; then
		skip "release 1.0.0 at the other end: its commit $old_commit is not in this tree's history"
		return
	fi
	test_that "release 1.0.0 builds, from commit $old_commit" build_old "$base/old" || return
	export FT_OLD_PLUGINS=$base/old/build/.libs
	suite=skew
	run_functional plain layered cuda "tcp;ofi_rxm;ofi_p2p,shm;ofi_p2p,$(direct);ofi_p2p"
	run_functional plain layered system "tcp;ofi_rxm;ofi_p2p"
	run_functional plain hook cuda "tcp;ofi_rxm,shm"
	suite=functional
	unset FT_OLD_PLUGINS
}

part_kill() {
	suite="kill"
	run_functional plain layered cuda "$(providers ';ofi_p2p')"
	run_functional plain layered system "$(providers ';ofi_p2p')"
	run_functional plain hook cuda "$(providers '')"
	suite=functional
}

# Programs that take several numbers of ranks have some with Open MPI 4.1, and others with the 5.0 of Debian 13. These patterns
# leave out what the other one has
mpi_41='^mpi-(exchange|neighbor|several|rma|pt2pt|enqueue|scarce|window|unexpected)-[1345]$'
mpi_50='^mpi-(exchange|neighbor|several|rma|pt2pt|enqueue|scarce|window|unexpected)-2$'

part_trixie() {
	if [ -n "$no_trixie" ]; then
		skip "the tests in Debian 13: $no_trixie"
		return
	fi
	within=("${trixie[@]}") where=" in Debian 13"
	loads
	conform
	leave_out "$repeated|$any_core|$composed|^(xpu-few|realloc|farewell)$|$later_shm"
	run_functional plain layered cuda "${all:+tcp;ofi_rxm;ofi_p2p,}tcp;ofi_p2p"
	leave_out "$repeated|$any_core|$composed|^(xpu-few|realloc|farewell)$"
	run_functional plain layered cuda "shm;ofi_p2p"
	run_hook plain cuda "${all:+tcp;ofi_rxm,shm,}tcp"
	connected plain cuda "${all:+.|}$over_connections"
	# the same programs use host memory, too; this is without a GPU runtime in the process
	run_some plain system "shm;ofi_p2p"
	leave_out
	# Open MPI 5.0, which takes programs made for 4.1
	if [ -x "$base/plain/fabtests/fi_p2p_mpi_bcast" ]; then
		suite=mpi
		# What kernels do, and which way data goes, is no matter of the MPI's. This one has no windows of its own over tcp
		leave_out "$mpi_41|-late-1\$|-none-|-8\$|-20\$|^mpi-(calls-[13]|calls-core-3|example-sum-2)\$|^mpi-(tree|far|gaps|kernel|calculate)-" \
			'^mpi-(capture-3|window-(programs|apart-2))$'
		run_functional plain layered cuda "tcp;ofi_rxm;ofi_p2p"
		leave_out
		suite=functional
	fi
	within=() where=''
}

part_packages() {
	counted "contrib/packages" "$top/contrib/packages" ${no_install:+--no-install} -B "$base/packages"
}

# Where a machine is emulated, that takes one processor: the other one builds what the sanitizers want, without any time limit
part_vm() {
	local some=() sanitizer

	# One machine, and what tells most of the NIC's path, unless all is asked for
	[ -n "$all$only" ] || some=(-s trixie -k '^(first-contact|pingpong|rma|stress|flush|hmem-p2p|staged|dma-buf-refused)$')
	begin_aside "contrib/vm/check" "$top/contrib/vm/check" ${no_install:+--no-install} "${some[@]}" \
		-t $((300 * factor)) -l "$logs/vm" "$base/plain"
	for sanitizer in asan tsan; do
		[[ " ${parts[*]} " != *" $sanitizer "* ]] || "build_$sanitizer"
	done
	count_aside "contrib/vm/check"
}

part_libfabrics() {
	local libfabric

	for libfabric in "${libfabrics[@]}"; do
		within=(with_libfabric "$libfabric") where=" with $libfabric"
		loads
		run_functional plain layered cuda "$(providers ';ofi_p2p')"
		run_functional plain hook cuda "tcp;ofi_rxm"
		connected plain cuda
	done
	within=() where=''
}

part_mpi() {
	local memoryless

	if [ ! -x "$base/plain/fabtests/fi_p2p_mpi_bcast" ]; then
		skip "Open MPI: openmpi-bin or libopenmpi-dev is not installed"
		return
	fi
	suite=mpi
	# more ranks do the same, and with the hook, fewer; without kernels, the hook has three
	leave_out "$mpi_50|-5\$|^mpi-(calls-(quick-3|none-4)|rma-4|any-4|nonblocking-8)\$"
	run_functional plain layered cuda "tcp;ofi_rxm;ofi_p2p"
	leave_out
	run_functional plain layered cuda "net;ofi_p2p" '^mpi-.*-rdma'
	leave_out '^mpi-(any|unexpected)-4$|^mpi-(neighbor|several)-[1245]$|-8$|-none-5$|^mpi-(rma-[12]|(pt2pt|window)-2)$'
	run_functional plain hook cuda "tcp;ofi_rxm"
	# what goes on between GPUs, host memory has from the MPI itself; some programs do without either memory
	memoryless='^mpi-(early|missing|past|wrong|handlers|calculate|kernel|gaps|window-programs|window-apart)|^mpi-(pt2pt|window)-2$'
	leave_out "$memoryless|^mpi-(any|unexpected)-4\$|^mpi-(neighbor|several)-[1245]\$|-8\$|-20\$|-none-|-late-1\$|^mpi-(calls|exchange)-(quick-)?[123]\$"
	run_functional plain layered system "tcp;ofi_rxm;ofi_p2p"
	leave_out
	suite=functional
}

# Sanitizers whose build is there: another part may have made it
declare -A built

# few_asan: MPI's programs and scripts have nothing to do with it. The sanitizers make the state of a simulated process a
# hundred times as long, which is copied at each step: worlds take seconds
few_asan() {
	# shellcheck disable=SC2016 # make's
	[ -n "$all" ] || few=('PROGRAMS=$(filter-out fabtests/fi_p2p_mpi_%,$(bin_PROGRAMS) $(noinst_PROGRAMS))'
		'check_PROGRAMS=$(unit_tests) util/info/json_get')
}

build_asan() {
	[ -z "${built[asan]-}" ] || return 0
	few_asan
	# Unoptimised, a simulated world takes more than its 20 s of a processor; -O2 compiles for twice as long. At -O1
	# gcc does not see that some variables are set
	build asan CFLAGS='-O1 -g1 -Wno-maybe-uninitialized' CXXFLAGS='-O1 -g1' --enable-debug --enable-asan \
		--enable-ubsan --with-cuda=own --with-rocm=own
	few=() built[asan]=yes
}

part_asan() {
	# glibc's blocks of thread-local memory are guessed at by what lies before them, which now
	# and then is taken for an address that the leak check dies of
	local options=detect_stack_use_after_return=1:intercept_tls_get_addr=0 units
	local timed others='^fabtests/sim/'
	# ofi_rxm clears 50 MB for each endpoint, and the sanitizers as much again. With these buffers it is half; messages up
	# to 8 KiB, not 16, are sent at once
	local -x FI_OFI_RXM_BUFFER_SIZE=8192

	export ASAN_OPTIONS=detect_leaks=1:$options
	export UBSAN_OPTIONS=print_stacktrace=1
	build_asan
	few_asan
	slow=3
	# its rules are the emulator's, which every test here runs
	[ -n "$all" ] || others+='|^util/tools/|^fabtests/cudaemu/rules$'
	# shellcheck disable=SC2016 # make's
	mapfile -t units < <(make -s -C "$base/asan" --eval='names: ; @printf "%s\n" $(TESTS)' names |
		grep -Ev "$others")
	unit asan "${units[@]}"
	few=()
	[ -z "$all" ] || test_that "simulated worlds, asan" "$base/asan/fabtests/sim/p2p_sim" --seeds 1-36
	# what is left out measures, is as another one, or is about order and time, not about memory. What is unloaded has
	# no names in reports
	timed='^(unpinned-rma|lanes-host|xpu-(few|native|turns)|autoprogress|foreign|as-rma|fork|lanecut|pingpong-delivery'
	timed+='|hmem-p2p-(async|lazy)|cq-eager|waiting-sleeps|served-late|gin-comms)$'
	leave_out "$repeated_but_stress|$composed|$timed|$slow_alone" '^unload$'
	# lanes are of a core that leaks, and where there are many processors, ofi_rxm has some unasked
	export LSAN_OPTIONS=suppressions=$top/fabtests/lsan.supp:print_suppressions=0
	run_functional asan layered cuda "tcp;ofi_rxm;ofi_p2p"
	leave_out "$repeated|^(no-share|kinds-late)$"
	run_functional asan layered rocr "tcp;ofi_rxm;ofi_p2p" 'sendrecv|order|touch|badinput'
	suite=ipc
	[ -z "$all" ] || run_functional asan layered cuda "tcp;ofi_rxm;ofi_p2p"
	unset LSAN_OPTIONS
	run_functional asan layered cuda "shm;ofi_p2p" "${all:+.|}^(pingpong|kinds|kept|no-|few-imports|open-passes)"
	suite=functional
	run_functional asan hook cuda "tcp;ofi_rxm" "${all:+.|}^(hmem|order|late|multirecv|rma|realloc|kill|stress-small)"
	connected asan cuda "$over_connections"
	run_functional asan layered cuda "shm;ofi_p2p" 'tagged|sendrecv|order|inflight|badinput|stress'
	# net of libfabric 1.17 leaks by itself what it keeps for a connection
	export ASAN_OPTIONS=detect_leaks=0:$options
	run_functional asan layered cuda "$(direct);ofi_p2p" \
		'tagged|sendrecv|order|inflight|stress|backlog'
	leave_out
	slow=1
}

# few_tsan: those in which there are threads. Sets $units, too
few_tsan() {
	local programs=(fabtests/fi_p2p_{atomic,badinput,bw,cancel,cntr,connect,inflight,multirecv,order}
		fabtests/fi_p2p_{peek,peerdeath,pingpong,poll,stress,threads,wait})
	local name checks

	units=(fabtests/cudaemu/emu_test fabtests/cudaemu/emu_graph_test)
	for name in board ${all:+copy copy_rocr} desc_cache gdr idle ipc_share lock mem pmem rocr; do
		units+=("fabtests/unit/unit_$name")
	done
	checks=${units[*]}
	[ -z "$no_cmocka" ] || checks=''
	[ -n "$all" ] || few=(PROGRAMS="${programs[*]}" check_PROGRAMS="$checks")
}

build_tsan() {
	local units

	[ -z "${built[tsan]-}" ] || return 0
	few_tsan
	build tsan CFLAGS='-O2 -g1' CXXFLAGS='-O2 -g1' --enable-debug --enable-tsan
	few=() built[tsan]=yes
}

part_tsan() {
	local threaded units
	# as with the address sanitizer
	local -x FI_OFI_RXM_BUFFER_SIZE=8192

	build_tsan
	few_tsan
	# cudaemu starts a thread in a process that a test has forked: touch means to.
	export TSAN_OPTIONS=die_after_fork=0:second_deadlock_stack=1
	# It does not know of memory maps as random as some kernels make them.
	if ! "$base/tsan/fabtests/fi_p2p_bw" -h >/dev/null 2>&1; then
		personality=(setarch "$(uname -m)" -R)
	fi
	if ! "${personality[@]}" "$base/tsan/fabtests/fi_p2p_bw" -h >/dev/null 2>&1; then
		skip "thread sanitizer: its programs do not start on this machine"
		personality=() few=()
		return
	fi
	slow=3
	unit tsan "${units[@]}"
	# what measures and what is one after the other has no threads but those that these have
	threaded="^((${all:+cq|}cancel|atomic|cntr|poll|wait|badinput|peerdeath)|"
	threaded+="(inflight|order|multirecv|peek|threads|stress-small${all:+|stress-large})${all:+(-staged)?}|"
	threaded+="(threads|stress-small)-staged|${all:+threads-gdr|}"
	# nor those in which the thread of automatic progress does what a peer asks for, who
	# then says so by a socket
	threaded+="(${all:+cq|}inflight|order|multirecv|cancel|cntr|wait|threads)-auto)\$"
	# with automatic progress they have one thread more
	leave_out '^(inflight|order|multirecv|cancel|cntr|wait)$'
	run_functional tsan layered cuda "tcp;ofi_rxm;ofi_p2p" "$threaded"
	leave_out "$repeated|^bw-|stress-large"
	run_functional tsan layered rocr "tcp;ofi_rxm;ofi_p2p" order
	run_functional tsan hook cuda "tcp;ofi_rxm" "${all:+tagged|inflight|}order|stress"
	connected tsan cuda "${all:+inflight|order|}connect|threads"
	leave_out
	slow=1 personality=() few=()
}
