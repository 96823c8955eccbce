package trail

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"forge/lib/chain"
	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

// segment is the newest file of the chain, open for appending, under the lock.
type segment struct {
	n      int
	f      *os.File
	size   int64
	blocks int64 // of 512 bytes
	head   head
}

// newest opens the last segment and reads its head. A rotation that a writer
// did not finish is finished here.
func (t *Trail) newest() (*segment, error) {
	numbers, err := t.st.Segments()
	if err != nil {
		return nil, err
	}
	s, err := t.open(numbers[len(numbers)-1])
	if err != nil || !s.head.rotate {
		return s, err
	}
	defer s.f.Close()
	next := s.n + 1
	line, err := store.ReadFile(t.st.NextSegment(next), chain.MaxLine)
	l, reason := chain.Parse(line)
	if err != nil || reason != "" || l.Prev != s.head.sha || l.Seq != s.head.seq+1 {
		return nil, fail.New(fail.AuditUnavailable, "restore it from a backup", "%s is missing, and %s says that it follows", t.st.Segment(next), s.f.Name())
	}
	if err := t.appear(next); err != nil {
		return nil, err
	}
	return t.open(next)
}

func (t *Trail) open(n int) (*segment, error) {
	s, err := t.openAny(n)
	if err != nil {
		return nil, err
	}
	if s.head, err = readHead(s.f, s.size); err != nil {
		s.f.Close()
		return nil, fmt.Errorf("%s: %w", s.f.Name(), err)
	}
	return s, nil
}

// openAny opens a segment whose end may not stand.
func (t *Trail) openAny(n int) (*segment, error) {
	path := t.st.Segment(n)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) { // root gets as far as safe
		if fi, statErr := os.Lstat(path); statErr == nil && fi.Mode() == unwritable {
			return nil, fmt.Errorf("%s: %w", path, errUnwritable())
		}
	}
	if err != nil {
		return nil, err
	}
	st, err := safe(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &segment{n: n, f: f, size: st.Size, blocks: st.Blocks}, nil
}

// rotate ends a segment and begins the next. The next one's first line is on
// the disk, under a temporary name, before the line that ends this one: a crash
// leaves either no rotation or one that newest can finish. Records more are the
// last of the old one but that. s is closed where there is a next one.
func (t *Trail) rotate(s *segment, more ...Record) (*segment, error) {
	next := s.n + 1
	end := append(more, Record{Event: RotateEvent, Details: map[string]any{"next": store.SegmentName(next)}})
	out, h, err := s.text(t, end)
	if err != nil {
		return nil, err
	}
	first, _, err := t.lines(h, []Record{{Event: SegmentEvent, Details: map[string]any{"segment": next}}})
	if err != nil {
		return nil, err
	}
	if err := t.placed(s.f, t.st.WriteFile(t.st.NextSegment(next), first, store.Synced)); err != nil {
		return nil, err
	}
	if err := s.append(out); err != nil {
		return nil, err
	}
	s.head = h
	s.head.rotate = true
	if err := t.sync(s.f); err != nil {
		return nil, err
	}
	if err := t.appear(next); err != nil {
		return nil, err
	}
	s.f.Close()
	return t.open(next)
}

// append writes whole lines, or nothing that counts.
func (s *segment) append(out []byte) error {
	n, err := s.f.Write(out)
	if n == len(out) && err == nil {
		return nil
	}
	if err == nil {
		err = io.ErrShortWrite
	}
	if n > 0 {
		// Nothing was acknowledged and the lock is ours: take it back. Where
		// that is refused (chattr +a) the next writer heals it.
		s.f.Truncate(s.size)
	}
	return err
}

// appear gives a prepared segment its name.
func (t *Trail) appear(n int) error {
	d, err := os.Open(t.st.Audit())
	if err != nil {
		return err
	}
	defer d.Close()
	if err := os.Rename(t.st.NextSegment(n), t.st.Segment(n)); err != nil {
		return err
	}
	return t.sync(d)
}

