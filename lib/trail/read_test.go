package trail

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
)

// follower is a Walk that follows, in the background.
type follower struct {
	t    *testing.T
	seen chan uint64
	done chan error
}

func follow(t *testing.T, st *store.Store) *follower {
	t.Helper()
	f := &follower{t, make(chan uint64, 100), make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		f.done <- Walk(ctx, st, true, func(_ []byte, at chain.Place) error { f.seen <- at.Seq; return nil })
	}()
	return f
}

// sees waits for records up to last.
func (f *follower) sees(last uint64) {
	f.t.Helper()
	for {
		select {
		case got := <-f.seen:
			if got == last {
				return
			}
		case err := <-f.done:
			f.t.Fatalf("%v before record %d", err, last)
		case <-time.After(10 * time.Second):
			f.t.Fatalf("record %d does not come", last)
		}
	}
}

// waits sees to it that nothing comes, nor an end, for longer than anything wrong
// is looked at.
func (f *follower) waits() {
	f.t.Helper()
	select {
	case got := <-f.seen:
		f.t.Fatalf("record %d comes", got)
	case err := <-f.done:
		f.t.Fatalf("it ends: %v", err)
	case <-time.After((patience + 3) * followEvery):
	}
}

func (f *follower) ends(kind fail.Kind, text string) {
	f.t.Helper()
	select {
	case err := <-f.done:
		if fail.KindOf(err) != kind || err.Error() != text {
			f.t.Errorf("%s: %v, want %s: %s", fail.KindOf(err), err, kind, text)
		}
	case <-time.After(10 * time.Second):
		f.t.Errorf("it does not end")
	}
}

