package cmdline

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/sys/unix"

	"forge/lib/fail"
	"forge/lib/policy"
	"forge/lib/registry"
	"forge/lib/store"
	"forge/lib/tool"
	"forge/lib/trail"
	"forge/lib/wire"
)

// Flags returns the flags of every command that touches the store, after those
// of its own. Each wins over the variable that its usage names.
func Flags(own ...cli.Flag) []cli.Flag {
	return append(own,
		&cli.StringFlag{Name: "home", Usage: "the store, an absolute `DIR` (FORGE_HOME, else ~/.forge)"},
		&cli.StringFlag{Name: "persona", Usage: "who calls, as the operator names it (FORGE_PERSONA)"},
		&cli.StringFlag{Name: "session", Usage: "the session whose tools are visible (FORGE_SESSION)"},
		&cli.StringFlag{Name: "task", Usage: "the task of that session (FORGE_TASK)"},
		&cli.StringFlag{Name: "allowed-tools", Usage: "`GLOBS` of the tools that may be called (FORGE_ALLOWED_TOOLS)"},
	)
}

// ScopeFlag names one scope.
func ScopeFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "scope", Usage: usage + " (`SCOPE`: task, session, project, user)"}
}

// RequestFlag and DescribeFlag are those of the commands that MCP offers.
func RequestFlag() cli.Flag {
	return &cli.BoolFlag{Name: "request", Usage: "take the arguments as one JSON object on standard input"}
}

// DescribeFlag is the flag that forge-mcp learns the command from.
func DescribeFlag() cli.Flag {
	return &cli.BoolFlag{Name: "describe", Usage: "print what forge-mcp offers of this command"}
}

// Caller is who started a command, from where, and the store it works on.
type Caller struct {
	Store    *store.Store
	Persona  string   // "" for a person at a terminal
	Session  string   // "" for none
	Allowed  []string // globs; nil: every tool
	Dir      string   // the working directory, without links
	Registry *registry.Registry
	Trail    *trail.Trail

	c     *cli.Command
	where store.Where
}

// isID holds s to ^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$: it becomes a file name.
func isID(s string) bool {
	const alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	return len(s) > 0 && len(s) <= 64 && strings.Trim(s[:1], alnum) == "" && strings.Trim(s, alnum+"-_") == ""
}

// Open reads the flags and the environment and opens the store and the scopes
// that are visible. Errors: usage, io_error, config_malformed.
func Open(c *cli.Command) (*Caller, error) {
	k, err := OpenTrail(c)
	if k != nil {
		places, ignored := k.Store.Places(k.where)
		if ignored != nil {
			Warn(c, "the project is not seen: %s (%s)", ignored, fail.Of(ignored).Hint)
		}
		k.Registry = registry.New(k.Store, places)
	}
	return k, err
}

// OpenTrail is Open for who needs no tools: there is no Registry, and no word of
// a project that is not seen. Cron hears from it only what concerns the trail.
func OpenTrail(c *cli.Command) (*Caller, error) {
	k := &Caller{c: c}
	task := ""
	for _, id := range []struct {
		flag, env string
		to        *string
	}{
		{"persona", "FORGE_PERSONA", &k.Persona},
		{"session", "FORGE_SESSION", &k.Session},
		{"task", "FORGE_TASK", &task},
	} {
		*id.to = setting(c, id.flag, id.env)
		if *id.to != "" && !isID(*id.to) {
			return nil, fail.New(fail.Usage, "use at most 64 letters, digits, - and _, the first a letter or digit", "%s %q is not a name", id.flag, *id.to)
		}
	}
	if task != "" && k.Session == "" {
		return nil, fail.New(fail.Usage, "set FORGE_SESSION too", "task %q without a session", task)
	}
	k.Allowed = allowed(c)
	// The kernel's name for it: $PWD may lead through links, and a path with a
	// link is not bound.
	dir, err := unix.Getwd()
	if err != nil || !filepath.IsAbs(dir) {
		return nil, fail.New(fail.IOError, "cd somewhere that exists", "the working directory is gone")
	}
	k.Dir = dir
	home, err := Home(c)
	if err != nil {
		return nil, err
	}
	if k.Store, err = store.Open(home); err != nil {
		return nil, err
	}
	k.where = store.Where{Session: k.Session, Task: task, Dir: k.Dir, Home: os.Getenv("HOME")}
	k.Trail = trail.New(k.Store, trail.Who{Persona: k.Persona, Session: k.Session})
	return k, k.configure()
}

