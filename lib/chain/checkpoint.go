package chain

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// A Checkpoint says where the chain stood: that line Seq of log Log had that
// sha, and ended at byte End of its segment. Its text, which is signed as a
// note of golang.org/x/mod/sumdb/note, is
//
//	forge-audit chain v1
//	log 4f0c…
//	seq 123456
//	sha 9b1d…
//	segment 12
//	end 34567890
//	time 2026-11-30T19:15:00Z
//
// with a newline after each line. It is no checkpoint of a Merkle tree, and
// does not look like one.
type Checkpoint struct {
	Log     string // 32 hex
	Seq     uint64
	Sha     string // 64 hex
	Segment int    // from 1
	End     int64  // bytes of the segment up to and with the line
	Time    time.Time
}

const checkpointTitle = "forge-audit chain v1"

// Text returns the text that is signed.
func (c Checkpoint) Text() string {
	return fmt.Sprintf("%s\nlog %s\nseq %d\nsha %s\nsegment %d\nend %d\ntime %s\n",
		checkpointTitle, c.Log, c.Seq, c.Sha, c.Segment, c.End, c.Time.UTC().Format(time.RFC3339))
}

// ErrNotCheckpoint is the cause of every error of ParseCheckpoint.
var ErrNotCheckpoint = errors.New("not a checkpoint of a chain")

// ParseCheckpoint reads a text, and takes only what Text writes.
func ParseCheckpoint(text string) (Checkpoint, error) {
	var c Checkpoint
	lines := strings.Split(text, "\n")
	if len(lines) != 8 || lines[0] != checkpointTitle {
		return c, ErrNotCheckpoint
	}
	words := map[string]string{}
	for _, l := range lines[1:7] {
		name, value, _ := strings.Cut(l, " ")
		words[name] = value
	}
	var errs [4]error
	c.Log, c.Sha = words["log"], words["sha"]
	c.Seq, errs[0] = strconv.ParseUint(words["seq"], 10, 64)
	c.Segment, errs[1] = strconv.Atoi(words["segment"])
	c.End, errs[2] = strconv.ParseInt(words["end"], 10, 64)
	c.Time, errs[3] = time.Parse(time.RFC3339, words["time"])
	if errors.Join(errs[:]...) != nil || c.Text() != text || !isHex([]byte(c.Log)) || len(c.Log) != 32 ||
		!isHex([]byte(c.Sha)) || len(c.Sha) != 64 || c.Segment < 1 || c.End < 1 || c.Seq < 1 {
		return Checkpoint{}, ErrNotCheckpoint
	}
	return c, nil
}

// NewKey makes a pair of keys for signing checkpoints under a name, in the text
// form of the note package. Chance comes from random.
func NewKey(random io.Reader, name string) (private, public string, err error) {
	return note.GenerateKey(random, name)
}

// Public returns the public half of a private key, both in the text form of the
// note package.
func Public(private string) (string, error) {
	if _, err := note.NewSigner(private); err != nil {
		return "", err
	}
	// PRIVATE+KEY+name+hash+base64 of the algorithm, one byte, and the seed
	fields := strings.SplitN(private, "+", 5)
	seed, err := base64.StdEncoding.DecodeString(fields[4])
	if err != nil {
		return "", err
	}
	key := ed25519.NewKeyFromSeed(seed[1:])
	return note.NewEd25519VerifierKey(fields[2], key.Public().(ed25519.PublicKey))
}

// Sign returns a checkpoint as a signed note.
func Sign(c Checkpoint, private string) ([]byte, error) {
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: c.Text()}, signer)
}

// Signed is a note that at least one trusted key signed.
type Signed struct {
	Checkpoint
	Keys []string // names of the trusted keys that signed it
}

// OpenNote reads a signed note. Signatures by keys that are not among the public
// ones are passed over; a bad signature by one that is rejects the note
// (*note.InvalidSignatureError), and no trusted signature at all does too
// (*note.UnverifiedNoteError).
func OpenNote(msg []byte, public []string) (Signed, error) {
	var verifiers []note.Verifier
	for _, p := range public {
		v, err := note.NewVerifier(p)
		if err != nil {
			return Signed{}, err
		}
		verifiers = append(verifiers, v)
	}
	n, err := note.Open(msg, note.VerifierList(verifiers...))
	if err != nil {
		return Signed{}, err
	}
	c, err := ParseCheckpoint(n.Text)
	s := Signed{Checkpoint: c}
	for _, sig := range n.Sigs {
		s.Keys = append(s.Keys, sig.Name)
	}
	return s, err
}

// ParseNote returns what a signed note says, whoever signed it. The error is
// that of the note package, or ErrNotCheckpoint.
func ParseNote(msg []byte) (Checkpoint, error) {
	_, err := note.Open(msg, note.VerifierList())
	unverified, ok := errors.AsType[*note.UnverifiedNoteError](err)
	if !ok {
		return Checkpoint{}, err
	}
	return ParseCheckpoint(unverified.Note.Text)
}