// put writes at the end of a file as it stands.
func put(t *testing.T, path string, text ...[]byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.Write(bytes.Join(text, nil))
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// segments returns a store with n segments of three lines and more.
func segments(t *testing.T, n int) (*store.Store, *Trail) {
	t.Helper()
	st, tr := lines(t, 3)
	for range n - 1 {
		tr.SegmentBytes = 1
		add(t, tr, Record{Event: "x.test"})
		tr.SegmentBytes = DefaultSegmentBytes
		add(t, tr, Record{Event: "x.test"})
	}
	return st, tr
}

// line returns the line that follows the last whole one of the first segment.
func line(t *testing.T, st *store.Store) []byte {
	t.Helper()
	text := read(t, st)
	whole := split(text[:bytes.LastIndexByte(text, '\n')+1])
	for i := len(whole) - 1; i >= 0; i-- {
		if l, reason := chain.Parse(whole[i]); reason == "" {
			out, _ := chain.AppendLine(nil, append([]byte(chain.SeqHead(l.Seq+1)), `"ts":"t","ev":"x.more"}`...), l.Sha)
			return out
		}
	}
	t.Fatal("no line")
	return nil
}

// One who follows is told what is wrong as one who reads is, and does not wait
// for what no writer brings.
func TestFollowEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *store.Store)
		text   string
	}{
		"garbage, and lines that would follow": {func(t *testing.T, st *store.Store) {
			put(t, st.Segment(1), []byte("garbage\n"), line(t, st))
		}, "audit-000001.jsonl:4: frame: not a line of the format"},
		"garbage alone": {func(t *testing.T, st *store.Store) {
			put(t, st.Segment(1), []byte("garbage\n"))
		}, "audit-000001.jsonl:4: frame: not a line of the format"},
		"a line twice": {func(t *testing.T, st *store.Store) {
			put(t, st.Segment(1), split(read(t, st))[2])
		}, "audit-000001.jsonl:4: fork: continues the same line as the one before"},
		"garbage without an end": {func(t *testing.T, st *store.Store) {
			put(t, st.Segment(1), []byte("garbage\n"), []byte("more of it"))
		}, "audit-000001.jsonl:4: frame: not a line of the format"},
		"more than a writer goes on after": {func(t *testing.T, st *store.Store) {
			put(t, st.Segment(1), make([]byte, chain.MaxTorn+1))
		}, "audit-000001.jsonl:4: frame: the rest is longer than a line that was not written whole"},
		"far more": {func(t *testing.T, st *store.Store) {
			if err := os.Truncate(st.Segment(1), 100<<20); err != nil {
				t.Fatal(err)
			}
		}, "audit-000001.jsonl:4: frame: the line is longer than 65536 bytes"},
		"the directory is gone": {func(t *testing.T, st *store.Store) {
			os.RemoveAll(st.Audit())
		}, "audit-000001.jsonl: truncated: it was removed while it was read"},
		"the file is gone": {func(t *testing.T, st *store.Store) {
			os.Remove(st.Segment(1))
		}, "audit-000001.jsonl: truncated: it was removed while it was read"},
		"a new chain": {func(t *testing.T, st *store.Store) {
			os.RemoveAll(st.Audit())
			add(t, New(st, Who{}), Record{Event: "x.new"})
		}, "audit-000001.jsonl: identity: another file has taken its place while it was read"},
		"a copy": {func(t *testing.T, st *store.Store) {
			text := read(t, st)
			os.Remove(st.Segment(1))
			write(t, st, text)
		}, "audit-000001.jsonl: identity: another file has taken its place while it was read"},
		"the end is cut off": {func(t *testing.T, st *store.Store) {
			os.Truncate(st.Segment(1), int64(len(read(t, st))-200))
		}, "audit-000001.jsonl: truncated: its end was cut off while it was read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, _ := lines(t, 3)
			f := follow(t, st)
			f.sees(3)
			c.change(t, st)
			f.ends(fail.Tampered, c.text)
		})
	}
	t.Run("from the start", func(t *testing.T) {
		st, _ := lines(t, 3)
		write(t, st, []byte(strings.Replace(string(read(t, st)), `"n":3`, `"n":4`, 1)))
		f := follow(t, st)
		f.ends(fail.Tampered, "audit-000001.jsonl:3: content: sha does not match payload and prev")
	})
	t.Run("a segment ends, and none follows", func(t *testing.T) {
		st, tr := lines(t, 3)
		before := read(t, st)
		tr.SegmentBytes = 1
		add(t, tr, Record{Event: "x.more"})
		rotate := read(t, st)[len(before):]
		write(t, st, before)
		os.Remove(st.Segment(2))
		f := follow(t, st)
		f.sees(3)
		put(t, st.Segment(1), rotate)
		f.sees(4)
		f.ends(fail.Tampered, "audit-000002.jsonl: truncated: the segment that audit.rotate names is gone")
	})
	t.Run("a gap", func(t *testing.T) {
		st, _ := segments(t, 4)
		if err := os.Remove(st.Segment(3)); err != nil {
			t.Fatal(err)
		}
		f := follow(t, st)
		f.ends(fail.Tampered, "audit-000003.jsonl: missing: the segment is not there, and audit-000004.jsonl is")
	})
	// The first ends with no audit.rotate; that is no reason to wait in it.
	t.Run("a segment that was not ended", func(t *testing.T) {
		st, _ := segments(t, 2)
		whole := split(read(t, st))
		write(t, st, bytes.Join(whole[:len(whole)-2], nil))
		f := follow(t, st)
		f.ends(fail.Tampered, "audit-000002.jsonl:1: missing: lines are missing before it")
	})
}

