package trail

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	st  *store.Store
	who Who
}

// New returns the trail of st for records by who.
func New(st *store.Store, who Who) *Trail { return &Trail{st, who} }

const lockWait = 10 * time.Second

// Append puts records on the chain, in order and together, and returns when
// they are on the disk, with the number of the last. Errors are of kind
// audit_unavailable, busy when another writer holds the lock for 10 s, or
// bad_input for a record that is too long; then nothing of them counts.
//
// The lock covers reading the head and writing; it is given up before the sync,
// so that the kernel syncs many writers at once (notes on the trail, §3).
func (t *Trail) Append(ctx context.Context, recs ...Record) (uint64, error) {
	f, seq, err := t.write(ctx, recs)
	if err == nil {
		defer f.Close()
		if err = unix.Fdatasync(int(f.Fd())); err == nil {
			return seq, nil
		}
		// The kernel may have dropped the pages: what is on the disk is
		// unknown, and a second sync would lie.
		t.st.WriteFile(t.st.AuditFile("FAILED"), fmt.Appendf(nil, "fdatasync: %s\n", err), store.Synced)
	}
	switch k := fail.KindOf(err); {
	case k == fail.BadInput: // too long
		return 0, fmt.Errorf("trail: %w", err)
	case k == fail.Busy, errors.Is(err, context.Canceled):
		return 0, refused{fmt.Errorf("trail: %w", err)}
	}
	e := fail.Of(err)
	return 0, refused{&fail.Error{Kind: fail.AuditUnavailable, Message: "trail: " + e.Message, Hint: e.Hint, Details: e.Details, Err: err}}
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
	path := t.st.Segment(1)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, err
	}
	seq, err := t.extend(f, recs)
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return f, seq, nil
}

// extend reads the head of the segment and writes the records after it.
func (t *Trail) extend(f *os.File, recs []Record) (uint64, error) {
	size, err := safe(f)
	if err != nil {
		return 0, err
	}
	h, err := readHead(f, size)
	if err != nil {
		return 0, err
	}
	var out []byte
	add := func(r Record) error {
		h.seq++
		t.fill(&r, h.seq)
		payload, err := wire.Encode(r)
		if err != nil {
			return err
		}
		if len(payload) > chain.MaxPayload {
			return fail.New(fail.BadInput, "", "a record of %d bytes, at most %d", len(payload), chain.MaxPayload)
		}
		out, h.sha = chain.AppendLine(out, payload, h.sha)
		return nil
	}
	if h.torn != nil {
		out = append(out, '\n')
		if err := add(Record{Event: TornEvent, Details: h.torn}); err != nil {
			return 0, err
		}
	}
	for _, r := range recs {
		if err := add(r); err != nil {
			return 0, err
		}
	}
	n, err := f.Write(out)
	if n == len(out) && err == nil {
		return h.seq, nil
	}
	if err == nil {
		err = io.ErrShortWrite
	}
	if n > 0 {
		// Nothing was acknowledged and the lock is ours: take it back. Where
		// that is refused (chattr +a) the next writer heals it.
		f.Truncate(size)
	}
	return 0, err
}

// fill completes r with what is the same for every record.
func (t *Trail) fill(r *Record, seq uint64) {
	var up unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	r.Seq, r.Sev = seq, severity(r.Event)
	r.TS = t.st.Now().UTC().Format("2006-01-02T15:04:05.000000000Z")
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

// safe refuses a segment that another user could have prepared.
func safe(f *os.File) (size int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0, errors.New("not a regular file")
	case int(st.Uid) != os.Geteuid():
		return 0, fmt.Errorf("owned by uid %d", st.Uid)
	case st.Mode&0o7777 != 0o600:
		return 0, fail.New(fail.AuditUnavailable, "chmod 600 "+f.Name(), "mode %04o, want 0600", st.Mode&0o7777)
	}
	return st.Size, nil
}

// head is where the chain goes on.
type head struct {
	seq  uint64
	sha  chain.Hash
	torn *chain.Torn // what follows the last good line, to be named
}

// readHead finds the last good line of a segment from its end: it costs the
// same however long the chain is. Damage that a crash cannot explain is an
// error: the chain does not go on over it.
func readHead(f *os.File, size int64) (head, error) {
	for span := int64(4 << 10); ; span *= 4 {
		from := max(0, size-span)
		buf := make([]byte, size-from)
		if _, err := f.ReadAt(buf, from); err != nil {
			return head{}, err
		}
		h, enough, err := parseHead(buf, from)
		if enough {
			return h, err
		}
		if from == 0 || span > 4*chain.MaxTorn {
			return head{}, errDamaged()
		}
	}
}

func errDamaged() error {
	return fail.New(fail.AuditUnavailable, "forge-audit verify names the line", "the last line does not verify")
}

