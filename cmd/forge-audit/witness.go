package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sys/unix"

	"forge/lib/chain"
	"forge/lib/cmdline"
	"forge/lib/fail"
	"forge/lib/trail"
	"forge/lib/wire"
)

// kept is a line of a witness's file. State is new, or fork for another sha at a
// seq that was kept; the lines of before have none. Each that is new has a higher
// seq than all before it.
type kept struct {
	Received string `json:"received"`
	State    string `json:"state,omitempty"`
	Note     string `json:"note"`
}

const (
	maxNote = 64 << 10
	maxKept = 6*maxNote + 1<<10 // a note as JSON, each byte escaped, and what is around it
)

// witness keeps a note before it answers: what it was told cannot be taken back
// by whoever told it. It knows no store.
func witness(_ context.Context, c *cli.Command) error {
	keys, err := trail.TrustedKeys(nil, c.StringSlice("trust"))
	if err != nil {
		return err
	}
	msg, err := readNote(c)
	if err != nil {
		return err
	}
	if len(msg) == 0 {
		return cmdline.OK(map[string]any{"state": "nothing"}, struct{}{})
	}
	got, err := chain.OpenNote(msg, keys)
	if err != nil {
		return noteError(err)
	}
	private := ""
	if path := c.String("key"); path != "" {
		if private, err = trail.SigningKey(nil, path); err != nil {
			return err
		}
	}
	state, err := keep(c.String("file"), got.Checkpoint, msg)
	if err != nil {
		return err
	}
	data := map[string]any{"state": state, "seq": got.Seq, "sha": got.Sha, "log": got.Log}
	if private != "" {
		if msg, err = chain.Sign(got.Checkpoint, private); err != nil {
			return err
		}
		data["note"] = string(msg)
	}
	if state == "fork" {
		return fail.New(fail.Tampered, "compare the two notes in "+c.String("file")+": the same seq was signed with two shas",
			"log %s: seq %d has another sha here", got.Log, got.Seq)
	}
	return cmdline.OK(data, struct{}{})
}

// noteError tells apart a note by nobody who is trusted, one that was altered,
// and what is no note.
func noteError(err error) error {
	const at = "read standard input: %w"
	if _, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		return fail.New(fail.TrustMissing, "name the signer's public key with --trust", at, err)
	}
	if _, ok := errors.AsType[*note.InvalidSignatureError](err); ok {
		return fail.New(fail.Tampered, "look at the host that sent it", at, err)
	}
	return fail.New(fail.BadInput, "pipe forge-audit checkpoint --note into it", at, err)
}

// readNote takes a note as it is, or the envelope of forge-audit checkpoint;
// nothing where that had nothing new.
func readNote(c *cli.Command) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(os.Stdin, maxNote+1))
	if err != nil {
		return nil, fail.New(fail.IOError, "", "read standard input: %w", err)
	}
	if len(b) > maxNote {
		return nil, fail.New(fail.BadInput, "", "read standard input: more than %d bytes", maxNote)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return b, nil
	}
	v, err := wire.Parse(b, wire.Request)
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	data, _ := v.Get("data")
	if ok, _ := v.Get("ok"); ok.Text() == "false" {
		e, _ := v.Get("error")
		kind, _ := e.Get("kind")
		message, _ := e.Get("message")
		known := fail.Kind(kind.Text())
		if !slices.ContainsFunc(fail.Table, func(r fail.Row) bool { return r.Kind == known }) {
			known = fail.BadInput
		}
		return nil, fail.New(known, "", "passed on: %s", message.Text())
	}
	if changed, _ := data.Get("changed"); changed.Text() == "false" {
		return nil, nil
	}
	text, ok := data.Get("note")
	if !ok || text.Text() == "" {
		return nil, fail.New(fail.BadInput, "pipe forge-audit checkpoint into it, or a signed note", "read standard input: an envelope without data.note")
	}
	return []byte(text.Text()), nil
}

// keep holds a note against those that were kept, appends it where it is new, and
// sees to it that all is on the disk: it may have been another that wrote what is
// known, and was stopped before that.
func keep(path string, got chain.Checkpoint, msg []byte) (state string, err error) {
	ioError := func(err error) error { return fail.New(fail.IOError, "", "witness %s: %w", path, err) }
	f, size, err := openRegular(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW)
	if err != nil {
		return "", ioError(err)
	}
	defer f.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		size, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return "", ioError(err)
	}
	before, err := lookUp(f, size, got)
	if err != nil {
		return "", ioError(err)
	}
	switch {
	case before.alien != "":
		return "", fail.New(fail.Conflict, "keep one file a log", "%s is of log %s, and the note of log %s", path, before.alien, got.Log)
	case before.fork:
		state = "fork"
	case before.known:
		state = "known"
	case got.Seq < before.last:
		return "", fail.New(fail.Conflict, "a log only grows: look at its host", "seq %d is below %d, which was kept before", got.Seq, before.last)
	default:
		state = "new"
	}
	if !before.known {
		line, err := wire.Encode(kept{time.Now().UTC().Format(time.RFC3339), state, string(msg)})
		if err != nil {
			return "", err
		}
		if !before.whole {
			line = append([]byte("\n"), line...)
		}
		if _, err := f.Write(append(line, '\n')); err != nil {
			f.Truncate(size)
			return "", ioError(err)
		}
	}
	if err := f.Sync(); err != nil {
		// The kernel may take the pages for written: what a next sync says of
		// this note would be no promise.
		if !before.known {
			f.Truncate(size)
		}
		return "", ioError(err)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", ioError(err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		if !before.known {
			f.Truncate(size)
		}
		return "", ioError(err)
	}
	return state, nil
}

