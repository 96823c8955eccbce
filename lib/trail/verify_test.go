package trail

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/tool"
)

func TestEvents(t *testing.T) {
	// DESIGN §10.
	want := strings.Fields(`audit.genesis audit.segment audit.rotate audit.torn audit.pruned audit.recovered audit.checkpoint
		forge.created forge.removed forge.revoked forge.replaced forge.adopted forge.call.begin forge.called forge.promoted forge.refused
		policy.reloaded policy.reload_failed acl.persona_denied acl.persona_secret_denied tool.namespace_denied tool.network_share
		tool.secrets_injected secret.vault_missing secret.vault_malformed breaker_open breaker_closed registry.load_failed path_gate.denied
		session.reset session.timeout skill.created skill.graded skill.outcome_graded skill.promoted skill.purged skill.updated skill.saved
		runs.pruned secret.set secret.removed plan.approved plan.denied plan.committed plan.rolled_back bash.run bash.blocked`)
	have := map[Event]Row{}
	for _, r := range Events {
		if _, twice := have[r.Event]; twice || r.Meaning == "" {
			t.Errorf("%s stands twice or says nothing", r.Event)
		}
		switch r.Severity {
		case "info", "notice", "warning", "critical":
		default:
			t.Errorf("%s: severity %q", r.Event, r.Severity)
		}
		have[r.Event] = r
	}
	for _, ev := range want {
		if _, ok := have[Event(ev)]; !ok {
			t.Errorf("%s is missing", ev)
		}
		if CheckForeign(ev) == nil {
			t.Errorf("%s is free to others", ev)
		}
	}
	if len(have) != len(want) {
		t.Errorf("%d events, want %d", len(have), len(want))
	}
	for kind, ev := range map[fail.Kind]Event{
		fail.PersonaDenied: "acl.persona_denied", fail.NamespaceDenied: "tool.namespace_denied", fail.SecretDenied: "acl.persona_secret_denied",
		fail.BadInput: "forge.refused", fail.BreakerOpen: "forge.refused", fail.Internal: "forge.refused",
	} {
		if got := RefusalOf(kind); got != ev {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

func TestCheckForeign(t *testing.T) {
	for ev, want := range map[string]string{
		"deploy.started":               "",
		"a.b":                          "",
		"my_app.db2.backup_done":       "",
		"x." + strings.Repeat("y", 62): "",
		"x." + strings.Repeat("y", 63): `event "x.` + strings.Repeat("y", 63) + `" is not prefix.word`,
		"":                             `event "" is not prefix.word`,
		"deploy":                       `event "deploy" is not prefix.word`,
		".a":                           `event ".a" is not prefix.word`,
		"a.":                           `event "a." is not prefix.word`,
		"a..b":                         `event "a..b" is not prefix.word`,
		"A.b":                          `event "A.b" is not prefix.word`,
		"a.1":                          `event "a.1" is not prefix.word`,
		"a-b.c":                        `event "a-b.c" is not prefix.word`,
		"a b.c":                        `event "a b.c" is not prefix.word`,
		"а.b":                          `event "а.b" is not prefix.word`,
		"a.b\n":                        `event "a.b\n" is not prefix.word`,
		`a.b","ev":"audit.torn`:        `event "a.b\",\"ev\":\"audit.torn" is not prefix.word`,
		"forge.x":                      `event "forge.x": the prefix is Forge's own`,
		"audit.torn":                   `event "audit.torn": the prefix is Forge's own`,
		"breaker_open.x":               `event "breaker_open.x": the prefix is Forge's own`,
		"forgery.x":                    "",
		"forge_call.begin":             `event "forge_call.begin": but for dots and underscores the prefix is Forge's own, forge`,
		"breaker.open":                 `event "breaker.open": but for dots and underscores the prefix is Forge's own, breaker_open`,
		"breaker.open_now":             `event "breaker.open_now": but for dots and underscores the prefix is Forge's own, breaker_open`,
		"breaker.closed.x":             `event "breaker.closed.x": but for dots and underscores the prefix is Forge's own, breaker_closed`,
		"path.gate":                    `event "path.gate": but for dots and underscores the prefix is Forge's own, path_gate`,
		"path.gate.denied":             `event "path.gate.denied": but for dots and underscores the prefix is Forge's own, path_gate`,
		"audit__x.y":                   `event "audit__x.y": but for dots and underscores the prefix is Forge's own, audit`,
		"breaker.x":                    "",
		"breaker_open2.x":              "",
		"path.gates":                   "",
		"tools.x":                      "",
	} {
		err := CheckForeign(ev)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %s", ev, err)
		case want != "" && (err == nil || err.Error() != want || fail.KindOf(err) != fail.BadInput):
			t.Errorf("%q: %v, want %s", ev, err, want)
		}
	}
}

// Only a record of ours is one: its event stands at a fixed place, which
// nothing a caller says can take.
func TestTornOf(t *testing.T) {
	st, tr := fresh(t)
	add(t, New(st, Who{Persona: "p", Session: "s"}), Record{Event: "x.test", Details: map[string]any{
		"a": `","ev":"audit.torn"`, "at": 0, "len": 1, "sha256": "x",
	}})
	add(t, tr, Record{Event: TornEvent, Details: chain.Torn{At: 7, Len: 3, SHA256: "s"}})
	for i, raw := range split(read(t, st))[:3] {
		l, reason := chain.Parse(raw)
		if reason != "" {
			t.Fatal(reason)
		}
		got, ok := TornOf(l.Payload)
		if ok != (i == 2) || ok && got != (chain.Torn{At: 7, Len: 3, SHA256: "s"}) {
			t.Errorf("%s: %+v %v", raw, got, ok)
		}
	}
	// And a record that names a fragment which is not there is no record.
	if v := verdict(t, st); v != "tampered frame 3" {
		t.Error(v)
	}
}

// A begin without an end is running while it may be, and unfinished after that.
func TestUnfinished(t *testing.T) {
	st, tr := fresh(t)
	longest := time.Duration(tool.MaxLimits.WallS)*time.Second + time.Minute
	for _, c := range []struct {
		run  string
		ends Event
		age  time.Duration
	}{
		{"old", "", longest + time.Second},
		{"young", "", longest - time.Second},
		{"called", Called, longest + time.Second},
		{"refused", Refused, longest + time.Second},
		{"now", "", 0},
	} {
		st.Now = func() time.Time { return start.Add(-c.age) }
		add(t, tr, Record{Event: CallBegin, Run: c.run})
		if c.ends != "" {
			add(t, tr, Record{Event: c.ends, Run: c.run})
		}
	}
	add(t, tr, Record{Event: Called, Run: "hit"}) // a cached answer has no begin
	st.Now = func() time.Time { return start }
	r, err := Verify(st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal([]any{r.Verdict, r.Unfinished, r.Running})
	if string(got) != `["intact",[2],[3,8]]` {
		t.Errorf("%s", got)
	}
	if r.Err() != nil {
		t.Errorf("%v", r.Err())
	}
}

func TestReport(t *testing.T) {
	st, _ := lines(t, 10)
	r, err := Verify(st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.MS, r.Head.Sha = 0, "sha"
	got, _ := json.Marshal(r)
	size := len(read(t, st))
	want := `{"verdict":"intact","resumes":false,"head":{"seq":10,"sha":"sha","segment":1,"end":` + itoa(size) + `},"entries":10,"bytes":` + itoa(size) +
		`,"unfinished":[],"running":[],"trust":[],"warnings":["truncation and whole rewrite not checked (no checkpoint)"],"ms":0}`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	l := split(read(t, st))
	write(t, st, []byte(strings.Replace(string(read(t, st)), `"n":5`, `"n":6`, 1)))
	if r, err = Verify(st, Options{}); err != nil {
		t.Fatal(err)
	}
	offset := len(l[0]) + len(l[1]) + len(l[2]) + len(l[3])
	e := fail.Of(r.Err())
	if e.Kind != fail.Tampered || e.Message != "audit-000001.jsonl:5: content: sha does not match payload and prev (seq 5, offset "+itoa(offset)+")" || !r.Resumes {
		t.Errorf("%+v resumes %v", e, r.Resumes)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func TestNoTrail(t *testing.T) {
	st, _ := fresh(t)
	_, err := Verify(st, Options{})
	if fail.KindOf(err) != fail.NotFound {
		t.Errorf("%v", err)
	}
	if err := Walk(context.Background(), st, false, nil); fail.KindOf(err) != fail.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(st.Root); err == nil {
		t.Error("reading made the store")
	}
}

func TestWalk(t *testing.T) {
	st, tr := lines(t, 20)
	ctx := context.Background()
	stop := errors.New("enough")
	n := 0
	err := Walk(ctx, st, false, func(_ []byte, at chain.Place) error {
		if n++; n == 5 {
			return stop
		}
		if at.Seq != uint64(n) || at.Line != int64(n) {
			t.Errorf("%+v, want %d", at, n)
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 5 {
		t.Errorf("%v after %d", err, n)
	}

	// A torn tail is not shown, nor is it an error.
	write(t, st, append(read(t, st), `{"payload":{"seq":21`...))
	if got := payloads(t, st); len(got) != 20 {
		t.Errorf("%d records", len(got))
	}
	add(t, tr, Record{Event: "x.next"})
	if got := payloads(t, st); len(got) != 22 {
		t.Errorf("%d records", len(got))
	}

	// What stands before the break is shown, then it ends.
	write(t, st, []byte(strings.Replace(string(read(t, st)), `"n":7`, `"n":8`, 1)))
	n = 0
	err = Walk(ctx, st, false, func([]byte, chain.Place) error { n++; return nil })
	if fail.KindOf(err) != fail.Tampered || err.Error() != "audit-000001.jsonl:7: content: sha does not match payload and prev" || n != 6 {
		t.Errorf("%v after %d", err, n)
	}
}

func TestFollow(t *testing.T) {
	st, tr := lines(t, 3)
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan uint64, 100)
	done := make(chan error, 1)
	go func() {
		done <- Walk(ctx, st, true, func(_ []byte, at chain.Place) error { seen <- at.Seq; return nil })
	}()
	next := func(want uint64) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Fatalf("record %d, want %d", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("record %d does not come", want)
		}
	}
	for i := range uint64(3) {
		next(i + 1)
	}
	for i := range uint64(5) {
		add(t, tr, Record{Event: "x.more"})
		next(i + 4)
	}
	// A line that is half there is waited for.
	f, err := os.OpenFile(st.Segment(1), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	last, _ := chain.Parse(split(read(t, st))[7])
	line, _ := chain.AppendLine(nil, []byte(`{"seq":9,"ts":"t","ev":"x.slow"}`), last.Sha)
	f.Write(line[:50])
	select {
	case got := <-seen:
		t.Fatalf("record %d is half there", got)
	case <-time.After(2 * followEvery):
	}
	f.Write(line[50:])
	next(9)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