// parseHead looks for the head in the last bytes of a segment, which begin at
// offset from. enough is false when earlier bytes are needed to tell.
func parseHead(buf []byte, from int64) (h head, enough bool, err error) {
	// last is the last line that stands by itself; before ends the line before.
	end := bytes.LastIndexByte(buf, '\n') + 1
	var last chain.Line
	var start int
	for ; ; end = start {
		if start = bytes.LastIndexByte(buf[:max(0, end-1)], '\n') + 1; end == 0 || start == 0 && from > 0 {
			return head{}, false, nil
		}
		var reason chain.Reason
		if last, reason = chain.Parse(buf[start:end]); reason == "" {
			break
		}
		if end-start > chain.MaxTorn {
			return head{}, true, errDamaged()
		}
	}
	follows, enough := linked(buf[:start], from, last)
	if !enough || !follows {
		return head{}, enough, errDamaged()
	}
	h = head{seq: last.Seq, sha: last.Sha}
	rest := buf[end:]
	if len(rest) == 0 {
		return h, true, nil
	}
	// A whole line that does not stand is no crash of ours, unless the writer
	// that was healing it was stopped in turn.
	nl := bytes.LastIndexByte(rest, '\n')
	healing := nl >= 0 && nl < len(rest)-1 && chain.InterruptedHeal(rest[nl+1:], h.seq+1)
	if len(rest) > chain.MaxTorn || nl >= 0 && !healing {
		return head{}, true, errDamaged()
	}
	at := from + int64(end)
	h.torn = torn(at, rest)
	// What lacks only its newline counts: a record, or the one that names the
	// fragment before it.
	l, reason := chain.Parse(append(bytes.Clone(rest[nl+1:]), '\n'))
	if reason != "" || l.Prev != h.sha || l.Seq != h.seq+1 {
		return h, true, nil
	}
	if nl >= 0 {
		if t, ok := TornOf(l.Payload); !ok || t != *torn(at, rest[:nl]) {
			return head{}, true, errDamaged()
		}
	}
	h.torn = torn(at+int64(nl)+1, rest[nl+1:])
	h.torn.Adopted = true
	h.seq, h.sha = l.Seq, l.Sha
	return h, true, nil
}

// torn names the bytes of a fragment.
func torn(at int64, fragment []byte) *chain.Torn {
	sum := sha256.Sum256(fragment)
	return &chain.Torn{At: at, Len: int64(len(fragment)), SHA256: hex.EncodeToString(sum[:])}
}

// linked says whether a line continues the text before it: the line before, or
// the fragment that it names, or nothing if it is the first.
func linked(before []byte, from int64, l chain.Line) (follows, enough bool) {
	if len(before) == 0 {
		return l.Seq == 1 && l.Prev == chain.Zero, from == 0
	}
	if t, ok := TornOf(l.Payload); ok && !t.Adopted {
		return t.At+t.Len+1 == from+int64(len(before)), true
	}
	start := bytes.LastIndexByte(before[:len(before)-1], '\n') + 1
	if start == 0 && from > 0 {
		return false, false
	}
	p, reason := chain.Parse(before[start:])
	return reason == "" && p.Sha == l.Prev && p.Seq+1 == l.Seq, true
}

// ready makes the chain where there is none, and refuses where there was one.
func (t *Trail) ready() error {
	exists := func(path string) (bool, error) {
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	dir, err := os.Lstat(t.st.Audit())
	if err != nil {
		return err
	}
	if !dir.IsDir() || dir.Mode().Perm()&0o077 != 0 {
		return fail.New(fail.AuditUnavailable, "chmod 700 "+t.st.Audit(), "%s: mode %04o, want a directory of 0700", t.st.Audit(), dir.Mode().Perm())
	}
	failed, err1 := exists(t.st.AuditFile("FAILED"))
	id, err2 := exists(t.st.AuditFile("id"))
	segment, err3 := exists(t.st.Segment(1))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	switch {
	case failed:
		return fail.New(fail.AuditUnavailable, "forge-audit verify, then remove "+t.st.AuditFile("FAILED"),
			"an earlier record may not have reached the disk (%s exists)", t.st.AuditFile("FAILED"))
	case id && segment:
		return nil
	case segment:
		return t.identify()
	case id:
		return fail.New(fail.AuditUnavailable, "restore it from a backup", "%s is missing", t.st.Segment(1))
	}
	if ledger, err := os.ReadDir(t.st.LedgerDir()); err == nil && len(ledger) > 0 {
		return fail.New(fail.AuditUnavailable, "restore "+t.st.Audit()+" from a backup", "the chain is gone, and the ledger is not empty")
	}
	return t.genesis()
}

// genesis writes the first line and then its name: a crash in between is healed
// by identify.
func (t *Trail) genesis() error {
	var id [16]byte
	rand.Read(id[:])
	r := Record{Event: Genesis, Details: map[string]any{"v": 1, "log": hex.EncodeToString(id[:])}}
	t.fill(&r, 1)
	payload, err := wire.Encode(r)
	if err != nil {
		return err
	}
	line, _ := chain.AppendLine(nil, payload, chain.Zero)
	if err := t.st.CreateFile(t.st.Segment(1), line, store.Synced); err != nil {
		return err
	}
	return t.identify()
}

// identify writes the chain's id from its first line.
func (t *Trail) identify() error {
	f, err := os.Open(t.st.Segment(1))
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 4<<10)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	line, _, _ := bytes.Cut(buf[:n], []byte("\n"))
	l, reason := chain.Parse(append(line, '\n'))
	if reason != "" {
		return errDamaged()
	}
	id, ok := logID(l.Payload)
	if !ok {
		return errDamaged()
	}
	return t.st.WriteFile(t.st.AuditFile("id"), []byte(id+"\n"), store.Synced)
}

// logID reads the chain's id from an audit.genesis payload.
func logID(payload []byte) (string, bool) {
	var p struct {
		Details struct {
			Log string `json:"log"`
		} `json:"details"`
	}
	ok := hasEvent(payload, Genesis) && json.Unmarshal(payload, &p) == nil && p.Details.Log != ""
	return p.Details.Log, ok
}
