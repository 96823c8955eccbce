package runs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"forge/lib/redact"
	"forge/lib/wire"
)

const (
	headBytes = 4 << 10
	tailBytes = 8 << 10

	// ArtifactBytes bounds what a run may leave on the disk of its output.
	ArtifactBytes = 1 << 30
	spillName     = "full_stdout.bin"
)

// Output takes a tool's standard output: up to a cap in memory; past it, all of
// it goes to a file, up to ArtifactBytes, and none of it counts as the answer.
// Memory stays bounded whatever is printed.
type Output struct {
	run   *Run
	cap   int64
	mask  *redact.Masker
	buf   bytes.Buffer
	head  *firstBytes
	heads io.WriteCloser // masks into head
	Total int64          // bytes printed

	file  *os.File
	spill io.WriteCloser // masks into file
	kept  int64          // bytes written to file
	lost  bool           // more came than ArtifactBytes
	err   error          // why the file is short
}

// NewOutput returns an Output for run that keeps cap bytes and masks what it
// stores.
func (r *Run) NewOutput(cap int64, mask *redact.Masker) *Output {
	head := &firstBytes{}
	return &Output{run: r, cap: cap, mask: mask, head: head, heads: mask.Writer(head)}
}

// firstBytes keeps the first 4 KiB of what it is given.
type firstBytes struct{ b []byte }

func (f *firstBytes) Write(p []byte) (int, error) {
	f.b = append(f.b, p[:min(len(p), headBytes-len(f.b))]...)
	return len(p), nil
}

func (f *firstBytes) full() bool { return len(f.b) == headBytes }

// Truncated says whether more than the cap was printed.
func (o *Output) Truncated() bool { return o.Total > o.cap }

// Bytes returns what was printed; nil if it was more than the cap.
func (o *Output) Bytes() []byte { return o.buf.Bytes() }

// Head returns the first 4 KiB as text, masked before it was cut. It is whole
// after Close.
func (o *Output) Head() string { return clip(o.head.b) }

// clip drops a character that the cut left incomplete.
func clip(b []byte) string {
	for n := range min(utf8.UTFMax, len(b)) {
		if utf8.Valid(b[:len(b)-n]) {
			return string(b[:len(b)-n])
		}
	}
	return wire.Clean(b)
}

// Write never fails: a full disk must not look like the tool's fault.
func (o *Output) Write(p []byte) (int, error) {
	if !o.head.full() {
		o.heads.Write(p)
	}
	o.Total += int64(len(p))
	switch {
	case o.spill != nil:
		o.store(p)
	case o.Total <= o.cap:
		o.buf.Write(p)
	default:
		o.overflow(p)
	}
	return len(p), nil
}

// overflow moves what was kept to a file beside the artifacts, where the tool
// cannot put a link in the way; Close moves it in.
func (o *Output) overflow(p []byte) {
	o.spill = o.mask.Writer(counted{o})
	if why := o.mask.Over(); why != "" {
		o.err, o.buf = errors.New(why), bytes.Buffer{}
		return
	}
	o.file, o.err = os.OpenFile(o.temp(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	o.store(o.buf.Bytes())
	o.buf = bytes.Buffer{}
	o.store(p)
}

func (o *Output) temp() string { return filepath.Join(o.run.Dir, ".new-stdout") }

func (o *Output) store(p []byte) {
	if o.err == nil {
		o.spill.Write(p)
	}
}

// counted writes to the file up to the bound, then nothing.
type counted struct{ o *Output }

func (c counted) Write(p []byte) (int, error) {
	n := min(int64(len(p)), ArtifactBytes-c.o.kept)
	c.o.lost = c.o.lost || n < int64(len(p))
	k, err := c.o.file.Write(p[:n])
	c.o.kept += int64(k)
	if err != nil && c.o.err == nil {
		c.o.err = err
	}
	return len(p), nil
}

// Close ends the capture. It returns the path of the file that holds the whole
// output, "" where there is none, and why the file is not whole: the bound, an
// error of the disk, or too much to mask.
func (o *Output) Close() (path string, short string) {
	if !o.head.full() {
		o.heads.Close()
	}
	if o.spill == nil {
		return "", ""
	}
	if o.file == nil {
		return "", o.err.Error()
	}
	if o.err == nil {
		o.spill.Close()
	}
	if err := o.file.Close(); err != nil && o.err == nil {
		o.err = err
	}
	path, err := o.place()
	if err != nil {
		return "", err.Error()
	}
	switch {
	case o.err != nil:
		return path, o.err.Error()
	case o.lost:
		return path, "artifacts are bounded"
	}
	return path, ""
}

// place moves the file in among the artifacts, which the tool may have closed
// since, and returns its path. What the tool put there under our name is kept
// under another. Where it cannot be done, the file stays beside the artifacts.
func (o *Output) place() (string, error) {
	dir := int(o.run.dir.Fd())
	unix.Fchmod(dir, 0o700)
	in := func() error { return unix.Renameat2(unix.AT_FDCWD, o.temp(), dir, spillName, unix.RENAME_NOREPLACE) }
	err := in()
	if errors.Is(err, unix.EEXIST) && unix.Renameat2(dir, spillName, dir, spillName+".tool", unix.RENAME_NOREPLACE) == nil {
		err = in()
	}
	if err == nil {
		return filepath.Join(o.run.Artifacts(), spillName), nil
	}
	path := filepath.Join(o.run.Dir, spillName)
	if err := os.Rename(o.temp(), path); err != nil {
		os.Remove(o.temp())
		return "", err
	}
	return path, nil
}

// Errors takes a tool's standard error and keeps its end, masked before it is
// cut.
type Errors struct {
	Total int64 // bytes printed
	ring  lastBytes
	mask  io.WriteCloser
}

// NewErrors returns an Errors that masks what it keeps.
func NewErrors(mask *redact.Masker) *Errors {
	e := &Errors{}
	e.mask = mask.Writer(&e.ring)
	return e
}

func (e *Errors) Write(p []byte) (int, error) {
	e.Total += int64(len(p))
	return e.mask.Write(p)
}

// Tail returns the last 8 KiB as text. Nothing is written after it.
func (e *Errors) Tail() string {
	e.mask.Close()
	b := e.ring.b[max(0, len(e.ring.b)-tailBytes):]
	for len(b) > 0 && e.ring.total > tailBytes && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return wire.Clean(b)
}

// lastBytes keeps at least the last 8 KiB of what it is given.
type lastBytes struct {
	total int64
	b     []byte
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.total += int64(len(p))
	l.b = append(l.b, p[max(0, len(p)-tailBytes):]...)
	if n := len(l.b) - tailBytes; n > tailBytes {
		l.b = append(l.b[:0], l.b[n:]...)
	}
	return len(p), nil
}
