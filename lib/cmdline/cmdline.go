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
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

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
		switch act := c.Action; {
		case len(c.Commands) > 0 && act == nil:
			c.Action = noCommand
		case act != nil && c.ArgsUsage == "": // its help shows none
			c.Action = func(ctx context.Context, c *cli.Command) error {
				if c.Args().Present() {
					return Usage(c, "unexpected argument %q", c.Args().First())
				}
				return act(ctx, c)
			}
		}
	})
}

// noCommand is the action of a command that has others, where none was named:
// help is the one that cli would add, and nobody's tool has its name here.
func noCommand(ctx context.Context, c *cli.Command) error {
	name := c.Args().First()
	if name == "help" {
		if name = c.Args().Get(1); name == "" {
			return cli.ShowRootCommandHelp(c)
		}
		if c.Command(name) != nil {
			return cli.ShowCommandHelp(ctx, c, name)
		}
	}
	if name == "" {
		return Usage(c, "which command?")
	}
	return Usage(c, "unknown command %q", name)
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
		if letter, value := name[:min(1, len(name))], name[min(1, len(name)):]; value != "" && value[0] <= '9' && takesValue(c, letter) {
			return Usage(c, "unknown option -%s: write -%s %s", name, letter, value)
		}
		if near := wire.Nearest(name, names); near != "" {
			return Usage(c, "unknown option --%s, nearest: %s%s", name, dashes(near), near)
		}
		if len(c.Commands) > 0 {
			return Usage(c, "unknown option --%s: options follow the command, as in %s %s --%s", name, c.FullName(), c.Commands[0].Name, name)
		}
		return Usage(c, "unknown option %s%s", dashes(name), name)
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

// dashes are those that an option of that name is written with.
func dashes(name string) string { return "--"[:min(2, len(name))] }

func takesValue(c *cli.Command, name string) bool {
	return slices.ContainsFunc(c.VisibleFlags(), func(f cli.Flag) bool {
		d, ok := f.(cli.DocGenerationFlag)
		return ok && d.TakesValue() && slices.Contains(f.Names(), name)
	})
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

// Printable returns s with what a terminal would act on, or would not show,
// escaped: \x1b, \u202e, \U000e0041.
func Printable(s string) string {
	return escape(s, false, func(r rune, b byte) string {
		switch {
		case b != 0:
			return fmt.Sprintf(`\x%02x`, b)
		case r < 0x100:
			return fmt.Sprintf(`\x%02x`, r)
		case r < 0x10000:
			return fmt.Sprintf(`\u%04x`, r)
		}
		return fmt.Sprintf(`\U%08x`, r)
	})
}

// PrintableJSON is Printable for the text of a JSON value, which stays one, and
// the same; its line ends stay too.
func PrintableJSON(s string) string {
	return escape(s, true, func(r rune, _ byte) string {
		if r < 0x10000 {
			return fmt.Sprintf(`\u%04x`, r)
		}
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
}

// escape replaces each character of s that is not to be seen, and each byte b
// that is no text: then r is U+FFFD.
func escape(s string, lines bool, form func(r rune, b byte) string) string {
	var out strings.Builder
	from := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		broken := r == utf8.RuneError && n == 1
		if broken || unseen(r) && (r != '\n' || !lines) {
			b := byte(0)
			if broken {
				b = s[i]
			}
			out.WriteString(s[from:i])
			out.WriteString(form(r, b))
			from = i + n
		}
		i += n
	}
	if from == 0 {
		return s
	}
	out.WriteString(s[from:])
	return out.String()
}

// unseen covers what a terminal acts on, what reorders or joins what is around
// it, and what is shown as nothing, by the properties that Unicode gives them.
func unseen(r rune) bool {
	if r >= ' ' && r < 0x7f {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
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
		b = []byte(PrintableJSON(string(b)))
	}
	return write(append(b, '\n'))
}

// PrintLine writes the text of one JSON value to standard output, on a line, as
// it stands; on a terminal with what that would act on escaped.
func PrintLine(b []byte) error {
	if IsTerminal(os.Stdout) {
		b = []byte(PrintableJSON(string(b)))
	}
	return write(append(bytes.Clone(b), '\n'))
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
