package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"forge/lib/chain"
	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/tool"
	"forge/lib/trail"
	"forge/lib/wire"
)

func tailFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with those that come"},
		&cli.IntFlag{Name: "lines", Aliases: []string{"n"}, Value: 10, Usage: "how many `RECORDS`, of those that the filters let through"},
		&cli.UintFlag{Name: "from", Usage: "print from the record numbered `SEQ` on instead"},
		&cli.BoolFlag{Name: "jsonl", Usage: "print one JSON object a line, on a terminal too"},
		&cli.StringFlag{Name: "event", Usage: "only events that `GLOB` fits, such as forge.* or breaker_*"},
		&cli.StringFlag{Name: "tool", Usage: "only records of tools that `GLOB` fits"},
		&cli.StringFlag{Name: "run", Usage: "only records of one run, by its `ID`"},
		&cli.StringFlag{Name: "since", Usage: "only records from `TIME` on: 2026-11-30, 2026-11-30T19:15:00Z, or 2h ago as 2h"},
		&cli.StringFlag{Name: "until", Usage: "only records before `TIME`"},
	}
}

// tail prints records as they are verified: JSON lines in a pipe, a line for
// people on a terminal. The last few are kept until the end of what is there
// now; what comes later is printed as it comes.
func tail(ctx context.Context, c *cli.Command) error {
	n, from := c.Int("lines"), uint64(c.Uint("from"))
	if n < 0 {
		return cmdline.Usage(c, "lines %d is below 0", n)
	}
	k, err := cmdline.OpenTrail(c)
	if err != nil {
		return err
	}
	wanted, err := newFilter(c, k.Store.Now())
	if err != nil {
		return err
	}
	pretty := cmdline.IsTerminal(os.Stdout) && !c.Bool("jsonl")
	show := func(payload []byte) error {
		if pretty {
			return cmdline.PrintText(forPeople(payload))
		}
		return cmdline.PrintLine(payload)
	}
	var last [][]byte
	present := uint64(0) // the last record there is now
	walk := func(follow bool, visit func(seq uint64, payload []byte) error) error {
		return trail.Walk(ctx, k.Store, follow, func(payload []byte, at chain.Place) error {
			present = max(present, at.Seq)
			if at.Seq < from || !wanted.fits(payload) {
				return nil
			}
			return visit(at.Seq, payload)
		})
	}
	if from == 0 {
		err = walk(false, func(_ uint64, payload []byte) error {
			if last = append(last, payload); len(last) > n {
				last = last[1:]
			}
			return nil
		})
		for _, payload := range last {
			if perr := show(payload); perr != nil {
				return perr
			}
		}
		if err != nil || !c.Bool("follow") {
			return err
		}
		from = present + 1
	}
	err = walk(c.Bool("follow"), func(_ uint64, payload []byte) error { return show(payload) })
	if ctx.Err() != nil {
		return nil // the signal that ended it ends us
	}
	return err
}

// filter holds records to what the flags ask for; empty members ask nothing.
type filter struct {
	event, tool, run, persona, session string
	since, until                       string // in the form of a record's ts
}

func newFilter(c *cli.Command, now time.Time) (*filter, error) {
	f := &filter{event: c.String("event"), tool: c.String("tool"), run: c.String("run")}
	if _, err := path.Match(f.event, ""); err != nil {
		return nil, fail.New(fail.Usage, "write a glob such as forge.* or breaker_*", "event %q: %w", f.event, err)
	}
	// Nothing is recorded here, so these two ask whose records to show; what the
	// environment says of the caller does not.
	cmdline.Override(c, "persona", &f.persona)
	cmdline.Override(c, "session", &f.session)
	for _, t := range []struct {
		flag string
		to   *string
	}{{"since", &f.since}, {"until", &f.until}} {
		text := c.String(t.flag)
		if text == "" {
			continue
		}
		when, err := parseTime(text, now)
		if err != nil {
			return nil, fail.New(fail.Usage, "write 2026-11-30, 2026-11-30T19:15:00Z or 2h", "%s %q is no time", t.flag, text)
		}
		*t.to = when.UTC().Format(trail.TimeForm)
	}
	return f, nil
}

func parseTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d.Abs()), nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}

func (f *filter) fits(payload []byte) bool {
	if *f == (filter{}) {
		return true
	}
	r, err := parseRecord(payload)
	if err != nil {
		return false
	}
	is := func(want, got string) bool { return want == "" || want == got }
	// An event is no tool's name: its dots and underscores are not the same.
	event, _ := path.Match(f.event, r.Event)
	return (f.event == "" || event) && (f.tool == "" || r.Tool != "" && tool.Name(r.Tool).Match(f.tool)) &&
		is(f.run, r.Run) && is(f.persona, r.Persona) && is(f.session, r.Session) &&
		(f.since == "" || r.TS >= f.since) && (f.until == "" || r.TS < f.until)
}

// record is what people are shown, and what the filters look at.
type record struct {
	Seq     int64      `json:"seq"`
	TS      string     `json:"ts"`
	Event   string     `json:"ev"`
	Sev     string     `json:"sev"`
	Persona string     `json:"persona"`
	Session string     `json:"session"`
	Tool    string     `json:"tool"`
	Run     string     `json:"run"`
	Details wire.Value `json:"details"`
}

func parseRecord(payload []byte) (r record, err error) {
	v, err := wire.Parse(payload, wire.File)
	if err == nil {
		err = wire.DecodeRecord(v, &r)
	}
	return r, err
}

// brief is a detail for people: a digest by its beginning.
func brief(v wire.Value) string {
	if v.Type() != wire.String {
		return v.String()
	}
	if s := v.Text(); len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" {
		return s[:12] + "…"
	}
	return word(v.Text())
}

// word is s as one word of a line, quoted as JSON where it could be read as
// another one or as several.
func word(s string) string {
	plain := func(r rune) bool {
		return unicode.IsPrint(r) && r != utf8.RuneError && !strings.ContainsRune(" \"\\=\u2800", r)
	}
	if s != "" && cmdline.Printable(s) == s && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	b, _ := wire.Encode(s)
	return string(b)
}

// forPeople is one record on one line, with what a terminal would act on
// escaped. Whatever it says, each part of it can be told from the others.
func forPeople(payload []byte) string {
	r, err := parseRecord(payload)
	if err != nil {
		return cmdline.PrintableJSON(string(payload)) + "\n"
	}
	when, _, _ := strings.Cut(r.TS, ".")
	line := fmt.Sprintf("%6d %s %-8s %-18s", r.Seq, word(when), word(r.Sev), word(r.Event))
	for _, w := range []string{r.Tool, r.Persona, r.Run} {
		if w != "" {
			line += " " + word(w)
		}
	}
	for _, m := range r.Details.Members() {
		line += " " + word(m.Name) + "=" + brief(m.Value)
	}
	return cmdline.PrintableJSON(line) + "\n"
}
