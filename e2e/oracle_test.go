package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A dozen lines of shell agree with forge-audit, on a trail and on each of its
// lines changed.
func TestShellOracle(t *testing.T) {
	oracle, err := filepath.Abs("../scripts/verify.sh")
	if err != nil {
		t.Fatal(err)
	}
	b := newBox(t)
	b.write("fib.json", fib)
	b.sh(`forge-forge < fib.json; forge-call fib <<< '{"n":5}'; forge-call fib <<< '{"n":"x"}'; forge-audit append my.event <<< '{"s":"\" \\ \u00e9 %s"}'; true`)
	path := filepath.Join(b.Home, "audit", "audit-000001.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	head := lines[len(lines)-1]
	want := fmt.Sprintf("%d lines, head %s\n", len(lines), head[len(head)-66:len(head)-2])
	if out := b.sh("sh " + oracle + " " + path); out != want {
		t.Errorf("%q, want %q", out, want)
	}
	at := 0
	for i, line := range lines {
		changed := []byte(string(whole))
		changed[at+len(line)/2] ^= 1
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		out, status := b.status("sh " + oracle + " " + path)
		if status != 1 || !strings.Contains(out, fmt.Sprintf(":%d: does not verify", i+1)) {
			t.Errorf("line %d changed: %d %s", i+1, status, out)
		}
		at += len(line)
	}
}
