package cmdline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"forge/lib/fail"
	"forge/lib/trail"
	"forge/lib/wire"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"plain é 日本 😀 \"quoted\"":   "plain é 日本 😀 \"quoted\"",
		"a\nb\tc\r":                 `a\x0ab\x09c\x0d`,
		"\x1b[2J\x1b]0;title\x07":   `\x1b[2J\x1b]0;title\x07`,
		"\x00":                      `\x00`,
		"\x7f":                      `\x7f`,
		"\u0080\u009b31m\u009f":     `\x80\x9b31m\x9f`,
		"\u00a0":                    "\u00a0",
		"\u202eevil\u202c":          `\u202eevil\u202c`,
		"\u2066x\u2069":             `\u2066x\u2069`,
		"\u200e\u200f\u2028\u2029":  `\u200e\u200f\u2028\u2029`,
		`\x1b`:                      `\x1b`,
		strings.Repeat("\x1b", 100): strings.Repeat(`\x1b`, 100),
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	// The characters that a reader does not see.
	for _, r := range []rune{0xad, 0x61c, 0x180e, 0x200b, 0x200c, 0x200d, 0x2060, 0x2064, 0x206f, 0x3164, 0xfeff, 0xfff9, 0xe0000, 0xe0001, 0xe0041, 0xe007f} {
		want := fmt.Sprintf(`a\u%04xb`, r)
		switch {
		case r < 0x100:
			want = fmt.Sprintf(`a\x%02xb`, r)
		case r > 0xffff:
			want = fmt.Sprintf(`a\U%08xb`, r)
		}
		if got := Printable("a" + string(r) + "b"); got != want {
			t.Errorf("U+%04X: %s, want %s", r, got, want)
		}
	}
	// Bytes that are no text come out as text: 0x9b alone is an escape to some
	// terminals.
	if got := Printable("\xff\x9b31m\x1b\xfeé\ufffd"); got != `\xff\x9b31m\x1b\xfeé`+"\ufffd" {
		t.Errorf("%q", got)
	}
}

