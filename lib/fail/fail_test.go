package fail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rows of DESIGN §3.
var want = map[int][]Kind{
	1:   {"tool_crashed", "bad_output", "tampered"},
	4:   {"attention"},
	64:  {"usage"},
	65:  {"bad_input", "validation_failed", "schema_unsupported", "name_invalid", "static_check_failed", "lint_failed"},
	66:  {"not_found"},
	69:  {"sandbox_unavailable", "runtime_unavailable", "network_unavailable"},
	70:  {"internal"},
	73:  {"name_taken", "conflict"},
	74:  {"io_error", "audit_unavailable"},
	75:  {"breaker_open", "busy"},
	77:  {"persona_denied", "namespace_denied", "name_forbidden", "secret_denied", "unrecorded", "approval_required", "path_denied", "command_blocked"},
	78:  {"policy_malformed", "vault_malformed", "config_malformed", "registry_malformed", "trust_missing"},
	124: {"timeout"},
	137: {"resource_limit"},
}

func TestTable(t *testing.T) {
	n, last := 0, 0
	for status, kinds := range want {
		n += len(kinds)
		for _, k := range kinds {
			if got := StatusOf(k); got != status {
				t.Errorf("%s ends with %d, want %d", k, got, status)
			}
		}
	}
	seen := map[Kind]bool{}
	for _, r := range Table {
		if seen[r.Kind] || r.Meaning == "" || r.Status < last {
			t.Errorf("row %+v stands twice, says nothing, or is out of order", r)
		}
		seen[r.Kind], last = true, r.Status
	}
	if len(Table) != n {
		t.Errorf("%d kinds, want %d", len(Table), n)
	}
	if got := StatusOf("a_tools_own"); got != 1 {
		t.Errorf("a kind that is not ours ends with %d", got)
	}
}

func TestError(t *testing.T) {
	cause := errors.New("disk on fire")
	base := New(IOError, "use another disk", "read %q: %w", "x", cause).With("n", 1).With("n", 2)
	for _, c := range []struct {
		err     error
		kind    Kind
		message string
		hint    string
	}{
		{nil, "", "", ""},
		{base, IOError, `read "x": disk on fire`, "use another disk"},
		{fmt.Errorf("open the store: %w", base), IOError, `open the store: read "x": disk on fire`, "use another disk"},
		{New(Conflict, "", "outer: %w", base), Conflict, `outer: read "x": disk on fire`, ""},
		{cause, Internal, "disk on fire", ""},
	} {
		if got := KindOf(c.err); got != c.kind {
			t.Errorf("%v: kind %q, want %q", c.err, got, c.kind)
		}
		e := Of(c.err)
		if c.err == nil {
			if e != nil {
				t.Errorf("Of(nil) = %v", e)
			}
			continue
		}
		if e.Message != c.message || e.Hint != c.hint || e.Error() != c.message {
			t.Errorf("%v: %q, hint %q", c.err, e.Message, e.Hint)
		}
		if !errors.Is(c.err, cause) || !errors.Is(e, cause) {
			t.Errorf("%v: the cause is lost", c.err)
		}
	}
	if base.Message != `read "x": disk on fire` || base.Details["n"] != 2 {
		t.Errorf("the error itself was changed: %+v", base)
	}
}

// unreachable are the kinds of commands that there are not yet.
var unreachable = []Kind{ApprovalRequired, CommandBlocked, VaultMalformed}

// Every row of the table that the commands can reach has a script that reaches
// it: a command that must end with the row's status, and then an envelope with
// its kind.
func TestScriptsReach(t *testing.T) {
	files, err := filepath.Glob("../../cmd/*/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	reached := map[Kind]bool{}
	kind := regexp.MustCompile(`^stdout .*"kind":"([a-z_]+)"`)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		status := 0
		for line := range strings.SplitSeq(string(b), "\n") {
			if strings.HasPrefix(line, "-- ") {
				break
			}
			switch words := strings.Fields(line); {
			case len(words) > 1 && words[0] == "status":
				status, _ = strconv.Atoi(words[1])
			case len(words) > 0 && words[0] == "exec":
				status = 0
			}
			if m := kind.FindStringSubmatch(line); m != nil && StatusOf(Kind(m[1])) == status {
				reached[Kind(m[1])] = true
			}
		}
	}
	for _, r := range Table {
		if none := slices.Contains(unreachable, r.Kind); reached[r.Kind] == none {
			t.Errorf("%s: reached %v, unreachable %v", r.Kind, reached[r.Kind], none)
		}
	}
}
