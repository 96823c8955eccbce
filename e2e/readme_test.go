package e2e

import (
	"os"
	"strings"
	"testing"

	"forge/e2e/script"
)

// The pipeline of the README runs as it stands there.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```sh\n")
	block, _, closed := strings.Cut(rest, "```")
	if !ok || !closed || !strings.Contains(block, "forge-audit verify") {
		t.Fatal("the README begins with no pipeline")
	}
	b := newBox(t)
	out := b.sh("set -e\n" + block)
	for _, want := range []string{`"name":"fib"`, `"value":` + fib300, `"to":"user"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	entries, err := os.ReadDir(script.Bin(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(string(text), "`"+e.Name()+"`") {
			t.Errorf("the README does not name %s", e.Name())
		}
	}
}
