package wire

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Type is what a Value is.
type Type uint8

// The six JSON types.
const (
	Null Type = iota
	Bool
	Number
	String
	Array
	Object
)

func (t Type) String() string {
	return [...]string{"null", "boolean", "number", "string", "array", "object"}[t]
}

// A Value is one JSON value. Objects keep the order of their members, numbers
// keep their literal: what was read prints back digit for digit. The zero Value
// is null.
type Value struct {
	typ     Type
	text    string // Bool: true or false; Number: the literal; String: decoded
	items   []Value
	members []Member
	pos     int // offset of the first byte in what was read
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value Value
}

// Type returns what v is.
func (v Value) Type() Type { return v.typ }

// Pos returns the offset, in bytes, at which v began in the text it was read
// from; 0 for a Value made here.
func (v Value) Pos() int { return v.pos }

// Text returns a string's characters, a number's literal, "true" or "false";
// "" for the others.
func (v Value) Text() string {
	if v.typ == Array || v.typ == Object {
		return ""
	}
	return v.text
}

// Items returns an array's items, nil for the others.
func (v Value) Items() []Value { return v.whole().items }

// Members returns an object's members in the order they were read.
func (v Value) Members() []Member { return v.whole().members }

// whole takes apart an array or object that Limits.Keep left as its text, which
// was found to be well formed then.
func (v Value) whole() Value {
	if v.text == "" || v.typ != Array && v.typ != Object {
		return v
	}
	w, err := Parse([]byte(v.text), Limits{Size: len(v.text), Depth: maxDepth, NUL: true})
	if err != nil {
		return Value{typ: v.typ}
	}
	w.pos = v.pos
	return w
}

// Get returns the member of that exact name.
func (v Value) Get(name string) (Value, bool) {
	for _, m := range v.Members() {
		if m.Name == name {
			return m.Value, true
		}
	}
	return Value{}, false
}

// Set returns v, an object, with that member replaced, or added at the end.
func (v Value) Set(name string, value Value) Value {
	members := make([]Member, 0, len(v.members)+1)
	done := false
	for _, m := range v.Members() {
		if m.Name == name {
			m.Value, done = value, true
		}
		members = append(members, m)
	}
	if !done {
		members = append(members, Member{name, value})
	}
	return ObjectOf(members...)
}

// Int returns a number's value if its literal is a plain integer of 64 bits.
func (v Value) Int() (int64, bool) {
	if v.typ != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	return n, err == nil
}

// StringOf returns s as a Value. s must be valid UTF-8.
func StringOf(s string) Value { return Value{typ: String, text: s} }

// IntOf returns n as a Value.
func IntOf(n int64) Value { return Value{typ: Number, text: strconv.FormatInt(n, 10)} }

// NumberOf returns the number with that literal, which must be a JSON number.
func NumberOf(literal string) Value { return Value{typ: Number, text: literal} }

// BoolOf returns b as a Value.
func BoolOf(b bool) Value { return Value{typ: Bool, text: strconv.FormatBool(b)} }

// ArrayOf returns an array.
func ArrayOf(items ...Value) Value { return Value{typ: Array, items: items} }

// ObjectOf returns an object; the names must differ.
func ObjectOf(members ...Member) Value { return Value{typ: Object, members: members} }

// Any returns v in the shapes of encoding/json: map[string]any, []any, string,
// json.Number, bool, nil.
func (v Value) Any() any {
	v = v.whole()
	switch v.typ {
	case Bool:
		return v.text == "true"
	case Number:
		return json.Number(v.text)
	case String:
		return v.text
	case Array:
		items := make([]any, len(v.items))
		for i, it := range v.items {
			items[i] = it.Any()
		}
		return items
	case Object:
		m := make(map[string]any, len(v.members))
		for _, mb := range v.members {
			m[mb.Name] = mb.Value.Any()
		}
		return m
	}
	return nil
}

// Append appends v to dst as compact JSON: no blanks, strings with the fewest
// escapes, numbers by their literal. Equal values read from equal tokens give
// equal bytes.
func (v Value) Append(dst []byte) []byte {
	if v.text != "" && (v.typ == Array || v.typ == Object) {
		return appendCompact(dst, v.text)
	}
	switch v.typ {
	case Bool, Number:
		return append(dst, v.text...)
	case String:
		return appendString(dst, v.text)
	case Array:
		dst = append(dst, '[')
		for i, it := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = it.Append(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, m.Name)
			dst = append(dst, ':')
			dst = m.Value.Append(dst)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// Bytes returns v as compact JSON.
func (v Value) Bytes() []byte { return v.Append(nil) }

func (v Value) String() string { return string(v.Bytes()) }

// MarshalJSON lets a Value stand inside a struct that encoding/json prints.
func (v Value) MarshalJSON() ([]byte, error) { return v.Bytes(), nil }

// appendCompact appends JSON text without the blanks between its tokens, and DEL
// escaped as appendString does.
func appendCompact(dst []byte, text string) []byte {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			dst = append(dst, c, text[i+1])
			i++
		case inString && c == 0x7f:
			dst = append(dst, `\u007f`...)
		case c == '"':
			inString = !inString
			dst = append(dst, c)
		case !inString && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendString quotes s. Only what JSON demands is escaped: quote, backslash
// and control characters (DEL too, which terminals act on).
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// Of returns a Go value, as encoding/json would print it, as a Value.
func Of(x any) (Value, error) {
	if v, ok := x.(Value); ok {
		return v, nil
	}
	b, err := Encode(x)
	if err != nil {
		return Value{}, err
	}
	return Parse(b, Limits{Size: len(b), Depth: maxDepth})
}

// Clean returns s as valid UTF-8 for a message or a record: each bad byte
// becomes U+FFFD.
func Clean(s []byte) string {
	if utf8.Valid(s) {
		return string(s)
	}
	return string([]rune(string(s)))
}
