// Package cmdline is what every command shares of flags, streams, signals and
// exit status (DESIGN §3 and §4; forge(7), CONVENTIONS).
//
// A command prints one envelope on standard output and tells people on standard
// error. An Action that returns an error need not print it: Main does, with the
// kind's status. On SIGINT, SIGTERM or SIGHUP the context ends, the Action
// cleans up, and Main dies of the same signal.
package cmdline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/sys/unix"

	"forge/lib/fail"
	"forge/lib/sandbox"
	"forge/lib/wire"
)

// Exit is an error that was told already: Main ends with that status and
// prints nothing.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Main runs cmd on the process's arguments and ends the process.
func Main(cmd *cli.Command) {
	if err := sandbox.CloseOnExec(); err != nil {
		os.Exit(finish(cmd.Name, err))
	}
	debug.SetMaxStack(64 << 20)
	prepare(cmd)
	os.Exit(obey(func(ctx context.Context) int { return finish(cmd.Name, run(ctx, cmd)) }))
}

// grace is how long a command may take to clean up after a signal: a sandbox is
// stopped and its end recorded, or a lock of the trail is waited for.
const grace = 12 * time.Second

// idleGrace is how long one that only reads, or computes, is waited for.
const idleGrace = 200 * time.Millisecond

// obey runs the command, and dies of the first signal that asks it to: when the
// command has cleaned up, or has had its time to. A signal that was ignored when
// we started, as nohup and & in sh do, stays so.
func obey(command func(context.Context) int) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ch := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	done := make(chan int, 1)
	go func() { done <- command(ctx) }()
	var sig os.Signal
	select {
	case status := <-done:
		select {
		case sig = <-ch:
		default:
			return status
		}
	case sig = <-ch:
		cancel()
		wait := idleGrace
		if busy.Load() > 0 {
			wait = grace
		}
		select {
		case <-done:
		case <-time.After(wait):
		}
	}
	signal.Reset(sig)
	syscall.Kill(os.Getpid(), sig.(syscall.Signal))
	time.Sleep(time.Second)
	return 128 + int(sig.(syscall.Signal)) // not reached, unless the signal is blocked
}

// busy counts what must not be cut short.
var busy atomic.Int32

// Finish keeps a signal from ending the command before done is called, for up to
// the grace: what it has begun is brought to its end.
func Finish() (done func()) {
	busy.Add(1)
	return func() { busy.Add(-1) }
}

// run turns a panic into an error of kind internal.
func run(ctx context.Context, cmd *cli.Command) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fail.New(fail.Internal, "report it with what you typed", "panic: %v", p)
			os.Stderr.Write(debug.Stack())
		}
	}()
	return cmd.Run(ctx, os.Args)
}

// prepare sets what cli leaves to each command, for all of them: its own error
// handling ends the process, its usage errors print help on standard output,
// its help command takes a tool's name away, and it splits values at commas.
func prepare(cmd *cli.Command) {
	cmd.ExitErrHandler = func(context.Context, *cli.Command, error) {}
	cmd.Version = version()
	each(cmd, func(c *cli.Command) {
		c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error {
			return optionError(c, err)
		}
		c.HideHelpCommand = true
		c.DisableSliceFlagSeparator = true
		c.Suggest = false
		if len(c.Commands) > 0 && c.Action == nil {
			c.Action = func(_ context.Context, c *cli.Command) error {
				if c.Args().Present() {
					return Usage(c, "unknown command %q", c.Args().First())
				}
				return Usage(c, "which command?")
			}
		}
	})
}

func each(c *cli.Command, f func(*cli.Command)) {
	f(c)
	for _, sub := range c.Commands {
		each(sub, f)
	}
}

// Usage is a usage error of c, with its synopsis as the hint.
func Usage(c *cli.Command, format string, args ...any) error {
	return fail.New(fail.Usage, fmt.Sprintf("%s %s; %s --help tells more", c.FullName(), synopsis(c), c.FullName()), format, args...)
}

