// Package runs keeps what ran: a directory a run, with its manifest and the
// files the tool left.
//
//	runs/20261130T191500Z-1a2b3c4d/run_manifest.json
//	runs/20261130T191500Z-1a2b3c4d/artifacts/
//
// The SHA-256 of the manifest stands on the chain (forge.called). The format is
// forge.run/1; forge-store(5), RUNS, is the page.
package runs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

const format = "forge.run/1"

// Outcome says how a run ended.
type Outcome string

// The outcomes of a manifest.
const (
	OK            Outcome = "ok"
	ToolError     Outcome = "tool_error"
	Crashed       Outcome = "crashed"
	BadOutput     Outcome = "bad_output"
	Timeout       Outcome = "timeout"
	ResourceLimit Outcome = "resource_limit"
	Cancelled     Outcome = "cancelled"
)

// Manifest is one execution, as its file has it.
type Manifest struct {
	Format  string     `json:"format"`
	Run     string     `json:"run"`
	Tool    string     `json:"tool"`
	Version int64      `json:"version"`
	Digest  string     `json:"digest"`
	Persona string     `json:"persona,omitempty"`
	Session string     `json:"session,omitempty"`
	Started string     `json:"started"` // UTC, RFC 3339
	Ended   string     `json:"ended"`
	MS      int64      `json:"ms"`
	Input   wire.Value `json:"input"` // masked where the schema says x-redact
	Binds   []Bind     `json:"binds"`
	Sandbox Sandbox    `json:"sandbox"`
	Outcome Outcome    `json:"outcome"`
	Exit    int        `json:"exit"`
	Signal  string     `json:"signal,omitempty"`
	Limit   string     `json:"limit,omitempty"`
	Stdout  Stdout     `json:"stdout"`
	Stderr  Stderr     `json:"stderr"`
	Files   []File     `json:"files"`
	Cache   string     `json:"cache"` // none, seed or hit
	Seed    string     `json:"seed,omitempty"`
}

// Bind is a path the tool saw.
type Bind struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
}

// Sandbox is what enforced the run; for a cached answer, nothing did.
type Sandbox struct {
	Network string         `json:"network"`
	Label   string         `json:"label"`
	Limits  map[string]any `json:"limits"`
}

// Stdout tells what a tool printed.
type Stdout struct {
	Bytes     int64  `json:"bytes"`
	Truncated bool   `json:"truncated"`
	Head      string `json:"head,omitempty"` // the first 4 KiB, masked
}

// Stderr tells what a tool printed for people.
type Stderr struct {
	Bytes int64  `json:"bytes"`
	Tail  string `json:"tail,omitempty"` // the last 8 KiB, masked
}

// File is an artifact.
type File struct {
	Path   string `json:"path"` // below artifacts/
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// NewID returns a run id: the second in UTC and 8 random hex digits.
func NewID(now time.Time) string {
	var r [4]byte
	rand.Read(r[:])
	return now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(r[:])
}

// Run is the directory of a run in the making.
type Run struct {
	st  *store.Store
	ID  string
	Dir string
}

// New names a run; nothing is on the disk yet.
func New(st *store.Store) *Run {
	id := NewID(st.Now())
	return &Run{st, id, st.Run(id)}
}

// Artifacts is where the tool's files are.
func (r *Run) Artifacts() string { return filepath.Join(r.Dir, "artifacts") }

// Make creates the directories of the run.
func (r *Run) Make() error { return r.st.MakeDir(r.Artifacts()) }

// ErrFull is why the context of Bound ends: the tool's artifacts are over
// ArtifactBytes, or more than maxEntries.
var ErrFull = errors.New("the artifacts are full")

const (
	boundEvery = 250 * time.Millisecond
	maxEntries = 10_000
)

// Bound returns a context that ends, with ErrFull, when the tool's artifacts
// grow over what a run may leave. It looks four times a second: a tool can
// overstep by what it writes in between.
func (r *Run) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(boundEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if r.full() {
					cancel(ErrFull)
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// open opens the artifacts, also where the tool closed the directory to us.
func (r *Run) open() (*os.Root, error) {
	root, err := os.OpenRoot(r.Artifacts())
	if errors.Is(err, fs.ErrPermission) && os.Chmod(r.Artifacts(), 0o700) == nil {
		root, err = os.OpenRoot(r.Artifacts())
	}
	return root, err
}

// reopen opens a directory that the tool closed to us, before it is read.
func reopen(root *os.Root, path string, d fs.DirEntry) {
	if fi, err := d.Info(); err == nil && fi.IsDir() && fi.Mode().Perm()&0o700 != 0o700 {
		root.Chmod(path, 0o700)
	}
}

// full adds up what lies in the artifacts now.
func (r *Run) full() bool {
	root, err := r.open()
	if err != nil {
		return false
	}
	defer root.Close()
	var bytes, entries int64
	fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		reopen(root, path, d)
		if entries++; entries > maxEntries {
			return fs.SkipAll
		}
		if fi, err := d.Info(); err == nil && fi.Mode().IsRegular() {
			bytes += fi.Sys().(*syscall.Stat_t).Blocks * 512 // sparse files cost nothing
		}
		return nil
	})
	return bytes > ArtifactBytes || entries > maxEntries
}

// maxFiles bounds how many artifacts a manifest lists.
const maxFiles = 1000

// Collect lists the regular files a tool left, following no link. An artifacts
// directory that stayed empty is removed.
func (r *Run) Collect() ([]File, error) {
	files := []File{}
	root, err := r.open()
	if err != nil {
		return nil, fail.New(fail.IOError, "", "%w", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		reopen(root, path, d)
		if !d.Type().IsRegular() {
			return nil // a directory, a link, a pipe
		}
		if len(files) == maxFiles {
			return fs.SkipAll
		}
		f, err := hashFile(root, path)
		if err == nil {
			files = append(files, f)
		}
		return nil
	})
	os.Remove(r.Artifacts())
	return files, err
}

func hashFile(root *os.Root, path string) (File, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return File{wire.Clean([]byte(path)), n, hex.EncodeToString(h.Sum(nil))}, err
}

// Finish writes the manifest and returns its SHA-256.
func (r *Run) Finish(m *Manifest, sync store.Sync) (string, error) {
	m.Format, m.Run = format, r.ID
	b, err := wire.Encode(m)
	if err != nil {
		return "", err
	}
	b = append(b, '\n')
	return wire.Sum(b), r.st.WriteFile(filepath.Join(r.Dir, "run_manifest.json"), b, sync)
}
