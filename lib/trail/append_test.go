package trail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
)

func TestRecord(t *testing.T) {
	st, tr := fresh(t)
	if seq := add(t, tr, Record{Event: CallBegin, Run: "r", Tool: "t", Digest: "d", Details: map[string]any{"b": true, "a": "<&>"}}); seq != 2 {
		t.Errorf("number %d", seq)
	}
	add(t, New(st, Who{}), Record{Event: "x.test"})
	got := payloads(t, st)
	rest := `"boot":"[0-9a-f-]{36}","up":[0-9]+,"pid":` + strconv.Itoa(os.Getpid()) + `,"uid":` + strconv.Itoa(os.Getuid())
	ts := `"ts":"2026-11-30T19:15:00.123456789Z",`
	for i, want := range []string{
		`{"seq":1,` + ts + `"ev":"audit.genesis","sev":"notice","persona":"p","session":"s",` + rest + `,"details":{"log":"[0-9a-f]{32}","v":1}}`,
		`{"seq":2,` + ts + `"ev":"forge.call.begin","sev":"info","persona":"p","session":"s","run":"r","tool":"t","digest":"d",` + rest + `,"details":{"a":"<&>","b":true}}`,
		`{"seq":3,` + ts + `"ev":"x.test","sev":"info",` + rest + `}`,
	} {
		if !regexp.MustCompile("^" + want + "$").MatchString(got[i]) {
			t.Errorf("%s\nwant %s", got[i], want)
		}
	}
	id, err := os.ReadFile(st.AuditFile("id"))
	if err != nil || !strings.Contains(got[0], `"log":"`+strings.TrimSpace(string(id))+`"`) {
		t.Errorf("id %q %v", id, err)
	}
	for path, want := range map[string]fs.FileMode{
		st.Audit(): 0o700 | fs.ModeDir, st.Segment(1): 0o600, st.AuditFile("id"): 0o600, st.AuditFile("lock"): 0o600,
	} {
		if fi, err := os.Lstat(path); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v %v", path, fi.Mode(), err)
		}
	}
	if v := verdict(t, st); v != "intact 3" {
		t.Error(v)
	}
}

