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
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
	"forge/lib/redact"
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

	FilesError string `json:"files_error,omitempty"` // why files, or a digest of one, are missing

	Cache string `json:"cache"` // none, seed or hit
	Seed  string `json:"seed,omitempty"`
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
	Path   string `json:"path"` // below artifacts/, masked
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"` // missing where files_error says why
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
	dir *os.File // the artifacts, open since before a tool could close them
}

// New names a run; nothing is on the disk yet.
func New(st *store.Store) *Run {
	id := NewID(st.Now())
	return &Run{st: st, ID: id, Dir: st.Run(id)}
}

// Artifacts is where the tool's files are.
func (r *Run) Artifacts() string { return filepath.Join(r.Dir, "artifacts") }

// Make creates the directories of the run.
func (r *Run) Make() error {
	if err := r.st.MakeDir(r.Artifacts()); err != nil {
		return err
	}
	var err error
	if r.dir, err = os.Open(r.Artifacts()); err != nil {
		return fail.New(fail.IOError, "", "%w", err)
	}
	return nil
}

// ErrFull is why the context of Bound ends: the tool's artifacts are over
// ArtifactBytes, the holes of sparse files included, over maxEntries or deeper
// than maxDepth, or hold what we cannot read.
var ErrFull = errors.New("the artifacts are full")

const boundEvery = 250 * time.Millisecond

// Bound returns a context that ends, with ErrFull, when the tool's artifacts
// grow over what a run may leave. It looks four times a second: a tool can
// overstep by what it writes in between. Stop ends that, looks for a last time
// and says whether they are, or were, full.
func (r *Run) Bound(ctx context.Context) (bounded context.Context, stop func() (full bool)) {
	bounded, cancel := context.WithCancelCause(ctx)
	before := free(int(r.dir.Fd()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(boundEvery)
		defer tick.Stop()
		for {
			select {
			case <-bounded.Done():
				return
			case <-tick.C:
				if r.full(bounded, before) {
					cancel(ErrFull)
				}
			}
		}
	}()
	return bounded, func() bool {
		cancel(nil)
		<-done
		return errors.Is(context.Cause(bounded), ErrFull) || r.full(context.WithoutCancel(ctx), before)
	}
}

// full adds up what lies in the artifacts now; before is what the file system
// had free at first.
func (r *Run) full(ctx context.Context, before int64) bool {
	var bytes int64
	linked := map[uint64]bool{} // files of more than one name, counted
	err := walk(ctx, int(r.dir.Fd()), func(_ int, _, _ string, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT != unix.S_IFREG || linked[st.Ino] {
			return nil
		}
		if st.Nlink > 1 {
			linked[st.Ino] = true
		}
		if bytes += max(st.Size, st.Blocks*512); bytes > ArtifactBytes {
			return ErrFull
		}
		return nil
	})
	if ctx.Err() != nil {
		return false
	}
	if err == nil && before-free(int(r.dir.Fd())) > ArtifactBytes {
		bytes += unlinked(r.Artifacts())
	}
	return err != nil || bytes > ArtifactBytes
}

const (
	// maxFiles bounds how many artifacts a manifest lists.
	maxFiles = 1000

	// hashBytes bounds what is read for their digests: what a tool may leave,
	// and its output.
	hashBytes = 2 * ArtifactBytes
)

var errFiles = fmt.Errorf("there are more than %d files", maxFiles)

// Collect lists the regular files a tool left, following no link, with mask over
// their names. Short says why the list, or a digest in it, is missing; it is ""
// where nothing is. The end of ctx ends the reading of files, not the list. An
// artifacts directory that stayed empty is removed.
func (r *Run) Collect(ctx context.Context, mask *redact.Masker) (files []File, short string) {
	files = []File{}
	left := int64(hashBytes)
	var why []string
	missing := func(s string) {
		if !slices.Contains(why, s) {
			why = append(why, s)
		}
	}
	if err := walk(context.WithoutCancel(ctx), int(r.dir.Fd()), func(dir int, name, path string, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return nil // a directory, a link, a pipe
		}
		if len(files) == maxFiles {
			return errFiles
		}
		f := File{Path: wire.Clean([]byte(mask.String(path))), Bytes: st.Size}
		switch {
		case ctx.Err() != nil:
			missing("cut short")
		case st.Size > left:
			missing(fmt.Sprintf("more than %d bytes: not all files have a digest", hashBytes))
		default:
			left -= st.Size
			var err error
			if f.SHA256, err = hashFile(ctx, dir, name, st.Size); ctx.Err() != nil {
				missing("cut short")
			} else if err != nil {
				missing("a file cannot be read: " + err.Error())
			}
		}
		files = append(files, f)
		return nil
	}); err != nil {
		missing(err.Error())
	}
	os.Remove(r.Artifacts())
	return files, strings.Join(why, "; ")
}

// hashFile returns the SHA-256 of a file of that size, "" with an error. The
// error has no name in it.
func hashFile(ctx context.Context, dir int, name string, size int64) (string, error) {
	fd, err := openAt(dir, name, 0, 0o400)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	h := sha256.New()
	for size > 0 && ctx.Err() == nil {
		n, err := io.CopyN(h, f, min(size, 16<<20))
		if err != nil {
			return "", err
		}
		size -= n
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Finish writes the manifest and returns its SHA-256, "" with an error.
func (r *Run) Finish(m *Manifest, sync store.Sync) (string, error) {
	m.Format, m.Run = format, r.ID
	b, err := wire.Encode(m)
	if err != nil {
		return "", err
	}
	b = append(b, '\n')
	if err := r.st.WriteFile(filepath.Join(r.Dir, "run_manifest.json"), b, sync); err != nil {
		return "", err
	}
	return wire.Sum(b), nil
}
