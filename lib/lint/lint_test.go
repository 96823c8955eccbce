package lint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"forge/lib/fail"
	"forge/lib/tool"
)

func check(t *testing.T, runtime, impl string) error {
	t.Helper()
	return Check(context.Background(), &tool.Tool{Name: "t", Runtime: runtime, Impl: impl})
}

// The texts are the interpreters' own and differ between versions; where they
// point does not.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct{ runtime, impl, want string }{
		"python":                   {"python3", "import json\nprint(json.dumps({'ok': True}))\n", ""},
		"python, empty":            {"python3", "\n", ""},
		"python, text":             {"python3", "# é 日本 \U0001f600\nx = 'é'\n", ""},
		"python, an encoding":      {"python3", "# -*- coding: latin-1 -*-\nx = 'é'\n", ""},
		"python, no such encoding": {"python3", "# coding: nonsense\nx = 1\n", `^impl line 1 column [0-9]+: .*encoding`},
		"python, fails when run":   {"python3", "import nothing\n1 / 0\n", ""},
		"python, a warning":        {"python3", "x = '\\d'\nassert (1, 'always')\n", ""},
		"python, open":             {"python3", "x = 1\nprint((1)\n", `^impl line 2 column 6: `},
		"python, indent":           {"python3", "  x = 1\n", `^impl line 1 column [0-9]+: unexpected indent$`},
		"python, words":            {"python3", "x = 1\ny = 2 3\n", `^impl line 2 column [0-9]+: `},
		"python, a return":         {"python3", "return 1\n", `^impl line 1 column [0-9]+: 'return' outside function$`},
		"python, python 2":         {"python3", "print 'x'\n", `^impl line 1 column [0-9]+: `},
		"python, deep":             {"python3", "x = " + strings.Repeat("(", 5000) + strings.Repeat(")", 5000), `^impl line 1( column [0-9]+)?: `},
		"python, deeper":           {"python3", "x = " + strings.Repeat("-", 500_000) + "1", `^impl line 1( column [0-9]+)?: `},
		"bash":                     {"bash", "set -eu\nx=$(cat)\necho \"{\\\"ok\\\":true}\"\n", ""},
		"bash, fails when run":     {"bash", "nothing-of-that-name\nexit 3\n", ""},
		"bash, a warning":          {"bash", "cat <<X\nnever ended\n", ""},
		"bash, no fi":              {"bash", "true\nif true; then\n  true\n", `^impl line [34]: syntax error`},
		"bash, a word":             {"bash", "true\nfi\n", `^impl line 2: syntax error near unexpected token`},
		"bash, a quote":            {"bash", "true\necho \"x\n", `^impl line [23]: unexpected EOF`},
		"node":                     {"node", "const x = require('fs')\nconsole.log(1)\n", ""},
		"node, fails when run":     {"node", "throw new Error('x')\n", ""},
		"node, a shebang":          {"node", "#!/usr/bin/env node\nlet x\n", ""},
		"node, a bracket":          {"node", "let a = 1\nlet b = ]\n", `^impl line 2 column 9: SyntaxError: `},
		"node, twice":              {"node", "let a\nlet a\n", `^impl line 2 column [0-9]+: SyntaxError: `},
		"node, no module":          {"node", "import fs from 'fs'\n", `^impl line 1 column [0-9]+: SyntaxError: `},
		"node, an end":             {"node", "function f() {\n", `^impl line [12]( column [0-9]+)?: SyntaxError: `},
		"not known":                {"ruby", "puts 1", `^runtime "ruby" is not known$`},
		"not installed":            {"python3.99", "print(1)", `^interpreter "/usr/bin/python3.99": no such file or directory$`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := check(t, c.runtime, c.impl)
			if c.want == "" {
				if err != nil {
					t.Errorf("%v %+v", err, fail.Of(err).Details)
				}
				return
			}
			e := fail.Of(err)
			if e == nil || !regexp.MustCompile(c.want).MatchString(e.Message) {
				t.Fatalf("%v, want %s", err, c.want)
			}
			want := fail.StaticCheckFailed
			if strings.HasPrefix(name, "not ") {
				want = fail.RuntimeUnavailable
			}
			if e.Kind != want {
				t.Errorf("kind %s", e.Kind)
			}
			if findings, _ := e.Details["findings"].([]Finding); want == fail.StaticCheckFailed && (len(findings) == 0 || findings[0].Line == 0 || findings[0].What == "") {
				t.Errorf("findings %+v", e.Details)
			}
		})
	}
}

// The implementation is read, never run, and cannot answer in the checker's
// place.
func TestCheckRunsNothing(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	for runtime, impl := range map[string]string{
		"python3": "open(" + "'" + marker + "', 'w')\nprint('[]')\n)",
		"bash":    "touch " + marker + "\nexit 0\n)",
		"node":    "require('fs').writeFileSync('" + marker + "', 'x'); process.exit(0)\n)",
	} {
		err := check(t, runtime, impl)
		if fail.KindOf(err) != fail.StaticCheckFailed {
			t.Errorf("%s: %v", runtime, err)
		}
		if _, err := os.Lstat(marker); err == nil {
			t.Errorf("%s: ran", runtime)
		}
	}
	// bash -n runs nothing even where the text would set the option back.
	if err := check(t, "bash", "set +n\ntouch "+marker+"\n"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("ran after set +n")
	}
}

// A text that prints like the interpreter's own report is no report.
func TestFakedFindings(t *testing.T) {
	if f := bashFindings("/tool/tool.sh: line 7: nothing wrong\n", 0); f != nil {
		t.Errorf("%+v", f)
	}
	f := bashFindings("/tool/tool.sh: line 3: syntax error near unexpected token `fi'\n/tool/tool.sh: line 3: `fi: line 9: x'\n", 2)
	if len(f) != 1 || f[0] != (Finding{Line: 3, What: "syntax error near unexpected token `fi'"}) {
		t.Errorf("%+v", f)
	}
	if f := bashFindings("no line at all\n", 2); len(f) != 1 || f[0].What != "bash -n ended with status 2: no line at all" {
		t.Errorf("%+v", f)
	}
	if f := nodeFindings("", 9); len(f) != 1 || f[0] != (Finding{Line: 1, What: "node --check ended with status 9"}) {
		t.Errorf("%+v", f)
	}
	n := nodeFindings("/tool/tool.cjs:12\nlet b = ]\n        ^\n\nSyntaxError: Unexpected token ']'\n    at x:1:1\n", 1)
	if len(n) != 1 || n[0] != (Finding{Line: 12, Column: 9, What: "SyntaxError: Unexpected token ']'"}) {
		t.Errorf("%+v", n)
	}
}

func TestCheckCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := Check(ctx, &tool.Tool{Name: "t", Runtime: "python3", Impl: "print(1)"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