// unwritable is the mode of a segment after a sync that failed, where FAILED
// could not be made.
const unwritable os.FileMode = 0o400

func errUnwritable() error {
	return fail.New(fail.AuditUnavailable, "forge-audit recover", "mode %04o: an earlier record may not have reached the disk", unwritable)
}

// safe refuses a segment that another user could have prepared.
func safe(f *os.File) (st unix.Stat_t, err error) {
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return st, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return st, errors.New("not a regular file")
	case int(st.Uid) != os.Geteuid():
		return st, fmt.Errorf("owned by uid %d", st.Uid)
	case os.FileMode(st.Mode&0o7777) == unwritable:
		return st, errUnwritable()
	case st.Mode&0o7777 != 0o600:
		return st, fail.New(fail.AuditUnavailable, "chmod 600 "+f.Name(), "mode %04o, want 0600", st.Mode&0o7777)
	}
	return st, nil
}

// head is where the chain goes on.
type head struct {
	seq    uint64
	sha    chain.Hash
	torn   *chain.Torn // what follows the last good line, to be named
	rotate bool        // that line is an audit.rotate: the segment has ended
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

// errBroken is the cause of what errDamaged returns.
var errBroken = errors.New("the last line does not verify")

func errDamaged() error {
	return fail.New(fail.AuditUnavailable, "forge-audit verify names the line", "%w", errBroken)
}

// parseHead looks for the head in the last bytes of a segment, which begin at
// offset from. enough is false when earlier bytes are needed to tell.
func parseHead(buf []byte, from int64) (h head, enough bool, err error) {
	last, start, end := lastStanding(buf)
	if end == 0 || start == 0 && from > 0 {
		return head{}, false, nil
	}
	follows, enough := linked(buf[:start], from, last)
	if !enough || !follows {
		return head{}, enough, errDamaged()
	}
	h = head{seq: last.Seq, sha: last.Sha, rotate: hasEvent(last.Payload, RotateEvent)}
	rest := buf[end:]
	if len(rest) == 0 {
		return h, true, nil
	}
	// A whole line that does not stand is no crash of ours, unless the writer
	// that was healing it was stopped in turn.
	nl := bytes.LastIndexByte(rest, '\n')
	healing := nl >= 0
	for _, line := range bytes.Split(rest, []byte("\n"))[1:] {
		healing = healing && len(line) > 0 && chain.InterruptedHeal(line, h.seq+1)
	}
	if len(rest) > chain.MaxTorn || nl >= 0 && !healing {
		return head{}, true, errDamaged()
	}
	at := from + int64(end)
	h.torn = tornAt(at, rest)
	// The last of it may be a whole line that lacks its newline alone: a record
	// like any other, or the one that names what is before it.
	tail := rest[nl+1:]
	if l, reason := chain.Parse(append(bytes.Clone(tail), '\n')); reason == "" && l.Prev == h.sha && l.Seq == h.seq+1 {
		names, isTorn := TornOf(l.Payload)
		if nl >= 0 && (!isTorn || names != *tornAt(at, rest[:nl])) {
			return head{}, true, errDamaged()
		}
		h.torn = tornAt(at+int64(nl+1), tail)
		h.torn.Adopted = true
		// The record that adopts an audit.rotate takes it back: the segment goes
		// on, and ends another time.
		h.seq, h.sha, h.rotate = l.Seq, l.Sha, false
	}
	return h, true, nil
}

// tornAt names the bytes at an offset.
func tornAt(at int64, text []byte) *chain.Torn {
	sum := sha256.Sum256(text)
	return &chain.Torn{At: at, Len: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}
}

// lastStanding finds the last line of text that stands by itself, and the bytes
// it is at; end is 0 for none. Text may begin within a line.
func lastStanding(text []byte) (l chain.Line, start, end int) {
	for end = bytes.LastIndexByte(text, '\n') + 1; end > 0; end = start {
		start = bytes.LastIndexByte(text[:end-1], '\n') + 1
		var reason chain.Reason
		if l, reason = chain.Parse(text[start:end]); reason == "" {
			return l, start, end
		}
	}
	return chain.Line{}, 0, 0
}

// linked says whether a line continues the text before it: the line before, or
// the fragment that it names, or nothing if it is the first.
func linked(before []byte, from int64, l chain.Line) (follows, enough bool) {
	if len(before) == 0 {
		// The first line of the chain, or that of a segment, which goes on from
		// the end of the one before: verify looks there, an append does not.
		first := l.Seq == 1 && l.Prev == chain.Zero
		return first || hasEvent(l.Payload, SegmentEvent), from == 0
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
	mode, err := safeDir(t.st.Audit())
	if err != nil {
		return err
	}
	if mode&0o077 != 0 {
		return fail.New(fail.AuditUnavailable, "chmod 700 "+t.st.Audit(), "%s: mode %04o, want 0700", t.st.Audit(), mode)
	}
	failed, err1 := exists(t.st.AuditFile("FAILED"))
	id, err2 := exists(t.st.AuditFile("id"))
	numbers, err3 := t.st.Segments()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	segment := len(numbers) > 0
	switch {
	case failed:
		return fail.New(fail.AuditUnavailable, "forge-audit recover",
			"an earlier record may not have reached the disk (%s exists)", t.st.AuditFile("FAILED"))
	case id && segment:
		return nil
	case segment && numbers[0] != 1:
		return fail.New(fail.AuditUnavailable, "write the log of a checkpoint into it", "%s is missing, and the line that names the chain was pruned", t.st.AuditFile("id"))
	case segment:
		return t.identify()
	case id:
		return fail.New(fail.AuditUnavailable, "restore it from a backup", "%s is missing", t.st.Segment(1))
	}
	if err := ledgerEmpty(t.st); err != nil {
		return err
	}
	return t.genesis()
}

// ledgerEmpty refuses to begin a chain where there was one.
func ledgerEmpty(st *store.Store) error {
	recorded, err := store.List(st.LedgerDir(), ".json")
	if err == nil && len(recorded) > 0 {
		err = fail.New(fail.AuditUnavailable, "restore "+st.Audit()+" from a backup", "the chain is gone, and the ledger is not empty")
	}
	return err
}

// safeDir returns the permissions of a directory of the chain, and refuses one
// that another could exchange.
func safeDir(path string) (mode uint32, err error) {
	var st unix.Stat_t
	switch err := unix.Lstat(path, &st); {
	case errors.Is(err, unix.ENOENT):
		return 0, fs.ErrNotExist
	case err != nil:
		return 0, fail.New(fail.IOError, "", "%s: %w", path, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return 0, fail.New(fail.IOError, "", "%s: not a directory", path)
	case int(st.Uid) != os.Geteuid():
		return 0, fail.New(fail.IOError, "", "%s: owned by uid %d, and you are uid %d", path, st.Uid, os.Geteuid())
	}
	return st.Mode & 0o777, nil
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
	err = t.st.CreateFile(t.st.Segment(1), line, store.Synced)
	if f, _, openErr := openSegment(t.st, 1); openErr == nil {
		defer f.Close()
		err = t.placed(f, err)
	}
	if err != nil {
		return err
	}
	return t.identify()
}

// placed marks the chain where a file got its name and the directory was not
// synced; f is the segment that there is.
func (t *Trail) placed(f *os.File, err error) error {
	if errors.Is(err, store.ErrUnsynced) {
		return t.unsynced(f, err)
	}
	return err
}

// identify writes the chain's id from its first line.
func (t *Trail) identify() error {
	l, err := firstLine(t.st, 1)
	if err != nil {
		return err
	}
	id, ok := logID(l.Payload)
	if !ok {
		return errDamaged()
	}
	return t.st.WriteFile(t.st.AuditFile("id"), []byte(id+"\n"), store.Synced)
}

// logID reads the chain's id from an audit.genesis payload.
func logID(payload []byte) (string, bool) {
	d, ok := detailsOf[struct {
		Log string `json:"log"`
	}](payload)
	return d.Log, ok && hasEvent(payload, Genesis) && d.Log != ""
}
