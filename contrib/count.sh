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

# test_that NAME COMMAND...: one test, passed when COMMAND succeeds; its output is shown
# when not
test_that() {
	local name=$1 log

	shift
	log=$(log_of "$name")
	if "$@" >"$log" 2>&1 </dev/null; then
		pass "$name"
	else
		fail "$name (log $log)"
		{ grep -m 5 -E 'error:|warning:' "$log" || tail -n 8 "$log"; } | sed 's/^/     /'
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

# counted NAME COMMAND...: a runner that prints pass, FAIL and skip lines, and counts
counted() {
	local name=$1 log

	shift
	log=$(log_of "$name")
	echo "-- $name"
	"$@" >"$log" 2>&1 </dev/null
	grep -E '^(FAIL|skip) |^     ' "$log"
	add_counts "$name" "$log"
	tail -n 1 "$log"
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
