// Package store is the only code that knows a path. It holds the layout of
// $FORGE_HOME and of a project's .forge (forge-store(5)), writes files whole,
// and takes locks.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"forge/lib/fail"
)

// Store is a $FORGE_HOME. Opening one creates nothing: a command that only
// reads leaves no trace.
type Store struct {
	Root string           // absolute
	Now  func() time.Time // the clock; tests set it
}

const readme = `This directory is the store of Forge, a toolkit whose tools are registered while
they are needed. forge-store(5) tells what each file is. Do not edit files under
audit/, which would read as tampering, nor under tools/: an edited tool does not
run.
`

// Open returns the store at home, an absolute path. Errors: io_error if another
// user owns it or may write to it, since whoever can write it decides what runs.
func Open(home string) (*Store, error) {
	if !filepath.IsAbs(home) {
		return nil, fail.New(fail.Usage, "set FORGE_HOME or --home to an absolute path", "store %q: not an absolute path", home)
	}
	s := &Store{Root: filepath.Clean(home), Now: time.Now}
	fi, err := os.Stat(s.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, ioError(err)
	}
	if !fi.IsDir() {
		return nil, fail.New(fail.IOError, "set FORGE_HOME to a directory", "store %q: not a directory", s.Root)
	}
	if err := owned(s.Root, fi); err != nil {
		return s, err
	}
	// Who can write one of these decides what runs.
	for _, dir := range []string{"tools", "ledger", "sessions", "keys"} {
		path := filepath.Join(s.Root, dir)
		if fi, err := os.Lstat(path); err == nil {
			if err := owned(path, fi); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// owned refuses what the effective user does not own or others may write.
func owned(path string, fi fs.FileInfo) error {
	if fi.Mode()&fs.ModeSymlink != 0 {
		return fail.New(fail.IOError, "move what it points to here", "%q: a link", path)
	}
	if uid := int(fi.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
		return fail.New(fail.IOError, "use sudo -H, or set FORGE_HOME to a directory of your own",
			"%q: owned by uid %d, and you are uid %d", path, uid, os.Geteuid())
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return fail.New(fail.IOError, "chmod go-w "+path, "%q: others may write to it (mode %04o)", path, fi.Mode().Perm())
	}
	return nil
}

// ioError gives a file system error its kind.
func ioError(err error) error {
	if err == nil {
		return nil
	}
	return fail.New(fail.IOError, "", "%w", err)
}

// The files of the store.

// Audit is the directory of the chain.
func (s *Store) Audit() string { return filepath.Join(s.Root, "audit") }

// SegmentName is the name of the file of the chain's nth segment, n from 1.
func SegmentName(n int) string { return fmt.Sprintf("audit-%06d.jsonl", n) }

// Segment is that file.
func (s *Store) Segment(n int) string { return filepath.Join(s.Audit(), SegmentName(n)) }

// NextSegment is where segment n stands until the one before it has ended.
func (s *Store) NextSegment(n int) string { return s.Segment(n) + ".tmp" }

// Segments lists the numbers of the chain's segments, rising. There is no
// directory to a store that never recorded anything: then the error is
// fs.ErrNotExist.
func (s *Store) Segments() ([]int, error) { return s.numbers(SegmentName) }

// numbers lists those of the files of the chain's directory that have such names.
func (s *Store) numbers(name func(int) string) (numbers []int, err error) {
	entries, err := os.ReadDir(s.Audit())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, ioError(err)
	}
	for _, e := range entries {
		digits := strings.TrimFunc(e.Name(), func(r rune) bool { return r < '0' || r > '9' })
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && e.Name() == name(n) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// List returns the paths of a directory's files whose names end in suffix, by
// name; none where there is no directory. A link in its place, and one that
// cannot be read, is an error of kind io_error: what is not seen is not taken
// for what is not there.
func List(dir, suffix string) ([]string, error) {
	fi, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, ioError(err)
	}
	if !fi.IsDir() {
		return nil, fail.New(fail.IOError, "", "%q: not a directory", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, ioError(err)
	}
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) && !strings.HasPrefix(e.Name(), ".") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// AuditFile is a file of the chain's directory: id, lock, FAILED.
func (s *Store) AuditFile(name string) string { return filepath.Join(s.Audit(), name) }

func prunedName(n int) string { return fmt.Sprintf("pruned-%06d.json", n) }

// PrunedFile keeps what the segments before n recorded of definitions.
func (s *Store) PrunedFile(n int) string { return filepath.Join(s.Audit(), prunedName(n)) }

// PrunedFiles lists the numbers of those there are, rising.
func (s *Store) PrunedFiles() ([]int, error) { return s.numbers(prunedName) }

// Checkpoints is the directory of the signed notes about the chain.
func (s *Store) Checkpoints() string { return filepath.Join(s.Audit(), "checkpoints") }

// Keys is the directory of signing keys.
func (s *Store) Keys() string { return filepath.Join(s.Root, "keys") }

// LedgerDir holds one file a recorded definition.
func (s *Store) LedgerDir() string { return filepath.Join(s.Root, "ledger") }

// Ledger is the entry of a definition.
func (s *Store) Ledger(digest string) string {
	return filepath.Join(s.LedgerDir(), digest+".json")
}

// Config is the operator's preferences.
func (s *Store) Config() string { return filepath.Join(s.Root, "config.toml") }

// Policy is the operator's policy.
func (s *Store) Policy() string { return filepath.Join(s.Root, "policy.json") }

// StateDir holds counts and windows.
func (s *Store) StateDir() string { return filepath.Join(s.Root, "state") }

// ToolState is the file of a tool's counts in the scope with that root.
func (s *Store) ToolState(scopeRoot, wire string) string {
	sum := sha256.Sum256([]byte(scopeRoot + "\x00" + wire))
	return filepath.Join(s.StateDir(), hex.EncodeToString(sum[:16])+".json")
}

// SessionState is the file of a session's forge count.
func (s *Store) SessionState(session string) string {
	return filepath.Join(s.StateDir(), "session-"+session+".json")
}

// StateLock guards the files of state/.
func (s *Store) StateLock() string { return filepath.Join(s.StateDir(), ".lock") }

// Cache is the file of a cached result; key is 64 hex characters.
func (s *Store) Cache(key string) string {
	return filepath.Join(s.Root, "cache", key[:2], key+".json")
}

// Run is the directory of one run.
func (s *Store) Run(id string) string { return filepath.Join(s.Root, "runs", id) }

// A Scope is where a tool is visible from, narrowest first: task, session,
// project, user.
type Scope string

// The scopes.
const (
	Task    Scope = "task"
	Session Scope = "session"
	Project Scope = "project"
	User    Scope = "user"
)

// Ladder lists the scopes, narrowest first.
var Ladder = []Scope{Task, Session, Project, User}

// A Place is a scope that exists here: its root holds tools/ and skills/.
type Place struct {
	Scope Scope
	Root  string
}

// Tools is the directory of a place's tool files.
func (p Place) Tools() string { return filepath.Join(p.Root, "tools") }

// Tool is the file of the tool of that wire name.
func (p Place) Tool(wire string) string { return filepath.Join(p.Tools(), wire+".json") }

// ToolsLock guards the creation and removal of a place's tools.
func (p Place) ToolsLock() string { return filepath.Join(p.Tools(), ".lock") }

// Where says what the scopes of a command are found from.
type Where struct {
	Session, Task string // "" for none
	Dir           string // the working directory, absolute
	Home          string // $HOME, "" if unset: then there is no project
}

// Places lists the scopes that exist for w, narrowest first; user always does.
// ignored says why a project that is there does not count, nil for none.
func (s *Store) Places(w Where) (places []Place, ignored error) {
	if w.Session != "" {
		root := filepath.Join(s.Root, "sessions", w.Session)
		if w.Task != "" {
			places = append(places, Place{Task, filepath.Join(root, "tasks", w.Task)})
		}
		places = append(places, Place{Session, root})
	}
	project, ignored := s.project(w)
	if project != "" {
		places = append(places, Place{Project, project})
	}
	return append(places, Place{User, s.Root}), ignored
}

// project finds the nearest .forge upward from the working directory: never at
// or above HOME, never across a file-system border, never the store itself, and
// only one that the caller owns and nobody else may write, its tools/ too.
func (s *Store) project(w Where) (found string, ignored error) {
	upward(w, func(dir string) bool {
		path := filepath.Join(dir, ".forge")
		fi, err := os.Lstat(path)
		if err != nil || !fi.IsDir() {
			return false
		}
		if self, err := os.Stat(s.Root); err == nil && os.SameFile(self, fi) {
			return false
		}
		err = owned(path, fi)
		if tools, lerr := os.Lstat(filepath.Join(path, "tools")); err == nil && lerr == nil {
			err = owned(filepath.Join(path, "tools"), tools)
		}
		if err != nil {
			if ignored == nil {
				ignored = err
			}
			return false
		}
		found = path
		return true
	})
	if found != "" {
		ignored = nil
	}
	return found, ignored
}

// What a project's directory holds of ours that is not the project's.
const projectIgnore = ".gitignore\n.lock\n.new-*\n.swept\n"

// NewProject makes .forge beside the nearest .git and returns its place.
// Errors: those of ProjectToBe, io_error.
func (s *Store) NewProject(w Where) (Place, error) {
	p, err := s.ProjectToBe(w)
	if err != nil {
		return p, err
	}
	if err := os.Mkdir(p.Root, 0o700); errors.Is(err, fs.ErrExist) {
		if found, _ := s.project(w); found != p.Root { // a link, a file: not made meanwhile by another
			return Place{}, fail.New(fail.IOError, "", "%q: not a directory", p.Root)
		}
		return p, nil
	} else if err != nil {
		return Place{}, ioError(err)
	}
	return p, s.WriteFile(filepath.Join(p.Root, ".gitignore"), []byte(projectIgnore), Renamed)
}

// ProjectToBe returns the place that NewProject would make. Errors: not_found
// where there is no .git, with the mkdir to type; io_error for a .forge that is
// there and does not count.
func (s *Store) ProjectToBe(w Where) (Place, error) {
	if _, ignored := s.project(w); ignored != nil {
		return Place{}, ignored
	}
	found := ""
	upward(w, func(dir string) bool {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
			return false
		}
		found = filepath.Join(dir, ".forge")
		return true
	})
	if found == "" || found == s.Root {
		return Place{}, fail.New(fail.NotFound, "mkdir -m 700 "+filepath.Join(w.Dir, ".forge"), "project scope: no .git above %q and below your home", w.Dir)
	}
	return Place{Project, found}, nil
}

// upward calls visit for the working directory and those above it, on one file
// system, until visit returns true or HOME or a directory above HOME is met.
func upward(w Where, visit func(dir string) bool) {
	if w.Home == "" || w.Dir == "" {
		return
	}
	home, err := filepath.EvalSymlinks(w.Home)
	if err != nil {
		home = filepath.Clean(w.Home)
	}
	dir, err := filepath.EvalSymlinks(w.Dir)
	if err != nil {
		return // the directory is gone: no project
	}
	var first syscall.Stat_t
	if err := syscall.Stat(dir, &first); err != nil {
		return
	}
	for {
		if within(home, dir) {
			return
		}
		var st syscall.Stat_t
		if err := syscall.Stat(dir, &st); err != nil || st.Dev != first.Dev || visit(dir) {
			return
		}
		up := filepath.Dir(dir)
		if up == dir {
			return
		}
		dir = up
	}
}

// within says whether path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}
