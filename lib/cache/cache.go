// Package cache keeps the answers of deterministic calls. An entry is found by
// the tool's digest, the very bytes of the input, and the content of every file
// bound read-only; it carries its own digest, so an edited one is none.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

const (
	format = "forge.cache/1"

	// MaxBytes is the largest answer that is kept.
	MaxBytes = 1 << 20
	// MaxAge is how long an answer is kept.
	MaxAge = 30 * 24 * time.Hour
)

// Entry is a stored answer.
type Entry struct {
	Run      string     // the run that gave it
	Envelope wire.Value // as the tool printed it
}

// File is a file that a run read, by content and by what stat said of it.
type File struct {
	Path   string
	sha    [32]byte
	before unix.Stat_t
}

// MaxHashed is the largest file that is hashed: a call that reads a larger one
// is not cached.
const MaxHashed = 256 << 20

// ErrNotCached is why Hash did not.
var ErrNotCached = errors.New("too large to be part of a key")

// Hash reads an open file, which the run has not yet seen. The error is
// ErrNotCached for one over MaxHashed, the context's where that ends first.
func Hash(ctx context.Context, path string, f *os.File) (File, error) {
	out := File{Path: path}
	if err := unix.Fstat(int(f.Fd()), &out.before); err != nil {
		return out, fail.New(fail.IOError, "", "%w", err)
	}
	if out.before.Size > MaxHashed {
		return out, ErrNotCached
	}
	h := sha256.New()
	for read := int64(0); ; {
		n, err := io.CopyN(h, f, 1<<20)
		if read += n; read > MaxHashed {
			return out, ErrNotCached
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return out, fail.New(fail.IOError, "", "%w", err)
		}
	}
	h.Sum(out.sha[:0])
	return out, nil
}

// Unchanged says whether the file is still the one that was hashed.
func (f File) Unchanged() bool {
	var now unix.Stat_t
	return unix.Stat(f.Path, &now) == nil && now.Dev == f.before.Dev && now.Ino == f.before.Ino &&
		now.Size == f.before.Size && now.Mtim == f.before.Mtim && now.Ctim == f.before.Ctim
}

// Key returns the key of a call. Each part is preceded by its length, so no two
// calls share one.
func Key(digest string, input []byte, files []File) string {
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	part([]byte(format))
	part([]byte(digest))
	part(input)
	for _, f := range files {
		part([]byte(f.Path))
		part(f.sha[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Get returns the entry of a key; nil for none, one that is too old, or one
// that is not what was stored.
func Get(st *store.Store, key string) *Entry {
	b, err := store.ReadFile(st.Cache(key), 2*MaxBytes)
	if err != nil {
		return nil
	}
	if _, ok := wire.Sealed(b); !ok {
		return nil
	}
	var f struct {
		Format   string     `json:"format"`
		Key      string     `json:"key"`
		Run      string     `json:"run"`
		Stored   string     `json:"stored"`
		Envelope wire.Value `json:"envelope"`
	}
	v, err := wire.Parse(b, wire.Output)
	if err != nil || wire.DecodeRecord(v, &f) != nil || f.Format != format || f.Key != key {
		return nil
	}
	stored, err := time.Parse(time.RFC3339, f.Stored)
	if age := st.Now().Sub(stored); err != nil || age > MaxAge || age < -time.Minute {
		return nil
	}
	// As a tool's output is read: what it printed as data stays text.
	envelope, err := wire.Parse(f.Envelope.Bytes(), wire.Output)
	if err != nil {
		return nil
	}
	return &Entry{f.Run, envelope}
}

// Put stores an answer, unless it is too large, and says so. It is renamed, not synced:
// losing it costs a run.
func Put(st *store.Store, key string, e Entry) (stored bool, err error) {
	line, _ := wire.Seal(wire.ObjectOf(
		wire.Member{Name: "format", Value: wire.StringOf(format)},
		wire.Member{Name: "key", Value: wire.StringOf(key)},
		wire.Member{Name: "run", Value: wire.StringOf(e.Run)},
		wire.Member{Name: "stored", Value: wire.StringOf(st.Now().UTC().Format(time.RFC3339))},
		wire.Member{Name: "envelope", Value: e.Envelope},
	))
	if len(line) > MaxBytes {
		return false, nil
	}
	err = st.WriteFile(st.Cache(key), line, store.Renamed)
	return err == nil, err
}