// optionError tells an error of the option parser in our words.
func optionError(c *cli.Command, err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: "); ok {
		var names []string
		for _, f := range c.VisibleFlags() {
			names = append(names, f.Names()...)
		}
		name = strings.TrimLeft(name, "-")
		if near := wire.Nearest(name, names); near != "" {
			return Usage(c, "unknown option --%s, nearest: --%s", name, near)
		}
		if len(c.Commands) > 0 {
			return Usage(c, "unknown option --%s: options follow the command, as in %s %s --%s", name, c.FullName(), c.Commands[0].Name, name)
		}
		return Usage(c, "unknown option %s%s", "--"[:min(2, len(name))], name)
	}
	// invalid value "1m" for flag -timeout: strconv.ParseInt: parsing "1m": invalid syntax
	if rest, ok := strings.CutPrefix(text, "invalid value "); ok {
		value, rest, _ := strings.Cut(rest, " for flag -")
		name, _, _ := strings.Cut(rest, ":")
		return Usage(c, "--%s %s: not a value of that option", name, value)
	}
	if rest, ok := strings.CutPrefix(text, "Required flag \""); ok {
		name, _, _ := strings.Cut(rest, "\"")
		return Usage(c, "--%s is missing", name)
	}
	return Usage(c, "%s", text)
}

func synopsis(c *cli.Command) string {
	var parts []string
	if len(c.VisibleFlags()) > 0 {
		parts = append(parts, "[options]")
	}
	if len(c.Commands) > 0 {
		var names []string
		for _, s := range c.Commands {
			names = append(names, s.Name)
		}
		parts = append(parts, strings.Join(names, "|"))
	}
	if c.ArgsUsage != "" {
		parts = append(parts, c.ArgsUsage)
	}
	return strings.Join(parts, " ")
}

// version comes from what go build recorded.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v == "(devel)" {
			v = s.Value
		}
	}
	return v
}

// finish prints err, if it was not told yet, and returns the exit status.
func finish(name string, err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[Exit](err); ok {
		return int(e)
	}
	e := fail.Of(err)
	Complain(name, e)
	if perr := Print(wire.Envelope{Error: e}); perr != nil {
		return fail.StatusOf(fail.IOError)
	}
	return fail.StatusOf(e.Kind)
}

// Complain tells people of a failure: the message, and the hint on a line of
// its own. Control characters are escaped, since a message may quote an input.
func Complain(name string, e *fail.Error) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, Printable(e.Message))
	if e.Hint != "" {
		fmt.Fprintf(os.Stderr, "%s: hint: %s\n", name, Printable(e.Hint))
	}
}

// Warn tells people of something that does not stop the command.
func Warn(c *cli.Command, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s: warning: %s\n", c.Root().Name, Printable(fmt.Sprintf(format, args...)))
}

// Printable returns s with what a terminal would act on escaped.
func Printable(s string) string {
	clean := func(r rune) bool { return r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) && !bidi(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case clean(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// bidi covers the controls that reorder text.
func bidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x2028 || r == 0x2029
}

// Print writes one value to standard output: a line, or indented on a terminal.
// A failed write is an error of kind io_error.
func Print(x any) error {
	b, err := wire.Encode(x)
	if err != nil {
		return err
	}
	if IsTerminal(os.Stdout) {
		var buf bytes.Buffer
		if json.Indent(&buf, b, "", "  ") == nil {
			b = buf.Bytes()
		}
		b = []byte(printableLines(string(b)))
	}
	return write(append(b, '\n'))
}

func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// PrintText writes text to standard output as it is.
func PrintText(s string) error { return write([]byte(s)) }

func write(b []byte) error {
	if _, err := os.Stdout.Write(b); err != nil {
		return fail.New(fail.IOError, "", "write standard output: %w", err)
	}
	return nil
}

// OK prints the envelope of a success.
func OK(data, meta any) error { return Print(wire.Envelope{OK: true, Data: data, Meta: meta}) }

// Describe prints what a command offers over MCP (DESIGN §2).
func Describe(text []byte) error {
	var buf bytes.Buffer
	if err := json.Compact(&buf, text); err != nil {
		return err
	}
	return write(append(buf.Bytes(), '\n'))
}

// IsTerminal says whether f is one.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Read reads the one JSON value on standard input. On a terminal it first says
// that it waits.
func Read(c *cli.Command, lim wire.Limits) (wire.Value, error) {
	if IsTerminal(os.Stdin) {
		fmt.Fprintf(os.Stderr, "%s: reading one JSON value; end with Ctrl-D\n", c.Root().Name)
	}
	v, err := wire.Read(os.Stdin, lim)
	if err != nil {
		return v, fmt.Errorf("read standard input: %w", err)
	}
	return v, nil
}

// Override sets a member of a request to the flag of its name, if that is given:
// a flag on the command line wins.
func Override(c *cli.Command, flag string, member *string) {
	if c.IsSet(flag) {
		*member = c.String(flag)
	}
}

// Request reads the request object of a command started with --request into
// dst, a struct whose members are the names of its arguments and flags.
func Request(c *cli.Command, dst any) error {
	v, err := Read(c, wire.Request)
	if err != nil {
		return err
	}
	if err := wire.Decode(v, dst); err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return nil
}