func TestAppendTogether(t *testing.T) {
	st, tr := fresh(t)
	if seq := add(t, tr, Record{Event: "x.a"}, Record{Event: "x.b"}, Record{Event: "x.c"}); seq != 4 {
		t.Errorf("number %d", seq)
	}
	if seq := add(t, tr); seq != 4 {
		t.Errorf("nothing appended, number %d", seq)
	}
	before := read(t, st)
	// One that is too long takes the others with it, and the trail goes on.
	_, err := tr.Append(context.Background(), Record{Event: "x.d"}, Record{Event: "x.e", Details: strings.Repeat("x", chain.MaxPayload)})
	if fail.KindOf(err) != fail.BadInput || errors.Is(err, ErrRefused) || !strings.HasSuffix(err.Error(), " bytes, at most 65376") {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(read(t, st), before) {
		t.Error("something was written")
	}
	// The longest there is.
	probe := len(payloads(t, st)[3]) + len(`,"details":""`)
	add(t, tr, Record{Event: "x.f", Details: strings.Repeat("x", chain.MaxPayload-probe)})
	if l := split(read(t, st)); len(l[4]) != chain.MaxLine {
		t.Errorf("a line of %d bytes", len(l[4]))
	}
	add(t, tr, Record{Event: "x.g"})
	if v := verdict(t, st); v != "intact 6" {
		t.Error(v)
	}
}

// The head is found behind lines of any length.
func TestHeadAfterLongLines(t *testing.T) {
	st, tr := fresh(t)
	n := uint64(1)
	for _, size := range []int{0, 3000, 3900, 4100, 16000, 17000, 60000, 65000, 65000, 10} {
		n++
		if seq := add(t, tr, Record{Event: "x.test", Details: strings.Repeat("x", size)}); seq != n {
			t.Fatalf("number %d, want %d", seq, n)
		}
	}
	if v := verdict(t, st); v != fmt.Sprintf("intact %d", n) {
		t.Error(v)
	}
}

// What an append reads does not grow with the trail.
func TestAppendReadsTheEnd(t *testing.T) {
	st, tr := lines(t, 1000)
	cost := func() int {
		chars := func() int {
			b, err := os.ReadFile("/proc/self/io")
			if err != nil {
				t.Fatal(err)
			}
			n, _ := strconv.Atoi(strings.Fields(string(b))[1])
			return n
		}
		before := chars()
		add(t, tr, Record{Event: "x.test"})
		return chars() - before
	}
	short := cost()
	many := make([]Record, 20000)
	for i := range many {
		many[i] = Record{Event: "x.test"}
	}
	for range 5 {
		add(t, tr, many...)
	}
	if fi, err := os.Stat(st.Segment(1)); err != nil || fi.Size() < 25<<20 {
		t.Fatalf("%v %v", fi.Size(), err)
	}
	if long := cost(); long > short+4096 {
		t.Errorf("%d bytes read behind 1,000 lines, %d behind 100,000", short, long)
	}
}

func TestGenesisRace(t *testing.T) {
	st, _ := fresh(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := New(st, Who{}).Append(context.Background(), Record{Event: "x.test"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if v := verdict(t, st); v != "intact 17" {
		t.Error(v)
	}
}

func TestGenesisRaceOfProcesses(t *testing.T) {
	st, _ := fresh(t)
	st.Now = time.Now // as for the others
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := self(t, "append", st.Root, "5").Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if v := verdict(t, st); v != "intact 81" {
		t.Error(v)
	}
	if n := bytes.Count(read(t, st), []byte(`"ev":"audit.genesis"`)); n != 1 {
		t.Errorf("%d chains began", n)
	}
	left, _ := filepath.Glob(filepath.Join(st.Audit(), ".new-*"))
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Eight writers of lines up to 60 kB are killed at whatever moments until each
// has 500 records acknowledged (F5). All of these are on the chain, and what was
// torn is healed and named by those that come after.
func TestKilledWriters(t *testing.T) {
	st, tr := fresh(t)
	st.Now = time.Now // as for the others
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged, kills := map[uint64]bool{}, 0
	for range 8 {
		wg.Go(func() {
			for n := 0; n < 500; {
				cmd := self(t, "append", st.Root, "500")
				var out strings.Builder
				cmd.Stdout = &out
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
				cmd.Process.Kill()
				cmd.Wait()
				mu.Lock()
				kills++
				for line := range strings.Lines(out.String()) {
					seq, err := strconv.ParseUint(strings.TrimSuffix(line, "\n"), 10, 64)
					if err != nil || acknowledged[seq] {
						t.Errorf("acknowledged: %q, twice or no number", line)
					}
					acknowledged[seq] = true
					n++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	add(t, tr, Record{Event: "x.last"})
	torn := 0
	r, err := Verify(st, Options{})
	if err != nil || r.Verdict != Intact {
		t.Fatalf("%+v %v", r, err)
	}
	err = Walk(context.Background(), st, false, func(p []byte, at chain.Place) error {
		delete(acknowledged, at.Seq)
		if hasEvent(p, TornEvent) {
			torn++
		}
		return nil
	})
	if err != nil || len(acknowledged) > 0 {
		t.Errorf("acknowledged and not there: %v, %v", acknowledged, err)
	}
	t.Logf("%d kills, %d lines, %d torn", kills, r.Entries, torn)
}

// The rows of the case list that one segment can show: what was done to a trail
// of 100 lines, what verify says, whether the next record is refused, and what
// verify says then.
func TestCases(t *testing.T) {
	cut := func(l [][]byte) []byte { return bytes.Join(append(l[:90:90], l[90][:len(l[90])/2]), nil) }
	for name, c := range map[string]struct {
		change  func(t *testing.T, st *store.Store)
		verify  string
		refused string // "" where the next record is taken
		after   string
	}{
		"A26, A27 cut within line 91": {
			func(t *testing.T, st *store.Store) { write(t, st, cut(split(read(t, st)))) },
			"attention torn_tail 91", "", "intact 92; audit-000001.jsonl:91 was not written whole, and a later record says so",
		},
		"A28 NULs for 91 to 100": {
			func(t *testing.T, st *store.Store) {
				write(t, st, append(bytes.Join(split(read(t, st))[:90], nil), make([]byte, 5000)...))
			},
			"attention torn_tail 91", "", "intact 92; audit-000001.jsonl:91 was not written whole, and a later record says so",
		},
		"A29 the kept fragment edited": {
			func(t *testing.T, st *store.Store) {
				write(t, st, cut(split(read(t, st))))
				add(t, New(st, Who{}), Record{Event: "x.test"})
				b := read(t, st)
				at := bytes.Index(b, []byte(`"seq":91`))
				b[at+30] ^= 1
				write(t, st, b)
			},
			"tampered frame 91", "", "tampered frame 91",
		},
		// The line is far from the end: an append that reads the end alone
		// cannot know.
		"A30 line 37 zeroed": {
			func(t *testing.T, st *store.Store) {
				l := split(read(t, st))
				l[36] = append(make([]byte, len(l[36])-1), '\n')
				write(t, st, bytes.Join(l, nil))
			},
			"tampered frame 37", "", "tampered frame 37",
		},
		"A30 the last line zeroed": {
			func(t *testing.T, st *store.Store) {
				l := split(read(t, st))
				l[99] = append(make([]byte, len(l[99])-1), '\n')
				write(t, st, bytes.Join(l, nil))
			},
			"tampered frame 100", "the last line does not verify", "tampered frame 100",
		},
		"A30 the line before the last zeroed": {
			func(t *testing.T, st *store.Store) {
				l := split(read(t, st))
				l[98] = append(make([]byte, len(l[98])-1), '\n')
				write(t, st, bytes.Join(l, nil))
			},
			"tampered frame 99", "the last line does not verify", "tampered frame 99",
		},
		"A31 a whole line of garbage": {
			func(t *testing.T, st *store.Store) { write(t, st, append(read(t, st), "garbage\n"...)) },
			"tampered frame 101", "the last line does not verify", "tampered frame 101",
		},
		"the last line edited": {
			func(t *testing.T, st *store.Store) {
				write(t, st, bytes.Replace(read(t, st), []byte(`"n":100`), []byte(`"n":101`), 1))
			},
			"tampered content 100", "the last line does not verify", "tampered content 100",
		},
		"the last line doubled": {
			func(t *testing.T, st *store.Store) {
				l := split(read(t, st))
				write(t, st, bytes.Join(append(l[:100:100], l[99]), nil))
			},
			"tampered fork 101", "the last line does not verify", "tampered fork 101",
		},
		"A24 the last ten cut": {
			func(t *testing.T, st *store.Store) { write(t, st, bytes.Join(split(read(t, st))[:90], nil)) },
			"intact 90", "", "intact 91",
		},
		"A32 the segment gone": {
			func(t *testing.T, st *store.Store) { os.Remove(st.Segment(1)) },
			"SEGMENT is missing, and audit/id says there was one", "SEGMENT is missing", "SEGMENT is missing, and audit/id says there was one",
		},
		"the whole directory gone, and a ledger that is not empty": {
			func(t *testing.T, st *store.Store) {
				os.RemoveAll(st.Audit())
				if err := st.WriteFile(st.Ledger("d"), nil, store.Renamed); err != nil {
					t.Fatal(err)
				}
			},
			"the chain is gone, and the ledger is not empty", "the chain is gone, and the ledger is not empty", "the chain is gone, and the ledger is not empty",
		},
		"A33 another log's genesis": {
			func(t *testing.T, st *store.Store) {
				other, _ := lines(t, 50)
				write(t, st, read(t, other))
			},
			"tampered identity 1", "", "tampered identity 1",
		},
		"A41 cut to nothing": {
			func(t *testing.T, st *store.Store) { write(t, st, nil) },
			"tampered empty_segment 1", "the last line does not verify", "tampered empty_segment 1",
		},
		"the id gone": {
			func(t *testing.T, st *store.Store) { os.Remove(st.AuditFile("id")) },
			"attention identity", "", "intact 101",
		},
		"F8 mode 0666": {
			func(t *testing.T, st *store.Store) { os.Chmod(st.Segment(1), 0o666) },
			"SEGMENT: mode 0666, want 0600", "SEGMENT: mode 0666, want 0600", "SEGMENT: mode 0666, want 0600",
		},
		"mode 0640": {
			func(t *testing.T, st *store.Store) { os.Chmod(st.Segment(1), 0o640) },
			"SEGMENT: mode 0640, want 0600", "SEGMENT: mode 0640, want 0600", "SEGMENT: mode 0640, want 0600",
		},
		"F8 a link": {
			func(t *testing.T, st *store.Store) {
				os.Rename(st.Segment(1), st.Root+"/elsewhere")
				os.Symlink(st.Root+"/elsewhere", st.Segment(1))
			},
			"open SEGMENT: too many levels of symbolic links", "open SEGMENT: too many levels of symbolic links", "open SEGMENT: too many levels of symbolic links",
		},
		"a directory": {
			func(t *testing.T, st *store.Store) { os.Remove(st.Segment(1)); os.Mkdir(st.Segment(1), 0o700) },
			"SEGMENT: not a regular file", "open SEGMENT: is a directory", "SEGMENT: not a regular file",
		},
		"audit/ open to others": {
			func(t *testing.T, st *store.Store) { os.Chmod(st.Audit(), 0o750) },
			"intact 100; AUDIT has mode 0750, want 0700", "AUDIT: mode 0750, want 0700", "intact 100; AUDIT has mode 0750, want 0700",
		},
		"FAILED": {
			func(t *testing.T, st *store.Store) { os.WriteFile(st.AuditFile("FAILED"), nil, 0o600) },
			"attention failed", "an earlier record may not have reached the disk (AUDIT/FAILED exists)", "attention failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, tr := lines(t, 100)
			c.change(t, st)
			plain := strings.NewReplacer(st.Segment(1), "SEGMENT", st.Audit(), "AUDIT")
			if got := plain.Replace(verdict(t, st)); got != c.verify {
				t.Errorf("verify: %s, want %s", got, c.verify)
			}
			_, err := tr.Append(context.Background(), Record{Event: "x.next"})
			switch {
			case c.refused == "":
				if err != nil {
					t.Errorf("append: %s", err)
				}
			case err == nil || fail.KindOf(err) != fail.AuditUnavailable || !errors.Is(err, ErrRefused) ||
				!strings.HasSuffix(plain.Replace(err.Error()), c.refused):
				t.Errorf("append: %v (%s), want %s", err, fail.KindOf(err), c.refused)
			}
			if got := plain.Replace(verdict(t, st)); got != c.after {
				t.Errorf("verify after: %s, want %s", got, c.after)
			}
		})
	}
	// A healed trail has its physical lines: 90, the fragment, the record that
	// names it, the next.
	st, tr := lines(t, 100)
	write(t, st, cut(split(read(t, st))))
	add(t, tr, Record{Event: "x.next"})
	if n := bytes.Count(read(t, st), []byte("\n")); n != 93 {
		t.Errorf("A27: %d lines, want 93", n)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(st.Segment(1), 12345, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Append(context.Background(), Record{Event: "x"}); err == nil || !strings.HasSuffix(err.Error(), "owned by uid 12345") {
			t.Errorf("another's segment: %v", err)
		}
	}
}

// However a line is cut, the next record heals it; cut by its newline alone it
// counts, and is acknowledged nowhere twice.
func TestHealEveryCut(t *testing.T) {
	st, tr := lines(t, 3)
	whole := read(t, st)
	l := split(whole)
	from := len(l[0]) + len(l[1])
	for end := from; end <= len(whole); end++ {
		write(t, st, whole[:end])
		add(t, tr, Record{Event: "x.next"})
		want := "intact 4; audit-000001.jsonl:3 was not written whole, and a later record says so"
		switch end {
		case from:
			want = "intact 3"
		case len(whole) - 1:
			want = "intact 5" // adopted: 3, the record of it, the next
		case len(whole):
			want = "intact 4"
		}
		if got := verdict(t, st); got != want {
			t.Fatalf("cut after %d of %d bytes: %s, want %s", end-from, len(whole)-from, got, want)
		}
		got := payloads(t, st)
		if end == len(whole)-1 {
			contains(t, got[3], `"ev":"audit.torn","sev":"warning"`, `"adopted":true`)
			contains(t, got[2], `"details":{"n":3}`)
		}
		contains(t, got[len(got)-1], `"ev":"x.next"`)
	}
}

// The writer that heals is itself stopped, at every byte of what it writes but
// one: after its newline alone the fragment is a whole line that does not stand,
// which is refused (A31), for nothing tells the two apart.
func TestInterruptedHeal(t *testing.T) {
	st, tr := lines(t, 2)
	base := append(read(t, st), `{"payload":{"seq":3,"ts":"2026-11`...)
	write(t, st, base)
	add(t, tr, Record{Event: "x.next"})
	healed := read(t, st)
	record := split(healed[len(base)+1:])[0] // the audit.torn line
	for n := 0; n <= len(record)+1; n++ {
		if n == 1 {
			continue
		}
		text := append(bytes.Clone(base), healed[len(base):len(base)+n]...)
		write(t, st, text)
		if n > 0 && n <= len(record) {
			if got := verdict(t, st); !strings.HasPrefix(got, "attention torn_tail") && n < len(record) {
				t.Fatalf("stopped after %d bytes of the record: %s", n, got)
			}
		}
		if _, err := tr.Append(context.Background(), Record{Event: "x.again"}); err != nil {
			t.Fatalf("stopped after %d of %d bytes: %s", n, len(record)+1, err)
		}
		if got := verdict(t, st); !strings.HasPrefix(got, "intact ") {
			t.Fatalf("stopped after %d of %d bytes, healed again: %s", n, len(record)+1, got)
		}
	}
}

// A fragment has a bound: what is longer was no torn line.
func TestLongFragment(t *testing.T) {
	st, tr := lines(t, 3)
	whole := read(t, st)
	for _, c := range []struct {
		n  int
		ok bool
	}{{5000, true}, {70000, true}, {chain.MaxTorn, true}, {chain.MaxTorn + 1, false}, {5 << 20, false}} {
		write(t, st, append(bytes.Clone(whole), bytes.Repeat([]byte("x"), c.n)...))
		_, err := tr.Append(context.Background(), Record{Event: "x.next"})
		if (err == nil) != c.ok {
			t.Errorf("%d bytes: %v", c.n, err)
		}
		got := verdict(t, st)
		if strings.HasPrefix(got, "intact 5; audit-000001.jsonl:4 was not") != c.ok || !c.ok && !strings.HasPrefix(got, "tampered frame 4") {
			t.Errorf("%d bytes: %s", c.n, got)
		}
	}
}

// A stopped holder of the lock is waited for up to the deadline (F7).
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	st, tr := lines(t, 2)
	cmd := self(t, "hold", st.Root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	buf := make([]byte, 64)
	if n, err := out.Read(buf); err != nil || string(buf[:n]) != "held <nil>\n" {
		t.Fatalf("%q %v", buf[:n], err)
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	began := time.Now()
	_, err = tr.Append(context.Background(), Record{Event: "x.next"})
	if took := time.Since(began); fail.KindOf(err) != fail.Busy || !errors.Is(err, ErrRefused) || took < lockWait || took > lockWait+5*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
	cmd.Process.Kill()
	add(t, tr, Record{Event: "x.next"})
	if v := verdict(t, st); v != "intact 3" {
		t.Error(v)
	}
}

func TestCancelledAppend(t *testing.T) {
	st, tr := lines(t, 2)
	unlock, err := st.Lock(context.Background(), st.AuditFile("lock"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tr.Append(ctx, Record{Event: "x.next"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