// standing is what a witness's file holds beside a checkpoint.
type standing struct {
	last        uint64 // the highest seq
	known, fork bool   // that very seq and sha; that seq and another sha
	alien       string // another log
	whole       bool   // the last line is
}

// lookUp reads a witness's file from its end, and no further than it must: what
// was verified when it came is taken as it stands. Before a line that is new there
// are only lower seqs, and forks of those.
func lookUp(f io.ReaderAt, size int64, got chain.Checkpoint) (s standing, err error) {
	s.whole = true
	err = backward(f, size, func(line []byte, end int64) bool {
		if end == size {
			s.whole = false
		}
		k, ok := parseKept(line)
		if !ok {
			return true
		}
		c, err := chain.ParseNote([]byte(k.Note))
		if err != nil {
			return true
		}
		s.last = max(s.last, c.Seq)
		switch {
		case c.Log != got.Log:
			s.alien = c.Log
			return false
		case c.Seq == got.Seq && c.Sha == got.Sha:
			s.known = true
		case c.Seq == got.Seq:
			s.fork = true
		}
		return k.State != "new" || c.Seq > got.Seq
	})
	return s, err
}

// backward calls visit with each line of f, its newline left out, and where it
// ends, the last one first, until visit returns false. What is longer than
// maxKept comes as an empty line.
func backward(f io.ReaderAt, size int64, visit func(line []byte, end int64) bool) error {
	buf := make([]byte, 64<<10)
	var line []byte // from at on
	long, end := false, size
	for at := size; at > 0; {
		text := buf[:min(at, int64(len(buf)))]
		at -= int64(len(text))
		if _, err := f.ReadAt(text, at); err != nil {
			return err
		}
		for {
			i := bytes.LastIndexByte(text, '\n')
			part := text[i+1:]
			if long = long || len(part)+len(line) > maxKept; long {
				line = nil
			} else {
				line = append(bytes.Clone(part), line...)
			}
			if i < 0 {
				break
			}
			newline := at + int64(i)
			if newline+1 < end && !visit(line, end) {
				return nil
			}
			line, long, end, text = nil, false, newline, text[:i]
		}
	}
	if end > 0 {
		visit(line, end)
	}
	return nil
}

func parseKept(line []byte) (k kept, ok bool) {
	v, err := wire.Parse(line, wire.Limits{Size: maxKept, Depth: 8})
	ok = err == nil && wire.DecodeRecord(v, &k) == nil && k.Note != ""
	return k, ok
}

// readWitness returns what a witness kept, in order. Lines that are none are
// passed over, and so are notes that are none, but for the first. Errors:
// not_found, io_error, trust_missing where nothing is left.
func readWitness(path string) ([]kept, error) {
	f, _, err := openRegular(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail.New(fail.NotFound, "", "witness %s: no such file", path)
	}
	if err != nil {
		return nil, fail.New(fail.IOError, "", "witness %s: %w", path, err)
	}
	defer f.Close()
	var notes []kept
	broken := false
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := readLine(r)
		if k, ok := parseKept(line); ok {
			_, nerr := chain.ParseNote([]byte(k.Note))
			if nerr == nil || !broken {
				notes = append(notes, k)
			}
			broken = broken || nerr != nil
		}
		switch {
		case errors.Is(err, io.EOF) && len(notes) == 0:
			return nil, fail.New(fail.TrustMissing, "name a file that forge-audit witness keeps", "witness %s: it holds no note", path)
		case errors.Is(err, io.EOF):
			return notes, nil
		case err != nil:
			return nil, fail.New(fail.IOError, "", "witness %s: %w", path, err)
		}
	}
}

// readLine returns the next line, nothing of one that is longer than maxKept.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for long := false; ; {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxKept; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// openRegular opens a file, and nothing else that has a name: a pipe would be
// waited for, a device never ends.
func openRegular(path string, flags int) (f *os.File, size int64, err error) {
	f, err = os.OpenFile(path, flags|unix.O_NONBLOCK, 0o600)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the path is told
		}
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}
