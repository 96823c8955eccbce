package trail

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
)

const maxKey = 4 << 10

// NewKey makes keys/NAME.key, which signs checkpoints, and keys/NAME.pub, which
// verify trusts. Old ones stay: what they signed goes on counting. Errors:
// name_invalid, conflict.
func NewKey(st *store.Store, name string) (public string, err error) {
	if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != "" || name[0] == '.' {
		return "", fail.New(fail.NameInvalid, "use letters, digits, - _ and .", "key name %q", name)
	}
	private, public, err := chain.NewKey(rand.Reader, name)
	if err != nil {
		return "", err
	}
	base := filepath.Join(st.Keys(), name)
	if err := st.CreateFile(base+".key", []byte(private+"\n"), store.Synced); errors.Is(err, fs.ErrExist) {
		return "", fail.New(fail.Conflict, "choose another name; the old key stays and what it signed goes on counting", "key %q is there already", name)
	} else if err != nil {
		return "", err
	}
	return public, st.WriteFile(base+".pub", []byte(public+"\n"), store.Synced)
}

// SigningKey reads a private key: a file, or "" for the newest of the store.
// Errors: trust_missing, io_error for one that others may read.
func SigningKey(st *store.Store, path string) (private string, err error) {
	if path == "" {
		names, err := store.List(st.Keys(), ".key")
		if err != nil {
			return "", err
		}
		newest := func(a, b string) int {
			fa, erra := os.Stat(a)
			fb, errb := os.Stat(b)
			if erra != nil || errb != nil {
				return strings.Compare(a, b)
			}
			return fa.ModTime().Compare(fb.ModTime())
		}
		if len(names) == 0 {
			return "", fail.New(fail.TrustMissing, "forge-audit keygen makes one", "there is no key in %s", st.Keys())
		}
		path = slices.MaxFunc(names, newest)
	}
	fi, err := os.Stat(path)
	if err == nil && fi.Mode().Perm()&0o077 != 0 {
		return "", fail.New(fail.IOError, "chmod 600 "+path, "key %s: mode %04o, want 0600", path, fi.Mode().Perm())
	}
	return readKey(path)
}

func readKey(path string) (string, error) {
	b, err := store.ReadFile(path, maxKey)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fail.New(fail.TrustMissing, "forge-audit keygen makes a pair", "key %s: no such file", path)
	}
	return strings.TrimSpace(string(b)), err
}

// TrustedKeys returns the public keys of the store and of further files.
func TrustedKeys(st *store.Store, files []string) ([]string, error) {
	var out []string
	var own []string
	if st != nil {
		var err error
		if own, err = store.List(st.Keys(), ".pub"); err != nil {
			return nil, err
		}
	}
	for _, path := range append(own, files...) {
		key, err := readKey(path)
		if err != nil {
			return nil, err
		}
		if _, err := note.NewVerifier(key); err != nil {
			return nil, fail.New(fail.TrustMissing, "", "key %s: %w", path, err)
		}
		if !slices.Contains(out, key) { // named, and in keys/ too
			out = append(out, key)
		}
	}
	return out, nil
}

// Notes is what Load found.
type Notes struct {
	Trusted []chain.Signed
	Unknown int    // notes that no trusted key signed
	Broken  string // the first note whose signature by a trusted key does not fit
}

// Load reads the store's checkpoints under trusted keys. With newest it stops at
// the newest that one of them signed, and beside it loads the one that stands
// where the first segment begins: what Options.SinceCheckpoint needs, however
// many there are.
func Load(st *store.Store, keys []string, newest bool) (n Notes, err error) {
	paths, err := store.List(st.Checkpoints(), ".note")
	if err != nil {
		return n, err
	}
	begin := uint64(0)
	if newest {
		if begin, err = beginning(st); err != nil {
			return n, err
		}
	}
	slices.Reverse(paths) // by seq, the newest first
	for _, path := range paths {
		if seq, _, ok := noteName(path); newest && len(n.Trusted) > 0 && !(ok && seq == begin) {
			continue
		}
		b, err := store.ReadFile(path, maxKey)
		if errors.Is(err, fs.ErrNotExist) { // pruned meanwhile
			continue
		}
		if err != nil {
			return n, err
		}
		n.Add(b, keys, path)
	}
	return n, nil
}

// beginning is the seq before that of the chain's first line, 0 where nothing
// was pruned.
func beginning(st *store.Store) (uint64, error) {
	numbers, err := st.Segments()
	if err != nil || len(numbers) == 0 || numbers[0] == 1 {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return 0, err
	}
	l, err := firstLine(st, numbers[0])
	if errors.Is(err, fs.ErrNotExist) || l.Seq == 0 {
		return 0, nil
	}
	return l.Seq - 1, err
}

