package trail

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
)

// ofSegments returns a chain of segments with that many lines each, seams
// included: 40, 40 and 20 are the S of the acceptance table.
func ofSegments(t *testing.T, sizes ...int) (*store.Store, *Trail) {
	t.Helper()
	st, tr := fresh(t)
	n := 0
	for i, size := range sizes {
		from := 1 // genesis, or audit.segment
		if i > 0 {
			tr.SegmentBytes = 1
			add(t, tr, Record{Event: "x.test", Details: map[string]any{"n": n}})
			tr.SegmentBytes = DefaultSegmentBytes
			from++
		}
		to := size
		if i < len(sizes)-1 {
			to-- // audit.rotate
		}
		for range to - from {
			n++
			add(t, tr, Record{Event: "x.test", Details: map[string]any{"n": n}})
		}
	}
	for i, size := range sizes {
		b, err := os.ReadFile(st.Segment(i + 1))
		if got := bytes.Count(b, []byte("\n")); err != nil || got != size {
			t.Fatalf("segment %d has %d lines, want %d (%v)", i+1, got, size, err)
		}
	}
	return st, tr
}

// at returns the checkpoints that a trusted key made when the chain had those
// lines.
func at(t *testing.T, st *store.Store, seqs ...uint64) []chain.Signed {
	t.Helper()
	id, err := os.ReadFile(st.AuditFile("id"))
	if err != nil {
		t.Fatal(err)
	}
	var out []chain.Signed
	numbers, _ := st.Segments()
	for _, n := range numbers {
		b, err := os.ReadFile(st.Segment(n))
		if err != nil {
			t.Fatal(err)
		}
		end := int64(0)
		for line := range bytes.Lines(b) {
			end += int64(len(line))
			l, _ := chain.Parse(line)
			for _, s := range seqs {
				if l.Seq == s {
					c := chain.Checkpoint{Log: strings.TrimSpace(string(id)), Seq: s, Sha: l.Sha.String(), Segment: n, End: end, Time: start}
					out = append(out, chain.Signed{Checkpoint: c, Keys: []string{"k"}})
				}
			}
		}
	}
	if len(out) != len(seqs) {
		t.Fatalf("%d checkpoints, want %d", len(out), len(seqs))
	}
	return out
}

// judged is a verdict as the table writes it: exit, reason, segment:line.
func judged(t *testing.T, st *store.Store, o Options) string {
	t.Helper()
	r, err := Verify(st, o)
	if err != nil {
		return fmt.Sprint(fail.StatusOf(fail.KindOf(err)))
	}
	status := 0
	if e := r.Err(); e != nil {
		status = fail.StatusOf(fail.KindOf(e))
	}
	if r.Reason == "" {
		return fmt.Sprintf("%d ok, %d entries", status, r.Entries)
	}
	out := fmt.Sprintf("%d %s", status, r.Reason)
	if r.Missing > 0 {
		out += fmt.Sprintf("(%d)", r.Missing)
	}
	if b := r.FirstBad; b != nil {
		var n int
		fmt.Sscanf(b.Segment, "audit-%06d", &n)
		out += fmt.Sprintf(" %d:%d", n, b.Line)
	}
	if r.Upto > 0 {
		out += fmt.Sprintf(" upto %d", r.Upto)
	}
	return out
}

