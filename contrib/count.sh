# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# For scripts that run tests and count them: sourced after lib.sh, with $logs set before
# anything is run.
# shellcheck disable=SC2154 # $logs

passed=0 failed=0 skipped=0
failures=()

pass() {
	passed=$((passed + 1))
	echo "pass $*"
}

fail() {
	failed=$((failed + 1))
	failures+=("$*")
	echo "FAIL $*"
}

skip() {
	skipped=$((skipped + 1))
	echo "skip $*"
}

# log_of NAME: where the output of what is called so goes; long names end in a checksum
log_of() {
	local name

	name=$(printf '%s' "$1" | tr -cs 'A-Za-z0-9.=-' _)
	[ ${#name} -le 120 ] || name=${name:0:100}_$(cksum <<<"$1" | cut -d ' ' -f 1)
	echo "$logs/$name.log"
}

# how_far LOG: "N of N, ", where LOG has a line "tests N" or "objects N", then one for each; or how
# many inputs a fuzzer has tried, or operations a soak has done
how_far() {
	awk '/^(tests|objects) +[0-9]+$/ { total = $2; done = 0 }
		/^(pass|FAIL|skip) |^(PASS|FAIL|SKIP|ERROR): |^  CC / { done++ }
		/^#[0-9]+\t/ { inputs = substr($1, 2) }
		/ rounds, [0-9]+ operations, / { operations = $5 }
		END {
			if (inputs)
				printf "%d inputs, ", inputs
			else if (operations)
				printf "%d operations, ", operations
			else if (total)
				printf "%d of %d, ", done, total
			else if (done)
				printf "%d so far, ", done
		}' "$1"
}

# heartbeat LOG NAME: prints a line every ten seconds, without end
heartbeat() {
	local since=$SECONDS never

	# nothing comes out of this pipe; a process that sleeps would live longer than this one
	exec {never}<> <(:)
	while ! read -r -t 10 -u "$never"; do
		say "   $(how_far "$1")$((SECONDS - since)) s: $2"
	done
}

# watched NAME LOG COMMAND...: runs COMMAND, whose output goes to LOG, and says how far it is.
# Sets $took, in seconds; returns COMMAND's status
running=() took=
watched() {
	local name=$1 log=$2 since=$SECONDS status

	shift 2
	: >"$log" || return
	# Each has a process group of its own, which end_running ends.
	set -m
	heartbeat "$log" "$name" &
	running=($!)
	"$@" >"$log" 2>&1 </dev/null &
	running+=($!)
	set +m
	wait "${running[1]}"
	status=$?
	kill "${running[0]}"
	wait "${running[0]}" 2>/dev/null
	running=() took=$((SECONDS - since))
	return "$status"
}

# What runs beside what follows
aside=()

# begin_aside NAME COMMAND...: COMMAND, a runner as counted has it, goes on beside what follows, until count_aside NAME
begin_aside() {
	set -m
	"${@:2}" >"$(log_of "$1, aside")" 2>&1 </dev/null &
	aside=($!)
	set +m
}

# count_aside NAME: waits for it, and counts what it said
count_aside() {
	counted "$1" tail --pid="${aside[0]}" -n +1 -f "$(log_of "$1, aside")"
	aside=()
}

# end_running: ends what watched runs, and what runs aside, in a script that is ended itself
end_running() {
	local pid

	for pid in "${running[@]}" "${aside[@]}"; do
		kill -- "-$pid" 2>/dev/null
	done
	wait
}
trap end_running EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# test_that NAME COMMAND...: one test, passed when COMMAND succeeds; its output is shown
# when not. Returns whether it passed
test_that() {
	local name=$1 log

	shift
	log=$(log_of "$name")
	if watched "$name" "$log" "$@"; then
		pass "$name"
	else
		fail "$name (log $log)"
		{ grep -m 5 -E 'error:|warning:' "$log" || tail -n 8 "$log"; } | sed 's/^/     /'
		return 1
	fi
}

# add_counts NAME LOG: adds what a runner counted in its last line
add_counts() {
	local counts

	counts=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' \
		"$2" | tail -n 1)
	if [ -z "$counts" ]; then
		fail "$1: ended early (log $2)"
		tail -n 8 "$2" | sed 's/^/     /'
		return
	fi
	read -r -a counts <<<"$counts"
	passed=$((passed + counts[0]))
	failed=$((failed + counts[1]))
	skipped=$((skipped + counts[2]))
	[ "${counts[1]}" -eq 0 ] || failures+=("$1: ${counts[1]} (log $2)")
}

# What the tests of counted took: each its seconds and names
times=()

# counted NAME COMMAND...: a runner that prints pass, FAIL and skip lines, and counts
counted() {
	local name=$1 log

	shift
	log=$(log_of "$name")
	echo "-- $name"
	watched "$name" "$log" "$@"
	grep -E '^(FAIL|skip) |^     ' "$log"
	mapfile -t -O "${#times[@]}" times < <(name=$name awk \
		'$1 == "pass" && $4 == "(cpu" { print $3 + 0, $2, "in", ENVIRON["name"] }' "$log")
	add_counts "$name" "$log"
	echo "$(tail -n 1 "$log"), $took s"
}

# slowest_tests: the ten that took longest
slowest_tests() {
	[ ${#times[@]} -gt 0 ] || return
	say "slowest tests:"
	printf '%s\n' "${times[@]}" | sort -rn | head -n 10 | sed -E 's/^([0-9.]+) /  \1 s /'
}

# count_summary: the last lines of the output. Returns whether nothing failed
count_summary() {
	if [ ${#failures[@]} -gt 0 ]; then
		say "failed:"
		printf '  %s\n' "${failures[@]}"
	fi
	say
	say "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
}
