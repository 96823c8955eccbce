package trail

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

// signedLog is a log of segments of 40, 40 and 20 lines, which a key of the
// store has signed; read as verify does.
func signedLog(t *testing.T) (*store.Store, *Trail, string) {
	t.Helper()
	st, tr := ofSegments(t, 40, 40, 20)
	if _, err := NewKey(st, "k"); err != nil {
		t.Fatal(err)
	}
	private, err := SigningKey(st, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Checkpoint(context.Background(), tr, private); err != nil {
		t.Fatal(err)
	}
	return st, tr, private
}

// options are those of verify with the store's own keys.
func options(t *testing.T, st *store.Store, since bool) Options {
	t.Helper()
	keys, err := TrustedKeys(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	load := func(newest bool) []chain.Signed {
		n, err := Load(st, keys, newest)
		if err != nil {
			t.Fatal(err)
		}
		return n.Trusted
	}
	return Options{SinceCheckpoint: since, Notes: load(since), AllNotes: func() ([]chain.Signed, error) { return load(false), nil }}
}

// What is done to files behind a checkpoint is seen by each run that begins at
// it, too, but for an edit of what it does not look at that time.
func TestSince(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, st *store.Store)
		want string
	}{
		"nothing":             {func(*testing.T, *store.Store) {}, "0 ok, 1 entries"},
		"the first gone":      {func(t *testing.T, st *store.Store) { os.Remove(st.Segment(1)) }, "1 missing_head 2:1"},
		"a middle one gone":   {func(t *testing.T, st *store.Store) { os.Remove(st.Segment(2)) }, "1 missing(40) 3:1"},
		"the end of one gone": {func(t *testing.T, st *store.Store) { truncate(t, st.Segment(1), -100) }, "1 frame 1:40"},
		"one emptied":         {func(t *testing.T, st *store.Store) { os.Truncate(st.Segment(2), 0) }, "1 empty_segment 2:1"},
		"the newest renamed":  {func(t *testing.T, st *store.Store) { os.Rename(st.Segment(3), st.Segment(4)) }, "1 link 4:1"},
		"zeros in the middle": {func(t *testing.T, st *store.Store) {
			b, _ := os.ReadFile(st.Segment(2))
			clear(b[600 : len(b)-600])
			os.WriteFile(st.Segment(2), b, 0o600)
		}, "1 content 2:2"},
		"the first line of one edited": {func(t *testing.T, st *store.Store) {
			b, _ := os.ReadFile(st.Segment(2))
			b[len(`{"payload":{"seq":41,"ts":"20`)] ^= 1
			os.WriteFile(st.Segment(2), b, 0o600)
		}, "1 content 2:1"},
	} {
		t.Run(name, func(t *testing.T) {
			st, _, _ := signedLog(t)
			c.do(t, st)
			for slot := range 6 { // whichever stretch is looked at again
				st.Now = func() time.Time { return start.Add(time.Duration(slot) * 5 * time.Minute) }
				if got := judged(t, st, options(t, st, true)); got != c.want {
					t.Errorf("slot %d: %s, want %s", slot, got, c.want)
				}
			}
		})
	}
}

func truncate(t *testing.T, path string, by int64) {
	t.Helper()
	fi, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, fi.Size()+by)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A stretch is looked at again whole, wherever it begins: of 5 MB without a
