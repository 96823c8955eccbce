#!/bin/sh
# Drives forge-mcp with the MCP inspector, a client that others wrote: list,
# forge fib, list again, call fib, and compare every digit.
#
#	tools/interop/run.sh [DIRECTORY OF THE BINARIES]
#
# It installs the inspector from npm into a temporary directory, and fails where
# that cannot be done.
set -eu

bin=$(cd "${1:-bin}" && pwd)
inspector=@modelcontextprotocol/inspector@2.12.0
fib300=222232244629420445529739893461909967206666939096499764990979600

die() {
	printf 'interop: %s\n' "$*" >&2
	exit 1
}

[ -x "$bin/forge-mcp" ] || die "$bin/forge-mcp is missing: run make first"
command -v npm >/dev/null || die "npm is missing: apt-get install npm"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# Its pages and its post-install step are for browsers; --cli wants neither.
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tmp/npm" "$inspector" >"$tmp/npm.log" 2>&1 ||
	die "npm install $inspector: $(cat "$tmp/npm.log")"

# The client hands a server nothing of its environment but HOME, PATH and the
# like, so the store is named; and it leaves its own files in HOME.
inspect() {
	HOME=$tmp/home timeout 120 "$tmp/npm/node_modules/.bin/mcp-inspector" --cli \
		"$bin/forge-mcp" --home "$tmp/store" "$@" --format json --quiet ||
		die "mcp-inspector $* ended with status $?"
}

# has TEXT WANT: the client printed WANT, which grep takes as it stands.
has() {
	printf '%s\n' "$1" | grep -qF -- "$2" || die "not in the answer: $2
$1"
}

mkdir "$tmp/home"
out=$(inspect --method tools/list)
for name in forge_call forge_list forge_promote forge_tool; do
	has "$out" "\"name\":\"$name\""
done
case $out in
*'"name":"fib"'*) die "fib is there before it is forged" ;;
esac

cat >"$tmp/request.json" <<'JSON'
{
  "name": "fib",
  "description": "Compute the nth Fibonacci number.",
  "input_schema": {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 1000}},
    "required": ["n"]
  },
  "impl": "import sys, json\nn = json.load(sys.stdin)['n']\na, b = 0, 1\nfor _ in range(n): a, b = b, a + b\nprint(json.dumps({'ok': True, 'data': {'value': a}}))\n",
  "meta": {"deterministic": true}
}
JSON
out=$(inspect --method tools/call --tool-name forge_tool --tool-args-json "$(cat "$tmp/request.json")")
has "$out" '"wire_name":"fib"'

out=$(inspect --method tools/list)
has "$out" '"name":"fib"'

# The digits are whole in the text; the client itself reads the same number in
# structuredContent as a double.
out=$(inspect --method tools/call --tool-name fib --tool-args-json '{"n":300}')
has "$out" "{\\\"value\\\":$fib300}"
out=$(inspect --method tools/call --tool-name forge_call --tool-args-json '{"name":"fib","arguments":{"n":300}}')
has "$out" "{\\\"value\\\":$fib300}"

# A tool whose schema clients choke on is forged, called by forge_call, and does
# not spoil the list.
out=$(inspect --method tools/call --tool-name forge_tool --tool-args-json '{
  "name": "any.of", "description": "Its schema has a root anyOf.",
  "input_schema": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
  "runtime": "bash", "impl": "echo {\\\"ok\\\":true}"
}')
has "$out" '"listed":false'
out=$(inspect --method tools/call --tool-name forge_call --tool-args-json '{"name":"any.of","arguments":{"a":1}}')
has "$out" '"ok":true'
out=$(inspect --method tools/list)
has "$out" '"name":"fib"'
case $out in
*any_of*) die "a tool that cannot be shown is listed" ;;
esac

# The client reports what other clients may not bear in a schema.
inspect --method tools/list --strict >/dev/null

echo "interop: $inspector lists, forges and calls; fib(300) has all its digits"
