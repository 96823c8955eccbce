package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse holds parse and cut against encoding/json: what one of them takes
// for a message, the other does, with the same parts.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		initFrame, readyFrame, ping("1"), ping(`"\u0041\ud800"`), callFrame("1.5e3", "a.b", `{"a":[{"b":"]}\"\\"},[],{}],"c":-0.1e+5}`),
		`{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "x" , "params" : { } }`, `{"\u0069d":1,"id":2}`, `[]`, `7`, `{}`, `{"a":true,"b":null}`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.Trim(line, " \t\r\n")
		if len(line) == 0 {
			return
		}
		m, e := parse(line)
		var want map[string]json.RawMessage
		err := json.Unmarshal(line, &want)
		if e == nil && (err != nil || !utf8.Valid(line)) {
			t.Fatalf("taken: %q: %v", line, err)
		}
		if e != nil {
			if e.code == codeParse && err == nil && utf8.Valid(line) {
				t.Fatalf("refused: %q: %s", line, e.message)
			}
			return
		}
		if m.id == nil && m.params == nil {
			delete(want, "params") // of a notification, if it was no object
		}
		if !bytes.Equal(m.id, want["id"]) || !bytes.Equal(m.params, want["params"]) {
			t.Fatalf("%q: id %q, params %q", line, m.id, m.params)
		}
		if m.id != nil {
			// An id echoes as it came, within one line.
			if bytes.ContainsAny(m.id, "\n\r") || !json.Valid(m.id) {
				t.Fatalf("id %q", m.id)
			}
		}
	})
}

// FuzzFrames splits as strings.Split would, whatever the reads are cut into,
// and comes to the end.
func FuzzFrames(f *testing.F) {
	f.Add("a\nb\r\n\n \ufeffc", 1)
	f.Add(strings.Repeat("x", 200)+"\ny", 7)
	f.Add("\ufeff\n\n", 3)
	f.Fuzz(func(t *testing.T, in string, size int) {
		const limit = 100
		var want []string
		for _, l := range strings.Split(in, "\n") {
			if len(l) > limit {
				want = append(want, "too long")
				continue
			}
			if l = strings.Trim(strings.TrimPrefix(l, "\ufeff"), " \t\r\n"); l != "" {
				want = append(want, l)
			}
		}
		r := newFrames(&chunks{in, max(1, size%50)}, limit)
		var got []string
		for {
			line, err := r.next()
			if err == io.EOF {
				break
			}
			if err == errTooLong {
				got = append(got, "too long")
			} else if err != nil {
				t.Fatal(err)
			} else {
				got = append(got, string(line))
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	})
}

// A chunks hands out s in pieces.
type chunks struct {
	s    string
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.s == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(c.size, len(p))], c.s)
	c.s = c.s[n:]
	return n, nil
}
