package schema

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"forge/lib/fail"
	"forge/lib/wire"
)

// TestCases holds the cases of testdata: for each schema and instance, the
// outcomes that are right. No case may reach the network.
func TestCases(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases struct {
		Cases []struct {
			ID, Title, Schema, Instance string
			InstanceB64                 string `json:"instance_b64"`
			Want                        []string
		}
	}
	if err := json.Unmarshal(text, &cases.Cases); err != nil {
		t.Fatal(err)
	}
	var hits atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		_, _ = w.Write([]byte("{}"))
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases.Cases {
		t.Run(c.ID+" "+c.Title, func(t *testing.T) {
			text := strings.NewReplacer("__LOOPBACK__", srv.URL, "__TMPFILE__", file).Replace(c.Schema)
			instance := []byte(c.Instance)
			if c.InstanceB64 != "" {
				if instance, err = base64.StdEncoding.DecodeString(c.InstanceB64); err != nil {
					t.Fatal(err)
				}
			}
			outcome, err := judge([]byte(text), instance)
			if !slices.Contains(c.Want, outcome) {
				t.Errorf("%s (%v), want %s", outcome, err, c.Want)
			}
			t.Logf("%s: %v", outcome, err)
		})
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d fetches", n)
	}
	if len(cases.Cases) != 81 {
		t.Errorf("%d cases, want 81", len(cases.Cases))
	}
}

// judge puts a schema and an instance through the whole way.
func judge(text, instance []byte) (string, error) {
	author, err := wire.Parse(text, wire.Instance)
	if err != nil {
		return "refuse-schema", err
	}
	lowered, err := Lower(author)
	if err != nil {
		if fail.KindOf(err) != fail.SchemaUnsupported {
			return "kind " + string(fail.KindOf(err)), err
		}
		return "refuse-schema", err
	}
	s, err := Compile(author, lowered)
	if err != nil {
		return "does not compile", err
	}
	v, err := wire.Parse(instance, wire.Instance)
	if err != nil {
		return "reject", err
	}
	if err := s.Check(v); err != nil {
		if fail.KindOf(err) != fail.ValidationFailed {
			return "kind " + string(fail.KindOf(err)), err
		}
		return "reject", err
	}
	return "accept", nil
}
