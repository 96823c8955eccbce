package e2e

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors is the table of ARCHITECTURE.md: a package of lib/ imports from lower
// floors only. The pure floors are 0 to 2.
var floors = map[string]int{
	"fail": 0,
	"wire": 1, "schema": 1, "chain": 1,
	"tool": 2, "policy": 2, "redact": 2,
	"store":    3,
	"registry": 4, "trail": 4, "runs": 4, "cache": 4, "breaker": 4, "egress/inside": 4,
	"lint": 5, "sandbox": 5, "egress": 5,
	"cmdline": 6, "mcp": 6,
}

// sameFloor holds the imports within a floor that are allowed: wire is how
// schemas are read, a policy speaks of names and limits, and lint runs the
// interpreter in the sandbox.
var sameFloor = map[string][]string{
	"schema": {"wire"},
	"policy": {"tool"},
	"lint":   {"sandbox"},
}

// importers names who alone imports a third-party module; golang.org/x/* is
// free, and urfave/cli belongs to cmdline and the commands.
var importers = map[string][]string{
	"github.com/xeipuuv/gojsonschema":    {"lib/schema"},
	"github.com/BurntSushi/toml":         {"lib/tool"},
	"github.com/go-json-experiment/json": {"lib/trail"},
	"github.com/rogpeppe/go-internal":    {"e2e/script"},
	"github.com/urfave/cli":              {"lib/cmdline", "cmd/"},
}

// impure is what no pure package imports: files, processes, clocks, chance.
var impure = []string{"os", "os/exec", "os/signal", "syscall", "net", "net/http", "crypto/rand", "math/rand", "math/rand/v2", "golang.org/x/sys/unix"}

func TestImports(t *testing.T) {
	root := ".."
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() && (rel == "tools" || rel == ".git" || strings.Contains(rel, "testdata")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		test := strings.HasSuffix(rel, "_test.go")
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if problem := judge(dir, imp, test); problem != "" {
				t.Errorf("%s imports %s: %s", rel, imp, problem)
			}
		}
		if name, ok := strings.CutPrefix(dir, "lib/"); ok {
			seen[name] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range floors {
		if !seen[name] {
			t.Errorf("the table has lib/%s, and there is none", name)
		}
	}
}

// judge returns what is wrong with an import, "" for nothing.
func judge(dir, imp string, test bool) string {
	name, inLib := strings.CutPrefix(dir, "lib/")
	floor, known := floors[name]
	if inLib && !known {
		return "the package has no floor"
	}
	if target, ok := strings.CutPrefix(imp, "forge/lib/"); ok {
		if !inLib || test {
			return ""
		}
		if floors[target] >= floor && !slices.Contains(sameFloor[name], target) {
			return "imports go down only"
		}
		return ""
	}
	if strings.HasPrefix(imp, "forge/cmd/") {
		return "commands never import commands"
	}
	if strings.HasPrefix(imp, "forge/") {
		if test {
			return ""
		}
		return "e2e is for tests"
	}
	first, _, _ := strings.Cut(imp, "/")
	if strings.Contains(first, ".") && !strings.HasPrefix(imp, "golang.org/x/") {
		for module, who := range importers {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if slices.ContainsFunc(who, func(w string) bool { return dir == w || strings.HasSuffix(w, "/") && strings.HasPrefix(dir, w) }) {
				return ""
			}
			return "imported by " + strings.Join(who, " and ") + " alone"
		}
		return "the module is not in the table"
	}
	if inLib && !test && floor <= 2 && slices.Contains(impure, imp) {
		return "floors 0 to 2 are pure"
	}
	return ""
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		dir, imp string
		bad      bool
	}{
		{"lib/wire", "forge/lib/fail", false},
		{"lib/fail", "forge/lib/wire", true},
		{"lib/trail", "forge/lib/registry", true},
		{"lib/wire", "os", true},
		{"lib/store", "os", false},
		{"cmd/forge", "forge/cmd/forge-call", true},
		{"cmd/forge", "github.com/xeipuuv/gojsonschema", true},
		{"cmd/forge", "github.com/urfave/cli/v3", false},
		{"lib/wire", "github.com/new/thing", true},
		{"lib/new", "os", true},
	} {
		if got := judge(c.dir, c.imp, false); (got != "") != c.bad {
			t.Errorf("%s imports %s: %q", c.dir, c.imp, got)
		}
	}
}
