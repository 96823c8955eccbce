package breaker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"forge/lib/fail"
	"forge/lib/store"
)

var start = time.Date(2026, 11, 30, 19, 15, 0, 0, time.UTC)

// clocked returns a store whose clock the test moves.
func clocked(t *testing.T) (*store.Store, *time.Time) {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	now := start
	st.Now = func() time.Time { return now }
	return st, &now
}

// A step is a call so long after the start, under a rate, and what comes of it.
type step struct {
	at   time.Duration
	rpm  int64
	turn Turn
	err  string
}

func usedUp(rpm, seconds string) string {
	return "rate of calls: " + rpm + " a minute used up, " + seconds + " s to wait"
}

func TestCall(t *testing.T) {
	for name, steps := range map[string][]step{
		"the window slides": {
			{0, 2, Same, ""},
			{10 * time.Second, 2, Same, ""},
			{10 * time.Second, 2, Opened, usedUp("2", "50")},
			{11 * time.Second, 2, Same, usedUp("2", "49")},
			{59*time.Second + 999*time.Millisecond, 2, Same, usedUp("2", "1")},
			{60 * time.Second, 2, Closed, ""}, // the first left
			{60 * time.Second, 2, Opened, usedUp("2", "10")},
			{70 * time.Second, 2, Closed, ""}, // the second left
			{70 * time.Second, 2, Opened, usedUp("2", "50")},
			{1000 * time.Second, 2, Closed, ""},
			{1000 * time.Second, 2, Same, ""},
		},
		"refused calls do not count": {
			{0, 1, Same, ""},
			{1 * time.Second, 1, Opened, usedUp("1", "59")},
			{30 * time.Second, 1, Same, usedUp("1", "30")},
			{60 * time.Second, 1, Closed, ""},
		},
		"0 is no limit": {
			{0, 1, Same, ""},
			{0, 1, Opened, usedUp("1", "60")},
			{0, 0, Closed, ""},
			{0, 0, Same, ""},
			{0, 1, Same, ""}, // nothing was kept meanwhile
			{0, 1, Opened, usedUp("1", "60")},
		},
		"a rate that was lowered": {
			{0, 3, Same, ""},
			{10 * time.Second, 3, Same, ""},
			{20 * time.Second, 3, Same, ""},
			{20 * time.Second, 1, Opened, usedUp("1", "60")}, // until the last of them leaves
			{70 * time.Second, 1, Same, usedUp("1", "10")},
			{80 * time.Second, 1, Closed, ""},
		},
		"a rate that was raised": {
			{0, 1, Same, ""},
			{0, 1, Opened, usedUp("1", "60")},
			{0, 2, Closed, ""},
		},
		"the clock set back costs a count, and opens nothing": {
			{100 * time.Second, 1, Same, ""},
			{0, 1, Same, ""},
			{1 * time.Second, 1, Opened, usedUp("1", "59")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, now := clocked(t)
			path := st.ToolState("/scope", "t")
			calls := int64(0)
			for i, s := range steps {
				*now = start.Add(s.at)
				may := MayCall(st, path, s.rpm)
				turn, err := Call(context.Background(), st, path, s.rpm)
				got := ""
				if err != nil {
					got = err.Error()
				} else {
					calls++
				}
				if turn != s.turn || got != s.err {
					t.Errorf("step %d: %d %q, want %d %q", i, turn, got, s.turn, s.err)
				}
				if mayText := fail.Of(may); (may == nil) != (err == nil) || may != nil && mayText.Message != got {
					t.Errorf("step %d: asked, it says %v", i, may)
				}
				if err != nil {
					e := fail.Of(err)
					retry, _ := e.Details["retry_after_s"].(int64)
					if e.Kind != fail.BreakerOpen || e.Details["breaker"] != "per_tool_rpm" || retry < 1 ||
						e.Hint != "wait, or raise breakers.per_tool_rpm in policy.json (forge-policy(5))" {
						t.Errorf("step %d: %+v", i, e)
					}
				}
			}
			if got := Load(path).Calls; got != calls {
				t.Errorf("%d calls counted, want %d", got, calls)
			}
		})
	}
}

// What stands in the file is what another process reads.
func TestState(t *testing.T) {
	st, _ := clocked(t)
	path := st.ToolState("/scope", "t")
	for range 2 {
		if _, err := Call(context.Background(), st, path, 30); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if want := `{"format":"forge.state/1","calls":2,"recent":[1796066100000,1796066100000]}` + "\n"; err != nil || string(b) != want {
		t.Errorf("%s %v, want %s", b, err, want)
	}
	for name, text := range map[string]string{
		"empty": "", "garbage": "x", "cut": string(b[:20]), "another format": `{"format":"forge.state/2","calls":7}`,
		"another type": `{"format":"forge.state/1","calls":"7"}`, "an array": "[]", "too long": strings.Repeat(" ", maxState+1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s := Load(path); s.Calls != 0 || s.Format != format {
			t.Errorf("%s: %+v", name, s)
		}
		if _, err := Call(context.Background(), st, path, 1); err != nil {
			t.Errorf("%s: %s", name, err)
		}
		if s := Load(path); s.Calls != 1 {
			t.Errorf("%s, and a call: %+v", name, s)
		}
	}
	// A later version's members are skipped.
	os.WriteFile(path, []byte(`{"format":"forge.state/1","calls":7,"later":1}`), 0o600)
	if s := Load(path); s.Calls != 7 {
		t.Errorf("%+v", s)
	}
}

func TestAskingCountsNothing(t *testing.T) {
	st, _ := clocked(t)
	path := st.ToolState("/scope", "t")
	if err := errors.Join(MayCall(st, path, 1), MayForge(path, 1)); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(st.Root); err == nil {
		t.Error("asking made a file")
	}
}

// However many ask at once, as many go through as the rate allows.
func TestCallAtOnce(t *testing.T) {
	st, _ := clocked(t)
	path := st.ToolState("/scope", "t")
	var through, denied, opened atomic.Int32
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			turn, err := Call(context.Background(), st, path, 10)
			switch {
			case err == nil:
				through.Add(1)
			case fail.KindOf(err) == fail.BreakerOpen:
				denied.Add(1)
			default:
				t.Error(err)
			}
			if turn == Opened {
				opened.Add(1)
			}
		})
	}
	wg.Wait()
	if through.Load() != 10 || denied.Load() != 22 || opened.Load() != 1 {
		t.Errorf("%d through, %d denied, %d times opened", through.Load(), denied.Load(), opened.Load())
	}
}

func TestForge(t *testing.T) {
	st, now := clocked(t)
	path := st.SessionState("s")
	for i, want := range []string{"", "", "forges of this session: 2, at most 2", "forges of this session: 2, at most 2"} {
		*now = now.Add(time.Hour) // a count, not a rate
		may := MayForge(path, 2)
		err := Forge(context.Background(), st, path, 2)
		got := ""
		if err != nil {
			got = err.Error()
			e := fail.Of(err)
			if e.Kind != fail.BreakerOpen || e.Details["breaker"] != "per_session_forge_count" {
				t.Errorf("%+v", e)
			}
		}
		if got != want || (may == nil) != (err == nil) {
			t.Errorf("forge %d: %q, asked %v, want %q", i, got, may, want)
		}
	}
	if err := Forge(context.Background(), st, path, 0); err != nil {
		t.Errorf("no limit: %s", err)
	}
	if s := Load(path); s.Forges != 3 {
		t.Errorf("%+v", s)
	}
}
