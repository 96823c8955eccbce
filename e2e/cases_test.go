package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// The cases of lib/schema whose root is an object, through the commands: a tool
// with that schema is forged in a store of its own, and called with --check.
func TestSchemaCases(t *testing.T) {
	text, err := os.ReadFile("../lib/schema/testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID, Schema, Instance string
		InstanceB64          string `json:"instance_b64"`
		Want                 []string
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	var hits atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer srv.Close()
	n := 0
	for _, c := range cases {
		var root struct {
			Type any `json:"type"`
		}
		instance := []byte(c.Instance)
		if c.InstanceB64 != "" {
			if instance, err = base64.StdEncoding.DecodeString(c.InstanceB64); err != nil {
				t.Fatal(err)
			}
		}
		if err := json.Unmarshal([]byte(c.Schema), &root); err != nil || root.Type != "object" || !strings.Contains(string(instance), "{") {
			continue
		}
		n++
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			schema := strings.NewReplacer("__LOOPBACK__", srv.URL, "__TMPFILE__", b.write("s.json", "{}")).Replace(c.Schema)
			b.write("request", fmt.Sprintf(`{"name":"t","description":"A tool.","input_schema":%s,"impl":"print(1)"}`, schema))
			if err := os.WriteFile(filepath.Join(b.Dir, "instance"), instance, 0o600); err != nil {
				t.Fatal(err)
			}
			got := "accept"
			out, status := b.status("forge-forge < request")
			if status == 0 {
				out, status = b.status("forge-call --check t < instance")
				if strings.Contains(out, `"kind":"not_found","message":"/in: path`) {
					status = 0 // the schema let it through to the file system
				}
				if status != 0 {
					got = "reject"
				}
			} else {
				got = "refuse-schema"
			}
			if status != 0 && status != 65 || !slices.Contains(c.Want, got) {
				t.Errorf("%s, status %d, want %s: %s", got, status, c.Want, out)
			}
		})
	}
	t.Cleanup(func() {
		if hits.Load() > 0 {
			t.Errorf("%d fetches", hits.Load())
		}
	})
	if n != 23 {
		t.Errorf("%d cases have an object root, want 23", n)
	}
	t.Logf("%d of %d cases", n, len(cases))
}