// newline none is taken for verified.
func TestStretches(t *testing.T) {
	st, tr := fresh(t)
	for range 10 {
		recs := make([]Record, 2000)
		for i := range recs {
			recs[i] = Record{Event: "x.test"}
		}
		add(t, tr, recs...)
	}
	notes := at(t, st, 20001)
	path := st.Segment(1)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(b, '\n') + 1
	for i := first; i < len(b)-3000; i++ {
		b[i] = 'a'
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for slot := range 8 {
		st.Now = func() time.Time { return start.Add(time.Duration(slot) * 5 * time.Minute) }
		if got := judged(t, st, Options{SinceCheckpoint: true, Notes: notes}); got != "1 frame 1:2" {
			t.Errorf("slot %d: %s", slot, got)
		}
	}
}

// Names of files are not hashed, so each seam names both sides.
func TestSeams(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(st *store.Store)
		want string
	}{
		"the newest renamed": {func(st *store.Store) { os.Rename(st.Segment(3), st.Segment(9)) }, "1 link 9:1"},
		"two made one": {func(st *store.Store) {
			a, _ := os.ReadFile(st.Segment(2))
			b, _ := os.ReadFile(st.Segment(3))
			os.WriteFile(st.Segment(2), append(a, b...), 0o600)
			os.Remove(st.Segment(3))
		}, "1 link 2:41"},
		"one made two": {func(st *store.Store) {
			b, _ := os.ReadFile(st.Segment(3))
			lines := bytes.SplitAfter(b, []byte("\n"))
			os.WriteFile(st.Segment(3), bytes.Join(lines[:10], nil), 0o600)
			os.WriteFile(st.Segment(4), bytes.Join(lines[10:], nil), 0o600)
		}, "1 link 4:1"},
		"recut": {func(st *store.Store) {
			a, _ := os.ReadFile(st.Segment(2))
			b, _ := os.ReadFile(st.Segment(3))
			first := bytes.IndexByte(b, '\n') + 1
			os.WriteFile(st.Segment(2), append(a, b[:first]...), 0o600)
			os.WriteFile(st.Segment(3), b[first:], 0o600)
		}, "1 link 2:41"},
	} {
		st, _ := ofSegments(t, 40, 40, 20)
		c.do(st)
		for workers := 1; workers <= 2; workers++ {
			if got := judged(t, st, Options{Workers: workers}); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	}
}

// A log that begins in the middle is believed only where what a key signed says
// so: an invented one that says of itself that it was pruned is not.
func TestInvented(t *testing.T) {
	st, _, _ := signedLog(t)
	o := options(t, st, false)
	for n := 1; n <= 3; n++ {
		os.Remove(st.Segment(n))
	}
	prev := chain.Hash([]byte(strings.Repeat("f", 64)))
	var out []byte
	for i, ev := range []string{
		`"ev":"audit.segment","details":{"segment":7}`,
		`"ev":"audit.pruned","details":{"first":7,"seq":1000,"sha":"` + prev.String() + `"}`,
		`"ev":"forge.called"`,
	} {
		payload := fmt.Sprintf(`{"seq":%d,"ts":"2026-11-30T19:15:00.123456789Z",%s}`, 1001+i, ev)
		out, prev = chain.AppendLine(out, []byte(payload), prev)
	}
	if err := os.WriteFile(st.Segment(7), out, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := judged(t, st, o); got != "1 missing_head 7:1" {
		t.Error(got)
	}
	r, err := Verify(st, Options{})
	if err != nil || r.Verdict != Intact || len(r.Trust) != 0 {
		t.Errorf("without keys nothing tells: %+v %v", r, err)
	}
}

// A rewritten chain that its own writer signs again is told from what a witness
// was shown before, newest or not.
func TestRewrittenAndSigned(t *testing.T) {
	st, tr, private := signedLog(t)
	witnessed := options(t, st, true).Notes
	rechain(t, st.Segment(3), 5, func(p []byte) []byte { return bytes.Replace(p, []byte(`"n":`), []byte(`"m":`), 1) })
	notes, err := store.List(st.Checkpoints(), ".note")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range notes {
		os.Remove(path)
	}
	if _, _, err := Checkpoint(context.Background(), tr, private); err != nil {
		t.Fatal(err)
	}
	for _, since := range []bool{true, false} {
		o := options(t, st, since)
		if got := judged(t, st, o); !strings.HasPrefix(got, "0 ok") {
			t.Errorf("by its own word: %s", got)
		}
		all := o.AllNotes
		o.Notes = append(o.Notes, witnessed...)
		o.AllNotes = func() ([]chain.Signed, error) { n, err := all(); return append(n, witnessed...), err }
		if got := judged(t, st, o); !strings.HasPrefix(got, "1 rewritten") {
			t.Errorf("since %v: %s", since, got)
		}
	}
}

// What cannot be read is not taken for what is not there.
func TestUnreadable(t *testing.T) {
	for name, change := range map[string]func(st *store.Store){
		"checkpoints a file": func(st *store.Store) { os.RemoveAll(st.Checkpoints()); os.WriteFile(st.Checkpoints(), nil, 0o600) },
		"checkpoints a link to itself": func(st *store.Store) {
			os.RemoveAll(st.Checkpoints())
			os.Symlink("checkpoints", st.Checkpoints())
		},
		"checkpoints a link": func(st *store.Store) {
			os.Rename(st.Checkpoints(), st.Root+"/elsewhere")
			os.Symlink(st.Root+"/elsewhere", st.Checkpoints())
		},
		"keys a file":              func(st *store.Store) { os.RemoveAll(st.Keys()); os.WriteFile(st.Keys(), nil, 0o600) },
		"checkpoints unreadable":   func(st *store.Store) { os.Chmod(st.Checkpoints(), 0) },
		"keys unreadable":          func(st *store.Store) { os.Chmod(st.Keys(), 0) },
		"a directory in between":   func(st *store.Store) { os.MkdirAll(filepath.Join(st.Checkpoints(), "x.note"), 0o700) },
		"a pipe among the keys":    func(st *store.Store) { unix.Mkfifo(filepath.Join(st.Keys(), "p.pub"), 0o600) },
		"a link in place of a key": func(st *store.Store) { os.Symlink("k.pub", filepath.Join(st.Keys(), "l.pub")) },
	} {
		if os.Geteuid() == 0 && strings.HasSuffix(name, "unreadable") {
			continue // nothing is, to root; make test runs this again as another
		}
		st, _, _ := signedLog(t)
		change(st)
		t.Cleanup(func() { os.Chmod(st.Checkpoints(), 0o700); os.Chmod(st.Keys(), 0o700) })
		keys, err := TrustedKeys(st, nil)
		if err == nil {
			_, err = Load(st, keys, false)
		}
		if fail.KindOf(err) != fail.IOError {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Nor does the name of the store mean anything.
	root := filepath.Join(t.TempDir(), "s[y]*?")
	st, err := store.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	tr := New(st, Who{})
	add(t, tr, Record{Event: "x.test"})
	if _, err := NewKey(st, "k"); err != nil {
		t.Fatal(err)
	}
	private, err := SigningKey(st, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Checkpoint(context.Background(), tr, private); err != nil {
		t.Fatal(err)
	}
	if o := options(t, st, false); len(o.Notes) != 1 {
		t.Errorf("%d notes in %s", len(o.Notes), root)
	}
}

// Who is told that nothing is new has not lost what was signed before.
func TestCheckpointBelowTheLast(t *testing.T) {
	st, tr, private := signedLog(t)
	// A file with a higher number that this key did not sign means nothing.
	if err := os.WriteFile(filepath.Join(st.Checkpoints(), "18446744073709551615-k.note"), []byte("forge\n\n— k AAAA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	add(t, tr, Record{Event: "x.new"})
	if c, _, err := Checkpoint(context.Background(), tr, private); err == nil && c == nil {
		t.Error("a stray file silenced it")
	}
	os.Remove(filepath.Join(st.Checkpoints(), "18446744073709551615-k.note"))
	if c, _, err := Checkpoint(context.Background(), tr, private); err != nil || c == nil {
		t.Fatalf("%+v %v", c, err)
	}
	// The log is cut back, and the public key is not among the trusted.
	b, _ := os.ReadFile(st.Segment(3))
	os.WriteFile(st.Segment(3), bytes.Join(bytes.SplitAfter(b, []byte("\n"))[:5], nil), 0o600)
	os.Remove(filepath.Join(st.Keys(), "k.pub"))
	if _, _, err := Checkpoint(context.Background(), tr, private); fail.KindOf(err) != fail.Tampered {
		t.Errorf("a shorter chain: %v", err)
	}
}

// A prune that was stopped at any removal leaves a chain that verifies, and can
// be done again.
func TestPruneStopped(t *testing.T) {
	for left := 1; left <= 4; left++ {
		st, tr := ofSegments(t, 10, 10, 10, 10)
		if _, err := NewKey(st, "k"); err != nil {
			t.Fatal(err)
		}
		private, _ := SigningKey(st, "")
		if _, _, err := Checkpoint(context.Background(), tr, private); err != nil {
			t.Fatal(err)
		}
		define(t, st, tr, 1)
		sign := func() {
			if _, _, err := Checkpoint(context.Background(), tr, private); err != nil {
				t.Fatal(err)
			}
		}
		small := New(st, Who{})
		small.SegmentBytes = 1
		add(t, small, Record{Event: "x.more"}) // and so a fifth segment
		sign()
		var kept [][]byte
		for n := 1; n <= 4; n++ {
			b, err := os.ReadFile(st.Segment(n))
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, b)
		}
		all := func() Notes {
			keys, err := TrustedKeys(st, nil)
			if err != nil {
				t.Fatal(err)
			}
			n, err := Load(st, keys, false)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		notes := all()
		if _, err := Prune(context.Background(), tr, 5, notes); err != nil {
			t.Fatal(err)
		}
		if got := judged(t, st, options(t, st, false)); !strings.HasPrefix(got, "0 ok") {
			t.Fatalf("pruned: %s", got)
		}
		if n := all(); len(n.Trusted) >= len(notes.Trusted) {
			t.Errorf("%d notes of %d are left", len(n.Trusted), len(notes.Trusted))
		}
		for n := left; n <= 4; n++ { // those that were still there
			os.WriteFile(st.Segment(n), kept[n-1], 0o600)
		}
		r, err := Verify(st, options(t, st, false))
		if err != nil || r.Verdict != Intact || left > 1 && !strings.Contains(strings.Join(r.Warnings, "\n"), "forge-audit prune 5") {
			t.Fatalf("stopped with %d to 4 left: %+v %v", left, r, err)
		}
		stored := options(t, st, false)
		stored.Store = true
		if got := judged(t, st, stored); !strings.HasPrefix(got, "0 ok") {
			t.Errorf("stopped with %d to 4 left, held against the store: %s", left, got)
		}
		define(t, st, tr, 2)
		before, err := os.ReadFile(st.PrunedFile(5))
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(st.PrunedFile(3), before, 0o600) // of another that was stopped
		if _, err := Prune(context.Background(), tr, 5, all()); err != nil {
			t.Fatalf("again: %v", err)
		}
		if n, err := st.PrunedFiles(); fmt.Sprint(n) != "[5]" {
			t.Errorf("kept of %v, %v", n, err)
		}
		// Or, stopped again before its record, it would be one that no record names.
		if after, err := os.ReadFile(st.PrunedFile(5)); err != nil || !bytes.Equal(before, after) {
			t.Errorf("what was kept is another now: %s, %v", after, err)
		}
		if got := judged(t, st, stored); !strings.HasPrefix(got, "0 ok") {
			t.Errorf("pruned again, held against the store: %s", got)
		}
		if got := judged(t, st, options(t, st, false)); !strings.HasPrefix(got, "0 ok") {
			t.Errorf("pruned again: %s", got)
		}
	}
}

// define records a definition and writes its ledger entry, as forge does.
func define(t *testing.T, st *store.Store, tr *Trail, version int) {
	t.Helper()
	lowered := fmt.Sprintf(`{"minProperties":%d}`, version) // as after a new schema.Lowering
	digest := strings.Repeat("d", 64)
	add(t, tr, Record{Event: Created, Tool: "t", Digest: digest, Details: map[string]any{"version": version, "lowered_sha256": wire.Sum([]byte(lowered))}})
	text := fmt.Sprintf(`{"version":%d,"lowered":%s}`, version, lowered)
	if err := st.WriteFile(st.Ledger(digest), []byte(text), store.Renamed); err != nil {
		t.Fatal(err)
	}
}

// A part of a line at the end does not make tampering before it a torn tail.
func TestHiddenBehindATail(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l [][]byte) []byte
		want   string
	}{
		"edited":   {func(l [][]byte) []byte { l[9][60] ^= 1; return bytes.Join(l, nil) }, "1 content 1:10"},
		"deleted":  {func(l [][]byte) []byte { return bytes.Join(append(l[:9:9], l[10:]...), nil) }, "1 missing(1) 1:10"},
		"doubled":  {func(l [][]byte) []byte { return bytes.Join(append(l[:20:20], l[19]), nil) }, "1 fork 1:21"},
		"replayed": {func(l [][]byte) []byte { return bytes.Join(append(l[:20:20], l[4]), nil) }, "1 repeat 1:21"},
		"garbage":  {func(l [][]byte) []byte { return append(bytes.Join(l, nil), "a\nb\nc\n"...) }, "1 frame 1:21"},
	} {
		st, tr := lines(t, 20)
		text := append(c.change(split(read(t, st))[:20]), '{')
		write(t, st, text)
		if got := judged(t, st, Options{}); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if err := Walk(context.Background(), st, false, func([]byte, chain.Place) error { return nil }); fail.KindOf(err) != fail.Tampered {
			t.Errorf("%s: tail: %v", name, err)
		}
		if name == "garbage" || name == "doubled" || name == "replayed" {
			if _, err := tr.Append(context.Background(), Record{Event: "x.no"}); err == nil {
				t.Errorf("%s: taken", name)
			}
		}
	}
}

// A checkpoint that comes while verify walks is not held against an older look
// at the files.
func TestNoteMeanwhile(t *testing.T) {
	st, tr, private := signedLog(t)
	o := options(t, st, true)
	o.Notes[0].Sha = strings.Repeat("0", 64) // does not fit: all is walked
	all := o.AllNotes
	o.AllNotes = func() ([]chain.Signed, error) {
		add(t, tr, Record{Event: "x.meanwhile"})
		if _, _, err := Checkpoint(context.Background(), tr, private); err != nil {
			t.Fatal(err)
		}
		n, err := all()
		return n, err
	}
	if got := judged(t, st, o); !strings.HasPrefix(got, "0 ok") {
		t.Error(got)
	}
}

// A newest checkpoint on the end of a segment does not hide that the next is
// gone, nor what was put behind it.
func TestSinceAtASeam(t *testing.T) {
	st, _ := ofSegments(t, 20, 20)
	notes := at(t, st, 20)
	b, _ := os.ReadFile(st.Segment(1))
	lines := bytes.SplitAfter(b, []byte("\n"))
	last, _ := chain.Parse(lines[19])
	os.Remove(st.Segment(2))
	if got := judged(t, st, Options{SinceCheckpoint: true, Notes: notes}); got != "1 truncated 2:1" {
		t.Error(got)
	}
	line, _ := chain.AppendLine(nil, []byte(`{"seq":21,"ts":"2026-11-30T19:15:00.123456789Z","ev":"x.y"}`), last.Sha)
	os.WriteFile(st.Segment(1), append(b, line...), 0o600)
	if got := judged(t, st, Options{SinceCheckpoint: true, Notes: notes}); got != "1 link 1:21" {
		t.Error(got)
	}
}

// Where FAILED could not be made, the mode of the segment says the same.
func TestUnwritable(t *testing.T) {
	st, tr := lines(t, 3)
	os.Chmod(st.Segment(1), unwritable)
	if _, err := tr.Append(context.Background(), Record{Event: "x.no"}); fail.Of(err).Hint != "forge-audit recover" {
		t.Errorf("%v", err)
	}
	if d, err := Recover(context.Background(), tr, false); err != nil || d == nil {
		t.Fatalf("%+v %v", d, err)
	}
	add(t, tr, Record{Event: "x.yes"})
	if got := judged(t, st, Options{}); !strings.HasPrefix(got, "0 ok") {
		t.Error(got)
	}
}

// An audit.recovered excuses the bytes that it names and no others.
func TestRecoveredNamesBytes(t *testing.T) {
	st, tr := lines(t, 20)
	write(t, st, append(read(t, st), "some\ngarbage\n"...))
	if _, err := Recover(context.Background(), tr, true); err != nil {
		t.Fatal(err)
	}
	if got := judged(t, st, Options{}); !strings.HasPrefix(got, "0 ok") {
		t.Error(got)
	}
	n := 0
	for i, line := range split(read(t, st)) {
		if bytes.Contains(line, []byte(`"ev":"audit.recovered"`)) {
			n = i + 1
		}
	}
	rechain(t, st.Segment(1), n, func(p []byte) []byte { return bytes.Replace(p, []byte(`"len":`), []byte(`"len":1`), 1) })
	if got := judged(t, st, Options{}); !strings.HasPrefix(got, "1 ") {
		t.Error(got)
	}
}

// An audit.rotate that lacks only its newline is adopted, and the segment goes
// on.
func TestAdoptedRotate(t *testing.T) {
	st, tr := ofSegments(t, 10, 10)
	b, _ := os.ReadFile(st.Segment(2))
	first := bytes.IndexByte(b, '\n') + 1
	os.WriteFile(st.NextSegment(2), b[:first], 0o600)
	os.Remove(st.Segment(2))
	truncate(t, st.Segment(1), -1)
	add(t, tr, Record{Event: "x.next"})
	if got := judged(t, st, Options{}); got != "0 ok, 12 entries" {
		t.Error(got)
	}
	small := New(st, Who{})
	small.SegmentBytes = 1
	add(t, small, Record{Event: "x.rotated"})
	for workers := 1; workers <= 2; workers++ {
		if got := judged(t, st, Options{Workers: workers}); got != "0 ok, 15 entries" {
			t.Error(got)
		}
	}
	if numbers, _ := st.Segments(); fmt.Sprint(numbers) != "[1 2]" {
		t.Errorf("segments %v", numbers)
	}
}

// Lines that stood are not passed over because a record calls them torn: an
// operator must have accepted that.
func TestWholeLinesTorn(t *testing.T) {
	st, _ := lines(t, 20)
	l := split(read(t, st))
	l[9][40] ^= 1
	kept := bytes.Join(l[9:20], nil)
	before := bytes.Join(l[:9], nil)
	last, _ := chain.Parse(l[8])
	torn := tornAt(int64(len(before)), kept[:len(kept)-1])
	payload := fmt.Sprintf(`{"seq":10,"ts":"2026-11-30T19:15:00.123456789Z","ev":"audit.torn","details":{"at":%d,"len":%d,"sha256":"%s"}}`, torn.At, torn.Len, torn.SHA256)
	line, _ := chain.AppendLine(nil, []byte(payload), last.Sha)
	write(t, st, append(append(before, kept...), line...))
	for workers := 1; workers <= 2; workers++ {
		if got := judged(t, st, Options{Workers: workers}); got != "1 frame 1:10" {
			t.Error(got)
		}
	}
}

// A line that stands but does not follow can be accepted as well.
func TestAcceptDoubled(t *testing.T) {
	for name, change := range map[string]func(l [][]byte) []byte{
		"doubled": func(l [][]byte) []byte { return bytes.Join(append(l[:20:20], l[19]), nil) },
		"swapped": func(l [][]byte) []byte { l[18], l[19] = l[19], l[18]; return bytes.Join(l, nil) },
		"one out": func(l [][]byte) []byte { return bytes.Join(append(l[:18:18], l[19]), nil) },
	} {
		st, tr := lines(t, 20)
		write(t, st, change(split(read(t, st))[:20]))
		if _, err := tr.Append(context.Background(), Record{Event: "x.no"}); err == nil {
			t.Fatalf("%s: taken", name)
		}
		if d, err := Recover(context.Background(), tr, true); err != nil || d.Len == 0 {
			t.Fatalf("%s: %+v %v", name, d, err)
		}
		add(t, tr, Record{Event: "x.yes"})
		if got := judged(t, st, Options{}); !strings.HasPrefix(got, "0 ok") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Whatever stands in place of a file of the trail, no command waits for it with
// the lock, nor writes through it.
func TestInPlace(t *testing.T) {
	st, tr := lines(t, 3)
	os.Remove(st.AuditFile("id"))
	os.Remove(st.Segment(1))
	if err := unix.Mkfifo(st.Segment(1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Append(context.Background(), Record{Event: "x.no"}); fail.KindOf(err) != fail.AuditUnavailable {
		t.Errorf("a pipe: %v", err)
	}
	st, tr = lines(t, 3)
	b := append(read(t, st), "garbage\n"...)
	elsewhere := filepath.Join(t.TempDir(), "file")
	os.WriteFile(elsewhere, b, 0o600)
	os.Remove(st.Segment(1))
	os.Symlink(elsewhere, st.Segment(1))
	if d, err := Recover(context.Background(), tr, true); err == nil {
		t.Errorf("through a link: %+v", d)
	}
	if after, _ := os.ReadFile(elsewhere); !bytes.Equal(after, b) {
		t.Error("written through a link")
	}
	st, tr = lines(t, 3)
	os.Rename(st.Audit(), st.Root+"/elsewhere")
	os.Symlink(st.Root+"/elsewhere", st.Audit())
	if _, err := tr.Append(context.Background(), Record{Event: "x.no"}); fail.KindOf(err) != fail.AuditUnavailable {
		t.Errorf("audit/ a link: %v", err)
	}
	if _, err := Verify(st, Options{}); fail.KindOf(err) != fail.IOError {
		t.Errorf("audit/ a link: %v", err)
	}
	for _, id := range []func(string) error{
		func(path string) error { return os.Symlink("/dev/null", path) },
		func(path string) error { return unix.Mkfifo(path, 0o600) },
		func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		st, _ = lines(t, 3)
		os.Remove(st.AuditFile("id"))
		if err := id(st.AuditFile("id")); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(st, Options{}); fail.KindOf(err) != fail.IOError {
			t.Errorf("id: %v", err)
		}
	}
	if os.Geteuid() == 0 {
		st, tr = lines(t, 3)
		if err := os.Chown(st.Audit(), 12345, 0); err != nil {
			t.Fatal(err)
		}
		_, err := Verify(st, Options{})
		if _, aerr := tr.Append(context.Background(), Record{Event: "x.no"}); err == nil || aerr == nil {
			t.Errorf("another's audit/: %v, %v", err, aerr)
		}
	}
}

// Segments are found whatever their number.
func TestManySegments(t *testing.T) {
	st, _ := fresh(t)
	os.MkdirAll(st.Audit(), 0o700)
	for _, name := range []string{"audit-000001.jsonl", "audit-1000000.jsonl", "audit-000002.jsonl.tmp", "audit-0000003.jsonl", "audit-+00004.jsonl", "audit--00005.jsonl", "audit-000000.jsonl", "audit-99999999999999999999.jsonl"} {
		os.WriteFile(filepath.Join(st.Audit(), name), nil, 0o600)
	}
	if n, err := st.Segments(); fmt.Sprint(n) != "[1 1000000]" {
		t.Errorf("%v %v", n, err)
	}
}