// What JSON says is the same after its text was escaped.
func TestPrintableJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"é\u001b"}`:                  `{"a":"é\u001b"}`,
		"{\n  \"a\": 1\n}":                 "{\n  \"a\": 1\n}",
		"\"\u009b\u007f\u202e\U000e0041\"": `"\u009b\u007f\u202e\udb40\udc41"`,
		"\"\x1b\x07\r\"":                   `"\u001b\u0007\u000d"`,
		"\"\x9b\"":                         `"\ufffd"`,
	} {
		got := PrintableJSON(in)
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		v, err := wire.Parse([]byte(in), wire.Request)
		if w, werr := wire.Parse([]byte(got), wire.Request); err == nil && (werr != nil || v.String() != w.String()) {
			t.Errorf("%q: %s %v, want %s", in, w, werr, v)
		}
	}
}

func TestIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "A1": true, "0": true, "a-b_c": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "-a": false, "_a": false, "a b": false, "a/b": false, "..": false, "a.b": false,
		"é": false, "а": false, "a\n": false, "a\x00": false,
	} {
		if got := isID(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

// opened runs a command with these arguments and the flags of all, and hands what
// Open gives to see. The environment is these variables and no others of Forge.
func opened(t *testing.T, env map[string]string, args []string, see func(*Caller, error)) {
	t.Helper()
	t.Chdir(t.TempDir()) // where there is no project
	for _, name := range []string{"HOME", "FORGE_HOME", "FORGE_PERSONA", "FORGE_SESSION", "FORGE_TASK", "FORGE_ALLOWED_TOOLS"} {
		if v, ok := env[name]; ok {
			t.Setenv(name, v)
		} else {
			t.Setenv(name, "") // so that it is put back
			os.Unsetenv(name)
		}
	}
	ran := false
	cmd := &cli.Command{
		Name: "x", Flags: Flags(), Writer: io.Discard, ErrWriter: io.Discard,
		Action: func(_ context.Context, c *cli.Command) error {
			ran = true
			see(Open(c))
			return nil
		},
	}
	prepare(cmd)
	if err := cmd.Run(context.Background(), append([]string{"x"}, args...)); err != nil || !ran {
		t.Fatalf("%v: %v", args, err)
	}
}

func TestOpen(t *testing.T) {
	home := t.TempDir()
	store := filepath.Join(home, "store")
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want string // root persona session scopes allowed, or an error
	}{
		"nothing but HOME":  {map[string]string{"HOME": home}, nil, home + "/.forge   user <nil>"},
		"FORGE_HOME":        {map[string]string{"HOME": home, "FORGE_HOME": store}, nil, store + "   user <nil>"},
		"without HOME":      {map[string]string{"FORGE_HOME": store}, nil, store + "   user <nil>"},
		"--home wins":       {map[string]string{"FORGE_HOME": "relative"}, []string{"--home", store}, store + "   user <nil>"},
		"all by variable":   {map[string]string{"FORGE_HOME": store, "FORGE_PERSONA": "p", "FORGE_SESSION": "s", "FORGE_TASK": "k"}, nil, store + " p s task,session,user <nil>"},
		"all by flag":       {map[string]string{"FORGE_HOME": "/x", "FORGE_PERSONA": "P", "FORGE_SESSION": "S"}, []string{"--home", store, "--persona", "p", "--session=s", "--task", "k"}, store + " p s task,session,user <nil>"},
		"empty is unset":    {map[string]string{"FORGE_HOME": store, "FORGE_PERSONA": "", "FORGE_SESSION": "", "FORGE_TASK": ""}, nil, store + "   user <nil>"},
		"an empty flag":     {map[string]string{"FORGE_HOME": store, "FORGE_PERSONA": "p", "FORGE_SESSION": "s"}, []string{"--persona", "", "--session", ""}, store + "   user <nil>"},
		"allowed":           {map[string]string{"FORGE_HOME": store, "FORGE_ALLOWED_TOOLS": " a,b.*\tc\n, "}, nil, store + "   user [a b.* c]"},
		"allowed, empty":    {map[string]string{"FORGE_HOME": store, "FORGE_ALLOWED_TOOLS": ""}, nil, store + "   user []"},
		"allowed by flag":   {map[string]string{"FORGE_HOME": store, "FORGE_ALLOWED_TOOLS": "a"}, []string{"--allowed-tools", "b,c"}, store + "   user [b c]"},
		"none by flag":      {map[string]string{"FORGE_HOME": store, "FORGE_ALLOWED_TOOLS": "a"}, []string{"--allowed-tools="}, store + "   user []"},
		"no HOME":           {nil, nil, `usage: store: HOME is "" [set HOME or FORGE_HOME to an absolute path]`},
		"a relative HOME":   {map[string]string{"HOME": "x"}, nil, `usage: store: HOME is "x" [set HOME or FORGE_HOME to an absolute path]`},
		"a relative store":  {map[string]string{"HOME": home, "FORGE_HOME": "x"}, nil, `usage: store "x": not an absolute path [write an absolute path]`},
		"a persona of none": {map[string]string{"FORGE_HOME": store, "FORGE_PERSONA": "a b"}, nil, `usage: persona "a b" is not a name [use at most 64 letters, digits, - and _, the first a letter or digit]`},
		"a session of none": {map[string]string{"FORGE_HOME": store, "FORGE_SESSION": "../s"}, nil, `usage: session "../s" is not a name [use at most 64 letters, digits, - and _, the first a letter or digit]`},
		"a task of none":    {map[string]string{"FORGE_HOME": store, "FORGE_SESSION": "s"}, []string{"--task", "."}, `usage: task "." is not a name [use at most 64 letters, digits, - and _, the first a letter or digit]`},
		"task alone":        {map[string]string{"FORGE_HOME": store, "FORGE_TASK": "k"}, nil, `usage: task "k" without a session [set FORGE_SESSION too]`},
		"not a directory":   {map[string]string{"FORGE_HOME": "/dev/null"}, nil, `io_error: store "/dev/null": not a directory [set FORGE_HOME to a directory]`},
	} {
		t.Run(name, func(t *testing.T) {
			opened(t, c.env, c.args, func(k *Caller, err error) {
				if err != nil {
					e := fail.Of(err)
					if got := string(e.Kind) + ": " + e.Message + " [" + e.Hint + "]"; got != c.want {
						t.Errorf("%s\nwant %s", got, c.want)
					}
					return
				}
				var scopes []string
				for _, p := range k.Registry.Places {
					scopes = append(scopes, string(p.Scope))
				}
				allowed := "<nil>"
				if k.Allowed != nil {
					allowed = "[" + strings.Join(k.Allowed, " ") + "]"
				}
				if got := strings.Join([]string{k.Store.Root, k.Persona, k.Session, strings.Join(scopes, ","), allowed}, " "); got != c.want {
					t.Errorf("%s\nwant %s", got, c.want)
				}
				if string(k.DefaultScope()) != scopes[0] {
					t.Errorf("default scope %s", k.DefaultScope())
				}
			})
		})
	}
}

// What a sibling gets is what this command was told, flags over variables.
func TestEnviron(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	env := map[string]string{"FORGE_HOME": "/x", "FORGE_PERSONA": "P", "FORGE_ALLOWED_TOOLS": "a"}
	opened(t, env, []string{"--home", store, "--persona", "p", "--session", "s", "--task", "k", "--allowed-tools", "b, c"}, func(k *Caller, err error) {
		if err != nil {
			t.Fatal(err)
		}
		last := map[string]string{}
		for _, e := range k.Environ() {
			name, value, _ := strings.Cut(e, "=")
			last[name] = value // exec takes the last
		}
		for name, want := range map[string]string{
			"FORGE_HOME": store, "FORGE_PERSONA": "p", "FORGE_SESSION": "s", "FORGE_TASK": "k", "FORGE_ALLOWED_TOOLS": "b,c",
		} {
			if last[name] != want {
				t.Errorf("%s=%s, want %s", name, last[name], want)
			}
		}
	})
}

// A refusal is recorded with what was asked for; usage is not; and a refusal
// that cannot be recorded refuses all the same.
func TestRefuse(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	opened(t, map[string]string{"FORGE_HOME": store, "FORGE_PERSONA": "p"}, nil, func(k *Caller, err error) {
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // a signal does not keep the record from the trail
		if err := k.Refuse(ctx, "call", trail.Record{}, nil); err != nil {
			t.Error(err)
		}
		for _, refused := range []error{fail.New(fail.Usage, "", "no"), context.Canceled} {
			if got := k.Refuse(ctx, "call", trail.Record{}, refused); got != refused {
				t.Errorf("%v", got)
			}
		}
		if _, err := os.Lstat(store); err == nil {
			t.Error("usage was recorded")
		}
		refused := fail.New(fail.PersonaDenied, "", "no")
		if got := k.Refuse(ctx, "call", trail.Record{Tool: "t"}, refused); got != refused {
			t.Errorf("%v", got)
		}
		b, err := os.ReadFile(k.Store.Segment(1))
		if err != nil || !bytes.Contains(b, []byte(`"ev":"acl.persona_denied","sev":"warning","persona":"p","tool":"t",`)) ||
			!bytes.Contains(b, []byte(`"details":{"action":"call","kind":"persona_denied"}`)) {
			t.Errorf("%s %v", b, err)
		}
		os.WriteFile(k.Store.AuditFile("FAILED"), nil, 0o600)
		if got := k.Refuse(ctx, "call", trail.Record{}, refused); got != refused {
			t.Errorf("%v", got)
		}
	})
}

// The policy is the built-in one until there is a file, and never a guess.
func TestPolicy(t *testing.T) {
	store := t.TempDir()
	os.Chmod(store, 0o700)
	path := filepath.Join(store, "policy.json")
	opened(t, map[string]string{"FORGE_HOME": store}, nil, func(k *Caller, err error) {
		if err != nil {
			t.Fatal(err)
		}
		ask := func() string {
			p, err := k.Policy()
			if err != nil {
				return string(fail.KindOf(err))
			}
			v, _ := wire.Of(p.Breakers.PerToolRPM)
			return v.String()
		}
		for _, c := range []struct {
			change func() error
			want   string
		}{
			{func() error { return nil }, "30"},
			{func() error { return os.WriteFile(path, []byte(`{"breakers":{"per_tool_rpm":7}}`), 0o600) }, "7"},
			{func() error { return os.WriteFile(path, nil, 0o600) }, "policy_malformed"},
			{func() error { return errors.Join(os.Rename(path, path+".x"), os.Symlink(path+".x", path)) }, "io_error"},
			{func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "io_error"},
			{func() error { return os.Remove(path) }, "30"},
		} {
			if err := c.change(); err != nil {
				t.Fatal(err)
			}
			if got := ask(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		}
	})
}

// The flags of every command behave: no help command takes a name away, commas
// split nothing, and a wrong flag is an error of kind usage with the synopsis.
func TestPrepare(t *testing.T) {
	var got []string
	cmd := &cli.Command{
		Name: "x", ArgsUsage: "NAME", Writer: io.Discard, ErrWriter: io.Discard,
		Flags: []cli.Flag{&cli.StringSliceFlag{Name: "env"}, &cli.IntFlag{Name: "times"}, &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}}, &cli.IntFlag{Name: "lines", Aliases: []string{"n"}}},
		Action: func(_ context.Context, c *cli.Command) error {
			got = append(c.StringSlice("env"), c.Args().Slice()...)
			return nil
		},
	}
	prepare(cmd)
	if err := cmd.Run(context.Background(), []string{"x", "--env", "A=1,2", "help"}); err != nil || strings.Join(got, " ") != "A=1,2 help" {
		t.Errorf("%q %v", got, err)
	}
	for arg, want := range map[string]string{
		"--nonsense": "unknown option --nonsense",
		"--evn=A=1":  "unknown option --evn, nearest: --env",
		"-z":         "unknown option -z",
		"--times=1m": `--times "1m": not a value of that option`,
		"--yes=\x1b": `--yes "\x1b": not a value of that option`,
		"-n12":       "unknown option -n12: write -n 12",
		"-n-1":       "unknown option -n-1: write -n -1",
		"-y1":        "unknown option --y1, nearest: -y",
		"-nx":        "unknown option --nx, nearest: -n",
		"--env":      "flag needs an argument: --env",
	} {
		e := fail.Of(cmd.Run(context.Background(), []string{"x", arg}))
		if e.Kind != fail.Usage || e.Message != want || e.Hint != "x [options] NAME; x --help tells more" {
			t.Errorf("%s: %+v", arg, e)
		}
	}
	var out bytes.Buffer
	many := &cli.Command{Name: "y", Writer: &out, ErrWriter: io.Discard, Commands: []*cli.Command{{Name: "one", Usage: "do one"}, {Name: "two", Action: func(context.Context, *cli.Command) error { return Exit(4) }}}}
	prepare(many)
	for args, want := range map[string]string{
		"": "which command?", "three": `unknown command "three"`, "help three": `unknown command "three"`,
		"--json": "unknown option --json: options follow the command, as in y one --json",
		"--hlep": "unknown option --hlep, nearest: --help",
	} {
		e := fail.Of(many.Run(context.Background(), append([]string{"y"}, strings.Fields(args)...)))
		if e.Kind != fail.Usage || e.Message != want || !strings.Contains(e.Hint, "one|two") || out.Len() > 0 {
			t.Errorf("%q: %+v %s", args, e, out.Bytes())
		}
	}
	if err := many.Run(context.Background(), []string{"y", "two"}); !errors.Is(err, Exit(4)) {
		t.Errorf("%v", err)
	}
	// Where no tool's name may stand, help is what it says.
	for _, pair := range [][2]string{{"help", "--help"}, {"help one", "one --help"}} {
		var got [2]string
		for i, args := range pair {
			out.Reset()
			if err := many.Run(context.Background(), append([]string{"y"}, strings.Fields(args)...)); err != nil {
				t.Errorf("%s: %v", args, err)
			}
			got[i] = out.String()
		}
		if got[0] != got[1] || got[0] == "" {
			t.Errorf("%s: %q, and %s: %q", pair[0], got[0], pair[1], got[1])
		}
	}
}

func TestSibling(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path, err := Sibling(filepath.Base(self))
	if real, _ := filepath.EvalSymlinks(self); err != nil || path != real {
		t.Errorf("%s %v", path, err)
	}
	_, err = Sibling("forge-nothing")
	if e := fail.Of(err); e.Kind != fail.Internal || e.Details["missing"] != "forge-nothing" || e.Hint != "install all commands of Forge in one directory" {
		t.Errorf("%+v", e)
	}
}