// Add opens a note under trusted keys; where is told if it was altered.
func (n *Notes) Add(msg []byte, keys []string, where string) {
	s, err := chain.OpenNote(msg, keys)
	if err == nil {
		n.Trusted = append(n.Trusted, s)
		return
	}
	if _, unknown := errors.AsType[*note.UnverifiedNoteError](err); unknown {
		n.Unknown++
	} else if n.Broken == "" {
		n.Broken = fmt.Sprintf("%s: %s", where, err)
	}
}

// noteName reads the name of a note's file: seq and key.
func noteName(path string) (seq uint64, key string, ok bool) {
	digits, key, ok := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".note"), "-")
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, key, ok && err == nil
}

// Checkpoint verifies the chain from the last checkpoint of a key on, by reading
// the disk again, and signs its head and the ends of the segments since. It
// never signs a lower seq, nor another sha at a seq that was signed. It returns
// the signed note of the head; nil where nothing came since. Errors: those of a
// chain that is not intact, trust_missing.
func Checkpoint(ctx context.Context, t *Trail, private string) (*chain.Checkpoint, []byte, error) {
	st := t.st
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, nil, fail.New(fail.TrustMissing, "forge-audit keygen makes one", "the key does not sign: %w", err)
	}
	public, err := chain.Public(private)
	if err != nil {
		return nil, nil, fail.New(fail.TrustMissing, "forge-audit keygen makes one", "the key does not sign: %w", err)
	}
	keys, err := TrustedKeys(st, nil)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Contains(keys, public) {
		keys = append(keys, public)
	}
	notes, err := Load(st, keys, true)
	if err != nil {
		return nil, nil, err
	}
	own, err := Load(st, []string{public}, true)
	if err != nil {
		return nil, nil, err
	}
	if notes.Broken != "" {
		return nil, nil, fail.New(fail.Tampered, "forge-audit verify", "a checkpoint was altered: %s", notes.Broken)
	}
	r, err := Verify(st, Options{
		SinceCheckpoint: true, Notes: append(notes.Trusted, own.Trusted...),
		AllNotes: func() ([]chain.Signed, error) {
			all, err := Load(st, keys, false)
			return all.Trusted, err
		},
	})
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return nil, nil, err
	}
	last := uint64(0) // that this key signed
	for _, n := range own.Trusted {
		last = max(last, n.Seq)
	}
	if r.Head.Seq == last || r.Head.Seq == last+1 && headIs(st, r.Head, CheckpointEvent) {
		return nil, nil, nil
	}
	id, err := store.ReadFile(st.AuditFile("id"), 1<<10)
	if err != nil {
		return nil, nil, err
	}
	c := chain.Checkpoint{Log: strings.TrimSpace(string(id)), Time: st.Now()}
	if err := signEnds(st, c, private, last, r.Head.Segment); err != nil {
		return nil, nil, err
	}
	c.Seq, c.Sha, c.Segment, c.End = r.Head.Seq, r.Head.Sha, r.Head.Segment, r.Head.End
	msg, err := signInto(st, c, private)
	if err != nil {
		return nil, nil, err
	}
	_, err = t.Append(ctx, Record{Event: CheckpointEvent, Details: map[string]any{"seq": c.Seq, "sha": c.Sha, "key": signer.Name()}})
	return &c, msg, err
}

// headIs says whether the last line is a record of that event.
func headIs(st *store.Store, h Head, ev Event) bool {
	l, ok := lineBefore(st, h.Segment, h.End)
	return ok && hasEvent(l.Payload, ev)
}

// signEnds signs the last line of each closed segment that came after seq: prune
// wants a checkpoint there.
func signEnds(st *store.Store, c chain.Checkpoint, private string, seq uint64, current int) error {
	numbers, err := st.Segments()
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if n >= current {
			break
		}
		f, size, err := openSegment(st, n)
		if err != nil {
			return err
		}
		f.Close()
		l, ok := lineBefore(st, n, size)
		if !ok || l.Seq <= seq {
			continue
		}
		c.Seq, c.Sha, c.Segment, c.End = l.Seq, l.Sha.String(), n, size
		if _, err := signInto(st, c, private); err != nil {
			return err
		}
	}
	return nil
}

func signInto(st *store.Store, c chain.Checkpoint, private string) ([]byte, error) {
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, err
	}
	msg, err := chain.Sign(c, private)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(st.Checkpoints(), fmt.Sprintf("%020d-%s.note", c.Seq, signer.Name()))
	return msg, st.WriteFile(path, msg, store.Synced)
}