// configure applies the operator's preferences. Errors: config_malformed.
func (k *Caller) configure() error {
	b, err := store.ReadOwn(k.Store.Config(), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := tool.ParseConfig(b)
	if c.SegmentMB > 0 {
		k.Trail.SegmentBytes = c.SegmentMB << 20
	}
	return err
}

func setting(c *cli.Command, flag, env string) string {
	if c.IsSet(flag) {
		return c.String(flag)
	}
	return os.Getenv(env)
}

// Home returns the store's directory: --home, FORGE_HOME, else ~/.forge.
func Home(c *cli.Command) (string, error) {
	if h := setting(c, "home", "FORGE_HOME"); h != "" {
		if !filepath.IsAbs(h) {
			return "", fail.New(fail.Usage, "write an absolute path", "store %q: not an absolute path", h)
		}
		return h, nil
	}
	h := os.Getenv("HOME")
	if !filepath.IsAbs(h) {
		return "", fail.New(fail.Usage, "set HOME or FORGE_HOME to an absolute path", "store: HOME is %q", h)
	}
	return filepath.Join(h, ".forge"), nil
}

// allowed reads the globs of the tools that may be called: nil where nothing is
// said, empty where nothing is allowed.
func allowed(c *cli.Command) []string {
	text, set := os.LookupEnv("FORGE_ALLOWED_TOOLS")
	if c.IsSet("allowed-tools") {
		text, set = c.String("allowed-tools"), true
	}
	if !set {
		return nil
	}
	return append([]string{}, strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })...)
}

// Policy returns the effective policy: the operator's over the built-in one.
// Errors: policy_malformed, io_error.
func (k *Caller) Policy() (*policy.Policy, error) {
	b, err := store.ReadOwn(k.Store.Policy(), wire.Request.Size)
	if errors.Is(err, fs.ErrNotExist) {
		p := policy.Default()
		return &p, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := policy.Parse(b)
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// DefaultScope is where a forge goes that names none: the narrowest there is.
func (k *Caller) DefaultScope() store.Scope { return k.Registry.Places[0].Scope }

// MakeProject makes the project's place and brings it into sight.
func (k *Caller) MakeProject() error {
	if _, err := k.Store.NewProject(k.where); err != nil {
		return err
	}
	places, _ := k.Store.Places(k.where)
	k.Registry = registry.New(k.Store, places)
	return nil
}

// ProjectToBe is the place that MakeProject would make.
func (k *Caller) ProjectToBe() (store.Place, error) { return k.Store.ProjectToBe(k.where) }

// Refuse puts a refusal on the trail and returns err, whatever becomes of the
// record: a refusal still refuses when it cannot be recorded. rec says what was
// asked for; its event and details are filled in.
func (k *Caller) Refuse(ctx context.Context, action string, rec trail.Record, err error) error {
	if err == nil {
		return nil
	}
	kind := fail.KindOf(err)
	if kind == fail.Usage || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, trail.ErrRefused) {
		Warn(k.c, "the refusal is not on the trail")
		return err
	}
	if rec.Event == "" {
		rec.Event = trail.RefusalOf(kind)
	}
	rec.Details = map[string]any{"action": action, "kind": kind}
	if _, terr := k.Trail.Append(context.WithoutCancel(ctx), rec); terr != nil {
		Warn(k.c, "the refusal is not on the trail: %s", terr)
	}
	return err
}

// Environ is the environment for a sibling that works for the same caller: the
// flags this command was given win over the variables it inherited.
func (k *Caller) Environ() []string {
	env := append(os.Environ(),
		"FORGE_HOME="+k.Store.Root, "FORGE_PERSONA="+k.Persona, "FORGE_SESSION="+k.Session, "FORGE_TASK="+k.where.Task)
	if k.Allowed != nil {
		env = append(env, "FORGE_ALLOWED_TOOLS="+strings.Join(k.Allowed, ","))
	}
	return env
}