// rechain writes lines from line n on anew after a change, as one who may write
// the file and knows the format would.
func rechain(t *testing.T, path string, n int, change func(payload []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	var prev chain.Hash
	for i, line := range bytes.SplitAfter(b, []byte("\n")) {
		l, reason := chain.Parse(line)
		if reason != "" {
			continue
		}
		if i == 0 {
			prev = l.Prev
		}
		payload := l.Payload
		if i+1 == n {
			payload = change(payload)
		}
		out, prev = chain.AppendLine(out, payload, prev)
	}
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The rows that want several segments, checkpoints or strict JSON.
func TestTable(t *testing.T) {
	edit := func(path, old, now string) func(*testing.T, *store.Store) {
		return func(t *testing.T, st *store.Store) {
			b, err := os.ReadFile(filepath.Join(st.Audit(), path))
			if err != nil || !bytes.Contains(b, []byte(old)) {
				t.Fatalf("%v: no %s", err, old)
			}
			if err := os.WriteFile(filepath.Join(st.Audit(), path), bytes.Replace(b, []byte(old), []byte(now), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const one = "audit-000001.jsonl"
	cut := func(lines int) func(*testing.T, *store.Store) {
		return func(t *testing.T, st *store.Store) {
			b, _ := os.ReadFile(st.Segment(1))
			kept := bytes.Join(bytes.SplitAfter(b, []byte("\n"))[:lines], nil)
			if err := os.WriteFile(st.Segment(1), kept, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(n int) func(*testing.T, *store.Store) {
		return func(t *testing.T, st *store.Store) {
			if err := os.Remove(st.Segment(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	seq37 := `"n":37}`
	change := func(payload []byte) []byte {
		return bytes.Replace(payload, []byte(`"details":{"n":`), []byte(`"details":{"m":`), 1)
	}
	for _, c := range []struct {
		id    string
		sizes []int
		trust []uint64
		do    func(*testing.T, *store.Store)
		o     Options
		want  string
	}{
		{"A1", []int{100}, nil, nil, Options{}, "0 ok, 100 entries"},
		{"A1 strict", []int{100}, nil, nil, Options{Strict: true}, "0 ok, 100 entries"},
		{"S", []int{40, 40, 20}, nil, nil, Options{}, "0 ok, 100 entries"},
		{"A6", []int{100}, nil, func(t *testing.T, st *store.Store) { rechain(t, st.Segment(1), 37, change) }, Options{}, "0 ok, 100 entries"},
		{"A7", []int{100}, []uint64{30, 60}, func(t *testing.T, st *store.Store) { rechain(t, st.Segment(1), 37, change) }, Options{}, "1 rewritten 1:31 upto 60"},
		{"rewritten behind a seam", []int{40, 40, 20}, []uint64{80, 100}, func(t *testing.T, st *store.Store) {
			rechain(t, st.Segment(3), 5, func(p []byte) []byte { return bytes.Replace(p, []byte(`"n":`), []byte(`"m":`), 1) })
		}, Options{}, "1 rewritten 3:1 upto 100"},
		{"A21", []int{100}, nil, func(t *testing.T, st *store.Store) {
			rechain(t, st.Segment(1), 40, func(p []byte) []byte { return append(p[:len(p)-1:len(p)-1], `,"pid":1}`...) })
		}, Options{Strict: true}, "1 dupkey 1:40"},
		{"A21 default", []int{100}, nil, func(t *testing.T, st *store.Store) {
			rechain(t, st.Segment(1), 40, func(p []byte) []byte { return append(p[:len(p)-1:len(p)-1], `,"pid":1}`...) })
		}, Options{}, "0 ok, 100 entries"},
		{"A22", []int{100}, nil, func(t *testing.T, st *store.Store) {
			rechain(t, st.Segment(1), 40, func(p []byte) []byte { return append(p[:len(p)-1:len(p)-1], ",\"x\":\"\xff\"}"...) })
		}, Options{Strict: true}, "1 utf8 1:40"},
		{"not JSON", []int{100}, nil, func(t *testing.T, st *store.Store) {
			rechain(t, st.Segment(1), 40, func(p []byte) []byte { return append(p[:len(p)-1:len(p)-1], `,}`...) })
		}, Options{Strict: true}, "1 json 1:40"},
		{"A24", []int{100}, nil, cut(90), Options{}, "0 ok, 90 entries"},
		{"A24 T", []int{100}, []uint64{90}, cut(90), Options{}, "0 ok, 90 entries"},
		{"A25", []int{100}, []uint64{95}, cut(90), Options{}, "1 truncated(5) 1:91"},
		{"A32 T", []int{100}, []uint64{95}, remove(1), Options{}, "1 truncated(95) 1:1"},
		{"A32", []int{100}, nil, remove(1), Options{}, "66"},
		{"A34", []int{100}, []uint64{50}, edit(one, seq37, `"n":38}`), Options{SinceCheckpoint: true}, "1 content 1:38"}, // the stretch that is looked at again holds it
		{"A34 full", []int{100}, []uint64{50}, edit(one, seq37, `"n":38}`), Options{}, "1 content 1:38"},
		{"A35", []int{100}, []uint64{50}, edit(one, `"n":76}`, `"n":77}`), Options{SinceCheckpoint: true}, "1 content 1:77"},
		{"since over a seam", []int{40, 40, 20}, []uint64{70}, nil, Options{SinceCheckpoint: true}, "0 ok, 30 entries"},
		{"A37", []int{40, 40, 20}, nil, remove(2), Options{}, "1 missing(40) 3:1"},
		{"A38", []int{40, 40, 20}, nil, remove(1), Options{}, "1 missing_head 2:1"},
		{"A39", []int{40, 40, 20}, nil, remove(3), Options{}, "1 truncated 3:1"},
		{"A40", []int{40, 40, 20}, nil, func(t *testing.T, st *store.Store) {
			os.Rename(st.Segment(2), st.Segment(9))
			os.Rename(st.Segment(3), st.Segment(2))
			os.Rename(st.Segment(9), st.Segment(3))
		}, Options{}, "1 missing(40) 2:1"},
		{"A41", []int{40, 40, 20}, nil, func(t *testing.T, st *store.Store) { os.Truncate(st.Segment(3), 0) }, Options{}, "1 empty_segment 3:1"},
		{"A42", []int{40, 40, 20}, nil, func(t *testing.T, st *store.Store) {
			b, _ := os.ReadFile(st.Segment(3))
			first := bytes.SplitAfter(b, []byte("\n"))[0]
			os.WriteFile(st.NextSegment(3), first, 0o600)
			os.Remove(st.Segment(3))
		}, Options{}, "4 rotation_incomplete 3:1"},
		{"edit in the second", []int{40, 40, 20}, nil, edit("audit-000002.jsonl", `"n":50}`, `"n":51}`), Options{}, "1 content 2:14"},
		{"torn in the first", []int{40, 40}, nil, func(t *testing.T, st *store.Store) {
			b, _ := os.ReadFile(st.Segment(1))
			os.WriteFile(st.Segment(1), b[:len(b)-1], 0o600)
		}, Options{}, "1 frame 1:40"},
	} {
		t.Run(c.id, func(t *testing.T) {
			st, _ := ofSegments(t, c.sizes...)
			c.o.Notes = at(t, st, c.trust...)
			if c.do != nil {
				c.do(t, st)
			}
			for workers := 1; workers <= 2; workers++ {
				c.o.Workers = workers
				if got := judged(t, st, c.o); got != c.want {
					t.Errorf("%d workers: %s, want %s", workers, got, c.want)
				}
			}
		})
	}
}

// A42: the next append completes a rotation that a writer did not finish.
func TestRotationCompleted(t *testing.T) {
	st, tr := ofSegments(t, 40, 40, 20)
	b, _ := os.ReadFile(st.Segment(3))
	first := bytes.SplitAfter(b, []byte("\n"))[0]
	if err := os.WriteFile(st.NextSegment(3), first, 0o600); err != nil {
		t.Fatal(err)
	}
	os.Remove(st.Segment(3))
	add(t, tr, Record{Event: "x.after"})
	if got := judged(t, st, Options{}); got != "0 ok, 82 entries" {
		t.Error(got)
	}
	// A39, and A41: without it, and with an empty one, nothing is appended.
	for name, spoil := range map[string]func(){
		"gone":  func() { os.Remove(st.Segment(3)) },
		"empty": func() { os.WriteFile(st.Segment(3), nil, 0o600) },
	} {
		spoil()
		if _, err := tr.Append(context.Background(), Record{Event: "x.after"}); fail.KindOf(err) != fail.AuditUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Writers rotate under each other's hands, and the chain holds.
func TestRotationRace(t *testing.T) {
	st, _ := fresh(t)
	done := make(chan error, 8)
	for range 8 {
		go func() {
			tr := New(st, Who{})
			tr.SegmentBytes = 4 << 10
			var err error
			for i := 0; i < 60 && err == nil; i++ {
				_, err = tr.Append(context.Background(), Record{Event: "x.test"})
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	numbers, err := st.Segments()
	left, _ := store.List(st.Audit(), ".tmp")
	if err != nil || len(numbers) < 10 || len(left) > 0 {
		t.Errorf("segments %v, left %v, %v", numbers, left, err)
	}
	r, err := Verify(st, Options{Strict: true})
	if err != nil || r.Verdict != Intact || r.Entries < 481 {
		t.Errorf("%+v %v", r, err)
	}
	seen := 0
	if err := Walk(context.Background(), st, false, func([]byte, chain.Place) error { seen++; return nil }); err != nil || seen != int(r.Entries) {
		t.Errorf("walked %d of %d: %v", seen, r.Entries, err)
	}
}

// Keys, checkpoints, A43 to A45, and pruning up to one.
func TestCheckpoints(t *testing.T) {
	st, tr := ofSegments(t, 40, 40, 20)
	public, err := NewKey(st, "first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKey(st, "first"); fail.KindOf(err) != fail.Conflict {
		t.Errorf("the same name again: %v", err)
	}
	private, err := SigningKey(st, "")
	if err != nil {
		t.Fatal(err)
	}
	c, msg, err := Checkpoint(context.Background(), tr, private)
	if err != nil || c.Seq != 100 || c.Segment != 3 {
		t.Fatalf("%+v %v", c, err)
	}
	if again, _, err := Checkpoint(context.Background(), tr, private); err != nil || again != nil {
		t.Errorf("nothing came, and it signed %+v %v", again, err)
	}
	signed, err := chain.OpenNote(msg, []string{public})
	if err != nil || signed.Checkpoint.Text() != c.Text() {
		t.Errorf("%+v %v", signed, err)
	}
	names, _ := filepath.Glob(filepath.Join(st.Checkpoints(), "*.note"))
	if len(names) != 3 { // the ends of two segments, and the head
		t.Errorf("%d notes: %v", len(names), names)
	}
	load := func(keys ...string) Notes {
		n, err := Load(st, keys, false)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	trusted := load(public).Trusted
	if got := judged(t, st, Options{Notes: trusted}); got != "0 ok, 101 entries" {
		t.Error(got)
	}
	// A43: notes by an unknown key alone.
	_, other, _ := chain.NewKey(rand.Reader, "other")
	if n := load(other); len(n.Trusted) != 0 || n.Unknown != 3 || n.Broken != "" {
		t.Errorf("%+v", n)
	}
	// A44: one byte of the signature.
	b, _ := os.ReadFile(names[0])
	b[len(b)-10] ^= 1
	os.WriteFile(names[0], b, 0o600)
	if n := load(public); n.Broken == "" {
		t.Errorf("%+v", n)
	}
	b[len(b)-10] ^= 1
	os.WriteFile(names[0], b, 0o600)

	// A45: the log and its checkpoints are rolled back; a witness's note is not.
	copied := t.TempDir()
	old := &store.Store{Root: copied, Now: st.Now}
	if err := os.CopyFS(copied, os.DirFS(st.Root)); err != nil {
		t.Fatal(err)
	}
	chmod(t, copied)
	add(t, tr, Record{Event: "x.later"})
	_, later, err := Checkpoint(context.Background(), tr, private)
	if err != nil {
		t.Fatal(err)
	}
	local, err := Load(old, []string{public}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := judged(t, old, Options{Notes: local.Trusted}); got != "0 ok, 101 entries" {
		t.Errorf("rolled back: %s", got)
	}
	witnessed := local
	witnessed.Add(later, []string{public}, "witness")
	if got := judged(t, old, Options{Notes: witnessed.Trusted}); got != "1 truncated(1) 3:22" {
		t.Errorf("with the witness: %s", got)
	}

	// Pruned up to a checkpoint, and not beyond.
	if _, err := Prune(context.Background(), tr, 3, Notes{}); fail.KindOf(err) != fail.TrustMissing {
		t.Errorf("without a checkpoint: %v", err)
	}
	if _, err := Prune(context.Background(), tr, 4, load(public)); fail.KindOf(err) != fail.NotFound {
		t.Errorf("a segment that is not closed: %v", err)
	}
	p, err := Prune(context.Background(), tr, 3, load(public))
	if err != nil || p.Seq != 80 {
		t.Fatalf("%+v %v", p, err)
	}
	if numbers, _ := st.Segments(); fmt.Sprint(numbers) != "[3]" {
		t.Errorf("left: %v", numbers)
	}
	if got := judged(t, st, Options{Notes: load(public).Trusted}); !strings.HasPrefix(got, "0 ok") {
		t.Error(got)
	}
	// Without its record, the missing head is tampering.
	b, _ = os.ReadFile(st.Segment(3))
	os.WriteFile(st.Segment(3), bytes.Join(bytes.SplitAfter(b, []byte("\n"))[:20], nil), 0o600)
	if got := judged(t, st, Options{}); got != "1 missing_head 3:1" {
		t.Error(got)
	}
}

// chmod gives a copy of a store the modes that it must have.
func chmod(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// After a failed sync nothing is appended until recover, which begins a segment;
// after damage at the end, until recover accepts it.
func TestRecover(t *testing.T) {
	st, tr := ofSegments(t, 20)
	if err := os.WriteFile(st.AuditFile("FAILED"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Append(context.Background(), Record{Event: "x.no"}); fail.Of(err).Hint != "forge-audit recover" {
		t.Errorf("%v", err)
	}
	if _, err := Recover(context.Background(), tr, false); err != nil {
		t.Fatal(err)
	}
	add(t, tr, Record{Event: "x.yes"})
	if got := judged(t, st, Options{}); got != "0 ok, 24 entries" {
		t.Error(got)
	}
	f, _ := os.OpenFile(st.Segment(2), os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString("garbage\nmore\n")
	f.Close()
	if _, err := Recover(context.Background(), tr, false); fail.KindOf(err) != fail.AuditUnavailable || !strings.Contains(fail.Of(err).Hint, "--accept") {
		t.Errorf("%v", err)
	}
	d, err := Recover(context.Background(), tr, true)
	if err != nil || d.Len != int64(len("garbage\nmore\n")) || d.Segment != 2 {
		t.Fatalf("%+v %v", d, err)
	}
	add(t, tr, Record{Event: "x.again"})
	if got := judged(t, st, Options{}); !strings.HasPrefix(got, "0 ok") {
		t.Error(got)
	}
	for _, accept := range []bool{false, true} {
		before, _ := st.Segments()
		d, err := Recover(context.Background(), tr, accept)
		if after, _ := st.Segments(); d != nil || err != nil || !slices.Equal(before, after) {
			t.Errorf("nothing to recover: %+v %v, segments %v", d, err, after)
		}
	}
}

// A36: a clock that was set back, or is ahead, is a warning; time decides no
// verdict.
func TestClock(t *testing.T) {
	st, tr := fresh(t)
	now := start
	st.Now = func() time.Time { return now }
	for _, step := range []time.Duration{0, clockSlack - time.Second, clockSlack + time.Second, -time.Hour} {
		now = start.Add(step)
		add(t, tr, Record{Event: "x.test"})
	}
	now = start
	r, err := Verify(st, Options{})
	want := []string{
		"clock_back: audit-000001.jsonl:5 (seq 5) is earlier than the line before",
		"clock_ahead: audit-000001.jsonl:4 (seq 4) is later than now by more than 5m0s",
		Untrusted,
	}
	if err != nil || r.Verdict != Intact || !slices.Equal(r.Warnings, want) {
		t.Errorf("%+v %v", r, err)
	}
}