// What a writer left and another will go on after is waited for.
func TestFollowHealed(t *testing.T) {
	st, tr := lines(t, 3)
	f := follow(t, st)
	f.sees(3)
	put(t, st.Segment(1), make([]byte, 200_000)) // the power failed
	f.waits()
	add(t, tr, Record{Event: "x.after"})
	f.sees(5)

	// A writer that healed was itself stopped, twice.
	before := read(t, st)
	put(t, st.Segment(1), line(t, st)[:50])
	add(t, tr, Record{Event: "x.lost"})
	heal := read(t, st)[len(before):]
	write(t, st, before)
	g := follow(t, st)
	g.sees(5)
	put(t, st.Segment(1), heal[:50+1+100])
	g.waits()
	put(t, st.Segment(1), heal[50:50+1+60])
	g.waits()
	add(t, tr, Record{Event: "x.after"})
	g.sees(7)

	// A writer between two segments, and one that finishes for it.
	tr.SegmentBytes = 1
	add(t, tr, Record{Event: "x.more"})
	tr.SegmentBytes = DefaultSegmentBytes
	g.sees(10)
	if err := os.Rename(st.Segment(2), st.NextSegment(2)); err != nil {
		t.Fatal(err)
	}
	h := follow(t, st)
	h.sees(8)
	h.waits()
	if err := os.Rename(st.NextSegment(2), st.Segment(2)); err != nil {
		t.Fatal(err)
	}
	h.sees(10)
	add(t, tr, Record{Event: "x.more"})
	h.sees(11)
}

