#!/bin/sh
# The main job, end to end, in a store of its own: forge a tool, call it in the
# sandbox, promote it, call it from another session, verify the trail.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export FORGE_HOME="$work/store" FORGE_SESSION=demo
export PATH="$PWD/bin:$PATH"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*" | if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then cat; else sed 's/\x1b\[[0-9]*m//g'; fi; }
run() {
	say "$1"
	sh -c "$1"
}

cat >"$work/fib.json" <<'TOOL'
{"name": "fib",
 "description": "The nth Fibonacci number.",
 "input_schema": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 1000}}, "required": ["n"]},
 "meta": {"deterministic": true},
 "impl": "import sys, json\nn = json.load(sys.stdin)['n']\na, b = 0, 1\nfor _ in range(n): a, b = b, a + b\nprint(json.dumps({'ok': True, 'data': {'value': a}}))\n"}
TOOL
cd "$work"
run 'cat fib.json'
run 'forge-forge < fib.json'
run 'echo "{\"n\": 300}" | forge-call fib'
say "echo '{\"n\": \"300\"}' | forge-call fib      # refused: not an integer"
echo '{"n": "300"}' | forge-call fib || echo "exit status $?"
run 'forge-promote fib --to user'
run 'echo "{\"n\": 300}" | FORGE_SESSION=another forge-call fib      # from the cache'
run 'forge-list --plain'
run 'forge-audit tail | cut -c 1-110'
run 'forge-audit verify && echo the trail is intact'

say 'the same over MCP: forge and call in one connection'
cat >"$work/frames" <<'FRAMES'
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"demo","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"forge_tool","arguments":{"name":"text.count","description":"Count the words of a text.","input_schema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"impl":"import sys, json\nt = json.load(sys.stdin)['text']\nprint(json.dumps({'ok': True, 'data': {'words': len(t.split())}}))\n"}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"text_count","arguments":{"text":"one two three"}}}
FRAMES
run 'forge-mcp < frames | cut -c 1-150'
