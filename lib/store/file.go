package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/fail"
)

const (
	tempPrefix = ".new-"
	tempAge    = time.Hour
)

// Sync says how much of a write is on the disk when it returns.
type Sync bool

// Synced data and name are on the disk; a Renamed file is whole whatever
// happens but may be lost with the power.
const (
	Synced  Sync = true
	Renamed Sync = false
)

// MakeDir makes a directory of the store, and the store itself, 0700.
func (s *Store) MakeDir(dir string) error {
	if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ioError(err)
	}
	if within(dir, s.Root) {
		path := filepath.Join(s.Root, "README")
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return s.WriteFile(path, []byte(readme), Renamed)
		}
	}
	return nil
}

// WriteFile writes a file whole, in place of the one of that name: temporary
// name in the same directory, sync, rename, sync the directory.
func (s *Store) WriteFile(path string, data []byte, sync Sync) error {
	err := s.write(path, data, sync, os.Rename)
	if errors.Is(err, fs.ErrExist) { // a directory is in the way
		return ioError(err)
	}
	return err
}

// CreateFile is WriteFile for a name that must be free: the error is
// fs.ErrExist where it is not.
func (s *Store) CreateFile(path string, data []byte, sync Sync) error {
	return s.write(path, data, sync, func(from, to string) error {
		if err := os.Link(from, to); err != nil {
			return err
		}
		return os.Remove(from)
	})
}

func (s *Store) write(path string, data []byte, sync Sync, place func(from, to string) error) error {
	dir := filepath.Dir(path)
	if err := s.MakeDir(dir); err != nil {
		return err
	}
	if filepath.Dir(dir) != filepath.Join(s.Root, "runs") { // a run's directory has one writer
		s.sweep(dir)
	}
	var name [8]byte
	rand.Read(name[:])
	temp := filepath.Join(dir, tempPrefix+hex.EncodeToString(name[:]))
	// The directory is open before the rename: an error of its sync is then
	// reported to us and to nobody else.
	d, err := os.Open(dir)
	if err != nil {
		return ioError(err)
	}
	defer d.Close()
	if err := writeTemp(temp, data, sync); err != nil {
		os.Remove(temp)
		return ioError(err)
	}
	if err := place(temp, path); err != nil {
		os.Remove(temp)
		if errors.Is(err, fs.ErrExist) {
			return err
		}
		return ioError(err)
	}
	if !sync {
		return nil
	}
	if err := d.Sync(); err != nil {
		return ioError(fmt.Errorf("%w: %w", ErrUnsynced, err))
	}
	return nil
}

// ErrUnsynced is the cause of an error about a file that stands under its name,
// which may not have reached the disk.
var ErrUnsynced = errors.New("the directory was not synced")

func writeTemp(temp string, data []byte, sync Sync) error {
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return f.Close()
}

// sweepEvery is how often a directory is looked over for what killed writers
// left: often enough, and no cost to those in between.
const sweepEvery = time.Hour

// sweep removes the temporary files in dir that are older than an hour, if that
// was not done within the last. A marker's time says when it was.
func (s *Store) sweep(dir string) {
	marker := filepath.Join(dir, ".swept")
	now := s.Now()
	if fi, err := os.Lstat(marker); err == nil && now.Sub(fi.ModTime()) < sweepEvery && fi.ModTime().Before(now.Add(sweepEvery)) {
		return
	}
	f, err := os.OpenFile(marker, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	f.Close()
	os.Chtimes(marker, now, now)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if fi, err := e.Info(); err == nil && now.Sub(fi.ModTime()) > tempAge {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// ErrTooLarge is the cause of an error of ReadFile about a file over its limit.
var ErrTooLarge = errors.New("too large")

// ReadFile returns a regular file of at most limit bytes, never following a
// link at its end. The error is fs.ErrNotExist where there is none, else of
// kind io_error.
func ReadFile(path string, limit int) ([]byte, error) { return readFile(path, limit, false) }

// ReadOwn is ReadFile for a file that decides what may be done: another user
// must neither own it nor be able to write it.
func ReadOwn(path string, limit int) ([]byte, error) { return readFile(path, limit, true) }

func readFile(path string, limit int, own bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, ioError(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, ioError(err)
	}
	if !fi.Mode().IsRegular() {
		return nil, fail.New(fail.IOError, "", "read %q: not a regular file", path)
	}
	if own {
		if err := owned(path, fi); err != nil {
			return nil, err
		}
	}
	if fi.Size() > int64(limit) {
		return nil, fail.New(fail.IOError, "", "read %q: %d bytes, at most %d: %w", path, fi.Size(), limit, ErrTooLarge)
	}
	b := make([]byte, 0, fi.Size()+1)
	for {
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, ioError(err)
		case len(b) > limit:
			return nil, fail.New(fail.IOError, "", "read %q: more than %d bytes", path, limit)
		case len(b) == cap(b):
			b = append(b, 0)[:len(b)]
		}
	}
}

// Lock takes the lock at path, making the file where it is missing, and returns
// the function that gives it up. Errors: busy when wait passes first.
func (s *Store) Lock(ctx context.Context, path string, wait time.Duration) (unlock func(), err error) {
	if err := s.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, ioError(err)
	}
	if err := flock(ctx, f, wait); err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// flock waits in the kernel's queue, so that nobody starves; a waiter that gave
// up releases the lock as soon as it is handed it.
func flock(ctx context.Context, f *os.File, wait time.Duration) error {
	err := Retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return fail.New(fail.IOError, "", "lock %q: %w", f.Name(), err)
	}
	var state atomic.Int32 // 0 waiting, 1 taken, 2 given up
	done := make(chan error, 1)
	go func() {
		err := Retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) })
		if !state.CompareAndSwap(0, 1) {
			f.Close()
			return
		}
		done <- err
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			f.Close()
			return fail.New(fail.IOError, "", "lock %q: %w", f.Name(), err)
		}
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if !state.CompareAndSwap(0, 2) {
		return <-done
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fail.New(fail.Busy, "try again; fuser "+f.Name()+" names who holds it", "lock %q: held for more than %s", f.Name(), wait).
		With("retry_after_s", 1)
}

// Retry calls f until no signal interrupts it: Go's own, which preempt, do.
func Retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
