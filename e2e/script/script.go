// Package script runs testscript files against the real binaries of Forge: each
// command of a script is a process, in an environment as bare as cron's.
//
// Beside testscript's own commands there is
//
//	status N COMMAND [ARG...]   run COMMAND, which must end with status N
//
// A script finds $FORGE_HOME empty at $WORK/home, HOME at $WORK/user, and the
// binaries on PATH.
package script

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var build = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("FORGE_BIN"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.MkdirTemp("", "forge-bin-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir+"/", "forge/cmd/...").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return dir, nil
})

// Main runs the tests of a package and removes the binaries it built.
func Main(m *testing.M) {
	code := m.Run()
	if dir, err := build(); err == nil && os.Getenv("FORGE_BIN") == "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// Bin returns the directory of the binaries: FORGE_BIN, else a fresh build.
func Bin(t testing.TB) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatalf("build the commands: %s", err)
	}
	return dir
}

// Env returns an environment like cron's, with the store at home.
func Env(t testing.TB, home string) []string {
	return []string{"PATH=" + Bin(t) + ":/usr/bin:/bin", "HOME=" + filepath.Dir(home), "FORGE_HOME=" + home}
}

// Run runs every script of testdata.
func Run(t *testing.T) {
	bin := Bin(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			if err := os.Mkdir(filepath.Join(e.WorkDir, "user"), 0o700); err != nil {
				return err
			}
			e.Setenv("PATH", bin+":/usr/bin:/bin")
			e.Setenv("HOME", filepath.Join(e.WorkDir, "user"))
			e.Setenv("FORGE_HOME", filepath.Join(e.WorkDir, "home"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}

func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command [arg...]")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("status %q is not a number", args[0])
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%s: %s", strings.Join(args[1:], " "), err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s: status %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}
