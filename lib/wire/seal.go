package wire

import (
	"crypto/sha256"
	"encoding/hex"
)

// sealLen is the length of ,"digest":"<64 hex>"} and LF.
const sealLen = 78

// Seal returns an object as one line that ends with its own digest: SHA-256
// over the bytes before the last 78, so that a shell can check it with
//
//	head -c -78 FILE | sha256sum
func Seal(object Value) (line []byte, digest string) {
	b := object.Bytes()
	b = b[:len(b)-1] // the digest goes inside the object
	digest = Sum(b)
	return append(b, `,"digest":"`+digest+"\"}\n"...), digest
}

// Sealed says whether a line ends with its own digest, and returns it.
func Sealed(line []byte) (digest string, ok bool) {
	if len(line) <= sealLen {
		return "", false
	}
	head, tail := line[:len(line)-sealLen], line[len(line)-sealLen:]
	digest = Sum(head)
	return digest, string(tail) == `,"digest":"`+digest+"\"}\n"
}

// Sum is SHA-256 in 64 lower-case hex characters.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
