package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// MaxFrame is the most bytes one line of input may have. A longer one is
// skipped to its end and refused; what follows is read as usual.
const MaxFrame = 16 << 20

// The codes of JSON-RPC that this server answers with.
const (
	codeParse    = -32700 // not JSON
	codeRequest  = -32600 // JSON, but not a request that can be taken
	codeMethod   = -32601 // no such method
	codeParams   = -32602 // parameters that do not fit, or no such tool
	codeInternal = -32603 // a command of Forge is missing
)

// A protoError is an answer of JSON-RPC's own, as opposed to a tool's envelope.
type protoError struct {
	code    int
	message string
}

func protof(code int, format string, args ...any) *protoError {
	return &protoError{code, fmt.Sprintf(format, args...)}
}

var errTooLong = errors.New("line too long")

// A frames reads lines without bound on their number and with one on their
// length. bufio.Scanner ends for good at its first long line; this does not.
type frames struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func newFrames(r io.Reader, limit int) *frames {
	return &frames{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// next returns the next line that is not blank, without byte order mark and
// blanks around it; it is valid until the following call. At the end of the
// input the last line needs no line feed. Errors: errTooLong (the line has been
// skipped), io.EOF, and what reading gives.
func (f *frames) next() ([]byte, error) {
	for {
		line, err := f.line()
		if err == errTooLong {
			return nil, err
		}
		line = bytes.Trim(bytes.TrimPrefix(line, []byte("\ufeff")), " \t\r\n")
		if len(line) > 0 {
			return line, nil // an error comes again with the next call
		}
		if err != nil {
			return nil, err
		}
	}
}

func (f *frames) line() ([]byte, error) {
	if cap(f.buf) > 1<<20 {
		f.buf = nil // one large frame does not keep its room for good
	}
	f.buf = f.buf[:0]
	for long := false; ; {
		part, err := f.r.ReadSlice('\n')
		if !long {
			if err == nil && len(f.buf) == 0 && len(part) <= f.max {
				return part, nil
			}
			f.buf = append(f.buf, part...)
			long = len(bytes.TrimSuffix(f.buf, []byte("\n"))) > f.max
		}
		switch {
		case err == bufio.ErrBufferFull:
		case long:
			return nil, errTooLong
		default:
			return f.buf, err
		}
	}
}

// A message is one frame, cut into its parts; nothing in it is decoded further
// than the order of things needs. The slices point into the line it came from.
type message struct {
	id       []byte // a string or number as it was written; nil if there is none
	method   string
	params   []byte // an object as it was written; nil if there is none
	response bool   // an answer to something, which this server never asked
}

// parse cuts a line into a message. With an error the message still holds the
// id, if that was one.
func parse(line []byte) (message, *protoError) {
	var m message
	if !utf8.Valid(line) {
		return m, protof(codeParse, "the line is not valid UTF-8")
	}
	if !json.Valid(line) {
		var raw json.RawMessage
		return m, protof(codeParse, "the line is not one JSON value: %v", json.Unmarshal(line, &raw))
	}
	switch line[0] {
	case '{':
	case '[':
		return m, protof(codeRequest, "batches are not taken: write one message a line")
	default:
		return m, protof(codeRequest, "a message is a JSON object")
	}
	p, bad := cut(line, "jsonrpc", "id", "method", "params", "result", "error")
	if bad != "" {
		return m, protof(codeRequest, "member %q stands twice", bad)
	}
	version, id, method, params := p[0], p[1], p[2], p[3]
	if id != nil {
		if c := id[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
			return m, protof(codeRequest, "id is neither a string nor a number")
		}
		m.id = id
	}
	if text(version) != "2.0" {
		return m, protof(codeRequest, `jsonrpc is not "2.0"`)
	}
	if method == nil && (p[4] != nil || p[5] != nil) {
		m.response = true
		return m, nil
	}
	if method == nil || method[0] != '"' {
		return m, protof(codeRequest, "method is not a string")
	}
	m.method = text(method)
	switch {
	case params == nil || object(params):
		m.params = params
	case m.id != nil: // a notification is not answered, whatever is wrong with it
		return m, protof(codeParams, "params is not an object")
	}
	return m, nil
}

// cut returns the members of those names of object, which must be valid JSON
// and begin with a brace, as they were written; nil for one that is absent. A
// name is compared after unescaping and with its case. The second result is one
// of the names that stands twice, or "".
func cut(object []byte, names ...string) ([][]byte, string) {
	found := make([][]byte, len(names))
	at := 1
	for {
		at = skipBlanks(object, at)
		switch object[at] {
		case '}':
			return found, ""
		case ',':
			at = skipBlanks(object, at+1)
		}
		start := at
		at = skipString(object, at)
		name := object[start:at]
		at = skipBlanks(object, at)
		start = skipBlanks(object, at+1) // the colon
		at = skipValue(object, start)
		key := text(name)
		for i, n := range names {
			if n == key {
				if found[i] != nil {
					return nil, n
				}
				found[i] = object[start:at]
			}
		}
	}
}

func skipBlanks(b []byte, at int) int {
	for b[at] == ' ' || b[at] == '\t' || b[at] == '\n' || b[at] == '\r' {
		at++
	}
	return at
}

func skipString(b []byte, at int) int {
	for at++; b[at] != '"'; at++ {
		if b[at] == '\\' {
			at++
		}
	}
	return at + 1
}

func skipValue(b []byte, at int) int {
	depth := 0
	for {
		switch b[at] {
		case '"':
			at = skipString(b, at)
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		case ' ', '\t', '\n', '\r', ',', ':':
			at++
			continue
		default: // a number or a word
			for at < len(b) && bytes.IndexByte([]byte(" \t\n\r,:]}"), b[at]) < 0 {
				at++
			}
		}
		if depth == 0 {
			return at
		}
	}
}

// text returns the characters of a JSON string, "" for anything else.
func text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// object says whether raw, valid JSON, is an object.
func object(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// null says whether raw is absent or null, which clients write for absent.
func null(raw []byte) bool { return raw == nil || raw[0] == 'n' }
