package trail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

// Who stands on every record of a command.
type Who struct{ Persona, Session string }

// Trail appends to the chain of a store.
type Trail struct {
	// SegmentBytes is the size at which a segment ends and the next begins.
	SegmentBytes int64

	st  *store.Store
	who Who
}

// DefaultSegmentBytes is the SegmentBytes of New.
const DefaultSegmentBytes = 64 << 20

// New returns the trail of st for records by who.
func New(st *store.Store, who Who) *Trail {
	return &Trail{SegmentBytes: DefaultSegmentBytes, st: st, who: who}
}

const lockWait = 10 * time.Second

// Append puts records on the chain, in order and together, and returns when
// they are on the disk, with the number of the last. Errors are of kind
// audit_unavailable, busy when another writer holds the lock for 10 s, or
// bad_input for a record that is too long; then nothing of them counts, but
// after a sync that failed nobody can say.
//
// The lock covers reading the head and writing; it is given up before the sync,
// so that the kernel syncs many writers at once.
func (t *Trail) Append(ctx context.Context, recs ...Record) (uint64, error) {
	f, seq, err := t.write(ctx, recs)
	if err == nil {
		defer f.Close()
		if err = t.sync(f); err == nil {
			return seq, nil
		}
	}
	return 0, refusal(err)
}

// refusal gives an error of the trail its kind.
func refusal(err error) error {
	switch k := fail.KindOf(err); {
	case k == fail.BadInput: // too long
		return fmt.Errorf("trail: %w", err)
	case k == fail.Busy, errors.Is(err, context.Canceled):
		return refused{fmt.Errorf("trail: %w", err)}
	}
	e := fail.Of(err)
	return refused{&fail.Error{Kind: fail.AuditUnavailable, Message: "trail: " + e.Message, Hint: e.Hint, Details: e.Details, Err: err}}
}

// ErrRefused is what every error of Append is: to append the refusal that
// follows would only wait for the same thing again.
var ErrRefused = errors.New("the trail takes no record")

type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

func (r refused) Is(target error) bool { return target == ErrRefused }

// write appends under the lock and returns the open segment.
func (t *Trail) write(ctx context.Context, recs []Record) (*os.File, uint64, error) {
	unlock, err := t.st.Lock(ctx, t.st.AuditFile("lock"), lockWait)
	if err != nil {
		return nil, 0, err
	}
	defer unlock()
	if err := t.ready(); err != nil {
		return nil, 0, err
	}
	s, err := t.newest()
	if err == nil && s.size >= t.SegmentBytes {
		var next *segment
		switch next, err = t.rotate(s); {
		case err == nil:
			s = next
		case allEnds(recs) && noSpace(err) && !s.head.rotate: // they fit in what was reserved
			err = nil
		default:
			s.f.Close()
		}
	}
	if err != nil {
		return nil, 0, err
	}
	if err := s.extend(t, recs); err != nil {
		s.f.Close()
		return nil, 0, fmt.Errorf("%s: %w", s.f.Name(), err)
	}
	return s.f, s.head.seq, nil
}

// extend writes records, in one write.
func (s *segment) extend(t *Trail, recs []Record) error {
	out, h, err := s.text(t, recs)
	if err != nil || len(out) == 0 {
		return err
	}
	// Ends of calls that run may use what was reserved; nothing else begins
	// when no more can be.
	if err := s.reserve(int64(len(out))); err != nil && !allEnds(recs) {
		return err
	}
	if err := s.append(out); err != nil {
		return err
	}
	s.head, s.size = h, s.size+int64(len(out))
	return nil
}

// text is what a segment gets for records, and the head after them: where a line
// was torn, first the newline that ends it and the record that names it.
func (s *segment) text(t *Trail, recs []Record) ([]byte, head, error) {
	if s.head.torn == nil {
		return t.lines(s.head, recs)
	}
	recs = append([]Record{{Event: TornEvent, Details: s.head.torn}}, recs...)
	out, after, err := t.lines(s.head, recs)
	return append([]byte("\n"), out...), after, err
}

// lines returns the lines of records that follow a head, and the head after
// them.
func (t *Trail) lines(h head, recs []Record) (out []byte, after head, err error) {
	after = head{seq: h.seq, sha: h.sha}
	for _, r := range recs {
		after.seq++
		t.fill(&r, after.seq)
		payload, err := wire.Encode(r)
		if err != nil {
			return nil, h, err
		}
		if len(payload) > chain.MaxPayload {
			return nil, h, fail.New(fail.BadInput, "", "a record of %d bytes, at most %d", len(payload), chain.MaxPayload)
		}
		out, after.sha = chain.AppendLine(out, payload, after.sha)
	}
	return out, after, nil
}

// allEnds says whether records only end what has begun.
func allEnds(recs []Record) bool {
	for _, r := range recs {
		if r.Event != Called && r.Event != TornEvent && (r.Event != Refused || r.Run == "") {
			return false
		}
	}
	return true
}

func noSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// sync brings a file or directory of the chain to the disk. Where that fails the
// kernel may have dropped the pages: what is on the disk is not known, and a
// second sync would lie. So nothing is appended from then on, see Recover.
func (t *Trail) sync(f *os.File) error {
	err := store.Retry(func() error { return unix.Fdatasync(int(f.Fd())) })
	if err == nil {
		return nil
	}
	return t.unsynced(f, err)
}

// unsynced marks the chain after a sync of f that failed.
func (t *Trail) unsynced(f *os.File, err error) error {
	// As little as can be asked of a disk that fails: a name; else a mode that
	// no writer takes.
	mark, markErr := os.OpenFile(t.st.AuditFile("FAILED"), os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if markErr == nil {
		fmt.Fprintf(mark, "sync %s: %s\n", f.Name(), err)
		mark.Close()
	} else if !errors.Is(markErr, unix.ELOOP) {
		f.Chmod(unwritable)
	}
	return fail.New(fail.AuditUnavailable, "forge-audit recover", "sync %s: %w: whether the record is on the disk is not known", f.Name(), err)
}

const (
	reserveAhead = 2 << 20 // bytes a fresh reservation goes beyond the end
	reserveLeast = 1 << 20 // bytes below which one is made
)

// reserve sees to it that the disk has room for n bytes and a megabyte after
// them, so that a full disk is met by a call that has not begun. It keeps no
// state: what is reserved is what the file has blocks for. File systems that
// cannot reserve are taken as they are.
func (s *segment) reserve(n int64) error {
	end := s.size + n
	if s.blocks*512 >= end+reserveLeast {
		return nil
	}
	err := store.Retry(func() error { return unix.Fallocate(int(s.f.Fd()), unix.FALLOC_FL_KEEP_SIZE, s.size, n+reserveAhead) })
	if noSpace(err) {
		return fail.New(fail.AuditUnavailable, "free space on the file system of "+filepath.Dir(s.f.Name()), "reserve space for the trail: %w", err)
	}
	return nil
}

// TimeForm is that of a record's ts: its texts sort as its times do.
const TimeForm = "2006-01-02T15:04:05.000000000Z"

// fill completes r with what is the same for every record.
func (t *Trail) fill(r *Record, seq uint64) {
	var up unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	r.Seq, r.Sev = seq, severity(r.Event)
	r.TS = t.st.Now().UTC().Format(TimeForm)
	r.Persona, r.Session = t.who.Persona, t.who.Session
	r.Boot, r.Up, r.PID, r.UID = bootID(), up.Nano()/1e6, os.Getpid(), os.Getuid()
}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
