package trail

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"forge/lib/chain"
	"forge/lib/store"
)

// The test binary is also the process that appends, or holds the lock, beside
// others: trail.test append STORE N appends N records of up to 60 kB and prints
// the number of each that was acknowledged; trail.test hold STORE.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "append" {
		n, _ := strconv.Atoi(os.Args[3])
		st, err := store.Open(os.Args[2])
		for i := 0; i < n && err == nil; i++ {
			var seq uint64
			text := strings.Repeat("x", rand.IntN(60_000)>>rand.IntN(12))
			if seq, err = New(st, Who{}).Append(context.Background(), Record{Event: "x.test", Details: text}); err == nil {
				fmt.Println(seq)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == "hold" {
		st, err := store.Open(os.Args[2])
		if err == nil {
			_, err = st.Lock(context.Background(), st.AuditFile("lock"), time.Second)
		}
		fmt.Println("held", err)
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// self runs the test binary as one of the processes above.
func self(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

var start = time.Date(2026, 11, 30, 19, 15, 0, 123456789, time.UTC)

// fresh returns a store without a trail, and its trail; the clock stands still.
func fresh(t *testing.T) (*store.Store, *Trail) {
	t.Helper()
	st, err := store.Open(t.TempDir() + "/home")
	if err != nil {
		t.Fatal(err)
	}
	st.Now = func() time.Time { return start }
	return st, New(st, Who{Persona: "p", Session: "s"})
}

// lines returns a store whose trail has n lines.
func lines(t *testing.T, n int) (*store.Store, *Trail) {
	t.Helper()
	st, tr := fresh(t)
	recs := make([]Record, n-1)
	for i := range recs {
		recs[i] = Record{Event: "x.test", Details: map[string]any{"n": i + 2}}
	}
	seq := add(t, tr, recs...)
	if seq != uint64(n) {
		t.Fatalf("%d lines, want %d", seq, n)
	}
	return st, tr
}

func add(t *testing.T, tr *Trail, recs ...Record) uint64 {
	t.Helper()
	seq, err := tr.Append(context.Background(), recs...)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func read(t *testing.T, st *store.Store) []byte {
	t.Helper()
	b, err := os.ReadFile(st.Segment(1))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, st *store.Store, b []byte) {
	t.Helper()
	if err := os.WriteFile(st.Segment(1), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func split(b []byte) [][]byte { return bytes.SplitAfter(bytes.TrimSuffix(b, nil), []byte("\n")) }

// verdict tells a verification in one line: what it found, where, and what it
// warns of beyond the standing warning.
func verdict(t *testing.T, st *store.Store) string {
	t.Helper()
	r, err := Verify(st, Options{})
	if err != nil {
		return err.Error()
	}
	out := fmt.Sprintf("%s %d", r.Verdict, r.Entries)
	if r.FirstBad != nil {
		reason := string(r.Reason)
		if r.Missing > 0 {
			reason += fmt.Sprintf("(%d)", r.Missing)
		}
		out = fmt.Sprintf("%s %s %d", r.Verdict, reason, r.FirstBad.Line)
	} else if r.Reason != "" {
		out = fmt.Sprintf("%s %s", r.Verdict, r.Reason)
	}
	for _, w := range r.Warnings {
		if w != Untrusted {
			out += "; " + w
		}
	}
	return out
}

// payloads returns what Walk visits.
func payloads(t *testing.T, st *store.Store) []string {
	t.Helper()
	var out []string
	err := Walk(context.Background(), st, false, func(p []byte, _ chain.Place) error {
		out = append(out, string(p))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func contains(t *testing.T, s string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(s, p) {
			t.Errorf("%s\nhas no %s", s, p)
		}
	}
}
