#!/bin/sh
# Run every test again as an ordinary user, for make test run by root. The test
# binaries are built here and run in a copy of the tree that the user owns, so
# that neither needs the other's home.
set -eu

uid=24680 # an ordinary number; it needs no name
work=$(mktemp -d /tmp/forge-user-XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/home" "$work/tmp" "$work/tests"
git ls-files -z | xargs -0 cp --parents -t "$work/tree"
cp -r bin "$work/bin"
go test -c -o "$work/tests/" ./...
chown -R "$uid:$uid" "$work"
chmod 755 "$work"

failed=0
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./...); do
	dir=${package#"$PWD/"}
	log="$work/log"
	begin=$(date +%s)
	if (cd "$work/tree/$dir" && setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all \
		env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$work/home" TMPDIR="$work/tmp" FORGE_BIN="$work/bin" \
		"$work/tests/$(basename "$dir").test" -test.v -test.timeout=10m) >"$log" 2>&1; then
		echo "ok   as uid $uid  $dir  $(($(date +%s) - begin))s"
	else
		echo "FAIL as uid $uid  $dir"
		grep -v -e '^=== ' -e '^ *--- PASS' "$log" | tail -n 80
		failed=1
	fi
done
exit "$failed"
