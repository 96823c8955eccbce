#!/bin/sh
# Run every fuzz target for the time given, one after another.
set -eu
time=${1:-30s}
git ls-files '*_test.go' | xargs grep -H '^func Fuzz' | sed 's/^\(.*\)\/[^/]*:func \(Fuzz[A-Za-z0-9_]*\)(.*/\1 \2/' |
	while read -r dir target; do
		echo "== $dir $target"
		go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1s </dev/null
	done