// Walk sees what verify sees, but for the end of a chain that no checkpoint knows.
func TestWalkEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *store.Store)
		kind   fail.Kind
		text   string
	}{
		"a gap": {func(t *testing.T, st *store.Store) {
			os.Remove(st.Segment(2))
		}, fail.Tampered, "audit-000002.jsonl: missing: the segment is not there, and audit-000003.jsonl is"},
		"a segment renamed": {func(t *testing.T, st *store.Store) {
			os.Rename(st.Segment(3), st.Segment(7))
		}, fail.Tampered, "audit-000003.jsonl: missing: the segment is not there, and audit-000007.jsonl is"},
		"the last one gone": {func(t *testing.T, st *store.Store) {
			os.Remove(st.Segment(3))
		}, fail.Tampered, "audit-000003.jsonl: truncated: the segment that audit.rotate names is gone"},
		"the last one not there yet": {func(t *testing.T, st *store.Store) {
			os.Rename(st.Segment(3), st.NextSegment(3))
		}, "", ""},
		"bytes at the end of an earlier one": {func(t *testing.T, st *store.Store) {
			put(t, st.Segment(2), []byte("x"))
		}, fail.Tampered, "audit-000002.jsonl:5: frame: the last line was not written whole"},
		"a line at the end": {func(t *testing.T, st *store.Store) {
			put(t, st.Segment(3), []byte("x\n"))
		}, fail.Tampered, "audit-000003.jsonl:4: frame: not a line of the format"},
		"a torn end":      {func(t *testing.T, st *store.Store) { put(t, st.Segment(3), make([]byte, 100_000)) }, "", ""},
		"a too long end":  {func(t *testing.T, st *store.Store) { put(t, st.Segment(3), make([]byte, 3<<20)) }, fail.Tampered, "audit-000003.jsonl:4: frame: the line is longer than 65536 bytes"},
		"the first empty": {func(t *testing.T, st *store.Store) { os.Truncate(st.Segment(1), 0) }, fail.Tampered, "audit-000002.jsonl:1: missing: lines are missing before it"},
		"pruned, and the first line edited": {func(t *testing.T, st *store.Store) {
			os.Remove(st.Segment(1))
			text, _ := os.ReadFile(st.Segment(2))
			os.WriteFile(st.Segment(2), bytes.Replace(text, []byte("audit.segment"), []byte("audit.segmenT"), 1), 0o600)
		}, fail.Tampered, "audit-000002.jsonl:1: content: sha does not match payload and prev"},
		"no directory": {func(t *testing.T, st *store.Store) {
			os.RemoveAll(st.Audit())
		}, fail.NotFound, "there is no trail at AUDIT"},
		"none that can be read": {func(t *testing.T, st *store.Store) {
			os.RemoveAll(st.Audit())
			os.Symlink(st.Audit(), st.Audit())
		}, fail.IOError, "open AUDIT: too many levels of symbolic links"},
		"a file in its place": {func(t *testing.T, st *store.Store) {
			os.RemoveAll(st.Audit())
			os.WriteFile(st.Audit(), nil, 0o600)
		}, fail.IOError, ""},
		"a segment that is a directory": {func(t *testing.T, st *store.Store) {
			os.Remove(st.Segment(1))
			os.Mkdir(st.Segment(1), 0o700)
		}, fail.IOError, "AUDIT/audit-000001.jsonl: not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, _ := segments(t, 3)
			c.change(t, st)
			err := Walk(context.Background(), st, false, func([]byte, chain.Place) error { return nil })
			text := ""
			if err != nil {
				text = strings.ReplaceAll(err.Error(), st.Audit(), "AUDIT")
			}
			if fail.KindOf(err) != c.kind || text != c.text && c.text != "" {
				t.Errorf("%s: %s, want %s: %s", fail.KindOf(err), text, c.kind, c.text)
			}
		})
	}

	// Lines that were whole are torn only if an operator said so.
	for _, accept := range []bool{false, true} {
		st, tr := lines(t, 3)
		if accept {
			put(t, st.Segment(1), []byte("garbage\nmore\n"))
			if _, err := Recover(context.Background(), tr, true); err != nil {
				t.Fatal(err)
			}
			if got := payloads(t, st); len(got) != 7 {
				t.Errorf("%d records", len(got))
			}
			continue
		}
		before := read(t, st)
		put(t, st.Segment(1), []byte("garbage\nmore"))
		torn := tornAt(int64(len(before)), []byte("garbage\nmore"))
		last, _ := chain.Parse(split(before)[2])
		l, _ := chain.AppendLine([]byte("\n"), fmt.Appendf(nil, `{"seq":4,"ts":"2026-11-30T19:15:00.123456789Z","ev":"audit.torn","details":{"at":%d,"len":%d,"sha256":"%s"}}`, torn.At, torn.Len, torn.SHA256), last.Sha)
		put(t, st.Segment(1), l)
		const want = "audit-000001.jsonl:4: frame: lines that a record names as torn, and no operator accepted (audit.recovered)"
		if err := Walk(context.Background(), st, false, func([]byte, chain.Place) error { return nil }); fail.KindOf(err) != fail.Tampered || err.Error() != want {
			t.Errorf("%v", err)
		}
		follow(t, st).ends(fail.Tampered, want)
	}

	// A heal that was stopped is no more of an error than a torn line.
	st, tr := lines(t, 3)
	before := read(t, st)
	put(t, st.Segment(1), []byte("{"))
	add(t, tr, Record{Event: "x.lost"})
	write(t, st, read(t, st)[:len(before)+100])
	if got := payloads(t, st); len(got) != 3 {
		t.Errorf("%d records", len(got))
	}
}

// Writers that are killed while they write leave nothing that ends one who
// follows, and nothing that it does not show.
func TestFollowKilled(t *testing.T) {
	st, tr := lines(t, 3)
	tr.SegmentBytes = 1 << 20
	f := follow(t, st)
	var last atomic.Uint64
	go func() {
		for seq := range f.seen {
			if !last.CompareAndSwap(seq-1, seq) {
				t.Errorf("record %d after %d", seq, last.Load())
			}
		}
	}()
	for range 30 {
		cmds := make([]*exec.Cmd, 3)
		for i := range cmds {
			cmds[i] = self(t, "append", st.Root, "1000")
			if err := cmds[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(10+rand.IntN(80)) * time.Millisecond)
		for _, cmd := range cmds {
			cmd.Process.Kill()
			cmd.Wait()
		}
		add(t, tr, Record{Event: "x.test"}) // heals, and ends segments
	}
	want := add(t, tr, Record{Event: "x.last"})
	for until := time.Now().Add(20 * time.Second); last.Load() < want && time.Now().Before(until); {
		time.Sleep(followEvery)
	}
	f.waits()
	if last.Load() != want {
		t.Errorf("it saw %d of %d", last.Load(), want)
	}
}
