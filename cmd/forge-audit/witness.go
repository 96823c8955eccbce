package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// kept is a line of a witness's file.
type kept struct {
	Received string `json:"received"`
	Note     string `json:"note"`
}

const maxNote = 64 << 10

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
	state, err := keep(c.String("file"), keys, got, msg)
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
		return nil, fail.New(fail.Kind(kind.Text()), "", "passed on: %s", message.Text())
	}
	if changed, _ := data.Get("changed"); changed.Text() == "false" {
		return nil, nil
	}
	text, ok := data.Get("note")
	if !ok {
		return nil, fail.New(fail.BadInput, "pipe forge-audit checkpoint into it, or a signed note", "read standard input: an envelope without data.note")
	}
	return []byte(text.Text()), nil
}

// keep holds a note against those that were kept, and appends it, synced.
func keep(path string, keys []string, got chain.Signed, msg []byte) (state string, err error) {
	ioError := func(err error) error { return fail.New(fail.IOError, "", "%s: %w", path, err) }
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", ioError(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return "", ioError(err)
	}
	before, whole, err := parseWitness(f)
	if err != nil {
		return "", ioError(err)
	}
	known, fork := false, false
	last := uint64(0)
	for _, k := range before {
		old, err := chain.OpenNote([]byte(k.Note), keys)
		switch {
		case err != nil:
			continue // by a key that is not trusted here any more
		case old.Log != got.Log:
			return "", fail.New(fail.Conflict, "keep one file a log", "%s is of log %s, and the note of log %s", path, old.Log, got.Log)
		case old.Seq == got.Seq && old.Sha == got.Sha:
			known = true
		case old.Seq == got.Seq:
			fork = true
		}
		last = max(last, old.Seq)
	}
	switch {
	case fork && known: // told before, and told again
		return "fork", nil
	case known:
		return "known", nil
	case fork:
		state = "fork"
	default:
		state = "new"
	}
	if got.Seq < last && !fork {
		return "", fail.New(fail.Conflict, "a log only grows: look at its host", "seq %d is below %d, which was kept before", got.Seq, last)
	}
	line, err := wire.Encode(kept{time.Now().UTC().Format(time.RFC3339), string(msg)})
	if err != nil {
		return "", err
	}
	if !whole {
		line = append([]byte("\n"), line...)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return "", ioError(err)
	}
	if err := f.Sync(); err != nil {
		return "", ioError(err)
	}
	return state, nil
}

// parseWitness reads the whole lines of a witness's file; whole is false where
// the last was not written whole.
func parseWitness(r io.Reader) (notes []kept, whole bool, err error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, false, err
	}
	for line := range bytes.Lines(b) {
		var k kept
		v, err := wire.Parse(line, wire.Request)
		if err == nil && wire.DecodeRecord(v, &k) == nil && k.Note != "" {
			notes = append(notes, k)
		}
	}
	return notes, len(b) == 0 || b[len(b)-1] == '\n', nil
}

func readWitness(path string) ([]kept, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail.New(fail.NotFound, "", "witness %s: no such file", path)
	}
	if err != nil {
		return nil, fail.New(fail.IOError, "", "%w", err)
	}
	defer f.Close()
	notes, _, err := parseWitness(f)
	return notes, err
}
